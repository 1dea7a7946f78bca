//! A store under several threads.

use crate::byte_map::ByteMap;
use crate::effort;
use firndex::{Options, Store};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

fn value_of(writer: u8, number: u32) -> Vec<u8> {
    let mut value = vec![writer; 40 + number as usize % 90];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

#[test]
fn records_keep_their_bytes_while_their_keys_are_overwritten() {
    const OVERWRITES: u32 = 50_000;
    let store = Store::in_memory().unwrap();
    store.put("key", "first").unwrap();
    let held = store.get("key").unwrap().unwrap();
    let replaced = store.put("key", "second").unwrap().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..2u8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..OVERWRITES {
                    store.put("key", value_of(writer, number)).unwrap();
                }
            });
        }
        // Others come and go, and each record is what it was when it was found.
        for _ in 0..2000 {
            let record = store.get("key").unwrap().unwrap();
            let seen = record.to_vec();
            for _ in 0..20 {
                std::hint::black_box(store.get("key").unwrap());
            }
            assert!(*record == seen);
            assert!(*held == *b"first" && *replaced == *b"first");
        }
    });
    assert_eq!((&*held, &*replaced), (&b"first"[..], &b"first"[..]));
    drop((held, replaced));
    assert_eq!(store.sound_contents().len(), 1);
}

#[test]
fn values_removed_and_compared_stay_readable_too() {
    let store = Store::in_memory().unwrap();
    let mut held = Vec::new();
    for number in 0..2000 {
        store.put("key", value_of(1, number)).unwrap();
        held.push((
            number,
            match number % 3 {
                0 => store.remove("key").unwrap().unwrap(),
                1 => store.compare_exchange("key", None, None).unwrap().unwrap_err().unwrap(),
                _ => store.insert("key", "other").unwrap().unwrap(),
            },
        ));
    }
    assert!(held.iter().all(|(number, record)| **record == value_of(1, *number)));
}

#[test]
fn increments_are_never_lost() {
    for engine in effort::engines() {
        const THREADS: u64 = 4;
        const INCREMENTS: u64 = 20_000;
        const COUNTERS: u64 = 3;
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        let count = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..INCREMENTS {
                        let counter = [((thread + number) % COUNTERS) as u8];
                        let add_one = |found: Option<&[u8]>| {
                            Some((found.map_or(0, count) + 1).to_le_bytes().to_vec())
                        };
                        store.modify(counter, add_one).unwrap();
                    }
                });
            }
        });
        let total: u64 =
            (0..COUNTERS as u8).map(|key| count(&store.get([key]).unwrap().unwrap())).sum();
        assert_eq!(total, THREADS * INCREMENTS);
        assert!(store.check().is_sound());
    }
}

/// More threads than have a number of their own: the rest share what each of the others has alone.
#[test]
fn more_threads_than_there_are_numbers() {
    for engine in effort::engines() {
        const THREADS: usize = pmem::sync::THREADS_MAX + 70;
        const PUTS: u32 = 8;
        let store = Arc::new(Options::new().engine(engine).in_memory_store().unwrap());
        let barrier = Arc::new(Barrier::new(THREADS));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, barrier) = (Arc::clone(&store), Arc::clone(&barrier));
                let run = move || {
                    let key = (thread as u32).to_le_bytes();
                    store.put(key, value_of(0, 0)).unwrap();
                    barrier.wait();
                    let first = store.get(key).unwrap().unwrap();
                    for number in 1..=PUTS {
                        assert!(
                            store.put(key, value_of(0, number)).unwrap().unwrap()
                                == value_of(0, number - 1)
                        );
                        store.put("shared", value_of(1, number)).unwrap();
                        assert_eq!(store.get("shared").unwrap().unwrap()[5], 1);
                    }
                    assert!(first == value_of(0, 0));
                    drop(first);
                    barrier.wait();
                };
                std::thread::Builder::new().stack_size(64 << 10).spawn(run).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let contents = store.sound_contents();
        assert_eq!(contents.len(), THREADS + 1);
        for thread in 0..THREADS as u32 {
            assert!(contents[&thread.to_le_bytes()[..]] == value_of(0, PUTS));
        }
    }
}

/// Beside writers the figures are of no one moment, but asking for them is harmless. Sizes change
/// all the time, and the pool is small: segments of the heap pass from one size to another.
#[test]
fn check_and_stats_beside_writers() {
    for engine in effort::engines() {
        const SIZES: [usize; 5] = [0, 100, 4000, 50_000, 300_000];
        let store = Options::new().engine(engine).max_bytes(8 << 20).in_memory_store().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3u8 {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    for round in 0u32.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        let value =
                            vec![writer; SIZES[(round as usize + writer as usize) % SIZES.len()]];
                        // Full or not, all of it is removed again.
                        let keys: Vec<[u8; 2]> = (0..100).map(|key| [writer, key]).collect();
                        let _ = keys.iter().try_for_each(|key| store.put(key, &value).map(drop));
                        keys.iter().for_each(|key| drop(store.remove(key).unwrap()));
                    }
                });
            }
            let watch = || {
                for _ in 0..80 {
                    let _ = store.check();
                    let stats = store.stats().unwrap();
                    assert!(stats.heap_used_bytes <= stats.heap_bytes, "{stats:?}");
                    store
                        .for_each(|key, value| assert!(value.iter().all(|&byte| byte == key[0])))
                        .unwrap();
                }
            };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(watch));
            done.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(store.sound_contents().is_empty());
    }
}

#[test]
fn handles_shared_by_arc_outlive_their_makers() {
    let store = Arc::new(Store::in_memory().unwrap());
    let sum = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4u8)
        .map(|thread| {
            let (store, sum) = (Arc::clone(&store), Arc::clone(&sum));
            std::thread::spawn(move || {
                for number in 0..1000 {
                    store.put([thread], value_of(thread, number)).unwrap();
                }
                sum.fetch_add(store.len(), Ordering::Relaxed);
            })
        })
        .collect();
    drop(store);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!((4..=16).contains(&sum.load(Ordering::Relaxed)));
}
