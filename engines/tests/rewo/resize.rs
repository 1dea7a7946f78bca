//! What a resize moves, and where it goes on: section 3.6.

use crate::common::{Watched, Watcher};
use crate::harness::{NEVER, Random, Table, WHEN_FULL, extend, key, shape, value};
use crate::table::Fresh;
use index::Index;
use pmem::medium::{Count, Dram, MediumKind, measure};
use pmem::{Medium, Offset, WORD};
use std::cell::Cell;

// As `docs/engines/rewo.md` has it.
const TABLES: u8 = 1;
const CURSOR: u8 = 2;
const BUCKET_BYTES: u64 = 256;
const SLOTS: u32 = 15;

/// Where the buckets of one data table are.
fn places<M: Fresh>(table: &Table<M>, number: u8) -> impl Iterator<Item = Offset> {
    let extents = table.pool.extents_of(TABLES);
    let extent = extents.iter().find(|extent| extent.index == number).expect("the data table");
    let (start, count) = (extent.start, extent.bytes / BUCKET_BYTES);
    (0..count).map(move |bucket| start.add(bucket * BUCKET_BYTES))
}

/// The buckets of one data table, each as its words.
fn buckets<M: Fresh>(table: &Table<M>, number: u8) -> Vec<Vec<u64>> {
    let words = |at: Offset| (0..BUCKET_BYTES / WORD).map(move |word| at.word(word));
    let medium = table.pool.medium();
    places(table, number).map(|at| words(at).map(|at| medium.load(at)).collect()).collect()
}

/// The items of one data table of buckets of one slot.
fn count_single<M: Fresh>(table: &Table<M>, number: u8) -> u64 {
    places(table, number).map(|at| table.pool.medium().load(at) & 1).sum()
}

/// The slots in use, of which the item is two words after the first two of the bucket.
fn items(bucket: &[u64]) -> impl Iterator<Item = (u32, [u64; 2])> {
    let is_used = |slot: &u32| bucket[0] & 1 << slot != 0;
    let item = |slot: u32| [0, 1].map(|word| bucket[2 + 2 * slot as usize + word]);
    (0..SLOTS).filter(is_used).map(move |slot| (slot, item(slot)))
}

fn count_items(buckets: &[Vec<u64>]) -> u64 {
    buckets.iter().map(|bucket| items(bucket).count() as u64).sum()
}

/// Asserts that nothing but what has left them has changed in these buckets.
fn assert_stay(before: &[Vec<u64>], after: &[Vec<u64>]) {
    for (before, after) in before.iter().zip(after) {
        let mut were = items(before);
        assert!(items(after).all(|item| were.any(|was| was == item)), "{before:x?}, {after:x?}");
    }
}

#[test]
fn a_doubling_moves_half_of_the_items_and_leaves_the_others_alone() {
    let table = Table::<Count<Dram>>::new(shape(SLOTS, 10), NEVER);
    let count = table.capacity() * 7 / 10;
    table.fill(0..count);
    for doublings in 0..2 {
        let before: Vec<_> = (0..=doublings).map(|number| buckets(&table, number)).collect();
        let ((), cost) = measure(|| extend(&table));
        assert!(!table.occupancy().resizing);
        let sources = 1024 << doublings;
        let mut stayed = 0;
        for (before, number) in before.iter().zip(0..) {
            let after = buckets(&table, number);
            assert_stay(before, &after);
            stayed += count_items(&after);
        }
        let moved = count_items(&buckets(&table, doublings + 1));
        assert_eq!(stayed + moved, count);
        let share = moved as f64 / count as f64;
        println!("moved {share:.3} of {count} items, {cost:?}");
        assert!((share - 0.5).abs() <= 0.02, "{share} of the items moved");
        // Every bucket on both sides at most, the superblock, and nothing else.
        assert!(cost.blocks_written <= 2 * sources + 64, "{cost:?}");
        // Copies share fences, but not those that go to one bucket.
        let per_bucket = cost.fences as f64 / sources as f64;
        let per_item = cost.flushes as f64 / moved as f64;
        println!("{per_bucket:.2} fences per bucket, {per_item:.2} flushes per moved item");
        assert!(per_bucket <= 8.0 && per_item <= 2.2, "{cost:?}");
        table.assert_holds(0..count);
    }
}

#[test]
fn a_shrink_moves_the_last_data_table_and_leaves_the_others_alone() {
    let table = Table::<Count<Dram>>::new(shape(SLOTS, 9), NEVER);
    extend(&table);
    extend(&table);
    let count = table.capacity() / 6;
    table.fill(0..count);
    for last in [2, 1] {
        let before: Vec<_> = (0..=last).map(|number| buckets(&table, number)).collect();
        let capacity = table.capacity();
        assert!(table.shrink());
        assert_eq!(table.capacity(), capacity / 2);
        let mut held = 0;
        for number in 0..last {
            let (before, after) = (&before[usize::from(number)], buckets(&table, number));
            // All that was there is, where it was.
            assert_stay(&after, before);
            held += count_items(&after);
        }
        assert_eq!(held, count);
        assert_eq!(count_items(&buckets(&table, last)), 0, "it is empty");
        let moved = count_items(&before[usize::from(last)]) as f64 / count as f64;
        assert!((moved - 0.5).abs() <= 0.03, "{moved} of the items moved");
        table.assert_holds(0..count);
    }
    assert!(!table.shrink(), "it is as small as it was made");
    let bytes = table.pool.medium().size();
    extend(&table);
    extend(&table);
    assert_eq!(table.pool.medium().size(), bytes, "data tables that it had are used again");
    table.assert_holds(0..count);
}

