//! The orderings of Rewo-Hash: whole operations, without and with a cached table, and a kernel restated.

#[path = "../explore/mod.rs"]
mod explore;
mod fills;
#[path = "../scene/mod.rs"]
mod scene;

use engines::Engine;
use engines::rewo::{Cached, Design, Shape, engine_params};
use scene::Made;
use scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};

/// One bucket of four slots.
fn small(cached: Cached, in_place_update: bool) -> Made {
    let design = Design { in_place_update, ..Design::default() };
    (Engine::Rewo, engine_params(&Shape { slots: 4, initial_log2: 0, cached, design }))
}

// With one preemption, and few operations on a cached table: an operation loads more words than those of other
// engines, and loom tries all that each load may return.

#[test]
fn changes_are_ordered() {
    for in_place_update in [true, false] {
        changes_of_one_key_are_ordered(small(Cached::Nothing, in_place_update), 1);
    }
}

#[test]
fn what_is_cached_does_not_go_back() {
    look_ups_do_not_go_back(small(Cached::SmallerLog2(1), true), 1);
}

#[test]
fn key_is_found_beside_an_insertion() {
    let setup = filled(small(Cached::Nothing, true), 2.0, 1);
    bystander_is_found(setup, 1, |table| table.try_put(KEY, NEW));
}
