//! Directed histories of what the alphabet has not: syncs beside writers, batches with one key
//! twice.

use crate::directed::{Directed, Look, every_access, reusing};
use crate::history::{Action, Op};
use crate::interleave::Points;
use crate::setups;
use crate::subject::{ClevelSubject, Setup, Subject};

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
    // A thread that shares its line with others retires a large item, and nothing reclaims it before
    // the sync: who opens the pool to read it must not call that item lost.
    let large = |key| (key, Action::Upsert(11));
    let retired = Look::Interleaved {
        program: vec![
            vec![one(1, Action::Insert(7))],
            Vec::new(),
            vec![Op::Many(vec![large(0), large(1)]), Op::Sync],
        ],
        first: 2,
        changes: 0,
        points: Points::Every,
    };
    let look = |setup: &Setup| {
        let beside = programs.clone().map(|program| every_access(program, 0, 1));
        let all = [Look::Exhaustive(2), retired.clone()].into_iter().chain(beside);
        all.map(|look| Directed::new::<S>(setup.clone(), look)).collect::<Vec<_>>()
    };
    setups.iter().flat_map(look).collect()
}

/// Tables with a helper, whose rounds come beside writers, and beside who ends a resize or syncs.
pub(crate) fn helped<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let last = |setup: &Setup| if setup.syncs { Op::Sync } else { Op::Settle };
    let look = |setup: &Setup| {
        let programs = [
            vec![
                vec![one(0, Action::Insert(2)), one(1, Action::Insert(3)), one(0, Action::Get)],
                vec![Op::Help, Op::Help],
            ],
            vec![vec![one(1, Action::Upsert(3)), last(setup)], vec![Op::Help, Op::Help]],
            vec![vec![one(0, Action::Upsert(2))], vec![Op::Help], vec![one(0, Action::Remove)]],
        ];
        let beside = programs.map(|program| every_access(program, 0, 1));
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

/// All short histories of one thread in these setups.
pub(crate) fn alone_in<S: Subject>(setups: Vec<Setup>) -> Vec<Directed> {
    let look = |setup| Directed::new::<S>(setup, Look::Exhaustive(2));
    setups.into_iter().map(look).collect()
}

/// What only several writers of a store show.
pub(crate) fn store_histories<S: Subject>(empty: Setup) -> Vec<Directed> {
    let both = |value| Op::Many(vec![(0, Action::Upsert(value)), (1, Action::Upsert(value))]);
    let batch = vec![vec![both(2), both(3)], vec![Op::One(0, Action::Get)]];
    vec![
        Directed::new::<S>(empty, every_access(batch, 0, 1)),
        Directed::new::<S>(setups::one_item_of_a_store(), every_access(reusing(), 0, 1)),
    ]
}

/// Searches that know the levels from before a key was moved to a new one.
pub(crate) fn overtaken() -> Vec<Directed> {
    let readers = [Op::One(0, Action::Get), Op::Many(vec![(0, Action::Get)])];
    let program = |reader| vec![vec![reader], vec![Op::One(1, Action::Insert(2))]];
    let updated = vec![
        vec![Op::One(0, Action::Update(3)), Op::One(0, Action::Get)],
        vec![Op::One(1, Action::Insert(2))],
    ];
    let programs: Vec<_> = readers.map(program).into_iter().chain([updated]).collect();
    let setups = [setups::next_insertion_moves(), setups::next_insertion_shifts()];
    let all = |setup: &Setup| {
        let programs = programs.clone().into_iter();
        programs
            .map(|program| {
                Directed::new::<ClevelSubject>(setup.clone(), every_access(program, 0, 1))
            })
            .collect::<Vec<_>>()
    };
    setups.iter().flat_map(all).collect()
}
