//! A bucket: where it is, its record, its lock; and changes that share a fence.

use super::Core;
use super::layout::{
    BUCKET_BYTES, Bucket, LOCK, Locked, PRINTS, RECORD_WORDS, Record, STASHED, STATE,
    state_and_prints, with_new_version,
};
use crate::kit::doubling::{Doubles, Geometry, Hash, slots_in};
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
    /// Whether the bitmap is to be changed after a fence, since the item is not in its line.
    is_beyond: bool,
    node: NodeChange,
}

/// What becomes of a node of the stash.
#[derive(Debug, Clone, Copy, Default)]
enum NodeChange {
    #[default]
    None,
    /// It is given to the bucket.
    Stashed(u64),
    /// It is taken from it.
    Unstashed(u64),
}

/// Changes whose flushes have begun and whose fence is still to come, with the locks that they hold
/// until then; at most `MOST`.
///
/// While there are any, locks are only tried for: who waited could be waited for.
pub(super) struct Unfenced<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> {
    core: &'a Core<M, K, V>,
    count: usize,
    changes: [Pending; MOST],
    homes: [Option<Locked<'a>>; MOST],
    /// The bucket to which an item was displaced: the erasure where it was shares the fence to come.
    displaced_to: Option<Locked<'a>>,
    is_any_beyond: bool,
    /// Items that were inserted where they had not been, and removed.
    inserted: u64,
    removed: u64,
    /// The locked bucket that a resize empties, from which the changes copy items, their slots, and a node.
    source: Option<u64>,
    copied: u64,
    copied_node: Option<u64>,
}

impl<'a, M: Medium, K: Fixed, V: Fixed, const MOST: usize> Unfenced<'a, M, K, V, MOST> {
    #[inline(always)]
    pub(super) fn new(core: &'a Core<M, K, V>) -> Self {
        Unfenced {
            core,
            count: 0,
            changes: [Pending::default(); MOST],
            homes: [const { None }; MOST],
            displaced_to: None,
            is_any_beyond: false,
            inserted: 0,
            removed: 0,
            source: None,
            copied: 0,
            copied_node: None,
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

    /// Puts an item into an empty slot of a locked bucket, which this takes over. The slots `clear` of the bucket
    /// have it until then.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        (bucket, slot): (u64, usize),
        locked: Locked<'a>,
        item: (K, V),
        hash: Hash,
        clear: u64,
    ) {
        let at = self.core.at(bucket);
        let is_beyond = self.core.fill(at, slot, item);
        let print = hash.print();
        let change = Pending { bucket, slot, print, clear, is_beyond, ..Pending::default() };
        if is_beyond {
            self.is_any_beyond = true;
        } else {
            self.core.commit_bitmap(at, slot, clear);
        }
        self.push(locked, change);
    }

    /// Holds the bucket to which an item was displaced until the next fence.
    #[inline(always)]
    pub(super) fn hold(&mut self, displaced_to: Option<Locked<'a>>) {
        self.displaced_to = displaced_to;
    }

    /// Puts an item into a node of the stash, for its first bucket, which is locked and which this takes over.
    pub(super) fn stash(&mut self, bucket: u64, locked: Locked<'a>, node: u64, item: (K, V)) {
        self.core.stash.fill(self.core.medium(), node, item);
        self.push(
            locked,
            Pending { bucket, node: NodeChange::Stashed(node), ..Pending::default() },
        );
    }

    /// Deletes what is in a slot of a locked bucket.
    #[inline(always)]
    pub(super) fn delete(&mut self, bucket: u64, locked: Locked<'a>, slot: usize) {
        self.core.erase(bucket, 1 << slot);
        self.push(locked, Pending { bucket, clear: 1 << slot, ..Pending::default() });
    }

    /// Deletes a node that belongs to a locked bucket.
    pub(super) fn unstash(&mut self, bucket: u64, locked: Locked<'a>, node: u64) {
        self.core.stash.erase(self.core.medium(), node);
        self.push(
            locked,
            Pending { bucket, node: NodeChange::Unstashed(node), ..Pending::default() },
        );
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

    /// Ends the copying of an item out of a slot of the source, into the bucket that was pushed last.
    pub(super) fn end_copy(&mut self, slot: usize, key: K) {
        self.copied |= 1 << slot;
        self.tell_scans(key);
        self.commit_if_full();
    }

    /// Ends the copying of an item out of a node of the source, into the bucket that was pushed last.
    pub(super) fn end_copy_of_node(&mut self, node: u64, key: K) {
        self.copied_node = Some(node);
        self.tell_scans(key);
        self.commit();
    }

    fn tell_scans(&self, key: K) {
        if let Some(source) = self.source {
            self.core.tell_scans(key, source, self.changes[self.count - 1].bucket);
        }
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
                core.commit_bitmap(core.at(change.bucket), change.slot, change.clear);
            }
            core.medium().fence();
            self.is_any_beyond = false;
        }
        if let Some(source) = self.source {
            self.delete_copied(source);
        }
        for index in 0..self.count {
            core.show(&self.changes[index]);
            self.homes[index] = None;
        }
        self.displaced_to = None;
        self.count = 0;
        if self.inserted + self.removed > 0 {
            let (inserted, removed) = (self.inserted, self.removed);
            (self.inserted, self.removed) = (0, 0);
            core.look_after(inserted, removed);
        }
    }

