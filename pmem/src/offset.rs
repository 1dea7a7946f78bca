//! Positions in a pool, and the sizes that the hardware works in.

/// The largest unit that memory makes durable atomically, in bytes.
pub const WORD: u64 = 8;
/// The unit of flushing, in bytes.
pub const LINE: u64 = 64;
/// The unit in which Optane-like media write, in bytes.
pub const MEDIA_BLOCK: u64 = 256;
/// A huge page. What is at least as large begins at a multiple of it, so that such pages can back it.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// A position in a pool in bytes from its start.
///
/// Offsets never change meaning while a pool exists, whatever address it is mapped at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub u64);

impl Offset {
    /// The position `bytes` further on.
    #[inline(always)]
    #[must_use]
    pub const fn add(self, bytes: u64) -> Offset {
        Offset(self.0.wrapping_add(bytes))
    }

    /// The position of the `index`-th word from here.
    #[inline(always)]
    #[must_use]
    pub const fn word(self, index: u64) -> Offset {
        Offset(self.0.wrapping_add(index * WORD))
    }

    /// The number of the line that this position is in.
    #[inline(always)]
    pub const fn line(self) -> u64 {
        self.0 / LINE
    }
}

impl std::fmt::Display for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
