//! Whole operations of the engines, beside each other.
//!
//! Properties: a key that is there all the time is found, with a value that it had meanwhile; of two changes of one
//! key one comes after the other.

mod scene;

use engines::iceberg::hash::h0;
use index::hash::Hasher;
use scene::{CLEVEL, Engine, HASH_SEED, ICEBERG, ICEBERG_OF_TWO, Table, beside, level};

const KEY: u64 = 1000;
const OLD: u64 = 1;
const NEW: u64 = 2;
/// What keys hold that stand about.
const FILLING: u64 = 9;

/// A table in which so many keys are, from 1 on.
fn filled(engine: Engine, resize_at: f64, count: u64) -> impl Fn() -> Table {
    move || {
        let table = Table::new(engine, resize_at);
        (1..=count).for_each(|key| table.try_put(key, FILLING));
        table
    }
}

/// Looks a key up beside changes of others.
fn bystander_is_found(
    setup: impl Fn() -> Table + Send + Sync + 'static,
    key: u64,
    change: impl Fn(&Table) + Copy + Send + Sync + 'static,
) {
    beside(
        2,
        setup,
        change,
        move |table| table.get(key),
        |_, (), found| {
            assert_eq!(found, Some(FILLING), "missed a key that was there all the time");
        },
    );
}

fn changes_of_one_key_are_ordered(engine: Engine, preemptions_max: usize) {
    let with_key = move || {
        let table = Table::new(engine, 2.0);
        table.put(KEY, OLD);
        table
    };
    let put = |table: &Table| table.put(KEY, NEW);
    let remove = |table: &Table| table.remove(KEY);
    let get = |table: &Table| table.get(KEY);
    beside(preemptions_max, with_key, put, get, |_, _, found| {
        assert!([Some(OLD), Some(NEW)].contains(&found), "{found:?}");
    });
    beside(preemptions_max, with_key, remove, get, |_, _, found| {
        assert!([Some(OLD), None].contains(&found), "{found:?}");
    });
    beside(
        preemptions_max,
        move || Table::new(engine, 2.0),
        put,
        get,
        |_, _, found| {
            assert!([Some(NEW), None].contains(&found), "{found:?}");
        },
    );
    beside(
        preemptions_max,
        move || Table::new(engine, 2.0),
        put,
        put,
        |table, one, other| {
            assert!(
                [(None, Some(NEW)), (Some(NEW), None)].contains(&(one, other)),
                "{one:?}, {other:?}"
            );
            assert_eq!(table.get(KEY), Some(NEW));
        },
    );
    beside(preemptions_max, with_key, remove, remove, |table, one, other| {
        assert!(
            [(None, Some(OLD)), (Some(OLD), None)].contains(&(one, other)),
            "{one:?}, {other:?}"
        );
        assert_eq!(table.get(KEY), None);
    });
    beside(preemptions_max, with_key, put, remove, |table, put, removed| {
        let orders = [(Some(OLD), Some(NEW), None), (None, Some(OLD), Some(NEW))];
        assert!(orders.contains(&(put, removed, table.get(KEY))), "{put:?}, {removed:?}");
    });
}

#[test]
fn iceberg_changes_of_one_key_are_ordered() {
    changes_of_one_key_are_ordered(ICEBERG, 2);
}

#[test]
fn level_changes_of_one_key_are_ordered() {
    changes_of_one_key_are_ordered(level(), 2);
}

#[test]
fn clevel_changes_of_one_key_are_ordered() {
    // Its descriptors have too many accesses for two.
    changes_of_one_key_are_ordered(CLEVEL, 1);
}

#[test]
fn iceberg_key_is_found_beside_a_doubling() {
    for key in 1..=3 {
        bystander_is_found(filled(ICEBERG, 0.1, 3), key, |table| table.try_put(KEY, NEW));
    }
}

#[test]
fn level_key_is_found_beside_an_expansion() {
    for key in 1..=5 {
        bystander_is_found(filled(level(), 0.5, 5), key, |table| table.try_put(KEY, NEW));
    }
}

#[test]
fn clevel_key_is_found_beside_growth() {
    for key in 1..=11 {
        bystander_is_found(filled(CLEVEL, 0.5, 11), key, |table| table.try_put(KEY, NEW));
    }
}

/// The node before the key's is removed and used again in another chain.
#[test]
fn iceberg_key_is_found_behind_a_node_in_reuse() {
    // Of the last keys all are in level 3, the newest at the front of their chains.
    const COUNT: u64 = 84;
    let hasher = Hasher::new(HASH_SEED);
    let home = move |key: u64| h0(hasher.first_u64(key)) & 1;
    let of_first =
        |keys: std::ops::RangeInclusive<u64>| keys.rev().filter(move |&key| home(key) == 0);
    let chain: Vec<u64> = of_first(COUNT - 10..=COUNT).take(3).collect();
    let [first, second, third] = chain[..] else { panic!("too few keys in a chain: {chain:?}") };
    let new = (KEY..).find(|&key| home(key) == 1).unwrap();
    for (removed, key) in [(first, second), (first, third), (second, third)] {
        bystander_is_found(filled(ICEBERG_OF_TWO, 2.0, COUNT), key, move |table| {
            assert_eq!(table.remove(removed), Some(FILLING));
            table.put(new, NEW);
        });
    }
}
