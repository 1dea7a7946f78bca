//! Whole operations of the engines, run concurrently.
//!
//! Properties: a key that is there all the time is found, with a value that it had meanwhile. Of two changes of one
//! key, one comes after the other.

use super::{Made, Table, beside};

pub(crate) const KEY: u64 = 1000;
const OLD: u64 = 1;
pub(crate) const NEW: u64 = 2;
/// The value of keys that only fill the table.
pub(crate) const FILLING: u64 = 9;

/// A table with `count` keys, from 1 on.
pub(crate) fn filled(made: Made, resize_at: f64, count: u64) -> impl Fn() -> Table {
    move || {
        let table = Table::new(made, resize_at);
        (1..=count).for_each(|key| table.try_put(key, FILLING));
        table
    }
}

/// Looks a key up during changes of other keys.
pub(crate) fn bystander_is_found(
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

/// Looks a key up twice during a change of it. A thread that has found the new value does not find the old one later.
/// The first look-up may cache what it finds.
pub(crate) fn look_ups_do_not_go_back(made: Made, preemptions_max: usize) {
    let with_key = move || {
        let table = Table::new(made, 2.0);
        table.put(KEY, OLD);
        table
    };
    let twice = |table: &Table| [table.get(KEY), table.get(KEY)];
    let put = |table: &Table| table.put(KEY, NEW);
    beside(preemptions_max, with_key, put, twice, |table, _, found| {
        let orders = [[OLD, OLD], [OLD, NEW], [NEW, NEW]].map(|order| order.map(Some));
        assert!(orders.contains(&found), "{found:?}");
        assert_eq!(table.get(KEY), Some(NEW));
    });
}

pub(crate) fn changes_of_one_key_are_ordered(made: Made, preemptions_max: usize) {
    let with_key = move || {
        let table = Table::new(made, 2.0);
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
        move || Table::new(made, 2.0),
        put,
        get,
        |_, _, found| {
            assert!([Some(NEW), None].contains(&found), "{found:?}");
        },
    );
    beside(
        preemptions_max,
        move || Table::new(made, 2.0),
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
