//! What is left of a damaged pool.

use super::layout::{BUCKETS, Bucket};
use super::shape::Shape;
use crate::kit::packed::second_of;
use crate::wreck::{Found, Wreck};
use index::Fixed;
use index::hash::{h1, h2};
use pmem::Offset;

/// Shows what all levels hold: a slot is in use if its token says so, and its bucket is one of the two that the key
/// chooses in that level. What a level has lost, its tokens say.
pub(super) fn salvage<K: Fixed, V: Fixed>(
    wreck: &mut Wreck<'_>,
    visit: &mut dyn FnMut(Found<'_, K, V>),
) {
    let pair_bytes = (K::layout_bytes() + V::layout_bytes()) as u64;
    let shape = Shape::decode(&wreck.superblock.engine_params)
        .unwrap_or_else(|_| Shape::for_pair_bytes(pair_bytes));
    let Ok(layout) = Bucket::<K, V>::new(shape.slots) else { return };
    let hasher = wreck.hasher;
    for extent in wreck.extents(BUCKETS) {
        let buckets = extent.bytes / layout.bytes;
        wreck.for_each_unit(&[extent], layout.bytes, |bucket| {
            let tokens = bucket.word(0) & layout.full();
            for slot in (0..shape.slots as usize).filter(|slot| tokens & 1 << slot != 0) {
                let at = layout.item_at(slot);
                let key: K = bucket.fixed(at);
                let hash = second_of(&hasher, key);
                let is_home = !buckets.is_power_of_two()
                    || [h1(hash), h2(hash)].iter().any(|h| h & (buckets - 1) == bucket.nth);
                visit(if is_home {
                    Found::Pair(key, bucket.fixed(at + K::layout_bytes() as u64))
                } else {
                    Found::Misplaced(Offset(bucket.at.0 + at))
                });
            }
        });
    }
}
