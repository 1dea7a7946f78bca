//! PFHT, as the suite sees it.

use crate::harness::{Budget, Engine, WHEN_FULL, colliding_by_two_hashes};
use engines::pfht::{self, Design, Shape};
use std::sync::LazyLock;

const VARIANTS: usize = 7;

/// Slots of a bucket, the stash in hundredths and the design decisions, by variant.
fn variants() -> [(u32, u32, Design); VARIANTS] {
    let all = Design::default();
    let no_displacement = Design { displaces: false, ..all };
    let always_the_stash = Design { sticky_bit: false, ..all };
    // The first one is that of tables of words.
    let usual = Shape::for_pair::<u64, u64>();
    let (slots, stash) = (usual.slots, usual.stash_percent);
    [
        (slots, stash, all),
        (slots, 0, all),
        (slots, 5, no_displacement),
        (1, 5, all),
        (slots, stash, Design::PAPER),
        (3, 1, always_the_stash),
        (2, 0, no_displacement),
    ]
}

pub(crate) static ENGINE: Engine = Engine {
    listed: engines::Engine::Pfht,
    variants: VARIANTS,
    params: |variant, pairs| {
        let (slots, stash_percent, design) = variants()[variant];
        let smallest = Shape { slots, initial_log2: 0, stash_percent, design };
        pfht::engine_params(&smallest.for_pairs(pairs, 1.0))
    },
    budget: Budget {
        load_factor: 0.75,
        lines_read_per_hit: 1.06,
        lines_read_per_miss: 0.1,
        writes_per_insertion: 1.1,
        writes_per_update: 1.0,
        fences_per_batch: 2.1,
        lines_per_insertion_while_growing: 250,
        bytes_per_pair: 30.0,
        pairs_in_300_kib: 150,
    },
    as_late_as_possible: WHEN_FULL,
    updates_in_place: |_| true,
    updates_make_room: false,
    insertions_end_resizes: true,
    colliding: LazyLock::new(colliding_by_two_hashes),
};
