//! The orderings of Clevel hashing: whole operations, and a kernel restated.

mod shifts;

use crate::scene::Made;
use crate::scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};
use engines::Engine;
use engines::clevel::{Shape, engine_params};

/// One bucket in the smaller level.
fn small() -> Made {
    (Engine::Clevel, engine_params(&Shape { initial_log2: 1 }))
}

#[test]
fn changes_are_ordered() {
    // Its descriptors have too many accesses for two preemptions.
    changes_of_one_key_are_ordered(small(), 1);
}

#[test]
fn look_ups_are_ordered() {
    look_ups_do_not_go_back(small(), 1);
}

#[test]
fn key_is_found_beside_growth() {
    for key in 1..=11 {
        bystander_is_found(filled(small(), 0.5, 11), key, |table| table.try_put(KEY, NEW));
    }
}
