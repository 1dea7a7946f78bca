//! Directed histories that need a key nobody else asks for, or more than one change of thread.

use crate::directed::{self, Directed, Look};
use crate::history::{Action, Key, Op, Program};
use crate::interleave::Points;
use crate::setups;
use crate::subject::{
    ClevelSubject, HeapSubject, LevelSubject, Setup, StoreSubject, Subject, TableSubject,
};

/// Changes of thread at shared words.
fn shared<S: Subject>(setup: &Setup, program: Program, changes: usize) -> Directed {
    shared_after::<S>(setup, program, 0, changes)
}

/// The same, after so many threads have ended.
fn shared_after<S: Subject>(
    setup: &Setup,
    program: Program,
    first: usize,
    changes: usize,
) -> Directed {
    let look = Look::Interleaved { program, first, changes, points: Points::Shared };
    Directed::new::<S>(setup.clone(), look)
}

fn one(key: Key, action: Action) -> Op {
    Op::One(key, action)
}

/// Fillers looked up, at most: the first ones lie in front, the last ones are those that move.
const FILLERS_FIRST: usize = 8;
const FILLERS_LAST: usize = 8;

/// Keys that are there when the history begins, and that it does not change.
fn fillers(setup: &Setup) -> Vec<Key> {
    let is_there = |&key: &Key| setup.before_history(key).is_some();
    let all: Vec<Key> =
        (setup.free_keys as Key..setup.keys.len() as Key).filter(is_there).collect();
    let last = all.len().saturating_sub(FILLERS_LAST).max(FILLERS_FIRST.min(all.len()));
    [&all[..FILLERS_FIRST.min(last)], &all[last..]].concat()
}

/// Insertions, which may move what others stored, beside look-ups of that, and changes of so many.
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

/// One thread that goes on after another one met it: what the late one does must not count any more.
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

/// What only IcebergHT's third level and its resizes show.
pub(crate) fn iceberg() -> Vec<Directed> {
    let chains = setups::chains_of_two_blocks();
    let behind: Vec<Op> = fillers(&chains).iter().rev().map(|&key| one(key, Action::Get)).collect();
    let (remove, insert) = (one(0, Action::Remove), one(1, Action::Insert(3)));
    let stale = setups::level_2_before_doubling();
    let doubler = vec![one(1, Action::Insert(3)), one(2, Action::Insert(4))];
    let doubles = setups::second_insertion_doubles();
    let batch = Op::Many(vec![(1, Action::Upsert(4))]);
    let doubling = vec![one(0, Action::Insert(3)), Op::Settle];
    let stored = vec![one(1, Action::Insert(2))];
    let updater = vec![one(1, Action::Upsert(4)), one(0, Action::Insert(3)), Op::Settle];
    vec![
        // A node that goes from one chain to another under a reader, or under two writers.
        shared::<TableSubject>(&chains, vec![vec![remove.clone(), insert.clone()], behind], 1),
        shared::<TableSubject>(&chains, vec![vec![remove], vec![insert]], 2),
        // A writer of level 2 that knows the geometry of before the table doubles.
        shared::<TableSubject>(
            &stale,
            vec![vec![one(0, Action::Insert(2)), Op::Settle], doubler],
            1,
        ),
        // A batch that knows the geometry of before.
        shared_after::<TableSubject>(&doubles, vec![stored.clone(), vec![batch], doubling], 1, 1),
        // A look-up that met a lock, and looks again in the geometry of before.
        shared_after::<TableSubject>(
            &doubles,
            vec![stored, updater, vec![one(1, Action::Get)]],
            1,
            2,
        ),
        // A node that goes to the chain of another block when the table doubles.
        shared::<TableSubject>(
            &setups::level_3_before_doubling(),
            vec![vec![one(1, Action::Insert(3)), Op::Settle], vec![one(0, Action::Get)]],
            1,
        ),
        // Two that move the same blocks of level 2.
        shared::<TableSubject>(
            &setups::moving_level_2(),
            vec![vec![Op::Settle], vec![Op::Settle]],
            2,
        ),
    ]
}

/// A movement in the bottom level, which an expansion is emptying meanwhile.
pub(crate) fn level() -> Vec<Directed> {
    let setup = setups::moved_into_interim();
    let expander = vec![one(1, Action::Insert(3)), Op::Settle];
    let expands = |setup: &&Setup| setup.resize_at < 1.0 && !setup.shrinks;
    let mut all = vec![shared::<LevelSubject>(
        &setup,
        vec![vec![one(0, Action::Insert(2))], expander.clone()],
        2,
    )];
    // Two that rehash, one of them while the other one still publishes the resize.
    let settle = || vec![Op::Settle];
    let rehashing = |setup: &Setup| {
        let others = [settle(), vec![Op::Settle, one(0, Action::Insert(2))]];
        let programs = others.map(|other| vec![expander.clone(), other]);
        let programs = programs.into_iter().chain([vec![settle(), settle()]]);
        programs.map(|program| shared::<LevelSubject>(setup, program, 2)).collect::<Vec<_>>()
    };
    // A shrink that is given up, or that another one helps with.
    let shrinking = |setup: &Setup| {
        let shrink = || vec![Op::Shrink];
        [vec![shrink(), shrink()], vec![shrink(), settle()]]
            .map(|program| shared::<LevelSubject>(setup, program, 1))
    };
    let setups = setups::level();
    all.extend(setups.iter().filter(expands).flat_map(rehashing));
    all.extend(setups.iter().filter(|setup| setup.shrinks).flat_map(shrinking));
    all
}

/// Helpers of Clevel hashing that are put aside until their owner does something else.
pub(crate) fn clevel(setup: &Setup) -> Vec<Directed> {
    let upsert = |value| one(0, Action::Upsert(value));
    let stored = || vec![upsert(2)];
    let helpers = [vec![one(0, Action::Remove)], vec![upsert(5)]];
    let program = |helper| vec![stored(), vec![upsert(3), upsert(4)], helper];
    helpers
        .map(program)
        .into_iter()
        .map(|program| shared_after::<ClevelSubject>(setup, program, 1, 3))
        .collect()
}

/// A scan that has read a slot when the item it leads to is removed, and its space used again.
pub(crate) fn store() -> Vec<Directed> {
    let writer = directed::reusing().swap_remove(0);
    let program = vec![writer, vec![Op::Scan]];
    vec![shared::<StoreSubject>(&setups::one_item(), program, 1)]
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
