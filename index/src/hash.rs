//! Key hashing, pinned by the file format.
//!
//! A pool stores a hash id and a seed; together they fix every output below, on every platform
//! and for ever. Id [`HASH_ID`] means rapidhash V3 over the key's bytes (an integer key's
//! little-endian bytes), under two sets of secrets: the first output's are drawn from the seed,
//! the second output's from the seed exclusive-or `0x9e37_79b9_7f4a_7c15`.
//!
//! The second output is two halves, each of which can select a bucket:
//!
//! ```text
//!            63                          32 31                                      0
//!           ┌──────────────────────────────┬─────────────────────────────────────────┐
//!  second   │              h2              │                    h1                   │
//!           └──────────────────────────────┴─────────────────────────────────────────┘
//! ```
//!
//! That page also lists what engines take from which bits of either output. An engine that needs the second output for
//! few keys computes it only for those, so it is a separate function.
//!
//! Neither output is one-to-one, not even on 8-byte keys (each has a partner, unknown without the
//! seed, with the same first output): equal hashes never prove equal keys.

use pmem::opaque;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The id under which a pool records the hashing described in this module.
pub const HASH_ID: u32 = 1;

/// What tells the second output's seed from the first's: 2^64 divided by the golden ratio.
const SECOND_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash functions of one pool, their secrets drawn from its seed.
#[derive(Clone, Copy)]
pub struct Hasher {
    first: RapidSecrets,
    second: RapidSecrets,
    first_words: Words,
    second_words: Words,
    bytes_mask: u64,
}

/// What rapidhash V3 of eight bytes comes down to: two multiplications, and between them what depends on the secrets
/// alone. Computed once: it is nearly half of the instructions.
///
/// One multiplication, its halves folded, would save as many again. It is not even enough: this module's tests
/// `buckets_fill_evenly` and `no_four_bits_depend_on_another_four` refuse it on keys that count up.
#[derive(Clone, Copy)]
struct Words {
    factors: [u64; 2],
    /// For the low and the high half of the first product.
    halves: [u64; 2],
}

impl Words {
    const fn new(secrets: &RapidSecrets) -> Words {
        const BYTES: u64 = 8;
        const LOW: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let secret = secrets.secrets[1];
        Words { factors: [secret, secrets.seed ^ BYTES], halves: [LOW, secret ^ BYTES] }
    }

    #[inline(always)]
    fn hash(&self, key: u64) -> u64 {
        let [low, high] = product(key ^ self.factors[0], key ^ self.factors[1]);
        // Taken as it is, since the compiler would first copy both halves into other registers.
        let high = opaque::word(high ^ self.halves[1]);
        let [low, high] = product(low ^ self.halves[0], high);
        low ^ high
    }
}

/// The halves of a product, the low one first.
#[inline(always)]
fn product(a: u64, b: u64) -> [u64; 2] {
    let product = u128::from(a) * u128::from(b);
    [product as u64, (product >> 64) as u64]
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
        let (first, second) = (RapidSecrets::seed(seed), RapidSecrets::seed(seed ^ SECOND_SEED));
        Hasher {
            first_words: Words::new(&first),
            second_words: Words::new(&second),
            first,
            second,
            bytes_mask: if bits < u64::BITS { (1 << bits) - 1 } else { u64::MAX },
        }
    }

    /// The first output for an 8-byte key.
    #[inline(always)]
    pub fn first_u64(&self, key: u64) -> u64 {
        self.first_words.hash(key)
    }

    /// The second output for an 8-byte key.
    #[inline(always)]
    pub fn second_u64(&self, key: u64) -> u64 {
        self.second_words.hash(key)
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

/// Selects the first choice of two buckets: 32 bits.
#[inline(always)]
pub const fn h1(second: u64) -> u64 {
    second as u32 as u64
}

/// Selects the second choice of two buckets: 32 bits.
#[inline(always)]
pub const fn h2(second: u64) -> u64 {
    second >> 32
}
