//! Whole operations of the engines, beside each other.
//!
//! Properties: a key that is there all the time is found, with a value that it had meanwhile; of two changes of one
//! key one comes after the other.

mod scene;

use scene::{CLEVEL, Engine, ICEBERG, ICEBERG_OF_TWO, Table, beside, level};

const KEY: u64 = 1000;
const OLD: u64 = 1;
const NEW: u64 = 2;
/// What keys hold that stand about.
const FILLING: u64 = 9;

/// A table in which so many keys are, from 1 on.
fn filled(engine: Engine, resize_at: f64, count: u64) -> impl Fn() -> Table {
    move || {
        let table = Table::new(engine, resize_at);
        (1..=count).for_each(|key| assert_eq!(table.put(key, FILLING), None));
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

fn changes_of_one_key_are_ordered(engine: Engine) {
    let with_key = move || {
        let table = Table::new(engine, 2.0);
        table.put(KEY, OLD);
        table
    };
    let put = |table: &Table| table.put(KEY, NEW);
    let remove = |table: &Table| table.remove(KEY);
    let get = |table: &Table| table.get(KEY);
    beside(2, with_key, put, get, |_, _, found| {
        assert!([Some(OLD), Some(NEW)].contains(&found), "{found:?}");
    });
    beside(2, with_key, remove, get, |_, _, found| {
        assert!([Some(OLD), None].contains(&found), "{found:?}");
    });
    beside(
        2,
        move || Table::new(engine, 2.0),
        put,
        get,
        |_, _, found| {
            assert!([Some(NEW), None].contains(&found), "{found:?}");
        },
    );
    beside(
        2,
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
    beside(2, with_key, remove, remove, |table, one, other| {
        assert!(
            [(None, Some(OLD)), (Some(OLD), None)].contains(&(one, other)),
            "{one:?}, {other:?}"
        );
        assert_eq!(table.get(KEY), None);
    });
    beside(2, with_key, put, remove, |table, put, removed| {
        let orders = [(Some(OLD), Some(NEW), None), (None, Some(OLD), Some(NEW))];
        assert!(orders.contains(&(put, removed, table.get(KEY))), "{put:?}, {removed:?}");
    });
}

#[test]
fn iceberg_changes_of_one_key_are_ordered() {
    changes_of_one_key_are_ordered(ICEBERG);
}

#[test]
fn level_changes_of_one_key_are_ordered() {
    changes_of_one_key_are_ordered(level());
}

#[test]
fn clevel_changes_of_one_key_are_ordered() {
    changes_of_one_key_are_ordered(CLEVEL);
}

#[test]
fn iceberg_doubling() {
    for key in 1..=3 {
        bystander_is_found(filled(ICEBERG, 0.1, 3), key, |table| drop(table.put(KEY, NEW)));
    }
}
#[test]
fn iceberg_chain() {
    for count in [84] {
        for key in count - 2..=count {
            bystander_is_found(filled(ICEBERG_OF_TWO, 2.0, count), key, move |table| {
                table.remove(if key == count { key - 1 } else { count });
                table.put(KEY, NEW);
            });
        }
    }
}
#[test]
fn level_movement() {
    for count in 4..=11 {
        for key in 1..=count {
            bystander_is_found(filled(level(), 2.0, count), key, |table| table.try_put(KEY, NEW));
        }
    }
}
#[test]
fn level_expansion() {
    for key in 1..=5 {
        bystander_is_found(filled(level(), 0.5, 5), key, |table| table.try_put(KEY, NEW));
    }
}
#[test]
fn clevel_shift() {
    for count in 15..=22 {
        for key in 1..=count {
            bystander_is_found(filled(CLEVEL, 2.0, count), key, |table| table.try_put(KEY, NEW));
        }
    }
}
#[test]
fn clevel_growth() {
    for key in 1..=11 {
        bystander_is_found(filled(CLEVEL, 0.5, 11), key, |table| table.try_put(KEY, NEW));
    }
}
