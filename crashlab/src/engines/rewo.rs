//! Rewo-Hash before the lab, with one or two buckets in a data table: its boundaries, and histories around
//! them.
//!
//! Choices are those of a key among 16 buckets. Among 2^n the first one is the low n bits of h1; its highest bit
//! tells the data table, and the low bits of h2 the other bucket there.

use crate::arena::{Arena, Effort, arenas_of};
use crate::boundaries::{directed, helped, shared};
use crate::bucketwise::{Setups, resizing, updating};
use crate::deep::{fillers as stored, looking_up_fillers};
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
use engines::rewo::{Cached, Design, Shape, engine_params};
use index::hash::Hasher;

/// Both choices are the second bucket of the first data table, or both are the first one.
const SAME: Choices = (1, 1);
const OTHER: Choices = (0, 0);
/// As [`SAME`] and [`OTHER`] until the table doubles, whose new data table then owns them.
const SAME_MOVES: Choices = (3, 1);
const OTHER_MOVES: Choices = (2, 0);

/// Look-ups of a key that is not cached until surely one of them has dropped another key's entry for it.
const LOOKS_TO_DROP: usize = 9;

/// Values that are written elsewhere in their bucket, not over what they replace.
const MOVED: Design = Design { evictions: 2, in_place_update: false, sidecar_prints: true };

fn hash_of_long(key: u64) -> u64 {
    Hasher::new(HASH_SEED).second_bytes(&lengthened::<LongKey>(key))
}

/// Buckets of so many slots, two of them at first.
fn slots(slots: u32) -> Shape {
    Shape { slots, initial_log2: 1, cached: Cached::Nothing, design: Design::default() }
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
    Setup { engine: Engine::Rewo, engine_params: engine_params(&shape), ..setup }
}

/// The setups of a table of words on Rewo-Hash.
pub fn tables() -> Vec<Setup> {
    let four_buckets = |number| Shape { initial_log2: 2, ..slots(number) };
    let moved = |number| Shape { design: MOVED, ..slots(number) };
    // Of buckets with four slots three are in the line of the meta word.
    let into_another_line: Vec<Choices> = [vec![(0, 1)], vec![OTHER; 3], vec![SAME; 3]].concat();
    let no_room = filled("evictions do not help", slots(1), [OTHER; 2], &[OTHER, SAME], &[]);
    vec![
        filled("an empty table on rewo", slots(4), [(0, 1); 2], &[], &[]),
        filled(
            "the last free slot is in another line on rewo",
            slots(4),
            [SAME, SAME_MOVES],
            &[SAME; 3],
            &[],
        ),
        filled("an item can be evicted", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)], &[]),
        filled(
            "an item can be evicted into another line",
            slots(4),
            [OTHER, OTHER_MOVES],
            &into_another_line,
            &[],
        ),
        filled(
            "two items have to be evicted",
            four_buckets(1),
            [OTHER, (4, 0)],
            &[(0, 1), (1, 2)],
            &[],
        ),
        Setup { resize_at: 2.0, is_tight: true, ..no_room },
        filled("updates into another line", moved(4), [SAME; 2], &[SAME; 2], &[]),
        filled("an update evicts an item", moved(2), [SAME; 2], &[(1, 0)], &[]),
        filled("an update of a full bucket", moved(1), [SAME, SAME_MOVES], &[], &[]),
        filled(
            "fingerprints in the meta word alone",
            Shape { design: Design { sidecar_prints: false, ..MOVED }, ..slots(2) },
            [SAME; 2],
            &[(1, 0)],
            &[],
        ),
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion extends",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
                &[],
            )
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an extension is under way",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER, OTHER_MOVES],
                &[],
            )
        },
        Setup {
            resize_at: 0.6,
            ..filled(
                "an extension of four buckets is under way",
                four_buckets(1),
                [(4, 0), (7, 1)],
                &[(5, 1), (6, 2), (3, 3)],
                &[],
            )
        },
        Setup {
            resize_at: 0.8,
            ..filled(
                "an extension cannot end before the next",
                slots(1),
                [(6, 0), (10, 0)],
                &[OTHER_MOVES, SAME],
                &[],
            )
        },
        can_shrink(),
        shrinks_in_vain(),
        two_buckets(),
    ]
}

