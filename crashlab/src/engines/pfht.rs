//! PFHT before the lab, with one or two buckets in a data table and a node or none in its stash: its boundaries, and
//! histories around them.
//!
//! Choices are those of a key among 16 buckets. Among 2^n the first one is the low n bits of h1; its highest bit
//! tells the data table, and the low bits of h2 the other bucket there.

use crate::arena::{Arena, Effort};
use crate::boundaries::shared;
use crate::bucketwise::Setups;
use crate::doubling::{self, Small};
use crate::history::{Action, Op};
use crate::setups::choices::{self, Choices, Hash, hash_of_word};
use crate::setups::{
    SEVERAL_CLASSES, hash_of_entry, recovered, synced, with_first_key, with_helper, with_items,
    with_synced,
};
use crate::subject::{HASH_SEED, LongKey, LongTableSubject, Setup, TableSubject, lengthened};
use crate::trial::{Directed, every_access};
use engines::Engine;
use engines::pfht::{Design, Shape, engine_params};
use index::hash::{Hasher, h1};

/// Both choices are the second bucket of the first data table, or both are the first one.
const SAME: Choices = (1, 1);
const OTHER: Choices = (0, 0);
/// As [`SAME`] and [`OTHER`] until the table doubles, whose new data table then owns them.
const SAME_MOVES: Choices = (3, 1);
const OTHER_MOVES: Choices = (2, 0);

fn hash_of_long(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_bytes(&lengthened::<LongKey>(key))
}

/// Buckets of so many slots, two of them at first, and no stash but for what no slot takes.
fn slots(slots: u32) -> Shape {
    Shape { slots, initial_log2: 1, stash_percent: 0, design: Design::default() }
}

/// The same with a stash of one node.
fn stashing(number: u32) -> Shape {
    Shape { stash_percent: Shape::STASH_PERCENT_MAX, ..slots(number) }
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
    Setup { engine: Engine::Pfht, engine_params: engine_params(&shape), ..setup }
}

/// The setups of a table of words on PFHT.
pub fn tables() -> Vec<Setup> {
    let four_buckets = |number| Shape { initial_log2: 2, ..slots(number) };
    let paper = Shape { design: Design::PAPER, ..stashing(1) };
    // Of buckets with five slots the last one is in the second line.
    let into_another_line: Vec<Choices> = [vec![(0, 1)], vec![OTHER; 4], vec![SAME; 4]].concat();
    let no_room = filled("no displacement helps", slots(1), [OTHER; 2], &[OTHER, SAME], &[]);
    let mut zero = filled("key 0 on pfht", slots(2), [SAME, SAME], &[OTHER], &[]);
    zero.keys[0] = 0;
    let mut zero_moves = Setup {
        resize_at: 0.8,
        ..filled(
            "an extension beside key 0",
            slots(2),
            [SAME, SAME_MOVES],
            &[SAME_MOVES, SAME, OTHER],
            &[],
        )
    };
    zero_moves.keys[0] = 0;
    vec![
        filled("an empty table on pfht", slots(4), [(0, 1); 2], &[], &[]),
        filled(
            "the last free slot is in the second line",
            slots(5),
            [SAME, SAME_MOVES],
            &[SAME; 4],
            &[],
        ),
        filled("an item can be displaced", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)], &[]),
        filled(
            "an item can be displaced into the second line",
            slots(5),
            [OTHER, OTHER_MOVES],
            &into_another_line,
            &[],
        ),
        zero,
        zero_moves,
        Setup {
            resize_at: 2.0,
            is_tight: true,
            ..filled("the stash has room", stashing(1), [OTHER, OTHER_MOVES], &[OTHER, SAME], &[])
        },
        Setup {
            resize_at: 2.0,
            is_tight: true,
            ..filled(
                "the stash has a key of the bucket",
                stashing(8),
                [OTHER, OTHER_MOVES],
                &[OTHER; 9],
                &[],
            )
        },
        Setup {
            resize_at: 2.0,
            is_tight: true,
            ..filled("the stash is full", stashing(1), [OTHER; 2], &[OTHER, SAME, OTHER], &[])
        },
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        Setup {
            resize_at: 2.0,
            is_tight: true,
            ..filled("as in the paper", paper, [OTHER, OTHER_MOVES], &[(0, 1), SAME], &[])
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion extends on pfht",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
                &[],
            )
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an extension is under way on pfht",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER, OTHER_MOVES],
                &[],
            )
        },
        Setup {
            resize_at: 0.9,
            ..filled(
                "an extension empties the stash",
                stashing(1),
                [OTHER_MOVES, SAME],
                &[OTHER, SAME, OTHER_MOVES],
                &[],
            )
        },
        Setup {
            resize_at: 0.9,
            ..filled(
                "an extension leaves the stash as it is",
                stashing(1),
                [OTHER_MOVES, SAME],
                &[OTHER, SAME, OTHER],
                &[],
            )
        },
        Setup {
            resize_at: 0.9,
            ..filled(
                "an extension stashes again",
                stashing(1),
                [OTHER_MOVES, SAME_MOVES],
                &[OTHER_MOVES, SAME, OTHER_MOVES],
                &[],
            )
        },
        Setup {
            resize_at: 0.6,
            ..filled(
                "an extension of four buckets is under way on pfht",
                four_buckets(1),
                [(4, 0), (7, 1)],
                &[(5, 1), (6, 2), (3, 3)],
                &[],
            )
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an extension on pfht cannot end before the next",
                slots(1),
                [(6, 0), (10, 0)],
                &[OTHER_MOVES, SAME],
                &[],
            )
        },
        can_shrink(),
        shrinks_in_vain(),
        shrinks_into_the_stash(),
        two_buckets(),
    ]
}

