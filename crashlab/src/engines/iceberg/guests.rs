//! Look-ups of guests: in what the owner shows, beside threads of the owner. What such a look-up cannot tell, the owner
//! is asked, as in production. A guest writes nothing, so its end is nothing that anybody could see.

use super::{SHAPE, unflushed_tables};
use super::{
    level_2_before_doubling, level_3_before_doubling, moving_with_level_2, of_shape,
    second_insertion_doubles, shrinks, stores, tables,
};
use crate::arena::{Arena, Effort, arenas_of};
use crate::boundaries::{compacting, directed, helped, reusing, shared, shared_after};
use crate::deep::{batches_beside, looking_up_fillers, one};
use crate::history::{Action, Op};
use crate::setups::{self, with_helper};
use crate::subject::{Setup, StoreSubject, TableSubject};
use crate::trial::Directed;

/// No site is broken here: other targets test flushes and fences.
pub(crate) const EFFORT: Effort =
    Effort { directed_one_in: 16, breaks_sites: false, ..Effort::OF_ENGINE };

pub(super) fn shown(setups: Vec<Setup>) -> Vec<Setup> {
    setups.into_iter().map(|setup| Setup { is_shown: true, ..setup }).collect()
}

pub(super) fn one_shown(setup: Setup) -> Setup {
    Setup { is_shown: true, ..setup }
}

fn shown_tables() -> Vec<Setup> {
    let mut all = tables();
    all.extend([second_insertion_doubles(), level_2_before_doubling(), level_3_before_doubling()]);
    all.extend(unflushed_tables());
    all.extend(shrinks::table_setups());
    shown(all)
}

fn shown_stores() -> Vec<Setup> {
    let mut all = stores();
    all.push(one_item());
    all.push(setups::sparse_segments_of_a_store(&stores()[0]));
    all.extend(shrinks::store_setups());
    shown(all)
}

pub(super) fn one_item() -> Setup {
    of_shape(&SHAPE, setups::one_item())
}

/// Where random histories begin.
pub(crate) fn arenas() -> Vec<Arena> {
    arenas_of::<TableSubject>(shown_tables())
        .chain(arenas_of::<StoreSubject>(shown_stores()))
        .collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = directed::<TableSubject>(&shown(tables()));
    all.extend(directed::<StoreSubject>(&shown(stores())));
    all.extend(looking_up_fillers::<TableSubject>(&shown(tables()), 4));
    all.extend(looking_up_fillers::<StoreSubject>(&shown(stores()), 4));
    all.extend(batches_beside::<TableSubject>(&one_shown(tables().swap_remove(0))));
    let names = [["the next insertion doubles the table", "a helper doubles a table for guests"]];
    all.extend(helped::<TableSubject>(&shown(with_helper(tables(), &names))));
    let sparse = setups::sparse_segments_of_a_store(&stores()[0]);
    all.extend(compacting::<StoreSubject>(&one_shown(sparse)));
    all.extend(beside_resizes());
    all.push(shown_late());
    all.extend(of_used_space());
    all
}

/// A guest that looked before a resize began, or amid one, and goes on at some point of it.
fn beside_resizes() -> Vec<Directed> {
    let doubler = |key| vec![one(key, Action::Insert(3)), Op::Settle];
    let programs = [
        (second_insertion_doubles(), vec![one(0, Action::Insert(2))], doubler(1)),
        (level_2_before_doubling(), vec![one(0, Action::Insert(2))], doubler(1)),
        (level_3_before_doubling(), Vec::new(), doubler(1)),
        (moving_with_level_2(), vec![one(0, Action::Insert(2))], vec![Op::Settle]),
    ];
    let beside = |(setup, first, second): &(Setup, Vec<Op>, Vec<Op>)| {
        let setup = one_shown(setup.clone());
        let gets = vec![one(0, Action::Get), Op::Many(vec![(0, Action::Get), (1, Action::Get)])];
        let writer = [first.clone(), second.clone()].concat();
        [1, 2].map(|changes| {
            shared::<TableSubject>(&setup, vec![writer.clone(), gets.clone()], changes)
        })
    };
    programs.iter().flat_map(beside).collect()
}

/// One thread is about to show the table that it has doubled while another one halves it.
fn shown_late() -> Directed {
    let setup = one_shown(Setup { shrinks: true, ..second_insertion_doubles() });
    let doubler = vec![one(0, Action::Insert(2)), one(1, Action::Insert(3)), Op::Settle];
    let removed = (2..5).map(|filler| (filler, Action::Remove)).collect();
    let halver = vec![Op::Many(removed), Op::Shrink];
    shared::<TableSubject>(&setup, vec![doubler, halver], 2).always()
}

/// An item's space is another item's when the guest copies it, or the same key's again.
fn of_used_space() -> Vec<Directed> {
    let setup = one_shown(one_item());
    let writer = reusing().swap_remove(0);
    let back =
        [writer.clone(), vec![one(0, Action::Upsert(8)), one(0, Action::Upsert(9))]].concat();
    let reads = vec![one(0, Action::Get), Op::Many(vec![(0, Action::Get), (1, Action::Get)])];
    let mut all: Vec<Directed> = [1, 2]
        .into_iter()
        .flat_map(|changes| {
            [&writer, &back].map(|writer| {
                shared::<StoreSubject>(&setup, vec![writer.clone(), reads.clone()], changes)
            })
        })
        .collect();
    all.push(shared_after::<StoreSubject>(&setup, vec![back, reads, Vec::new()], 1, 2));
    all
}
