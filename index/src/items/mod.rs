//! Any `Index<u64, u64>` as [`Records`]: a slot maps the 64-bit hash of a key to the offset of its item in the heap.
//!
//! ```text
//! slot value | offset of an item, a multiple of 16        | 0 |   one key has this hash
//!            | offset of a group of item offsets          | 1 |   several keys have it
//! ```
//!
//! Each mutation writes what is new (an item, a group), fences it, and then changes the index in one step: by a
//! compare-exchange, or, if it need not know anything before (`single`), by a change that looks at the item while it is
//! made. When that step returns, what it replaced is durably unreachable. The thread that replaced it retires it, once.
//! Groups are replaced whole. A thread stays pinned as long as it knows an offset, so an offset cannot come to mean
//! another item between the reading of a slot and the compare-exchange on it.

mod batch;
mod check;
mod read;
mod relocate;
mod scan;
mod seen;
mod single;
mod sweep;
mod tally;

pub use read::ItemReader;
pub use seen::{Copied, SeenItems};

use crate::bounds::check_limits;
use crate::change::Change;
use crate::error::{Error, ItemError};
use crate::hash::Hasher;
use crate::report::{CheckReport, Occupancy, Shrunk};
use crate::traits::{Chore, Index, Record, RecordExchange, RecordScan, Records, WhenBuilt};
use crate::unfinished::Unfinished;
use batch::Entry;
use pmem::epoch::{Epochs, Guard, Retries};
use pmem::heap::{Compacted, GROUP_MAX, Heap, HeapUse, Item, Wanted};
use pmem::sync::{AtomicBool, AtomicU64, Ordering};
use pmem::view;
use pmem::{Medium, Offset, OpenError, Pool, SpaceError};
use read::View;
use scan::ItemScan;
use single::If;
use std::sync::Arc;
use std::time::Duration;
use sweep::Swept;
use tally::Tally;

/// Bit of a slot's value: it leads to a group.
const GROUP: u64 = 1;

/// What the value of a slot leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// An item.
    Item(Offset),
    /// A group of items.
    Group(Offset),
}

/// What the value of a slot leads to.
pub fn lead_of(slot: u64) -> Lead {
    let at = Offset(slot & !GROUP);
    if slot & GROUP == 0 { Lead::Item(at) } else { Lead::Group(at) }
}

/// Times that a change has room made for it. Others may take the room first.
const ROOM_ROUNDS_MAX: u32 = 8;

/// Byte strings on an index of words.
///
/// What most calls need is compiled for each index; the rest once, for any.
pub struct Items<I: ?Sized, M: Medium> {
    space: Arc<Space<M>>,
    hasher: Hasher,
    /// Keys beyond the first of each hash. Changes only when hashes collide.
    collisions: AtomicU64,
    swept: Swept,
    tally: Arc<Tally>,
    /// The last field, so that [`Items::any`] need not move it.
    index: I,
}

/// What a change makes of its key's value.
type Decide<'d, 'v> = &'d dyn Fn(Option<&[u8]>) -> Change<&'v [u8]>;

/// Byte strings on an index of words behind virtual calls.
type AnyItems<M> = Items<dyn Index<u64, u64>, M>;

/// Where items lie, and when the space of retired ones may be used again.
struct Space<M: Medium> {
    heap: Heap<M>,
    epochs: Epochs,
}

impl<M: Medium> Space<M> {
    /// Takes back what was retired and nobody holds; returns whether something is left.
    fn reclaim_retired(&self) -> bool {
        self.epochs.collect(|at| self.heap.reclaim(Offset(at)))
    }
}

impl<M: Medium> Chore for Space<M> {
    fn is_due(&self) -> bool {
        self.epochs.is_overdue() || self.heap.is_growth_asked_for()
    }

    fn prepare(&self) {
        if self.heap.is_growth_asked_for() {
            self.heap.prepare_growth();
        }
    }

    fn run(&self) {
        // A pool that was synced stays clean.
        let Some(_write) = self.heap.pool().gate().enter() else {
            return self.heap.put_growth_off();
        };
        if self.epochs.is_overdue() {
            self.reclaim_retired();
        }
        if self.heap.is_growth_asked_for() {
            // Refused, it is left to the writers, who get the reason.
            let _ = self.heap.grow_ahead();
        }
    }
}

/// Something in the heap to which nothing leads yet. It is given back unless published.
struct Unpublished<'a, M: Medium> {
    heap: &'a Heap<M>,
    at: Option<Offset>,
}

