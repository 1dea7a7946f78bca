//! Pairs that are not two words, and buckets of other than four slots.

use crate::harness::{Levels, NEVER, Table, key, shape, value};
use crate::table::packed;
use engines::level::{Design, Shape};
use pmem::medium::Dram;
use pmem::{LINE, OpenError};

type Packed<const K: usize, const V: usize> = packed::Packed<Levels, K, V>;

/// The ways to update: in place, into an empty slot, with a log entry.
fn designs() -> [Design; 3] {
    let all = Design::default();
    let moved = Design { in_place_update: false, ..all };
    [all, moved, Design { log_free_update: false, ..moved }]
}

fn every_design_agrees_with_a_map<const K: usize, const V: usize>(slots: u32, keys: u64) {
    for design in designs() {
        packed::agree_with_a_map::<Levels, K, V>(Shape { design, ..shape(slots, 1) }, keys, 6000);
    }
}

#[test]
fn pairs_of_sizes_told_at_run_time_agree_with_a_map() {
    for design in designs() {
        let shape = Shape { design, ..shape(4, 1) };
        packed::late_ones_agree_with_a_map::<Levels, 16, 15>(shape, 1200, 6000);
    }
}

#[test]
fn four_pairs_of_16_and_15_bytes_are_two_lines() {
    let table = Packed::<16, 15>::new(shape(4, 6), NEVER);
    for level in &table.occupancy().levels[..2] {
        assert_eq!(level.pool_bytes, level.slots / 4 * 2 * LINE, "{level:?}");
    }
    every_design_agrees_with_a_map::<16, 15>(4, 1200);
}

#[test]
fn pairs_of_odd_sizes_agree_with_a_map() {
    every_design_agrees_with_a_map::<1, 1>(4, 250);
    every_design_agrees_with_a_map::<3, 5>(4, 1200);
    every_design_agrees_with_a_map::<24, 100>(4, 1200);
    every_design_agrees_with_a_map::<4, 8>(7, 1200);
    every_design_agrees_with_a_map::<8, 1>(5, 1200);
    every_design_agrees_with_a_map::<9, 7>(8, 1200);
    every_design_agrees_with_a_map::<500, 4>(1, 300);
}

#[test]
fn pairs_of_whole_words_agree_with_a_map() {
    every_design_agrees_with_a_map::<8, 8>(4, 1200);
    every_design_agrees_with_a_map::<16, 32>(4, 1200);
    every_design_agrees_with_a_map::<24, 8>(3, 1200);
}

#[test]
fn keys_without_values_are_a_set() {
    every_design_agrees_with_a_map::<8, 0>(4, 1200);
    every_design_agrees_with_a_map::<5, 0>(4, 1200);
}

#[test]
fn any_number_of_slots_agrees_with_a_map() {
    for slots in 1..=8 {
        every_design_agrees_with_a_map::<8, 8>(slots, 600);
    }
}

fn error_of<const K: usize, const V: usize>(slots: u32) -> Option<OpenError> {
    Packed::<K, V>::try_new(shape(slots, 2), 0.85).err()
}

#[test]
fn pairs_that_do_not_fit_a_bucket_are_refused() {
    let is_refused = |error: Option<OpenError>| matches!(error, Some(OpenError::Corrupt { .. }));
    assert!(is_refused(error_of::<24, 100>(5)), "620 bytes in all");
    assert!(is_refused(error_of::<8, 56>(8)), "512 bytes, and the tokens");
    assert!(is_refused(error_of::<512, 1>(1)));
    assert!(is_refused(error_of::<4096, 8>(1)), "a key longer than any bucket");
    assert!(is_refused(error_of::<0, 8>(4)), "no key at all");
    assert!(is_refused(error_of::<8, 8>(0)), "no slots");
    assert!(is_refused(error_of::<8, 8>(9)), "more slots than tokens");
    // As much as there is room for.
    assert!(error_of::<8, 55>(8).is_none());
    assert!(error_of::<500, 8>(1).is_none());
    assert!(error_of::<500, 4>(1).is_none());
}

#[test]
fn one_slot_and_eight_slots_grow_and_are_recovered() {
    for slots in [1, 8] {
        let table = Table::<Dram>::new(shape(slots, 1), 0.85);
        table.fill(0..20_000);
        table.assert_holds(0..20_000);
        let again = table.recovered(&table.image());
        for index in (0..20_000).step_by(2) {
            assert_eq!(again.remove(key(index)), Some(value(index)));
        }
        again.assert_holds((1..20_000).step_by(2));
    }
}
