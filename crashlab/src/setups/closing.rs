//! Pools that are synced: at the beginning of a history they say that they are clean.

use crate::history::Op;
use crate::subject::Setup;

/// Of these setups the ones of these names, synced, on durable memory and on a medium that keeps
/// only what is synced.
pub fn synced(setups: Vec<Setup>, names: [[&'static str; 3]; 2]) -> Vec<Setup> {
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
