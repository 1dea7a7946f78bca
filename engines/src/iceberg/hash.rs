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
//! h0 selects the level-1 block; [`h1`](index::hash::h1) and [`h2`](index::hash::h2) of the second output select the
//! two level-2 blocks. A key goes into the level-1 line of its block if that line has room, so a look-up can fetch it
//! early. Bit 56 goes unused: its place in the fingerprint says whether the pair is in that line ([`DISPLACED`]). The
//! SPILLED lane has the flag that the key sets in its level-1 block when it goes to level 2 or 3.
//!
//! No other two fields share a bit. So the keys of one block still differ in their fingerprints, and a key's
//! fingerprint in one block says nothing about its fingerprint in another. Only keys that spill from level 1 need the
//! second output.

use index::fingerprint::DISPLACED;

/// Number of bits of the first output that [`h0`] takes.
const H0_BITS: u32 = 36;

/// Selects the level-1 block: 36 bits.
#[inline(always)]
pub const fn h0(first: u64) -> u64 {
    first & ((1 << H0_BITS) - 1)
}

/// What two keys of a level-1 block share if a search for one may meet the other in any lane: the bits that make the
/// fingerprint, and those that select the preferred line.
pub const fn level1_mark(first: u64) -> (u8, u64) {
    (level1_byte(first) & !DISPLACED, first >> LEVEL1_LINE_SHIFT & 0xf)
}

/// Where the 4 bits begin that select the line a key prefers in its level-1 block.
pub const LEVEL1_LINE_SHIFT: u32 = H0_BITS;

/// The lane whose SPILLED flag the key sets: the top 3 bits, which take the fewest instructions. They are also bits of
/// the fingerprint. That does no harm: the flag matters only if no fingerprint matched, or only by chance.
#[inline(always)]
pub const fn spilled_lane(first: u64) -> usize {
    (first >> 61) as usize
}

/// The flag of that lane, in its word.
#[inline(always)]
pub const fn spilled_bit(first: u64) -> u64 {
    0x80 << (8 * spilled_lane(first))
}

/// The byte that makes the fingerprint in the key's level-1 block.
#[inline(always)]
pub const fn level1_byte(first: u64) -> u8 {
    (first >> 56) as u8
}

/// The fingerprint in the key's first choice of a level-2 block.
#[inline(always)]
pub const fn level2_fingerprint_1(first: u64) -> u8 {
    fingerprint((first >> 48) as u8)
}

/// The fingerprint in the key's second choice of a level-2 block.
#[inline(always)]
pub const fn level2_fingerprint_2(first: u64) -> u8 {
    fingerprint((first >> 40) as u8)
}

/// Turns a byte of hash into one of the 254 legal fingerprints: every byte but 0 and 128.
///
/// 0 means EMPTY. A lane that gives its top bit to a flag holds only 7 bits, where 128 would look EMPTY too. Those two
/// bytes become 1 and 129, which come up twice as often as the others. So two fingerprints agree with probability
/// 1/252, against 1/254 at best. A multiplication would reach that, but costs more than it saves.
#[inline(always)]
pub const fn fingerprint(byte: u8) -> u8 {
    byte | (byte & 0x7f == 0) as u8
}
