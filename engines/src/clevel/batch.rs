//! Batches: the buckets and then the items of several operations fetched together.

use super::Core;
use super::layout::{Context, Level, load, tag};
use super::ops::{Change, Changed, Hit};
use index::ItemError;
use pmem::Medium;
use pmem::epoch::Guard;
use pmem::heap::Corrupt;

/// Operations whose buckets are fetched together.
const BATCH: usize = 16;

impl<M: Medium> Core<M> {
    #[inline(always)]
    pub(super) fn prefetch_buckets(&self, context: Context, hash: u64) {
        for level in context.in_search_order() {
            for bucket in self.levels.get(level).candidates(hash) {
                self.medium().prefetch(bucket);
            }
        }
    }

    /// Fetches the first item that may be the key's.
    fn prefetch_item(&self, context: Context, hash: u64) {
        let tag = tag(hash);
        let buckets =
            context.in_search_order().flat_map(|level| self.levels.get(level).candidates(hash));
        let words = buckets.flat_map(Level::slots).map(|slot| load(self.medium(), slot));
        if let Some(word) = words.into_iter().find(|word| word.is_item() && word.has_tag(tag)) {
            self.heap.prefetch(word.at());
        }
    }

    /// Hashes of a batch, everything fetched that its operations will read.
    fn fetch<T>(&self, entries: &[T], key_of: impl Fn(&T) -> &[u8]) -> [u64; BATCH] {
        let mut hashes = [0; BATCH];
        let context = self.context();
        for (entry, hash) in entries.iter().zip(&mut hashes) {
            *hash = self.hash(key_of(entry));
            self.prefetch_buckets(context, *hash);
        }
        for &hash in &hashes[..entries.len()] {
            self.prefetch_item(context, hash);
        }
        hashes
    }

    /// Searches for each entry's key, in order.
    pub(super) fn search_many<'a, T>(
        &'a self,
        entries: &[T],
        key_of: impl Fn(&T) -> &[u8],
        guard: &Guard<'a>,
        mut answer: impl FnMut(&T, Option<Hit<'a>>),
    ) -> Result<(), Corrupt> {
        for entries in entries.chunks(BATCH) {
            let hashes = self.fetch(entries, &key_of);
            for (entry, hash) in entries.iter().zip(hashes) {
                answer(entry, self.search(hash, key_of(entry), guard)?);
            }
        }
        Ok(())
    }

    /// Changes each entry's key as `decide` says, in order, and passes on what was there before. An
    /// error ends it: what was passed on until then has been done.
    pub(super) fn change_many<'a, 'v, T>(
        &'a self,
        entries: &'v [T],
        key_of: impl Fn(&T) -> &[u8],
        decide: impl Fn(&'v T, Option<&[u8]>) -> Change<'v>,
        mut answer: impl FnMut((Changed<'a>, Guard<'a>)),
    ) -> Result<(), ItemError> {
        for entries in entries.chunks(BATCH) {
            let hashes = {
                let _guard = self.epochs.pin();
                self.fetch(entries, &key_of)
            };
            for (entry, hash) in entries.iter().zip(hashes) {
                let decide = |found: Option<&[u8]>| decide(entry, found);
                answer(self.change(hash, key_of(entry), &decide)?);
            }
        }
        Ok(())
    }
}
