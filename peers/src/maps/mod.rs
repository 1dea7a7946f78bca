//! The trait, and one adapter per file.

mod dash;
mod firn;
#[cfg(any(has_libcuckoo, has_tbb, has_boost))]
mod foreign;
mod papaya;
mod scc;
mod unlocked;

pub use self::dash::Dash;
pub use self::firn::Firn;
#[cfg(has_boost)]
pub use self::foreign::Boost;
#[cfg(has_libcuckoo)]
pub use self::foreign::LibCuckoo;
#[cfg(has_tbb)]
pub use self::foreign::Tbb;
pub use self::papaya::Papaya;
pub use self::scc::Scc;
pub use self::unlocked::Unlocked;

/// For which operations a map has a call of its own that takes many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batched {
    /// For none.
    Nothing,
    /// For look-ups.
    Gets,
    /// For look-ups, upserts and removals.
    Everything,
}

/// A map from words to words, used by several threads at once.
///
/// The `*_many` calls answer entry by entry; `out` must be as long as the keys. Their defaults
/// are loops: [`Map::batched`] says which are more.
pub trait Map: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

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

    /// [`Map::upsert`] for each pair.
    #[inline]
    fn upsert_many(&self, pairs: &[(u64, u64)], out: &mut [bool]) {
        for ((key, value), out) in pairs.iter().zip(out) {
            *out = self.upsert(*key, *value);
        }
    }

    /// [`Map::remove`] for each key.
    #[inline]
    fn remove_many(&self, keys: &[u64], out: &mut [bool]) {
        for (key, out) in keys.iter().zip(out) {
            *out = self.remove(*key);
        }
    }
}
