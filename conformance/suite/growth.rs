//! Growth while others read and write, and its end when no space is left.

use crate::harness::{Backing, Engine, GATHER, Random, Setup, Table, spread, within};
use crate::threads::together;
use index::{Error, Index};
use pmem::SpaceError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of pairs to which a table grows. With assertions, 16 million would take longer than a test should. The table
/// goes through every doubling from nothing all the same.
const PAIRS: u64 = 2_000_000;
/// Number of reads that each reader does at least, while the table grows if it gets so far.
const READS: u64 = 50_000;

fn value_of(key: u64) -> u64 {
    key.rotate_left(17) ^ 0xabcd
}

pub(crate) fn from_nothing_to_millions<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(240);
    let table = Table::<B>::new(Setup { limit_bytes: 8 << 30, ..Setup::of(engine) });
    let total = B::part(PAIRS).max(PAIRS / 8);
    // Keys of writer w are w, w + 2, w + 4 and so on, spread. This many are stored so far.
    let stored = [AtomicU64::new(0), AtomicU64::new(0)];
    together(4, |thread| {
        if thread < 2 {
            for index in 0..total / 2 {
                let key = spread(2 * index + thread as u64);
                assert_eq!(table.insert(key, value_of(key)).unwrap(), None);
                stored[thread].store(index + 1, Ordering::Release);
            }
            return;
        }
        let mut random = Random::new(thread as u64);
        let mut reads = 0;
        while reads < B::part(READS)
            || stored.iter().any(|stored| stored.load(Ordering::Acquire) < total / 2)
        {
            for writer in 0..2 {
                let there = stored[writer as usize].load(Ordering::Acquire);
                if there > 0 {
                    let key = spread(2 * random.below(there) + writer);
                    assert_eq!(table.get(key), Some(value_of(key)), "key {key:#x} is lost");
                    reads += 1;
                }
                let absent = spread(total + random.below(1 << 40));
                assert_eq!(table.get(absent), None, "key {absent:#x} was never stored");
            }
        }
    });
    table.settle();
    assert_eq!(table.len(), total);
    let mut met = vec![false; total as usize];
    table
        .for_each(&mut |key, value| {
            let index = key.wrapping_mul(GATHER) as usize;
            assert!(index < met.len(), "key {key:#x} was never stored");
            assert!(!std::mem::replace(&mut met[index], true), "key {key:#x} is stored twice");
            assert_eq!(value, value_of(key));
        })
        .unwrap();
    assert!(met.into_iter().all(|met| met), "a scan missed a key");
    table.assert_sound();
    let occupancy = table.occupancy();
    assert!(occupancy.resizes >= 10 && !occupancy.resizing, "{occupancy:?}");
    assert!(occupancy.load_factor() < 0.86, "{occupancy:?}");
}

pub(crate) fn a_table_doubles_under_every_thread_at_once<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    // Small tables, again and again: all threads want the same resize at the same moment.
    for round in 0..B::part(150) {
        let setup = Setup {
            variant: round as usize % engine.variants,
            helpers: round as usize % 3,
            resize_at: if round % 5 == 0 { 0.3 } else { 0.85 },
            limit_bytes: 256 << 20,
            ..Setup::of(engine)
        };
        let table = Table::<B>::new(setup);
        let key = |thread: usize, index: u64| spread(4 * index + thread as u64);
        together(4, |thread| {
            let own: Vec<_> = (0..300).map(|index| key(thread, index)).collect();
            let pairs: Vec<_> = own.iter().map(|&key| (key, value_of(key))).collect();
            if thread == 3 {
                let mut out = vec![Some(1); pairs.len()];
                table.insert_many(&pairs, &mut out).unwrap();
                assert!(out.iter().all(Option::is_none));
            } else {
                for &(key, value) in &pairs {
                    assert_eq!(table.insert(key, value).unwrap(), None);
                    assert_eq!(table.get(key), Some(value));
                    if thread == 2 && key % 16 == 0 {
                        table.settle();
                    }
                }
            }
            for (key, value) in pairs {
                assert_eq!(table.get(key), Some(value), "key {key:#x} is lost");
            }
        });
        assert_eq!(table.pairs().len(), 1200);
        table.assert_sound();
    }
}