    /// The copies are durable: shows them, and deletes what was copied. The copies stay locked until that is durable:
    /// else somebody could change one, and a crash bring back what stood here.
    fn delete_copied(&mut self, source: u64) {
        let core = self.core;
        for change in &mut self.changes[..self.count] {
            core.show_locked(change);
            // It is shown.
            *change = Pending { bucket: change.bucket, ..Pending::default() };
        }
        let (slots, node) = (std::mem::take(&mut self.copied), self.copied_node.take());
        if slots != 0 {
            core.erase(source, slots);
        }
        if let Some(node) = node {
            core.stash.erase(core.medium(), node);
        }
        core.medium().fence();
        let node = node.map_or(NodeChange::None, NodeChange::Unstashed);
        let gone = Pending { bucket: source, clear: slots, node, ..Pending::default() };
        core.show_locked(&gone);
    }
}

impl<M: Medium, K: Fixed, V: Fixed, const MOST: usize> Drop for Unfenced<'_, M, K, V, MOST> {
    #[inline(always)]
    fn drop(&mut self) {
        self.commit();
    }
}

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
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

    #[inline(always)]
    pub(super) fn record_of(&self, bucket: u64) -> &Record {
        &self.records.as_slice().as_chunks().0[bucket as usize]
    }

    /// The version of a bucket, its lock, and what else is known of it.
    #[inline(always)]
    pub(super) fn state(&self, bucket: u64) -> &AtomicU64 {
        &self.record_of(bucket)[STATE]
    }

    /// The fingerprints of a bucket.
    #[inline(always)]
    pub(super) fn prints(&self, bucket: u64) -> u64 {
        self.record_of(bucket)[PRINTS].load(Ordering::Acquire)
    }

    /// The state of a bucket, and its fingerprints.
    #[inline(always)]
    pub(super) fn state_and_prints(&self, bucket: u64) -> (u64, u64) {
        state_and_prints(self.record_of(bucket))
    }

    /// Sets the fingerprint in a slot of a locked bucket; 0: it is empty.
    #[inline(always)]
    pub(super) fn set_print(&self, bucket: u64, slot: usize, print: u8) {
        let word = &self.record_of(bucket)[PRINTS];
        let shift = slot * 8;
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(print) << shift, Ordering::Release);
    }

    /// Changes the state of a locked bucket.
    #[inline(always)]
    pub(super) fn set_state(&self, bucket: u64, change: impl FnOnce(u64) -> u64) {
        let state = self.state(bucket);
        state.store(change(state.load(Ordering::Relaxed)), Ordering::Release);
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

    /// Flushes what of an item is not in the line of the bitmap; whether there is such.
    #[inline(always)]
    pub(super) fn flush_beyond(&self, at: Offset, slot: usize) -> bool {
        let beyond = self.bucket.beyond_bitmap(slot);
        self.medium().flush_range(at.add(beyond.start), beyond.end - beyond.start);
        !beyond.is_empty()
    }

    /// Flushes what tells whether a slot is in use.
    #[inline(always)]
    pub(super) fn flush_use(&self, at: Offset, slot: usize) {
        let word = if Bucket::<K, V>::WORDS { self.bucket.item_at(slot) } else { 0 };
        self.medium().flush(at.add(word));
    }

    /// Stores an item into an empty slot of a locked bucket, and flushes what of it is not in the line of the bitmap;
    /// whether there is such, which has to be durable before the bitmap shows it.
    #[inline(always)]
    pub(super) fn fill(&self, at: Offset, slot: usize, item: (K, V)) -> bool {
        // A reader that sees these stores also sees the version that made the slot empty.
        fence(Ordering::Release);
        self.bucket.fill(self.medium(), at, slot, item);
        self.flush_beyond(at, slot)
    }

    /// Commits what was put into a slot of a locked bucket with one word, the bitmap, if there is one, which no longer
    /// has the slots `clear`; else the key is that word. A fence is still to come.
    #[inline(always)]
    fn commit_bitmap(&self, at: Offset, slot: usize, clear: u64) {
        let medium = self.medium();
        if !Bucket::<K, V>::WORDS {
            medium.store_release(at, medium.load(at) & !clear | 1 << slot);
        }
        self.flush_use(at, slot);
    }

    /// Erases the items in slots of a locked bucket; a fence is still to come.
    #[inline(always)]
    fn erase(&self, bucket: u64, slots: u64) {
        let (medium, at) = (self.medium(), self.at(bucket));
        if Bucket::<K, V>::WORDS {
            let mut lines = [false; 2];
            for slot in slots_in(slots) {
                let word = self.bucket.item_at(slot);
                medium.store_release(at.add(word), 0);
                lines[(word / pmem::LINE) as usize] = true;
            }
            for (line, _) in lines.into_iter().enumerate().filter(|&(_, is_written)| is_written) {
                medium.flush(at.add(line as u64 * pmem::LINE));
            }
        } else {
            medium.store_release(at, medium.load(at) & !slots);
            medium.flush(at);
        }
    }

    /// Puts an item into an empty slot of a locked bucket, durably and visibly; the lock stays.
    pub(super) fn put_locked(&self, bucket: u64, slot: usize, item: (K, V), print: u8) {
        self.put_durably(self.at(bucket), slot, item);
        self.show_locked(&Pending { bucket, slot, print, ..Pending::default() });
    }

    /// Puts an item into an empty slot of a locked bucket, durably; it is still to be shown.
    #[inline(always)]
    pub(super) fn put_durably(&self, at: Offset, slot: usize, item: (K, V)) {
        if self.fill(at, slot, item) {
            self.medium().fence();
        }
        self.commit_bitmap(at, slot, 0);
        self.medium().fence();
    }

    /// Hides and erases what is in a slot of a locked bucket, where it is for the second time. Of words the erasure
    /// is made durable with what is put into the slot then, in the same line.
    pub(super) fn empty_slot(&self, bucket: u64, slot: usize) {
        let gone = Pending { bucket, clear: 1 << slot, ..Pending::default() };
        if Bucket::<K, V>::WORDS {
            self.show_locked(&gone);
            // A thread that sees it gone also sees it elsewhere. (What is put there then is ordered after it.)
            fence(Ordering::Release);
            self.medium().store(self.at(bucket).add(self.bucket.item_at(slot)), 0);
        } else {
            self.erase(bucket, 1 << slot);
            self.medium().fence();
            self.show_locked(&gone);
        }
    }

    /// Erases items and nodes durably, and hides them; for recovery.
    pub(super) fn delete_slots(&self, bucket: u64, slots: u64) {
        self.erase(bucket, slots);
        self.medium().fence();
        self.show_locked(&Pending { bucket, clear: slots, ..Pending::default() });
    }

    /// Shows a durable change of a locked bucket; the lock stays. What an item was is hidden after what it
    /// is was shown, in another version: a search that saw neither looks again.
    #[inline(always)]
    fn show_locked(&self, change: &Pending) {
        let bucket = change.bucket;
        if change.print != 0 {
            self.set_print(bucket, change.slot, change.print);
            self.set_state(bucket, with_new_version);
        }
        if change.clear != 0 {
            let mut clear = change.clear;
            while clear != 0 {
                self.set_print(bucket, clear.trailing_zeros() as usize, 0);
                clear &= clear - 1;
            }
            self.set_state(bucket, with_new_version);
        }
        if !matches!(change.node, NodeChange::None) {
            self.show_node(change);
        }
    }

    #[cold]
    fn show_node(&self, &Pending { bucket, node, .. }: &Pending) {
        match node {
            NodeChange::None => {}
            NodeChange::Stashed(node) => {
                self.stash.link(bucket, node);
                self.set_state(bucket, |state| with_new_version(state | STASHED));
            }
            NodeChange::Unstashed(node) => {
                self.stash.unlink(bucket, node);
                self.forget_stash_if_empty(bucket);
                // After the new version: a search that found the node may read another item's value there.
                self.stash.give_back(node);
            }
        }
    }

    /// Erases a node of a locked bucket durably, and hides it.
    pub(super) fn delete_node(&self, bucket: u64, node: u64) {
        self.stash.erase(self.medium(), node);
        self.medium().fence();
        self.show_node(&Pending {
            bucket,
            node: NodeChange::Unstashed(node),
            ..Pending::default()
        });
    }

    /// A node was taken from a locked bucket.
    fn forget_stash_if_empty(&self, bucket: u64) {
        let is_empty = self.stash.nodes_of(bucket).is_empty();
        let kept = if is_empty { !STASHED } else { u64::MAX };
        self.set_state(bucket, |state| with_new_version(state & kept));
    }

    /// [`Core::show_locked`], and gives the lock back.
    #[inline(always)]
    fn show(&self, change: &Pending) {
        if change.print != 0 && change.clear == 0 {
            // As nearly always: in one step.
            self.set_print(change.bucket, change.slot, change.print);
            self.set_state(change.bucket, |state| with_new_version(state) & !LOCK);
            return;
        }
        self.show_locked(change);
        self.set_state(change.bucket, |state| state & !LOCK);
    }
}
