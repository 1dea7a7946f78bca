//! What a guest can do: all that an owner can, with the same results.

use crate::owner::{Kind, Process, WideKey, WideValue, patient};
use firndex::{Durability, Engine, Existing, Options, Role, Store, Table};
use std::collections::HashMap;
use workload::Random;

/// The model's states of the last batch's keys, before it.
fn states<K: Copy + Eq + std::hash::Hash, V: Copy>(
    model: &HashMap<K, V>,
    keys: &[K],
) -> Vec<Option<V>> {
    keys.iter().map(|key| model.get(key).copied()).collect()
}

fn walk<K, V>(
    table: &Table<K, V>,
    rng: &mut Random,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) where
    K: firndex::Fixed + Eq + std::hash::Hash + std::fmt::Debug,
    V: firndex::Fixed + PartialEq + std::fmt::Debug,
{
    let mut model: HashMap<K, V> = HashMap::new();
    for _ in 0..1000 {
        let (k, v) = (key(rng.below(300)), value(rng.word()));
        let before = model.get(&k).copied();
        match rng.below(8) {
            0 => assert_eq!(table.get(k).unwrap(), before),
            1 => {
                assert_eq!(table.insert(k, v).unwrap(), before);
                model.entry(k).or_insert(v);
            }
            2 => {
                assert_eq!(table.update(k, v).unwrap(), before);
                model.entry(k).and_modify(|value| *value = v);
            }
            3 => {
                assert_eq!(table.put(k, v).unwrap(), before);
                model.insert(k, v);
            }
            4 => {
                assert_eq!(table.remove(k).unwrap(), before);
                model.remove(&k);
            }
            5 => {
                assert_eq!(table.compare_exchange(k, before, Some(v)).unwrap(), Ok(()));
                model.insert(k, v);
                assert_eq!(table.compare_exchange(k, None, None).unwrap(), Err(Some(v)));
            }
            6 => {
                assert_eq!(table.modify(k, |_| Some(v)).unwrap(), before);
                model.insert(k, v);
            }
            _ => assert_eq!(table.contains_key(k).unwrap(), before.is_some()),
        }
    }
    // More than goes through a lane at once.
    let keys: Vec<K> = (0..4000).map(|_| key(rng.below(2000))).collect();
    let pairs: Vec<(K, V)> = keys.iter().map(|&k| (k, value(rng.word()))).collect();
    let mut expected = Vec::new();
    for &(k, v) in &pairs {
        expected.push(model.insert(k, v));
    }
    assert_eq!(table.put_many(&pairs).unwrap(), expected);
    assert_eq!(table.get_many(&keys).unwrap(), states(&model, &keys));
    assert_eq!(table.insert_many(&pairs[..3000]).unwrap(), states(&model, &keys[..3000]));
    let absent = key(1 << 40);
    assert_eq!(table.update_many(&[(absent, value(1))]).unwrap(), [None]);
    let removed: Vec<_> = keys[..500].iter().map(|k| model.remove(k)).collect();
    assert_eq!(table.remove_many(&keys[..500]).unwrap(), removed);
    assert_eq!(table.len(), model.len() as u64);
    let found: HashMap<K, V> = table.iter().collect::<Result<_, _>>().unwrap();
    assert!(found == model);
    let mut visited = HashMap::new();
    table.for_each(|k, v| assert!(visited.insert(k, v).is_none())).unwrap();
    assert!(visited == model);
    // A scan that is left before its end.
    assert!(table.iter().next().unwrap().is_ok());
    let (mut cursor, mut scanned) = (0, HashMap::new());
    loop {
        let (pairs, next) = table.scan(cursor, 700).unwrap();
        scanned.extend(pairs);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned == model);
}

#[test]
fn a_table_is_the_same_to_a_guest() {
    for &engine in Engine::ALL {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Words, &path, engine, Durability::Process);
        let table: Table<u64, u64> = patient().open_table(&path).unwrap();
        assert_eq!(table.role(), Role::Guest);
        walk(&table, &mut Random::new(1), |key| key, |value| value);
        let stats = table.stats().unwrap();
        assert_eq!((stats.engine, stats.role, stats.guests), (engine, Role::Guest, 1));
        assert_eq!(stats.pairs, table.len());
        assert!(stats.capacity >= stats.pairs && stats.pool_bytes > 0 && stats.load_factor > 0.0);
        assert!(!stats.levels.is_empty() && stats.incarnation == 1);
        let held: HashMap<u64, u64> = table.iter().collect::<Result<_, _>>().unwrap();
        drop(table);
        owner.close();
        let table = Table::<u64, u64>::open(&path).unwrap();
        assert_eq!(table.role(), Role::Owner);
        assert!(held == table.iter().collect::<Result<HashMap<_, _>, _>>().unwrap());
        assert!(table.check().unwrap().is_sound());
    }
}

#[test]
fn so_is_one_with_keys_and_values_of_other_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let engine = crate::owner::wide_engine();
    let _owner = Process::owner(Kind::Wide, &path, engine, Durability::Process);
    let table: Table<WideKey, WideValue> = patient().open_table_of(&path).unwrap();
    let key = |number: u64| {
        let mut key = [7; 16];
        key[3..11].copy_from_slice(&number.to_le_bytes());
        key
    };
    walk(&table, &mut Random::new(2), key, |value| [value, !value, 3]);
}

