//! Tables with a helper, which leaves less to their writers, and tables that several threads recover.

use crate::history::Op;
use crate::subject::Setup;

/// Of these setups those of the first names, under the second ones, with a helper.
fn helped(setups: Vec<Setup>, names: &[[&'static str; 2]]) -> Vec<Setup> {
    renamed(setups, names, |setup| Setup { has_helper: true, ..setup })
}

fn renamed(
    setups: Vec<Setup>,
    names: &[[&'static str; 2]],
    change: impl Fn(Setup) -> Setup,
) -> Vec<Setup> {
    let found = |[of, name]: &[&'static str; 2]| {
        let Some(setup) = setups.iter().find(|setup| setup.name == *of) else {
            panic!("no setup is called {of:?}");
        };
        change(Setup { name, ..setup.clone() })
    };
    names.iter().map(found).collect()
}

/// Also the first setup, synced in a file: its helper must leave it alone.
fn with_synced(mut setups: Vec<Setup>, name: &'static str) -> Vec<Setup> {
    if let Some(first) = setups.first() {
        let before: Vec<Op> = first.before.iter().cloned().chain([Op::Sync]).collect();
        let synced = Setup { name, before, syncs: true, is_mapped: true, ..first.clone() };
        setups.push(synced);
    }
    setups
}

/// Tables on IcebergHT.
pub fn helped_iceberg() -> Vec<Setup> {
    let names = [
        ["the next insertion doubles the table", "the next insertion doubles a helped table"],
        ["blocks of both levels are to be moved", "a helper moves blocks of both levels"],
        ["keys that part when the table doubles", "keys that part when a helped table doubles"],
    ];
    with_synced(helped(super::iceberg(), &names), "a helped table that is synced in a file")
}

/// Tables on Clevel hashing.
pub fn helped_clevel() -> Vec<Setup> {
    let names = [
        ["the second insertion is one too many", "a helper has space at hand"],
        ["the next insertion appends a level", "the next insertion appends a level, helped"],
        ["a level is being drained", "a helper drains a level"],
        ["a table that can shrink", "a helped table that can shrink"],
    ];
    with_synced(helped(super::clevel(), &names), "a helped table that is synced in a file")
}

fn recovered(setups: Vec<Setup>, names: &[[&'static str; 2]]) -> Vec<Setup> {
    renamed(setups, names, |setup| Setup { recovery_threads: 2, ..setup })
}

/// Tables on IcebergHT that two threads recover.
pub fn recovered_iceberg() -> Vec<Setup> {
    let names = [
        ["two blocks of each level are to be moved", "two threads recover blocks to be moved"],
        ["blocks of both levels are to be moved", "two threads recover blocks of both levels"],
        ["keys that part when the table doubles", "two threads recover keys that part"],
    ];
    recovered(super::iceberg(), &names)
}

/// Stores on IcebergHT that two threads recover.
pub fn recovered_store() -> Vec<Setup> {
    let names = [
        ["values of three classes", "two threads recover values of three classes"],
        ["four keys of one hash", "two threads recover four keys of one hash"],
    ];
    recovered(super::store(), &names)
}

/// Tables on Level hashing that two threads recover.
pub fn recovered_level() -> Vec<Setup> {
    let names = [
        ["an item of the top level can be moved", "two threads recover an item that was moved"],
        ["an expansion of several buckets is under way", "two threads recover an expansion"],
        ["a table that can shrink", "two threads recover a table that can shrink"],
        ["a table that grows back", "two threads recover a table that grows back"],
    ];
    recovered(super::level(), &names)
}

/// Tables on Clevel hashing that two threads recover.
pub fn recovered_clevel() -> Vec<Setup> {
    let names = [
        ["a level is being drained", "two threads recover a level being drained"],
        ["the next insertion makes room", "two threads recover an item that made room"],
        ["a table that can shrink", "two threads recover a level of a shrink"],
    ];
    recovered(super::clevel(), &names)
}
