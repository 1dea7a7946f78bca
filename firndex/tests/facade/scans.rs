//! Scans in all their forms: to the end, broken off, as iterators; alone and beside writers.

use firndex::{Engine, Options, Store, Table};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys that stay as they are.
const STEADY: u64 = 300;
/// The waves of keys that come and go.
const WAVES: u64 = 8;

fn tables() -> impl Iterator<Item = Table> {
    let make = |&engine: &Engine| Options::new().engine(engine).in_memory_table().unwrap();
    Engine::ALL.iter().map(make)
}

fn stores() -> impl Iterator<Item = Store> {
    let make = |&engine: &Engine| Options::new().engine(engine).in_memory_store().unwrap();
    Engine::ALL.iter().map(make)
}

/// Two writers let a table grow and shrink until `look` has come to its end several times.
fn beside_writers(
    put: impl Fn(u64) + Sync,
    remove: impl Fn(u64) + Sync,
    shrink: impl Fn() + Sync,
    look: impl Fn(),
) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (put, remove, shrink, is_over) = (&put, &remove, &shrink, &is_over);
        let writers: Vec<_> = (1..3)
            .map(|writer: u64| {
                scope.spawn(move || {
                    for wave in 0..WAVES {
                        let first = writer << 32 | wave << 16;
                        let keys = first..first + 500 + 2000 * (wave % 2);
                        keys.clone().for_each(put);
                        keys.for_each(remove);
                        (0..4).for_each(|_| shrink());
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            is_over.store(true, Ordering::Release);
        });
        let mut looks = 0;
        while looks < 3 || !is_over.load(Ordering::Acquire) {
            look();
            looks += 1;
        }
    });
}

/// Asserts that of what was met all that stays was met once, with its value, and nothing was invented.
#[track_caller]
fn assert_exact<T: Hash + Eq + std::fmt::Debug>(
    what: &str,
    met: impl IntoIterator<Item = (T, T)>,
    key_of: impl Fn(u64) -> T,
    number_of: impl Fn(&T) -> u64,
) {
    let mut times: HashMap<T, u32> = HashMap::new();
    for (key, value) in met {
        assert_eq!(number_of(&value), !number_of(&key), "{what}: {key:?} was invented");
        *times.entry(key).or_default() += 1;
    }
    for number in 0..STEADY {
        let key = key_of(number);
        assert_eq!(times.get(&key), Some(&1), "{what}: {key:?} was there throughout");
    }
}

fn tables_beside_writers(look: impl Fn(&Table) -> Vec<(u64, u64)>) {
    for table in tables() {
        let put = |key: u64| assert_eq!(table.put(key, !key).unwrap(), None);
        (0..STEADY).for_each(put);
        let remove = |key| assert_eq!(table.remove(key).unwrap(), Some(!key));
        let what = table.stats().unwrap().engine.to_string();
        // It may be refused for who scans, or not be offered.
        beside_writers(
            put,
            remove,
            || drop(table.shrink()),
            || {
                assert_exact(&what, look(&table), |number| number, |&number| number);
            },
        );
        assert_eq!(table.len(), STEADY);
        assert!(table.check().unwrap().is_sound());
    }
}

fn stores_beside_writers(look: impl Fn(&Store) -> Vec<(Vec<u8>, Vec<u8>)>) {
    let bytes = |number: u64| number.to_be_bytes().to_vec();
    let number = |bytes: &Vec<u8>| u64::from_be_bytes(bytes[..].try_into().unwrap());
    for store in stores() {
        let put = |key: u64| assert!(store.put(bytes(key), bytes(!key)).unwrap().is_none());
        (0..STEADY).for_each(put);
        let remove = |key| assert!(store.remove(bytes(key)).unwrap().is_some());
        let what = store.stats().unwrap().engine.to_string();
        beside_writers(
            put,
            remove,
            || drop(store.shrink()),
            || {
                assert_exact(&what, look(&store), bytes, number);
            },
        );
        assert_eq!(store.len(), STEADY);
        assert!(store.check().unwrap().is_sound());
    }
}

#[test]
fn iterators_over_tables_are_exact_beside_two_writers() {
    tables_beside_writers(|table| table.iter().collect::<Result<_, _>>().unwrap());
}

#[test]
fn iterators_over_stores_are_exact_beside_two_writers() {
    stores_beside_writers(|store| store.iter().collect::<Result<_, _>>().unwrap());
}

#[test]
fn visits_of_stores_are_exact_beside_two_writers() {
    stores_beside_writers(|store| {
        let mut met = Vec::new();
        store.for_each(|key, value| met.push((key.to_vec(), value.to_vec()))).unwrap();
        met
    });
}

#[test]
fn who_breaks_off_is_shown_no_more() {
    for table in tables() {
        (0..1000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        for most in [1, 2, 63, 500] {
            let mut visits = 0;
            let visited = table.try_for_each(|key, _| {
                visits += 1;
                if visits == most { ControlFlow::Break(key) } else { ControlFlow::Continue(()) }
            });
            assert!(matches!(visited, Ok(ControlFlow::Break(0..1000))), "{visited:?}");
            assert_eq!(visits, most);
            assert_eq!(table.iter().take(most).filter(|pair| pair.is_ok()).count(), most);
        }
        let all = table.try_for_each(|_, _| ControlFlow::<()>::Continue(()));
        assert_eq!(all.unwrap(), ControlFlow::Continue(()));
        // Nothing of those scans is left, for which a shrink would be refused.
        (10..1000).for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(!key)));
        let stats = table.stats().unwrap();
        assert_eq!(table.shrink().is_ok_and(|shrunk| shrunk), stats.engine.description().shrinks);
        assert_eq!(table.iter().count(), 10);
    }
    for store in stores() {
        (0..100u64).for_each(|key| drop(store.put(key.to_be_bytes(), [7; 100]).unwrap()));
        let mut visits = 0;
        let visited = store.try_for_each(|_, value| {
            assert_eq!(value, [7; 100]);
            visits += 1;
            if visits == 40 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
        });
        assert_eq!((visited.unwrap(), visits), (ControlFlow::Break("enough"), 40));
        assert_eq!(store.iter().take(7).filter(|pair| pair.is_ok()).count(), 7);
    }
}

/// What an iterator does not hold may be used again while it waits.
#[test]
fn a_store_is_written_to_under_its_iterator() {
    for store in stores() {
        for key in 0..200u64 {
            assert!(store.put(key.to_be_bytes(), key.to_be_bytes()).unwrap().is_none());
        }
        let mut met = Vec::new();
        for pair in &store {
            let (key, value) = pair.unwrap();
            assert!(store.remove(&key).unwrap().is_some_and(|removed| removed == value));
            assert!(store.get(&key).unwrap().is_none());
            met.push(key);
        }
        met.sort();
        met.dedup();
        assert_eq!((met.len(), store.len()), (200, 0));
        assert!(store.check().unwrap().is_sound());
    }
}

#[test]
fn an_iterator_ends_and_stays_so() {
    for (table, store) in tables().zip(stores()) {
        table.put(1, 2).unwrap();
        store.put("key", "value").unwrap();
        let (mut pairs, mut copies) = (table.iter(), store.iter());
        assert_eq!(pairs.next().unwrap().unwrap(), (1, 2));
        assert_eq!(copies.next().unwrap().unwrap(), (b"key".to_vec(), b"value".to_vec()));
        for _ in 0..3 {
            assert!(pairs.next().is_none() && copies.next().is_none());
        }
    }
}
