//! Directed histories around the boundaries of any engine.

use crate::history::{Action, Op, Program};
use crate::interleave::Points;
use crate::setups;
use crate::subject::{HeapSubject, Setup, Subject};
use crate::trial::{Directed, Look, every_access};

/// Pools that are synced during a write, between two writers, and by one thread.
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

/// Tables with a helper, whose rounds run during writes, during the end of a resize, and during a sync.
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

/// Batches with one key twice, alone and with another thread: the second entry meets the first.
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

/// Histories for which a store needs several writers.
pub(crate) fn store_histories<S: Subject>(empty: Setup) -> Vec<Directed> {
    let both = |value| Op::Many(vec![(0, Action::Upsert(value)), (1, Action::Upsert(value))]);
    let batch = vec![vec![both(2), both(3)], vec![Op::One(0, Action::Get)]];
    let one = setups::one_item_of_a_store(&empty);
    let sparse = setups::sparse_segments_of_a_store(&empty);
    let colliding = setups::sparse_segments_of_one_hash(&empty);
    let mut all = vec![
        Directed::new::<S>(empty, every_access(batch, 0, 1)),
        Directed::new::<S>(one, every_access(reusing(), 0, 1)),
    ];
    all.extend(compacting::<S>(&sparse));
    all.extend(compacting::<S>(&colliding));
    all
}

/// Items that are used while they move. The moving one is key 1's, unless another thread comes first.
pub fn compacting<S: Subject>(sparse: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(1, action);
    let others = [
        vec![one(Action::Get), one(Action::Get)],
        vec![one(Action::Upsert(2)), one(Action::Get)],
        vec![one(Action::Remove), one(Action::Insert(3))],
        vec![Op::Many(vec![(0, Action::Upsert(4)), (1, Action::Upsert(5))]), Op::Scan],
        vec![Op::Compact],
    ];
    let alone = Directed::new::<S>(sparse.clone(), Look::Exhaustive(2));
    let beside = others.map(|other| shared::<S>(sparse, vec![vec![Op::Compact], other], 1));
    [alone].into_iter().chain(beside).collect()
}

/// The directed histories around `setups`: all short ones, then pairs of threads.
pub fn directed<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let mut all: Vec<Directed> =
        setups.iter().map(|setup| Directed::new::<S>(setup.clone(), Look::Exhaustive(2))).collect();
    let one = |action| Op::One(0, action);
    let insert = || vec![one(Action::Insert(2))];
    let update = || vec![one(Action::Insert(2)), one(Action::Upsert(3))];
    let remove = || vec![one(Action::Insert(2)), one(Action::Remove)];
    let get_many = || Op::Many(vec![(0, Action::Get)]);
    let readers = [
        (insert(), one(Action::Get)),
        (update(), one(Action::Get)),
        (update(), get_many()),
        (update(), Op::Scan),
        (remove(), one(Action::Get)),
        (remove(), get_many()),
    ];
    let writer_pairs = [
        // Two at one key, and two at keys that share all blocks.
        [vec![one(Action::Insert(2))], vec![one(Action::Insert(3))]],
        [vec![one(Action::Upsert(2)), one(Action::Remove)], vec![one(Action::Upsert(3))]],
        [vec![one(Action::Upsert(2)), one(Action::Remove)], vec![one(Action::Remove)]],
        [
            vec![one(Action::Insert(2)), one(Action::Remove)],
            vec![Op::One(1, Action::Insert(3)), Op::Settle],
        ],
    ];
    // Somebody who reads a key that nobody is writing, while its place may change.
    let bystander = vec![
        vec![one(Action::Upsert(2))],
        vec![Op::One(1, Action::Insert(3)), Op::Settle],
        vec![one(Action::Get), Op::One(1, Action::Get)],
    ];
    // Items of many lines have many images, and are read no differently.
    let small = |setup: &&Setup| setup.value_bytes.iter().all(|&bytes| bytes <= 100);
    for setup in setups.iter().filter(small) {
        all.push(interleaved::<S>(setup, bystander.clone(), 1));
        for pair in &writer_pairs {
            all.push(interleaved::<S>(setup, pair.to_vec(), 0));
        }
        for (writer, reader) in &readers {
            let program = vec![writer.clone(), vec![reader.clone()]];
            all.push(interleaved::<S>(setup, program, 0));
        }
    }
    all
}

pub(crate) fn interleaved<S: Subject>(setup: &Setup, program: Program, first: usize) -> Directed {
    Directed::new::<S>(setup.clone(), every_access(program, first, 1))
}

/// Changes of thread at shared words.
pub(crate) fn shared<S: Subject>(setup: &Setup, program: Program, changes: usize) -> Directed {
    shared_after::<S>(setup, program, 0, changes)
}

/// The same, after this many threads have ended.
pub(crate) fn shared_after<S: Subject>(
    setup: &Setup,
    program: Program,
    first: usize,
    changes: usize,
) -> Directed {
    let look = Look::Interleaved { program, first, changes, points: Points::Shared };
    Directed::new::<S>(setup.clone(), look)
}

/// Histories for which the heap needs several writers.
pub(crate) fn writers_of_the_heap() -> Vec<Directed> {
    // Threads without a number allocate from one segment: what one of them has begun to write
    // back, the other's fence does not complete.
    let store = |key| vec![Op::One(key, Action::Insert(2 + u16::from(key)))];
    let sharing = vec![Vec::new(), Vec::new(), store(0), store(1)];
    let empty = setups::heap().swap_remove(0);
    // A large item's segments are freed by one thread; a second takes all but the last of them, a
    // third takes that one.
    let freeing = vec![vec![Op::One(0, Action::Remove)], store(1), store(2)];
    vec![
        interleaved::<HeapSubject>(&setups::one_item(), reusing(), 0),
        interleaved::<HeapSubject>(&empty, sharing, 0),
        interleaved::<HeapSubject>(&setups::freed_segments(), freeing, 1),
        // One thread frees a slab and takes its first segment, another one takes the next.
        interleaved::<HeapSubject>(&setups::empty_slab(), vec![store(1), store(2)], 0),
    ]
}

/// A reader of an item, and a writer that removes the item and then writes items of another key until the segment's
/// slots are reused.
pub fn reusing() -> Program {
    let replace = (2..8).map(|value| Op::One(1, Action::Upsert(value)));
    let writer = std::iter::once(Op::One(0, Action::Remove)).chain(replace).collect();
    vec![writer, vec![Op::One(0, Action::Get)]]
}
