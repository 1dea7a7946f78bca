//! Clevel hashing before the lab, with one or a few buckets in a level: its boundaries, and histories around
//! them.

use crate::arena::{Arena, Effort, arenas_of};
use crate::boundaries::{
    alone_in, directed, helped, interleaved, repeating, shared_after, store_histories, syncing,
    writers_of_the_heap,
};
use crate::bucketwise::growing_meanwhile;
use crate::deep::{batches_beside, late, looking_up_fillers, one};
use crate::history::{Action, Key, Op};
use crate::setups::choices::{self, Choices, hash_of_word};
use crate::setups::{
    FILLING, SEVERAL_CLASSES, recovered, synced, with_first_key, with_helper, with_items,
    with_synced,
};
use crate::subject::{Setup, StoreSubject, TableSubject};
use crate::trial::{Directed, every_access};
use engines::Engine;
use engines::clevel::{Shape, engine_params};

/// A setup with two free keys; `fillers` are stored in this order.
fn filled(name: &'static str, initial_log2: u32, free: [Choices; 2], fillers: &[Choices]) -> Setup {
    let setup = choices::filled_with(hash_of_word, name, free, fillers, &[]);
    let engine_params = engine_params(&Shape { initial_log2 });
    Setup { engine: Engine::Clevel, engine_params, ..setup }
}

fn store(key: Key) -> Op {
    Op::One(key, Action::Insert(FILLING))
}

/// The setups of a table of words on Clevel hashing.
pub fn tables() -> Vec<Setup> {
    // Both choices of such a key are one bucket in every level.
    let (same, other) = ((3, 3), (0, 0));
    let no_room = filled("no empty slot and no growth", 1, [same, same], &[same; 16]);
    vec![
        filled("an empty table", 1, [(0, 1), (0, 1)], &[]),
        filled("one empty slot", 1, [same, same], &[same; 15]),
        filled("the next insertion appends a level", 1, [same, (0, 2)], &[same; 16]),
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        Setup {
            resize_at: 0.8,
            ..filled("the second insertion is one too many", 1, [(0, 1), (1, 2)], &[(0, 1); 18])
        },
        Setup {
            limit_bytes: 10_400,
            is_tight: true,
            ..filled("no space for a level", 1, [same, other], &[same; 16])
        },
        draining(same, other),
        next_insertion_shifts(),
        can_shrink(),
    ]
}

/// A level is being drained: of its four buckets the last two are left, with the first free key in
/// one of them. The next insertion drains them.
fn draining(same: Choices, other: Choices) -> Setup {
    let fillers: Vec<Choices> = [vec![same; 8], vec![other; 17]].concat();
    let mut setup = filled("a level is being drained", 3, [same, (3, 4)], &fillers);
    setup.before.insert(8, store(0));
    setup
}

/// A full table with the first free key in the front level: the next insertion of the other one
/// appends a level and moves the first one there.
pub fn next_insertion_moves() -> Setup {
    let same = (3, 3);
    let mut setup = filled("the next insertion moves a key", 1, [same, same], &[same; 15]);
    setup.before.insert(8, store(0));
    setup
}

/// Neither bucket of the second free key has an empty slot. But the first one is in a bucket of both, in the
/// front level, and has room in the back one: an insertion of the second one moves it there.
pub fn next_insertion_shifts() -> Setup {
    let (same, other) = ((3, 3), (1, 1));
    let fillers: Vec<Choices> = [vec![same; 8], vec![other; 8], vec![same; 7]].concat();
    let mut setup = filled("the next insertion makes room", 2, [other, same], &fillers);
    setup.before.insert(16, store(0));
    setup.before.push(Op::One(2 + 8, Action::Remove));
    setup
}

/// A table with room for more, to which the second free key lets a level be appended.
fn roomy_tables() -> Vec<Setup> {
    let name = "a level is due with room to spare";
    let plain = Setup { resize_at: 0.8, ..filled(name, 1, [(3, 3), (1, 2)], &[(0, 1); 19]) };
    vec![with_first_key("a key is to move with room to spare", &plain), plain]
}

/// A table that has doubled and is nearly empty again, with items in both levels.
fn can_shrink() -> Setup {
    let fillers: Vec<Choices> = [vec![(3, 3); 17], vec![(0, 2)]].concat();
    let mut setup =
        Setup { shrinks: true, ..filled("a table that can shrink", 1, [(3, 3), (0, 2)], &fillers) };
    setup.before.push(Op::Settle);
    setup.before.extend((4..18).map(|filler| Op::One(filler, Action::Remove)));
    setup
}

/// Tables of longer pairs on Clevel hashing that differ from others: none.
pub fn long_tables() -> Vec<Setup> {
    // To it all pairs are items.
    Vec::new()
}

/// The setups of a store on Clevel hashing.
pub fn stores() -> Vec<Setup> {
    let same = (3, 3);
    let filled = |name, value_bytes, free, fillers: &[Choices]| {
        with_items(filled(name, 1, free, fillers), value_bytes)
    };
    let named = |name, setup: Setup| Setup { name, ..with_items(setup, SEVERAL_CLASSES) };
    vec![
        filled("an empty store on clevel", SEVERAL_CLASSES, [(0, 1), (0, 1)], &[]),
        filled(
            "values on clevel that take segments of their own",
            &[8, 300, 40, 600],
            [(0, 1), (0, 1)],
            &[],
        ),
        filled(
            "the next insertion appends a level to a store",
            SEVERAL_CLASSES,
            [same, (0, 2)],
            &[same; 16],
        ),
        named("a level of a store is being drained", draining(same, (0, 0))),
        named("the next insertion makes room in a store", next_insertion_shifts()),
        named("a store on clevel that can shrink", can_shrink()),
    ]
}

