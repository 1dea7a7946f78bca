//! What maps of the standard library have, too: beside a model, and beside other threads.

use firndex::{Engine, Error, OpenError, Options, Store, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn tables() -> impl Iterator<Item = (Engine, Table)> {
    Engine::ALL
        .iter()
        .map(|&engine| (engine, Options::new().engine(engine).in_memory_table().unwrap()))
}

fn stores() -> impl Iterator<Item = (Engine, Store)> {
    Engine::ALL
        .iter()
        .map(|&engine| (engine, Options::new().engine(engine).in_memory_store().unwrap()))
}

/// More than a batch, and more than a table has at first.
const KEYS: u64 = 3000;

#[test]
fn a_table_is_filled_thinned_out_and_cleared() {
    for (engine, table) in tables() {
        table.extend((0..KEYS).map(|key| (key, key * 3))).unwrap();
        table.extend([(7, 1), (7, 2)]).unwrap();
        assert_eq!((table.len(), table.get(7).unwrap()), (KEYS, Some(2)), "{engine}");
        let keys: BTreeSet<u64> = table.keys().map(Result::unwrap).collect();
        assert!(keys.into_iter().eq(0..KEYS), "{engine}");
        let sum: u64 = table.values().map(Result::unwrap).sum();
        assert_eq!(sum, 3 * KEYS * (KEYS - 1) / 2 - 21 + 2, "{engine}");
        assert_eq!(table.keys().take(10).count(), 10);
        assert!(table.contains_key(KEYS - 1).unwrap() && !table.contains_key(KEYS).unwrap());

        let gone = table.retain(|key, value| key % 3 != 0 && value != 2).unwrap();
        assert_eq!(gone, KEYS / 3 + 1, "{engine}");
        assert_eq!(table.len(), KEYS - gone, "{engine}");
        assert!(table.keys().map(Result::unwrap).all(|key| key % 3 != 0 && key != 7), "{engine}");
        assert_eq!(table.clear().unwrap(), KEYS - gone, "{engine}");
        assert!(table.is_empty() && table.iter().next().is_none(), "{engine}");
        assert_eq!(table.clear().unwrap(), 0);
    }
}

#[test]
fn a_store_is_filled_thinned_out_and_cleared() {
    for (engine, store) in stores() {
        store.extend((0..KEYS).map(|key| (key.to_string(), (key * 3).to_string()))).unwrap();
        store.extend([("7", "once"), ("7", "twice")]).unwrap();
        assert_eq!(store.len(), KEYS, "{engine}");
        assert_eq!(store.get_owned("7").unwrap().unwrap(), b"twice");
        let pairs: BTreeMap<_, _> = store.iter().map(Result::unwrap).collect();
        let keys: BTreeSet<_> = store.keys().map(Result::unwrap).collect();
        assert!(keys.iter().eq(pairs.keys()), "{engine}");
        let mut values: Vec<_> = store.values().map(Result::unwrap).collect();
        let mut expected: Vec<_> = pairs.values().cloned().collect();
        values.sort();
        expected.sort();
        assert_eq!(values, expected, "{engine}");
        assert_eq!(store.values().take(10).count(), 10);
        assert!(store.contains_key("0").unwrap() && !store.contains_key("-1").unwrap());

        let gone = store.retain(|key, value| !key.ends_with(b"0") && value != b"twice").unwrap();
        assert_eq!(gone, KEYS / 10 + 1, "{engine}");
        assert!(!store.contains_key("7").unwrap() && !store.contains_key("10").unwrap());
        assert_eq!(store.clear().unwrap(), KEYS - gone, "{engine}");
        assert!(store.is_empty() && store.keys().next().is_none(), "{engine}");
        let report = store.check().unwrap();
        assert!(report.is_sound(), "{engine}: {:#?}", report.findings);
    }
}

#[test]
fn strings_are_taken_wherever_bytes_are() {
    for (engine, store) in stores() {
        let replaced = store.put_many(&[("a", "1"), ("b", "2")]).unwrap();
        assert!(replaced.iter().all(Option::is_none), "{engine}");
        let found = store.get_many(&["b", "c"]).unwrap();
        assert_eq!(found[0].as_deref(), Some(&b"2"[..]));
        assert!(found[1].is_none());
        assert!(store.get_many::<&str>(&[]).unwrap().is_empty());
        assert!(store.replace_if("a", "1", "3").unwrap().is_ok());
        let not_so = store.replace_if("a", "1", String::from("4")).unwrap().unwrap_err();
        assert_eq!(not_so.as_deref(), Some(&b"3"[..]));
        assert!(store.replace_if("c", "", "x").unwrap().unwrap_err().is_none());
        assert!(!store.contains_key("c").unwrap(), "what is absent is not replaced");
        assert!(store.remove_if("a", "1").unwrap().is_err());
        assert!(store.remove_if("a", "3").unwrap().is_ok());
        let removed = store.remove_many(&[String::from("a"), String::from("b")]).unwrap();
        assert!(removed[0].is_none() && removed[1].is_some(), "{engine}");
    }
}

#[test]
fn a_place_is_filled_or_changed_and_says_what_is_there_then() {
    for (engine, table) in tables() {
        let add = |key| table.entry(key).and_modify(|value| *value += 1).or_insert(10).unwrap();
        assert_eq!((add(0), add(0), add(1)), (10, 11, 10), "{engine}");
        assert_eq!(table.entry(0).or_insert(5).unwrap(), 11);
        assert_eq!(table.entry(2).or_insert_with(|| 7).unwrap(), 7);
        assert_eq!(table.entry(3).or_default().unwrap(), 0);
        assert_eq!(table.get_or_insert_with(3, || unreachable!()).unwrap(), 0);
        assert_eq!(table.replace_if(3, 1, 2).unwrap(), Err(Some(0)));
        assert_eq!(table.replace_if(3, 0, 2).unwrap(), Ok(()));
        assert_eq!(table.remove_if(3, 0).unwrap(), Err(Some(2)));
        assert_eq!(table.remove_if(3, 2).unwrap(), Ok(()));
        let pairs: BTreeMap<_, _> = table.iter().map(Result::unwrap).collect();
        assert_eq!(pairs, BTreeMap::from([(0, 11), (1, 10), (2, 7)]), "{engine}");
    }
    for (engine, store) in stores() {
        let add =
            || store.entry("key").and_modify(|value| value.push(b'+')).or_insert("-").unwrap();
        assert_eq!((add(), add()), (b"-".to_vec(), b"-+".to_vec()), "{engine}");
        assert_eq!(store.entry("key").or_insert("other").unwrap(), b"-+");
        assert_eq!(store.entry("empty").or_default().unwrap(), b"");
        let found = store.get_or_insert_with("new", || vec![1, 2]).unwrap();
        assert_eq!(&*found, [1, 2]);
        let again = store.get_or_insert_with("new", || -> &str { unreachable!() }).unwrap();
        assert_eq!(&*again, [1, 2]);
    }
}

/// Threads that all fill one place agree on who did, and no change of a place is lost.
#[test]
fn places_are_filled_once_beside_other_threads() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 2000;
    for (engine, table) in tables() {
        let all: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let table = &table;
            let filling = |thread: u64| {
                scope.spawn(move || {
                    (0..ROUNDS)
                        .map(|key| {
                            table.entry(u64::MAX).and_modify(|sum| *sum += 1).or_insert(1).unwrap();
                            table.get_or_insert_with(key, || thread).unwrap()
                        })
                        .collect()
                })
            };
            let threads: Vec<_> = (0..THREADS).map(filling).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|of_thread| *of_thread == all[0]), "{engine}");
        assert_eq!(table.get(u64::MAX).unwrap(), Some(THREADS * ROUNDS), "{engine}");
    }
}