/// An empty table, and keys that share no bucket: a batch changes both before it fences.
pub fn two_buckets() -> Setup {
    filled("keys in buckets of their own on pfht", slots(4), [OTHER, SAME], &[], &[])
}

/// A table that has doubled and is nearly empty again, with items in all data tables.
fn can_shrink() -> Setup {
    shrunk_to_be(hash_of_word, "a table on pfht that can shrink")
}

fn shrunk_to_be(hash: Hash, name: &'static str) -> Setup {
    let fillers = [SAME_MOVES, SAME, OTHER, OTHER_MOVES, SAME];
    let mut setup = Setup {
        resize_at: 0.8,
        shrinks: true,
        ..filled_with(hash, name, slots(2), [SAME_MOVES, OTHER_MOVES], &fillers, &[0, 2, 4])
    };
    setup.before.push(Op::Settle);
    setup
}

/// Two keys of one bucket each in half of the table, and buckets of one slot.
fn halved_twice(name: &'static str, shape: Shape) -> Setup {
    let shape = Shape { initial_log2: 2, ..shape };
    let mut setup =
        Setup { shrinks: true, ..filled(name, shape, [(2, 2), (6, 2)], &[(1, 1), (5, 1)], &[]) };
    setup.before.push(Op::Settle);
    setup
}

/// A table whose items find no room in half of it.
fn shrinks_in_vain() -> Setup {
    halved_twice("a table on pfht that grows back", slots(1))
}

/// A table of which half has room enough with the stash.
fn shrinks_into_the_stash() -> Setup {
    halved_twice("a table on pfht that shrinks into its stash", stashing(1))
}

/// An insertion of the first free key displaces an item from a bucket that an insertion of the second one
/// empties of it.
fn displaced_beside_an_extension() -> Setup {
    Setup {
        resize_at: 0.6,
        ..filled(
            "an item can be displaced that has to move",
            Shape { initial_log2: 2, ..slots(1) },
            [(1, 1), (3, 3)],
            &[(5, 2)],
            &[],
        )
    }
}

/// The setups of a table with keys of two words and values of three on PFHT: of three slots the second lies
/// across two lines, the third in another line than the bitmap. Such a value is never overwritten in place.
pub fn long_tables() -> Vec<Setup> {
    let long = |name, shape, free, fillers: &[Choices]| {
        filled_with(hash_of_long, name, shape, free, fillers, &[])
    };
    let two_nodes = |name, free, fillers: &[Choices]| Setup {
        resize_at: 2.0,
        ..long(name, slots(1), free, fillers)
    };
    vec![
        long("an empty table of long pairs on pfht", slots(2), [(0, 1); 2], &[]),
        long(
            "the last free slot of a long pair on pfht is across two lines",
            slots(2),
            [SAME, SAME_MOVES],
            &[SAME],
        ),
        long("updates of long pairs on pfht into another line", slots(3), [SAME; 2], &[SAME]),
        long("an update of a full bucket of long pairs on pfht", slots(1), [SAME, SAME_MOVES], &[]),
        long("a long pair can be displaced", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)]),
        long(
            "a long pair can be displaced from across two lines",
            slots(2),
            [OTHER, OTHER_MOVES],
            &[OTHER, (0, 1), SAME],
        ),
        two_nodes("the stash has room for a long pair", [OTHER, OTHER_MOVES], &[OTHER, SAME]),
        Setup {
            resize_at: 0.8,
            ..long(
                "the next insertion of a long pair extends on pfht",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
            )
        },
        shrunk_to_be(hash_of_long, "a table of long pairs on pfht that can shrink"),
    ]
}

