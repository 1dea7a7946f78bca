//! The orderings of Level hashing: whole operations.

use crate::scene::Made;
use crate::scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};
use engines::Engine;
use engines::level::{Shape, engine_params};

/// One bucket in the bottom level.
fn small() -> Made {
    (Engine::Level, engine_params(&Shape { initial_log2: 1, ..Shape::default() }))
}

#[test]
fn changes_are_ordered() {
    changes_of_one_key_are_ordered(small(), 2);
}

#[test]
fn look_ups_are_ordered() {
    look_ups_do_not_go_back(small(), 1);
}

#[test]
fn key_is_found_beside_an_expansion() {
    for key in 1..=5 {
        bystander_is_found(filled(small(), 0.5, 5), key, |table| table.try_put(KEY, NEW));
    }
}