#[test]
fn keys_are_found_all_the_time_while_a_table_grows_and_shrinks() {
    for (slots, initial_log2, resize_at) in [(15, 0, 0.85), (8, 1, WHEN_FULL), (1, 3, 0.85)] {
        let table = Table::<Dram>::new(shape(slots, initial_log2), resize_at);
        let (smallest, count) = (table.capacity(), 12_000);
        let mut random = Random::new(slots.into());
        let mut resizing = 0;
        for index in 0..count {
            table.fill(index..index + 1);
            resizing += u64::from(table.occupancy().resizing);
            for _ in 0..16 {
                let index = random.below(index + 1);
                assert_eq!(table.get(key(index)), Some(value(index)));
            }
            assert_eq!(table.get(key(index + 1)), None);
        }
        assert!(resizing > 100, "{resizing} of {count} insertions were beside a resize");
        table.settle();
        table.assert_holds(0..count);
        let largest = table.capacity();
        assert!(largest >= smallest << 6, "{smallest}, then {largest} slots");
        for index in 20..count {
            assert_eq!(table.remove(key(index)), Some(value(index)));
        }
        while table.shrink() {
            table.assert_holds(0..20);
            assert_eq!(table.get(key(20)), None);
        }
        assert!(table.capacity() <= smallest.max(64), "{} slots", table.capacity());
        table.fill(20..count);
        table.assert_holds(0..count);
    }
}

#[test]
fn a_table_of_one_bucket_doubles_more_often_than_a_directory_of_16_entries_lets_it() {
    let table = Table::<Count<Dram>>::new(shape(1, 0), NEVER);
    for doublings in 1..=18 {
        let at = table.index.len();
        // Few, since what is looked at here is the number of data tables.
        while table.index.len() < at + 12
            && table.insert(key(table.index.len()), value(table.index.len())).is_ok()
        {}
        let before: u64 = (0..doublings).map(|number| count_single(&table, number)).sum();
        extend(&table);
        assert_eq!(table.capacity(), 1 << doublings);
        let moved = count_single(&table, doublings);
        assert!(moved <= before / 2 + 4 * (before as f64).sqrt() as u64 + 1, "{moved} of {before}");
        let pairs = table.index.len();
        table.assert_holds(0..pairs);
    }
    let pairs = table.index.len();
    assert!(pairs > 150, "{pairs}");
    let again = table.recovered(&table.image());
    again.assert_holds(0..pairs);
}

thread_local! {
    static LOADS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the loads of the calling thread.
#[derive(Default)]
struct Loads;

impl Watcher for Loads {
    const KIND: MediumKind = MediumKind::Dram;

    fn before_load(&self) {
        LOADS.set(LOADS.get() + 1);
    }
}

impl Fresh for Watched<Loads> {
    fn fresh() -> Self {
        Watched::new(Dram::fresh(), Loads)
    }
}

fn loads<R>(operation: impl FnOnce() -> R) -> (R, u64) {
    LOADS.set(0);
    (operation(), LOADS.get())
}

/// A table in the middle of a resize, of which about `percent` are done, and its pairs. A shrink goes as far as
/// writers take it; there are none besides, so it is an extension.
fn amid_an_extension(percent: u64) -> (Table<Watched<Loads>>, u64) {
    let table = Table::<Watched<Loads>>::new(shape(SLOTS, 9), 0.8);
    let mut count = 0;
    while !table.occupancy().resizing {
        table.fill(count..count + 1);
        count += 1;
    }
    let more = 512 * percent / 100;
    table.fill(count..count + more);
    assert!(table.occupancy().resizing, "{percent} per cent");
    (table, count + more)
}

#[test]
fn recovery_goes_on_where_a_resize_was() {
    let mut by_progress = Vec::new();
    for percent in [1, 30, 60, 90] {
        let (table, count) = amid_an_extension(percent);
        let mut image = table.image();
        let cursor = table.pool.extents_of(CURSOR)[0].start;
        let emptied = image.words(cursor, WORD)[0];
        assert!(emptied.abs_diff(512 * percent / 100) <= 512 / 16, "{emptied} at {percent} %");
        let (again, by_cursor) = loads(|| table.recovered(&image));
        assert!(again.occupancy().resizing, "it is still under way");
        again.settle();
        assert!(!again.occupancy().resizing);
        again.assert_holds(0..count);
        // Without the cursor recovery looks again at every bucket that was emptied, and finds nothing to do.
        image.store(cursor, 0);
        let (again, without) = loads(|| table.recovered(&image));
        again.assert_holds(0..count);
        by_progress.push((emptied, without - by_cursor));
    }
    println!("buckets emptied and loads saved: {by_progress:?}");
    assert!(by_progress.iter().all(|&(emptied, saved)| saved >= emptied), "{by_progress:?}");
}

#[test]
fn a_process_killed_anywhere_in_a_resize_loses_nothing() {
    for resize_at in [0.6, WHEN_FULL] {
        let table = Table::<Dram>::new(shape(8, 2), resize_at);
        let mut amid = 0;
        for index in 0..600 {
            table.fill(index..index + 1);
            if table.occupancy().resizing {
                amid += 1;
                let image = table.image();
                let again = table.recovered(&image);
                // It may go on with the resize, end it at once, or grow no more.
                again.fill(index + 1..index + 40);
                again.assert_holds(0..index + 40);
                table.recovered_with(&image, NEVER).assert_holds(0..=index);
            }
        }
        assert!(amid > 20, "{amid} images were taken amid a resize");
    }
}
