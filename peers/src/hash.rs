//! firndex's hash function, for maps that take one.

use index::hash::Hasher as KeyHasher;
use rapidhash::v3::RapidSecrets;
use std::hash::{BuildHasher, Hasher};

/// The seed under which every contender hashes.
pub const SEED: u64 = 0x6669_726e_6465_7821;

static KEY_HASHER: KeyHasher = KeyHasher::new(SEED);

/// The two numbers of [`RapidSecrets`] that the hash of eight bytes depends on: seed and secret,
/// for the C++ twin of the function.
pub fn twin_numbers() -> (u64, u64) {
    let secrets = RapidSecrets::seed(SEED);
    (secrets.seed, secrets.secrets[1])
}

/// The hash of a key.
#[inline(always)]
pub fn hash(key: u64) -> u64 {
    KEY_HASHER.first_u64(key)
}

/// Builds a [`KeyHash`].
#[derive(Clone, Copy, Default)]
pub struct BuildKeyHash;

impl BuildHasher for BuildKeyHash {
    type Hasher = KeyHash;

    #[inline(always)]
    fn build_hasher(&self) -> KeyHash {
        KeyHash(0)
    }
}

/// Hashes one `u64`, as [`hash`] does.
pub struct KeyHash(u64);

impl Hasher for KeyHash {
    #[inline(always)]
    fn write_u64(&mut self, key: u64) {
        self.0 = hash(key);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are words");
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}