/// Tables on Clevel hashing.
pub fn synced_tables() -> Vec<Setup> {
    let empty = ["an empty table", "a synced table", "a synced table in a file"];
    let appends = [
        "the next insertion appends a level",
        "the next insertion appends a level to a synced table",
        "the next insertion appends a level to a synced table in a file",
    ];
    synced(tables(), [empty, appends])
}

/// Tables on Clevel hashing.
pub fn helped_tables() -> Vec<Setup> {
    let names = [
        ["the second insertion is one too many", "a helper has space at hand"],
        ["the next insertion appends a level", "the next insertion appends a level, helped"],
        ["a level is being drained", "a helper drains a level"],
        ["a table that can shrink", "a helped table that can shrink"],
    ];
    with_synced(with_helper(tables(), &names), "a helped table that is synced in a file")
}

/// Tables on Clevel hashing that two threads recover.
pub fn recovered_tables() -> Vec<Setup> {
    let names = [
        ["a level is being drained", "two threads recover a level being drained"],
        ["the next insertion makes room", "two threads recover an item that made room"],
        ["a table that can shrink", "two threads recover a level of a shrink"],
    ];
    recovered(tables(), &names)
}

/// Operations take many steps.
pub(crate) const EFFORT: Effort =
    Effort { histories: 100, exhaustive_ops: 0, histories_in_tests: 60, ..Effort::OF_ENGINE };

/// Where random histories of it begin.
pub(crate) fn arenas() -> Vec<Arena> {
    arenas_of::<TableSubject>(tables())
        .chain(arenas_of::<TableSubject>(synced_tables()))
        .chain(arenas_of::<TableSubject>(helped_tables()))
        .chain(arenas_of::<TableSubject>(recovered_tables()))
        .chain(arenas_of::<StoreSubject>(stores()))
        .collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    // Its operations take many steps. Where several threads meet is alike in the others.
    let (meeting, alone): (Vec<_>, Vec<_>) = tables()
        .into_iter()
        .partition(|setup| !setup.is_tight && !setup.shrinks && setup.resize_at == 1.0);
    let mut all = directed::<TableSubject>(&meeting);
    all.extend(meeting.iter().filter(|setup| setup.before.len() > 16).flat_map(beside_moves));
    all.extend(alone.iter().filter(|setup| setup.shrinks).flat_map(beside_moves));
    all.extend(alone_in::<TableSubject>(alone));
    all.extend(looking_up_fillers::<TableSubject>(&tables(), 0));
    all.extend(late::<TableSubject>(&tables()[0]));
    all.extend(batches_beside::<TableSubject>(&tables()[0]));
    all.extend(late_helpers(&tables()[0]));
    all.extend(overtaken());
    all.extend(syncing::<TableSubject>(&synced_tables()));
    all.extend(helped::<TableSubject>(&helped_tables()));
    all.extend(alone_in::<TableSubject>(recovered_tables()));
    all.extend(repeating::<TableSubject>(&tables()[0]));
    all.extend(repeating::<StoreSubject>(&stores()[0]));
    all.extend(alone_in::<StoreSubject>(stores()));
    all.extend(store_histories::<StoreSubject>(stores().swap_remove(0)));
    // Those of one thread take longest: of three operations there are thousands, each of many steps.
    let mut all: Vec<_> = all.into_iter().map(Directed::by_chance).collect();
    all.extend(roomy_tables().iter().flat_map(growing_meanwhile));
    all.extend(writers_of_the_heap());
    all
}

/// A key that is changed by one thread and looked at by another while a third one moves it.
fn beside_moves(setup: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let mover = if setup.shrinks { Op::Shrink } else { Op::Settle };
    let pairs =
        [[one(Action::Upsert(3)), one(Action::Get)], [one(Action::Remove), one(Action::Insert(4))]];
    let programs =
        pairs.map(|[writer, other]| vec![vec![writer], vec![mover.clone()], vec![other]]);
    programs.into_iter().map(|program| interleaved::<TableSubject>(setup, program, 0)).collect()
}

/// Helpers of Clevel hashing that are put aside until their owner does something else.
fn late_helpers(setup: &Setup) -> Vec<Directed> {
    let upsert = |value| one(0, Action::Upsert(value));
    let stored = || vec![upsert(2)];
    let helpers = [vec![one(0, Action::Remove)], vec![upsert(5)]];
    let program = |helper| vec![stored(), vec![upsert(3), upsert(4)], helper];
    helpers
        .map(program)
        .into_iter()
        .map(|program| shared_after::<TableSubject>(setup, program, 1, 3))
        .collect()
}

/// Searches that know the levels from before a key was moved to a new one.
fn overtaken() -> Vec<Directed> {
    let readers = [Op::One(0, Action::Get), Op::Many(vec![(0, Action::Get)])];
    let program = |reader| vec![vec![reader], vec![Op::One(1, Action::Insert(2))]];
    let updated = vec![
        vec![Op::One(0, Action::Update(3)), Op::One(0, Action::Get)],
        vec![Op::One(1, Action::Insert(2))],
    ];
    let programs: Vec<_> = readers.map(program).into_iter().chain([updated]).collect();
    let setups = [next_insertion_moves(), next_insertion_shifts()];
    let all = |setup: &Setup| {
        let programs = programs.clone().into_iter();
        programs
            .map(|program| {
                Directed::new::<TableSubject>(setup.clone(), every_access(program, 0, 1))
            })
            .collect::<Vec<_>>()
    };
    setups.iter().flat_map(all).collect()
}
