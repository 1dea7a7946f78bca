//! Pools that are synced: at the beginning of a history they say that they are clean.

use crate::history::Op;
use crate::subject::Setup;

/// Of these setups the ones of these names, synced, on durable memory and on a medium that keeps
/// only what is synced.
fn synced(setups: Vec<Setup>, names: [[&'static str; 3]; 2]) -> Vec<Setup> {
    let mut all = Vec::new();
    for [of, durable, mapped] in names {
        let Some(setup) = setups.iter().find(|setup| setup.name == of) else { continue };
        let before: Vec<Op> = setup.before.iter().cloned().chain([Op::Sync]).collect();
        let setup = Setup { before, syncs: true, ..setup.clone() };
        all.push(Setup { name: mapped, is_mapped: true, ..setup.clone() });
        all.push(Setup { name: durable, ..setup });
    }
    all
}

/// The pool alone.
pub fn synced_pool() -> Vec<Setup> {
    let empty = ["an empty pool", "a synced pool", "a synced pool in a file"];
    let little = [
        "a pool with room for two more extents",
        "a synced pool with little room",
        "a synced pool with little room in a file",
    ];
    synced(super::pool(), [empty, little])
}

/// Tables on IcebergHT.
pub fn synced_iceberg() -> Vec<Setup> {
    let empty = ["an empty table", "a synced table", "a synced table in a file"];
    let doubles = [
        "the next insertion doubles the table",
        "the next insertion doubles a synced table",
        "the next insertion doubles a synced table in a file",
    ];
    synced(super::iceberg(), [empty, doubles])
}

/// Tables on Level hashing.
pub fn synced_level() -> Vec<Setup> {
    let recorded = [
        "recorded updates",
        "recorded updates of a synced table",
        "recorded updates of a synced table in a file",
    ];
    let expands = [
        "the next insertion expands",
        "the next insertion expands a synced table",
        "the next insertion expands a synced table in a file",
    ];
    synced(super::level(), [recorded, expands])
}

/// Tables on Clevel hashing.
pub fn synced_clevel() -> Vec<Setup> {
    let empty = ["an empty table", "a synced table", "a synced table in a file"];
    let appends = [
        "the next insertion appends a level",
        "the next insertion appends a level to a synced table",
        "the next insertion appends a level to a synced table in a file",
    ];
    synced(super::clevel(), [empty, appends])
}

/// Stores on IcebergHT.
pub fn synced_store() -> Vec<Setup> {
    let classes = [
        "values of three classes",
        "values of three classes in a synced store",
        "values of three classes in a synced store in a file",
    ];
    let collide = [
        "two keys of one hash",
        "two keys of one hash in a synced store",
        "two keys of one hash in a synced store in a file",
    ];
    synced(super::store(), [classes, collide])
}
