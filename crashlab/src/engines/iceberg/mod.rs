//! IcebergHT before the lab: its boundaries, and histories around them.

pub(crate) mod guests;
mod reopened;
mod shrinks;
pub(crate) mod successions;

use crate::arena::{Arena, Effort, arenas_of};
use crate::boundaries::{
    alone_in, directed, helped, interleaved, repeating, reusing, shared, shared_after,
    store_histories, syncing, writers_of_the_heap,
};
use crate::bucketwise::growing_meanwhile;
use crate::deep::{batches_beside, fillers as stored, late, looking_up_fillers, one};
use crate::history::{Action, Key, Op};
use crate::interleave::Points;
use crate::setups::{
    self, FILLING, recovered, synced, unflushed, with_first_key, with_helper, with_synced,
};
use crate::subject::{HASH_SEED, Setup, StoreSubject, TableSubject};
use crate::trial::{Directed, Look};
use engines::Engine;
use engines::iceberg::hash::{h0, level1_mark};
use engines::iceberg::{Shape, engine_params};
use index::hash::{Hasher, h1, h2};

/// Blocks as small as they can be.
const SHAPE: Shape =
    Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 0, initial_nodes_log2: 0 };

/// The fingerprint and preferred line that free keys share. No filler has this fingerprint.
const MARK: (u8, u64) = (0x2a, 3);

fn of_shape(shape: &Shape, setup: Setup) -> Setup {
    Setup { engine: Engine::Iceberg, engine_params: engine_params(shape), ..setup }
}

/// Two to four keys that meet everywhere: same level-1 block, line and fingerprint, same level-2
/// blocks, also after two doublings. All of them move when a table of one block doubles.
fn colliding(count: usize) -> Vec<u64> {
    let hasher = Hasher::new(HASH_SEED);
    let meets = |&key: &u64| {
        let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
        level1_mark(first) == MARK
            && h0(first) & 3 == 1
            && h1(second) & 3 == 1
            && h2(second) & 3 == 1
    };
    (1..).filter(meets).take(count).collect()
}

/// Two keys of one fingerprint that go separate ways: of one level-1 block before a doubling, of two
/// after it, and with different blocks of level 2 for each choice.
fn parting() -> Vec<u64> {
    let hasher = Hasher::new(HASH_SEED);
    let find = |home: u64, choices: [u64; 2]| {
        let fits = |&key: &u64| {
            let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
            level1_mark(first) == MARK
                && h0(first) & 3 == home
                && [h1(second) & 3, h2(second) & 3] == choices
        };
        (1..).find(fits).unwrap_or(0)
    };
    vec![find(1, [0, 1]), find(3, [1, 2])]
}

/// Fillers that move when the table doubles; the others stay, so that a resize is short.
const FILLERS_THAT_MOVE: usize = 2;

/// Keys to fill a table with that has `1 << log2` blocks, spread evenly over them.
fn fillers(count: usize, log2: u32) -> Vec<u64> {
    let hasher = Hasher::new(HASH_SEED);
    let mut candidates = 1u64 << 20..;
    let mut next = |block: u64, moves: bool| {
        let fits = |&key: &u64| {
            let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
            let bit = |hash: u64| hash >> log2 & 1 == u64::from(moves);
            level1_mark(first).0 != MARK.0
                && h0(first) & ((1 << log2) - 1) == block
                && bit(h0(first))
                && bit(h1(second))
                && bit(h2(second))
        };
        candidates.find(fits).unwrap_or(0)
    };
    (0..count)
        .map(|index| next(index as u64 & ((1 << log2) - 1), index + FILLERS_THAT_MOVE >= count))
        .collect()
}

/// A setup with these free keys and so many others stored already.
fn filled(name: &'static str, free: Vec<u64>, count: usize) -> Setup {
    filled_blocks(name, free, count, 0)
}

fn filled_blocks(name: &'static str, free: Vec<u64>, count: usize, log2: u32) -> Setup {
    let free_keys = free.len();
    let keys: Vec<u64> = free.into_iter().chain(fillers(count, log2)).collect();
    let stores = (free_keys..keys.len()).map(|key| Op::One(key as Key, Action::Insert(FILLING)));
    Setup {
        name,
        free_keys,
        before: stores.collect(),
        keys,
        ..of_shape(&Shape { initial_log2: log2, ..SHAPE }, Setup::default())
    }
}

