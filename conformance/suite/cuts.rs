//! Kills at every moment, one after another: each prefix of the journal is recovered and judged. See
//! [`Journal`](crate::harness::Journal).

use crate::harness::{Backing, Engine, Image, Journal, PLACE, Random, Setup, Slow, Table, within};
use crate::threads::together;
use index::Index;
use pmem::{OpenError, Pool};
use std::collections::HashMap;
use std::sync::Arc;
use workload::effort;

/// A change of a key's state, with the lengths of the journal before and after the operation.
#[derive(Debug, Clone, Copy)]
struct Change {
    key: u64,
    state: Option<u64>,
    began: usize,
    returned: usize,
}

/// One random mutation, or a batch, on a table of one thread's keys.
fn mutate<B: Backing<Medium = Slow>>(
    table: &Table<B>,
    keys: &[u64],
    random: &mut Random,
    model: &mut HashMap<u64, u64>,
    changes: &mut Vec<Change>,
) {
    let journal = Journal::of(table.pool().medium());
    let key = *random.of(keys);
    let value = random.word();
    let began = journal.len();
    let mut change = |key, state| {
        changes.push(Change { key, state, began, returned: journal.len() });
        match state {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    };
    match random.below(10) {
        0..5 => {
            let found = table.insert(key, value).unwrap();
            change(key, found.or(Some(value)));
        }
        5 => {
            table.upsert(key, value).unwrap();
            change(key, Some(value));
        }
        6 => {
            let found = table.update(key, value).unwrap();
            change(key, found.map(|_| value));
        }
        7 | 8 => {
            table.remove(key).unwrap();
            change(key, None);
        }
        _ => {
            let mut batch: Vec<u64> = (0..10).map(|_| *random.of(keys)).collect();
            batch.sort();
            batch.dedup();
            let pairs: Vec<_> = batch.iter().map(|&key| (key, value ^ key)).collect();
            table.upsert_many(&pairs, &mut vec![None; pairs.len()]).unwrap();
            pairs.iter().for_each(|&(key, value)| change(key, Some(value)));
        }
    }
}

/// Asserts that a recovered table holds what its history says. An operation under way at the cut may have happened or
/// not.
fn judge<B: Backing>(table: &Table<B>, changes: &[Change], cut: usize) {
    let mut certain: HashMap<u64, Option<u64>> = HashMap::new();
    let mut possible: HashMap<u64, Option<u64>> = HashMap::new();
    for change in changes {
        if change.returned <= cut {
            certain.insert(change.key, change.state);
        } else if change.began < cut {
            possible.insert(change.key, change.state);
        }
    }
    let mut pairs = table.pairs();
    assert_eq!(table.len(), pairs.len() as u64, "cut {cut}");
    for (&key, &state) in &certain {
        let found = table.get(key);
        assert_eq!(found, pairs.remove(&key), "cut {cut}: scan and search differ");
        assert!(
            found == state || possible.get(&key) == Some(&found),
            "cut {cut}: key {key:#x} is {found:x?}, but {state:x?} had been returned"
        );
    }
    for (key, value) in pairs {
        let state = possible.get(&key);
        assert_eq!(state, Some(&Some(value)), "cut {cut}: key {key:#x} comes from nowhere");
        assert_eq!(table.get(key), Some(value), "cut {cut}");
    }
    let report = table.check();
    assert!(report.is_sound(), "cut {cut}: {:#?}", report.findings);
}

fn tiny(engine: &'static Engine, seed: u64) -> Setup {
    Setup {
        variant: seed as usize % engine.variants,
        resize_at: [0.85, 1.0, engine.as_late_as_possible][seed as usize % 3],
        helpers: 0,
        recovery_threads: 1,
        limit_bytes: 64 << 20,
        ..Setup::of(engine)
    }
}

fn keys_of(engine: &'static Engine, thread: usize, count: u64) -> Vec<u64> {
    let colliding = engine.colliding_keys().iter().copied().skip(thread * 20).take(20);
    let mut keys: Vec<u64> =
        (0..count).map(|key| key << 2 | thread as u64).chain(colliding).collect();
    if thread == 1 {
        keys.push(u64::MAX);
    }
    keys
}

/// Every cut of a journal up to `end` if there are at most `most`, otherwise one now and then.
fn some_cuts(end: usize, most: usize, random: &mut Random) -> Vec<usize> {
    let step = (end / most).max(1) as u64;
    let next = |cut: &usize| Some(cut + 1 + random.below(2 * step - 1) as usize);
    std::iter::successors(Some(0), next).take_while(|&cut| cut <= end).collect()
}

pub(crate) fn a_cut_anywhere_keeps_what_had_returned<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
) {
    let _watchdog = within(120);
    for seed in 0..effort::of(12, 4) {
        let setup = tiny(engine, seed);
        let mut random = Random::new(seed);
        let table = Table::<B>::new(setup);
        let made = Journal::of(table.pool().medium()).len();
        let (mut changes, mut model) = (Vec::new(), HashMap::new());
        for _ in 0..400 {
            mutate(&table, &keys_of(engine, 0, 120), &mut random, &mut model, &mut changes);
        }
        table.assert_holds(&model);
        let journal = Journal::of(table.pool().medium());
        let cuts = some_cuts(journal.len() - made, 250, &mut random);
        journal.cuts(cuts.into_iter().map(|cut| made + cut), |cut, image| {
            let table = Table::<B>::from_image(image, setup).unwrap();
            judge(&table, &changes, cut);
        });
    }
}

