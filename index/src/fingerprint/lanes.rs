//! What the lanes of lines and words are, for every instruction set.

/// The fingerprint of a lane that holds none.
pub const EMPTY: u8 = 0;

/// The bit that a flag lane gives to its flag.
pub const FLAG: u8 = 0x80;

/// Lanes of a line, from lane 0 on, that are flag lanes.
pub const FLAG_LANES_OF_LINE: usize = 10;

/// The fingerprint bits of a line, word by word.
pub(super) static LINE_MASK: LineMask = LineMask([
    without_flags(8),
    without_flags(FLAG_LANES_OF_LINE - 8),
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
    u64::MAX,
]);

/// One aligned line, as some vector operands must be.
#[repr(C, align(64))]
pub(super) struct LineMask(pub(super) [u64; 8]);

/// The bits of a word of fingerprints whose first lanes are flag lanes.
pub(super) const fn without_flags(flag_lanes: usize) -> u64 {
    !(repeat(FLAG) & ((1u128 << (8 * flag_lanes)) - 1) as u64)
}

/// `byte` in all eight lanes.
#[inline(always)]
pub(super) const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}
