//! What volatile arrays are made of.

use super::{AtomicU8, AtomicU32, AtomicU64};

/// A line of eight words; the unit in which threads disturb each other.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub [AtomicU64; 8]);

/// Types that [`Array`](super::Array) can hold.
///
/// # Safety
///
/// All bytes are a valid value, zeros the default one. The type needs no drop, and sharing it is sound, also with other
/// processes.
pub unsafe trait Zeroable: Default + Sync {}

// SAFETY: atomic integers are valid for every bit pattern.
unsafe impl Zeroable for AtomicU8 {}
// SAFETY: as above.
unsafe impl Zeroable for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroable for AtomicU64 {}
// SAFETY: an array of atomics, as above.
unsafe impl Zeroable for Line {}
