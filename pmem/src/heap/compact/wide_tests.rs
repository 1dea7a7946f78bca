//! Slabs of several segments, which only heaps of some size have.

use super::tests::{Table, is_kept, item_bytes_of};
use crate::heap::salvage::{Remains, for_each_item};
use crate::heap::segment::usage;
use crate::heap::tests::{SMALL_SEGMENT_LOG2, spec};
use crate::heap::{Heap, Offset, WIDE_SLAB_FRACTION};
use crate::medium::{Dram, Medium, Memory};
use crate::pool::Pool;
use crate::superblock::Place;
use crate::sync::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

const SEGMENT: u64 = 1 << SMALL_SEGMENT_LOG2;
/// From this size on, a heap has slabs of all kinds.
const LARGE_BYTES: u64 = 64 * WIDE_SLAB_FRACTION * SEGMENT;
/// Of values in slabs of 8 and of 64 segments.
const SIZES: [usize; 6] = [700, 1500, 3000, 4100, 9000, 30_000];

/// A heap with small values that is large, and may have as much again.
fn large() -> Table {
    let table = Table::new(2 * LARGE_BYTES, SMALL_SEGMENT_LOG2);
    while table.heap.usage().pool_bytes < LARGE_BYTES + (1 << 20) {
        assert!(table.add(400).is_some());
    }
    table
}

/// Bytes of segments that are not free.
fn taken_bytes(heap: &Heap<Dram>) -> u64 {
    let free = heap.segments_free.load(Ordering::Relaxed);
    (heap.segments_taken.load(Ordering::Relaxed) - free) * SEGMENT
}

/// Number of segments of wide slabs, except the first of each.
fn parts(heap: &Heap<Dram>) -> usize {
    heap.adopt_all();
    let is_part = |segment: &u64| heap.state(*segment).usage.load(Ordering::Relaxed) == usage::PART;
    (0..heap.pool.medium().size() / SEGMENT).filter(is_part).count()
}

#[test]
fn items_of_a_large_heap_take_little_more_than_their_bytes() {
    let table = large();
    for bytes in
        [513, 700, 1100, 1500, 2100, 3000, 4100, 5000, 9000, 17_000, 30_000, 36_000, 70_000]
    {
        let before = taken_bytes(&table.heap);
        let count = (1 << 20) / bytes;
        (0..count).for_each(|_| assert!(table.add(bytes).is_some()));
        let taken = taken_bytes(&table.heap) - before;
        let slab = 64 * SEGMENT;
        let most = count as u64 * item_bytes_of(bytes) * 8 / 7 + slab;
        assert!(taken <= most, "{count} of {bytes} take {taken}, more than {most}");
    }
    assert!(parts(&table.heap) > 0);
    table.assert_sound();
}

#[test]
fn a_small_heap_has_no_wide_slabs() {
    let table = Table::new(8 * WIDE_SLAB_FRACTION * SEGMENT / 2, SMALL_SEGMENT_LOG2);
    SIZES.into_iter().for_each(|bytes| (0..8).for_each(|_| assert!(table.add(bytes).is_some())));
    assert_eq!(parts(&table.heap), 0);
}

#[test]
fn what_wide_slabs_held_serves_any_size() {
    for (first, then) in
        [(700, 100), (30_000, 100), (100, 30_000), (3000, 30_000), (30_000, 200_000)]
    {
        let table = Table::new(2 * LARGE_BYTES, SMALL_SEGMENT_LOG2);
        let filled = table.fill(first);
        table.remove_unless(is_kept);
        let added = table.fill(then);
        let added_bytes = added as u64 * item_bytes_of(then);
        let left_bytes = filled as u64 * item_bytes_of(first) / 10;
        let pool_bytes = table.heap.usage().pool_bytes;
        assert!(
            added_bytes + left_bytes > pool_bytes * 8 / 10,
            "{added} of {then} after {filled} of {first} in {pool_bytes}"
        );
        table.assert_sound();
    }
}

