//! The orderings of Rewo-Hash: whole operations, and a kernel restated.

mod fills;

use crate::scene::Made;
use crate::scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};
use engines::Engine;
use engines::rewo::{Cached, Design, Shape, engine_params};

/// One bucket of four slots.
fn small(in_place_update: bool) -> Made {
    let design = Design { in_place_update, ..Design::default() };
    (
        Engine::Rewo,
        engine_params(&Shape { slots: 4, initial_log2: 0, cached: Cached::Nothing, design }),
    )
}

// With one preemption, and without a cached table: an operation loads more words than those of other engines, and loom
// tries everything that each load may return. The cached table's kernel is `fills`.

#[test]
fn changes_are_ordered() {
    for in_place_update in [true, false] {
        changes_of_one_key_are_ordered(small(in_place_update), 1);
    }
}

#[test]
fn look_ups_are_ordered() {
    look_ups_do_not_go_back(small(true), 1);
}

#[test]
fn key_is_found_beside_an_insertion() {
    let setup = filled(small(true), 2.0, 1);
    bystander_is_found(setup, 1, |table| table.try_put(KEY, NEW));
}
