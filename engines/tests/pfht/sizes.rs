//! Pairs of all sizes, buckets of all numbers of slots, stashes of all sizes; and zeros.

use crate::harness::{OfPfht, Table, WHEN_FULL, key, shape, stashing, value};
use crate::table::packed::{Packed, agree_with_a_map, late_ones_agree_with_a_map};
use engines::pfht::{Design, Shape};
use pmem::OpenError;
use pmem::medium::Dram;

/// The designs, each with another stash.
fn shapes(slots: u32) -> [Shape; 4] {
    let paper = Shape { design: Design::PAPER, ..shape(slots, 1) };
    let design = Design { displaces: false, ..Design::default() };
    let no_displacement = Shape { design, ..stashing(slots, 1, 5) };
    [shape(slots, 1), paper, no_displacement, stashing(slots, 1, 0)]
}

fn every_shape_agrees_with_a_map<const K: usize, const V: usize>(slots: u32, keys: u64) {
    for shape in shapes(slots) {
        agree_with_a_map::<OfPfht, K, V>(shape, keys, 3000);
    }
}

#[test]
fn pairs_of_odd_sizes_agree_with_a_map() {
    every_shape_agrees_with_a_map::<1, 1>(8, 250);
    every_shape_agrees_with_a_map::<3, 5>(8, 800);
    every_shape_agrees_with_a_map::<9, 7>(7, 800);
    every_shape_agrees_with_a_map::<16, 15>(3, 800);
    every_shape_agrees_with_a_map::<13, 100>(1, 200);
}

#[test]
fn pairs_of_sizes_told_at_run_time_agree_with_a_map() {
    for shape in shapes(3) {
        late_ones_agree_with_a_map::<OfPfht, 16, 15>(shape, 800, 3000);
    }
}

/// The key and the value of number 0 are nothing but zeros.
#[test]
fn pairs_of_whole_words_agree_with_a_map() {
    every_shape_agrees_with_a_map::<8, 8>(8, 800);
    every_shape_agrees_with_a_map::<16, 8>(5, 800);
    every_shape_agrees_with_a_map::<8, 48>(2, 400);
    every_shape_agrees_with_a_map::<112, 8>(1, 200);
}

#[test]
fn keys_without_values_are_a_set() {
    every_shape_agrees_with_a_map::<1, 0>(8, 200);
    every_shape_agrees_with_a_map::<8, 0>(8, 800);
    every_shape_agrees_with_a_map::<120, 0>(1, 100);
}

#[test]
fn any_number_of_slots_and_any_stash_agrees_with_a_map() {
    for slots in 1..=8 {
        every_shape_agrees_with_a_map::<8, 8>(slots, 300);
    }
    for percent in 0..=5 {
        agree_with_a_map::<OfPfht, 8, 8>(stashing(2, 0, percent), 500, 4000);
    }
}

#[test]
fn any_number_of_slots_grows_and_is_recovered() {
    for (slots, resize_at) in [(1, 0.3), (2, 0.85), (7, 0.85), (8, WHEN_FULL)] {
        let table = Table::<Dram>::new(shape(slots, 0), resize_at);
        table.fill(0..6000);
        table.assert_holds(0..6000);
        let again = table.recovered(&table.image());
        for index in (0..6000).step_by(2) {
            assert_eq!(again.remove(key(index)), Some(value(index)));
        }
        again.assert_holds((1..6000).step_by(2));
    }
}

fn error_of<const K: usize, const V: usize>(shape: Shape) -> Option<OpenError> {
    Packed::<OfPfht, K, V>::try_new(shape, 0.85).err()
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let is_refused = |error: Option<OpenError>| matches!(error, Some(OpenError::Corrupt { .. }));
    assert!(is_refused(error_of::<16, 15>(shape(4, 2))), "124 bytes, and the bitmap");
    assert!(is_refused(error_of::<121, 0>(shape(1, 2))));
    assert!(is_refused(error_of::<8, 113>(shape(1, 2))));
    assert!(is_refused(error_of::<512, 4096>(shape(1, 2))), "a pair longer than any bucket");
    assert!(is_refused(error_of::<0, 8>(shape(1, 2))), "no key at all");
    assert!(is_refused(error_of::<8, 8>(shape(0, 2))), "no slots");
    assert!(is_refused(error_of::<1, 0>(shape(9, 2))), "more slots than fingerprints");
    assert!(is_refused(error_of::<8, 8>(stashing(8, 2, 6))), "more than the paper's largest stash");
    assert!(is_refused(error_of::<8, 8>(shape(8, 40))), "more buckets than there can be");
    // As much as there is room for.
    assert!(error_of::<16, 15>(shape(3, 2)).is_none());
    assert!(error_of::<120, 0>(shape(1, 2)).is_none());
    assert!(error_of::<8, 8>(stashing(8, 2, 5)).is_none());
    assert!(error_of::<1, 0>(shape(8, 2)).is_none());
}
