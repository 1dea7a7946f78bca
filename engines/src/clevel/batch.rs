//! Batches: what several operations will read is fetched together, and their items share a fence.

use super::Core;
use super::layout::{Context, load};
use super::ops::{Changed, Fresh};
use super::search::{Hit, slot_of};
use index::{Change, Error};
use pmem::epoch::Guard;
use pmem::heap::Corrupt;
use pmem::{Medium, Offset};

/// Operations whose buckets are fetched together.
const BATCH: usize = 16;
/// Longest value whose item is written ahead. Compared with the flushes of a longer one, a fence is negligible.
const AHEAD_BYTES_MAX: usize = 4096;

impl<M: Medium> Core<M> {
    /// Fetches the fingerprints of a key's buckets.
    fn prefetch_fingerprints(&self, context: Context, hash: u64) {
        for level in context.levels() {
            for bucket in self.levels.get(level).candidates(hash) {
                self.fingerprints.prefetch(bucket);
            }
        }
    }

    /// Fetches the slots of the first item that may be the key's.
    fn prefetch_slot(&self, context: Context, hash: u64) {
        if let Some(slot) = self.likely_slot(context, hash) {
            self.medium().prefetch(slot);
        }
    }

    /// Fetches the first item that may be the key's.
    fn prefetch_item(&self, context: Context, hash: u64) {
        let likely = self.likely_slot(context, hash).map(|slot| load(self.medium(), slot));
        if let Some(word) = likely.filter(|word| word.is_item()) {
            self.heap.prefetch(word.at(), 0);
        }
    }

    /// The first slot that may lead to a key, its fingerprint says.
    fn likely_slot(&self, context: Context, hash: u64) -> Option<Offset> {
        let (buckets, matching) = self.matching_fast(context, hash)?;
        (matching != 0).then(|| slot_of(&buckets, matching))
    }

    /// Hashes of a batch, everything fetched that its operations will read.
    fn fetch<T>(&self, entries: &[T], key_of: impl Fn(&T) -> &[u8]) -> [u64; BATCH] {
        let mut hashes = [0; BATCH];
        let context = self.context();
        for (entry, hash) in entries.iter().zip(&mut hashes) {
            *hash = self.hash(key_of(entry));
            self.prefetch_fingerprints(context, *hash);
        }
        for &hash in &hashes[..entries.len()] {
            self.prefetch_slot(context, hash);
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

    /// Writes the items that these entries' changes will put, as it looks now; all are durable after one
    /// fence. Those that nothing will lead to are retired by the changes that they were written for.
    fn write_ahead<'v, T>(
        &self,
        entries: &'v [T],
        hashes: &[u64; BATCH],
        key_of: impl Fn(&T) -> &[u8],
        decide: impl Fn(&'v T, Option<&[u8]>) -> Change<&'v [u8]>,
        guard: &Guard<'_>,
    ) -> [Option<Fresh>; BATCH] {
        let mut written = [const { None }; BATCH];
        for ((entry, &hash), written) in entries.iter().zip(hashes).zip(&mut written) {
            let key = key_of(entry);
            // What is wrong its change finds, too, and says so; likewise where there is no space.
            let Ok(found) = self.search(hash, key, guard) else { continue };
            match decide(entry, found.map(|hit| hit.item.value)) {
                Change::Put(value) if value.len() <= AHEAD_BYTES_MAX => {
                    *written = self.write_unfenced(key, value, None).ok();
                }
                _ => {}
            }
        }
        if written.iter().any(Option::is_some) {
            self.medium().fence();
        }
        written
    }

    /// Changes each entry's key as `decide` says, in order, and passes on what was there before. An error
    /// ends it: what was passed on until then has been done, and nothing else. `decide` puts the same value whenever it
    /// puts one, and none at all unless `puts`.
    pub(super) fn change_many<'a, 'v, T>(
        &'a self,
        entries: &'v [T],
        key_of: impl Fn(&T) -> &[u8],
        puts: bool,
        decide: impl Fn(&'v T, Option<&[u8]>) -> Change<&'v [u8]>,
        mut answer: impl FnMut((Changed<'a>, Guard<'a>)),
    ) -> Result<(), Error> {
        for entries in entries.chunks(BATCH) {
            let (hashes, mut written) = {
                let guard = self.epochs.pin();
                let hashes = self.fetch(entries, &key_of);
                let written = if puts {
                    self.write_ahead(entries, &hashes, &key_of, &decide, &guard)
                } else {
                    [const { None }; BATCH]
                };
                (hashes, written)
            };
            for (index, (entry, hash)) in entries.iter().zip(hashes).enumerate() {
                let decide = |found: Option<&[u8]>| decide(entry, found);
                let fresh = written[index].take();
                let mut changed = self.change_by(fresh, hash, key_of(entry), &decide);
                if changed.is_err() && written.iter().any(Option::is_some) {
                    // What it had no space for may be what later ones have taken.
                    for unused in written.iter_mut().filter_map(Option::take) {
                        self.heap.reclaim(unused.at);
                    }
                    changed = self.change(hash, key_of(entry), &decide);
                }
                answer(changed?);
            }
        }
        Ok(())
    }
}
