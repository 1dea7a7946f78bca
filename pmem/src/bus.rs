//! SIGBUS as an error of the one pool that lost a page of its file.
//!
//! A page of a mapped file may vanish: another program truncates the file, or its device fails. The kernel answers the
//! next access with SIGBUS, which ends the process. Where a medium is *watched*, a handler goes on instead:
//!
//! 1. It looks the address up among the watched mappings. Any other goes to the handler that was there before.
//! 2. It marks the medium as failed. From then on whoever uses the pool can ask for that. It closes the pool's
//!    [view](crate::view), so no guest believes what is made of zeros, or of stores that reach no file.
//! 3. It maps what the file still has privately: readers go on to see it, and no store reaches the file any more. What
//!    somebody stores after reading zeros would damage more of it.
//! 4. It maps zeros in place of the missing page, and returns. The access is repeated, and finds them.
//!
//! The mark comes first: whoever can have read zeros finds it afterwards. A log therefore looks for it after it has
//! collected what threads append, and a checkpoint after it has copied the pool.
//!
//! A handler may interrupt anything, so it takes no lock and allocates nothing. Mappings are in a list that only grows;
//! its entries are used again.

use crate::sync;
use crate::view::View;
use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A mapping that may be watched.
#[derive(Debug)]
struct Entry {
    /// Somebody watches under this entry.
    is_taken: AtomicBool,
    /// Even, and another one, whenever the fields below belong to another mapping.
    version: AtomicU64,
    start: AtomicUsize,
    /// Bytes of addresses.
    bytes: AtomicUsize,
    /// Of these, bytes with a file behind them.
    mapped: AtomicUsize,
    file: AtomicI32,
    /// What guests see of the pool; null if they see nothing. The watch keeps it.
    view: AtomicPtr<View>,
    is_writable: AtomicBool,
    has_failed: AtomicBool,
    is_counted: AtomicBool,
    is_private: AtomicBool,
    /// Never changes once the entry is in the list.
    next: AtomicPtr<Entry>,
}

/// How pages are replaced.
const FIXED: MapFlags = MapFlags::PRIVATE.union(MapFlags::FIXED).union(MapFlags::NORESERVE);

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// The handler before this one, and its flags.
static FORMER_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static FORMER_FLAGS: AtomicI32 = AtomicI32::new(0);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut next = &ENTRIES;
    std::iter::from_fn(move || {
        // SAFETY: entries are leaked boxes, published with all their fields, and never freed.
        let entry: &'static Entry = unsafe { next.load(Ordering::Acquire).as_ref()? };
        next = &entry.next;
        Some(entry)
    })
}

/// A watched mapping, until dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    entry: &'static Entry,
    view: OnceLock<Arc<View>>,
}

impl Watch {
    /// Watches `range`, the addresses of a mapping of `file`, which must not be closed before this is dropped.
    pub(crate) fn over(range: Range<usize>, file: &File, is_writable: bool) -> io::Result<Watch> {
        install()?;
        let take = |entry: &&Entry| {
            let taken =
                entry.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let entry = entries().find(take).unwrap_or_else(Entry::add);
        entry.version.fetch_add(1, Ordering::AcqRel);
        entry.start.store(range.start, Ordering::Relaxed);
        entry.bytes.store(range.len(), Ordering::Relaxed);
        entry.mapped.store(0, Ordering::Relaxed);
        entry.file.store(file.as_raw_fd(), Ordering::Relaxed);
        entry.view.store(ptr::null_mut(), Ordering::Relaxed);
        entry.is_writable.store(is_writable, Ordering::Relaxed);
        for mark in [&entry.has_failed, &entry.is_counted, &entry.is_private] {
            mark.store(false, Ordering::Relaxed);
        }
        entry.version.fetch_add(1, Ordering::Release);
        Ok(Watch { entry, view: OnceLock::new() })
    }

    /// Says that the first `bytes` are mapped.
    pub(crate) fn set_mapped(&self, bytes: u64) {
        self.entry.mapped.store(bytes as usize, Ordering::Release);
    }

    /// Makes the medium fail before anybody reads a missing page.
    pub(crate) fn fail(&self) {
        self.entry.fail();
    }

    /// Closes this view before anybody reads a missing page. One view, once.
    pub(crate) fn close_on_failure(&self, view: &Arc<View>) {
        let view = Arc::as_ptr(self.view.get_or_init(|| Arc::clone(view))).cast_mut();
        self.entry.view.store(view, Ordering::SeqCst);
        if self.has_failed() {
            self.entry.close_view();
        }
    }

    /// Whether a page was missing.
    pub(crate) fn has_failed(&self) -> bool {
        self.entry.has_failed.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.entry.version.fetch_add(1, Ordering::AcqRel);
        self.entry.bytes.store(0, Ordering::Relaxed);
        self.entry.version.fetch_add(1, Ordering::Release);
        self.entry.is_taken.store(false, Ordering::Release);
    }
}

impl Entry {
    /// Adds an entry, taken, to the list.
    fn add() -> &'static Entry {
        let entry: &'static mut Entry = Box::leak(Box::new(Entry {
            is_taken: AtomicBool::new(true),
            version: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            file: AtomicI32::new(-1),
            view: AtomicPtr::new(ptr::null_mut()),
            is_writable: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            is_private: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let place: *mut Entry = entry;
        let mut first = ENTRIES.load(Ordering::Acquire);
        loop {
            entry.next.store(first, Ordering::Relaxed);
            let added = ENTRIES.compare_exchange(first, place, Ordering::AcqRel, Ordering::Acquire);
            match added {
                Ok(_) => return entry,
                Err(other) => first = other,
            }
        }
    }

