//! The keys of a run, and the values that tell which operation stored them.

use workload::{Permutation, Scatter};

/// Operations that store values, which differ for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The first insertion.
    Insert,
    /// The update after it.
    Update,
    /// The upsert after that.
    Upsert,
}

impl Writer {
    /// The value that this operation stores under `key`.
    #[inline(always)]
    pub fn value(self, key: u64) -> u64 {
        match self {
            Writer::Insert => !key,
            Writer::Update => key ^ 0x5555_5555_5555_5555,
            Writer::Upsert => key.rotate_left(1),
        }
    }
}

/// The keys of a run: numbered from 0 in the order of insertion, all different.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    scatter: Scatter,
    seed: u64,
    count: u64,
}

impl Keys {
    /// `count` keys to be stored.
    pub fn new(seed: u64, count: u64) -> Self {
        Keys { scatter: Scatter::new(seed), seed, count }
    }

    /// How many are to be stored.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The key of this number.
    #[inline]
    pub fn key(&self, number: u64) -> u64 {
        self.scatter.key(number)
    }

    /// A key that is never stored.
    #[inline]
    pub fn absent(&self, number: u64) -> u64 {
        self.scatter.absent_key(number)
    }

    /// The stored keys' numbers in the order that `salt` names. If look-ups went in the order of insertion, they would
    /// walk through the nodes of a map that allocates them as through an array.
    pub fn order(&self, salt: u64) -> Permutation {
        Permutation::new(self.count, self.seed.wrapping_add(salt))
    }
}
