//! Locks that a forked child inherits, and gives up at once.
//!
//! A lock belongs to an open file, and is held until nobody has that open any more. A forked child has it open, too:
//! through its copy of the descriptor, and through its copies of mappings of it. So if the parent were killed, the
//! child would keep the pool from everybody, though it may not use it. Therefore mappings are of another opening of the
//! same file, which has no lock. A child puts this one in place of its copy of the locked one, before `fork` returns to
//! it. What it still has of handles stays valid.
//!
//! A handler in a child takes no lock and allocates nothing. Descriptors are in a list that only grows; its entries are
//! used again.

use super::access::Access;
use super::located::Located;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

pub(super) const NONE: i32 = -1;

#[derive(Debug)]
pub(super) struct Entry {
    is_taken: AtomicBool,
    /// The descriptor that has the lock.
    locked: AtomicI32,
    /// One of the other opening.
    other: AtomicI32,
    /// Never changes once the entry is in the list.
    next: AtomicPtr<Entry>,
}

static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut next = &ENTRIES;
    std::iter::from_fn(move || {
        // SAFETY: entries are leaked boxes, published with all their fields, and never freed.
        let entry: &'static Entry = unsafe { next.load(Ordering::Acquire).as_ref()? };
        next = &entry.next;
        Some(entry)
    })
}

/// That children give up the lock on a file; until dropped.
#[derive(Debug)]
pub(super) struct GivenUp {
    entry: &'static Entry,
    other: File,
}

impl GivenUp {
    /// For who is about to lock `file`. `None` if it cannot be opened once more, as one that has no name yet, where
    /// there is no /proc: then children keep the lock.
    pub(super) fn by_children(
        file: &File,
        at: Option<&Located>,
        access: Access,
    ) -> Option<GivenUp> {
        watch_forks().ok()?;
        let other = open_again(file, at, access)?;
        let entry = Entry::take(file.as_raw_fd(), other.as_raw_fd());
        Some(GivenUp { entry, other })
    }

    /// The file, without the lock.
    pub(super) fn unlocked(&self) -> &File {
        &self.other
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.entry.give_back();
    }
}

impl Entry {
    /// An entry for a descriptor, and what children have in its place.
    pub(super) fn take(locked: i32, other: i32) -> &'static Entry {
        let is_free = |entry: &&Entry| !entry.is_taken.swap(true, Ordering::Acquire);
        let entry = entries().find(is_free).unwrap_or_else(Entry::add);
        entry.other.store(other, Ordering::Relaxed);
        entry.locked.store(locked, Ordering::Release);
        entry
    }

    pub(super) fn give_back(&self) {
        self.locked.store(NONE, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Adds an entry, taken, to the list.
    fn add() -> &'static Entry {
        let entry: &'static mut Entry = Box::leak(Box::new(Entry {
            is_taken: AtomicBool::new(true),
            locked: AtomicI32::new(NONE),
            other: AtomicI32::new(NONE),
            next: AtomicPtr::new(ptr::null_mut()),
        }));
        let place: *mut Entry = entry;
        let mut first = ENTRIES.load(Ordering::Acquire);
        loop {
            entry.next.store(first, Ordering::Relaxed);
            match ENTRIES.compare_exchange(first, place, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return entry,
                Err(other) => first = other,
            }
        }
    }
}

fn open_again(file: &File, at: Option<&Located>, access: Access) -> Option<File> {
    let flags = match access {
        Access::Write => OFlags::RDWR,
        Access::Read => OFlags::RDONLY,
    };
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = rustix::fs::open(itself, flags | OFlags::CLOEXEC, Mode::empty());
    let by_name = || {
        // What is no regular file by now may wait for its other end.
        let at = at.filter(|at| at.is_of(file))?;
        at.open(flags | OFlags::NONBLOCK, Mode::empty()).ok()
    };
    opened
        .ok()
        .map(File::from)
        .filter(|again| are_same(again, file))
        .or_else(by_name)
        .filter(|again| are_same(again, file))
}

fn are_same(one: &File, other: &File) -> bool {
    let id = |file| rustix::fs::fstat(file).map(|found| (found.st_dev, found.st_ino));
    id(one).is_ok_and(|found| id(other) == Ok(found))
}

extern "C" fn give_up() {
    for entry in entries() {
        let locked = entry.locked.load(Ordering::Acquire);
        if locked != NONE {
            let other = entry.other.load(Ordering::Relaxed);
            // SAFETY: both are descriptors of the entry's owner, which stay open until it has said otherwise. The call
            // may be made in a forked child.
            unsafe { libc::dup3(other, locked, libc::O_CLOEXEC) };
        }
    }
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

pub(super) fn watch_forks() -> io::Result<()> {
    // Not a `OnceLock`, which a forked child could inherit amid its initialisation by another thread. Registered twice,
    // the handler does the same twice.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if WATCHED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handler makes system calls only.
    match unsafe { pthread_atfork(None, None, Some(give_up)) } {
        0 => WATCHED.store(true, Ordering::Release),
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    Ok(())
}
