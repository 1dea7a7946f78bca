//! The pool, the heap and every engine with a line log, which alone survives: who writes, who reads, and who closes
//! epochs beside them.

use crate::arena::{Arena, Effort, arenas_of};
use crate::deep::one;
use crate::history::{Action, Op, Program};
use crate::interleave::Points;
use crate::logbook::Way;
use crate::setups;
use crate::subject::{HeapSubject, LinesSubject, PoolSubject, Setup, StoreSubject, Subject, TableSubject};
use crate::trial::{Directed, Look};
use engines::Engine;

/// A history of one thread that ends with an epoch takes one image.
pub(crate) const EFFORT: Effort =
    Effort { histories: 400, directed_one_in: 8, exhaustive_ops: 0, ..Effort::OF_ENGINE };

fn logged(setups: Vec<Setup>) -> Vec<Setup> {
    setups.into_iter().map(|setup| Setup { is_logged: true, ..setup }).collect()
}

fn lines() -> Vec<Setup> {
    vec![Setup { name: "empty registers", keys: vec![1, 2], free_keys: 2, ..Setup::default() }]
}

fn tables() -> Vec<Vec<Setup>> {
    Engine::ALL.iter().map(|&engine| logged(crate::engines::tables(engine))).collect()
}

fn stores() -> Vec<Vec<Setup>> {
    Engine::ALL.iter().map(|&engine| logged(crate::engines::stores(engine))).collect()
}

/// Where random histories begin.
pub(crate) fn arenas() -> Vec<Arena> {
    arenas_of::<LinesSubject>(logged(lines()))
        .chain(arenas_of::<PoolSubject>(logged(setups::pool())))
        .chain(arenas_of::<HeapSubject>(logged(setups::heap())))
        .chain(arenas_of::<TableSubject>(tables().concat()))
        .chain(arenas_of::<StoreSubject>(stores().concat()))
        .collect()
}

/// The directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = of::<LinesSubject>(&logged(lines()));
    all.extend(of::<PoolSubject>(&logged(setups::pool())));
    all.extend(of::<HeapSubject>(&logged(setups::heap())));
    all.extend(tables().iter().flat_map(|setups| of::<TableSubject>(setups)));
    all.extend(stores().iter().flat_map(|setups| of::<StoreSubject>(setups)));
    all
}

fn of<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let mut all: Vec<Directed> = setups.iter().flat_map(alone::<S>).collect();
    all.extend(setups.first().into_iter().flat_map(beside::<S>));
    all
}

fn look(program: Program, changes: usize, points: Points) -> Look {
    Look::Interleaved { program, first: 0, changes, points }
}

/// One thread, without and with a flusher, and with a checkpoint.
fn alone<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let writers = [
        vec![one(0, Action::Upsert(2)), one(0, Action::Remove)],
        vec![one(1, Action::Insert(3)), Op::Settle],
    ];
    let flushers =
        [vec![Op::Seal], vec![Op::Checkpoint(Way::Up)], vec![Op::Checkpoint(Way::Down)]];
    let programs = writers.iter().flat_map(|writer| {
        flushers.iter().map(move |flusher| {
            let changes = 1 + usize::from(flusher[0] != Op::Seal);
            look(vec![writer.clone(), flusher.clone()], changes, Points::Shared)
        })
    });
    let all = [Look::Exhaustive(2)].into_iter().chain(programs);
    all.map(|look| Directed::new::<S>(setup.clone(), look)).collect()
}

/// Two threads, with and without a flusher beside them.
fn beside<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let upsert = |key, value| one(key, Action::Upsert(value));
    let get = one(0, Action::Get);
    let programs = [
        (vec![vec![upsert(0, 2)], vec![upsert(0, 3)], vec![Op::Seal]], 1),
        (vec![vec![upsert(0, 2)], vec![upsert(1, 3)], vec![Op::Seal]], 1),
        (vec![vec![upsert(0, 2)], vec![get.clone()], vec![Op::Seal]], 1),
        (vec![vec![upsert(0, 2)], vec![Op::Seal], vec![upsert(0, 3)]], 2),
        (vec![vec![upsert(0, 2)], vec![Op::Seal], vec![upsert(1, 3)]], 2),
        (vec![vec![get], vec![Op::Seal], vec![upsert(0, 3), upsert(0, 4)]], 2),
    ];
    let all = programs.into_iter().map(|(program, changes)| look(program, changes, Points::Met));
    all.map(|look| Directed::new::<S>(setup.clone(), look)).collect()
}
