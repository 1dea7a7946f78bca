//! Concurrent histories in which every value is unique: a value that was stored is either there
//! at the end or was handed out, exactly once, as the one that something replaced.

use crate::byte_map::ByteMap;
use crate::read::items::CutItems;
use crate::{effort, places};
use firndex::{Engine, Options};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use workload::Random;

const WRITERS: u64 = 3;

fn key_of(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// Key, writer and number, then a filler that a torn or foreign value would break.
fn value_of(key: u64, writer: u64, number: u64) -> Vec<u8> {
    let mut value = [key, writer, number].map(u64::to_le_bytes).concat();
    let mut random = Random::new(key ^ writer << 32 ^ number << 40);
    let filler = match random.below(60) {
        0 => 3000 + random.below(3000),
        _ => random.below(100),
    };
    value.extend((0..filler).map(|_| random.word() as u8));
    value
}

/// Fails unless `value` belongs to `key` and one of the writers has begun to store it.
fn verify(key: u64, value: &[u8], issued: &[AtomicU64]) -> (u64, u64) {
    let word = |index: usize| u64::from_le_bytes(value[8 * index..][..8].try_into().unwrap());
    let (found, writer, number) = (word(0), word(1), word(2));
    assert_eq!(found, key, "the value of another key");
    assert!(number <= issued[writer as usize].load(Ordering::SeqCst), "never written");
    assert!(value == value_of(key, writer, number), "torn: key {key}, {writer}: {number}");
    (writer, number)
}

/// Runs writers and a reader on `map`; returns what must be in it at the end.
pub(crate) fn history(map: &impl ByteMap, keys: u64, operations: u64) -> HashMap<Vec<u8>, Vec<u8>> {
    let issued: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicU64::new(0);
    let logs: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (issued, done) = (&issued, &done);
                scope.spawn(move || {
                    let log = write(map, keys, operations, writer, issued);
                    done.fetch_add(1, Ordering::SeqCst);
                    log
                })
            })
            .collect();
        scope.spawn(|| read(map, keys, &issued, &done));
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let contents = map.sound_contents();
    let mut stored = HashSet::new();
    let mut accounted = HashSet::new();
    for (key, value) in logs.iter().flat_map(|log| &log.stored) {
        assert!(stored.insert((*key, *value)));
    }
    let replaced = logs.iter().flat_map(|log| &log.replaced);
    let left = contents.iter().map(|(key, value)| {
        let key = std::str::from_utf8(key).unwrap().strip_prefix("key ").unwrap();
        (key.parse().unwrap(), value.clone())
    });
    for (key, value) in replaced.cloned().chain(left) {
        let entry = (key, verify(key, &value, &issued));
        assert!(stored.contains(&entry), "{entry:?} was refused, and is there all the same");
        assert!(accounted.insert(entry), "{entry:?} was replaced twice");
    }
    assert_eq!(accounted.len(), stored.len(), "values vanished without being replaced");
    contents
}

#[derive(Default)]
struct Log {
    /// Key, and writer and number of the value.
    stored: Vec<(u64, (u64, u64))>,
    replaced: Vec<(u64, Vec<u8>)>,
}

fn write(map: &impl ByteMap, keys: u64, operations: u64, writer: u64, issued: &[AtomicU64]) -> Log {
    let mut random = Random::new(writer + 1);
    let mut log = Log::default();
    let mut number = 0;
    while number < operations {
        let key = random.below(keys);
        number += 1;
        issued[writer as usize].store(number, Ordering::SeqCst);
        let (name, value) = (key_of(key), value_of(key, writer, number));
        let mut note = |is_stored: bool, replaced: Option<Vec<u8>>| {
            log.stored.extend(is_stored.then_some((key, (writer, number))));
            log.replaced.extend(replaced.map(|value| (key, value)));
        };
        match random.below(8) {
            0 | 1 => note(true, map.put(&name, &value)),
            2 => note(map.insert(&name, &value).is_none(), None),
            3 => {
                let replaced = map.update(&name, &value);
                note(replaced.is_some(), replaced);
            }
            4 => note(false, map.remove(&name)),
            5 => {
                let found = map.get(&name);
                let new = random.below(2) == 0;
                let is_done =
                    map.compare_exchange(&name, found.as_deref(), new.then_some(&value)).is_ok();
                note(is_done && new, if is_done { found } else { None });
            }
            6 => {
                // Neighbours, some of them twice: a batch meets its own entries.
                let batch: Vec<(u64, u64)> =
                    (0..random.below(40)).map(|n| (random.below(keys), number + n)).collect();
                number += batch.len() as u64;
                issued[writer as usize].store(number, Ordering::SeqCst);
                let pairs: Vec<_> =
                    batch.iter().map(|&(key, n)| (key_of(key), value_of(key, writer, n))).collect();
                let slices: Vec<_> =
                    pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
                for (&(key, n), replaced) in batch.iter().zip(map.put_many(&slices)) {
                    log.stored.push((key, (writer, n)));
                    log.replaced.extend(replaced.map(|value| (key, value)));
                }
            }
            _ => {
                let batch: Vec<u64> = (0..random.below(20)).map(|_| random.below(keys)).collect();
                let names: Vec<_> = batch.iter().map(|&key| key_of(key)).collect();
                let slices: Vec<_> = names.iter().map(Vec::as_slice).collect();
                for (&key, removed) in batch.iter().zip(map.remove_many(&slices)) {
                    log.replaced.extend(removed.map(|value| (key, value)));
                }
            }
        }
    }
    log
}

fn read(map: &impl ByteMap, keys: u64, issued: &[AtomicU64], done: &AtomicU64) {
    let mut random = Random::new(99);
    while done.load(Ordering::SeqCst) < WRITERS {
        let key = random.below(keys);
        if let Some(value) = map.get(&key_of(key)) {
            verify(key, &value, issued);
        }
        let batch: Vec<u64> = (0..40).map(|_| random.below(keys)).collect();
        let names: Vec<_> = batch.iter().map(|&key| key_of(key)).collect();
        let slices: Vec<_> = names.iter().map(Vec::as_slice).collect();
        for (&key, value) in batch.iter().zip(map.get_many(&slices)) {
            if let Some(value) = value {
                verify(key, &value, issued);
            }
        }
    }
}

fn on_cut_items(hash_bits: u32, keys: u64, operations: u64) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let map = CutItems::create(&path, hash_bits);
    let contents = history(&map, keys, operations);
    drop(map);
    assert_eq!(CutItems::open(&path, hash_bits).sound_contents(), contents);
}

#[test]
fn with_8_bits_of_hash() {
    on_cut_items(8, 1000, 30_000);
}

#[test]
fn with_3_bits_of_hash() {
    on_cut_items(3, 60, 20_000);
}

#[test]
fn with_one_hash_for_all_keys() {
    on_cut_items(0, 12, 20_000);
}

#[test]
fn in_a_store_that_grows() {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine);
        let store = options.create_store(&path).unwrap();
        let contents = history(&store, 20_000, effort::of(40_000, 15_000));
        assert!(
            store.stats().unwrap().resizes > 3,
            "it did not grow: {:?}",
            store.stats().unwrap()
        );
        store.close().unwrap();
        assert_eq!(options.open_store(&path).unwrap().sound_contents(), contents);
    }
}

#[test]
fn in_a_store_of_few_keys() {
    for &engine in Engine::ALL {
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        history(&store, 4, effort::of(40_000, 15_000));
    }
}
