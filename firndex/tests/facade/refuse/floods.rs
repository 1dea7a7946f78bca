//! Keys that somebody has chosen who knows the pool's seed, all with one hash; and what they do where nobody knows it.

use crate::superblocks::decode;
use crate::{effort, places};
use firndex::{Engine, Error, Existing, ItemError, Options, SpaceError, Store, Table};
use rapidhash::v3::RapidSecrets;
use std::collections::HashSet;

/// A seed that somebody has learned.
const KNOWN: u64 = 0x5eed;
/// What makes the seed of the second output of the first one's (docs/format.md).
const SECOND: u64 = 0x9e37_79b9_7f4a_7c15;
/// Chosen keys.
const CHOSEN: u64 = 1500;
/// What a table takes of them at most: bucket pairs and chains have ends.
const TAKEN_MAX: u64 = 600;
/// Bytes of a pool's index with them, and with nothing else: 4096 slots and a doubling of that, on any engine.
const INDEX_BYTES_MAX: u64 = 2 << 20;
/// Most keys of a store with one hash, under a seed that somebody knows.
const GROUP_MAX: u64 = 4096;

type Key = [u8; 16];

/// Keys with one hash under a seed: their first word takes away whatever the second one says.
fn chosen(seed: u64, number: u64) -> Key {
    let first = RapidSecrets::seed(seed).secrets[1];
    let mut key = [0; 16];
    key[..8].copy_from_slice(&first.to_le_bytes());
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The keys that fall into the same buckets of a table.
fn for_tables(number: u64) -> Key {
    chosen(KNOWN ^ SECOND, number)
}

/// A key that nobody has chosen.
fn other(number: u64) -> Key {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// Engines whose tables have such keys.
fn engines() -> impl Iterator<Item = Engine> {
    let has_keys =
        |engine: &Engine| Options::new().engine(*engine).in_memory_table_of::<Key, u64>().is_ok();
    let engines: Vec<Engine> = Engine::ALL.iter().copied().filter(has_keys).collect();
    assert!(engines.len() >= 4, "{engines:?}");
    engines.into_iter()
}

/// Puts chosen keys; those that were taken. The others were refused for what they are.
fn flood(table: &Table<Key, u64>, keys: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut taken = Vec::new();
    for number in keys {
        match table.put(for_tables(number), number) {
            Ok(before) => {
                assert_eq!(before, None);
                taken.push(number);
            }
            Err(Error::Limit(ItemError::Space(SpaceError::Crowded { pairs, slots }))) => {
                assert!(slots > 4096 && slots > 16 * pairs || pairs >= 500, "{slots}, {pairs}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    taken
}

fn assert_holds(table: &Table<Key, u64>, taken: &[u64], others: u64) {
    assert_eq!(table.len(), taken.len() as u64 + others);
    let of: HashSet<u64> = taken.iter().copied().collect();
    for number in 0..CHOSEN {
        let expected = of.contains(&number).then_some(number);
        assert_eq!(table.get(for_tables(number)).unwrap(), expected);
    }
    for number in 0..others {
        assert_eq!(table.get(other(number)).unwrap(), Some(number));
    }
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn keys_of_one_hash_do_not_make_a_table_grow_without_end() {
    let directory = places::in_ram();
    for engine in engines().step_by(effort::of(1, 2) as usize) {
        let path = directory.path().join(engine.name());
        let options = Options::new().engine(engine).hash_seed(KNOWN);
        let table = options.create_table_of::<Key, u64>(&path).unwrap();
        let taken = flood(&table, 0..CHOSEN);
        let stats = table.stats().unwrap();
        assert!(!taken.is_empty() && taken.len() as u64 <= TAKEN_MAX, "{engine}: {}", taken.len());
        let index_bytes = stats.pool_bytes - stats.heap_bytes;
        assert!(index_bytes <= INDEX_BYTES_MAX, "{engine}: {index_bytes} bytes");
        assert_holds(&table, &taken, 0);
        // They are in nobody's way.
        let others = 8000;
        for number in 0..others {
            assert_eq!(table.put(other(number), number).unwrap(), None, "{engine}");
        }
        let with_others = flood(&table, taken.len() as u64..CHOSEN);
        let all: Vec<u64> = taken.iter().chain(&with_others).copied().collect();
        assert!(all.len() as u64 <= 2 * TAKEN_MAX, "{engine}: {}", all.len());
        assert_holds(&table, &all, others);
        // For each pair at most 32 slots, the last doubling included.
        let stats = table.stats().unwrap();
        assert!(stats.capacity <= 32 * table.len(), "{engine}: {stats:?}");
        table.close().unwrap();
        let read_only = Options::new().read_only(true).open_table_of::<Key, u64>(&path).unwrap();
        assert_holds(&read_only, &all, others);
        drop(read_only);
        let table = Options::new().open_table_of::<Key, u64>(&path).unwrap();
        assert_holds(&table, &all, others);
        table.close().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

/// What the error advises.
#[test]
fn a_copy_has_another_seed_and_room() {
    let directory = places::in_ram();
    let [path, out] = ["pool", "out"].map(|name| directory.path().join(name));
    for engine in engines() {
        let options = Options::new().engine(engine).hash_seed(KNOWN);
        let table = options.create_table_of::<Key, u64>(&path).unwrap();
        let taken = flood(&table, 0..CHOSEN);
        table.convert(&out, Existing::Replace, &Options::new().engine(engine)).unwrap();
        drop(table);
        let copy = Options::new().open_table_of::<Key, u64>(&out).unwrap();
        assert_holds(&copy, &taken, 0);
        let rest = (0..CHOSEN).filter(|number| taken.binary_search(number).is_err());
        let more = flood(&copy, rest);
        assert_eq!(copy.len(), CHOSEN, "{engine}: {} of them", more.len());
        drop(copy);
        std::fs::remove_file(&path).unwrap();
    }
}

/// Puts chosen keys into a store, with their numbers; how many were taken.
fn flood_store(store: &Store, keys: u64, key: fn(u64) -> Key) -> u64 {
    let mut taken = HashSet::new();
    for number in 0..keys {
        match store.put(key(number), number.to_le_bytes()) {
            Ok(before) => {
                assert!(before.is_none());
                taken.insert(number);
            }
            Err(Error::Limit(
                ItemError::TooManyCollisions { .. } | ItemError::Space(SpaceError::Crowded { .. }),
            )) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    for number in 0..keys {
        let found = store.get(key(number)).unwrap();
        let expected = number.to_le_bytes();
        assert_eq!(found.as_deref(), taken.contains(&number).then_some(&expected[..]));
    }
    store.put("another", "1").unwrap();
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    taken.len() as u64
}

/// By either output of the hash: what an engine's index does not take, a group does.
#[test]
fn keys_of_one_hash_do_not_make_a_store_grow_without_end() {
    const KEYS: u64 = 900;
    for &engine in Engine::ALL {
        for key in [|number| chosen(KNOWN, number), for_tables] {
            let store = Options::new().engine(engine).hash_seed(KNOWN).in_memory_store().unwrap();
            let taken = flood_store(&store, KEYS, key);
            assert!(taken == KEYS || (1..=TAKEN_MAX).contains(&taken), "{engine}: {taken}");
            let stats = store.stats().unwrap();
            let index_bytes = stats.pool_bytes - stats.heap_bytes;
            assert!(index_bytes <= INDEX_BYTES_MAX, "{engine}: {stats:?}");
        }
    }
}

/// Where nobody knows the seed, the same keys are like any others.
#[test]
fn under_an_unknown_seed_chosen_keys_are_like_any_others() {
    for engine in engines() {
        let options = Options::new().engine(engine).helpers(0);
        let put = |key: fn(u64) -> Key| {
            let table = options.in_memory_table_of::<Key, u64>().unwrap();
            (0..CHOSEN)
                .for_each(|number| assert_eq!(table.put(key(number), number).unwrap(), None));
            table.stats().unwrap()
        };
        let (of_chosen, of_others) = (put(for_tables), put(other));
        // By a doubling more or less, which chance decides.
        let differ = of_chosen.resizes.abs_diff(of_others.resizes);
        assert!(differ <= 1, "{engine}: {of_chosen:?}, {of_others:?}");
        assert!(of_chosen.capacity <= 2 * of_others.capacity, "{engine}");
    }
    let store = Store::in_memory().unwrap();
    for number in 0..2 * GROUP_MAX {
        store.put(chosen(KNOWN, number), "x").unwrap();
    }
    assert_eq!(store.len(), 2 * GROUP_MAX);
}

/// Each pool has a seed of its own, of which its identity says nothing.
#[test]
fn seeds_are_random() {
    const POOLS: usize = 64;
    let directory = places::in_ram();
    let mut seeds = HashSet::new();
    let (mut ones, mut differing) = ([0; 64], 0);
    let mut last = 0u64;
    for number in 0..POOLS {
        let path = directory.path().join(number.to_string());
        Table::<u64, u64>::create(&path).unwrap().close().unwrap();
        let superblock = decode(&std::fs::read(&path).unwrap());
        let seed = superblock.hash_seed;
        let halves = [superblock.uuid as u64, (superblock.uuid >> 64) as u64];
        assert!(halves.iter().all(|half| (half ^ seed).count_ones() > 8), "{seed:x} {halves:x?}");
        assert!(seeds.insert(seed) && seed != 0);
        (0..64).for_each(|bit| ones[bit] += seed >> bit & 1);
        differing += (seed ^ last).count_ones();
        last = seed;
    }
    // Of 64 fair coins so few or so many heads are never seen.
    assert!(ones.iter().all(|ones| (8..=56).contains(ones)), "{ones:?}");
    assert!((1600..2500).contains(&differing), "{differing}");
}
