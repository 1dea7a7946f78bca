//! Directed histories of what the alphabet has not: syncs beside writers, batches with one key
//! twice.

use crate::history::{Action, Op};
use crate::subject::{Setup, Subject};
use crate::trial::{Directed, Look, every_access};

/// Pools that are synced beside a writer, between two writers, and by one thread.
pub(crate) fn syncing<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let programs = [
        vec![vec![one(0, Action::Upsert(2))], vec![Op::Sync]],
        vec![vec![one(0, Action::Upsert(2)), one(0, Action::Remove)], vec![Op::Sync, Op::Sync]],
        vec![
            vec![Op::Sync, one(0, Action::Upsert(2))],
            vec![one(1, Action::Insert(3)), one(1, Action::Get)],
        ],
    ];
    let look = |setup: &Setup| {
        let beside = programs.clone().map(|program| every_access(program, 0, 1));
        let all = [Look::Exhaustive(2)].into_iter().chain(beside);
        all.map(|look| Directed::new::<S>(setup.clone(), look)).collect::<Vec<_>>()
    };
    setups.iter().flat_map(look).collect()
}

/// Batches with one key twice, alone and beside another thread: what comes second meets what came
/// first.
pub(crate) fn repeating<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let twice = |[first, last]: [Action; 2]| {
        Op::Many(vec![(0, first), (1, Action::clone(&first)), (0, last)])
    };
    let insert = || twice([Action::Insert(4), Action::Insert(5)]);
    let upsert = || twice([Action::Upsert(6), Action::Upsert(7)]);
    let remove = || twice([Action::Remove; 2]);
    let exchange = || twice([Action::Exchange(None, Some(8)), Action::Exchange(Some(8), Some(9))]);
    let get = || Op::Many(vec![(0, Action::Get), (1, Action::Get), (0, Action::Get)]);
    let batches = [insert(), upsert(), remove(), exchange(), get()];
    let mut programs: Vec<Vec<Vec<Op>>> = Vec::new();
    for first in &batches {
        programs.extend(batches.iter().map(|second| vec![vec![first.clone(), second.clone()]]));
    }
    let stored = || Op::One(0, Action::Upsert(2));
    let reader = || vec![Op::One(0, Action::Get), Op::One(0, Action::Get)];
    programs.push(vec![vec![stored(), upsert()], reader()]);
    programs.push(vec![vec![stored(), remove()], vec![Op::One(0, Action::Insert(3))]]);
    programs.push(vec![vec![insert()], vec![Op::One(0, Action::Remove)]]);
    let look = |program| Directed::new::<S>(setup.clone(), every_access(program, 0, 1));
    programs.into_iter().map(look).collect()
}