impl<'a, M: Medium> Unpublished<'a, M> {
    fn new(heap: &'a Heap<M>, at: Offset) -> Self {
        Unpublished { heap, at: Some(at) }
    }

    fn at(&self) -> Offset {
        self.at.unwrap_or_default()
    }

    fn published(mut self) {
        self.at = None;
    }
}

impl<M: Medium> Drop for Unpublished<'_, M> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.heap.reclaim(at);
        }
    }
}

impl<I: Index<u64, u64> + 'static, M: Medium> Items<I, M> {
    /// Opens the items of `pool`, whose slots are in `index`. Frees the space to which nothing leads, on at most
    /// `threads` threads: at once, or, if `index` is still being built, later (see `sweep`).
    pub fn open(
        index: I,
        pool: Arc<Pool<M>>,
        hasher: Hasher,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let epochs = Epochs::seen_in(index.view()).map_err(|source| OpenError::Io {
            action: "reserving memory for",
            path: "the epochs".into(),
            source,
        })?;
        let collisions = AtomicU64::new(0);
        let swept = Swept::not_yet(threads, pool.recorded_pairs());
        let space = Arc::new(Space { heap: Heap::open(pool)?, epochs });
        let tally = Arc::new(Tally::default());
        let items = Items { space, hasher, collisions, swept, tally, index };
        if items.index.is_built() {
            items.any().sweep_all();
        } else {
            let are_found = items.space.heap.adopt_free_slots();
            items.swept.note_free_slots(are_found);
            let tally = Arc::clone(&items.tally);
            items.index.when_built(Box::new(move |found| tally.tell_slots(found)));
        }
        let chore = Arc::downgrade(&items.space);
        items.index.set_chore(chore);
        Ok(items)
    }

    /// The index that the slots are in.
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Look-ups, for an engine that compiles them into its callers.
    pub fn reader(&self) -> ItemReader<M> {
        ItemReader { space: Arc::clone(&self.space), hasher: self.hasher }
    }

    /// The same, for what virtual calls hardly slow: batches, retries, scans, checks.
    fn any(&self) -> &AnyItems<M> {
        self
    }
}

impl<M: Medium> AnyItems<M> {
    /// The slot value that leads to `items`. For several items this writes a group, perhaps in place of another one.
    fn slot_for(
        &self,
        items: &[Offset],
        replaced: Option<Offset>,
    ) -> Result<(Option<u64>, Option<Unpublished<'_, M>>), ItemError> {
        match items {
            [] => Ok((None, None)),
            [one] => Ok((Some(one.0), None)),
            several if several.len() > GROUP_MAX => {
                Err(ItemError::TooManyCollisions { limit: GROUP_MAX })
            }
            several => {
                let at = self.space.heap.write_group(several, replaced)?;
                let group = Unpublished::new(&self.space.heap, at);
                Ok((Some(group.at().0 | GROUP), Some(group)))
            }
        }
    }

