//! What is left of a damaged pool.

use super::layout::{BUCKET_BYTES, Bucket};
use super::shape::Shape;
use crate::kit::doubling;
use crate::kit::packed::second_of;
use crate::wreck::{Found, Wreck};
use index::Fixed;
use pmem::Offset;

/// Shows what the data tables hold: a slot is in use if the bitmap says so, and its bucket is one of its key's.
pub(super) fn salvage<K: Fixed, V: Fixed>(
    wreck: &mut Wreck<'_>,
    visit: &mut dyn FnMut(Found<'_, K, V>),
) {
    let pair_bytes = (K::layout_bytes() + V::layout_bytes()) as u64;
    let shape = Shape::decode(&wreck.superblock.engine_params)
        .unwrap_or_else(|_| Shape::for_pair_bytes(pair_bytes));
    let Ok(layout) = Bucket::<K, V>::new(shape.slots) else { return };
    let hasher = wreck.hasher;
    let homes = doubling::homes_in(wreck, BUCKET_BYTES);
    wreck.for_each_unit(&homes.tables, BUCKET_BYTES, |bucket| {
        let used = layout.bitmap(bucket.word(0));
        for slot in (0..shape.slots as usize).filter(|slot| used & 1 << slot != 0) {
            let at = layout.item_at(slot);
            let key: K = bucket.fixed(at);
            visit(if homes.are_of(bucket.number, second_of(&hasher, key)) {
                Found::Pair(key, bucket.fixed(at + K::layout_bytes() as u64))
            } else {
                Found::Misplaced(Offset(bucket.at.0 + at))
            });
        }
    });
}
