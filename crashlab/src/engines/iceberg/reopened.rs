//! Tables that were closed and opened again, and whose sidecar is built while the history runs.

use super::{
    colliding, filled, filled_blocks, moving_with_level_2, parting, second_insertion_doubles,
    stores, tables,
};
use crate::boundaries::{alone_in, directed, interleaved, shared};
use crate::deep::{fillers, looking_up_fillers, one};
use crate::history::{Action, Op};
use crate::setups::{renamed, with_helper};
use crate::subject::{Setup, StoreSubject, TableSubject};
use crate::trial::Directed;

const NAMES: [[&str; 2]; 7] = [
    ["an empty table", "an empty table was reopened"],
    ["the last free slot of a block", "the last free slot of a block, reopened"],
    ["one free slot in level 2", "one free slot in level 2, reopened"],
    ["level 2 is full", "level 2 is full, reopened"],
    ["level 3 is full", "level 3 is full, reopened"],
    ["a table that doubles with keys in level 2", "a table that doubles was reopened"],
    ["keys with a choice in level 2", "keys with a choice in level 2, reopened"],
];

fn reopened(setup: Setup) -> Setup {
    Setup { is_reopened: true, ..setup }
}

pub(super) fn table_setups() -> Vec<Setup> {
    let mut all = renamed(tables(), &NAMES, reopened);
    all.push(reopened(Setup {
        name: "blocks of both levels were reopened",
        ..moving_with_level_2()
    }));
    all.push(reopened(Setup {
        name: "key 0 was reopened",
        ..filled_blocks("", vec![0, parting().swap_remove(0)], 3, 1)
    }));
    all.push(reopened(Setup {
        name: "the second insertion doubles a reopened table",
        ..second_insertion_doubles()
    }));
    all
}

/// Tables with a helper, which builds, too.
fn helped() -> Vec<Setup> {
    let names = [
        ["one free slot in level 2, reopened", "one free slot in level 2, reopened with a helper"],
        ["a table that doubles was reopened", "a table that doubles was reopened with a helper"],
    ];
    with_helper(table_setups(), &names)
}

pub(super) fn store_setups() -> Vec<Setup> {
    let names = [
        ["an empty store", "an empty store was reopened"],
        ["four keys of one hash", "four keys of one hash, reopened"],
        ["one free slot in a segment", "one free slot in a segment, reopened"],
    ];
    let mut all = renamed(stores(), &names, reopened);
    all.push(reopened(Setup {
        value_bytes: &[8],
        ..filled("three free slots in a segment, reopened", colliding(2), 5)
    }));
    all.push(reopened(Setup {
        value_bytes: &[300, 40, 8, 600],
        limit_bytes: 20 << 10,
        ..filled("items of several sizes were reopened", colliding(2), 4)
    }));
    all
}

/// Stores that a helper sweeps: after a kill, and after a close, which records free slots.
fn swept() -> Vec<Setup> {
    let killed = [
        ["one free slot in a segment, reopened", "a free slot, reopened with a helper"],
        ["three free slots in a segment, reopened", "free slots, reopened with a helper"],
        ["four keys of one hash, reopened", "four keys of one hash, reopened with a helper"],
        ["items of several sizes were reopened", "items of several sizes, reopened with a helper"],
    ];
    let closed = [
        ["a free slot, reopened with a helper", "a free slot, closed and reopened"],
        ["free slots, reopened with a helper", "free slots, closed and reopened"],
        [
            "four keys of one hash, reopened with a helper",
            "four keys of one hash, closed and reopened",
        ],
        [
            "items of several sizes, reopened with a helper",
            "items of several sizes, closed and reopened",
        ],
    ];
    let mut all = with_helper(store_setups(), &killed);
    all.extend(renamed(all.clone(), &closed, |setup| Setup { is_closed: true, ..setup }));
    all
}

/// Its directed histories.
pub(super) fn histories() -> Vec<Directed> {
    let setups = table_setups();
    let mut all = directed::<TableSubject>(&setups);
    all.extend(looking_up_fillers::<TableSubject>(&setups, 2));
    // The others are for the sweep beside changes.
    all.extend(alone_in::<StoreSubject>(store_setups()).into_iter().take(2));
    let closed = swept().into_iter().filter(|setup| setup.is_closed && setup.hash_bits > 0);
    all.extend(alone_in::<StoreSubject>(closed.collect()));
    all.extend(swept().iter().flat_map(beside_a_sweep));
    all.extend(setups.iter().flat_map(beside_builders));
    all.extend(helped().iter().map(|setup| {
        let builder = vec![Op::Help, Op::Help, Op::Help];
        interleaved::<TableSubject>(setup, vec![vec![one(0, Action::Insert(2))], builder], 0)
    }));
    all
}

/// Changes of what was there, and of what was not, while another thread looks for free space.
fn beside_a_sweep(setup: &Setup) -> Vec<Directed> {
    let there = fillers(setup);
    let (first, last) = (there[0], there[there.len() - 1]);
    let users = [
        vec![one(last, Action::Upsert(3)), one(last, Action::Get)],
        vec![one(last, Action::Remove), one(0, Action::Insert(2)), one(last, Action::Get)],
        vec![one(last, Action::Remove), one(last, Action::Insert(3))],
        vec![one(first, Action::Upsert(4)), one(first, Action::Upsert(5))],
        vec![Op::Many(vec![(last, Action::Upsert(4)), (0, Action::Upsert(4))])],
        vec![one(0, Action::Insert(2)), one(1, Action::Insert(3)), Op::Scan],
    ];
    let sweeper = || vec![Op::Help];
    let mut all: Vec<Directed> = users
        .iter()
        .map(|user| shared::<StoreSubject>(setup, vec![user.clone(), sweeper()], 2))
        .collect();
    // Two that unlink one item, of which one does not.
    let changers = vec![vec![one(last, Action::Upsert(3))], vec![one(last, Action::Remove)]];
    all.push(shared::<StoreSubject>(setup, [changers, vec![sweeper()]].concat(), 1));
    all
}

/// Whoever uses a block while another thread builds it, and builds all others.
fn beside_builders(setup: &Setup) -> Vec<Directed> {
    let last = fillers(setup).last().copied().unwrap_or(0);
    let users = [
        vec![one(0, Action::Insert(2)), one(0, Action::Get)],
        vec![one(last, Action::Remove), one(last, Action::Get)],
        vec![one(last, Action::Upsert(3)), one(last, Action::Get)],
        vec![one(last, Action::Get), one(0, Action::Get)],
        vec![Op::Scan],
        vec![Op::Many(vec![(last, Action::Upsert(4)), (0, Action::Upsert(4))])],
    ];
    let mut all: Vec<Directed> = users
        .iter()
        .map(|user| shared::<TableSubject>(setup, vec![user.clone(), vec![Op::Settle]], 2))
        .collect();
    // A reader that finds a block unbuilt, and what a writer has put there since.
    let writer = || vec![one(last, Action::Remove), one(0, Action::Insert(3))];
    let reader = || vec![one(last, Action::Get), one(0, Action::Get)];
    all.push(shared::<TableSubject>(setup, vec![reader(), writer()], 2));
    all.push(shared::<TableSubject>(setup, vec![writer(), vec![Op::Settle], reader()], 1));
    all
}