/// The setups of a table of words with a cached table of one bucket, or as large as the table itself.
pub fn cached_tables() -> Vec<Setup> {
    let cached = |smaller_log2, shape| Shape { cached: Cached::SmallerLog2(smaller_log2), ..shape };
    let moved = Shape { design: MOVED, ..slots(4) };
    // The cached bucket has seven entries.
    let eight = [SAME, OTHER, SAME, OTHER, SAME, OTHER, SAME, OTHER];
    let seven = &eight[..7];
    vec![
        filled("everything is cached", cached(0, slots(4)), [(0, 1); 2], &[SAME], &[]),
        filled(
            "one entry is left in the cache",
            cached(2, slots(8)),
            [(0, 1); 2],
            &seven[..6],
            &[],
        ),
        filled("the cache is full", cached(2, slots(8)), [(0, 1); 2], seven, &[]),
        filled("the cache is full no longer", cached(2, slots(8)), [(0, 1); 2], seven, &[2]),
        // Partial-loaded, until a refill finds that there is room for all.
        filled("the cache had overflowed", cached(2, slots(8)), [(0, 1); 2], &eight, &[2, 4]),
        filled("updates elsewhere are cached", cached(0, moved), [SAME; 2], &[SAME], &[]),
        filled(
            "what is evicted stays in the cache",
            cached(0, slots(1)),
            [OTHER, OTHER_MOVES],
            &[(0, 1)],
            &[],
        ),
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion extends a cached table",
                cached(0, slots(2)),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
                &[],
            )
        },
    ]
}

/// Tables with a cached table that a helper refills. The first free key may be in the table, and not cached.
pub fn refilled_tables() -> Vec<Setup> {
    let names = [
        ["everything is cached", "a helper refills a cached table"],
        ["one entry is left in the cache", "a helper refills a cache for one entry more"],
        ["the cache is full", "a helper refills a cache that is too small"],
        ["the cache is full no longer", "a helper refills a cache that had been too small"],
        ["the cache had overflowed", "a helper refills a cache that had overflowed"],
        [
            "the next insertion extends a cached table",
            "a helper refills a cached table beside an extension",
        ],
    ];
    with_helper(cached_tables(), &names)
}

/// A cached table without an entry for the first free key, which has a value.
fn uncached(name: &'static str) -> Option<Setup> {
    let mut setup = cached_tables().into_iter().find(|setup| setup.name == name)?;
    setup.name = "a key that is not cached";
    setup.before.push(Op::One(0, Action::Insert(9)));
    Some(setup)
}

/// Look-ups that cache what they find, beside changes of the same key: what is found later is not older. And what a
/// refill must be told beside it.
fn fills() -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let looks = || vec![one(Action::Get), one(Action::Get)];
    let changes = [
        vec![one(Action::Update(2))],
        vec![one(Action::Remove)],
        vec![one(Action::Remove), one(Action::Insert(3))],
        vec![one(Action::Upsert(2)), one(Action::Upsert(3))],
    ];
    let mut all = Vec::new();
    if let Some(setup) = uncached("the cache is full") {
        let moved = Shape { design: MOVED, cached: Cached::SmallerLog2(2), ..slots(8) };
        let moved = Setup {
            name: "a key that is not cached, updated elsewhere",
            engine_params: engine_params(&moved),
            ..setup.clone()
        };
        for setup in [setup, moved] {
            for change in &changes {
                let programs = vec![looks(), change.clone()];
                all.push(shared::<TableSubject>(&setup, programs.clone(), 2));
                all.push(Directed::new::<TableSubject>(
                    setup.clone(),
                    every_access(programs, 0, 1),
                ));
            }
        }
    }
    let inserting = vec![
        one(Action::Insert(2)),
        Op::One(1, Action::Insert(3)),
        one(Action::Get),
        Op::One(1, Action::Get),
    ];
    for setup in refilled_tables() {
        all.push(shared::<TableSubject>(&setup, vec![vec![Op::Help], inserting.clone()], 2));
    }
    all
}

/// An insertion that overflows the cached table, and look-ups of its key, one of which drops another entry: that key is
/// not cached any more, but present.
fn drops() -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let inserted = [one(0, Action::Insert(2))].into_iter();
    let dropping: Vec<Op> = inserted.chain(vec![one(0, Action::Get); LOOKS_TO_DROP]).collect();
    let beside = |setup: &Setup| {
        let keys = stored(setup);
        let gets = keys.iter().map(|&key| one(key, Action::Get)).collect();
        let many = vec![Op::Many(keys.iter().map(|&key| (key, Action::Get)).collect())];
        [gets, many].map(|other| (setup.clone(), vec![dropping.clone(), other]))
    };
    let full = |setup: &Setup| setup.name.starts_with("the cache is full");
    let (words, long) = (cached_tables(), cached_long_tables());
    let words = words.iter().filter(|setup| full(setup)).flat_map(beside);
    let words = words.map(|(setup, program)| shared::<TableSubject>(&setup, program, 1).always());
    let long = long.iter().filter(|setup| full(setup)).flat_map(beside);
    words
        .chain(long.map(|(setup, program)| shared::<LongTableSubject>(&setup, program, 1)))
        .collect()
}

