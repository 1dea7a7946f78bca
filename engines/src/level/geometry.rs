//! Which levels there are, and which resize is under way.

use pmem::sync::{Line, Ordering};
use std::ops::Range;

/// Most levels in use at once.
pub(super) const LEVELS_MAX: u32 = 16;

/// The resize that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    /// None.
    No = 0,
    /// The table grows: the interim level is the former bottom level.
    Expand = 1,
    /// The table shrinks: the interim level is the former top level.
    Shrink = 2,
}

impl Resize {
    /// What an engine root says.
    pub(super) fn of_root(root: u64) -> Option<Resize> {
        [Resize::No, Resize::Expand, Resize::Shrink].into_iter().find(|&each| each as u64 == root)
    }
}

/// Which levels there are, and the generation: one word, so that a reader gets all of it at one
/// instant and notices any change by one comparison.
///
/// ```text
///  63 … 15         14          13 … 8    7 6       5 … 0
/// | generation | one by one | lowest | resize  | top  |
/// ```
///
/// While the table expands, all levels from `lowest` to below the bottom one are interim: usually
/// one, but if its items find no room above, the table expands again before they have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Geometry(pub(super) u64);

impl Geometry {
    /// A level, in its lowest bits.
    const LEVEL_MASK: u32 = 63;
    const RESIZE_SHIFT: u32 = 6;
    /// A resize, in its lowest bits.
    const RESIZE_MASK: u64 = 3;
    const LOWEST_SHIFT: u32 = 8;
    const ONE_BY_ONE: u64 = 1 << 14;
    const GENERATION_SHIFT: u32 = 15;

    /// The first geometry of an open table; `is_one_by_one`: searches look at one bucket after the
    /// other.
    pub(super) fn first(top: u32, lowest: u32, resize: Resize, is_one_by_one: bool) -> Geometry {
        let one_by_one = if is_one_by_one { Self::ONE_BY_ONE } else { 0 };
        Geometry(Geometry::new(top, lowest, resize, 1).0 | one_by_one)
    }

    fn new(top: u32, lowest: u32, resize: Resize, generation: u64) -> Geometry {
        Geometry(
            u64::from(top)
                | (resize as u64) << Self::RESIZE_SHIFT
                | u64::from(lowest) << Self::LOWEST_SHIFT
                | generation << Self::GENERATION_SHIFT,
        )
    }

    #[inline(always)]
    pub(super) fn top(self) -> u32 {
        self.0 as u32 & Self::LEVEL_MASK
    }

    #[inline(always)]
    pub(super) fn bottom(self) -> u32 {
        self.top() - 1
    }

    /// The lowest level that may hold items.
    #[inline(always)]
    pub(super) fn lowest(self) -> u32 {
        (self.0 >> Self::LOWEST_SHIFT) as u32 & Self::LEVEL_MASK
    }

    #[inline(always)]
    pub(super) fn resize(self) -> Resize {
        match self.0 >> Self::RESIZE_SHIFT & Self::RESIZE_MASK {
            0 => Resize::No,
            1 => Resize::Expand,
            _ => Resize::Shrink,
        }
    }

    /// Whether a key has four buckets, all of whose words are looked at first: no resize is under
    /// way, and no design decision is switched off that this depends on.
    #[inline(always)]
    pub(super) fn has_fast_path(self) -> bool {
        self.0 & (Self::RESIZE_MASK << Self::RESIZE_SHIFT | Self::ONE_BY_ONE) == 0
    }

    /// The level whose items are being rehashed.
    #[inline(always)]
    pub(super) fn interim(self) -> Option<u32> {
        self.interims().next()
    }

    /// All levels whose items are to be rehashed.
    #[inline(always)]
    pub(super) fn interims(self) -> impl Iterator<Item = u32> {
        match self.resize() {
            Resize::No => 0..0,
            Resize::Expand => self.lowest()..self.bottom(),
            Resize::Shrink => self.top() + 1..self.top() + 2,
        }
    }

    /// All levels that may hold items.
    pub(super) fn levels(self) -> impl Iterator<Item = u32> {
        [self.top(), self.bottom()].into_iter().chain(self.interims())
    }

    /// The words of the buckets of all levels that may hold items; they adjoin.
    pub(super) fn words(self) -> Range<u64> {
        let lowest = self.levels().min().unwrap_or_default();
        let highest = self.levels().max().unwrap_or_default();
        1 << lowest..2 << highest
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> Self::GENERATION_SHIFT
    }

    /// The geometry after this one.
    pub(super) fn next(self, top: u32, lowest: u32, resize: Resize) -> Geometry {
        let next = Geometry::new(top, lowest, resize, self.generation() + 1);
        Geometry(next.0 | self.0 & Self::ONE_BY_ONE)
    }
}

/// The present geometry, and what else searches must know. In a separate line: all read it, few write it.
#[derive(Debug, Default)]
pub(super) struct Published(Line);

impl Published {
    /// Word: the [`Geometry`].
    const GEOMETRY: usize = 0;
    /// Word: whether the bottom level is searched first.
    const BOTTOM_FIRST: usize = 1;
    /// Word: how often a version came around.
    const WRAPS: usize = 2;

    pub(super) fn new(geometry: Geometry) -> Published {
        let line = Line::default();
        line.0[Self::GEOMETRY].store(geometry.0, Ordering::Relaxed);
        Published(line)
    }

    #[inline(always)]
    pub(super) fn geometry(&self) -> Geometry {
        Geometry(self.0.0[Self::GEOMETRY].load(Ordering::Acquire))
    }

    pub(super) fn publish(&self, geometry: Geometry) {
        self.0.0[Self::GEOMETRY].store(geometry.0, Ordering::Release);
    }

    /// Whether the bottom level is searched before the top one. Dynamic search: the one with more
    /// items first.
    #[inline(always)]
    pub(super) fn is_bottom_first(&self) -> bool {
        self.0.0[Self::BOTTOM_FIRST].load(Ordering::Relaxed) & 1 != 0
    }

    pub(super) fn set_bottom_first(&self, is_first: bool) {
        self.0.0[Self::BOTTOM_FIRST].store(u64::from(is_first), Ordering::Relaxed);
    }

    /// How often a version has come around to the first one. Equal words mean an unchanged bucket
    /// only if that did not happen meanwhile.
    #[inline(always)]
    pub(super) fn wraps(&self) -> u64 {
        self.0.0[Self::WRAPS].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn count_wrap(&self) {
        self.0.0[Self::WRAPS].fetch_add(1, Ordering::Release);
    }
}