/// The setups of a store on PFHT.
pub fn stores() -> Vec<Setup> {
    let filled = |name, shape, free, fillers: &[Choices]| {
        let setup = filled_with(hash_of_entry, name, shape, free, fillers, &[]);
        with_items(setup, SEVERAL_CLASSES)
    };
    let collide = |name, fillers: &[Choices]| Setup {
        hash_bits: 0,
        ..filled(name, slots(4), [(0, 1); 2], fillers)
    };
    vec![
        filled("an empty store on pfht", slots(4), [(0, 1); 2], &[]),
        filled("an entry can be displaced", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)]),
        Setup {
            resize_at: 2.0,
            is_tight: true,
            ..filled("an entry can be stashed", stashing(1), [OTHER, OTHER_MOVES], &[OTHER, SAME])
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion extends a store on pfht",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
            )
        },
        with_items(shrunk_to_be(hash_of_entry, "a store on pfht that can shrink"), SEVERAL_CLASSES),
        collide("two keys of one hash on pfht", &[]),
        collide("four keys of one hash on pfht", &[(0, 1); 2]),
    ]
}

/// Tables on PFHT.
pub fn synced_tables() -> Vec<Setup> {
    let stashes = [
        "the stash has room",
        "the stash of a synced table has room",
        "the stash of a synced table in a file has room",
    ];
    let extends = [
        "the next insertion extends on pfht",
        "the next insertion extends a synced table on pfht",
        "the next insertion extends a synced table on pfht in a file",
    ];
    synced(tables(), [stashes, extends])
}

/// Tables on PFHT.
pub fn helped_tables() -> Vec<Setup> {
    let names = [
        ["the next insertion extends on pfht", "the next insertion extends a helped table on pfht"],
        ["an extension empties the stash", "a helper empties the stash for an extension"],
        ["a table on pfht that can shrink", "a helped table on pfht that can shrink"],
    ];
    with_synced(with_helper(tables(), &names), "a helped table on pfht that is synced in a file")
}

/// Tables on PFHT that two threads recover.
pub fn recovered_tables() -> Vec<Setup> {
    let names = [
        ["an item can be displaced", "two threads recover an item that was displaced"],
        ["an extension empties the stash", "two threads recover an extension of a stash"],
        [
            "an extension of four buckets is under way on pfht",
            "two threads recover an extension on pfht",
        ],
        ["a table on pfht that can shrink", "two threads recover a table on pfht that can shrink"],
        ["a table on pfht that grows back", "two threads recover a table on pfht that grows back"],
    ];
    recovered(tables(), &names)
}

/// How much a short run does.
pub(crate) const EFFORT: Effort = Effort { directed_one_in: 20, ..Effort::OF_ENGINE };

/// A setup of [`doubling`](crate::doubling).
fn small(small: &Small) -> Setup {
    let shape = Shape { initial_log2: small.initial_log2, ..slots(small.slots) };
    filled(small.name, shape, small.free, small.fillers, &[])
}

/// With room to spare.
fn roomy_tables() -> Vec<Setup> {
    let plain = doubling::roomy(small);
    vec![with_first_key("a key is to move with room to spare", &plain), plain]
}

/// The setups of words, long pairs and stores.
fn setups() -> Setups {
    Setups {
        words: tables(),
        long: long_tables(),
        two_buckets: two_buckets(),
        synced: synced_tables(),
        helped: helped_tables(),
        recovered: recovered_tables(),
        stores: stores(),
        roomy: roomy_tables(),
        is_moved: |_| false,
    }
}

/// Where random histories of it begin.
pub(crate) fn arenas() -> Vec<Arena> {
    setups().arenas().collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = setups().histories();
    all.push(nodes_freed_beside_key_0());
    all.push(removals_of_what_left_the_stash().always());
    all.extend(displacements_beside_extensions());
    all.extend(updates_into_earlier_slots());
    all.extend(nodes_used_again());
    all.extend(displacements_beside_look_ups());
    all.extend(doubling::histories(small));
    all
}

