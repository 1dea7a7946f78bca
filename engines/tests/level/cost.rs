//! What operations read and write: algorithms 1 to 4.

use crate::harness::{NEVER, Random, Table, key, shape, value};
use engines::level::{Design, Shape};
use pmem::medium::{Cost, Count, Dram, measure};

/// Slots of a bucket that is one line, if a pair is two words.
const SLOTS_OF_A_LINE: u32 = 3;

/// Lines, flushes and fences of one write.
fn writes(cost: Cost) -> (u64, u64, u64) {
    (cost.lines_written, cost.flushes, cost.fences)
}

/// A table filled to some load, and the number of its pairs.
fn filled(slots: u32, design: Design, percent: u64) -> (Table<Count<Dram>>, u64) {
    let table = Table::new(Shape { design, ..shape(slots, 10) }, NEVER);
    let count = table.capacity() * percent / 100;
    table.fill(0..count);
    (table, count)
}

#[test]
fn an_insertion_without_movement_writes_no_more_than_algorithm_3() {
    let still = Design { movement: false, ..Design::default() };
    let (table, count) = filled(SLOTS_OF_A_LINE, still, 50);
    for index in count..count + 500 {
        let (_, cost) = measure(|| table.insert(key(index), value(index)).unwrap());
        assert_eq!(writes(cost), (1, 1, 1), "the item is beside its token");
    }
    let (table, count) = filled(4, still, 0);
    let mut beside_token = 0;
    for index in count..count + 3000 {
        let (_, cost) = measure(|| table.insert(key(index), value(index)).unwrap());
        // The last slot lies across two lines.
        let (lines, flushes, fences) = writes(cost);
        assert!(lines <= 2 && flushes <= 2 && fences <= 2, "{cost:?}");
        assert_eq!(lines == 1, (flushes, fences) == (1, 1), "{cost:?}");
        beside_token += u64::from(lines == 1);
    }
    assert!(beside_token > 2500, "the last slot is taken last: {beside_token} of 3000");
}

#[test]
fn a_deletion_writes_one_line() {
    for slots in [1, SLOTS_OF_A_LINE, 4, 8] {
        let (table, count) = filled(slots, Design::default(), 35);
        for index in (0..count).step_by(3) {
            let (old, cost) = measure(|| table.remove(key(index)));
            assert_eq!((old, writes(cost)), (Some(value(index)), (1, 1, 1)), "{slots} slots");
        }
    }
}

#[test]
fn an_update_in_place_flushes_and_fences_once() {
    for slots in [1, SLOTS_OF_A_LINE, 4, 8] {
        let (table, count) = filled(slots, Design::default(), 35);
        for index in 0..count {
            let (old, cost) = measure(|| table.update(key(index), index));
            assert_eq!(old, Some(value(index)));
            assert_eq!((cost.flushes, cost.fences), (1, 1), "{slots} slots");
            assert_eq!(cost.lines_written, 1, "the value");
        }
    }
}

#[test]
fn a_log_free_update_writes_what_an_insertion_does() {
    let design = Design { in_place_update: false, ..Design::default() };
    let (table, count) = filled(SLOTS_OF_A_LINE, design, 50);
    let mut log_free = 0;
    for index in 0..count {
        let (old, cost) = measure(|| table.update(key(index), index));
        assert_eq!(old, Some(value(index)));
        if cost.fences > 2 {
            // A full bucket: log entry, value, erasure of the entry.
            assert_eq!(writes(cost), (2, 3, 3), "{cost:?}");
        } else {
            assert_eq!(writes(cost), (1, 1, 1), "{cost:?}");
            log_free += 1;
        }
    }
    assert!(log_free > count / 4, "{log_free} of {count} updates were free of logging");
    for index in 0..count {
        assert_eq!(table.get(key(index)), Some(index));
    }
}

/// The most lines that a search reads among hits on `present` and as many misses.
fn most_lines_read(table: &Table<Count<Dram>>, present: u64) -> (u64, u64) {
    let mut random = Random::new(7);
    let (mut of_hits, mut of_misses) = (0, 0);
    for _ in 0..20_000 {
        let index = random.below(present);
        let (found, cost) = measure(|| table.get(key(index)));
        assert_eq!((found, cost.lines_written, cost.fences), (Some(value(index)), 0, 0));
        of_hits = of_hits.max(cost.lines_read);
        let (found, cost) = measure(|| table.get(key(index + (1 << 40))));
        assert_eq!(found, None);
        of_misses = of_misses.max(cost.lines_read);
    }
    (of_hits, of_misses)
}

/// The search of the paper.
const BY_BUCKETS: Design = Design {
    two_hashes: true,
    two_levels: true,
    movement: true,
    fingerprints: false,
    bottom_to_top: true,
    dynamic_search: true,
    log_free_update: true,
    in_place_update: true,
};

#[test]
fn a_search_reads_one_bucket_if_fingerprints_tell_which() {
    let (table, count) = filled(SLOTS_OF_A_LINE, Design::default(), 80);
    let read = |index| measure(|| table.get(key(index)).is_some());
    let mut lines = [0, 0];
    for index in 0..count {
        for (hit, index) in [(1, index), (0, index + (1 << 40))] {
            let (found, cost) = read(index);
            assert_eq!((found, cost.lines_read <= 4), (hit == 1, true), "{cost:?}");
            lines[hit] += cost.lines_read;
        }
    }
    let [per_miss, per_hit] = lines.map(|lines| lines as f64 / count as f64);
    // Some ten slots, each with one fingerprint of 255 for another key's.
    assert!(per_hit < 1.05 && per_miss < 0.06, "{per_hit} lines per hit, {per_miss} per miss");
}

#[test]
fn a_search_by_buckets_reads_four_at_most_and_six_during_a_resize() {
    let lines = Shape { design: BY_BUCKETS, ..shape(SLOTS_OF_A_LINE, 10) };
    let table = Table::<Count<Dram>>::new(lines, NEVER);
    let count = table.capacity() * 7 / 8;
    table.fill(0..count);
    assert_eq!(most_lines_read(&table, count), (4, 4), "buckets read, of one line each");

    let table = Table::<Count<Dram>>::new(lines, 0.75);
    let mut count = 0;
    while !table.occupancy().resizing {
        table.fill(count..count + 8);
        count += 8;
    }
    assert_eq!(most_lines_read(&table, count), (6, 6), "buckets read during a resize");
    table.settle();
    assert_eq!(most_lines_read(&table, count).1, 4, "buckets read after a resize");
}

#[test]
fn dynamic_search_reads_less_right_after_an_expansion() {
    let [fixed, dynamic] = [false, true].map(|dynamic_search| {
        let design = Design { dynamic_search, ..BY_BUCKETS };
        let table = Table::<Count<Dram>>::new(Shape { design, ..shape(4, 10) }, 0.85);
        let (before, mut count) = (table.capacity(), 0);
        while table.capacity() == before {
            table.fill(count..count + 64);
            count += 64;
        }
        table.settle();
        table.fill(count..count + 1024);
        let lines = |index| measure(|| assert!(table.get(key(index)).is_some())).1.lines_read;
        (0..count).map(lines).sum::<u64>() as f64 / count as f64
    });
    assert!(dynamic < fixed - 0.5, "lines read per hit: {fixed} top first, {dynamic} by size");
}
