//! The orderings of Rewo-Hash: whole operations, without and with a cached table, and a kernel restated.

#[path = "../explore/mod.rs"]
mod explore;
mod fills;
#[path = "../plain/mod.rs"]
mod plain;
#[path = "../scene/mod.rs"]
mod scene;

use engines::Engine;
use engines::rewo::{Cached, Design, Shape, engine_params};
use scene::Made;
use scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};

/// One bucket of so many slots.
fn small(slots: u32, cached: Cached, in_place_update: bool) -> Made {
    let design = Design { in_place_update, ..Design::default() };
    (Engine::Rewo, engine_params(&Shape { slots, initial_log2: 0, cached, design }))
}

#[test]
fn changes_are_ordered() {
    for in_place_update in [true, false] {
        changes_of_one_key_are_ordered(small(4, Cached::Nothing, in_place_update), 1);
    }
}

#[test]
fn changes_are_ordered_in_a_cached_table() {
    changes_of_one_key_are_ordered(small(4, Cached::SmallerLog2(1), true), 1);
}

#[test]
fn what_is_cached_does_not_go_back() {
    for in_place_update in [true, false] {
        look_ups_do_not_go_back(small(4, Cached::SmallerLog2(1), in_place_update), 1);
    }
}

#[test]
fn key_is_found_beside_an_extension() {
    for key in 1..=3 {
        let setup = filled(small(4, Cached::SmallerLog2(1), true), 0.5, 3);
        bystander_is_found(setup, key, |table| table.try_put(KEY, NEW));
    }
}