/// The setups of a table of words on IcebergHT.
pub fn tables() -> Vec<Setup> {
    let two = || colliding(2);
    let mut doubling_with_level_3 = Setup {
        resize_at: 1.0,
        ..filled("a table that doubles with keys in level 3", vec![0, colliding(1)[0]], 34)
    };
    doubling_with_level_3.before.insert(0, Op::One(0, Action::Insert(FILLING)));
    let parting_in_level_2 = filled_blocks("keys with a choice in level 2", parting(), 64, 1);
    vec![
        filled("an empty table", two(), 0),
        filled("key 0", vec![0, colliding(1)[0]], 2),
        filled("the last free slot of a block", two(), 31),
        filled("level 1 is full", two(), 32),
        filled("one free slot in level 2", two(), 35),
        filled("level 2 is full", two(), 36),
        filled("level 3 is full", two(), 37),
        Setup { resize_at: 0.85, ..filled("the next insertion doubles the table", two(), 30) },
        Setup {
            resize_at: 0.85,
            ..filled_blocks("two blocks of each level are to be moved", two(), 62, 1)
        },
        Setup { resize_at: 0.94, ..filled("a table that doubles with keys in level 2", two(), 33) },
        doubling_with_level_3,
        Setup {
            name: "keys that part when the table doubles",
            resize_at: 0.9,
            limit_bytes: 16 << 10,
            ..parting_in_level_2.clone()
        },
        parting_in_level_2,
        moving_with_level_2(),
    ]
}

/// Setups of blocks of their real size: 64 slots in level 1, 8 in level 2.
pub fn real_blocks() -> Vec<Setup> {
    let real = |name, count, resize_at| Setup {
        resize_at,
        limit_bytes: 20 << 10,
        ..of_shape(
            &Shape { level_1_slots: 64, level_2_slots: 8, ..SHAPE },
            filled(name, colliding(2), count),
        )
    };
    vec![
        real("the last free slot of a real block", 63, 2.0),
        real("one free slot in a real block of level 2", 71, 2.0),
        real("the next insertion doubles a table of real blocks", 61, 0.85),
        level_2_doubles(),
    ]
}

/// Pairs in level 3 from which on level 2 doubles alone.
const OVERFLOW: usize = 64;

/// A table of four blocks in one of which the keys of all fillers belong: level 3 has so many of them
/// that with the next one level 2 doubles, and level 1 does not.
fn level_2_doubles() -> Setup {
    let hasher = Hasher::new(HASH_SEED);
    let count = 32 + 2 * 4 + OVERFLOW;
    // All have the same choices in level 2; after it has doubled, every third of them has others.
    let belongs = |&key: &u64| {
        let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
        h0(first) & 3 == 1 && h1(second) & 3 == 0 && h2(second) & 3 == 1
    };
    let free = (1u64..).filter(|key| belongs(key) && level1_mark(hasher.first_u64(*key)) == MARK);
    let fillers = (1u64 << 20..)
        .filter(|key| belongs(key) && level1_mark(hasher.first_u64(*key)).0 != MARK.0);
    let keys: Vec<u64> = free.take(2).chain(fillers.take(count)).collect();
    let stores = (2..keys.len()).map(|key| Op::One(key as Key, Action::Insert(FILLING)));
    Setup {
        name: "level 2 doubles alone",
        free_keys: 2,
        before: stores.collect(),
        keys,
        resize_at: 0.85,
        limit_bytes: 20 << 10,
        ..of_shape(&Shape { initial_log2: 2, initial_nodes_log2: 7, ..SHAPE }, Setup::default())
    }
}

/// Keys that part when the table doubles, which the second insertion from here makes it do. No
/// block is full, so that none has spilled: a flag would make look-ups look again by itself.
pub fn second_insertion_doubles() -> Setup {
    Setup {
        resize_at: 7.5 / 72.0,
        limit_bytes: 16 << 10,
        ..filled_blocks("the second insertion doubles the table", parting(), 6, 1)
    }
}

/// A table with room for many more, which the second free key makes double. The first one has another block then.
fn roomy_tables() -> Vec<Setup> {
    let free = vec![parting().swap_remove(1), going_to(0, [0, 0])];
    let plain = Setup {
        resize_at: 6.5 / 72.0,
        limit_bytes: 16 << 10,
        ..filled_blocks("a doubling is due with room to spare", free, 6, 1)
    };
    let moving = with_first_key("a key is to move with room to spare", &plain);
    vec![plain, moving, roomy_beside_a_full_block()]
}

