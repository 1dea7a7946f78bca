//! Size classes: four per doubling, so that at most a fifth of a slot is wasted.

/// Smallest slot in bytes. Slots are multiples of 16 bytes, so an offset's low 4 bits are free.
pub(super) const SLOT_BYTES_MIN: u64 = 32;
/// Most classes that the largest segment has.
pub(super) const CLASSES_MAX: usize = 48;

/// The slot sizes of one heap.
#[derive(Debug)]
pub(super) struct Classes {
    sizes: Vec<u64>,
}

impl Classes {
    /// Classes up to half a segment.
    pub(super) fn new(segment_bytes: u64) -> Classes {
        let mut sizes = Vec::new();
        let mut size = SLOT_BYTES_MIN;
        while size <= (segment_bytes / 2).max(SLOT_BYTES_MIN) {
            sizes.push(size);
            size += (size.next_power_of_two() / 8).max(16);
            if sizes.last().is_some_and(|last| last.is_power_of_two() && *last >= 128) {
                size = sizes[sizes.len() - 1] / 4 * 5;
            }
        }
        Classes { sizes }
    }

    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// The slot sizes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.sizes.iter().copied()
    }

    /// Slot size of a class, if there is such a class.
    pub(super) fn size(&self, class: usize) -> Option<u64> {
        self.sizes.get(class).copied()
    }

    /// The smallest class whose slots hold `bytes`; `None` if such an item takes segments of
    /// its own.
    pub(super) fn class_of(&self, bytes: u64) -> Option<usize> {
        let class = self.sizes.partition_point(|&size| size < bytes);
        (class < self.sizes.len()).then_some(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_their_items_with_little_waste() {
        let classes = Classes::new(1 << 16);
        assert!(classes.count() <= CLASSES_MAX, "{}", classes.count());
        for bytes in 1..=1 << 15 {
            let size = classes.size(classes.class_of(bytes).unwrap()).unwrap();
            assert!(size >= bytes && size.is_multiple_of(16));
            assert!(bytes < 64 || size * 4 <= bytes * 5 + 64, "{bytes} in {size}");
        }
        assert_eq!(classes.class_of((1 << 15) + 1), None);
    }

    #[test]
    fn the_smallest_segments_have_a_class() {
        assert_eq!(Classes::new(128).class_of(32), Some(0));
    }
}
