//! Scans beside writers: every key that is present throughout is met exactly once.
//!
//! A scan goes through the levels from front to back, those included that are appended meanwhile.
//! Items move to the back only, as it does: it may meet one twice, but misses none (the argument is
//! that for a search that finds nothing). So it remembers what it has met, and passes over a
//! key that it meets again, moved or changed or both.

use super::Core;
use super::layout::{Word, load};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use index::Error;
use pmem::epoch::Guard;
use pmem::heap::Item;
use pmem::{Medium, Offset};

/// The items that a scan has met, by key: they stay readable while it is pinned.
struct Met<'a, M: Medium> {
    core: &'a Core<M>,
    guard: &'a Guard<'a>,
    /// Their offsets.
    items: HashTable<u64>,
}

impl<M: Medium> Met<'_, M> {
    /// Adds the item at `at`, unless there is one of its key; whether it did.
    fn add(&mut self, at: Offset, item: &Item<'_>) -> bool {
        let Met { core, guard, items } = self;
        // Each has been read before.
        let read = |at: u64| core.heap.item(Offset(at), guard);
        let is_same =
            |&other: &u64| other == at.0 || read(other).is_ok_and(|other| other.key == item.key);
        let hash_of = |&at: &u64| read(at).map_or(0, |item| core.hash(item.key));
        match items.entry(core.hash(item.key), is_same, hash_of) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(at.0);
                true
            }
        }
    }
}

impl<M: Medium> Core<M> {
    /// Calls `visit` for the items of the `part`-th of `parts` parts of the keys, which are made by
    /// tags: an item that moves stays in its part.
    pub(super) fn for_each_part(
        &self,
        part: usize,
        parts: usize,
        visit: &mut dyn FnMut(&Item<'_>),
    ) -> Result<(), Error> {
        // Pinned before any slot is read: its item could be reclaimed before a later pin. Until the
        // end no number of a level serves again, so that each is visited once.
        let guard = self.epochs.pin();
        // As large as it is going to be, mostly: to grow it takes a look at every item.
        let items = HashTable::with_capacity(self.len() as usize / parts);
        let mut met = Met { core: self, guard: &guard, items };
        let is_wanted = |word: Word| word.is_item() && word.tag() % parts as u64 == part as u64;
        let mut visited = 0u64;
        let mut context = self.context();
        loop {
            for number in context.levels() {
                if visited & 1 << number != 0 {
                    continue;
                }
                visited |= 1 << number;
                let level = self.levels.get(number);
                for index in 0..level.buckets() {
                    // Items lie anywhere; after the last bucket comes the first one again.
                    let words = self.medium().load_line(level.bucket(index + 1).at()).map(Word);
                    for word in words.into_iter().filter(|&word| is_wanted(word)) {
                        self.heap.prefetch(word.at());
                    }
                    for slot in level.bucket(index).slots() {
                        let word = load(self.medium(), slot);
                        if !is_wanted(word) {
                            continue;
                        }
                        let item = self.heap.item(word.at(), &guard)?;
                        if !met.add(word.at(), &item) {
                            continue;
                        }
                        if word.is_dirty() {
                            self.make_durable(slot, word.clean());
                        }
                        visit(&item);
                    }
                }
            }
            // Items may have been moved to levels appended meanwhile.
            let now = self.context();
            if now.back() == context.back() {
                return Ok(());
            }
            context = now;
        }
    }
}