/// The same, but the first free key finds no room in its block, which takes other ways through a change. All that is in
/// that block stays there.
fn roomy_beside_a_full_block() -> Setup {
    let hasher = Hasher::new(HASH_SEED);
    let stays = |&key: &u64| {
        let first = hasher.first_u64(key);
        h0(first) & 3 == 1 && level1_mark(first).0 != MARK.0
    };
    let free = [parting().swap_remove(1), going_to(0, [0, 0])];
    let keys = free.into_iter().chain((1 << 20..).filter(stays).take(32)).collect();
    Setup {
        name: "a doubling is due with room to spare beside a full block",
        free_keys: 2,
        before: (2..34).map(|key| Op::One(key, Action::Insert(FILLING))).collect(),
        keys,
        resize_at: 32.5 / 72.0,
        limit_bytes: 16 << 10,
        ..of_shape(&Shape { initial_log2: 1, ..SHAPE }, Setup::default())
    }
}

/// A resize that has begun, with blocks of both levels to be moved and a key in one of level 2.
pub fn moving_with_level_2() -> Setup {
    Setup {
        resize_at: 0.9,
        limit_bytes: 16 << 10,
        ..filled_blocks("blocks of both levels are to be moved", parting(), 65, 1)
    }
}

/// The keys that go to this level-1 block of two, and to these level-2 blocks of four.
fn all_going_to(home: u64, choices: [u64; 2]) -> impl Iterator<Item = u64> {
    let hasher = Hasher::new(HASH_SEED);
    (1..).filter(move |&key| {
        let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
        level1_mark(first) == MARK
            && h0(first) & 1 == home
            && [h1(second) & 3, h2(second) & 3] == choices
    })
}

/// The first of them.
fn going_to(home: u64, choices: [u64; 2]) -> u64 {
    all_going_to(home, choices).next().unwrap_or(0)
}

/// Two full blocks with a chain of several nodes each; the first free key is at the front of one, the
/// second one belongs to the other.
pub fn chains_of_two_blocks() -> Setup {
    let free = vec![going_to(0, [0, 0]), going_to(1, [0, 0])];
    let mut setup = filled_blocks("keys of two blocks in level 3", free, 78, 1);
    setup.before.push(Op::One(0, Action::Insert(FILLING)));
    setup
}

/// The first free key goes to level 2, and to another block of it when the table has doubled. The second
/// one makes it double, without the first one's block; the third one moves a block.
pub fn level_2_before_doubling() -> Setup {
    let free = vec![going_to(1, [2, 1]), going_to(0, [0, 0]), going_to(0, [1, 1])];
    let mut setup = Setup {
        resize_at: 0.885,
        limit_bytes: 16 << 10,
        ..filled_blocks("level 2 before the table doubles", free, 64, 1)
    };
    // One less in the first block.
    setup.before.remove(62);
    setup
}

/// A key in level 3, which has another level-1 block when the insertion of the second one has doubled the
/// table: its blocks of level 2 are one, which is full.
pub fn level_3_before_doubling() -> Setup {
    let hasher = Hasher::new(HASH_SEED);
    let moves = |key: &u64| h0(hasher.first_u64(*key)) & 3 == 3;
    let crowd: Vec<u64> = all_going_to(1, [0, 0]).take(4).collect();
    let key = all_going_to(1, [0, 0]).skip(4).find(moves).unwrap_or(0);
    let free = [vec![key, going_to(0, [1, 1])], crowd].concat();
    let mut setup = Setup {
        resize_at: 0.965,
        limit_bytes: 16 << 10,
        ..filled_blocks("level 3 before the table doubles", free, 64, 1)
    };
    let stores = [2, 3, 4, 5, 0].map(|key| Op::One(key, Action::Insert(FILLING)));
    setup.before.extend(stores);
    setup
}

/// A resize that has begun, with a key to be moved in the second block of level 2.
pub fn moving_level_2() -> Setup {
    let free = vec![going_to(0, [3, 3]), going_to(1, [1, 1])];
    let mut setup = Setup {
        resize_at: 0.9,
        limit_bytes: 16 << 10,
        ..filled_blocks("blocks of level 2 are to be moved", free, 64, 1)
    };
    setup.before.push(Op::One(0, Action::Insert(FILLING)));
    setup
}