pub(crate) fn readers_need_nobody_to_finish_a_resize<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in 0..engine.variants {
        // Only the writer moves pairs, and it stops in the middle.
        let table = Table::<B>::new(Setup { variant, helpers: 0, ..Setup::of(engine) });
        let mut stored = 0;
        while !(stored > B::part(5000) && table.occupancy().resizing) {
            let key = spread(stored);
            table.insert(key, value_of(key)).unwrap();
            stored += 1;
        }
        let met = together(3, |_| {
            let keys: Vec<u64> = (0..stored).map(spread).collect();
            let mut found = vec![None; keys.len()];
            table.get_many(&keys, &mut found);
            for (&key, found) in keys.iter().zip(found) {
                assert_eq!(found, Some(value_of(key)));
                assert_eq!(table.get(key), Some(value_of(key)));
                assert_eq!(table.get(!key), None);
            }
            table.pairs().len() as u64
        });
        assert_eq!(met, [stored; 3]);
        assert!(table.occupancy().resizing, "reading finished the resize");
        // Writes to what has not been moved yet do not need anybody either.
        for index in 0..stored {
            let key = spread(index);
            assert_eq!(table.update(key, index).unwrap(), Some(value_of(key)));
        }
        table.settle();
        assert!(!table.occupancy().resizing);
        let expected = (0..stored).map(|index| (spread(index), index)).collect();
        table.assert_holds(&expected);
    }
}

pub(crate) fn a_full_pool_refuses_and_works_on<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in 0..engine.variants {
        let setup = Setup {
            variant,
            limit_bytes: (300 << 10) + 4096 * variant as u64,
            helpers: usize::from(variant % 2 == 0),
            ..Setup::of(engine)
        };
        let table = Table::<B>::new(setup);
        let mut model = HashMap::new();
        let mut keys = (0..).map(spread);
        let mut fill = |model: &mut HashMap<u64, u64>| {
            for key in keys.by_ref() {
                match table.insert(key, value_of(key)) {
                    Ok(found) => assert_eq!(found, None),
                    Err(Error::Space(SpaceError::Full { .. })) => return key,
                    Err(error) => panic!("{error}"),
                }
                model.insert(key, value_of(key));
            }
            unreachable!("the keys do not end");
        };
        let refused = fill(&mut model);
        assert!(model.len() > engine.budget.pairs_in_300_kib, "full at {} pairs", model.len());
        assert_eq!(table.get(refused), None);
        table.assert_holds(&model);
        // Operations that need no space succeed.
        let some: Vec<u64> = model.keys().copied().take(500).collect();
        for &key in &some {
            match table.upsert(key, 1) {
                Ok(found) => assert_eq!(found, model.insert(key, 1)),
                Err(error) => {
                    assert!(!(engine.updates_in_place)(setup.variant), "{error}");
                    assert_eq!(table.get(key), model.get(&key).copied());
                }
            }
        }
        if !engine.updates_make_room {
            assert!(table.insert(refused, 1).is_err(), "room came from nowhere");
            assert!(matches!(table.upsert(refused, 1), Err(Error::Space(SpaceError::Full { .. }))));
            assert!(table.compare_exchange(refused, None, Some(1)).is_err());
        }
        for &key in &some {
            assert_eq!(table.remove(key).unwrap(), model.remove(&key));
        }
        table.assert_holds(&model);
        // A batch that fails half way has stored what it reports, each pair whole.
        let pairs: Vec<_> = (1..5000u64).map(|key| (key << 8, key)).collect();
        let changes: Vec<_> = pairs.iter().map(|&(key, value)| (key, None, Some(value))).collect();
        let untouched = Some(u64::MAX);
        let mut out = vec![untouched; changes.len()];
        let unfinished = table.compare_exchange_many(&changes, &mut out).unwrap_err();
        let is_undone = |index: &usize| out[*index] == untouched;
        let first_undone = (0..out.len()).find(is_undone).unwrap();
        assert_eq!(
            (unfinished.failed, unfinished.done.first_undone()),
            (first_undone, first_undone)
        );
        let undone = (0..out.len()).filter(is_undone).count();
        assert_eq!(unfinished.done.count(), out.len() - undone);
        for (index, (&(key, value), found)) in pairs.iter().zip(&out).enumerate() {
            assert_eq!(unfinished.done.contains(index), *found != untouched, "entry {index}");
            assert_eq!(table.get(key).is_some(), *found != untouched, "key {key:#x}: {found:?}");
            if *found != untouched {
                assert_eq!((*found, table.get(key)), (None, Some(value)));
                model.insert(key, value);
            }
        }
        let gone: Vec<u64> = model.keys().copied().take(1000).collect();
        let mut out = vec![None; gone.len()];
        table.remove_many(&gone, &mut out).unwrap();
        gone.iter().zip(out).for_each(|(key, found)| assert_eq!(found, model.remove(key)));
        let last = fill(&mut model);
        assert_eq!(table.get(last), None);
        table.reopen().assert_holds(&model);
    }
}