    /// Replaces the value of `key` by what `decide` makes of it, in one step; returns the value
    /// before, and whether anything was replaced.
    fn change<'v>(
        &self,
        key: &[u8],
        decide: Decide<'_, 'v>,
    ) -> Result<(Option<Record<'_>>, bool), ItemError> {
        self.begin_unswept();
        let mut retries = Retries::default();
        let mut rounds = 0;
        loop {
            let mut wanted = Wanted::default();
            let changed = self.try_change(key, decide, &mut wanted);
            let Err(ItemError::Space(full @ SpaceError::Full { .. })) = changed else {
                self.look_after_heap();
                return changed;
            };
            if !self.is_swept() {
                self.sweep_all();
                if self.is_swept() {
                    continue;
                }
            }
            // Retired space may be enough, or the space between items. No guard of this call is left to hold it.
            let more_may_come = self.space.reclaim_retired();
            let room = match retries.tries() {
                0 => Compacted::default(),
                _ => self.make_room_again(&mut rounds, &wanted),
            };
            if !room.has_room && !retries.go_on(wanted.fits_in_place, more_may_come) {
                let full = self.space.heap.say_why(full, &wanted, room, &self.space.epochs);
                return Err(full.into());
            }
        }
    }

    /// Makes room in the heap for what a change wanted, if that was what it lacked. Gives up after some rounds.
    fn make_room_again(&self, rounds: &mut u32, wanted: &Wanted) -> Compacted {
        *rounds += 1;
        if *rounds > ROOM_ROUNDS_MAX {
            return Compacted::default();
        }
        self.space.heap.make_room(wanted, &self.space.epochs, &self)
    }

    /// One attempt. Also tells for what space it found no room.
    fn try_change<'v>(
        &self,
        key: &[u8],
        decide: Decide<'_, 'v>,
        wanted: &mut Wanted,
    ) -> Result<(Option<Record<'_>>, bool), ItemError> {
        let hash = self.hasher.first_bytes(key);
        let guard = self.space.epochs.pin();
        let mut fresh: Option<Unpublished<'_, M>> = None;
        loop {
            let slot = self.index.get(hash);
            let View { found, others } = self.space.view(slot, key, &guard)?;
            let value_before = found.map(|(_, item)| item.value);
            let item_before = found.map(|(at, _)| at);
            if !others.is_empty() {
                // Which keys share a hash the sweep counts, in one walk.
                self.sweep_all();
            }
            let group_before =
                slot.filter(|slot| slot & GROUP != 0).map(|slot| Offset(slot & !GROUP));
            let before = others.len() + usize::from(found.is_some());
            match decide(value_before) {
                Change::Keep => {
                    return Ok((value_before.map(|bytes| Record::new(bytes, guard)), false));
                }
                Change::Remove => {
                    if found.is_none() {
                        return Ok((None, true));
                    }
                    wanted.fits_in_place = true;
                }
                Change::Put(value) => {
                    let item = match fresh.take() {
                        Some(item) => item,
                        None => {
                            *wanted = self.space.heap.wanted_for(key, value, item_before);
                            let at = self.space.heap.write_item(key, value, item_before)?;
                            wanted.item_bytes = None;
                            Unpublished::new(&self.space.heap, at)
                        }
                    };
                    fresh = Some(item);
                }
            }
            let after = others.len() + usize::from(fresh.is_some());
            let new = fresh.as_ref().map(Unpublished::at);
            let (new_slot, group) = if others.is_empty() {
                (new.map(|at| at.0), None)
            } else {
                let items: Vec<Offset> = others.into_iter().chain(new).collect();
                self.slot_for(&items, group_before.filter(|_| found.is_some()))?
            };
            if fresh.is_some() || group.is_some() {
                // What was written must be durable before a slot leads to it.
                self.space.heap.pool().medium().fence();
            }
            if let Some(at) = item_before
                && !self.is_swept()
            {
                self.space.heap.note_unlinking(at);
            }
            if self.index.compare_exchange(hash, slot, new_slot)?.is_ok() {
                fresh.into_iter().chain(group).for_each(Unpublished::published);
                self.retire(slot, found, &guard);
                self.swept.count(before, after);
                self.count_collisions(before, after);
                return Ok((value_before.map(|bytes| Record::new(bytes, guard)), true));
            }
        }
    }

    /// Counts that the number of keys with one hash went from `before` to `after`.
    fn count_collisions(&self, before: usize, after: usize) {
        let (before, after) = (before.max(1) as u64, after.max(1) as u64);
        if before != after {
            self.collisions.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Retires what a successful compare-exchange has made unreachable: the slot's group, if it had one, and the key's
    /// item.
    fn retire(&self, slot: Option<u64>, item: Option<(Offset, Item<'_>)>, guard: &Guard<'_>) {
        if let Some(slot) = slot.filter(|slot| slot & GROUP != 0) {
            self.retire_one(Offset(slot & !GROUP), 0, guard);
        }
        if let Some((at, item)) = item {
            self.retire_item(at, &item, guard);
        }
    }
}

impl<I: Index<u64, u64> + ?Sized, M: Medium> Items<I, M> {
    /// Wakes helpers if the heap wants to grow.
    #[inline(always)]
    fn look_after_heap(&self) {
        self.space.heap.ask_for_growth(|| self.index.wake_for_chore());
    }

    #[inline(always)]
    fn retire_item(&self, at: Offset, item: &Item<'_>, guard: &Guard<'_>) {
        self.retire_one(at, (item.key.len() + item.value.len()) as u64, guard);
    }

    #[inline(always)]
    fn retire_one(&self, at: Offset, bytes: u64, guard: &Guard<'_>) {
        let reclaim = |items: Vec<u64>| {
            self.space.heap.reclaim_many(items.iter().map(|&at| Offset(at)), guard);
        };
        if guard.retire_and(at.0, bytes, reclaim) {
            self.index.wake_for_chore();
        }
    }
}

impl<I: Index<u64, u64> + 'static, M: Medium> Records for Items<I, M> {
    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        self.space.get(self.hasher.first_bytes(key), key, |hash| self.index.get(hash))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        if self.is_swept()
            && let Some(before) = self.put_at_hand(key, value, If::Absent)
        {
            return Ok(before);
        }
        Ok(self.any().change(key, &|found| Change::if_absent(found, value))?.0)
    }

    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        if self.is_swept()
            && let Some(before) = self.put_at_hand(key, value, If::Present)
        {
            return Ok(before);
        }
        Ok(self.any().change(key, &|found| Change::if_present(found, value))?.0)
    }

    fn upsert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        check_limits(key, value)?;
        if self.is_swept()
            && let Some(before) = self.put_at_hand(key, value, If::Always)
        {
            return Ok(before);
        }
        Ok(self.any().change(key, &|_| Change::Put(value))?.0)
    }

    fn remove(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        if self.is_swept()
            && let Some(before) = self.remove_plain(key)
        {
            return Ok(before);
        }
        Ok(self.any().change(key, &|_| Change::Remove)?.0)
    }

    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<RecordExchange<'_>, ItemError> {
        check_limits(key, new.unwrap_or_default())?;
        let decide = |found: Option<&[u8]>| Change::if_expected(found == expected, new);
        let (found, replaced) = self.any().change(key, &decide)?;
        Ok(if replaced { Ok(()) } else { Err(found) })
    }

    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'a>>>, ItemError> {
        self.any().read_many(keys)
    }

    fn upsert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.any().change_pairs(pairs, |value| Entry::Put(value))
    }

    fn insert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.any().change_pairs(pairs, |value| Entry::Insert(value))
    }

    fn update_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.any().change_pairs(pairs, |value| Entry::Update(value))
    }

    fn remove_many<'a>(
        &'a self,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        self.any().change_many(keys.len(), &|index| (keys[index], Entry::Remove))
    }

    fn scan(&self) -> Box<dyn RecordScan + '_> {
        Box::new(ItemScan::new(&self.index, &self.space))
    }

    fn len(&self) -> u64 {
        self.any().pairs()
    }

    fn occupancy(&self) -> Occupancy {
        self.index.occupancy()
    }

    fn heap_use(&self) -> HeapUse {
        self.any().sweep_to_look();
        self.space.heap.usage()
    }

    fn check(&self) -> CheckReport {
        self.any().check_items()
    }

    fn compact(&self) -> Compacted {
        self.any().sweep_all();
        self.space.heap.compact(&self.space.epochs, &self.any())
    }

    fn give_back(&self) -> u64 {
        self.any().sweep_all();
        self.space.heap.give_back()
    }

    fn make_room(&self, key: &[u8], value: &[u8]) {
        self.any().sweep_all();
        self.space.reclaim_retired();
        let wanted = Wanted { replaces: true, ..self.space.heap.wanted_for(key, value, None) };
        self.space.heap.make_room(&wanted, &self.space.epochs, &self.any());
    }

    fn settle(&self) {
        if self.space.is_due()
            && let Ok(_write) = self.space.heap.pool().write()
        {
            self.space.reclaim_retired();
        }
        self.any().settle_sweep();
        self.index.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        // Its scan would be taken for a user's, for which a shrink gives way.
        self.any().sweep_all();
        self.index.shrink()
    }

    fn scan_time(&self) -> Duration {
        self.index.scan_time()
    }

    /// Until the sweep, the number of keys is the one on record, and tells nothing of what there is.
    fn is_built(&self) -> bool {
        self.is_swept() && self.index.is_built()
    }

    fn when_built(&self, then: WhenBuilt) {
        self.tally.ask(then);
    }

    fn view(&self) -> Option<Arc<view::View>> {
        self.index.view()
    }

    fn take_sweep_over(&self) -> bool {
        self.any().take_sweep_over()
    }

    fn sweep(&self, is_stopped: &AtomicBool) {
        self.any().sweep_unless(is_stopped);
    }

    fn prepare_close(&self) {
        // A pool that was synced stays clean.
        let Some(_write) = self.space.heap.pool().gate().enter() else { return };
        // Recorded as taken, what is still held would be taken for ever.
        if !self.space.reclaim_retired() {
            self.space.heap.record_free_slots();
        }
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        self.index.expect_help();
        self.any().take_sweep_over();
    }

    #[cfg(feature = "simulated")]
    fn has_found_free_slots(&self) -> bool {
        self.swept.has_found_free_slots()
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.index.help();
        self.any().sweep_unless(&AtomicBool::new(false));
    }
}

impl<I: ?Sized, M: Medium> std::fmt::Debug for Items<I, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items").field("heap", &self.space.heap).finish_non_exhaustive()
    }
}