/// Tables of longer pairs on IcebergHT: none.
pub fn long_tables() -> Vec<Setup> {
    // Its pairs are of two words.
    Vec::new()
}

/// The setups of a store of bytes on IcebergHT.
pub fn stores() -> Vec<Setup> {
    let lengths = |name, lengths| Setup { value_bytes: lengths, ..filled(name, colliding(2), 0) };
    let collide = |name, count| Setup {
        hash_bits: 0,
        ..of_shape(&Shape { initial_nodes_log2: 1, ..SHAPE }, filled(name, colliding(2), count))
    };
    vec![
        lengths("an empty store", &[8]),
        Setup { value_bytes: &[8], ..filled("one free slot in a segment", colliding(2), 3) },
        lengths("values of three classes", &[8, 40, 8, 100]),
        Setup {
            value_bytes: &[300, 40, 8, 600],
            limit_bytes: 20 << 10,
            ..filled("values that take segments of their own", colliding(2), 0)
        },
        collide("two keys of one hash", 0),
        collide("four keys of one hash", 2),
        Setup {
            resize_at: 0.85,
            limit_bytes: 20 << 10,
            ..filled("a store that doubles", colliding(2), 30)
        },
    ]
}

/// Tables on IcebergHT.
pub fn synced_tables() -> Vec<Setup> {
    let empty = ["an empty table", "a synced table", "a synced table in a file"];
    let doubles = [
        "the next insertion doubles the table",
        "the next insertion doubles a synced table",
        "the next insertion doubles a synced table in a file",
    ];
    synced(tables(), [empty, doubles])
}

/// Stores on IcebergHT.
pub fn synced_stores() -> Vec<Setup> {
    let classes = [
        "values of three classes",
        "values of three classes in a synced store",
        "values of three classes in a synced store in a file",
    ];
    let collide = [
        "two keys of one hash",
        "two keys of one hash in a synced store",
        "two keys of one hash in a synced store in a file",
    ];
    synced(stores(), [classes, collide])
}

/// Tables on IcebergHT.
pub fn helped_tables() -> Vec<Setup> {
    let names = [
        ["the next insertion doubles the table", "the next insertion doubles a helped table"],
        ["blocks of both levels are to be moved", "a helper moves blocks of both levels"],
        ["keys that part when the table doubles", "keys that part when a helped table doubles"],
    ];
    with_synced(with_helper(tables(), &names), "a helped table that is synced in a file")
}

/// Tables on IcebergHT where nothing is flushed.
pub fn unflushed_tables() -> Vec<Setup> {
    let names = [
        ["the last free slot of a block", "the last free slot of a block, unflushed"],
        ["one free slot in level 2", "one free slot in level 2, unflushed"],
        ["the next insertion doubles the table", "the next insertion doubles the table, unflushed"],
        [
            "two blocks of each level are to be moved",
            "two blocks of each level are to be moved, unflushed",
        ],
        [
            "a table that doubles with keys in level 2",
            "a table that doubles with keys in level 2, unflushed",
        ],
    ];
    unflushed(tables(), &names)
}

/// Tables on IcebergHT that two threads recover.
pub fn recovered_tables() -> Vec<Setup> {
    let names = [
        ["two blocks of each level are to be moved", "two threads recover blocks to be moved"],
        ["blocks of both levels are to be moved", "two threads recover blocks of both levels"],
        ["keys that part when the table doubles", "two threads recover keys that part"],
    ];
    recovered(tables(), &names)
}

/// Stores on IcebergHT that two threads recover.
pub fn recovered_stores() -> Vec<Setup> {
    let names = [
        ["values of three classes", "two threads recover values of three classes"],
        ["four keys of one hash", "two threads recover four keys of one hash"],
    ];
    recovered(stores(), &names)
}

/// How much a short run does.
pub(crate) const EFFORT: Effort =
    Effort { directed_one_in: 32, histories_in_tests: 600, ..Effort::OF_ENGINE };