#[test]
fn a_full_heap_with_wide_slabs_replaces_items_for_ever() {
    // As many bytes, while others take whatever comes free; or fewer.
    for (value_bytes, shrinks) in
        SIZES.into_iter().flat_map(|bytes| [(bytes, false), (bytes, true)])
    {
        let table = Table::new(LARGE_BYTES * 3 / 2, SMALL_SEGMENT_LOG2);
        let filled = table.fill(value_bytes);
        assert!(parts(&table.heap) > 0);
        while table.heap.write_item(b"key", &[1], None).is_ok() {}
        let mut slots = table.slots.lock().unwrap();
        for n in 0..2 * filled {
            let index = n * 7 % filled;
            let bytes = if shrinks { value_bytes / (1 + index % 3) } else { value_bytes };
            let replaced = slots[index].unwrap();
            let at = table.heap.write_item(&index.to_le_bytes(), &vec![6; bytes], Some(replaced));
            slots[index] = Some(at.unwrap_or_else(|error| panic!("{n} of {value_bytes}: {error}")));
            table.heap.reclaim(replaced);
            if !shrinks {
                let _ = table.heap.write_item(b"key", &vec![1; SIZES[n % 6]], None);
                let _ = table.heap.write_item(b"key", &[1], None);
            }
        }
    }
}

/// Values too long for every free run are made room for, where slabs lie in between.
#[test]
fn a_window_is_emptied_of_slabs() {
    let table = Table::new(2 * LARGE_BYTES, SMALL_SEGMENT_LOG2);
    table.fill(3000);
    // A little of each slab goes. What is free is then nowhere in a row.
    table.remove_unless(|index| index % 5 != 0);
    let bytes = table.heap.usage().pool_bytes as usize / 20;
    assert!(table.add(bytes).is_some());
    table.assert_sound();
}

#[test]
fn wide_slabs_are_found_again() {
    let file = tempfile::tempfile().unwrap();
    let medium = |file: &std::fs::File| {
        let size = file.metadata().unwrap().len();
        Memory::mapped(file.try_clone().unwrap(), size, 1 << 30, true).unwrap()
    };
    let place = Place { boot_id: [1, 1], ..Place::default() };
    let pool = Pool::create(medium(&file), &spec(SMALL_SEGMENT_LOG2), place).unwrap();
    let first = Heap::open(Arc::new(pool)).unwrap();
    first.sweep().finish();
    let fill = |heap: &Heap<Dram>, count: usize| -> Vec<Offset> {
        let add = |n: usize| heap.write_item(&n.to_le_bytes(), &vec![n as u8; SIZES[n % 6]], None);
        (0..count).map(|n| add(n).unwrap()).collect()
    };
    let items = fill(&first, 6000);
    let before = parts(&first);
    assert!(before > 64);
    drop(first);

    let heap = Heap::open(Arc::new(Pool::open(medium(&file), place).unwrap())).unwrap();
    let kept: Vec<Offset> = items.iter().copied().step_by(7).collect();
    let sweep = heap.sweep();
    // From the last one on: a slab's further segments are asked for before its first one.
    kept.iter().rev().for_each(|&at| sweep.mark(at).unwrap());
    assert_eq!(parts(&heap), before);
    sweep.finish();
    let bytes_before = heap.usage().pool_bytes;
    let mut all = fill(&heap, 5000);
    assert_eq!(heap.usage().pool_bytes, bytes_before, "freed space was not used");
    let guard_of = crate::epoch::Epochs::new().unwrap();
    let guard = guard_of.pin();
    for (n, &at) in items.iter().enumerate().step_by(7) {
        let item = heap.item(at, &guard).unwrap();
        assert!(item.is_sound() && item.key == n.to_le_bytes());
    }
    all.extend(&kept);
    let mut audit = heap.audit();
    all.iter().for_each(|&at| audit.mark(at, 1).unwrap());
    assert_eq!(audit.finish(&[]).0, 0);
}

/// The bytes of a heap, but for one damaged word.
struct Damaged<'a> {
    medium: &'a Dram,
    at: Offset,
    word: u64,
}

