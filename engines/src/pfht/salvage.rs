//! What is left of a damaged pool.

use super::layout::{BUCKET_BYTES, Bucket, Node, STASH_OWNER};
use super::shape::Shape;
use crate::kit::doubling;
use crate::kit::packed::second_of;
use crate::wreck::{Found, Wreck};
use index::Fixed;
use pmem::{Offset, WORD};

/// Shows what the data tables hold, in buckets of the keys', and then the stash.
pub(super) fn salvage<K: Fixed, V: Fixed>(
    wreck: &mut Wreck<'_>,
    visit: &mut dyn FnMut(Found<'_, K, V>),
) {
    let shape = Shape::decode(&wreck.superblock.engine_params)
        .unwrap_or_else(|_| Shape::for_pair::<K, V>());
    let Ok(layout) = Bucket::<K, V>::new(shape.slots) else { return };
    let hasher = wreck.hasher;
    let homes = doubling::homes_in(wreck, BUCKET_BYTES);
    wreck.for_each_unit(&homes.tables, BUCKET_BYTES, |bucket| {
        for slot in 0..shape.slots as usize {
            let at = layout.item_at(slot);
            let key: K = bucket.fixed(at);
            let is_used = if Bucket::<K, V>::WORDS {
                key.word(0) != 0
            } else {
                bucket.word(0) & 1 << slot != 0
            };
            if !is_used {
                continue;
            }
            visit(if homes.are_of(bucket.number, second_of(&hasher, key)) {
                Found::Pair(key, bucket.fixed(at + K::layout_bytes() as u64))
            } else {
                Found::Misplaced(Offset(bucket.at.0 + at))
            });
        }
    });
    let stash = wreck.extents(STASH_OWNER);
    let key_of_zero = K::of_words(|_| 0);
    wreck.for_each_unit(&stash, Node::<K, V>::bytes(), |node| {
        let first = node.word(0);
        let value = node.fixed(Node::<K, V>::ITEM + K::layout_bytes() as u64);
        if Node::<K, V>::is_in_use(node.number, first) {
            let is_of_zero = Bucket::<K, V>::WORDS && !Node::<K, V>::has_own_key(node.number);
            let key = if is_of_zero { key_of_zero } else { node.fixed(Node::<K, V>::ITEM) };
            visit(Found::Pair(key, value));
        } else if first != 0 {
            visit(Found::Misplaced(node.at));
        }
    });
}

const _: () = assert!(BUCKET_BYTES.is_multiple_of(WORD));