/// Where random histories of it begin.
pub(crate) fn arenas() -> Vec<Arena> {
    arenas_of::<TableSubject>(tables())
        .chain(arenas_of::<TableSubject>(real_blocks()))
        .chain(arenas_of::<TableSubject>(synced_tables()))
        .chain(arenas_of::<TableSubject>(helped_tables()))
        .chain(arenas_of::<TableSubject>(recovered_tables()))
        .chain(arenas_of::<TableSubject>(unflushed_tables()))
        .chain(arenas_of::<TableSubject>(roomy_tables()))
        .chain(arenas_of::<StoreSubject>(stores()))
        .chain(arenas_of::<StoreSubject>(synced_stores()))
        .chain(arenas_of::<TableSubject>(reopened::table_setups()))
        .chain(arenas_of::<StoreSubject>(reopened::store_setups()))
        .chain(arenas_of::<TableSubject>(shrinks::table_setups()))
        .chain(arenas_of::<StoreSubject>(shrinks::store_setups()))
        .collect()
}

/// Its directed histories.
pub(crate) fn histories() -> Vec<Directed> {
    let mut all = directed::<TableSubject>(&tables());
    all.extend(directed::<StoreSubject>(&stores()));
    all.extend(kept_histories());
    all.extend(alone_in::<TableSubject>(real_blocks()));
    all.extend(syncing::<TableSubject>(&synced_tables()));
    all.extend(helped::<TableSubject>(&helped_tables()));
    all.extend(directed::<TableSubject>(&unflushed_tables()));
    all.extend(alone_in::<TableSubject>(recovered_tables()));
    all.extend(alone_in::<StoreSubject>(recovered_stores()));
    all.extend(syncing::<StoreSubject>(&synced_stores()));
    all.extend(repeating::<TableSubject>(&tables()[2]));
    all.extend(repeating::<StoreSubject>(&stores()[2]));
    all.extend(store_histories::<StoreSubject>(stores().swap_remove(0)));
    all.extend(looking_up_fillers::<TableSubject>(&tables(), 4));
    all.extend(looking_up_fillers::<StoreSubject>(&stores(), 4));
    all.extend(late::<TableSubject>(&tables()[0]));
    all.extend(batches_beside::<TableSubject>(&tables()[0]));
    all.extend(of_levels_and_resizes());
    all.extend(scans_of_a_store());
    all.push(replaced_while_doubling());
    all.push(growth_ahead());
    all.extend(scans_beside_doublings());
    all.extend(shrinks::histories());
    all.extend(reopened::histories());
    all.extend(roomy_tables().iter().flat_map(growing_meanwhile));
    // Items are in the heap.
    all.extend(writers_of_the_heap());
    all
}

/// Histories that once showed a fault, or a fault planted by hand, shrunk.
fn kept_histories() -> Vec<Directed> {
    // A scan reported a pair of level 3 that was durable but in no chain yet; the same thread's
    // search then did not find it.
    let one = |action| Op::One(0, action);
    let writer = vec![one(Action::Remove), one(Action::Insert(4))];
    let program = vec![writer, vec![Op::Scan, one(Action::Get)]];
    // Two threads that move the same blocks: the second must notice that the first has done it.
    let both = vec![vec![Op::Settle], vec![Op::Settle, one(Action::Insert(4))]];
    let movers = Look::Interleaved { program: both, first: 0, changes: 2, points: Points::Shared };
    let moving = Directed::new::<TableSubject>(moving_with_level_2(), movers);
    // A look-up that read the geometry before a whole resize, and the fingerprints after it: the key
    // was stored before, and has moved.
    let moved = |action| Op::One(1, action);
    let overtaken = [moved(Action::Get), Op::Many(vec![(1, Action::Get)])].map(|reading| {
        let reader = vec![moved(Action::Insert(2)), reading];
        let doubler = vec![one(Action::Insert(3)), Op::Settle];
        interleaved::<TableSubject>(&second_insertion_doubles(), vec![reader, doubler], 0)
    });
    let in_level_3 = tables().into_iter().filter(|setup| setup.keys.contains(&0));
    in_level_3
        .map(|setup| interleaved::<TableSubject>(&setup, program.clone(), 0))
        .chain([moving])
        .chain(overtaken)
        .collect()
}