/// Of lengths from nothing to several lanes.
fn value_of(rng: &mut Random) -> Vec<u8> {
    let bytes = match rng.below(10) {
        0 => 0,
        1..7 => rng.below(200),
        7 | 8 => rng.below(5000),
        _ => 60_000 + rng.below(100_000),
    };
    let first = rng.word();
    (0..bytes).map(|at| (first >> (at % 8)) as u8 ^ at as u8).collect()
}

#[test]
fn a_store_is_the_same_to_a_guest() {
    for &engine in Engine::ALL {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Store, &path, engine, Durability::Process);
        let store = patient().open_store(&path).unwrap();
        assert_eq!(store.role(), Role::Guest);
        let rng = &mut Random::new(3);
        let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        for _ in 0..300 {
            let (k, v) = (format!("key {}", rng.below(100)).into_bytes(), value_of(rng));
            let before = model.get(&k).cloned();
            let before = before.as_deref();
            match rng.below(7) {
                0 => assert_eq!(store.get(&k).unwrap().as_deref(), before),
                1 => {
                    assert_eq!(store.insert(&k, &v).unwrap().as_deref(), before);
                    model.entry(k).or_insert(v);
                }
                2 => {
                    assert_eq!(store.update(&k, &v).unwrap().as_deref(), before);
                    model.entry(k).and_modify(|value| *value = v);
                }
                3 => {
                    assert_eq!(store.put(&k, &v).unwrap().as_deref(), before);
                    model.insert(k, v);
                }
                4 => {
                    assert_eq!(store.remove(&k).unwrap().as_deref(), before);
                    model.remove(&k);
                }
                5 => {
                    assert!(store.compare_exchange(&k, before, Some(&v)).unwrap().is_ok());
                    let found = store.compare_exchange(&k, None, None).unwrap().unwrap_err();
                    assert_eq!(found.as_deref(), Some(&v[..]));
                    model.insert(k, v);
                }
                _ => {
                    let change = |_: Option<&[u8]>| Some(v.clone());
                    assert_eq!(store.modify(&k, change).unwrap().as_deref(), before);
                    model.insert(k, v);
                }
            }
        }
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..300)
            .map(|_| (format!("key {}", rng.below(400)).into_bytes(), value_of(rng)))
            .collect();
        let keys: Vec<&Vec<u8>> = pairs.iter().map(|(key, _)| key).collect();
        let expected: Vec<_> =
            pairs.iter().map(|(k, v)| model.insert(k.clone(), v.clone())).collect();
        let same = |found: Vec<Option<firndex::Record<'_>>>, expected: &[Option<Vec<u8>>]| {
            assert_eq!(found.len(), expected.len());
            let all = found.iter().zip(expected);
            assert!(all.into_iter().all(|(one, other)| one.as_deref() == other.as_deref()));
        };
        same(store.put_many(&pairs).unwrap(), &expected);
        let now: Vec<_> = keys.iter().map(|key| model.get(*key).cloned()).collect();
        same(store.get_many(&keys).unwrap(), &now);
        same(store.insert_many(&pairs).unwrap(), &now);
        same(store.update_many(&[("absent", "")]).unwrap(), &[None]);
        let removed: Vec<_> = keys[..100].iter().map(|key| model.remove(*key)).collect();
        same(store.remove_many(&keys[..100]).unwrap(), &removed);
        assert_eq!(store.len(), model.len() as u64);
        let found: HashMap<_, _> = store.iter().collect::<Result<_, _>>().unwrap();
        assert!(found == model);
        assert!(store.iter().next().unwrap().is_ok());
        store.compact().unwrap();
        store.shrink().unwrap();
        store.sync().unwrap();
        let copy = directory.path().join("copy");
        assert_eq!(store.backup(&copy, Existing::Keep).unwrap().pairs, model.len() as u64);
        let stats = store.stats().unwrap();
        assert!(stats.heap_used_bytes > 0 && stats.pairs == model.len() as u64);
        drop(store);
        owner.close();
        for path in [path, copy] {
            let store = Store::open(&path).unwrap();
            let found: HashMap<_, _> = store.iter().collect::<Result<_, _>>().unwrap();
            assert!(found == model && store.check().unwrap().is_sound());
        }
    }
}

/// Threads of guests and of the owner add to the same counters.
#[test]
fn many_threads_of_many_processes_count_right() {
    const COUNTERS: u64 = 5;
    const TIMES: u64 = 300;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let own: Table<u64, u64> = Options::new().guests(true).create_table(&path).unwrap();
    let adders: Vec<_> = (0..3).map(|_| crate::owner::adder(&path, COUNTERS, TIMES)).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for turn in 0..TIMES {
                    own.modify(turn % COUNTERS, |sum| Some(sum.unwrap_or(0) + 1)).unwrap();
                }
            });
        }
    });
    for mut adder in adders {
        assert!(adder.has_succeeded());
    }
    let sum: u64 = own.values().map(Result::unwrap).sum();
    // Each adder has as many threads as its number says.
    assert_eq!(sum, (2 + 3 * crate::owner::ADDER_THREADS) * TIMES);
    assert_eq!(own.stats().unwrap().role, Role::Owner);
}
