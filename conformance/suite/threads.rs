//! Several threads, and promises that concern all of them together.

use crate::harness::{Backing, Engine, GATHER, Random, Setup, Table, spread, within};
use index::Index;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs `work` for each thread number at once; returns the results.
pub(crate) fn together<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(thread)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Tables that grow from nothing, in every shape, with helpers and without.
pub(crate) fn growing_setups(engine: &'static Engine) -> impl Iterator<Item = Setup> {
    (0..engine.variants).map(move |variant| Setup {
        variant,
        helpers: (variant + 1) % 3,
        resize_at: if variant % 3 == 1 { 1.0 } else { 0.85 },
        ..Setup::of(engine)
    })
}

/// Key `index` of a thread; key 0 is among them.
fn key_of(thread: usize, index: u64) -> u64 {
    spread(index * 4 + thread as u64)
}

pub(crate) fn private_keys_behave_as_if_alone<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let models = together(3, |thread| {
            let mut random = Random::new(thread as u64);
            let mut model = HashMap::new();
            for round in 0..B::part(12_000) {
                let key = key_of(thread, random.below(2 + round / 3));
                let value = random.word();
                match random.below(8) {
                    0..4 => {
                        assert_eq!(table.insert(key, value).unwrap(), model.get(&key).copied());
                        model.entry(key).or_insert(value);
                    }
                    4 => assert_eq!(table.upsert(key, value).unwrap(), model.insert(key, value)),
                    5 => assert_eq!(table.remove(key).unwrap(), model.remove(&key)),
                    6 => {
                        let found = table.update(key, value).unwrap();
                        assert_eq!(found, model.get(&key).copied());
                        model.entry(key).and_modify(|there| *there = value);
                    }
                    _ => assert_eq!(table.get(key), model.get(&key).copied()),
                }
            }
            model
        });
        table.assert_holds(&models.into_iter().flatten().collect());
    }
}

pub(crate) fn readers_never_miss_what_stays<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    // Often from nothing: then every resize moves what is being read.
    for round in 0..B::part(120) {
        let setup = Setup {
            variant: round as usize % engine.variants,
            helpers: round as usize % 3,
            resize_at: if round % 2 == 0 { 0.85 } else { 1.0 },
            limit_bytes: 256 << 20,
            ..Setup::of(engine)
        };
        let table = Table::<B>::new(setup);
        let (stored, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let value_of = |key: u64| key ^ 0x5555;
        together(3, |thread| {
            if thread == 0 {
                for index in 0..1500 {
                    let key = key_of(0, index);
                    assert_eq!(table.insert(key, value_of(key)).unwrap(), None);
                    stored.store(index + 1, Ordering::Release);
                }
                ended.store(true, Ordering::Release);
                return;
            }
            let mut random = Random::new(round << 8 | thread as u64);
            while !ended.load(Ordering::Acquire) {
                let there = stored.load(Ordering::Acquire);
                if there == 0 {
                    continue;
                }
                // Including the latest ones, which have only just been shown.
                let recent = random.below(there.min(8)) + 1;
                let index = if random.percent(30) { there - recent } else { random.below(there) };
                let key = key_of(0, index);
                assert_eq!(table.get(key), Some(value_of(key)), "key number {index} of {there}");
                let absent = key_of(1, random.word() >> 8);
                assert_eq!(table.get(absent), None, "found what nobody stored");
                let keys: Vec<u64> = (0..8).map(|_| key_of(0, random.below(there))).collect();
                let mut found = [None; 8];
                table.get_many(&keys, &mut found);
                for (&key, found) in keys.iter().zip(found) {
                    assert_eq!(found, Some(value_of(key)), "in a batch");
                }
            }
        });
        assert_eq!(table.len(), 1500);
    }
}

