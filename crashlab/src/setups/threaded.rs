//! Boundaries of the tables for several threads: where they grow, where the room ends, and keys that are marks.

use super::FILLING;
use crate::history::{Action, Key, Op};
use crate::subject::{HASH_SEED, Setup, ThreadedSubject};
use baselines::threaded::{Kind, Shape};
use index::hash::Hasher;

/// A setup with two free keys, and fillers that were stored before. Only keys are used whose first hash output
/// `is_fit`.
fn with(name: &'static str, shape: Shape, fillers: usize, is_fit: impl Fn(u64) -> bool) -> Setup {
    let hasher = Hasher::new(HASH_SEED);
    let fit = (1..).filter(|&key| is_fit(hasher.first_u64(key)));
    let free_keys = 2;
    Setup {
        name,
        keys: fit.take(free_keys + fillers).collect(),
        free_keys,
        before: (0..fillers)
            .map(|filler| Op::One((free_keys + filler) as Key, Action::Insert(FILLING)))
            .collect(),
        engine_params: ThreadedSubject::params(&shape),
        ..Setup::default()
    }
}

fn small(kind: Kind, size_log2: u32, part_log2: u32) -> Shape {
    Shape { kind, size_log2, part_log2, seed: HASH_SEED }
}

/// All of them.
pub fn threaded() -> Vec<Setup> {
    [clht()].into_iter().flatten().collect()
}

fn clht() -> Vec<Setup> {
    let buckets = |log2| small(Kind::Clht, log2, 0);
    let any = |_| true;
    // Of two buckets, all keys belong to the first.
    let even = |hash| hash % 2 == 0;
    let marks = Setup {
        keys: vec![0, u64::MAX],
        ..with("a key that marks free slots", buckets(1), 0, any)
    };
    vec![
        with("an empty table", buckets(1), 0, any),
        marks,
        with("a bucket with one free slot", buckets(1), 2, even),
        with("a full bucket", buckets(2), 3, |hash| hash % 4 == 0),
        with("a table that is copied for the next pair", buckets(0), 3, any),
        with("a table that is copied when the next bucket is full", buckets(1), 6, even),
        Setup {
            limit_bytes: 640,
            is_tight: true,
            ..with("a table without room for a larger one", buckets(1), 6, even)
        },
        Setup {
            limit_bytes: 4 * 64,
            is_tight: true,
            ..with("a table without room for another bucket", buckets(0), 2, any)
        },
    ]
}
