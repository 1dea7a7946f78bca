//! A bucket: where it is, its record, its lock; and changes that share a fence.

use super::Core;
use super::cache::Busy;
use super::layout::{BUCKET_BYTES, LOCK, Locked, MARK, PRINTS, RECORD_WORDS, STATE, VERSION};
use crate::kit::doubling::{Doubles, Geometry, Hash};
use index::Fixed;
use pmem::sync::{AtomicU64, Ordering, fence, spin};
use pmem::{Medium, Offset};

/// A change of a locked bucket whose fence is still to come.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    bucket: u64,
    /// The slot that is to be shown, and its fingerprint; 0: none.
    slot: usize,
    print: u8,
    /// The slots that it stands for, or that are to be hidden.
    clear: u64,
    /// Whether the meta word is to be changed after a fence, since the item is not in its line.
    is_beyond: bool,
}

/// What the cached table learns of a change when it is durable.
type Completion<V> = (Busy, Option<V>);

/// Changes whose flushes have begun and whose fence is still to come, with the locks that they hold
/// until then; at most `MOST`.
///
/// While there are any, locks are only tried for: who waited could be waited for.
pub(super) struct Unfenced<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> {
    core: &'a Core<M, K, V>,
    count: usize,
    changes: [Pending; MOST],
    homes: [Option<Locked<'a>>; MOST],
    completions: [Option<Completion<V>>; MOST],
    is_any_beyond: bool,
    /// Items that were inserted where they had not been, and removed.
    inserted: u64,
    removed: u64,
    /// The locked bucket that a resize empties, from which the changes copy items, and their slots.
    source: Option<u64>,
    copied: u64,
}

impl<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> Unfenced<'a, M, K, V, MOST> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>) -> Self {
        Unfenced {
            core,
            count: 0,
            changes: [Pending::default(); MOST],
            homes: [const { None }; MOST],
            completions: [const { None }; MOST],
            is_any_beyond: false,
            inserted: 0,
            removed: 0,
            source: None,
            copied: 0,
        }
    }

    /// Of items that are copied out of a locked bucket.
    pub(super) fn from(core: &'a Core<M, K, V>, source: u64) -> Self {
        let mut unfenced = Unfenced::new(core);
        unfenced.source = Some(source);
        unfenced
    }

    /// Waits for the home of a key; nothing else may be held.
    #[inline(always)]
    pub(super) fn lock_home(&mut self, hash: Hash) -> Locked<'a> {
        let word = self.core.homes.get(hash.home());
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket.
    #[inline(always)]
    pub(super) fn lock(&mut self, bucket: u64) -> Locked<'a> {
        let word = self.core.state(bucket);
        Locked::attempt(word).unwrap_or_else(|| {
            self.commit();
            Locked::wait(word)
        })
    }

    /// Waits for the lock of a bucket while `geometry` lasts: the caller may hold a bucket that is being
    /// emptied, which in the next geometry others wait for who hold this one.
    #[inline(always)]
    pub(super) fn lock_under(&mut self, geometry: Geometry, bucket: u64) -> Option<Locked<'a>> {
        let core = self.core;
        core.lock_under(geometry, bucket, || self.commit())
    }

    /// Of two buckets for a copy first the one that is not held for another copy: that would have to be made
    /// durable first. Half of the items that leave a bucket share their first choice.
    #[inline(always)]
    pub(super) fn not_held_first(&self, [first, second]: [u64; 2]) -> [u64; 2] {
        let is_held = |bucket| self.changes[..self.count].iter().any(|one| one.bucket == bucket);
        if self.source.is_some() && is_held(first) { [second, first] } else { [first, second] }
    }

    /// Log-free atomic insertion (algorithm 3) into an empty slot of a locked bucket, which this takes over.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        (bucket, slot): (u64, usize),
        locked: Locked<'a>,
        item: (K, V),
        hash: Hash,
    ) {
        if self.source.is_some() {
            // What a resize moves does not change.
            return self.put((bucket, slot), locked, item, hash, 0);
        }
        let busy = self.core.mark_busy(item.0, hash, true);
        let is_beyond = self.core.fill(self.core.at(bucket), slot, item);
        self.push_put(locked, Pending { bucket, slot, print: hash.print(), clear: 0, is_beyond });
        self.complete_with(busy, Some(item.1));
    }

    /// What becomes of a busy entry when the change that was pushed last is durable.
    #[inline(always)]
    pub(super) fn complete_with(&mut self, busy: Option<Busy>, value: Option<V>) {
        if let Some(busy) = busy {
            self.completions[self.count - 1] = Some((busy, value));
        }
    }

    /// Log-free atomic update (algorithm 4, lines 16 to 24): the item goes to an empty slot, and one word
    /// shows that instead of the slots `clear`.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        (bucket, slot): (u64, usize),
        locked: Locked<'a>,
        item: (K, V),
        hash: Hash,
        clear: u64,
    ) {
        let is_beyond = self.core.fill(self.core.at(bucket), slot, item);
        self.push_put(locked, Pending { bucket, slot, print: hash.print(), clear, is_beyond });
    }

    #[inline(always)]
    fn push_put(&mut self, locked: Locked<'a>, change: Pending) {
        if change.is_beyond {
            self.is_any_beyond = true;
        } else {
            self.core.commit_meta(&change);
        }
        self.push(locked, change);
    }

    /// Log-free atomic deletion (algorithm 5) of what is in the slots `clear` of a locked bucket.
    #[inline(always)]
    pub(super) fn delete(&mut self, bucket: u64, locked: Locked<'a>, clear: u64) {
        let change = Pending { bucket, clear, ..Pending::default() };
        self.core.commit_meta(&change);
        self.push(locked, change);
    }

    /// Takes over a locked bucket in which a value was overwritten.
    #[inline(always)]
    pub(super) fn overwritten(&mut self, bucket: u64, locked: Locked<'a>) {
        self.push(locked, Pending { bucket, ..Pending::default() });
    }

    #[inline(always)]
    fn push(&mut self, locked: Locked<'a>, change: Pending) {
        std::mem::forget(locked);
        self.changes[self.count] = change;
        self.count += 1;
    }

    /// Ends the change that was pushed last: the lock of its home goes with the bucket's.
    #[inline(always)]
    pub(super) fn end_change(&mut self, home: Option<Locked<'a>>, inserted: u64, removed: u64) {
        self.homes[self.count - 1] = home;
        self.inserted += inserted;
        self.removed += removed;
        self.commit_if_full();
    }

    /// Ends the copying of an item out of the source, into the bucket that was pushed last.
    #[inline(always)]
    pub(super) fn end_copy(&mut self, slot: usize, key: K) {
        self.copied |= 1 << slot;
        if let Some(source) = self.source {
            self.core.tell_scans(key, source, self.changes[self.count - 1].bucket);
        }
        self.commit_if_full();
    }

    #[inline(always)]
    fn commit_if_full(&mut self) {
        if self.count == MOST {
            self.commit();
        }
    }

    /// Makes the changes durable, then visible, and gives the locks back.
    #[inline(always)]
    pub(super) fn commit(&mut self) {
        if self.count == 0 {
            return;
        }
        let core = self.core;
        core.medium().fence();
        if self.is_any_beyond {
            for change in self.changes[..self.count].iter().filter(|change| change.is_beyond) {
                core.commit_meta(change);
            }
            core.medium().fence();
            self.is_any_beyond = false;
        }
        if let Some(source) = self.source {
            self.delete_copied(source);
        }
        for index in 0..self.count {
            core.show(&self.changes[index]);
            if let Some(cache) = &core.cache
                && let Some((busy, value)) = self.completions[index].take()
            {
                cache.complete(busy, value);
            }
            self.homes[index] = None;
        }
        self.count = 0;
        if self.inserted + self.removed > 0 {
            let (inserted, removed) = (self.inserted, self.removed);
            (self.inserted, self.removed) = (0, 0);
            core.look_after(inserted, removed);
        }
    }

    /// The copies are durable: shows them, and deletes what was copied, with one word. The copies stay
    /// locked until that is durable: when a shrink is turned back, searches come to a copy first, and else
    /// somebody could change one, and a crash bring back what stood here.
    fn delete_copied(&mut self, source: u64) {
        let core = self.core;
        for change in &mut self.changes[..self.count] {
            core.show_locked(change);
            // It is shown.
            change.print = 0;
        }
        core.delete_slots(source, self.copied, 0);
        self.copied = 0;
    }
}