/// What only IcebergHT's third level and its resizes show.
fn of_levels_and_resizes() -> Vec<Directed> {
    let chains = chains_of_two_blocks();
    let behind: Vec<Op> = stored(&chains).iter().rev().map(|&key| one(key, Action::Get)).collect();
    let (remove, insert) = (one(0, Action::Remove), one(1, Action::Insert(3)));
    let stale = level_2_before_doubling();
    let doubler = vec![one(1, Action::Insert(3)), one(2, Action::Insert(4))];
    let doubles = second_insertion_doubles();
    let batch = Op::Many(vec![(1, Action::Upsert(4))]);
    let doubling = vec![one(0, Action::Insert(3)), Op::Settle];
    let stored = vec![one(1, Action::Insert(2))];
    let updater = vec![one(1, Action::Upsert(4)), one(0, Action::Insert(3)), Op::Settle];
    vec![
        // A node that goes from one chain to another under a reader, or under two writers.
        shared::<TableSubject>(&chains, vec![vec![remove.clone(), insert.clone()], behind], 1),
        shared::<TableSubject>(&chains, vec![vec![remove], vec![insert]], 2),
        // A writer of level 2 that knows the geometry of before the table doubles.
        shared::<TableSubject>(
            &stale,
            vec![vec![one(0, Action::Insert(2)), Op::Settle], doubler],
            1,
        ),
        // A batch that knows the geometry of before.
        shared_after::<TableSubject>(&doubles, vec![stored.clone(), vec![batch], doubling], 1, 1),
        // A look-up that met a lock, and looks again in the geometry of before.
        shared_after::<TableSubject>(
            &doubles,
            vec![stored, updater, vec![one(1, Action::Get)]],
            1,
            2,
        ),
        // A node that goes to the chain of another block when the table doubles.
        shared::<TableSubject>(
            &level_3_before_doubling(),
            vec![vec![one(1, Action::Insert(3)), Op::Settle], vec![one(0, Action::Get)]],
            1,
        ),
        // Two that move the same blocks of level 2.
        shared::<TableSubject>(&moving_level_2(), vec![vec![Op::Settle], vec![Op::Settle]], 2),
    ]
}

/// A slot that comes to lead to another item, beside a reader that must not see what is not written yet. The table is
/// doubling, and the block was moved: there a change takes the lock once, which makes nothing visible.
fn replaced_while_doubling() -> Directed {
    let replaced = |value| one(0, Action::Upsert(value));
    let mut doubling = Setup {
        resize_at: 0.85,
        limit_bytes: 24 << 10,
        has_helper: true,
        ..filled_blocks("a store that is doubling", colliding(1), 62, 1)
    };
    doubling.before.extend([one(0, Action::Insert(FILLING)), replaced(FILLING)]);
    let program = vec![vec![replaced(2)], vec![one(0, Action::Get)]];
    interleaved::<StoreSubject>(&doubling, program, 0).always()
}

/// An insertion takes the last free segment, and the helper lets the heap grow beside another one.
fn growth_ahead() -> Directed {
    // Twelve items leave one of the first four segments free.
    let short = Setup {
        has_helper: true,
        value_bytes: &[8],
        limit_bytes: 24 << 10,
        ..filled("a store that is short of space", colliding(2), 12)
    };
    let program = vec![vec![one(0, Action::Insert(2)), Op::Help], vec![one(1, Action::Insert(3))]];
    interleaved::<StoreSubject>(&short, program, 0).always()
}

/// A scan that has read a slot when the item it leads to is removed, and its space used again.
fn scans_of_a_store() -> Vec<Directed> {
    let writer = reusing().swap_remove(0);
    let program = vec![writer, vec![Op::Scan]];
    vec![shared::<StoreSubject>(&of_shape(&SHAPE, setups::one_item()), program, 1)]
}

/// Scans beside doublings, under way or begun meanwhile, that move pairs of each level.
fn scans_beside_doublings() -> Vec<Directed> {
    let doubler = |key| vec![one(key, Action::Insert(3)), Op::Settle];
    let programs = [
        (second_insertion_doubles(), [vec![one(0, Action::Insert(2))], doubler(1)].concat()),
        (level_3_before_doubling(), doubler(1)),
        (moving_with_level_2(), vec![Op::Settle]),
        (moving_level_2(), vec![Op::Settle]),
    ];
    let beside = |(setup, writer): &(Setup, Vec<Op>)| {
        let program = || vec![writer.clone(), vec![Op::Scan]];
        [shared::<TableSubject>(setup, program(), 1), shared::<TableSubject>(setup, program(), 2)]
    };
    programs.iter().flat_map(beside).collect()
}
