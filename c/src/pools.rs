//! Open stores and tables, by their handles.
//!
//! A handle is a number that is passed off as an address, so that the compiler of C tells handles of different kinds
//! apart. Nobody reads what would be there:
//!
//! ```text
//!   63     60 59                              12 11            0
//!  +---------+----------------------------------+---------------+
//!  |  kind   |  how often the slot was used     |  slot         |
//!  +---------+----------------------------------+---------------+
//! ```
//!
//! So a handle that was closed, or never was one, is told from all that are open.

use crate::code::Code;
use crate::failure::Failure;
use crate::handle::{KIND_SHIFT, Kind, POOLS_MAX, SLOT_BITS, slot_of};
use crate::threads::{self, Current, Visiting};
use firndex::{Pool, Store};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles have 64 bits, and are passed off as addresses");

const USE_MASK: u64 = (1 << (KIND_SHIFT - SLOT_BITS)) - 1;

/// Tables of the C interface.
pub(crate) type Table = firndex::Table<u64, u64>;

/// What can be opened.
pub(crate) trait Opened: Deref<Target = Pool> + Send + Sync + Sized + 'static {
    const KIND: Kind;

    fn close(self) -> firndex::Result<()>;
}

impl Opened for Store {
    const KIND: Kind = Kind::Store;

    fn close(self) -> firndex::Result<()> {
        Store::close(self)
    }
}

impl Opened for Table {
    const KIND: Kind = Kind::Table;

    fn close(self) -> firndex::Result<()> {
        Table::close(self)
    }
}

/// A place for an open store or table.
struct Slot {
    /// The handle of what is open here; 0 if it is being closed, or nothing is.
    handle: AtomicU64,
    /// A `Store` or a `Table`, as the handle says.
    opened: AtomicPtr<()>,
    uses: AtomicU64,
    is_taken: AtomicBool,
}

static SLOTS: [Slot; POOLS_MAX] = [const {
    Slot {
        handle: AtomicU64::new(0),
        opened: AtomicPtr::new(ptr::null_mut()),
        uses: AtomicU64::new(0),
        is_taken: AtomicBool::new(false),
    }
}; POOLS_MAX];

/// Gives what was opened a handle.
pub(crate) fn admit<T: Opened>(opened: T) -> Result<u64, Failure> {
    let is_free = |slot: &Slot| {
        !slot.is_taken.load(Ordering::Relaxed) && !slot.is_taken.swap(true, Ordering::Acquire)
    };
    let Some(index) = SLOTS.iter().position(is_free) else {
        let message = format!(
            "{POOLS_MAX} stores and tables are open, at most {POOLS_MAX} can be: close some, and open this one again"
        );
        // The error is that of the handle; the pool is as it was.
        let _ = opened.close();
        return Err(Failure::new(Code::TooMany, message));
    };
    let slot = &SLOTS[index];
    let uses = (slot.uses.fetch_add(1, Ordering::Relaxed) + 1) & USE_MASK;
    let handle = (T::KIND as u64) << KIND_SHIFT | uses << SLOT_BITS | index as u64;
    slot.opened.store(Box::into_raw(Box::new(opened)).cast(), Ordering::Release);
    slot.handle.store(handle, Ordering::Release);
    Ok(handle)
}

/// A call that uses an open store or table, which stays open meanwhile.
pub(crate) struct Visit<T> {
    opened: *const T,
    handle: u64,
    _visiting: Visiting,
    _of: PhantomData<T>,
}

impl<T: Opened> Visit<T> {
    /// Begins to use what has this handle, if it is open.
    #[inline(always)]
    pub(crate) fn begin(handle: u64) -> Result<Visit<T>, Failure> {
        T::KIND.check(handle)?;
        let visiting = Current::find().visit(handle)?;
        let slot = &SLOTS[slot_of(handle)];
        // Acquire: what `admit` has put there is seen.
        if slot.handle.load(Ordering::Acquire) != handle {
            return Err(closed(T::KIND));
        }
        let opened = slot.opened.load(Ordering::Relaxed).cast::<T>();
        Ok(Visit { opened, handle, _visiting: visiting, _of: PhantomData })
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }
}

impl<T> Deref for Visit<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the slot had this handle after the visit was announced, so a close waits for the end of the visit
        // before it frees what is there; and what has a handle of this kind is a `T`.
        unsafe { &*self.opened }
    }
}

#[cold]
fn closed(kind: Kind) -> Failure {
    let message = format!(
        "the handle is {} that was closed, or is being closed by another thread; open it again",
        kind.noun()
    );
    Failure::new(Code::Closed, message)
}

/// Closes what has this handle, once no call uses it any more. If values or iterators are held it stays open, but for
/// iterators of the calling thread, which end.
pub(crate) fn close<T: Opened>(handle: u64) -> Result<(), Failure> {
    T::KIND.check(handle)?;
    let index = slot_of(handle);
    let slot = &SLOTS[index];
    let taken = slot.handle.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        return Err(closed(T::KIND));
    }
    threads::wait_for_calls(handle);
    let own = threads::with_held(|held, _| held.iterators_of(handle)).unwrap_or(0);
    let held = threads::held_of(index);
    if held > own {
        slot.handle.store(handle, Ordering::Release);
        return Err(in_use(T::KIND, held - own));
    }
    let _ = threads::with_held(|held, thread| held.end_iterators_of(handle, thread));
    let opened = slot.opened.swap(ptr::null_mut(), Ordering::AcqRel).cast::<T>();
    // SAFETY: `admit` made it of a box of a `T`, and the exchange of the handle gave it to this call alone. No visit is
    // under way, none can begin, and no value or iterator is left that borrows it.
    let opened = unsafe { Box::from_raw(opened) };
    slot.is_taken.store(false, Ordering::Release);
    Ok(opened.close()?)
}

#[cold]
fn in_use(kind: Kind, held: u64) -> Failure {
    let message = format!(
        "{held} values or iterators of {} are still held, and keep it open: release the values, free the iterators \
         that other threads have, then close it",
        kind.noun()
    );
    Failure::new(Code::InUse, message)
}
