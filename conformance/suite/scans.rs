//! Scans while others write: every key that is present throughout is met exactly once, with a value that it had
//! meanwhile.

use crate::harness::{Backing, Engine, Random, Table, spread, within};
use crate::threads::{growing_setups, together};
use index::Index;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Keys that stay unchanged.
const STEADY: u64 = 60;
/// Keys that stay and are updated.
const UPDATED: u64 = 20;

/// Key `number` of all; the first keys stay.
fn key_of(number: u64) -> u64 {
    spread(number)
}

/// A value that tells its key and how often that key has been updated.
fn value_of(key: u64, version: u64) -> u64 {
    key & !0xffff_ffff | version
}

/// The least and the most updates that a key may have had.
#[derive(Default)]
struct Versions {
    done: AtomicU64,
    begun: AtomicU64,
}

/// Inserts and removes keys, so that the table grows and, if it can, shrinks; meanwhile updates those that stay.
fn write<B: Backing>(table: &Table<B>, versions: &[Versions], waves: u64) {
    let mut random = Random::new(waves);
    let mut update = || {
        let number = random.below(UPDATED);
        let (key, versions) = (key_of(number), &versions[number as usize]);
        let before = versions.begun.fetch_add(1, Ordering::SeqCst);
        let replaced = table.update(key, value_of(key, before + 1)).unwrap();
        assert_eq!(replaced, Some(value_of(key, before)));
        versions.done.store(before + 1, Ordering::SeqCst);
    };
    for wave in 0..waves {
        let first = STEADY + UPDATED + wave * 10_000;
        let others = first..first + 100 + 500 * (wave % 3);
        for number in others.clone() {
            assert_eq!(table.insert(key_of(number), number).unwrap(), None);
            update();
        }
        for number in others {
            assert_eq!(table.remove(key_of(number)).unwrap(), Some(number));
        }
        for _ in 0..4 {
            // An engine may refuse while scans hold what it would reuse.
            let _refused = table.shrink();
            update();
        }
    }
}

/// One scan, with pauses in which writers go on. Every value that it meets, its key had during the scan.
fn scan<B: Backing>(table: &Table<B>, versions: &[Versions], random: &mut Random) {
    let first = versions.iter().map(|key| key.done.load(Ordering::SeqCst));
    let first: Vec<u64> = first.collect();
    let mut met: HashMap<u64, Vec<u64>> = HashMap::new();
    table
        .for_each(&mut |key, value| {
            met.entry(key).or_default().push(value);
            if random.percent(10) {
                std::thread::yield_now();
            }
        })
        .unwrap();
    for number in 0..STEADY + UPDATED {
        let key = key_of(number);
        let values = met.get(&key).map(Vec::as_slice).unwrap_or_default();
        if table.setup().engine.scans_exactly() {
            let times = values.len();
            assert_eq!(times, 1, "key number {number} was there throughout, and met {times} times");
        }
        let versions = match versions.get(number as usize) {
            Some(versions) => first[number as usize]..=versions.begun.load(Ordering::SeqCst),
            None => 0..=0,
        };
        for version in values.iter().map(|value| value ^ value_of(key, 0)) {
            assert!(
                versions.contains(&version),
                "version {version} of key number {number} was met, not one of {versions:?}"
            );
        }
    }
}

pub(crate) fn what_stays_is_met_once<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for round in 0..B::part(24) {
        for setup in growing_setups(engine) {
            let table = Table::<B>::new(setup);
            for number in 0..STEADY + UPDATED {
                let key = key_of(number);
                assert_eq!(table.insert(key, value_of(key, 0)).unwrap(), None);
            }
            let versions: Vec<Versions> = (0..UPDATED).map(|_| Versions::default()).collect();
            let is_over = AtomicBool::new(false);
            together(3, |thread| {
                if thread == 0 {
                    write(&table, &versions, 6);
                    is_over.store(true, Ordering::Release);
                    return;
                }
                let mut random = Random::new(round << 8 | thread as u64);
                while !is_over.load(Ordering::Acquire) {
                    scan(&table, &versions, &mut random);
                }
            });
            table.assert_sound();
        }
    }
}
