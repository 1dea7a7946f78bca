//! Size classes: eight per doubling, so that a slot wastes at most an eighth of its item, and of its segment. From a
//! sixteenth of a segment on, slots are as large as so many can be in a segment. Items larger than an eighth of a
//! segment waste more, since fewer fit: a third where two fit, but hardly so, and half where they take whole segments.

/// Smallest slot in bytes. Slots are multiples of 16 bytes, so an offset's low 4 bits are free.
pub(super) const SLOT_BYTES_MIN: u64 = 32;
/// Number of classes of a heap with the largest segments, at most.
pub(super) const CLASSES_MAX: usize = 64;

/// If a segment has fewer slots than this, they are as large as so many can be.
const SLOTS_FITTED: u64 = 16;

/// All sizes are multiples of this.
const UNIT_BYTES: u64 = 16;
/// Fraction bits of a reciprocal.
const RECIPROCAL_SHIFT: u32 = 32;

/// A slot size.
#[derive(Debug)]
struct Class {
    bytes: u64,
    /// One divided by its units, rounded up: a division would take as long as the rest of a free.
    reciprocal: u64,
}

/// The slot sizes of one heap.
#[derive(Debug)]
pub(super) struct Classes {
    classes: Vec<Class>,
    /// For each number of units, the smallest class that holds them.
    of_units: Vec<u8>,
}

impl Classes {
    /// Classes up to half a segment.
    pub(super) fn new(segment_bytes: u64) -> Classes {
        let next = |size: &u64| Some(size + ((1 << size.ilog2()) / 8).max(UNIT_BYTES));
        let least_fitted = segment_bytes / SLOTS_FITTED;
        let mut sizes: Vec<u64> = std::iter::successors(Some(SLOT_BYTES_MIN), next)
            .take_while(|&size| size <= least_fitted || size == SLOT_BYTES_MIN)
            .collect();
        for slots in (2..SLOTS_FITTED).rev() {
            let size = segment_bytes / slots / UNIT_BYTES * UNIT_BYTES;
            if sizes.last().is_none_or(|&last| last < size) {
                sizes.push(size);
            }
        }
        let class = |&bytes: &u64| Class {
            bytes,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(bytes / UNIT_BYTES),
        };
        let mut of_units = Vec::new();
        for (class, size) in sizes.iter().enumerate() {
            of_units.resize((size / UNIT_BYTES) as usize + 1, class as u8);
        }
        Classes { classes: sizes.iter().map(class).collect(), of_units }
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

    /// The smallest class whose slots hold `bytes`; `None` if such an item takes whole segments.
    #[inline]
    pub(super) fn class_of(&self, bytes: u64) -> Option<usize> {
        let units = bytes.div_ceil(UNIT_BYTES);
        self.of_units.get(units as usize).map(|&class| class.into())
    }

    /// The number of the slot that begins `within` bytes after the start of a segment of this class.
    #[inline]
    pub(super) fn slot_at(&self, class: usize, within: u64) -> Option<u64> {
        let Class { bytes, reciprocal } = self.classes.get(class)?;
        // Exact as long as the units of a segment have fewer bits than the reciprocal.
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
                let size = classes.size(classes.class_of(bytes).unwrap()).unwrap();
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
            assert_eq!(classes.class_of(segment_bytes / 2 + 1), None);
        }
    }

    #[test]
    fn slots_are_found_where_they_begin_and_nowhere_else() {
        for segment_bytes in [128, 1 << 12, 1 << 16] {
            let classes = Classes::new(segment_bytes);
            for (class, size) in classes.sizes().enumerate() {
                for within in 0..segment_bytes {
                    let expected = within.is_multiple_of(size).then_some(within / size);
                    assert_eq!(classes.slot_at(class, within), expected, "{within} of {size}");
                }
            }
        }
        assert_eq!(Classes::new(128).slot_at(CLASSES_MAX, 0), None);
    }

    #[test]
    fn the_smallest_segments_have_a_class() {
        assert_eq!(Classes::new(128).class_of(32), Some(0));
    }
}
