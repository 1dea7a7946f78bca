//! Size classes: eight per doubling, so that a slot wastes at most an eighth of its item, and of its slab. A slab holds
//! slots of one size.
//!
//! A *narrow* class has slabs of one segment. From a sixteenth of a segment on, its slots are as large as so many can
//! be in a segment. Since few large ones fit, those wasted a third where two fit, and half where an item takes whole
//! segments. So a heap that is large enough puts items larger than an eighth of a segment into *wide* classes, whose
//! slabs are several segments in a row. A smaller heap does not: it would have more in slabs that are partly empty.

/// Smallest slot in bytes. Slots are multiples of 16 bytes, so an offset's low 4 bits are free.
pub(super) const SLOT_BYTES_MIN: u64 = 32;
/// Number of classes of a heap with the largest segments, at most.
pub(super) const CLASSES_MAX: usize = 128;

/// If a segment has fewer slots than this, they are as large as so many can be.
const SLOTS_FITTED: u64 = 16;

/// Segments of the slabs of wide classes, the smallest first. One size on the crash lab's machine, whose pools are
/// tiny.
const WIDE_SLABS: &[u64] = if SIMULATED { &[4] } else { &[8, 64] };
/// Slots of wide slabs, for each size. With fewer, larger slabs waste less, or whole segments do.
#[rustfmt::skip]
const WIDE_SLOTS: &[u64] = if SIMULATED { &[6, 5, 4, 3] } else { &[
    57, 52, 48, 44, 41, 38, 36, 34, 32, 29, 27, 25, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7,
] };
/// Items larger than this fraction of a segment may be in wide slabs.
const WIDE_FRACTION: u64 = if SIMULATED { 2 } else { 8 };
const SIMULATED: bool = cfg!(feature = "simulated");

/// All sizes are multiples of this.
const UNIT_BYTES: u64 = 16;
/// Fraction bits of a reciprocal.
const RECIPROCAL_SHIFT: u32 = 40;

/// A slot size.
#[derive(Debug)]
struct Class {
    bytes: u64,
    /// One divided by its units, rounded up: a division would take as long as the rest of a free.
    reciprocal: u64,
    /// Segments of a slab.
    segments: u64,
    /// Slots of a slab.
    slots: u64,
}

impl Class {
    fn new(bytes: u64, segments: u64, segment_bytes: u64) -> Class {
        Class {
            bytes,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(bytes / UNIT_BYTES),
            segments,
            slots: segments * segment_bytes / bytes,
        }
    }
}

/// The slot sizes of one heap: first those of narrow classes, then those of wide ones.
#[derive(Debug)]
pub(super) struct Classes {
    classes: Vec<Class>,
    /// For each number of units, the smallest narrow class that holds them.
    of_units: Vec<u8>,
    /// Items up to this size are in narrow slabs.
    narrow_bytes: u64,
}

/// Sizes of narrow classes: up to half a segment.
fn narrow_sizes(segment_bytes: u64) -> Vec<u64> {
    let least_fitted = segment_bytes / SLOTS_FITTED;
    let next = |&size: &u64| Some(size + ((1 << size.ilog2()) / 8).max(UNIT_BYTES));
    let mut sizes: Vec<u64> = std::iter::successors(Some(SLOT_BYTES_MIN), next)
        .take_while(|&size| size <= least_fitted || size == SLOT_BYTES_MIN)
        .collect();
    for slots in (2..SLOTS_FITTED).rev() {
        let size = segment_bytes / slots / UNIT_BYTES * UNIT_BYTES;
        if sizes.last().is_none_or(|&last| last < size) {
            sizes.push(size);
        }
    }
    sizes
}

impl Classes {
    /// The classes of a heap with such segments.
    pub(super) fn new(segment_bytes: u64) -> Classes {
        let narrow = narrow_sizes(segment_bytes);
        let mut of_units = Vec::new();
        for (class, size) in narrow.iter().enumerate() {
            of_units.resize((size / UNIT_BYTES) as usize + 1, class as u8);
        }
        let mut classes: Vec<Class> =
            narrow.into_iter().map(|bytes| Class::new(bytes, 1, segment_bytes)).collect();
        let narrow_bytes = segment_bytes / WIDE_FRACTION;
        let mut last = narrow_bytes;
        for &segments in WIDE_SLABS {
            for slots in WIDE_SLOTS {
                let size = segments * segment_bytes / slots / UNIT_BYTES * UNIT_BYTES;
                if size > last {
                    classes.push(Class::new(size, segments, segment_bytes));
                    last = size;
                }
            }
        }
        Classes { classes, of_units, narrow_bytes }
    }

    pub(super) fn count(&self) -> usize {
        self.classes.len()
    }

