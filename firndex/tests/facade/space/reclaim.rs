//! The space of replaced values is used again.

use crate::effort;
use firndex::{Engine, Options, Store};

/// Uses the store, and returns the most bytes that its values took at any time.
fn most_used_bytes(store: &Store, rounds: u32, mut round: impl FnMut(u32)) -> u64 {
    let mut most = 0;
    for number in 0..rounds {
        round(number);
        if number % 10_000 == 0 {
            most = most.max(store.stats().unwrap().heap_used_bytes);
        }
    }
    most.max(store.stats().unwrap().heap_used_bytes)
}

#[test]
fn one_key_overwritten_more_than_half_a_million_times() {
    for engine in effort::engines() {
        const ROUNDS: u32 = 600_000;
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        let most = most_used_bytes(&store, ROUNDS, |number| {
            drop(store.put("key", number.to_le_bytes().repeat(25)).unwrap());
        });
        assert!(most < 1 << 20, "a value of 100 bytes took {most} bytes");
        let report = store.check().unwrap();
        assert!(report.is_sound(), "{:#?}", report.findings);
    }
}

#[test]
fn one_key_overwritten_by_several_threads() {
    const ROUNDS: u32 = 150_000;
    let store = Options::new().helpers(0).in_memory_store().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    drop(store.put("key", [thread; 100]).unwrap());
                }
            });
        }
    });
    // Meanwhile a thread that is held up while it has a pin keeps what others replace. Now nobody has one.
    for _ in 0..10_000 {
        store.put("key", [5; 100]).unwrap();
    }
    // All values that were stored have 60 MB.
    let used = store.stats().unwrap().heap_used_bytes;
    assert!(used < 16 << 20, "a value of 100 bytes takes {used} bytes");
}

/// What waits for its epoch is counted in items by the code, and in bytes by whoever pays.
#[test]
fn large_values_overwritten_in_a_small_pool() {
    // A helper that is held up would keep what is replaced meanwhile.
    let store = Options::new().max_bytes(64 << 20).helpers(0).in_memory_store().unwrap();
    for number in 0..300u32 {
        let stored = store.put("key", vec![number as u8; 1 << 20]);
        if let Err(error) = stored.map(drop) {
            let used = store.stats().unwrap().heap_used_bytes >> 20;
            panic!("overwrite {number} of one value of 1 MiB, with {used} MiB in use: {error}");
        }
    }
}

#[test]
fn threads_that_end_take_no_space_with_them() {
    let store = Store::in_memory().unwrap();
    for round in 0..200u32 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..300u32 {
                    store.put("key", (round + number).to_le_bytes().repeat(25)).unwrap();
                }
            });
        });
    }
    let used = store.stats().unwrap().heap_used_bytes;
    assert!(used < 1 << 20, "a value of 100 bytes takes {used} bytes");
    assert!(store.check().unwrap().is_sound());
}

/// Threads that lived at the same time have cached space of every size.
#[test]
fn an_emptied_store_takes_anything_again() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(16 << 20);
        let store = options.in_memory_store().unwrap();
        let all_have_put = std::sync::Barrier::new(64);
        let keys = || (0..64u32).flat_map(|thread| (0..4u32).map(move |n| (thread, n)));
        std::thread::scope(|scope| {
            for thread in 0..64u32 {
                let (store, all_have_put) = (&store, &all_have_put);
                scope.spawn(move || {
                    let put = |n: u32| {
                        let bytes = 100 + (thread * 4 + n) as usize * 37 % 700;
                        store.put([thread.to_le_bytes(), n.to_le_bytes()].concat(), vec![5; bytes])
                    };
                    let put: Vec<_> = (0..4).map(|n| put(n).map(drop)).collect();
                    all_have_put.wait();
                    put.into_iter().for_each(|put| put.unwrap());
                });
            }
        });
        assert_eq!(store.len(), 256);
        for (thread, n) in keys() {
            let key = [thread.to_le_bytes(), n.to_le_bytes()].concat();
            assert!(store.remove(key).unwrap().is_some());
        }
        for value_bytes in [300, 500_000, 50, 7000] {
            let filled: u32 = (0..)
                .take_while(|key: &u32| store.put(key.to_le_bytes(), vec![5; value_bytes]).is_ok())
                .count() as u32;
            // The index has what it had, and takes no more from the heap.
            let filled_bytes = filled as usize * value_bytes;
            assert!(filled_bytes > 1 << 20, "{engine}: {filled} values of {value_bytes}");
            (0..filled).for_each(|key| assert!(store.remove(key.to_le_bytes()).unwrap().is_some()));
        }
        let report = store.check().unwrap();
        assert!(report.is_sound(), "{:#?}", report.findings);
    }
}

