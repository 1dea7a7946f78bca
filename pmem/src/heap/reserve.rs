//! Slots set aside, so that values can be replaced in a heap that is full.
//!
//! Each class with a segment keeps a few slots that new items do not get. An item that replaces another may take one
//! when nothing else is left. Once nobody can hold the replaced item any more, its slot is set aside in turn. So
//! replacing can go on for ever in a heap to which nothing can be added. Large items have one run of segments set aside
//! in the same way. It has the length of the largest item, up to a limit, so that no second copy of a huge value has to
//! be kept free; or of several items, if they are not that large.

use crate::offset::Offset;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Most slots that a class sets aside: this many threads can replace values of the class at a time.
const SLOTS_MAX: u64 = 8;
/// A class sets aside at most this fraction of a slab, if that is more than a slot ...
const SLAB_FRACTION: u64 = 3;
/// ... and at most this many bytes.
const SLOTS_BYTES_MAX: u64 = 64 << 10;
/// Most bytes that are set aside for large items. On the crash lab's machine a pool has few.
const RUN_BYTES_MAX: u64 = if cfg!(feature = "simulated") { 512 } else { 1 << 20 };

/// The run has room for this many items, so that as many threads can replace large values at a time ...
const ITEMS_OF_A_RUN: u64 = if cfg!(feature = "simulated") { 1 } else { 4 };
/// ... if that is no more than this.
const RUN_OF_SEVERAL_BYTES_MAX: u64 = 64 << 10;

/// The slots that one class has set aside.
#[derive(Debug)]
pub(super) struct Reserve {
    slots: Mutex<Vec<Offset>>,
    /// How many it should have.
    wanted: usize,
    /// How many slots are missing. A hint for threads that free a slot; exact under the lock.
    missing: AtomicU64,
}

impl Reserve {
    /// An empty reserve, for a class with this many slots in a slab, each of so many bytes.
    pub(super) fn new(slots_of_slab: u64, slot_bytes: u64) -> Reserve {
        let most = (SLOTS_BYTES_MAX / slot_bytes).clamp(1, SLOTS_MAX);
        let wanted = (slots_of_slab / SLAB_FRACTION).clamp(1, most);
        Reserve {
            slots: Mutex::default(),
            wanted: wanted as usize,
            missing: AtomicU64::new(wanted),
        }
    }

    pub(super) fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Sets a free slot aside if one is missing and the slot's segment `stays`. That is asked under the lock, while
    /// nobody can take slots out of the reserve.
    #[inline]
    pub(super) fn put(&self, slot: Offset, stays: impl Fn() -> bool) -> bool {
        self.missing() != 0 && self.put_missing(slot, stays)
    }

    #[cold]
    fn put_missing(&self, slot: Offset, stays: impl Fn() -> bool) -> bool {
        let mut slots = self.slots.lock();
        let is_missing = slots.len() < self.wanted && stays();
        if is_missing {
            slots.push(slot);
            self.count(&slots);
        }
        is_missing
    }

    pub(super) fn take(&self) -> Option<Offset> {
        let mut slots = self.slots.lock();
        let slot = slots.pop();
        self.count(&slots);
        slot
    }

    fn count(&self, slots: &[Offset]) {
        self.missing.store((self.wanted - slots.len()) as u64, Ordering::Relaxed);
    }

    /// What is set aside.
    pub(super) fn slots(&self) -> Vec<Offset> {
        self.slots.lock().clone()
    }

    /// Gives up the slots for which `gives_up` holds; returns them.
    pub(super) fn give_up(&self, gives_up: impl Fn(Offset) -> bool) -> Vec<Offset> {
        let mut slots = self.slots.lock();
        let (given_up, kept) = slots.iter().partition(|&&slot| gives_up(slot));
        *slots = kept;
        self.count(&slots);
        given_up
    }
}

/// The run of segments set aside for large items.
#[derive(Debug)]
pub(super) struct ReservedRun {
    /// First segment and length.
    pub(super) run: Mutex<Option<(u64, u64)>>,
    /// The length it should have.
    wanted: AtomicU64,
    segments_max: u64,
    segments_of_several_max: u64,
}

impl ReservedRun {
    /// None yet, for segments of this size.
    pub(super) fn new(segment_bytes: u64) -> ReservedRun {
        ReservedRun {
            run: Mutex::default(),
            wanted: AtomicU64::new(0),
            segments_max: RUN_BYTES_MAX / segment_bytes,
            segments_of_several_max: RUN_OF_SEVERAL_BYTES_MAX / segment_bytes,
        }
    }

    pub(super) fn get(&self) -> Option<(u64, u64)> {
        *self.run.lock()
    }

    pub(super) fn len(&self) -> u64 {
        self.get().map_or(0, |(_, len)| len)
    }

    /// Asks for room for an item of this many segments.
    pub(super) fn want(&self, segments: u64) {
        self.wanted.fetch_max(self.run_for(segments), Ordering::Relaxed);
    }

    /// The length it should have if there is an item of this many segments, too.
    pub(super) fn wanted_with(&self, segments: u64) -> u64 {
        self.wanted().max(self.run_for(segments))
    }

    fn run_for(&self, segments: u64) -> u64 {
        if segments > self.segments_max {
            return 0;
        }
        segments.max((segments * ITEMS_OF_A_RUN).min(self.segments_of_several_max))
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }
}
