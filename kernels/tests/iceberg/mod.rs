//! The orderings of IcebergHT: whole operations, and kernels restated.

mod building;
mod chain_versions;
mod fingerprint_then_slot;
mod lock_then_geometry;
mod moves;

use crate::scene::tables::{
    FILLING, KEY, NEW, bystander_is_found, changes_of_one_key_are_ordered, filled,
    look_ups_do_not_go_back,
};
use crate::scene::{HASH_SEED, Made};
use engines::Engine;
use engines::iceberg::hash::h0;
use engines::iceberg::{Shape, engine_params};
use index::hash::Hasher;

/// One block in each level.
fn of_one_block() -> Made {
    made(Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 0, initial_nodes_log2: 1 })
}

/// Two blocks in each level.
fn of_two_blocks() -> Made {
    made(Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 1, initial_nodes_log2: 3 })
}

fn made(shape: Shape) -> Made {
    (Engine::Iceberg, engine_params(&shape))
}

#[test]
fn changes_are_ordered() {
    changes_of_one_key_are_ordered(of_one_block(), 2);
}

#[test]
fn look_ups_are_ordered() {
    look_ups_do_not_go_back(of_one_block(), 1);
}

#[test]
fn key_is_found_beside_a_doubling() {
    for key in 1..=3 {
        bystander_is_found(filled(of_one_block(), 0.1, 3), key, |table| table.try_put(KEY, NEW));
    }
}

/// The node before the key's is removed and used again in another chain.
#[test]
fn key_is_found_behind_a_node_in_reuse() {
    // The last keys are all in level 3, the newest at the front of their chains.
    const COUNT: u64 = 84;
    let hasher = Hasher::new(HASH_SEED);
    let home = move |key: u64| h0(hasher.first_u64(key)) & 1;
    let of_first =
        |keys: std::ops::RangeInclusive<u64>| keys.rev().filter(move |&key| home(key) == 0);
    let chain: Vec<u64> = of_first(COUNT - 10..=COUNT).take(3).collect();
    let [first, second, third] = chain[..] else { panic!("too few keys in a chain: {chain:?}") };
    let new = (KEY..).find(|&key| home(key) == 1).unwrap();
    for (removed, key) in [(first, second), (first, third), (second, third)] {
        bystander_is_found(filled(of_two_blocks(), 2.0, COUNT), key, move |table| {
            assert_eq!(table.remove(removed), Some(FILLING));
            table.put(new, NEW);
        });
    }
}