impl Remains for Damaged<'_> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = at + index as u64;
            let word = Offset(at & !7);
            let whole = if word == self.at { self.word } else { self.medium.load(word) };
            *byte = whole.to_le_bytes()[at as usize % 8];
        }
        true
    }

    fn len(&self) -> u64 {
        self.medium.size()
    }
}

/// The items of a table that salvage does not find if the word at `at` is another one.
fn not_salvaged(table: &Table, at: Offset, word: u64) -> usize {
    let pool = table.heap.pool();
    let expected: HashSet<Offset> = table.slots.lock().unwrap().iter().flatten().copied().collect();
    let remains = Damaged { medium: pool.medium(), at, word };
    let mut found = HashSet::new();
    let mut add = |at, _| assert!(found.insert(at), "{at} is found twice");
    for_each_item(&remains, Some(&pool.superblock()), &mut add);
    expected.difference(&found).count()
}

#[test]
fn items_of_slabs_are_salvaged() {
    let table = large();
    SIZES.into_iter().for_each(|bytes| (0..40).for_each(|_| assert!(table.add(bytes).is_some())));
    let at = Offset(0);
    assert_eq!(not_salvaged(&table, at, table.heap.medium().load(at)), 0);
    // Without the descriptor of a slab: its items are found one by one.
    let is_slab = |segment: &u64| {
        table.heap.state(segment + 1).usage.load(Ordering::Relaxed) == usage::PART
            && table.heap.state(*segment).usage.load(Ordering::Relaxed) != usage::PART
    };
    let slabs = (0..table.heap.medium().size() / SEGMENT - 1).filter(is_slab);
    let damaged = |slab| not_salvaged(&table, table.heap.descriptor_at(slab).unwrap(), 5);
    assert!(slabs.map(damaged).all(|missing| missing == 0));
}

/// A damaged descriptor that names a wide class does not hide what lies in further segments.
#[test]
fn items_are_salvaged_behind_what_is_no_slab() {
    let table = Table::new(2 << 20, SMALL_SEGMENT_LOG2);
    (0..2000).for_each(|_| assert!(table.add(400).is_some()));
    let first = table.slots.lock().unwrap()[0].unwrap().0 / SEGMENT;
    let at = table.heap.descriptor_at(first).unwrap();
    let before = table.heap.medium().load(at);
    let classes = &table.heap.classes;
    let wide = (0..classes.count()).filter(|&class| classes.segments(class) > 1);
    for class in wide {
        let word = before & !0xff00 | (class as u64) << 8;
        assert_eq!(not_salvaged(&table, at, word), 0, "class {class}");
    }
}

/// What a slab's descriptor claims must be in its extent.
#[test]
fn a_slab_that_leaves_its_extent_is_damage() {
    let table = Table::new(1 << 20, SMALL_SEGMENT_LOG2);
    assert!(table.add(100).is_some());
    let heap = &table.heap;
    let last = heap.all_segments().last().unwrap();
    let class = heap.classes.count() as u64 - 1;
    heap.medium().store(heap.descriptor_at(last).unwrap(), 1 | class << 8);
    let refused = Heap::open(Arc::clone(&heap.pool)).unwrap_err().to_string();
    assert!(refused.contains("a slab leaves its extent"), "{refused}");
}

/// Another thread that sets up a slab's states has done so with some parts, and not yet with the first segment.
#[test]
fn an_item_is_found_while_another_thread_sets_up_its_slab() {
    let table = large();
    let heap = &table.heap;
    let is_further = |at: &Offset| heap.slab_of(*at) != at.0 >> heap.segment_log2;
    let at = (0..40).find_map(|_| {
        let index = table.add(3000).unwrap();
        table.slots.lock().unwrap()[index].filter(is_further)
    });
    let at = at.unwrap();
    let (first, segment) = (heap.slab_of(at), at.0 >> heap.segment_log2);
    let reopened = Heap::open(Arc::clone(&heap.pool)).unwrap();
    let part = reopened.state(segment);
    part.count.store((segment - first) as u32, Ordering::Relaxed);
    part.usage.store(usage::PART, Ordering::Release);
    reopened.sweep().mark(at).unwrap();
}
