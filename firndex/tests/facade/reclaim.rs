//! The space of replaced values is used again.

use firndex::{Engine, Options, Store};

/// Uses the store, and returns the most bytes that its values took at any time.
fn most_used_bytes(store: &Store, rounds: u32, mut round: impl FnMut(u32)) -> u64 {
    let mut most = 0;
    for number in 0..rounds {
        round(number);
        if number % 10_000 == 0 {
            most = most.max(store.stats().heap_used_bytes);
        }
    }
    most.max(store.stats().heap_used_bytes)
}

#[test]
fn one_key_overwritten_more_than_half_a_million_times() {
    for &engine in Engine::ALL {
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
    let store = Store::in_memory().unwrap();
    let most: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    most_used_bytes(store, ROUNDS, |_| {
                        drop(store.put("key", [thread; 100]).unwrap());
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    // A thread that is held up while it has a pin keeps what others replace meanwhile.
    assert!(most < 64 << 20, "a value of 100 bytes took {most} bytes");
}

/// What waits for its epoch is counted in items by the code, and in bytes by whoever pays.
#[test]
fn large_values_overwritten_in_a_small_pool() {
    let store = Options::new().max_bytes(64 << 20).in_memory_store().unwrap();
    for number in 0..300u32 {
        let stored = store.put("key", vec![number as u8; 1 << 20]);
        if let Err(error) = stored.map(drop) {
            let used = store.stats().heap_used_bytes >> 20;
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
    let used = store.stats().heap_used_bytes;
    assert!(used < 1 << 20, "a value of 100 bytes takes {used} bytes");
    assert!(store.check().unwrap().is_sound());
}

#[test]
fn reopening_frees_what_waited() {
    let directory = crate::places::in_ram();
    let path = directory.path().join("pool");
    let store = Store::open(&path).unwrap();
    for _ in 0..100 {
        store.put("key", vec![1; 500_000]).unwrap();
    }
    drop(store);
    let store = Store::open(&path).unwrap();
    let used = store.stats().heap_used_bytes;
    assert!(used <= 1 << 20, "a value of 500,000 bytes takes {used} bytes");
    assert!(store.check().unwrap().is_sound());
}