/// The setups of a table of long pairs with a cached table of one bucket, which has two entries.
pub fn cached_long_tables() -> Vec<Setup> {
    let shape = Shape { cached: Cached::SmallerLog2(2), ..slots(4) };
    let long = |name, fillers: &[Choices]| {
        filled_with(hash_of_long, name, shape, [SAME, OTHER], fillers, &[])
    };
    vec![
        long("one long entry is left in the cache", &[SAME]),
        long("the cache is full of long entries", &[SAME, OTHER]),
    ]
}

/// An empty table, and keys that share no bucket: a batch changes both before it fences.
pub fn two_buckets() -> Setup {
    filled("keys in buckets of their own on rewo", slots(4), [OTHER, SAME], &[], &[])
}

/// A table that has doubled and is nearly empty again, with items in all data tables.
fn can_shrink() -> Setup {
    shrunk_to_be(hash_of_word, "a table on rewo that can shrink")
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

/// A table whose items find no room in half of it: two keys of one bucket each there, and buckets of
/// one slot.
fn shrinks_in_vain() -> Setup {
    let shape = Shape { initial_log2: 2, ..slots(1) };
    let mut setup = Setup {
        shrinks: true,
        ..filled("a table on rewo that grows back", shape, [(2, 2), (6, 2)], &[(1, 1), (5, 1)], &[])
    };
    setup.before.push(Op::Settle);
    setup
}

/// An insertion of the first free key evicts an item from a bucket that an insertion of the second one
/// empties of it.
fn evicted_beside_an_extension() -> Setup {
    Setup {
        resize_at: 0.6,
        ..filled(
            "an item can be evicted that has to move",
            Shape { initial_log2: 2, ..slots(1) },
            [(1, 1), (3, 3)],
            &[(5, 2)],
            &[],
        )
    }
}

/// The setups of a table with keys of two words and values of three on Rewo-Hash: of two slots the second lies
/// across two lines, the third in another line. Such a value is never overwritten in place.
pub fn long_tables() -> Vec<Setup> {
    let long = |name, shape, free, fillers: &[Choices]| {
        filled_with(hash_of_long, name, shape, free, fillers, &[])
    };
    vec![
        long("an empty table of long pairs on rewo", slots(2), [(0, 1); 2], &[]),
        long(
            "the last free slot of a long pair is across two lines",
            slots(2),
            [SAME, SAME_MOVES],
            &[SAME],
        ),
        long("updates of long pairs into another line", slots(3), [SAME; 2], &[SAME]),
        long("an update evicts a long pair", slots(2), [SAME; 2], &[(1, 0)]),
        long("an update of a full bucket of long pairs", slots(1), [SAME, SAME_MOVES], &[]),
        long("a long pair can be evicted", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)]),
        Setup {
            resize_at: 0.8,
            ..long(
                "the next insertion of a long pair extends",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
            )
        },
        shrunk_to_be(hash_of_long, "a table of long pairs on rewo that can shrink"),
    ]
}

/// The setups of a store on Rewo-Hash.
pub fn stores() -> Vec<Setup> {
    let filled = |name, shape, free, fillers: &[Choices]| {
        let setup = filled_with(hash_of_entry, name, shape, free, fillers, &[]);
        with_items(setup, SEVERAL_CLASSES)
    };
    let collide =
        |name, fillers| Setup { hash_bits: 0, ..filled(name, slots(4), [(0, 1); 2], fillers) };
    vec![
        filled("an empty store on rewo", slots(4), [(0, 1); 2], &[]),
        filled(
            "an update of a store on rewo evicts an entry",
            Shape { design: MOVED, ..slots(2) },
            [SAME; 2],
            &[(1, 0)],
        ),
        filled("an entry can be evicted", slots(1), [OTHER, OTHER_MOVES], &[(0, 1)]),
        Setup {
            resize_at: 0.8,
            ..filled(
                "the next insertion extends a store",
                slots(2),
                [OTHER_MOVES, SAME_MOVES],
                &[SAME_MOVES, SAME, OTHER],
            )
        },
        with_items(shrunk_to_be(hash_of_entry, "a store on rewo that can shrink"), SEVERAL_CLASSES),
        collide("two keys of one hash on rewo", &[]),
        collide("four keys of one hash on rewo", &[(0, 1); 2]),
    ]
}

