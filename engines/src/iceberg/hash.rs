//! What IcebergHT takes from the bits of a key's hash ([`index::hash`]).
//!
//! ```text
//!            63      56 55      48 47      40 39    36 35                           0
//!           ┌──────────┬──────────┬──────────┬────────┬──────────────────────────────┐
//!  first    │ level-1  │ level-2  │ level-2  │ level-1│              h0              │
//!           │   print  │ print 1  │ print 2  │  line  │                              │
//!           └──────────┴──────────┴──────────┴────────┴──────────────────────────────┘
//!            └─┘ SPILLED lane
//! ```
//!
//! h0 selects the level-1 block, [`h1`](index::hash::h1) and [`h2`](index::hash::h2) of the second
//! output select the two level-2 blocks. The level-1 line says which of the block's lines a key is
//! put into if that line has room, so that a look-up can fetch it early. The SPILLED lane has the flag that the key
//! sets in its level-1 block when it goes beyond that.
//!
//! No two other fields share a bit. So the keys of one block still differ in their fingerprints, and the
//! fingerprint a key has in one block says nothing about the one it has in another. Only keys that
//! spill from level 1 need the second output.

/// Number of bits of the first output that [`h0`] takes.
const H0_BITS: u32 = 36;

/// Selects the level-1 block: 36 bits.
#[inline(always)]
pub const fn h0(first: u64) -> u64 {
    first & ((1 << H0_BITS) - 1)
}

/// Where the bits begin that select the line which the key prefers in its level-1 block: 4 bits.
pub const LEVEL1_LINE_SHIFT: u32 = H0_BITS;

/// The lane whose flag the key sets as its bit of SPILLED: 3 bits, the top ones, which take the fewest instructions.
/// The fingerprint has them, too. That does no harm: it is asked for where no fingerprint matched, or none truly.
#[inline(always)]
pub const fn spilled_lane(first: u64) -> usize {
    (first >> 61) as usize
}

/// That flag in its word.
#[inline(always)]
pub const fn spilled_bit(first: u64) -> u64 {
    0x80 << (8 * spilled_lane(first))
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
