//! Level hashing before the lab, with one or two buckets in a level: its boundaries, and histories around
//! them.

use crate::arena::{Arena, Effort};
use crate::boundaries::shared;
use crate::bucketwise::Setups;
use crate::doubling::{chosen_otherwise, looked_up_at_the_end, moved_beside_a_scan};
use crate::history::{Action, Op};
use crate::setups::choices::{self, Choices, Hash, hash_of_word};
use crate::setups::{
    SEVERAL_CLASSES, hash_of_entry, recovered, synced, with_first_key, with_items,
};
use crate::subject::{HASH_SEED, LongKey, Setup, TableSubject, lengthened};
use crate::trial::Directed;
use engines::Engine;
use engines::level::{Design, Shape, engine_params};
use index::hash::Hasher;

fn hash_of_long(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_bytes(&lengthened::<LongKey>(key))
}

/// A setup of words with two free keys; `fillers` are stored in this order, then those of the numbers
/// in `removed` are taken out again.
fn filled(
    name: &'static str,
    shape: Shape,
    free: [Choices; 2],
    fillers: &[Choices],
    removed: &[usize],
) -> Setup {
    filled_with(hash_of_word, name, shape, free, fillers, removed)
}

/// As [`filled`], with keys of another kind.
fn filled_with(
    hash: Hash,
    name: &'static str,
    shape: Shape,
    free: [Choices; 2],
    fillers: &[Choices],
    removed: &[usize],
) -> Setup {
    let setup = choices::filled_with(hash, name, free, fillers, removed);
    Setup { engine: Engine::Level, engine_params: engine_params(&shape), ..setup }
}

/// The setups of a table of words on Level hashing.
pub fn tables() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let more_buckets = |number| Shape { initial_log2: 2, ..slots(number) };
    let log_free = Design { in_place_update: false, ..Design::default() };
    let recorded = Design { log_free_update: false, ..log_free };
    // Both choices of such a key are one bucket in every level.
    let (same, other) = ((1, 1), (0, 0));
    let free = [same, same];
    let into_another_line: Vec<Choices> =
        [vec![(0, 1)], vec![other; 3], vec![same; 3], vec![(2, 2); 8]].concat();
    let no_room = filled("movements do not help", slots(1), [other, other], &[same, same], &[]);
    vec![
        filled("an empty table", slots(4), [(0, 1), (0, 1)], &[], &[]),
        filled("the last free slot of a bucket is in two lines", slots(4), free, &[same; 3], &[]),
        filled("the last free slot is in another line", slots(5), free, &[same; 4], &[]),
        filled("the top bucket is full", slots(2), free, &[same; 2], &[]),
        filled(
            "an item of the top level can be moved",
            more_buckets(1),
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
            &[],
        ),
        filled(
            "an item of the top level can be moved into another line",
            more_buckets(4),
            [other, other],
            &into_another_line,
            &[],
        ),
        filled(
            "an item of the bottom level can be moved",
            more_buckets(1),
            [other, other],
            &[other, (2, 2), same, (2, 1)],
            &[],
        ),
        filled(
            "an item can be moved from the bottom level to the top level",
            more_buckets(1),
            [other, other],
            &[other, (2, 2), (2, 2)],
            &[1],
        ),
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        filled(
            "log-free updates into another line",
            Shape { design: log_free, ..slots(5) },
            free,
            &[same; 3],
            &[],
        ),
        filled("recorded updates", Shape { design: recorded, ..slots(4) }, free, &[same; 3], &[]),
        filled("updates of full buckets", Shape { design: log_free, ..slots(1) }, free, &[], &[]),
        Setup {
            resize_at: 0.8,
            ..filled("the next insertion expands", slots(2), [(0, 2), (1, 3)], &[same; 4], &[])
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an expansion is under way",
                slots(2),
                [(0, 2), (1, 3)],
                &[same, same, same, same, other],
                &[],
            )
        },
        Setup {
            resize_at: 0.6,
            ..filled(
                "an expansion of several buckets is under way",
                more_buckets(1),
                [(0, 2), (1, 3)],
                &[same, (2, 2), same, (2, 2)],
                &[],
            )
        },
        // The second filler finds no room until the top level has 16 buckets, or 8 and none of the
        // free keys.
        filled(
            "an expansion cannot end before the next",
            slots(1),
            free,
            &[(5, 5), (9, 9), (5, 5)],
            &[],
        ),
        can_shrink(),
        shrinks_in_vain(),
        two_buckets(),
    ]
}

