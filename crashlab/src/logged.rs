//! Histories in which only a line log survives: of the pool, the heap, every engine, and of subjects that test the
//! order of the log itself. A thread of the history closes epochs, or makes a checkpoint, while the others run.

use crate::arena::{Arena, Effort, arenas_of};
use crate::deep::one;
use crate::engines::{long_tables, stores, tables};
use crate::history::Way;
use crate::history::{Action, Op, Program};
use crate::interleave::Points;
use crate::setups;
use crate::subject::{
    HeapSubject, LinesSubject, LockedSubject, LongTableSubject, PoolSubject, Setup, StoreSubject,
    Subject, TableSubject,
};
use crate::trial::{Directed, Look};
use engines::Engine;

/// One image at each end of an epoch is little to judge, so there is time for more histories than elsewhere. No site is
/// broken here: other targets test flushes and fences.
pub(crate) const EFFORT: Effort = Effort {
    histories: 4000,
    directed_one_in: 8,
    exhaustive_ops: 0,
    histories_in_tests: 1500,
    breaks_sites: false,
};

fn logged(setups: Vec<Setup>) -> Vec<Setup> {
    setups.into_iter().map(|setup| Setup { is_logged: true, ..setup }).collect()
}

fn of_engines(setups: fn(Engine) -> Vec<Setup>) -> Vec<Vec<Setup>> {
    Engine::ALL.iter().map(|&engine| logged(setups(engine))).collect()
}

/// The setups of the log alone.
pub fn lines() -> Vec<Setup> {
    let name = "empty registers";
    logged(vec![Setup { name, keys: vec![1, 2], free_keys: 2, ..Setup::default() }])
}

/// The setups of pairs that are changed under a lock.
pub fn locked() -> Vec<Setup> {
    let name = "empty pairs";
    logged(vec![Setup { name, keys: vec![1, 2], free_keys: 2, ..Setup::default() }])
}

/// A store of each engine whose items are moved together.
fn sparse(engine: Engine) -> Vec<Setup> {
    stores(engine).iter().take(1).map(setups::sparse_segments_of_a_store).collect()
}

/// Where random histories begin.
pub(crate) fn arenas() -> Vec<Arena> {
    arenas_of::<LinesSubject>(lines())
        .chain(arenas_of::<LockedSubject>(locked()))
        .chain(arenas_of::<PoolSubject>(logged(setups::pool())))
        .chain(arenas_of::<HeapSubject>(logged(setups::heap())))
        .chain(arenas_of::<TableSubject>(of_engines(tables).concat()))
        .chain(arenas_of::<LongTableSubject>(of_engines(long_tables).concat()))
        .chain(arenas_of::<StoreSubject>(of_engines(stores).concat()))
        .chain(arenas_of::<StoreSubject>(of_engines(sparse).concat()))
        .collect()
}

/// The directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let lines = lines();
    let mut all: Vec<Directed> = lines.iter().flat_map(alone::<LinesSubject>).collect();
    all.extend(lines.iter().flat_map(meeting::<LinesSubject>));
    all.extend(lines.iter().flat_map(copied::<LinesSubject>));
    let locked = locked();
    all.extend(locked.iter().flat_map(alone::<LockedSubject>));
    all.extend(locked.iter().flat_map(meeting::<LockedSubject>));
    all.extend(locked.iter().flat_map(observed::<LockedSubject>));
    let mut all: Vec<Directed> = all.into_iter().map(Directed::always).collect();
    all.extend(logged(setups::pool()).iter().flat_map(alone::<PoolSubject>));
    all.extend(logged(setups::heap()).iter().flat_map(alone::<HeapSubject>));
    all.extend(of_engines(tables).iter().flat_map(|setups| around::<TableSubject>(setups)));
    all.extend(of_engines(long_tables).iter().flat_map(|s| around::<LongTableSubject>(s)));
    all.extend(of_engines(stores).iter().flat_map(|setups| around::<StoreSubject>(setups)));
    all.extend(of_engines(sparse).concat().iter().flat_map(alone::<StoreSubject>));
    all
}