pub(crate) fn readers_never_miss_what_crowds_one_bucket<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let crowd = engine.colliding_keys();
    for round in 0..B::part(200) {
        let setup = Setup {
            variant: round as usize % engine.variants,
            helpers: 0,
            limit_bytes: 256 << 20,
            ..Setup::of(engine)
        };
        let table = Table::<B>::new(setup);
        for &key in crowd {
            table.insert(key, !key).unwrap();
        }
        let ended = AtomicBool::new(false);
        together(3, |thread| {
            if thread == 0 {
                // Through the doublings that divide the crowd.
                (0..1200).for_each(|index| assert_eq!(table.insert(index << 40, 0).unwrap(), None));
                ended.store(true, Ordering::Release);
                return;
            }
            let mut random = Random::new(round << 8 | thread as u64);
            while !ended.load(Ordering::Acquire) {
                let key = *random.of(crowd);
                assert_eq!(table.get(key), Some(!key), "key {key:#x}");
            }
        });
    }
}

pub(crate) fn one_of_many_inserts_wins<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let keys = B::part(3000);
        let found = together(3, |thread| {
            (0..keys)
                .map(|index| table.insert(key_of(0, index), thread as u64).unwrap())
                .collect::<Vec<_>>()
        });
        for index in 0..keys {
            let winner = table.get(key_of(0, index)).expect("somebody inserted it");
            for (thread, found) in (0..).zip(&found) {
                let expected = if thread == winner { None } else { Some(winner) };
                assert_eq!(found[index as usize], expected, "key number {index}, thread {thread}");
            }
        }
        assert_eq!(table.len(), keys);
        table.assert_sound();
    }
}

pub(crate) fn one_of_many_removes_wins<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let keys = B::part(3000);
        for index in 0..keys {
            table.insert(key_of(0, index), index).unwrap();
        }
        let removed = together(3, |thread| {
            (0..keys)
                .filter(|&index| {
                    let key = key_of(0, index);
                    // Each thread removes in another way. All of them must agree on one remover.
                    let found = match thread {
                        0 => table.remove(key).unwrap(),
                        1 => table.remove_if(key, index).unwrap().is_ok().then_some(index),
                        _ => {
                            let mut out = [None];
                            table.remove_many(&[key], &mut out).unwrap();
                            out[0]
                        }
                    };
                    assert!(found.is_none_or(|found| found == index));
                    found.is_some()
                })
                .count() as u64
        });
        assert_eq!(removed.iter().sum::<u64>(), keys, "removals by thread: {removed:?}");
        assert!(table.is_empty());
        table.assert_sound();
    }
}

/// Adds one to a counter that may not exist yet.
fn increment(table: &dyn Index<u64, u64>, key: u64) {
    let mut expected = table.get(key);
    while let Err(found) =
        table.compare_exchange(key, expected, Some(expected.unwrap_or(0) + 1)).unwrap()
    {
        expected = found;
    }
}

fn counter_keys(engine: &'static Engine) -> Vec<u64> {
    [0, u64::MAX, 5].into_iter().chain(engine.colliding_keys().iter().copied().take(3)).collect()
}

pub(crate) fn counters_lose_no_increment<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let counters = counter_keys(engine);
        let each = B::part(1000);
        together(3, |thread| {
            for round in 0..each {
                counters.iter().for_each(|&counter| increment(&table, counter));
                // So that the counters move while they count.
                table.insert(key_of(thread, round) | 1 << 63, 0).unwrap();
                table.insert(key_of(thread, round) & !(1 << 63) | 1, 0).unwrap();
            }
        });
        for &counter in &counters {
            assert_eq!(table.get(counter), Some(3 * each), "counter {counter:#x}");
        }
        table.assert_sound();
    }
}

pub(crate) fn batches_and_singles_lose_no_increment<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        // More counters than a batch takes at once, and many of them in one bucket.
        let counters: Vec<u64> =
            (0..30).chain(engine.colliding_keys().iter().copied().take(20)).collect();
        let each = B::part(300);
        together(3, |thread| {
            for round in 0..each {
                if thread == 0 {
                    counters.iter().for_each(|&counter| increment(&table, counter));
                } else {
                    increment_all(&table, &counters);
                }
                let filler = key_of(thread, round) | 1 << 40;
                table.insert_many(&[(filler, 1), (filler ^ 1 << 63, 2)], &mut [None; 2]).unwrap();
            }
        });
        for &counter in &counters {
            assert_eq!(table.get(counter), Some(3 * each), "counter {counter:#x}");
        }
        table.assert_sound();
    }
}

