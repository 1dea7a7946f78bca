//! What a resize moves: section 3.2.

use crate::harness::{NEVER, Table, WHEN_FULL, key, shape, value};
use engines::level::{Design, Shape};
use pmem::medium::{Cost, Count, Dram, measure};

/// Items in the top and in the bottom level.
fn by_level(table: &Table<Count<Dram>>) -> [u64; 2] {
    let levels = table.occupancy().levels;
    [levels[0].pairs, levels[1].pairs]
}

/// Asserts that a resize that moved `items` wrote less than algorithms 5 and 6 do: per item the item,
/// which may lie across two lines, and its token; per bucket, of up to four items, the old tokens.
fn assert_cost(cost: Cost, items: u64) {
    // Both copies of the superblock, at the start and at the end.
    let of_geometry = 64;
    assert!(cost.flushes <= 2 * items + of_geometry, "{items} items: {cost:?}");
    assert!(cost.fences <= 3 * items / 2 + of_geometry, "{items} items: {cost:?}");
    assert!(cost.flushes >= items, "{items} items: {cost:?}");
}

#[test]
fn an_expansion_moves_the_bottom_third_only() {
    // Without movements nothing but the resize moves items.
    let design = Design { movement: false, bottom_to_top: false, ..Design::default() };
    let table = Table::<Count<Dram>>::new(Shape { design, ..shape(4, 10) }, WHEN_FULL);
    let capacity = table.capacity();
    let mut count = 0;
    let (before, cost) = loop {
        let before = by_level(&table);
        let ((), cost) = measure(|| {
            assert_eq!(table.insert(key(count), value(count)).unwrap(), None);
            table.settle();
        });
        count += 1;
        if cost.fences > 3 {
            break (before, cost);
        }
    };
    assert_eq!(table.capacity(), 2 * capacity);
    let [top, bottom] = by_level(&table);
    assert_eq!(top + bottom, count);
    // What was the top level is the bottom one now, and nothing has left it.
    assert!(bottom >= before[0], "{before:?}, then {top} and {bottom}");
    assert!(before[1] <= capacity / 3, "the old bottom level is a third of the table");
    assert!(top <= before[1] + 1, "{top} items moved up, there were {}", before[1]);
    assert_cost(cost, before[1] + 1);
    table.assert_holds(0..count);
}

#[test]
fn a_shrink_moves_the_top_two_thirds_only() {
    let table = Table::<Count<Dram>>::new(shape(4, 9), 0.85);
    let mut count = 0;
    while table.capacity() < 4 * 3 * 512 {
        table.fill(count..count + 16);
        count += 16;
    }
    table.settle();
    let kept = count / 5;
    for index in kept..count {
        assert_eq!(table.remove(key(index)), Some(value(index)));
    }
    let (capacity, before) = (table.capacity(), by_level(&table));
    let (halved, cost) = measure(|| table.shrink());
    assert!(halved);
    assert_eq!(table.capacity(), capacity / 2);
    let [top, bottom] = by_level(&table);
    assert!(top >= before[1], "what was the bottom level is the top one: {before:?}, then {top}");
    assert_eq!(top + bottom, kept);
    assert_cost(cost, before[0]);
    table.assert_holds(0..kept);
}

#[test]
fn a_resize_is_spread_over_the_insertions_that_follow() {
    let table = Table::<Count<Dram>>::new(shape(4, 11), 0.85);
    let mut count = 0;
    while !table.occupancy().resizing {
        table.fill(count..count + 1);
        count += 1;
    }
    let interim_buckets = 1 << 10;
    let first = count;
    while table.occupancy().resizing {
        let (_, cost) = measure(|| table.insert(key(count), value(count)).unwrap());
        // An item of its own and two buckets of others', each perhaps with a movement.
        assert!(cost.fences <= 9 * 9 + 32, "one insertion: {cost:?}");
        count += 1;
        assert!(count - first <= interim_buckets, "the resize does not end");
    }
    assert!(count - first <= interim_buckets / 2 + 1, "{} insertions", count - first);
    table.assert_holds(0..count);
}

#[test]
fn a_table_that_may_not_grow_says_that_it_is_full_and_works_on() {
    let table = Table::<Count<Dram>>::new(shape(4, 6), NEVER);
    let count = (0..).find(|&index| table.insert(key(index), value(index)).is_err()).unwrap();
    table.assert_holds(0..count);
    assert_eq!(table.get(key(count)), None, "what was refused is not there");
    for index in 0..count / 2 {
        assert_eq!(table.remove(key(index)), Some(value(index)));
    }
    table.fill(count..count + count / 4);
    table.assert_holds(count / 2..count + count / 4);
}