impl<M: Medium, K: Fixed, V: Fixed, const MOST: usize> Drop for Unfenced<'_, M, K, V, MOST> {
    #[inline(always)]
    fn drop(&mut self) {
        self.commit();
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Called before a change of the key can be seen, its home being locked. `appears`: the key is not there yet.
    #[inline(always)]
    pub(super) fn mark_busy(&self, key: K, hash: Hash, appears: bool) -> Option<Busy> {
        self.cache.as_ref().and_then(|cache| cache.mark_busy(key, hash, appears))
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: K) -> Hash {
        Hash(self.hashed(key))
    }

    /// Where a bucket begins.
    #[inline(always)]
    pub(super) fn at(&self, bucket: u64) -> Offset {
        self.tables.at::<BUCKET_BYTES>(bucket)
    }

    /// Index of the first word of a bucket's record.
    #[inline(always)]
    pub(super) fn record(&self, bucket: u64) -> usize {
        bucket as usize * RECORD_WORDS
    }

    /// A bucket's record.
    #[inline(always)]
    fn record_of(&self, bucket: u64) -> &[AtomicU64; RECORD_WORDS] {
        &self.records.as_slice().as_chunks().0[bucket as usize]
    }

    /// The version of a bucket, and its lock.
    #[inline(always)]
    pub(super) fn state(&self, bucket: u64) -> &AtomicU64 {
        &self.record_of(bucket)[STATE]
    }

    /// In which resize a bucket was emptied last.
    pub(super) fn mark(&self, bucket: u64) -> &AtomicU64 {
        &self.record_of(bucket)[MARK]
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    pub(super) fn prints(&self, bucket: u64) -> [u64; 2] {
        self.state_and_prints(bucket).1
    }

    /// The state of a bucket, and its fingerprints, which are loaded after it.
    #[inline(always)]
    pub(super) fn state_and_prints(&self, bucket: u64) -> (u64, [u64; 2]) {
        let record = self.record_of(bucket);
        let state = record[STATE].load(Ordering::Acquire);
        let load = |word: usize| record[word].load(Ordering::Acquire);
        (state, [load(PRINTS), load(PRINTS + 1)])
    }

    /// Sets the fingerprint in a slot of a locked bucket; 0: it is empty.
    #[inline(always)]
    pub(super) fn set_print(&self, bucket: u64, slot: usize, print: u8) {
        let word = self.records.get(self.record(bucket) + PRINTS + slot / 8);
        let shift = slot % 8 * 8;
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(print) << shift, Ordering::Release);
    }

    /// Waits for the lock of a bucket while `geometry` lasts, and calls `before_waiting` before it does.
    #[inline(always)]
    pub(super) fn lock_under(
        &self,
        geometry: Geometry,
        bucket: u64,
        mut before_waiting: impl FnMut(),
    ) -> Option<Locked<'_>> {
        let mut turn = 0;
        loop {
            let locked = Locked::attempt(self.state(bucket));
            if self.geometry() != geometry {
                return None;
            }
            if locked.is_some() {
                return locked;
            }
            before_waiting();
            spin(&mut turn);
        }
    }

    /// Flushes what of an item is not in the line of the meta word; whether there is such.
    #[inline(always)]
    pub(super) fn flush_beyond(&self, at: Offset, slot: usize) -> bool {
        let beyond = self.bucket.beyond_meta(slot);
        self.medium().flush_range(at.add(beyond.start), beyond.end - beyond.start);
        !beyond.is_empty()
    }

    /// Stores an item into an empty slot of a locked bucket, and flushes what of it is not in the line of
    /// the meta word; whether there is such, which has to be durable before the meta word shows it.
    #[inline(always)]
    pub(super) fn fill(&self, at: Offset, slot: usize, item: (K, V)) -> bool {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, item);
        self.flush_beyond(at, slot)
    }

    /// Commits a change of a locked bucket with one word; a fence is still to come.
    #[inline(always)]
    fn commit_meta(&self, change: &Pending) {
        let (medium, at) = (self.medium(), self.at(change.bucket));
        let mut meta = medium.load(at) & !change.clear;
        if change.print != 0 {
            meta = self.bucket.with(meta, change.slot, change.print);
        }
        medium.store_release(at, meta);
        medium.flush(at);
    }

    /// Puts an item into an empty slot of a locked bucket, durably and visibly; the lock stays.
    pub(super) fn put_locked(&self, bucket: u64, slot: usize, item: (K, V), print: u8) {
        let is_beyond = self.fill(self.at(bucket), slot, item);
        if is_beyond {
            self.medium().fence();
        }
        let change = Pending { bucket, slot, print, clear: 0, is_beyond };
        self.commit_meta(&change);
        self.medium().fence();
        self.show_locked(&change);
    }

    /// Shows a durable change of a locked bucket; the lock stays. What an item was is hidden after what it
    /// is was shown, in another version: a search that saw neither looks again.
    #[inline(always)]
    fn show_locked(&self, change: &Pending) {
        if change.print != 0 {
            self.set_print(change.bucket, change.slot, change.print);
            self.new_version(change.bucket);
        }
        if change.clear != 0 {
            let mut clear = change.clear;
            while clear != 0 {
                self.set_print(change.bucket, clear.trailing_zeros() as usize, 0);
                clear &= clear - 1;
            }
            self.new_version(change.bucket);
        }
    }

    /// [`Core::show_locked`], and gives the lock back.
    #[inline(always)]
    fn show(&self, change: &Pending) {
        self.show_locked(change);
        if self.cache.is_some() && change.print == 0 && change.clear == 0 {
            // Overwritten in place: a thread that has read the old value must not cache it.
            self.new_version(change.bucket);
        }
        let state = self.state(change.bucket);
        state.store(state.load(Ordering::Relaxed) & !LOCK, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn new_version(&self, bucket: u64) {
        let state = self.state(bucket);
        state.store(state.load(Ordering::Relaxed).wrapping_add(VERSION), Ordering::Release);
    }

    /// Deletes the items in the slots `clear` of a locked bucket, durably, and their lock bits.
    pub(super) fn delete_slots(&self, bucket: u64, clear: u64, lock_bits: u64) {
        self.commit_meta(&Pending { bucket, clear: clear | lock_bits, ..Pending::default() });
        self.medium().fence();
        self.show_locked(&Pending { bucket, clear, ..Pending::default() });
    }

    /// Sets bits of the meta word of a locked bucket, durably.
    pub(super) fn set_meta(&self, bucket: u64, bits: u64) {
        let at = self.at(bucket);
        // They depend on nothing that is not durable yet.
        self.medium().store(at, self.medium().load(at) | bits);
        self.medium().persist(at);
    }
}
