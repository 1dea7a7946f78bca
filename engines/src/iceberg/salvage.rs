//! What is left of a damaged pool.

use super::hash::h0;
use super::layout::{LEVEL_1, LEVEL_2, LEVEL_3, NODE_BYTES, ROOT_LEVEL_1, ROOT_LEVEL_2, Shape};
use super::level_3::IN_USE;
use crate::wreck::{Found, Wreck, units_log2};
use index::hash::{h1, h2};
use pmem::Offset;
use pmem::slots::SLOT_BYTES;

/// Shows what the three levels hold. A slot in use has a key other than 0. Its block must be one of the key's choices
/// among all blocks, or among half of them: the key's block before a doubling, or the one it goes to in a shrink.
pub(super) fn salvage(wreck: &mut Wreck<'_>, visit: &mut dyn FnMut(Found<'_, u64, u64>)) {
    let shape = Shape::decode(&wreck.superblock.engine_params).unwrap_or_default();
    let hasher = wreck.hasher;
    let is_in = |block: u64, choice: u64, log2: Option<u32>| {
        let is_among = |log2: u32| choice & ((1 << log2) - 1) == block;
        log2.is_none_or(|log2| is_among(log2) || is_among(log2.saturating_sub(1)))
    };
    for (owner, root, slots) in
        [(LEVEL_1, ROOT_LEVEL_1, shape.level_1_slots), (LEVEL_2, ROOT_LEVEL_2, shape.level_2_slots)]
    {
        let extents = wreck.extents(owner);
        let block_bytes = SLOT_BYTES * u64::from(slots);
        // A shrink leaves extents in which nothing is in use.
        let root = wreck.superblock.engine_roots[root] as u32;
        let log2 = units_log2(&extents, block_bytes)
            .map(|there| if (shape.initial_log2..there).contains(&root) { root } else { there });
        wreck.for_each_unit(&extents, block_bytes, |block| {
            for slot in 0..u64::from(slots) {
                let (key, value) = (block.word(2 * slot), block.word(2 * slot + 1));
                if key == 0 {
                    continue;
                }
                let second = hasher.second_u64(key);
                let is_home = match owner {
                    LEVEL_1 => is_in(block.number, h0(hasher.first_u64(key)), log2),
                    _ => [h1(second), h2(second)].iter().any(|&h| is_in(block.number, h, log2)),
                };
                let at = Offset(block.at.0 + slot * SLOT_BYTES);
                visit(if is_home { Found::Pair(key, value) } else { Found::Misplaced(at) });
            }
        });
    }
    let extents = wreck.extents(LEVEL_3);
    wreck.for_each_unit(&extents, NODE_BYTES, |node| match node.word(2) {
        0 => {}
        IN_USE => visit(Found::Pair(node.word(0), node.word(1))),
        _ => visit(Found::Misplaced(node.at)),
    });
}
