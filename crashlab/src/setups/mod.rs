//! The boundaries around which histories are explored: what is the same for all engines, the pool's, the heap's,
//! and those of the classic tables. Those of an engine are in its file in [`engines`](crate::engines).

pub mod choices;
pub mod classic;
mod closing;
mod helped;
mod stores;
pub mod threaded;

pub use closing::{synced, synced_pool};
pub(crate) use helped::renamed;
pub use helped::{recovered, unflushed, with_helper, with_synced};
pub use stores::{
    SEVERAL_CLASSES, hash_of_entry, one_item_of_a_store, sparse_segments_of_a_store,
    sparse_segments_of_one_hash, with_items,
};

use crate::history::{Action, Key, Op};
use crate::subject::Setup;

/// What the fillers hold. Histories store other values.
pub(crate) const FILLING: u16 = 900;

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
        // The fillers let the heap grow until it has slabs of several segments.
        plain("items in wide slabs", &[300, 100, 8, 130], 5),
        Setup {
            limit_bytes: 9 << 10,
            is_tight: true,
            ..plain("a heap with little room", &[40, 200, 100], 3)
        },
        long_table("a heap that needs a table longer than a segment"),
        Setup {
            // What is asked for is refused, and halved: it grows by one segment at a time. The third comes with the
            // table, one more fits behind it, and no wide slab does.
            limit_bytes: 12_544,
            ..long_table("a heap at its limit that needs a table longer than a segment")
        },
    ]
}

/// A heap whose last table ends two segments behind it. The next one has 32 words, as many as two segments.
fn long_table(name: &'static str) -> Setup {
    Setup {
        name,
        keys: vec![1, 2, 3],
        free_keys: 3,
        before: vec![Op::One(0, Action::Insert(5))],
        // Value 5 takes 27 segments. Those of 60 and 100 bytes go into wide slabs where there is room for one.
        value_bytes: &[8, 60, 8, 100, 60, 3432],
        limit_bytes: 16 << 10,
        is_tight: true,
        ..Setup::default()
    }
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

/// A heap with nothing free but an empty slab of four segments. Their surviving words are in two lines, the first one
/// in a line of its own.
pub fn empty_slab() -> Setup {
    Setup {
        name: "an empty slab where all the room is",
        keys: vec![1, 2, 3, 4],
        free_keys: 3,
        before: vec![
            Op::One(0, Action::Insert(5)),
            Op::One(3, Action::Insert(6)),
            Op::One(3, Action::Remove),
            Op::Settle,
        ],
        // Value 5 takes twenty segments. In the slab of value 6 no slot begins where a segment does, except the first.
        value_bytes: &[8, 8, 8, 8, 8, 2520, 56, 8],
        limit_bytes: 11_648,
        is_tight: true,
        ..Setup::default()
    }
}

/// A setup with the first free key instead of the filler that was stored last.
pub(crate) fn with_first_key(name: &'static str, setup: &Setup) -> Setup {
    let mut setup = Setup { name, ..setup.clone() };
    setup.before.pop();
    setup.before.push(Op::One(0, Action::Insert(FILLING)));
    setup
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
