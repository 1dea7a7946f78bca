//! Search, from front to back: in a table that is resizing, or in which items move.

use super::Core;
use super::fingerprints::fingerprint_of;
use super::layout::{Bucket, Context, SLOTS, Word, load, tag};
use index::{ItemError, Record};
use pmem::epoch::Guard;
use pmem::heap::{Corrupt, Item};
use pmem::{Medium, Offset};

/// Where a key was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit<'a> {
    pub(super) slot: Offset,
    /// What leads to the item.
    pub(super) word: Word,
    pub(super) item: Item<'a>,
}

/// The first slot of these buckets whose bit is set.
#[inline(always)]
pub(super) fn slot_of(buckets: &[Bucket], matching: u32) -> Offset {
    let index = matching.trailing_zeros() as usize;
    buckets[index / SLOTS].slot((index % SLOTS) as u64)
}

impl<M: Medium> Core<M> {
    /// The value of a key, if the fast search suffices.
    #[inline(always)]
    pub(super) fn get_here(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        let guard = self.epochs.pin();
        let found = self.search_fast(self.hash(key), key, &guard)?;
        Some(found.map(|hit| Record::new(hit.item.value, guard)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError> {
        if let Some(found) = self.get_here(key) {
            return Ok(found);
        }
        let guard = self.epochs.pin();
        let found = self.search_slow(self.hash(key), key, &guard)?;
        Ok(found.map(|hit| Record::new(hit.item.value, guard)))
    }

    /// Lock-free search. What is answered is durable.
    #[inline(always)]
    pub(super) fn search<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        match self.search_fast(hash, key, guard) {
            Some(found) => Ok(found),
            None => self.search_slow(hash, key, guard),
        }
    }

    /// Redone if nothing was found and a level has been appended meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn search_slow<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        loop {
            let context = self.context();
            let mut is_removal_seen = false;
            if let Some(hit) = self.probe(context, hash, key, guard, &mut is_removal_seen)? {
                if hit.word.is_dirty() {
                    self.make_durable(hit.slot, hit.word.clean());
                }
                return Ok(Some(hit));
            }
            if is_removal_seen {
                self.medium().fence();
            }
            // Levels dropped have been drained before.
            if self.context().back() == context.back() {
                return Ok(None);
            }
        }
    }

    /// Looks once at every candidate bucket of these levels for the key, from front to back. Flushes
    /// lines in which a key of this tag may have been removed, and says that there were some.
    pub(super) fn probe<'a>(
        &'a self,
        context: Context,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
        is_removal_seen: &mut bool,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        // One level after the other, as items move.
        for level in context.levels() {
            let buckets = self.levels.get(level).candidates(hash);
            let mut matching = self.fingerprints.matching([buckets], fingerprint_of(tag(hash)));
            while matching != 0 {
                let slot = slot_of(&buckets, matching);
                matching &= matching - 1;
                let word = load(self.medium(), slot);
                if !word.has_tag(tag(hash)) {
                    continue;
                }
                if word.is_item() {
                    if let Some(item) = self.heap.item_of_key(word.at(), key, guard)? {
                        return Ok(Some(Hit { slot, word, item }));
                    }
                } else if word.is_gone() {
                    self.medium().flush(slot);
                    *is_removal_seen = true;
                }
            }
        }
        Ok(None)
    }

    /// Makes sure that what was read in a slot survives, before it is reported.
    #[cold]
    pub(super) fn make_durable(&self, slot: Offset, word: Word) {
        if !self.pool.is_read_only() {
            self.medium().persist(slot);
            self.clear_dirty(slot, word);
        }
    }
}
