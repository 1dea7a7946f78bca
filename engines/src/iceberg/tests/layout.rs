//! The states that a resize passes through, and the shapes that tables can have.

use crate::iceberg::Shape;
use crate::iceberg::layout::{GENERATION, Geometry};

#[test]
fn a_doubling_passes_through_five_geometries() {
    let before = Geometry::new(4, 5);
    let during = before.begin(true, true);
    assert_eq!((during.blocks_1(), during.blocks_2()), (32, 64));
    assert!(during.resizing_1() && during.resizing_2());
    assert_eq!((during.source_1(17), during.source_1(3)), (1, 3));
    assert_ne!(before.moved_1(), during.moved_1());
    assert!(during.collects_spilled() && !during.is_draining() && !during.is_clearing());
    let draining = during.end_2().end_1();
    assert!(draining.is_resizing() && draining.collects_spilled() && draining.is_draining());
    let clearing = draining.end_draining();
    assert!(clearing.is_resizing() && clearing.collects_spilled() && clearing.is_clearing());
    let after = clearing.end_clearing();
    assert!(!after.is_resizing() && !after.collects_spilled() && !after.is_clearing());
    assert_eq!((after.blocks_1(), after.0 / GENERATION), (32, 5));
    assert_eq!(Geometry::new(32, 32).blocks_1(), 1 << 32);
    let only_level_2 = before.begin(false, true);
    assert_eq!((only_level_2.blocks_1(), only_level_2.blocks_2()), (16, 64));
    assert!(!only_level_2.resizing_1());
}

#[test]
fn a_shrink_is_the_reverse() {
    let before = Geometry::new(5, 6);
    let during = before.begin_shrink(true, true);
    assert_eq!((during.blocks_1(), during.blocks_2()), (16, 32));
    assert_eq!((during.span_1(), during.span_2()), (32, 64));
    assert_eq!((during.families_1(), during.families_2()), (16, 32));
    assert!(during.is_resizing() && during.shrinking_1() && during.shrinking_2());
    assert!(!during.collects_spilled());
    // A key comes from the block that more bits of its hash select, and goes to the one that fewer select.
    assert_eq!((during.source_1(0x71), during.home(0x71)), (17, 1));
    assert_eq!(during.source_blocks_2(), 64);
    assert_eq!((during.family_1(17), during.family_2(33)), (1, 1));
    assert_ne!(before.moved_1(), during.moved_1());
    let level_2_left = during.end_1();
    assert!(!level_2_left.resizing_1() && level_2_left.shrinking_2());
    assert_eq!((level_2_left.source_1(0x71), level_2_left.span_1()), (1, 16));
    let after = level_2_left.end_2();
    assert!(!after.is_resizing() && !after.shrinking_1() && !after.shrinking_2());
    assert_eq!((after.blocks_1(), after.blocks_2()), (16, 32));
    // A block that a shrink has marked as moved counts as unmoved in a doubling.
    assert_ne!(after.begin(true, true).moved_1(), after.moved_1());
}

#[test]
fn shapes_survive_encoding_and_odd_ones_are_refused() {
    let shape = Shape { level_1_slots: 32, level_2_slots: 6, ..Shape::default() };
    assert_eq!(Shape::decode(&shape.encode()), Ok(shape));
    let odd = Shape { level_1_slots: 48, ..shape };
    assert!(Shape::decode(&odd.encode()).is_err());
}

#[test]
fn a_shape_for_many_pairs_begins_large() {
    let shape = Shape::default().for_pairs(1_000_000, 0.85);
    assert_eq!(shape.initial_log2, 14);
    assert_eq!(Shape::default().for_pairs(10, 0.85), Shape::default());
}