/// Three large values replaced by a thread that then ends: who takes up what it left.
fn replace_three_and_end(store: &Store) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..4 {
                store.put("large", vec![n; 16 << 20]).unwrap();
            }
        });
    });
}

const ONE_LARGE: u64 = (16 << 20) + (1 << 20);

#[test]
fn what_ended_threads_replaced_is_freed_by_other_retirements() {
    for engine in effort::engines() {
        let store = Options::new().engine(engine).helpers(0).in_memory_store().unwrap();
        store.put("small", "value").unwrap();
        replace_three_and_end(&store);
        for _ in 0..4 {
            store.put("small", "value").unwrap();
        }
        let used = store.stats().unwrap().heap_used_bytes;
        assert!(used <= ONE_LARGE, "{engine}: one value of 16 MiB takes {used} bytes");
    }
}

#[test]
fn what_ended_threads_replaced_is_freed_by_a_sync() {
    for engine in effort::engines() {
        let store = Options::new().engine(engine).helpers(0).in_memory_store().unwrap();
        replace_three_and_end(&store);
        store.sync().unwrap();
        let used = store.stats().unwrap().heap_used_bytes;
        assert!(used <= ONE_LARGE, "{engine}: one value of 16 MiB takes {used} bytes");
    }
}

#[test]
fn what_ended_threads_replaced_is_freed_by_an_idle_helper() {
    let helped = Engine::ALL.iter().filter(|engine| engine.description().has_helpers);
    for &engine in helped {
        let store = Options::new().engine(engine).helpers(1).in_memory_store().unwrap();
        replace_three_and_end(&store);
        // It does so without being asked; how soon is nobody's promise.
        while store.stats().unwrap().heap_used_bytes > ONE_LARGE {
            std::thread::yield_now();
        }
    }
}

/// A limit raised a little at a time, and then lifted.
#[test]
fn growth_by_little_does_not_use_up_the_pool() {
    for engine in effort::engines() {
        let directory = crate::places::in_ram();
        let path = directory.path().join("pool");
        let mut keys = 0u32;
        let mut limit = 1 << 20;
        for _ in 0..115 {
            limit += 160 << 10;
            let options = Options::new().engine(engine).max_bytes(limit);
            let store = options.open_or_create_store(&path).unwrap();
            while store.put(keys.to_le_bytes(), vec![limit as u8; 1000]).is_ok() {
                keys += 1;
            }
        }
        // The last steps added to it as the first ones did.
        assert!(u64::from(keys) * 1000 > limit / 2, "{engine}: {keys} values within {limit} bytes");
        let store = Store::open(&path).unwrap();
        store.put("key", vec![1; 20_000]).unwrap();
        store.put("large", vec![1; 2_000_000]).unwrap();
        assert_eq!(store.len(), u64::from(keys) + 2);
        assert!(store.check().unwrap().is_sound());
    }
}

#[test]
fn reopening_frees_what_waited() {
    let directory = crate::places::in_ram();
    let path = directory.path().join("pool");
    let store = Store::open_or_create(&path).unwrap();
    for _ in 0..100 {
        store.put("key", vec![1; 500_000]).unwrap();
    }
    drop(store);
    let store = Store::open(&path).unwrap();
    let used = store.stats().unwrap().heap_used_bytes;
    assert!(used <= 1 << 20, "a value of 500,000 bytes takes {used} bytes");
    assert!(store.check().unwrap().is_sound());
}

/// The first look-up of a handle takes another way than later ones.
#[test]
fn a_value_that_is_held_stays() {
    for engine in effort::engines() {
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        for _ in 0..2 {
            drop(store.put("key", [1; 100]).unwrap());
            let held = store.get("key").unwrap().unwrap();
            // Many more than wait for an epoch before space is used again.
            for _ in 0..2_000 {
                drop(store.put("key", [2; 100]).unwrap());
            }
            assert_eq!(held[..], [1; 100], "{engine}");
        }
    }
}
