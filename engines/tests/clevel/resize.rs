//! Growing and shrinking, beside others and again and again.

use crate::harness::{Random, Store, WHEN_FULL, key, within};
use index::Records;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_table_that_is_emptied_shrinks_to_where_it_began() {
    for helper in [false, true] {
        let store = Store::new(4, WHEN_FULL, helper);
        let smallest = store.capacity();
        store.fill(0..20_000);
        store.settle();
        let largest = store.capacity();
        assert!(!store.shrink(), "a full table has shrunk");
        for index in 100..20_000 {
            assert_eq!(store.remove(&key(index)), Some(index.to_le_bytes().to_vec()));
        }
        while store.shrink() {
            store.assert_holds(0..100);
        }
        assert!(largest > 32 * smallest);
        assert_eq!(store.capacity(), smallest);
        assert_eq!(store.recovered().capacity(), smallest);
    }
}

#[test]
fn levels_are_used_again() {
    let store = Store::new(4, WHEN_FULL, false);
    let mut extents = Vec::new();
    for _ in 0..12 {
        store.fill(0..5_000);
        for index in 50..5_000 {
            store.remove(&key(index));
        }
        while store.shrink() {}
        store.assert_holds(0..50);
        for index in 0..50 {
            store.remove(&key(index));
        }
        extents.push(store.level_extents());
    }
    // A level may be wanted again before the last thread that knew it is certainly gone.
    assert!(extents[11] <= extents[1] + 2, "extents of levels, round by round: {extents:?}");
}

#[test]
fn keys_survive_growing_and_shrinking_under_writers_and_readers() {
    let _watchdog = within(120);
    let store = Store::new(3, WHEN_FULL, true);
    let stay = 0..300;
    store.fill(stay.clone());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let store = &store;
            scope.spawn(move || {
                let own = (thread + 1) << 32;
                for _ in 0..6 {
                    store.fill(own..own + 3_000);
                    for index in own..own + 3_000 {
                        let found = store.remove(&key(index));
                        assert_eq!(found, Some(index.to_le_bytes().to_vec()), "key {index}");
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random::new(3);
            while !stop.load(Ordering::Relaxed) {
                let index = random.below(stay.end);
                let expected = Some(index.to_le_bytes().to_vec());
                assert_eq!(store.get(&key(index)), expected, "key {index}");
                let met = store.upsert(&key(index), &index.to_le_bytes());
                assert_eq!(met, expected, "key {index}");
            }
        });
        for _ in 0..60 {
            store.shrink();
            std::thread::yield_now();
        }
        // The writers end by themselves, the reader when they have.
        while store.table.len() > stay.end + 500 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.settle();
    store.assert_holds(stay);
}

#[test]
fn a_resize_that_was_cut_goes_on_after_recovery() {
    let store = Store::new(9, WHEN_FULL, false);
    let (mut count, extents) = (0, store.level_extents());
    while store.level_extents() == extents {
        store.fill(count..count + 1);
        count += 1;
    }
    store.fill(count..count + 20);
    count += 20;
    assert!(store.table.occupancy().resizing);
    let recovered = store.recovered();
    assert!(recovered.table.occupancy().resizing);
    recovered.assert_holds(0..count);
    recovered.fill(count..count + 500);
    recovered.assert_holds(0..count + 500);
    assert!(!recovered.table.occupancy().resizing, "insertions end a resize");
    recovered.recovered().assert_holds(0..count + 500);
}
