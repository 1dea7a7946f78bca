//! Pairs of all sizes, and buckets of all numbers of slots.

use crate::harness::{Rewo, Table, cached, key, shape, value};
use crate::table::packed::{Packed, agree_with_a_map, late_ones_agree_with_a_map};
use engines::rewo::{Design, Shape};
use pmem::OpenError;
use pmem::medium::Dram;

/// The ways to update, and a cached table that has room for few.
fn shapes(slots: u32) -> [Shape; 3] {
    let all = shape(slots, 1);
    let moved = Design { in_place_update: false, ..Design::default() };
    let searched = Design { evictions: 0, sidecar_prints: false, ..moved };
    [all, Shape { design: moved, ..cached(slots, 1, 4) }, Shape { design: searched, ..all }]
}

fn every_shape_agrees_with_a_map<const K: usize, const V: usize>(slots: u32, keys: u64) {
    for shape in shapes(slots) {
        agree_with_a_map::<Rewo, K, V>(shape, keys, 3000);
    }
}

#[test]
fn pairs_of_odd_sizes_agree_with_a_map() {
    every_shape_agrees_with_a_map::<1, 1>(15, 250);
    every_shape_agrees_with_a_map::<3, 5>(15, 800);
    every_shape_agrees_with_a_map::<9, 7>(15, 800);
    every_shape_agrees_with_a_map::<8, 9>(14, 800);
    every_shape_agrees_with_a_map::<16, 15>(8, 800);
    every_shape_agrees_with_a_map::<24, 100>(2, 400);
    every_shape_agrees_with_a_map::<7, 241>(1, 200);
}

#[test]
fn pairs_of_whole_words_agree_with_a_map() {
    every_shape_agrees_with_a_map::<8, 8>(15, 800);
    every_shape_agrees_with_a_map::<16, 8>(10, 800);
    every_shape_agrees_with_a_map::<8, 48>(4, 400);
    every_shape_agrees_with_a_map::<112, 8>(2, 400);
}

#[test]
fn pairs_of_sizes_told_at_run_time_agree_with_a_map() {
    for shape in shapes(10) {
        late_ones_agree_with_a_map::<Rewo, 16, 8>(shape, 800, 3000);
    }
    for shape in shapes(8) {
        late_ones_agree_with_a_map::<Rewo, 13, 17>(shape, 800, 3000);
    }
}

#[test]
fn keys_without_values_are_a_set() {
    every_shape_agrees_with_a_map::<1, 0>(15, 200);
    every_shape_agrees_with_a_map::<8, 0>(15, 800);
    every_shape_agrees_with_a_map::<13, 0>(15, 800);
    every_shape_agrees_with_a_map::<248, 0>(1, 100);
}

#[test]
fn any_number_of_slots_agrees_with_a_map() {
    for slots in 1..=15 {
        every_shape_agrees_with_a_map::<8, 8>(slots, 300);
    }
}

#[test]
fn any_number_of_slots_grows_and_is_recovered() {
    for slots in [1, 2, 7, 15] {
        let table = Table::<Dram>::new(shape(slots, 0), 0.85);
        table.fill(0..6000);
        table.assert_holds(0..6000);
        let again = table.recovered(&table.image());
        for index in (0..6000).step_by(2) {
            assert_eq!(again.remove(key(index)), Some(value(index)));
        }
        again.assert_holds((1..6000).step_by(2));
    }
}

fn error_of<const K: usize, const V: usize>(slots: u32) -> Option<OpenError> {
    Packed::<Rewo, K, V>::try_new(shape(slots, 2), 0.85).err()
}

#[test]
fn pairs_that_do_not_fit_a_bucket_are_refused() {
    let is_refused = |error: Option<OpenError>| matches!(error, Some(OpenError::Corrupt { .. }));
    assert!(is_refused(error_of::<16, 15>(9)), "279 bytes");
    assert!(is_refused(error_of::<16, 16>(8)), "256 bytes, and the meta word");
    assert!(is_refused(error_of::<249, 0>(1)));
    assert!(is_refused(error_of::<8, 241>(1)));
    assert!(is_refused(error_of::<512, 4096>(1)), "a pair longer than any bucket");
    assert!(is_refused(error_of::<0, 8>(1)), "no key at all");
    assert!(is_refused(error_of::<8, 8>(0)), "no slots");
    assert!(is_refused(error_of::<1, 0>(16)), "more slots than bits");
    // As much as there is room for.
    assert!(error_of::<16, 15>(8).is_none());
    assert!(error_of::<16, 16>(7).is_none());
    assert!(error_of::<248, 0>(1).is_none());
    assert!(error_of::<8, 240>(1).is_none());
    assert!(error_of::<1, 0>(15).is_none());
    let error = |shape| Packed::<Rewo, 8, 8>::try_new(shape, 0.85).err();
    assert!(is_refused(error(cached(15, 2, 17))), "a cached table smaller than any");
    assert!(error(cached(15, 2, 16)).is_none());
    let evictions = Design { evictions: 3, ..Design::default() };
    assert!(is_refused(error(Shape { design: evictions, ..shape(15, 2) })), "three evictions");
}
