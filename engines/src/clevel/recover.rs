//! Recovery: clears marks, erases copies that a cut move has left, and marks reachable items.
//!
//! At most an item that was being moved when the power failed is there twice: in one level, and in one further back,
//! under the same offset. The copy could not change before the item had durably lost its first place. So both are
//! equal, and the copy goes; recovery recognises it because its item is marked already. A cut recovery leaves what a
//! crash leaves, and can run again.

use super::Core;
use super::layout::{Bucket, Context, Word, load};
use crate::kit::parallel::in_parallel;
use pmem::heap::Sweep;
use pmem::sync::{AtomicU64, Ordering};
use pmem::{Medium, OpenError};
use std::ops::Range;

/// Buckets that are worth a thread.
const BUCKETS_PER_THREAD: u64 = 4096;

/// What a part of a level holds.
#[derive(Debug, Clone, Copy)]
struct Part {
    items: u64,
    /// The first bucket with an item.
    first: u64,
}

impl<M: Medium> Core<M> {
    pub(super) fn recover(&self) -> Result<(), OpenError> {
        self.pool.read_index_ahead();
        let word = self.medium().load(self.control);
        let context = Context::of_word(word);
        if Context::is_dirty_word(word) && !self.pool.is_read_only() {
            // What survived is durable. Left for a reader to find out, it could be stored to after a
            // sync has said that the pool is clean.
            self.medium().store(self.control, context.word());
        }
        let sweep = self.heap.sweep();
        let levels: Vec<u32> = context.levels().collect();
        for (index, &number) in levels.iter().enumerate() {
            let is_open = context.open().contains(&number);
            let buckets = self.levels.get(number).buckets();
            let first = AtomicU64::new(buckets);
            let items = in_parallel(&self.settings, buckets, BUCKETS_PER_THREAD, &|range| {
                let part = self.repair(number, range, is_open, &levels[..index], &sweep);
                let earlier = |first| (part.first < first).then_some(part.first);
                let _ = first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
                Ok(part.items)
            })?;
            self.at_open.fetch_add(items, Ordering::Relaxed);
            if index == 0 && !is_open {
                self.skip_drained(number, first.load(Ordering::Relaxed));
            }
        }
        sweep.finish();
        Ok(())
    }

    /// Repairs some buckets of a level; those in front of it are repaired.
    fn repair(
        &self,
        number: u32,
        range: Range<u64>,
        is_open: bool,
        in_front: &[u32],
        sweep: &Sweep<'_, M>,
    ) -> Part {
        let level = self.levels.get(number);
        let mut part = Part { items: 0, first: level.buckets() };
        let mut has_erased = false;
        for index in range {
            let bucket = level.bucket(index);
            self.fingerprints.rebuild(self.medium(), bucket);
            for slot in bucket.slots() {
                let word = load(self.medium(), slot);
                // Where nothing is drained, only a level that is used again can have such a word.
                let stays_frozen = word == Word::FROZEN && !is_open;
                if word == Word::EMPTY || stays_frozen {
                    continue;
                }
                let is_copy = word.is_item()
                    && sweep.is_marked(word.at())
                    && self.has_item(in_front, word.clean());
                if is_copy {
                    if !self.pool.is_read_only() {
                        self.medium().store(slot, Word::EMPTY.0);
                        self.medium().flush(slot);
                        has_erased = true;
                    }
                    continue;
                }
                if word.is_item() {
                    // What cannot be marked is damaged: the sweep then frees nothing, and reading
                    // or `check` says so.
                    let _ = sweep.mark(word.at());
                    part.items += 1;
                    part.first = part.first.min(index);
                }
                let repaired = if word.is_item() { word.clean() } else { Word::EMPTY };
                if repaired != word && !self.pool.is_read_only() {
                    self.medium().store(slot, repaired.0);
                }
            }
        }
        if has_erased {
            // Before the item can be changed where it is.
            self.medium().fence();
        }
        part
    }

    /// Whether one of these levels has the item that this word leads to.
    fn has_item(&self, levels: &[u32], word: Word) -> bool {
        let guard = self.epochs.pin();
        let Ok(item) = self.heap.item(word.at(), &guard) else { return false };
        let hash = self.hash(item.key);
        let holds =
            |bucket: Bucket| bucket.slots().any(|slot| load(self.medium(), slot).clean() == word);
        levels.iter().any(|&level| self.levels.get(level).candidates(hash).into_iter().any(holds))
    }
}
