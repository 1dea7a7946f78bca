//! What a resize moves and costs, and that keys are found meanwhile.

use crate::harness::{
    NEVER, Random, SLOTS, Table, WHEN_FULL, extend, key, shape, stashed, stashing, value, within,
};
use engines::pfht::{Design, Shape};
use index::Index;
use pmem::Medium;
use pmem::medium::{Count, Dram, measure};
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_doubling_writes_each_bucket_a_few_times() {
    let table = Table::<Count<Dram>>::new(shape(SLOTS, 9), NEVER);
    let count = table.capacity() * 8 / 10;
    table.fill(0..count);
    for doublings in 0..2 {
        let ((), cost) = measure(|| extend(&table));
        assert!(!table.occupancy().resizing);
        let (sources, moved) = ((512 << doublings) as f64, (count / 2) as f64);
        let per_bucket = cost.fences as f64 / sources;
        let per_item = cost.flushes as f64 / moved;
        println!("{per_bucket:.2} fences per bucket, {per_item:.2} flushes per moved item");
        assert!(per_bucket <= 5.0 && per_item <= 2.2, "{cost:?}");
        table.assert_holds(0..count);
    }
    let bytes = table.pool.medium().size();
    table.settle();
    for index in 100..count {
        assert_eq!(table.remove(key(index)), Some(value(index)));
    }
    assert!(table.shrink() && table.shrink() && !table.shrink());
    extend(&table);
    extend(&table);
    assert_eq!(table.pool.medium().size(), bytes, "what it had is used again");
    table.assert_holds(0..100);
}

#[test]
fn keys_are_found_all_the_time_while_a_table_grows_and_shrinks() {
    let paper = Shape { design: Design::PAPER, ..shape(SLOTS, 0) };
    for (shape, resize_at) in
        [(shape(SLOTS, 0), 0.85), (shape(4, 1), WHEN_FULL), (stashing(1, 3, 5), 0.3), (paper, 0.9)]
    {
        let table = Table::<Dram>::new(shape, resize_at);
        let count = 6000;
        let mut random = Random::new(shape.slots.into());
        let mut resizing = 0;
        assert_eq!(table.insert(0, 1).expect("it has a node"), None);
        for index in 0..count {
            table.fill(index..index + 1);
            resizing += u64::from(table.occupancy().resizing);
            for _ in 0..16 {
                let index = random.below(index + 1);
                assert_eq!(table.get(key(index)), Some(value(index)));
            }
            assert_eq!((table.get(key(index + 1)), table.get(0)), (None, Some(1)));
        }
        assert!(resizing > 20, "{resizing} of {count} insertions were beside a resize");
        table.settle();
        table.assert_sound(count + 1);
        let largest = table.capacity();
        for index in 20..count {
            assert_eq!(table.remove(key(index)), Some(value(index)));
        }
        while table.shrink() {
            table.assert_sound(21);
            assert_eq!((table.get(key(20)), table.get(0)), (None, Some(1)));
        }
        assert!(table.capacity() <= largest / 16, "{} slots", table.capacity());
        table.fill(20..count);
        assert_eq!(table.remove(0), Some(1));
        table.assert_holds(0..count);
    }
}

#[test]
fn a_process_killed_anywhere_in_a_resize_loses_nothing() {
    for (shape, resize_at) in [(shape(4, 2), 0.7), (stashing(2, 2, 5), WHEN_FULL)] {
        let table = Table::<Dram>::new(shape, resize_at);
        let (mut amid, mut with_stash) = (0, 0);
        for index in 0..500 {
            table.fill(index..index + 1);
            with_stash += u64::from(stashed(&table) > 0);
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
        assert!(with_stash > 20 || resize_at < 1.0, "{with_stash} with something in the stash");
    }
}

/// Counts a thread as done, even if it panics.
struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Threads that insert, look up, remove and scan while the table grows through its stash and shrinks again.
#[test]
fn threads_lose_nothing_beside_resizes() {
    const THREADS: u64 = 3;
    const EACH: u64 = 1500;

    let _watchdog = within(60);
    let is_left = |index: &u64| !index.is_multiple_of(3);
    for shape in [stashing(1, 0, 5), stashing(2, 0, 3), shape(SLOTS, 0)] {
        let table = Table::<Dram>::new(shape, WHEN_FULL);
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (table, done) = (&table, &done);
                scope.spawn(move || {
                    let _counted = Counted(done);
                    let first = thread * EACH;
                    let mut random = Random::new(thread);
                    for index in first..first + EACH {
                        table.fill(index..index + 1);
                        let other = first + random.below(index - first + 1);
                        let expected = (is_left(&other) || other == index).then(|| value(other));
                        assert_eq!(table.get(key(other)), expected, "thread {thread}");
                        if !is_left(&index) {
                            assert_eq!(table.remove(key(index)), Some(value(index)));
                        }
                    }
                });
            }
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < THREADS {
                    let mut found = Vec::new();
                    table.index.for_each(&mut |key, _| found.push(key)).unwrap();
                    let count = found.len();
                    found.sort_unstable();
                    found.dedup();
                    assert_eq!(found.len(), count, "a scan met a key twice");
                    table.shrink();
                }
            });
        });
        table.assert_holds((0..THREADS * EACH).filter(is_left));
    }
}
