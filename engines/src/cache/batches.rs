//! Many keys at once: what they need comes into the processor's caches together.

use super::Cache;
use super::index::{granule_in, lines_with, numbers_in, slots_that, tag_in, tag_of};
use ::index::Record;
use pmem::Medium;

/// Keys of which memory is fetched together: about as many lines as a processor fetches at once.
pub const KEYS_AHEAD: usize = 16;

impl<M: Medium> Cache<M> {
    /// [`Cache::get`] for each key.
    pub fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Vec<Option<Record<'a>>> {
        let mut found = Vec::with_capacity(keys.len());
        for few in keys.chunks(KEYS_AHEAD) {
            self.fetch(few.iter().copied());
            found.extend(few.iter().map(|key| self.get(key)));
        }
        found
    }

    /// Fetches what looking these keys up will read, [`KEYS_AHEAD`] of them at most.
    pub fn fetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut hashes = [None; KEYS_AHEAD];
        for (key, fetched) in keys.zip(&mut hashes) {
            let hash = self.hasher.first_bytes(key);
            self.prefetch_lines(hash);
            *fetched = Some((hash, key.len()));
        }
        // Items that are given up meanwhile may be read by nobody, but fetched by anybody.
        for (hash, key_bytes) in hashes.into_iter().flatten() {
            for line in lines_with(&self.arena, self.directory.segment(hash), hash) {
                let slots = self.arena.medium().load_line(line);
                let tag = tag_of(hash);
                for number in numbers_in(slots_that(&slots, |one| one != 0 && tag_in(one) == tag)) {
                    let slot = slots[number as usize];
                    self.hits.prefetch(granule_in(slot));
                    self.arena.prefetch_item(self.place(slot), key_bytes);
                }
            }
        }
    }
}
