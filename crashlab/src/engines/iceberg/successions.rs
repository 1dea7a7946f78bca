//! Owners that are killed while guests look keys up, and the next ones that recover beside them.

use super::guests::{one_item, one_shown, shown};
use super::{moving_with_level_2, second_insertion_doubles, stores, tables};
use crate::boundaries::reusing;
use crate::deep::one;
use crate::history::{Action, Op, Program};
use crate::interleave::Points;
use crate::subject::{Setup, StoreSubject, Subject, TableSubject};
use crate::trial::{Directed, Look};

/// The owner, a guest, and the next owner.
fn program(owner: Vec<Op>, next: Vec<Op>) -> Program {
    let guest = vec![one(0, Action::Get), Op::Many(vec![(0, Action::Get), (1, Action::Get)])];
    vec![owner, guest, [vec![Op::Succeed], next].concat()]
}

/// The three change places at shared words. Nobody waits for a dead owner's words.
fn met<S: Subject>(setup: &Setup, program: Program, changes: usize) -> Directed {
    let look = Look::Interleaved { program, first: 0, changes, points: Points::Met };
    Directed::new::<S>(setup.clone(), look)
}

fn around<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let change = |key, action| vec![one(key, action)];
    let programs = [
        (change(0, Action::Upsert(2)), change(0, Action::Upsert(3))),
        (change(0, Action::Remove), change(0, Action::Insert(3))),
        (change(1, Action::Insert(2)), change(0, Action::Upsert(3))),
        ([change(0, Action::Upsert(2)), change(0, Action::Remove)].concat(), Vec::new()),
    ];
    let directed = |(owner, next): (Vec<Op>, Vec<Op>)| met::<S>(setup, program(owner, next), 2);
    programs.into_iter().map(directed).collect()
}

/// The next owner ends a resize in which the first one died, or undoes it.
fn resizing() -> Vec<Directed> {
    let (settle, shrink) = (vec![Op::Settle], vec![Op::Settle, Op::Shrink, Op::Settle]);
    let doubles = vec![one(0, Action::Insert(2)), one(1, Action::Insert(3)), Op::Settle];
    let moves = vec![one(0, Action::Insert(2)), Op::Settle];
    let programs = [
        (second_insertion_doubles(), doubles.clone(), settle.clone()),
        (second_insertion_doubles(), doubles, shrink),
        (moving_with_level_2(), moves, settle),
    ];
    let directed = |(setup, owner, next): (Setup, _, _)| {
        met::<TableSubject>(&one_shown(setup), program(owner, next), 2)
    };
    programs.into_iter().map(directed).collect()
}

/// The next owner uses the space of an item that the first one was about to replace or to remove.
fn of_used_space() -> Vec<Directed> {
    let setup = one_shown(one_item());
    let next = reusing().swap_remove(0);
    let owners =
        [Action::Remove, Action::Upsert(9), Action::Get].map(|action| vec![one(0, action)]);
    let directed = |owner| met::<StoreSubject>(&setup, program(owner, next.clone()), 2);
    owners.into_iter().map(directed).collect()
}

pub(crate) fn histories() -> Vec<Directed> {
    let small = |setup: &Setup| setup.value_bytes.iter().all(|&bytes| bytes <= 100);
    let tables = shown(tables());
    let stores: Vec<Setup> = shown(stores()).into_iter().filter(small).collect();
    let mut all: Vec<Directed> = tables.iter().flat_map(around::<TableSubject>).collect();
    all.extend(stores.iter().flat_map(around::<StoreSubject>));
    // The guest looks before the death, after it, and beside the next owner.
    let change = vec![one(0, Action::Upsert(2))];
    all.push(met::<TableSubject>(&tables[0], program(change.clone(), change), 3));
    all.extend(resizing());
    all.extend(of_used_space());
    all
}
