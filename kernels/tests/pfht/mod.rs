//! The orderings of PFHT: whole operations, and a kernel restated.

mod moves;

use crate::scene::Made;
use crate::scene::tables::{
    KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled, look_ups_do_not_go_back,
};
use engines::Engine;
use engines::pfht::{Design, Shape, engine_params};

/// One bucket of two slots, and a node.
fn small() -> Made {
    let shape = Shape { slots: 2, initial_log2: 0, stash_percent: 5, design: Design::default() };
    (Engine::Pfht, engine_params(&shape))
}

// With one preemption: an operation loads more words than those of other engines, and loom tries everything that each
// load may return. Moves between places are the kernel in `moves`.

#[test]
fn changes_are_ordered() {
    changes_of_one_key_are_ordered(small(), 1);
}

#[test]
fn look_ups_are_ordered() {
    look_ups_do_not_go_back(small(), 1);
}

#[test]
fn key_is_found_beside_an_insertion() {
    let setup = filled(small(), 2.0, 1);
    bystander_is_found(setup, 1, |table| table.try_put(KEY, NEW));
}

#[test]
fn key_is_found_beside_an_insertion_into_the_stash() {
    let setup = filled(small(), 2.0, 2);
    bystander_is_found(setup, 1, |table| table.try_put(KEY, NEW));
}