/// A displacement from a bucket that an extension is emptying meanwhile.
fn displacements_beside_extensions() -> Vec<Directed> {
    let setup = displaced_beside_an_extension();
    let one = |key, action| Op::One(key, action);
    let extender = vec![one(1, Action::Insert(3)), Op::Settle];
    vec![shared::<TableSubject>(&setup, vec![vec![one(0, Action::Insert(2))], extender], 2)]
}

/// A long pair is updated into a slot before its own, while a look-up goes from slot to slot.
fn updates_into_earlier_slots() -> Vec<Directed> {
    let name = "an update of a long pair on pfht into a slot before its own";
    let look = |name, shape| {
        let setup =
            filled_with(hash_of_long, name, shape, [OTHER, SAME_MOVES], &[SAME, SAME], &[0]);
        // The second filler.
        let one = |action| vec![Op::One(3, action)];
        let program = vec![one(Action::Update(3)), one(Action::Get)];
        Directed::new::<LongTableSubject>(setup, every_access(program, 0, 3))
    };
    let paper = Shape { design: Design::PAPER, ..slots(3) };
    vec![look(name, slots(3)), look("such an update as in the paper", paper)]
}

/// The one node of the stash is given back and taken for another bucket, while somebody reads it.
fn nodes_used_again() -> Vec<Directed> {
    let setup = Setup {
        resize_at: 2.0,
        is_tight: true,
        ..filled(
            "a node of the stash can be used again",
            stashing(1),
            [SAME, SAME_MOVES],
            &[OTHER, SAME, OTHER],
            &[],
        )
    };
    let one = |key, action| vec![Op::One(key, action)];
    // The last filler is in the stash.
    let program = vec![one(4, Action::Get), one(4, Action::Remove), one(0, Action::Insert(3))];
    let look = every_access(program, 0, 2);
    vec![Directed::new::<TableSubject>(setup, look)]
}

/// The node of another key of its bucket becomes free, whose first word is then 0, while somebody looks for the key 0.
fn nodes_freed_beside_key_0() -> Directed {
    let is_second = h1(hash_of_word(0)) & 1 != 0;
    let (its_own, other) = if is_second { (SAME, OTHER) } else { (OTHER, SAME) };
    let mut setup = Setup {
        resize_at: 2.0,
        is_tight: true,
        ..filled(
            "a node of the stash is freed beside key 0",
            stashing(1),
            [its_own, its_own],
            &[its_own, other, its_own],
            &[],
        )
    };
    setup.keys[0] = 0;
    let one = |key, action| vec![Op::One(key, action)];
    // The last filler is in the stash.
    let program = vec![one(0, Action::Get), one(4, Action::Remove)];
    Directed::new::<TableSubject>(setup, every_access(program, 0, 2))
}

/// An extension makes room in the bucket to which a node belongs, and moves the node's item there, where somebody
/// removes it: the node must not bring it back.
fn removals_of_what_left_the_stash() -> Directed {
    let setup = Setup {
        resize_at: 0.9,
        ..filled(
            "an extension moves an item out of the stash into the bucket beside it",
            stashing(1),
            [SAME_MOVES, SAME],
            &[OTHER_MOVES, SAME, OTHER],
            &[],
        )
    };
    let one = |key, action| Op::One(key, action);
    // The last filler is in the stash.
    let program = vec![vec![one(0, Action::Insert(3)), Op::Settle], vec![one(4, Action::Remove)]];
    Directed::new::<TableSubject>(setup, every_access(program, 0, 2))
}

/// An item is displaced, and its slot filled again, while somebody reads it there.
fn displacements_beside_look_ups() -> Vec<Directed> {
    let one = |key, action| vec![Op::One(key, action)];
    // As in the paper: by its fingerprint it would be found in one step, before it goes.
    let paper = Shape { design: Design::PAPER, ..slots(1) };
    let name = "an item can be displaced as in the paper";
    let setup = filled(name, paper, [OTHER, OTHER_MOVES], &[(0, 1)], &[]);
    let program = vec![one(2, Action::Get), one(0, Action::Insert(3))];
    vec![Directed::new::<TableSubject>(setup, every_access(program, 0, 2))]
}
