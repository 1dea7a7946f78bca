//! Free space that the system gets back.

use super::tests::{Table, is_kept};
use crate::heap::SEGMENT_LOG2_DEFAULT;
use crate::heap::salvage::Remains;
use crate::heap::tests::SMALL_SEGMENT_LOG2;
use crate::heap::vacant_ranges;
use crate::medium::{Dram, Medium};
use crate::offset::{Offset, WORD};

fn give_all_back(table: &Table) -> u64 {
    std::iter::from_fn(|| Some(table.heap.give_back()).filter(|&bytes| bytes > 0)).sum()
}

#[test]
fn what_is_given_back_serves_again_before_the_heap_grows() {
    for (limit, log2) in [(4 << 20, SMALL_SEGMENT_LOG2), (32 << 20, SEGMENT_LOG2_DEFAULT)] {
        for (first, then) in [(40, 40), (100, 5000), (5000, 100), (60_000, 150_000)] {
            let table = Table::new(limit, log2);
            table.fill(first);
            table.remove_unless(is_kept);
            table.compact();
            let before = table.heap.usage();
            assert!(give_all_back(&table) > 0);
            let after = table.heap.usage();
            assert_eq!(
                (after.pool_bytes, after.used_bytes),
                (before.pool_bytes, before.used_bytes)
            );
            let held = after.pool_bytes - after.vacant_bytes;
            // Short runs stay, of which there are more in small segments.
            let stay = after.pool_bytes / if log2 == SMALL_SEGMENT_LOG2 { 2 } else { 8 };
            let most = after.used_bytes * 13 / 10 + stay;
            assert!(held <= most, "{first}, {then}: {after:?}");
            table.assert_sound();

            let added = table.fill(then);
            assert!(added > 0, "{then} after {first}");
            let full = table.heap.usage();
            let grown = full.pool_bytes - before.pool_bytes;
            assert!(grown <= 2 << log2, "{then} after {first}: {full:?}, {before:?}");
            assert!(full.vacant_bytes < full.pool_bytes / 8, "{then} after {first}: {full:?}");
            table.assert_sound();
        }
    }
}

#[test]
fn a_heap_in_use_keeps_what_it_needs_next() {
    let table = Table::new(64 << 20, SEGMENT_LOG2_DEFAULT);
    (0..100_000).for_each(|_| assert!(table.add(100).is_some()));
    table.remove_unless(|index| index % 2 == 0);
    table.compact();
    give_all_back(&table);
    let before = table.heap.usage();
    // A tenth of what is there.
    (0..5000).for_each(|_| assert!(table.add(100).is_some()));
    let after = table.heap.usage();
    assert_eq!(after.vacant_bytes, before.vacant_bytes, "it had to take space back");
    assert!(!table.heap.is_short() && before.vacant_bytes > 0);
}

struct Bytes<'a>(&'a Dram);

impl Remains for Bytes<'_> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        for (index, word) in bytes.chunks_mut(WORD as usize).enumerate() {
            word.copy_from_slice(&self.0.load(Offset(at).word(index as u64)).to_le_bytes());
        }
        true
    }

    fn len(&self) -> u64 {
        self.0.size()
    }
}

/// The words say which ranges need no space: those that were given back, and no range in which something lies.
#[test]
fn an_opening_learns_what_needs_no_space() {
    let table = Table::new(16 << 20, SMALL_SEGMENT_LOG2);
    let ranges = || {
        let pool = table.heap.pool();
        vacant_ranges(&pool.superblock(), &Bytes(pool.medium()))
    };
    for bytes in [100, 60_000, 700] {
        (0..(1 << 20) / bytes).for_each(|_| assert!(table.add(bytes).is_some()));
    }
    assert_eq!(ranges(), []);
    table.remove_unless(is_kept);
    table.compact();
    give_all_back(&table);
    let found = ranges();
    let bytes: u64 = found.iter().map(|range| range.end - range.start).sum();
    assert_eq!(bytes, table.heap.usage().vacant_bytes);
    assert!(found.is_sorted_by(|a, b| a.end < b.start), "{found:?}");
    for at in table.slots.lock().unwrap().iter().flatten() {
        assert!(found.iter().all(|range| !range.contains(&at.0)), "{at}");
    }
    // Large items have taken some of them: what their further segments say does not count.
    while table.heap.usage().vacant_bytes > 0 {
        assert!(table.add(150_000).is_some());
    }
    assert_eq!(ranges(), []);
}
