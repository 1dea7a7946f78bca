//! IcebergHT, as the suite sees it.

mod layout;

use crate::harness::{Budget, Engine, NEVER, colliding};
use engines::iceberg::hash::{h0, level1_mark};
use engines::iceberg::{self, Shape};
use std::sync::LazyLock;

/// Slots of a level-1 and of a level-2 block, by variant.
const BLOCKS: [(u32, u32); 6] = [(64, 8), (32, 4), (32, 6), (64, 4), (64, 6), (32, 8)];

pub(crate) static ENGINE: Engine = Engine {
    listed: engines::Engine::Iceberg,
    variants: BLOCKS.len(),
    params: |variant, pairs| {
        let (level_1_slots, level_2_slots) = BLOCKS[variant];
        let initial_nodes_log2 = if pairs == 0 { 0 } else { 5 };
        let smallest = Shape { level_1_slots, level_2_slots, initial_log2: 0, initial_nodes_log2 };
        iceberg::engine_params(&smallest.for_pairs(pairs, 1.0))
    },
    budget: Budget {
        load_factor: 0.85,
        lines_read_per_hit: 1.1,
        lines_read_per_miss: 0.17,
        writes_per_insertion: 1.0,
        writes_per_update: 1.0,
        fences_per_batch: 1.1,
        lines_per_insertion_while_growing: 4_000,
        bytes_per_pair: 20.5,
        pairs_in_300_kib: 3000,
    },
    as_late_as_possible: NEVER,
    updates_in_place: |_| true,
    updates_make_room: false,
    insertions_end_resizes: true,
    // The keys share one level-1 block until there are 32 blocks, and one fingerprint and line in it.
    colliding: LazyLock::new(|| {
        colliding(|hasher, key| {
            let first = hasher.first_u64(key);
            h0(first) & 31 == 5 && level1_mark(first) == (200, 3)
        })
    }),
};