/// Tables on Rewo-Hash.
pub fn synced_tables() -> Vec<Setup> {
    let moved = [
        "an update evicts an item",
        "an update of a synced table evicts an item",
        "an update of a synced table in a file evicts an item",
    ];
    let extends = [
        "the next insertion extends",
        "the next insertion extends a synced table",
        "the next insertion extends a synced table in a file",
    ];
    synced(tables(), [moved, extends])
}

/// Tables on Rewo-Hash.
pub fn helped_tables() -> Vec<Setup> {
    let names = [
        ["the next insertion extends", "the next insertion extends a helped table"],
        ["an extension is under way", "a helper empties buckets for an extension"],
        ["a table on rewo that can shrink", "a helped table on rewo that can shrink"],
    ];
    with_synced(with_helper(tables(), &names), "a helped table on rewo that is synced in a file")
}

/// Tables on Rewo-Hash that two threads recover.
pub fn recovered_tables() -> Vec<Setup> {
    let names = [
        ["an item can be evicted", "two threads recover an item that was evicted"],
        ["an extension of four buckets is under way", "two threads recover an extension"],
        ["a table on rewo that can shrink", "two threads recover a table on rewo that can shrink"],
        ["a table on rewo that grows back", "two threads recover a table on rewo that grows back"],
    ];
    recovered(tables(), &names)
}

/// How much a short run does.
pub(crate) const EFFORT: Effort = Effort::OF_ENGINE;

/// A setup of [`doubling`](crate::doubling).
fn small(small: &Small) -> Setup {
    let shape = Shape { initial_log2: small.initial_log2, ..slots(small.slots) };
    filled(small.name, shape, small.free, small.fillers, &[])
}

/// With room to spare, with a cached table and without.
fn roomy_tables() -> Vec<Setup> {
    let plain = doubling::roomy(small);
    let shape = Shape { cached: Cached::SmallerLog2(0), ..slots(4) };
    let cached = Setup {
        name: "an extension of a cached table is due with room to spare",
        engine_params: engine_params(&shape),
        ..plain.clone()
    };
    let moving = with_first_key("a key is to move with room to spare", &plain);
    let moving_cached = with_first_key("a cached key is to move with room to spare", &cached);
    vec![plain, cached, moving, moving_cached]
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
        is_moved,
    }
}

/// Where random histories of it begin.
pub(crate) fn arenas() -> Vec<Arena> {
    setups()
        .arenas()
        .chain(arenas_of::<TableSubject>(cached_tables()))
        .chain(arenas_of::<LongTableSubject>(cached_long_tables()))
        .chain(arenas_of::<TableSubject>(refilled_tables()))
        .collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = setups().histories();
    all.extend(evictions_beside_extensions());
    let (cached, cached_long) = (cached_tables(), cached_long_tables());
    all.extend(directed::<TableSubject>(&cached));
    all.extend(directed::<LongTableSubject>(&cached_long));
    all.extend(resizing::<TableSubject>(&cached));
    all.extend(cached.iter().flat_map(updating::<TableSubject>));
    all.extend(cached_long.iter().flat_map(updating::<LongTableSubject>));
    all.extend(looking_up_fillers::<TableSubject>(&cached, 4));
    all.extend(looking_up_fillers::<LongTableSubject>(&cached_long, 4));
    all.extend(helped::<TableSubject>(&refilled_tables()));
    all.extend(fills());
    all.extend(doubling::histories(small));
    all.extend(drops());
    all
}

/// Whether an update takes several steps: it writes the pair elsewhere.
fn is_moved(setup: &Setup) -> bool {
    Shape::decode(&setup.engine_params).is_ok_and(|shape| !shape.design.in_place_update)
}

/// An eviction from a bucket that an extension is emptying meanwhile.
fn evictions_beside_extensions() -> Vec<Directed> {
    let setup = evicted_beside_an_extension();
    let one = |key, action| Op::One(key, action);
    let extender = vec![one(1, Action::Insert(3)), Op::Settle];
    vec![shared::<TableSubject>(&setup, vec![vec![one(0, Action::Insert(2))], extender], 2)]
}
