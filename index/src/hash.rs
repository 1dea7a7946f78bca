//! Key hashing, pinned by the file format.
//!
//! A pool stores a hash id and a seed; together they fix every output below, on every platform
//! and for ever. Id [`HASH_ID`] means rapidhash V3 over the key's bytes (an integer key's
//! little-endian bytes), under two sets of secrets: the first output's are drawn from the seed,
//! the second output's from the seed exclusive-or `0x9e37_79b9_7f4a_7c15`.
//!
//! What an engine takes from which bits:
//!
//! ```text
//!            63      56 55      48 47      40 39    36 35                           0
//!           ┌──────────┬──────────┬──────────┬────────┬──────────────────────────────┐
//!  first    │ level-1  │ level-2  │ level-2  │ level-1│              h0              │
//!           │   print  │ print 1  │ print 2  │  line  │                              │
//!           └──────────┴──────────┴──────────┴────────┴──────────────────────────────┘
//!            63                          32 31                                      0
//!           ┌──────────────────────────────┬─────────────────────────────────────────┐
//!  second   │              h2              │                    h1                   │
//!           └──────────────────────────────┴─────────────────────────────────────────┘
//! ```
//!
//! In IcebergHT h0 selects the level-1 block, h1 and h2 the two level-2 blocks (in Level hashing h1 and
//! h2 the two buckets of each level); the level-1 line says which of
//! the block's lines a key is put into if that has room, so that a look-up can fetch it early. No two fields share a bit, so
//! that the keys of one block still differ in their fingerprints, and the fingerprint a key has
//! in one block says nothing about the one it has in another. The second output is wanted only
//! for keys that spill from level 1, hence a function of its own.
//!
//! Neither output is one-to-one, not even on 8-byte keys (each has a partner, unknown without the
//! seed, with the same first output): equal hashes never prove equal keys.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline, rapidhash_v3_seeded};

/// The id under which a pool records the hashing described in this module.
pub const HASH_ID: u32 = 1;

/// What tells the second output's seed from the first's: 2^64 divided by the golden ratio.
const SECOND_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of bits of the first output that [`h0`] takes.
const H0_BITS: u32 = 36;

/// The hash functions of one pool, their secrets drawn from its seed.
#[derive(Clone, Copy)]
pub struct Hasher {
    first: RapidSecrets,
    second: RapidSecrets,
    bytes_mask: u64,
}

impl Hasher {
    /// The hash functions of a pool with this seed.
    pub const fn new(seed: u64) -> Self {
        Hasher::with_bits(seed, u64::BITS)
    }

    /// Like [`Hasher::new`], but [`Hasher::first_bytes`] keeps only its `bits` low bits and
    /// clears the others, so that a test meets different keys of one hash. 64 and more cut
    /// nothing.
    pub const fn with_bits(seed: u64, bits: u32) -> Self {
        Hasher {
            first: RapidSecrets::seed(seed),
            second: RapidSecrets::seed(seed ^ SECOND_SEED),
            bytes_mask: if bits < u64::BITS { (1 << bits) - 1 } else { u64::MAX },
        }
    }

    /// The first output for an 8-byte key.
    #[inline(always)]
    pub fn first_u64(&self, key: u64) -> u64 {
        hash_u64(key, &self.first)
    }

    /// The second output for an 8-byte key.
    #[inline(always)]
    pub fn second_u64(&self, key: u64) -> u64 {
        hash_u64(key, &self.second)
    }

    /// The second output for a key of any length; eight bytes hash as the integer they are in
    /// little-endian order.
    #[inline]
    pub fn second_bytes(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.second)
    }

    /// The first output for a key of any length. Without a cut, eight bytes hash as the integer
    /// they are in little-endian order.
    #[inline]
    pub fn first_bytes(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.first) & self.bytes_mask
    }
}

/// rapidhash V3 of eight bytes. The length being a constant, all but two multiplications vanish.
#[inline(always)]
fn hash_u64(key: u64, secrets: &RapidSecrets) -> u64 {
    rapidhash_v3_inline::<true, false, false>(&key.to_le_bytes(), secrets)
}

/// The level-1 block source: 36 bits.
#[inline(always)]
pub const fn h0(first: u64) -> u64 {
    first & ((1 << H0_BITS) - 1)
}

/// Where the bits begin that choose the line which the key prefers in its level-1 block: 4 bits.
pub const LEVEL1_LINE_SHIFT: u32 = H0_BITS;

/// The source of the first choice of a level-2 block: 32 bits.
#[inline(always)]
pub const fn h1(second: u64) -> u64 {
    second as u32 as u64
}

/// The source of the second choice of a level-2 block: 32 bits.
#[inline(always)]
pub const fn h2(second: u64) -> u64 {
    second >> 32
}

/// The fingerprint in the key's level-1 block.
#[inline(always)]
pub const fn level1_fingerprint(first: u64) -> u8 {
    fingerprint((first >> 56) as u8)
}

/// The fingerprint in the first choice of a level-2 block.
#[inline(always)]
pub const fn level2_fingerprint_1(first: u64) -> u8 {
    fingerprint((first >> 48) as u8)
}

/// The fingerprint in the second choice of a level-2 block.
#[inline(always)]
pub const fn level2_fingerprint_2(first: u64) -> u8 {
    fingerprint((first >> 40) as u8)
}

/// Makes one of the 254 legal fingerprints of a byte of hash: every byte but 0 and 128.
///
/// 0 means EMPTY, and a lane that gives its top bit to a flag holds 7 bits only, where 128 would
/// look EMPTY too. Those two bytes become 1 and 129, which come up twice as often as the others:
/// two fingerprints then agree with probability 1/252, against 1/254 at the very best, which a
/// multiplication would cost more to reach than it saves.
#[inline(always)]
pub const fn fingerprint(byte: u8) -> u8 {
    byte | (byte & 0x7f == 0) as u8
}