pub(crate) fn a_cut_under_several_writers_keeps_what_had_returned<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
) {
    let _watchdog = within(120);
    for seed in 0..effort::of(12, 4) {
        let setup = tiny(engine, seed);
        let table = Table::<B>::new(setup);
        let made = Journal::of(table.pool().medium()).len();
        let changes = together(3, |thread| {
            let mut random = Random::new(seed << 8 | thread as u64);
            let (mut changes, mut model) = (Vec::new(), HashMap::new());
            let keys = keys_of(engine, thread, 80);
            for _ in 0..200 {
                mutate(&table, &keys, &mut random, &mut model, &mut changes);
            }
            changes
        })
        .concat();
        let journal = Journal::of(table.pool().medium());
        let cuts = some_cuts(journal.len() - made, 200, &mut Random::new(seed));
        journal.cuts(cuts.into_iter().map(|cut| made + cut), |cut, image| {
            let table = Table::<B>::from_image(image, setup).unwrap();
            judge(&table, &changes, cut);
        });
    }
}

pub(crate) fn a_cut_while_creating_leaves_a_table_or_none<B: Backing<Medium = Slow>>(
    engine: &'static Engine,
) {
    let _watchdog = within(120);
    for variant in 0..engine.variants.min(2) {
        let setup = Setup { variant, ..tiny(engine, 0) };
        let table = Table::<B>::new(setup);
        let journal = Journal::of(table.pool().medium());
        let mut were_pools = false;
        journal.cuts(0..=journal.len(), |cut, image| {
            let (_backing, medium) = B::holding(image, setup.limit_bytes);
            match Pool::open(medium, PLACE) {
                Ok(pool) => {
                    were_pools = true;
                    let index = engine.open(Arc::new(pool), setup.settings()).unwrap();
                    assert!(index.is_empty() && index.check().is_sound(), "cut {cut}");
                    assert_eq!(index.get(0), None);
                }
                Err(OpenError::NotAPool { .. } | OpenError::Damaged { .. }) => {
                    assert!(!were_pools, "cut {cut}: it had been a pool before");
                }
                Err(error) => panic!("cut {cut}: {error}"),
            }
        });
        assert!(were_pools);
    }
}

pub(crate) fn a_cut_in_recovery_is_recovered<B: Backing<Medium = Slow>>(engine: &'static Engine) {
    let _watchdog = within(120);
    for seed in 0..effort::of(12, 4) {
        let setup = tiny(engine, seed);
        let mut random = Random::new(seed);
        let table = Table::<B>::new(Setup { resize_at: 0.85, ..setup });
        let made = Journal::of(table.pool().medium()).len();
        let (mut changes, mut model) = (Vec::new(), HashMap::new());
        for _ in 0..400 {
            mutate(&table, &keys_of(engine, 0, 200), &mut random, &mut model, &mut changes);
        }
        let journal = Journal::of(table.pool().medium());
        let cuts = some_cuts(journal.len() - made, 30, &mut random);
        journal.cuts(cuts.into_iter().map(|cut| made + cut), |cut, image| {
            judge_cut_recovery::<B>(image, setup, &changes, cut, &mut random);
        });
    }
}

/// Recovers an image, cuts that recovery now and then, and recovers what the cuts leave.
fn judge_cut_recovery<B: Backing<Medium = Slow>>(
    image: &Image,
    setup: Setup,
    changes: &[Change],
    cut: usize,
    random: &mut Random,
) {
    let table = Table::<B>::from_image(image, setup).unwrap();
    judge(&table, changes, cut);
    let pairs = table.pairs();
    let recovery = Journal::of(table.pool().medium());
    let again = some_cuts(recovery.len(), 12, random);
    recovery.cuts(again, |cut_again, image| {
        let table = Table::<B>::from_image(image, setup).unwrap();
        assert_eq!(table.pairs(), pairs, "cut {cut}, and in recovery after {cut_again}");
        table.assert_sound();
    });
}