    /// Whether the address is in the mapping. The entry of an address that the calling thread has just accessed does
    /// not change, since it has borrowed the mapping. One that changes is another's.
    fn holds(&self, address: usize) -> bool {
        let version = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        let is_inside = address >= start && address - start < bytes;
        is_inside && version.is_multiple_of(2) && self.version.load(Ordering::Acquire) == version
    }

    /// Marks the mapping as failed, and keeps all further stores from the file; whether that worked.
    fn fail(&self) -> bool {
        self.has_failed.store(true, Ordering::SeqCst);
        self.close_view();
        if !self.is_counted.load(Ordering::SeqCst) {
            // Two threads at once count twice, which is as good. None returns before it is counted.
            sync::count_bus_error();
            self.is_counted.store(true, Ordering::SeqCst);
        }
        if self.is_private.swap(true, Ordering::SeqCst) {
            return true;
        }
        let start = self.start.load(Ordering::Relaxed) as *mut c_void;
        let mapped = self.mapped.load(Ordering::Acquire);
        // SAFETY: the file stays open as long as the mapping is watched.
        let file = unsafe { BorrowedFd::borrow_raw(self.file.load(Ordering::Relaxed)) };
        // SAFETY: the caller uses the medium, which is alive therefore and has mapped the range. The new pages show
        // what the old ones did. A page that another thread has replaced by zeros meanwhile is missing again, and is
        // replaced again.
        let mapped_anew =
            unsafe { rustix::mm::mmap(start, mapped, self.protection(), FIXED, file, 0) };
        // SAFETY: advice about core files, which the pool is kept out of, changes nothing in the process.
        let _ = unsafe { rustix::mm::madvise(start, mapped, Advice::LinuxDontDump) };
        mapped_anew.is_ok()
    }

    fn close_view(&self) {
        // SAFETY: the caller uses the medium, and so the watch, which keeps the view.
        if let Some(view) = unsafe { self.view.load(Ordering::SeqCst).as_ref() } {
            view.close();
        }
    }

    /// Puts zeros in place of the page at `address`; whether that worked.
    fn replace(&self, address: usize) -> bool {
        let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
        let page = (address & !(page_bytes - 1)) as *mut c_void;
        // SAFETY: the page lies in the medium's own mapping. Its content is gone: whoever still holds bytes of it could
        // not read them without this, and reads zeros now.
        unsafe { rustix::mm::mmap_anonymous(page, page_bytes, self.protection(), FIXED) }.is_ok()
    }

    fn protection(&self) -> ProtFlags {
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, self.is_writable.load(Ordering::Relaxed));
        protection
    }
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid one to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    if matches!(code, libc::BUS_ADRERR | libc::BUS_MCEERR_AR) {
        // SAFETY: with these codes it has an address.
        let address = unsafe { (*info).si_addr() } as usize;
        if entries()
            .find(|entry| entry.holds(address))
            .is_some_and(|entry| entry.fail() && entry.replace(address))
        {
            return;
        }
    }
    pass_on(signal, code, info, context);
}

/// Does what would have been done without this handler.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let former = FORMER_HANDLER.load(Ordering::Acquire);
    let is_fault = code > 0;
    match former {
        // The kernel does not let a fault be ignored.
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: both calls may be made in a handler. A fault repeats itself, and a signal that was sent is sent
            // again; it comes when this handler returns.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler if FORMER_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: with this flag the program has said that its handler is such a function.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is one that takes the signal alone.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

/// Installs the handler, once. A program that later installs another one decides by that one.
fn install() -> io::Result<()> {
    // Not a `OnceLock`, which a forked child could inherit amid its initialisation by another thread.
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
    let handler = on_bus_error as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    let handler = handler as *const () as usize;
    // SAFETY: all zeros is a valid value of this plain struct, and both pointers are to such.
    let installed = unsafe {
        let mut former: libc::sigaction = std::mem::zeroed();
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler;
        // On the stack that a thread has for signals, as the standard library's handler is.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let found = libc::sigaction(libc::SIGBUS, ptr::null(), &mut former);
        if found == 0 && former.sa_sigaction != handler {
            FORMER_FLAGS.store(former.sa_flags, Ordering::Relaxed);
            FORMER_HANDLER.store(former.sa_sigaction, Ordering::Release);
        }
        if found == 0 { libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) } else { found }
    };
    if installed != 0 {
        return Err(io::Error::last_os_error());
    }
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}
