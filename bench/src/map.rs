//! What is measured.

use std::fmt;

/// The operations for which a map has a call that takes many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batched {
    /// For none.
    Nothing,
    /// For look-ups.
    Gets,
    /// For everything.
    Everything,
}

/// What a map knows about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Pairs stored.
    pub pairs: u64,
    /// Slots on which the load factor is based.
    pub capacity: u64,
    /// Taken slots per slot of capacity.
    pub load_factor: f64,
    /// Resizes begun since it was opened.
    pub resizes: u64,
    /// Bytes taken, in the pool and beside it, including space prepared ahead.
    pub bytes: u64,
    /// Pairs in each level, in the order in which a search visits them.
    pub level_pairs: Vec<u64>,
}

/// Why a map answered wrongly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It had no room for a pair and reported that; it is unchanged.
    Full(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Full(message) | Failure::Other(message) => f.pad(message),
        }
    }
}

/// A map from words to words, used by several threads at once.
///
/// Nothing here fails. A map that can fail answers wrongly and tells why in [`Map::failure`].
///
/// The `*_many` calls answer entry by entry; `out` must be as long as the keys. Their defaults are loops;
/// [`Map::batched`] says which ones are more.
pub trait Map: Sync {
    /// The value of `key`.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores the pair if `key` is absent; returns whether it was.
    fn insert(&self, key: u64, value: u64) -> bool;

    /// Replaces the value if `key` is present; returns whether it was.
    fn update(&self, key: u64, value: u64) -> bool;

    /// Stores the pair in any case; returns whether `key` was present.
    fn upsert(&self, key: u64, value: u64) -> bool;

    /// Removes `key`; returns whether it was present.
    fn remove(&self, key: u64) -> bool;

    /// Which of the calls below are more than loops.
    fn batched(&self) -> Batched {
        Batched::Nothing
    }

    /// [`Map::get`] for each key.
    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(*key);
        }
    }

    /// [`Map::insert`] for each pair; returns the values before.
    fn insert_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        for (&(key, value), out) in pairs.iter().zip(out) {
            *out = if self.insert(key, value) { None } else { self.get(key) };
        }
    }

    /// [`Map::update`] for each pair; returns the values before.
    fn update_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        for (&(key, value), out) in pairs.iter().zip(out) {
            *out = self.get(key);
            self.update(key, value);
        }
    }

    /// [`Map::remove`] for each key; returns the values before.
    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        for (&key, out) in keys.iter().zip(out) {
            *out = self.get(key);
            self.remove(key);
        }
    }

    /// What firndex's maps know about themselves.
    fn facts(&self) -> Option<Facts> {
        None
    }

    /// Why the first wrong answer was wrong, if the map knows. An insertion that was refused for want of room counts as
    /// a wrong answer: [`Failure::Full`].
    fn failure(&self) -> Option<Failure> {
        None
    }
}

impl Map for Box<dyn Map> {
    fn get(&self, key: u64) -> Option<u64> {
        (**self).get(key)
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        (**self).insert(key, value)
    }

    fn update(&self, key: u64, value: u64) -> bool {
        (**self).update(key, value)
    }

    fn upsert(&self, key: u64, value: u64) -> bool {
        (**self).upsert(key, value)
    }

    fn remove(&self, key: u64) -> bool {
        (**self).remove(key)
    }

    fn batched(&self) -> Batched {
        (**self).batched()
    }

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        (**self).get_many(keys, out);
    }

    fn insert_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        (**self).insert_many(pairs, out);
    }

    fn update_many(&self, pairs: &[(u64, u64)], out: &mut [Option<u64>]) {
        (**self).update_many(pairs, out);
    }

    fn remove_many(&self, keys: &[u64], out: &mut [Option<u64>]) {
        (**self).remove_many(keys, out);
    }

    fn facts(&self) -> Option<Facts> {
        (**self).facts()
    }

    fn failure(&self) -> Option<Failure> {
        (**self).failure()
    }
}
