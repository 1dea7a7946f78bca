//! Tables of two choices that double: which data tables there are, which of them owns a key, and which resize is
//! under way. From Li, Huang: *A Read-Efficient and Write-Optimized Hash Table for Intel Optane DC Persistent Memory*
//! (lightweight resizing, section 3.6).
//!
//! The paper has a directory: an entry for each data table, with the bit set of the keys that it owns. Each doubling
//! adds a table as large as all before it, and uses one more bit of the keys. The highest set bit among those in use
//! names the owner. Here these are the bits of a key's first choice above those that choose among the buckets of the
//! first table. If the buckets of all tables are numbered together, the owner is the table that contains the first
//! choice, and no directory is needed.

use crate::kit::hash::Hash;
use index::hash::{h1, h2};
use pmem::sync::{AtomicU64, Ordering};

/// Most buckets, as log2: a hash has 32 bits for each choice of a bucket.
pub(crate) const LOG2_MAX: u32 = 32;
/// Most doublings whose items are being moved at once.
pub(crate) const SPAN_MAX: u32 = 15;
/// Most numbers of buckets among which an item may be.
pub(crate) const PLACES_MAX: usize = SPAN_MAX as usize + 1;

/// The resize that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resize {
    /// None.
    No = 0,
    /// The last table was added: its items move there from all others.
    Extend = 1,
    /// The last table is taken away: its items move to the others.
    Shrink = 2,
}

impl Resize {
    /// What an engine root says.
    pub(crate) fn of_root(root: u64) -> Option<Resize> {
        [Resize::No, Resize::Extend, Resize::Shrink].into_iter().find(|&each| each as u64 == root)
    }
}

/// Which tables there are, and the generation: one word, so that a reader gets all of it at one instant
/// and notices any change by one comparison.
///
/// ```text
///  63 … 14      13 … 8    7 6      5 … 0
/// | generation | lowest | resize | log2 |
/// ```
///
/// `log2` is that of the buckets among which a key's place is. Its item may still be where it was among
/// fewer buckets (from `lowest` on) while the table is extended, and among twice as many while it shrinks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Geometry(u64);

/// The two buckets of a key among some number of buckets, by number; they may be one.
pub(crate) type Pair = [u64; 2];

impl Geometry {
    const LOG2_MASK: u32 = 63;
    const RESIZE_SHIFT: u32 = 6;
    const RESIZE_MASK: u64 = 3;
    const LOWEST_SHIFT: u32 = 8;
    const GENERATION_SHIFT: u32 = 14;

    pub(crate) fn new(log2: u32, lowest: u32, resize: Resize, generation: u64) -> Geometry {
        Geometry(
            u64::from(log2)
                | (resize as u64) << Self::RESIZE_SHIFT
                | u64::from(lowest) << Self::LOWEST_SHIFT
                | generation << Self::GENERATION_SHIFT,
        )
    }

    /// The geometry after this one.
    pub(crate) fn next(self, log2: u32, lowest: u32, resize: Resize) -> Geometry {
        Geometry::new(log2, lowest, resize, self.generation() + 1)
    }

    /// log2 of the buckets among which keys have their places.
    #[inline(always)]
    pub(crate) fn log2(self) -> u32 {
        self.0 as u32 & Self::LOG2_MASK
    }

    /// log2 of the fewest buckets among which an item may still be where it was.
    #[inline(always)]
    pub(crate) fn lowest(self) -> u32 {
        (self.0 >> Self::LOWEST_SHIFT) as u32 & Self::LOG2_MASK
    }

    #[inline(always)]
    pub(crate) fn resize(self) -> Resize {
        match self.0 >> Self::RESIZE_SHIFT & Self::RESIZE_MASK {
            0 => Resize::No,
            1 => Resize::Extend,
            _ => Resize::Shrink,
        }
    }

    #[inline(always)]
    pub(crate) fn is_resizing(self) -> bool {
        self.0 & Self::RESIZE_MASK << Self::RESIZE_SHIFT != 0
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> Self::GENERATION_SHIFT
    }

    /// log2 of all buckets that may hold items.
    pub(crate) fn used_log2(self) -> u32 {
        self.log2() + u32::from(self.resize() == Resize::Shrink)
    }

    /// The number of all buckets that may hold items.
    pub(crate) fn buckets(self) -> u64 {
        1 << self.used_log2()
    }

    /// The buckets that a resize empties of what is not in its place: when extending, all but those of
    /// the last table; when shrinking, those of the last table.
    pub(crate) fn sources(self) -> std::ops::Range<u64> {
        match self.resize() {
            Resize::No => 0..0,
            Resize::Extend => 0..1 << (self.log2() - 1),
            Resize::Shrink => 1 << self.log2()..2 << self.log2(),
        }
    }

    /// log2 of the buckets among which a key's item may be, in the order in which it moves.
    #[inline(always)]
    pub(crate) fn places(self) -> impl Iterator<Item = u32> {
        let (log2, resize) = (self.log2(), self.resize());
        let count = match resize {
            Resize::No => 1,
            Resize::Extend => log2 + 1 - self.lowest(),
            Resize::Shrink => 2,
        };
        (0..count).map(move |nth| match resize {
            Resize::Shrink => log2 + 1 - nth,
            _ => log2 + 1 + nth - count,
        })
    }
}

/// The fewest buckets, as log2 from `least` to `most`, whose `slots` each hold so many pairs when they are this full.
pub(crate) fn log2_for(pairs: u64, slots: u32, fill: f64, least: u32, most: u32) -> u32 {
    let fits = |log2: &u32| (u64::from(slots) << log2) as f64 * fill > pairs as f64;
    (least..most).find(fits).unwrap_or(most.max(least))
}

/// The data table of a bucket: 0 for those below `1 << first_log2`.
#[inline(always)]
pub(crate) fn table_of(bucket: u64, first_log2: u32) -> usize {
    (u64::BITS - (bucket >> first_log2).leading_zeros()) as usize
}

/// log2 of the buckets of a data table.
pub(crate) fn table_log2(table: usize, first_log2: u32) -> u32 {
    first_log2 + (table as u32).saturating_sub(1)
}

/// The buckets of a key among `1 << log2`. The second choice is in the table in which the first one is.
#[inline(always)]
pub(crate) fn pair_among(log2: u32, first_log2: u32, hash: Hash) -> Pair {
    let first = h1(hash.0) & ((1 << log2) - 1);
    // The owner's first bucket number equals its size, except for the first table, which begins at 0.
    let size = 1 << (first | 1 << first_log2).ilog2();
    [first, first & size | h2(hash.0) & (size - 1)]
}

/// The present geometry.
#[derive(Debug, Default)]
pub(crate) struct Published(AtomicU64);

impl Published {
    pub(crate) fn new(geometry: Geometry) -> Published {
        Published(AtomicU64::new(geometry.0))
    }

    #[inline(always)]
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn publish(&self, geometry: Geometry) {
        self.0.store(geometry.0, Ordering::Release);
    }
}