/// An empty table, and keys that share no bucket: a batch changes both before it fences.
pub fn two_buckets() -> Setup {
    let shape = Shape { slots: 4, initial_log2: 1, design: Design::default() };
    // In each level one bucket is both choices of a key; the bottom level has one bucket.
    filled("keys in buckets of their own", shape, [(0, 0), (1, 1)], &[], &[])
}

/// An insertion of the first free key moves an item from the second bucket of the bottom level to the
/// first one; an insertion of the second one expands the table, which empties both.
pub fn moved_into_interim() -> Setup {
    let shape = Shape { slots: 1, initial_log2: 2, design: Design::default() };
    Setup {
        resize_at: 0.8,
        ..filled(
            "an item can be moved into what becomes interim",
            shape,
            [(1, 1), (2, 2)],
            &[(1, 1), (3, 3), (0, 0), (3, 0)],
            &[],
        )
    }
}

/// The setups of a table with keys of two words and values of three on Level hashing: of two slots
/// the second lies across two lines, of three the third in another line. Such a value is never
/// overwritten in place.
pub fn long_tables() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let recorded = Design { log_free_update: false, ..Design::default() };
    let long = |name, shape, free, fillers: &[Choices]| {
        filled_with(hash_of_long, name, shape, free, fillers, &[])
    };
    let (same, other) = ((1, 1), (0, 0));
    let free = [same, same];
    let mut can_shrink = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled_with(
            hash_of_long,
            "a table of long pairs that can shrink",
            slots(2),
            [(1, 3), (0, 2)],
            &[same, same, (1, 3), (1, 3), (0, 2), (0, 2)],
            &[1, 3, 5],
        )
    };
    can_shrink.before.push(Op::Settle);
    vec![
        long("an empty table of long pairs", slots(2), [(0, 1), (0, 1)], &[]),
        long("the last free slot of a long pair is in another line", slots(3), free, &[same; 2]),
        long("log-free updates of long pairs into another line", slots(3), free, &[same]),
        long("the top bucket of long pairs is full", slots(2), free, &[same; 2]),
        long("recorded updates of long pairs", Shape { design: recorded, ..slots(2) }, free, &[]),
        long("updates of full buckets of long pairs", slots(1), free, &[]),
        long(
            "a long pair of the top level can be moved",
            Shape { initial_log2: 2, ..slots(1) },
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
        ),
        Setup {
            resize_at: 0.8,
            ..long(
                "the next insertion of a long pair expands",
                slots(2),
                [(0, 2), (1, 3)],
                &[same; 4],
            )
        },
        can_shrink,
    ]
}

/// A table that has doubled and is nearly empty again, with items in both levels.
fn can_shrink() -> Setup {
    let shape = Shape { slots: 2, initial_log2: 1, design: Design::default() };
    let same = (1, 1);
    let fillers = [same, same, (1, 3), (1, 3), (0, 2), (0, 2)];
    let mut setup = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled("a table that can shrink", shape, [(1, 3), (0, 2)], &fillers, &[1, 3, 5])
    };
    setup.before.push(Op::Settle);
    setup
}

/// A table whose items find no room in half of it: three keys of one bucket in each level that
/// would be left.
fn shrinks_in_vain() -> Setup {
    let shape = Shape { slots: 1, initial_log2: 2, design: Design::default() };
    let mut setup = Setup {
        shrinks: true,
        ..filled("a table that grows back", shape, [(0, 2), (1, 5)], &[(1, 5); 3], &[])
    };
    setup.before.push(Op::Settle);
    setup
}

/// The setups of a store on Level hashing.
pub fn stores() -> Vec<Setup> {
    let slots = |slots| Shape { slots, initial_log2: 1, design: Design::default() };
    let filled = |name, shape, free, fillers: &[Choices], removed: &[usize]| {
        let setup = filled_with(hash_of_entry, name, shape, free, fillers, removed);
        with_items(setup, SEVERAL_CLASSES)
    };
    let (same, other) = ((1, 1), (0, 0));
    let log_free = Design { in_place_update: false, ..Design::default() };
    let collide = |name, fillers| Setup {
        hash_bits: 0,
        ..filled(name, slots(4), [(0, 1), (0, 1)], fillers, &[])
    };
    let mut can_shrink = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled(
            "a store on level that can shrink",
            slots(2),
            [(1, 3), (0, 2)],
            &[same, same, (1, 3), (1, 3), (0, 2), (0, 2)],
            &[1, 3, 5],
        )
    };
    can_shrink.before.push(Op::Settle);
    vec![
        filled("an empty store on level", slots(4), [(0, 1), (0, 1)], &[], &[]),
        filled(
            "log-free updates of a store on level",
            Shape { design: log_free, ..slots(5) },
            [same, same],
            &[same; 3],
            &[],
        ),
        filled(
            "an entry of the top level can be moved",
            Shape { initial_log2: 2, ..slots(1) },
            [other, other],
            &[(0, 1), (2, 2), (2, 2)],
            &[],
        ),
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion expands a store on level",
                slots(2),
                [(0, 2), (1, 3)],
                &[same; 4],
                &[],
            )
        },
        can_shrink,
        collide("two keys of one hash on level", &[]),
        collide("four keys of one hash on level", &[(0, 1); 2]),
    ]
}

