//! Clevel hashing, as the suite sees it.

use crate::harness::{Budget, Engine, WHEN_FULL, colliding_by_two_hashes};
use engines::clevel::{self, Shape};
use std::sync::LazyLock;

pub(crate) static ENGINE: Engine = Engine {
    listed: engines::Engine::Clevel,
    variants: 1,
    params: |_, pairs| clevel::engine_params(&Shape { initial_log2: 1 }.for_pairs(pairs, 1.0)),
    budget: Budget {
        load_factor: 0.75,
        lines_read_per_hit: 3.2,
        lines_read_per_miss: 1.2,
        writes_per_insertion: 2.001,
        writes_per_update: 2.001,
        fences_per_batch: 64.1,
        lines_per_insertion_while_growing: 300,
        bytes_per_pair: 48.2,
        pairs_in_300_kib: 900,
    },
    as_late_as_possible: WHEN_FULL,
    updates_in_place: |_| false,
    updates_make_room: false,
    insertions_end_resizes: false,
    colliding: LazyLock::new(colliding_by_two_hashes),
};
