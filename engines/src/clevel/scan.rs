//! Scans while others write: every key that is present throughout is met exactly once.
//!
//! A scan goes through the levels from front to back, those included that are appended meanwhile.
//! Items move to the back only, as it does: it may meet one twice, but misses none (the argument is
//! that for a search that finds nothing). So it remembers what it has met, and passes over a
//! key that it meets again, moved or changed or both.

use super::Core;
use super::layout::{self, Bucket, Context, Level, Word, load};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use index::{Error, ItemError, KeyValue, RecordScan};
use pmem::epoch::Guard;
use pmem::heap::Item;
use pmem::{Medium, Offset};

const SLOTS: u64 = layout::SLOTS as u64;

/// A scan of the items of some of the tags.
pub(super) struct TagScan<'a, M: Medium> {
    core: &'a Core<M>,
    /// Pinned before any slot is read: its item could be reclaimed before a later pin. Until the end
    /// no number of a level serves again, so that each is visited once.
    guard: Guard<'a>,
    /// An item's tag stays as it is where the item moves.
    part: u64,
    parts: u64,
    /// Offsets of the items that were met, by key: they stay readable while the scan is pinned.
    met: HashTable<u64>,
    /// The levels that it knows of, and by number those that it has come to.
    context: Context,
    visited: u64,
    /// The level that it is in, and the next slot of that.
    level: Option<Level>,
    next: u64,
}

impl<'a, M: Medium> TagScan<'a, M> {
    #[inline(never)]
    pub(super) fn new(core: &'a Core<M>, part: usize, parts: usize) -> Self {
        let guard = core.epochs.pin();
        TagScan {
            core,
            guard,
            part: part as u64,
            parts: parts as u64,
            // As large as it is going to be, mostly: to grow it takes a look at every item.
            met: HashTable::with_capacity(core.len() as usize / parts),
            context: core.context(),
            visited: 0,
            level: None,
            next: 0,
        }
    }

    /// The next item, which is durable and fits its checksum. After an error it goes on behind the item that is not.
    #[inline(never)]
    pub(super) fn next_item(&mut self) -> Result<Option<Item<'a>>, Error> {
        while let Some(slot) = self.next_slot() {
            let core = self.core;
            let word = load(core.medium(), slot);
            if !self.is_wanted(word) {
                continue;
            }
            let item = core.heap.sound_item(word.at(), &self.guard)?;
            if !self.add(word.at(), &item) {
                continue;
            }
            if word.is_dirty() {
                core.make_durable(slot, word.clean());
            }
            return Ok(Some(item));
        }
        Ok(None)
    }

    fn is_wanted(&self, word: Word) -> bool {
        word.is_item() && word.tag() % self.parts == self.part
    }

    /// The next slot of all levels, those included that are appended meanwhile.
    fn next_slot(&mut self) -> Option<Offset> {
        loop {
            if let Some(level) = self.level.filter(|level| self.next < level.buckets() * SLOTS) {
                let (index, slot) = (self.next / SLOTS, self.next % SLOTS);
                if slot == 0 {
                    self.prefetch_items(level.bucket(index + 1));
                }
                self.next += 1;
                return Some(level.bucket(index).slot(slot));
            }
            self.level = Some(self.next_level()?);
            self.next = 0;
        }
    }

    fn next_level(&mut self) -> Option<Level> {
        loop {
            let is_new = |number: &u32| self.visited & 1 << number == 0;
            if let Some(number) = self.context.levels().find(is_new) {
                self.visited |= 1 << number;
                return Some(self.core.levels.get(number));
            }
            // Items may have been moved to levels appended meanwhile.
            let now = self.core.context();
            if now.back() == self.context.back() {
                return None;
            }
            self.context = now;
        }
    }

    /// Items lie anywhere. After the last bucket comes the first one again.
    fn prefetch_items(&self, bucket: Bucket) {
        let words = self.core.medium().load_line(bucket.at()).map(Word);
        for word in words.into_iter().filter(|&word| self.is_wanted(word)) {
            self.core.heap.prefetch(word.at(), 0);
        }
    }

    /// Adds the item at `at` to those that were met, unless there is one of its key; whether it did.
    fn add(&mut self, at: Offset, item: &Item<'_>) -> bool {
        let TagScan { core, guard, met, .. } = self;
        // Each has been read before.
        let read = |at: u64| core.heap.item(Offset(at), guard);
        let is_same =
            |&other: &u64| other == at.0 || read(other).is_ok_and(|other| other.key == item.key);
        let hash_of = |&at: &u64| read(at).map_or(0, |item| core.hash(item.key));
        match met.entry(core.hash(item.key), is_same, hash_of) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(at.0);
                true
            }
        }
    }
}

impl<M: Medium> RecordScan for TagScan<'_, M> {
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, ItemError> {
        Ok(self.next_item()?.map(|item| (item.key, item.value)))
    }
}