    /// The slot sizes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.classes.iter().map(|class| class.bytes)
    }

    /// Slot size of a class, if there is such a class.
    #[inline]
    pub(super) fn size(&self, class: usize) -> Option<u64> {
        self.classes.get(class).map(|class| class.bytes)
    }

    /// Segments of a slab of a class.
    pub(super) fn segments(&self, class: usize) -> u64 {
        self.classes.get(class).map_or(1, |class| class.segments)
    }

    /// Slots of a slab of a class.
    pub(super) fn slots(&self, class: usize) -> u64 {
        self.classes.get(class).map_or(0, |class| class.slots)
    }

    /// The smallest narrow class whose slots hold `bytes`; `None` if such an item takes whole segments.
    #[inline]
    pub(super) fn narrow_class_of(&self, bytes: u64) -> Option<usize> {
        let units = bytes.div_ceil(UNIT_BYTES);
        self.of_units.get(units as usize).map(|&class| class.into())
    }

    /// The smallest wide class whose slots hold `bytes`; `None` if such an item needs a narrow one, or takes whole
    /// segments in any heap.
    #[inline]
    pub(super) fn wide_class_of(&self, bytes: u64) -> Option<usize> {
        if bytes <= self.narrow_bytes {
            return None;
        }
        let first = self.classes.partition_point(|class| class.segments == 1);
        let wide = self.classes.get(first..)?;
        let class = first + wide.partition_point(|class| class.bytes < bytes);
        (class < self.classes.len()).then_some(class)
    }

    /// The number of the slot that begins `within` bytes after the start of a slab of this class.
    #[inline]
    pub(super) fn slot_at(&self, class: usize, within: u64) -> Option<u64> {
        let Class { bytes, reciprocal, .. } = self.classes.get(class)?;
        // Exact as long as the units of a slab, and of a slot, together have fewer bits than the reciprocal.
        let slot = (within / UNIT_BYTES * reciprocal) >> RECIPROCAL_SHIFT;
        (slot * bytes == within).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_their_items_with_little_waste() {
        for segment_bytes in [1 << 13, 1 << 16] {
            let classes = Classes::new(segment_bytes);
            assert!(classes.count() <= CLASSES_MAX, "{}", classes.count());
            for bytes in 1..=segment_bytes / 2 {
                let size = classes.size(classes.narrow_class_of(bytes).unwrap()).unwrap();
                assert!(size >= bytes && size.is_multiple_of(16));
                let units = bytes.next_multiple_of(UNIT_BYTES);
                let least_bytes = units.max(SLOT_BYTES_MIN);
                assert!(
                    units > segment_bytes / 8 || size * 8 <= least_bytes * 9,
                    "{bytes} in {size}"
                );
                // What is left of a segment is wasted, too.
                let is_fitted = segment_bytes / size == segment_bytes / units;
                assert!(units <= segment_bytes / 16 || is_fitted, "{bytes} in {size}");
            }
            assert_eq!(classes.narrow_class_of(segment_bytes / 2 + 1), None);
        }
    }

    /// Of each byte of an item's share of its slab, or of its segments, at most an eighth is unused.
    #[test]
    fn items_of_a_large_heap_waste_little_whatever_their_size() {
        for segment_bytes in [1 << 13, 1 << 16] {
            let classes = Classes::new(segment_bytes);
            assert_eq!(classes.wide_class_of(segment_bytes / 8), None);
            for bytes in segment_bytes / 8 + 1..=16 * segment_bytes {
                let share = match classes.wide_class_of(bytes) {
                    Some(class) => {
                        assert!(classes.size(class).unwrap() >= bytes);
                        classes.segments(class) * segment_bytes / classes.slots(class)
                    }
                    None => bytes.next_multiple_of(segment_bytes),
                };
                let unused = share - bytes.next_multiple_of(UNIT_BYTES);
                assert!(unused * 8 <= share, "{bytes} in {share}");
            }
        }
    }

    #[test]
    fn slots_are_found_where_they_begin_and_nowhere_else() {
        for segment_bytes in [128, 1 << 12] {
            let classes = Classes::new(segment_bytes);
            for (class, size) in classes.sizes().enumerate() {
                for within in 0..classes.segments(class) * segment_bytes {
                    let expected = within.is_multiple_of(size).then_some(within / size);
                    assert_eq!(classes.slot_at(class, within), expected, "{within} of {size}");
                }
            }
        }
        assert_eq!(Classes::new(128).slot_at(CLASSES_MAX, 0), None);
    }

    #[test]
    fn every_slot_of_the_largest_slabs_is_found() {
        let classes = Classes::new(1 << 16);
        for (class, size) in classes.sizes().enumerate() {
            for slot in 0..classes.slots(class) {
                assert_eq!(classes.slot_at(class, slot * size), Some(slot), "{slot} of {size}");
                assert_eq!(classes.slot_at(class, slot * size + 16), None);
            }
        }
    }

    #[test]
    fn the_smallest_segments_have_a_class() {
        assert_eq!(Classes::new(128).narrow_class_of(32), Some(0));
    }
}