/// Tables on Level hashing.
pub fn synced_tables() -> Vec<Setup> {
    let recorded = [
        "recorded updates",
        "recorded updates of a synced table",
        "recorded updates of a synced table in a file",
    ];
    let expands = [
        "the next insertion expands",
        "the next insertion expands a synced table",
        "the next insertion expands a synced table in a file",
    ];
    synced(tables(), [recorded, expands])
}

/// Tables on Level hashing that two threads recover.
pub fn recovered_tables() -> Vec<Setup> {
    let names = [
        ["an item of the top level can be moved", "two threads recover an item that was moved"],
        ["an expansion of several buckets is under way", "two threads recover an expansion"],
        ["a table that can shrink", "two threads recover a table that can shrink"],
        ["a table that grows back", "two threads recover a table that grows back"],
    ];
    recovered(tables(), &names)
}

/// A table with room for many more, which the second free key lets expand. The first one has room only in the bottom
/// level, which is interim then.
fn roomy_tables() -> Vec<Setup> {
    let shape = Shape { slots: 4, initial_log2: 1, design: Design::default() };
    let (same, other) = ((1, 1), (0, 0));
    let fillers = [same, same, same, same, other];
    let name = "an expansion is due with room to spare";
    let plain = Setup { resize_at: 0.5, ..filled(name, shape, [same, other], &fillers, &[]) };
    vec![with_first_key("a key is to move with room to spare", &plain), plain]
}

/// How much a short run does.
pub(crate) const EFFORT: Effort = Effort::OF_ENGINE;

/// The setups of words, long pairs and stores.
fn setups() -> Setups {
    Setups {
        words: tables(),
        long: long_tables(),
        two_buckets: two_buckets(),
        synced: synced_tables(),
        helped: Vec::new(),
        recovered: recovered_tables(),
        stores: stores(),
        roomy: roomy_tables(),
        is_moved,
    }
}

/// Where random histories of it begin.
pub(crate) fn arenas() -> Vec<Arena> {
    setups().arenas().collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = setups().histories();
    all.extend(movements_beside_resizes());
    all.push(chosen_otherwise(&two_choices()));
    all.push(looked_up_at_the_end(&ends_as_the_next_is_due()));
    let moving =
        tables().into_iter().find(|setup| setup.name == "an item of the top level can be moved");
    all.extend(moving.iter().map(moved_beside_a_scan));
    all
}

/// A key with two buckets of the top level that hold an item each.
fn two_choices() -> Setup {
    let shape = Shape { slots: 4, initial_log2: 1, design: Design::default() };
    filled("a key with two buckets of an item each", shape, [(0, 1); 2], &[(0, 0), (1, 1)], &[])
}

/// An expansion ends with the next insertion, and one more begins another one, which moves the first filler.
fn ends_as_the_next_is_due() -> Setup {
    let shape = Shape { slots: 2, initial_log2: 1, design: Design::default() };
    let (free, fillers) = ([(2, 2), (3, 3)], [(0, 0), (1, 1), (0, 1)]);
    let name = "an expansion is about to end, and the next one is due";
    Setup { resize_at: 0.4, ..filled(name, shape, free, &fillers, &[]) }
}

/// Whether an update takes several steps: it writes the pair elsewhere.
fn is_moved(setup: &Setup) -> bool {
    Shape::decode(&setup.engine_params).is_ok_and(|shape| !shape.design.in_place_update)
}

/// A movement in the bottom level, which an expansion is emptying meanwhile.
fn movements_beside_resizes() -> Vec<Directed> {
    let setup = moved_into_interim();
    let one = |key, action| Op::One(key, action);
    let expander = vec![one(1, Action::Insert(3)), Op::Settle];
    let mover = vec![one(0, Action::Insert(2))];
    vec![shared::<TableSubject>(&setup, vec![mover, expander], 2)]
}
