//! Shrinking: algorithm 6, beside running operations, and where the paper's is not enough.

use crate::harness::{NEVER, Random, Table, key, shape, value, within};
use pmem::Medium;
use pmem::medium::Dram;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table that has grown from the smallest to hold the pairs of `0..count`.
fn grown(count: u64) -> Table<Dram> {
    let table = Table::new(shape(4, 2), 0.85);
    table.fill(0..count);
    table.settle();
    table
}

fn remove_all_but(table: &Table<Dram>, kept: u64, count: u64) {
    for index in kept..count {
        assert_eq!(table.remove(key(index)), Some(value(index)), "key {index}");
    }
}

#[test]
fn a_table_shrinks_by_halves_to_its_first_size_and_grows_again() {
    let smallest = Table::<Dram>::new(shape(4, 2), 0.85).capacity();
    let (kept, count) = (2, 20_000);
    let table = grown(count);
    let largest = table.capacity();
    remove_all_but(&table, kept, count);
    let mut capacity = largest;
    while table.shrink() {
        assert_eq!(table.capacity(), capacity / 2);
        capacity /= 2;
        table.assert_holds(0..kept);
        assert_eq!(table.get(key(kept)), None);
    }
    assert_eq!(capacity, smallest, "halved until it was as at first");
    assert!(!table.shrink());
    assert_eq!(table.capacity(), smallest);
    let pool_bytes = table.pool.medium().size();
    table.fill(kept..count);
    table.assert_holds(0..count);
    assert_eq!(table.capacity(), largest, "as large as before");
    assert_eq!(table.pool.medium().size(), pool_bytes, "levels that it had are used again");
}

#[test]
fn a_shrunk_table_is_recovered() {
    let (kept, count) = (700, 5000);
    let table = grown(count);
    remove_all_but(&table, kept, count);
    assert!(table.shrink());
    assert!(table.shrink());
    let again = table.recovered(&table.image());
    assert_eq!(again.capacity(), table.capacity());
    again.assert_holds(0..kept);
    again.fill(kept..count);
    again.assert_holds(0..count);
}

#[test]
fn a_table_too_full_to_shrink_loses_nothing() {
    // The fullest that halving could leave, what no half could hold, and all in between.
    for percent in [44, 47, 50, 60, 70, 85] {
        for resize_at in [0.9, NEVER] {
            let table = Table::<Dram>::new(shape(4, 3), 0.9);
            let mut count = 0;
            while table.capacity() < 12 * 512 {
                table.fill(count..count + 1);
                count += 1;
            }
            table.settle();
            let wanted = table.capacity() * percent / 100;
            if count > wanted {
                remove_all_but(&table, wanted, count);
            } else {
                table.fill(count..wanted);
            }
            let image = table.image();
            let table = table.recovered_with(&image, resize_at);
            let capacity = table.capacity();
            let halved = table.shrink();
            assert_eq!(table.capacity(), if halved { capacity / 2 } else { capacity });
            assert!(!table.occupancy().resizing, "{percent} %");
            assert!(!halved || percent < 50, "{percent} % of the table do not fit into half of it");
            table.assert_holds(0..wanted);
            let again = table.recovered(&table.image());
            again.assert_holds(0..wanted);
            // Neither growth nor another shrink is barred by what was given up.
            let more = wanted / 20;
            if resize_at < 1.0 {
                table.fill(wanted..wanted + more);
                remove_all_but(&table, wanted, wanted + more);
            }
            table.shrink();
            table.assert_holds(0..wanted);
        }
    }
}

/// Runs two writers of private keys and two readers that check all beside `resizes`. Readers know
/// that the pairs of `0..kept` stay, and that no others but the writers' are ever there.
fn beside_writers_and_readers(table: &Table<Dram>, kept: u64, resizes: impl FnOnce()) {
    let _watchdog = within(60);
    let is_over = &AtomicBool::new(false);
    let private = |writer: u64, number: u64| (writer + 1) << 40 | number;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                let mut random = Random::new(writer);
                let mut held = [None; 64];
                let mut rounds = 0;
                while !is_over.load(Ordering::Relaxed) || rounds < 1000 {
                    let number = random.below(64);
                    let (key, held) = (key(private(writer, number)), &mut held[number as usize]);
                    assert_eq!(table.get(key), *held);
                    let new = random.word();
                    *held = match random.below(3) {
                        0 => {
                            assert_eq!(table.remove(key), *held);
                            None
                        }
                        1 => {
                            assert_eq!(table.insert(key, new).unwrap(), *held);
                            held.or(Some(new))
                        }
                        _ => {
                            assert_eq!(table.upsert(key, new), *held);
                            Some(new)
                        }
                    };
                    rounds += 1;
                }
                for (held, number) in held.into_iter().zip(0..) {
                    assert_eq!(table.remove(key(private(writer, number))), held);
                }
            });
        }
        for reader in 0..2 {
            scope.spawn(move || {
                let mut random = Random::new(10 + reader);
                while !is_over.load(Ordering::Relaxed) {
                    let index = random.below(kept);
                    assert_eq!(table.get(key(index)), Some(value(index)), "key {index}");
                    assert_eq!(table.get(key(index + kept)), None, "nobody stored it");
                }
            });
        }
        // Not after a failure here: the others would run on for ever.
        let _end = EndOnDrop(is_over);
        resizes();
    });
    table.assert_holds(0..kept);
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn shrinks_beside_writers_and_readers_lose_nothing() {
    let (kept, count) = (600, 20_000);
    for _ in 0..4 {
        let table = grown(count);
        let largest = table.capacity();
        remove_all_but(&table, kept, count);
        beside_writers_and_readers(&table, kept, || while table.shrink() {});
        assert!(table.capacity() <= largest / 8, "{} of {largest}", table.capacity());
    }
}

#[test]
fn shrinks_given_up_beside_writers_and_readers_lose_nothing() {
    let table = Table::<Dram>::new(shape(4, 2), 0.9);
    let mut kept = 0;
    while table.capacity() < 12 * 256 {
        table.fill(kept..kept + 1);
        kept += 1;
    }
    table.settle();
    let capacity = table.capacity();
    table.fill(kept..capacity * 6 / 10);
    let kept = kept.max(capacity * 6 / 10);
    beside_writers_and_readers(&table, kept, || {
        for _ in 0..200 {
            assert!(!table.shrink(), "{kept} pairs do not fit into half of {capacity} slots");
        }
    });
    assert_eq!(table.capacity(), capacity);
}
