//! The fast path: the search of a table that is not resizing.

use super::Core;
use super::fingerprints::fingerprint_of;
use super::layout::{Bucket, Context, SLOTS, load, tag};
use super::search::{Hit, slot_of};
use pmem::Medium;
use pmem::epoch::Guard;

/// Of a key's slots in a table that is not resizing, the bits of those in the front level.
const FRONT_SLOTS: u32 = (1 << (2 * SLOTS)) - 1;

impl<M: Medium> Core<M> {
    /// The search of a table at rest that meets nothing but durable items; `None` if it meets anything
    /// else, or finds nothing and an item may have moved. In line, with few instructions and none that
    /// waits for a guess: so the misses of one search overlap with those of the next.
    #[inline(always)]
    pub(super) fn search_fast<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Option<Option<Hit<'a>>> {
        let context = self.context();
        let (buckets, matching) = self.matching_fast(context, hash)?;
        let mut rest = matching;
        while rest != 0 {
            let slot = slot_of(&buckets, rest);
            rest &= rest - 1;
            let word = load(self.medium(), slot);
            if word.is_clean_item_of(hash) {
                if let Some(item) = self.heap.item_of_key(word.at(), key, guard).ok()? {
                    return Some(Some(Hit { slot, word, item }));
                }
            } else if word.has_tag(tag(hash)) {
                return None;
            }
        }
        // From a slot of the front level the key's item may have left after the fingerprints of the back
        // level were read.
        (matching & FRONT_SLOTS == 0 && self.context() == context).then_some(None)
    }

    /// The buckets of a key in a table that is not resizing, those of the front level first, and a bit
    /// for each of their slots that may lead to it; of all of them together, since in which one it is
    /// cannot be predicted.
    #[inline(always)]
    pub(super) fn matching_fast(&self, context: Context, hash: u64) -> Option<([Bucket; 4], u32)> {
        let [front, back] = context.at_rest()?.map(|level| self.levels.get(level).candidates(hash));
        // While the fingerprints are on their way. Those of the other level, which has a third of the
        // keys, would cost all searches more than they save it.
        back.into_iter().for_each(|bucket| self.medium().prefetch(bucket.at()));
        let matching = self.fingerprints.matching([front, back], fingerprint_of(tag(hash)));
        Some(([front[0], front[1], back[0], back[1]], matching))
    }
}
