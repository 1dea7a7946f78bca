//! Level hashing, as the suite sees it.

use crate::harness::{Budget, Engine, WHEN_FULL, colliding_by_two_hashes};
use engines::level::{self, Design, Shape};
use std::sync::LazyLock;

const VARIANTS: usize = 7;

/// Slots of a bucket and the design decisions, by variant.
fn variants() -> [(u32, Design); VARIANTS] {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    let logged = Design { log_free_update: false, ..moved };
    let plain = Design { dynamic_search: false, bottom_to_top: false, ..all };
    // The first one is that of tables of words.
    let usual = Shape::for_pair_bytes(16).slots;
    [(usual, all), (4, moved), (4, logged), (1, all), (8, plain), (7, moved), (4, all)]
}

pub(crate) static ENGINE: Engine = Engine {
    listed: engines::Engine::Level,
    variants: VARIANTS,
    params: |variant, pairs| {
        let (slots, design) = variants()[variant];
        let smallest = Shape { slots, initial_log2: 1, design };
        level::engine_params(&smallest.for_pairs(pairs, 1.0))
    },
    budget: Budget {
        load_factor: 0.75,
        lines_read_per_hit: 1.02,
        lines_read_per_miss: 0.04,
        writes_per_insertion: 1.12,
        writes_per_update: 1.0,
        fences_per_batch: 2.1,
        lines_per_insertion_while_growing: 250,
        bytes_per_pair: 42.0,
        pairs_in_300_kib: 900,
    },
    as_late_as_possible: WHEN_FULL,
    updates_in_place: |variant| variants()[variant].1.in_place_update,
    updates_make_room: false,
    insertions_end_resizes: true,
    colliding: LazyLock::new(colliding_by_two_hashes),
};
