//! Directed histories that need a key that no other thread uses, or more than one change of thread.

use crate::boundaries::shared;
use crate::history::{Action, Key, Op};
use crate::setups;
use crate::subject::{HeapSubject, Setup, Subject};
use crate::trial::Directed;

pub(crate) fn one(key: Key, action: Action) -> Op {
    Op::One(key, action)
}

/// Most fillers that are looked up: the first ones lie in front, the last ones move.
const FILLERS_FIRST: usize = 8;
const FILLERS_LAST: usize = 8;

/// Keys that are present when the history begins, and that it does not change.
pub(crate) fn fillers(setup: &Setup) -> Vec<Key> {
    let is_there = |&key: &Key| setup.before_history(key).is_some();
    let all: Vec<Key> =
        (setup.free_keys as Key..setup.keys.len() as Key).filter(is_there).collect();
    let last = all.len().saturating_sub(FILLERS_LAST).max(FILLERS_FIRST.min(all.len()));
    [&all[..FILLERS_FIRST.min(last)], &all[last..]].concat()
}

/// Insertions, which may move other pairs, among look-ups of these pairs, and changes of this many.
pub(crate) fn looking_up_fillers<S: Subject>(setups: &[Setup], changed: usize) -> Vec<Directed> {
    let beside = |setup: &Setup| {
        let keys = fillers(setup);
        let gets = keys.iter().map(|&key| one(key, Action::Get)).collect::<Vec<Op>>();
        let many = Op::Many(keys.iter().map(|&key| (key, Action::Get)).collect());
        let mut writers = vec![
            vec![one(0, Action::Insert(2))],
            vec![one(0, Action::Insert(2)), one(1, Action::Insert(3)), Op::Settle],
        ];
        if setup.shrinks {
            writers.push(vec![Op::Shrink]);
        }
        let change = |&key: &Key| {
            [Action::Upsert(4), Action::Get, Action::Remove, Action::Get]
                .map(|action| one(key, action))
        };
        let changes = keys.iter().rev().take(changed).map(|key| change(key).to_vec());
        let others: Vec<Vec<Op>> =
            [gets, vec![many], vec![Op::Scan]].into_iter().chain(changes).collect();
        let programs = writers.iter().flat_map(|writer| {
            others.iter().map(|other| vec![writer.clone(), other.clone()]).collect::<Vec<_>>()
        });
        programs.map(|program| shared::<S>(setup, program, 1)).collect::<Vec<_>>()
    };
    let has_fillers = |setup: &&Setup| !fillers(setup).is_empty();
    setups.iter().filter(has_fillers).flat_map(beside).collect()
}

/// A thread that resumes after another one met it: the late thread's steps must not count any more.
pub(crate) fn late<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let upsert = |value| one(0, Action::Upsert(value));
    let (get, remove) = (one(0, Action::Get), one(0, Action::Remove));
    let programs = [
        vec![vec![upsert(2), upsert(3), remove.clone()], vec![upsert(4), get.clone()]],
        vec![
            vec![upsert(2), remove, one(0, Action::Insert(5))],
            vec![one(0, Action::Insert(4)), get],
        ],
    ];
    programs.into_iter().map(|program| shared::<S>(setup, program, 2)).collect()
}

/// Batches of one key beside changes of another one that shares all its buckets.
pub(crate) fn batches_beside<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let batch = |action| vec![Op::Many(vec![(0, action)]), one(0, Action::Get)];
    let batches = [Action::Insert(2), Action::Upsert(2), Action::Remove].map(batch);
    let other = vec![one(1, Action::Insert(3)), one(1, Action::Get)];
    let look = |batch| shared::<S>(setup, vec![batch, other.clone()], 1);
    batches.into_iter().map(look).collect()
}

/// Threads that take and free slots of one segment, and segments of one large item.
pub(crate) fn heap() -> Vec<Directed> {
    let upsert = |key, value| one(key, Action::Upsert(value));
    let remove = |key| one(key, Action::Remove);
    let taking = vec![upsert(0, 2), upsert(1, 3), upsert(0, 4)];
    let freeing = vec![remove(3), remove(4), upsert(2, 5), upsert(2, 6)];
    let freed = vec![vec![remove(0)], vec![upsert(1, 3)], vec![upsert(2, 4)]];
    let full = |setup: &&Setup| setup.keys.len() > 4;
    let setups = setups::heap();
    let beside = |setup| shared::<HeapSubject>(setup, vec![taking.clone(), freeing.clone()], 1);
    let large = shared::<HeapSubject>(&setups::freed_segments(), freed, 2);
    setups.iter().filter(full).map(beside).chain([large]).collect()
}