/// Adds one to each counter, in batches, until no counter is left that another thread changed first.
fn increment_all(table: &dyn Index<u64, u64>, counters: &[u64]) {
    let mut left = counters.to_vec();
    while !left.is_empty() {
        let mut states = vec![None; left.len()];
        table.get_many(&left, &mut states);
        let changes: Vec<_> =
            left.iter().zip(&states).map(|(&k, &s)| (k, s, Some(s.unwrap_or(0) + 1))).collect();
        let mut found = vec![None; left.len()];
        table.compare_exchange_many(&changes, &mut found).unwrap();
        let lost = changes.iter().zip(found).filter(|(change, found)| change.1 != *found);
        left = lost.map(|(change, _)| change.0).collect();
    }
}

pub(crate) fn pairs_passed_between_threads_are_counted<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    // Two threads insert, two remove. No thread's count says how many pairs there are, and a removal may be counted
    // before its insertion.
    let setup = Setup { pairs: B::part(1_000_000), helpers: 0, ..Setup::of(engine) };
    let table = Table::<B>::new(setup);
    let capacity = table.occupancy().capacity;
    let rounds = B::part(200_000);
    let keys = 2;
    let inserting = AtomicU64::new(2);
    together(4, |thread| {
        let mut random = Random::new(thread as u64);
        if thread < 2 {
            for _ in 0..rounds {
                table.insert(1 + random.below(keys), 0).unwrap();
            }
            inserting.fetch_sub(1, Ordering::Release);
        }
        while thread >= 2 && inserting.load(Ordering::Acquire) > 0 {
            table.remove(1 + random.below(keys)).unwrap();
            let counted = table.len();
            assert!(counted <= 2 * rounds, "{counted} pairs counted, more than were ever inserted");
        }
    });
    assert_eq!(table.len(), table.pairs().len() as u64);
    let occupancy = table.occupancy();
    assert_eq!((occupancy.capacity, occupancy.resizes), (capacity, 0), "grew for {keys} keys");
}

pub(crate) fn scans_beside_writers_invent_nothing<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let ended = AtomicBool::new(false);
        let total = B::part(4000);
        together(3, |thread| {
            if thread < 2 {
                for index in 0..total {
                    let key = key_of(thread, index);
                    table.insert(key, !key).unwrap();
                    if index % 3 == 0 {
                        table.update(key, key.rotate_left(1)).unwrap();
                    }
                    if index % 5 == 0 {
                        table.remove(key).unwrap();
                    }
                }
                ended.store(true, Ordering::Release);
            } else {
                while !ended.load(Ordering::Acquire) {
                    table
                        .for_each(&mut |key, value| {
                            let index = key.wrapping_mul(GATHER) / 4;
                            assert!(index < total, "key {key:#x} was never stored");
                            assert!(
                                value == !key || value == key.rotate_left(1),
                                "key {key:#x} never had the value {value:#x}"
                            );
                        })
                        .unwrap();
                    assert!(table.occupancy().pairs() <= 4 * total);
                }
            }
        });
        table.assert_sound();
    }
}

pub(crate) fn syncs_beside_writers_end<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for helpers in 0..3 {
        let table = Table::<B>::new(Setup { helpers, ..Setup::of(engine) });
        let ended = AtomicU64::new(0);
        together(3, |thread| {
            if thread < 2 {
                for index in 0..B::part(10_000) {
                    assert_eq!(table.insert(key_of(thread, index), index).unwrap(), None);
                }
                ended.fetch_add(1, Ordering::Release);
            } else {
                while ended.load(Ordering::Acquire) < 2 {
                    table.pool().sync().unwrap();
                }
            }
        });
        assert_eq!(table.len(), 2 * B::part(10_000));
        table.assert_sound();
    }
}

pub(crate) fn more_threads_than_have_a_line_of_their_own<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let table = Table::<B>::new(Setup::of(engine));
    let threads = pmem::sync::THREADS_MAX + 50;
    together(threads, |thread| {
        for index in 0..4 {
            let key = (thread as u64) << 8 | index;
            assert_eq!(table.insert(key, !key).unwrap(), None);
            assert_eq!(table.get(key), Some(!key));
        }
        assert_eq!(table.remove((thread as u64) << 8).unwrap(), Some(!((thread as u64) << 8)));
    });
    assert_eq!(table.len(), 3 * threads as u64);
    table.assert_sound();
}