/// Every setup by itself; in the first one of an engine, threads meet as well.
fn around<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let all = setups.iter().flat_map(alone::<S>);
    let first = || setups.first().into_iter();
    all.chain(first().flat_map(meeting::<S>)).chain(first().map(reported::<S>)).collect()
}

/// A look-up that meets an update, and power loss right after its answer.
fn reported<S: Subject>(setup: &Setup) -> Directed {
    let program = vec![vec![upsert(0, 2), upsert(0, 3)], vec![one(0, Action::Get), Op::Seal]];
    directed::<S>(setup, program, 1, Points::Shared)
}

fn directed<S: Subject>(
    setup: &Setup,
    program: Program,
    changes: usize,
    points: Points,
) -> Directed {
    let look = Look::Interleaved { program, first: 0, changes, points };
    Directed::new::<S>(setup.clone(), look).by_chance()
}

fn upsert(key: u8, value: u16) -> Op {
    one(key, Action::Upsert(value))
}

/// One thread: without a flusher, with one, and with a checkpoint.
fn alone<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let writers = [
        vec![upsert(0, 2), one(0, Action::Remove)],
        vec![one(1, Action::Insert(3)), Op::Settle],
        vec![if setup.shrinks {
            Op::Shrink
        } else if setup.compacts {
            Op::Compact
        } else {
            Op::Many(vec![(0, Action::Upsert(4)), (1, Action::Upsert(4))])
        }],
    ];
    let flushers =
        [vec![Op::Seal, Op::Seal], vec![Op::Checkpoint(Way::Up)], vec![Op::Checkpoint(Way::Down)]];
    let beside = writers.iter().flat_map(|writer| {
        let programs = flushers.iter().map(|flusher| vec![writer.clone(), flusher.clone()]);
        programs.map(|program| directed::<S>(setup, program, 1, Points::Shared))
    });
    let exhaustive = Directed::new::<S>(setup.clone(), Look::Exhaustive(2)).by_chance();
    [exhaustive].into_iter().chain(beside).collect()
}

/// Two threads and a flusher. With two changes, the flusher is put aside, too: it has opened an epoch, and not yet
/// sealed the ring of the first thread, when the other one goes on.
fn meeting<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let get = || one(0, Action::Get);
    let seal = || vec![Op::Seal];
    let removing = || vec![upsert(0, 2), one(0, Action::Remove)];
    let programs = [
        (vec![vec![upsert(0, 2)], vec![upsert(0, 3)], seal()], 1),
        (vec![vec![upsert(0, 2)], vec![upsert(1, 3)], seal()], 1),
        (vec![removing(), vec![get()], seal()], 1),
        (vec![vec![get()], seal(), vec![upsert(0, 3), upsert(0, 4)]], 2),
    ];
    let met = |(program, changes)| directed::<S>(setup, program, changes, Points::Met);
    programs.into_iter().map(met).collect()
}

/// A checkpoint that is suspended during its copy while a thread does half of its work.
pub fn copied<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let checkpoints = [Way::Up, Way::Down].map(Op::Checkpoint);
    let program = |checkpoint| vec![vec![upsert(0, 2)], vec![checkpoint, Op::Seal]];
    checkpoints.map(program).map(|program| directed::<S>(setup, program, 2, Points::Shared)).into()
}

/// A change that another thread observes, or follows, before it ends. All is in one epoch: the numbers that were drawn
/// decide which record is the last one. Put aside at every access, a thread also has stores that nobody sees yet.
pub fn observed<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let get = || one(0, Action::Get);
    let programs = [
        vec![vec![upsert(0, 2)], vec![get()]],
        vec![vec![upsert(0, 2), one(0, Action::Remove)], vec![get()]],
        vec![vec![upsert(0, 2)], vec![get(), Op::Seal, get()]],
        vec![vec![upsert(0, 2), upsert(0, 3)], vec![upsert(0, 4)], vec![get()]],
    ];
    let all = programs.into_iter().flat_map(|program| {
        let ways = [(1, Points::Every), (2, Points::Shared)];
        ways.map(|(changes, points)| directed::<S>(setup, program.clone(), changes, points))
    });
    all.collect()
}
