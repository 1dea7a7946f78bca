//! Rewo-Hash, as the suite sees it.

use crate::harness::{Budget, Engine, WHEN_FULL, colliding_by_two_hashes};
use engines::rewo::{self, Cached, Design, Shape};
use std::sync::LazyLock;

const VARIANTS: usize = 9;

/// Slots of a bucket, the design decisions and the cached table, by variant.
fn variants() -> [(u32, Design, Cached); VARIANTS] {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    let one_eviction = Design { evictions: 1, ..moved };
    let none = Design { evictions: 0, ..moved };
    let as_the_paper = Design { sidecar_prints: false, ..moved };
    // The first one is that of tables of words.
    let usual = Shape::for_pair_bytes(16).slots;
    let [whole, eighth] = [0, 3].map(Cached::SmallerLog2);
    [
        (usual, all, Cached::ByMedium),
        (usual, moved, whole),
        (4, one_eviction, eighth),
        (1, all, Cached::Nothing),
        (8, as_the_paper, eighth),
        (3, none, whole),
        (2, moved, Cached::Nothing),
        (usual, all, eighth),
        (usual, all, whole),
    ]
}

pub(crate) static ENGINE: Engine = Engine {
    listed: engines::Engine::Rewo,
    variants: VARIANTS,
    params: |variant, pairs| {
        let (slots, design, cached) = variants()[variant];
        let smallest = Shape { slots, initial_log2: 0, cached, design };
        rewo::engine_params(&smallest.for_pairs(pairs, 1.0))
    },
    budget: Budget {
        load_factor: 0.75,
        lines_read_per_hit: 1.06,
        lines_read_per_miss: 0.1,
        writes_per_insertion: 1.75,
        writes_per_update: 1.0,
        fences_per_batch: 4.1,
        lines_per_insertion_while_growing: 300,
        bytes_per_pair: 30.0,
        pairs_in_300_kib: 150,
    },
    as_late_as_possible: WHEN_FULL,
    updates_in_place: |variant| variants()[variant].1.in_place_update,
    updates_make_room: true,
    insertions_end_resizes: true,
    colliding: LazyLock::new(colliding_by_two_hashes),
};
