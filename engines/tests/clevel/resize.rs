//! Growing and shrinking, beside others and again and again.

use crate::harness::{NEVER, Random, Store, WHEN_FULL, key, within};
use index::{Error, Records, Shrunk};
use pmem::SpaceError;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_table_that_is_emptied_shrinks_to_where_it_began() {
    for helpers in 0..3 {
        let store = Store::new(4, WHEN_FULL, helpers);
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
    let store = Store::new(4, WHEN_FULL, 0);
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
    let store = Store::new(3, WHEN_FULL, 1);
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
    let store = Store::new(9, WHEN_FULL, 0);
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

/// Numbers of levels are for the life of a pool, and there are 63.
#[test]
fn growing_and_shrinking_again_and_again_uses_up_no_numbers() {
    let store = Store::new(4, WHEN_FULL, 0);
    for round in 0..100 {
        let _write = store.pool.write().expect("the pool may be written");
        store.table.expand().unwrap_or_else(|error| panic!("round {round}: {error}"));
        store.table.shrink().unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    assert!(store.level_extents() < 10, "{} extents of levels", store.level_extents());
    store.fill(0..1_000);
    store.assert_holds(0..1_000);
}

/// A reader that holds on to a record keeps every level that is dropped meanwhile from being used
/// again. Then shrinks stop in time, so that the table can always grow.
#[test]
fn a_reader_that_stays_leaves_numbers_for_growth() {
    let store = Store::new(4, WHEN_FULL, 0);
    store.fill(0..1);
    let record = store.table.get(&key(0)).expect("sound items");
    let _write = store.pool.write().expect("the pool may be written");
    let mut rounds = 0;
    let refused = loop {
        assert!(rounds < 63, "there are as many levels as that");
        store.table.expand().expect("growth has numbers");
        match store.table.shrink() {
            Ok(_) => rounds += 1,
            Err(refused) => break refused,
        }
    };
    assert!(rounds > 5, "{rounds}");
    assert!(matches!(refused, Error::Space(SpaceError::Full { .. })), "{refused}");
    store.fill(1..20_000);
    store.assert_holds(0..20_000);
    drop(record);
    for index in 100..20_000 {
        store.remove(&key(index));
    }
    assert_eq!(store.table.shrink().expect("numbers have come back"), Shrunk::Halved);
    store.assert_holds(0..100);
}

/// What does not fit makes a table grow again, also one that may not grow by itself, and that is
/// no shrink: whoever shrinks as often as it can would never end.
#[test]
fn a_shrink_that_does_not_fit_goes_back() {
    for resize_at in [WHEN_FULL, NEVER] {
        let mut went_back = 0;
        for round in 0..300 {
            let store = Store::new(2, resize_at, 0);
            {
                let _write = store.pool.write().expect("the pool may be written");
                store.table.expand().expect("there is room");
            }
            let before = store.capacity();
            let keys = round * 100..round * 100 + before / 2 * 88 / 100;
            store.fill(keys.clone());
            if store.capacity() > before {
                continue;
            }
            let is_halved = store.shrink();
            assert_eq!(is_halved, store.capacity() < before, "round {round}");
            went_back += u64::from(!is_halved);
            assert!(!store.table.occupancy().resizing);
            store.assert_holds(keys);
        }
        assert!(went_back > 0, "whatever was stored, it fitted");
    }
}
