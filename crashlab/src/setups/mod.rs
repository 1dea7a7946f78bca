//! The boundaries around which histories are explored.

mod clevel;
mod closing;
mod helped;
mod level;
mod stores;

pub use clevel::{clevel, next_insertion_moves, next_insertion_shifts};
pub use closing::{synced_clevel, synced_iceberg, synced_level, synced_pool, synced_store};
pub use helped::{
    helped_clevel, helped_iceberg, recovered_clevel, recovered_iceberg, recovered_level,
    recovered_store,
};
pub use level::{level, level_long, moved_into_interim, two_buckets};
pub use stores::{clevel_store, level_store, one_item_of_a_store};

use crate::history::{Action, Key, Op};
use crate::subject::{HASH_SEED, Setup};
use engines::iceberg::Shape;
use engines::iceberg::hash::{h0, level1_fingerprint};
use index::hash::{Hasher, h1, h2};

/// What the fillers hold. Histories store other values.
const FILLING: u16 = 900;
/// The fingerprint that free keys share, and no filler has.
const FINGERPRINT: u8 = 0x2a;

/// Two to four keys that meet everywhere: same level-1 block, same fingerprint, same level-2
/// blocks, also after two doublings. All of them move when a table of one block doubles.
fn colliding(count: usize) -> Vec<u64> {
    let hasher = Hasher::new(HASH_SEED);
    let meets = |&key: &u64| {
        let (first, second) = (hasher.first_u64(key), hasher.second_u64(key));
        level1_fingerprint(first) == FINGERPRINT
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
            level1_fingerprint(first) == FINGERPRINT
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
            level1_fingerprint(first) != FINGERPRINT
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
        shape: Shape { initial_log2: log2, ..Setup::default().shape },
        ..Setup::default()
    }
}

/// The setups of a table of words on IcebergHT.
pub fn iceberg() -> Vec<Setup> {
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
pub fn iceberg_blocks() -> Vec<Setup> {
    let real = |name, count, resize_at| Setup {
        resize_at,
        shape: Shape { level_1_slots: 64, level_2_slots: 8, ..Setup::default().shape },
        limit_bytes: 20 << 10,
        ..filled(name, colliding(2), count)
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
    let free = (1u64..)
        .filter(|key| belongs(key) && level1_fingerprint(hasher.first_u64(*key)) == FINGERPRINT);
    let fillers = (1u64 << 20..)
        .filter(|key| belongs(key) && level1_fingerprint(hasher.first_u64(*key)) != FINGERPRINT);
    let keys: Vec<u64> = free.take(2).chain(fillers.take(count)).collect();
    let stores = (2..keys.len()).map(|key| Op::One(key as Key, Action::Insert(FILLING)));
    Setup {
        name: "level 2 doubles alone",
        free_keys: 2,
        before: stores.collect(),
        keys,
        resize_at: 0.85,
        shape: Shape { initial_log2: 2, initial_nodes_log2: 7, ..Setup::default().shape },
        limit_bytes: 20 << 10,
        ..Setup::default()
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
        level1_fingerprint(first) == FINGERPRINT
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

/// The setups of a store of bytes on IcebergHT.
pub fn store() -> Vec<Setup> {
    let lengths = |name, lengths| Setup { value_bytes: lengths, ..filled(name, colliding(2), 0) };
    let collide = |name, count| Setup {
        hash_bits: 0,
        shape: Shape { initial_nodes_log2: 1, ..Setup::default().shape },
        ..filled(name, colliding(2), count)
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

/// The setups of the pool alone.
pub fn pool() -> Vec<Setup> {
    let name = "an empty pool";
    vec![
        Setup { keys: vec![1, 2], free_keys: 2, name, ..Setup::default() },
        Setup {
            name: "a pool with room for two more extents",
            is_tight: true,
            keys: vec![1, 2],
            free_keys: 2,
            limit_bytes: (8 << 10) + 256,
            ..Setup::default()
        },
    ]
}

/// The setups of the heap alone.
pub fn heap() -> Vec<Setup> {
    let plain = |name, value_bytes, keys: u64| Setup {
        name,
        keys: (1..=keys).collect(),
        free_keys: keys.min(3) as usize,
        before: (3..keys).map(|key| Op::One(key as Key, Action::Insert(FILLING))).collect(),
        value_bytes,
        limit_bytes: 16 << 10,
        ..Setup::default()
    };
    vec![
        plain("an empty heap", &[8], 2),
        plain("one free slot in a segment", &[8], 6),
        plain("items that change class", &[8, 40, 24], 2),
        plain("items that take segments of their own", &[300, 8, 150, 600], 3),
        Setup {
            limit_bytes: 9 << 10,
            is_tight: true,
            ..plain("a heap with little room", &[40, 200, 100], 3)
        },
    ]
}

/// A heap in which a large item lies in all the segments there are, nine, so that the surviving
/// words of the first and the last are in different lines.
pub fn freed_segments() -> Setup {
    Setup {
        name: "a large item where all the room is",
        keys: vec![1, 2, 3],
        free_keys: 3,
        before: vec![Op::One(0, Action::Insert(5))],
        // Value 5 takes nine segments, value 3 eight.
        value_bytes: &[8, 8, 8, 1000, 8, 1120],
        limit_bytes: 9600,
        is_tight: true,
        ..Setup::default()
    }
}

/// One item, to be removed.
pub fn one_item() -> Setup {
    Setup {
        name: "one item",
        keys: vec![1, 2],
        free_keys: 2,
        before: vec![Op::One(0, Action::Insert(FILLING))],
        ..Setup::default()
    }
}