/// A pair that changes between the look at it and its removal is looked at again.
#[test]
fn retain_removes_no_value_that_it_was_not_shown() {
    for (engine, table) in tables() {
        table.extend((0..100).map(|key| (key, 0))).unwrap();
        let mut seen = BTreeSet::new();
        let removed = table.retain(|key, value| {
            seen.insert((key, value));
            if value == 0 && key % 2 == 0 {
                table.put(key, 1).unwrap();
            }
            value == 1
        });
        assert_eq!(removed.unwrap(), 50, "{engine}");
        assert!((0..100).step_by(2).all(|key| seen.contains(&(key, 1))), "{engine}");
        assert!(table.iter().map(Result::unwrap).all(|(key, value)| key % 2 == 0 && value == 1));
    }
    for (engine, store) in stores() {
        store.extend((0..100).map(|key| (format!("{key}"), "old"))).unwrap();
        let removed = store.retain(|key, value| {
            if value == b"old" && key.ends_with(b"5") {
                store.put(key, "new").unwrap();
            }
            value == b"new"
        });
        assert_eq!((removed.unwrap(), store.len()), (90, 10), "{engine}");
    }
}

/// What is present throughout a clearing is removed; what other threads put meanwhile may stay, and is whole.
#[test]
fn clearing_goes_on_beside_a_writer() {
    for (engine, table) in tables() {
        table.extend((0..KEYS).map(|key| (key, key))).unwrap();
        let (is_over, put) = (AtomicBool::new(false), AtomicU64::new(0));
        let removed = std::thread::scope(|scope| {
            scope.spawn(|| {
                // A clearing that is slower than a writer who never ends may follow a growing table for ever.
                for key in KEYS..100 * KEYS {
                    table.put(key, key).unwrap();
                    put.fetch_add(1, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let removed = table.clear();
            is_over.store(true, Ordering::Relaxed);
            removed.unwrap()
        });
        assert!((0..KEYS).all(|key| !table.contains_key(key).unwrap()), "{engine}");
        assert_eq!(table.len(), KEYS + put.into_inner() - removed, "{engine}");
        assert!(table.iter().map(Result::unwrap).all(|(key, value)| key == value), "{engine}");
    }
}

#[test]
fn opening_never_creates_and_creating_never_opens() {
    let directory = crate::places::in_ram();
    let path = directory.path().join("pool");
    let is_missing = |error: Error| matches!(error, Error::Open(OpenError::Missing { .. }));
    let is_there = |error: Error| matches!(error, Error::Open(OpenError::Exists { .. }));
    assert!(is_missing(Table::<u64, u64>::open(&path).unwrap_err()));
    assert!(is_missing(Store::open(&path).unwrap_err()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was made");

    Table::<u32, [u8; 3]>::create(&path).unwrap().put(1, *b"one").unwrap();
    assert!(is_there(Table::<u32, [u8; 3]>::create(&path).unwrap_err()));
    assert_eq!(Table::open_or_create(&path).unwrap().get(1u32).unwrap(), Some(*b"one"));
    assert_eq!(Table::<u32, [u8; 3]>::open(&path).unwrap().len(), 1);
    let other = Table::<u64, u64>::open_or_create(&path).unwrap_err();
    assert!(matches!(other, Error::Open(OpenError::Mismatch { .. })), "{other:?}");

    let path = directory.path().join("store");
    Store::open_or_create(&path).unwrap().put("key", "value").unwrap();
    assert!(is_there(Store::create(&path).unwrap_err()));
    assert_eq!(Store::open(&path).unwrap().len(), 1);
}
