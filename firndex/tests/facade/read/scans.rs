//! Scans in all their forms: to the end, broken off, as iterators; alone and beside writers.

use crate::effort;
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
    let make = |engine| Options::new().engine(engine).in_memory_table().unwrap();
    effort::engines().map(make)
}

fn stores() -> impl Iterator<Item = Store> {
    let make = |engine| Options::new().engine(engine).in_memory_store().unwrap();
    effort::engines().map(make)
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
        assert!(table.shrink().unwrap());
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

/// All parts of a scan of a table. `between` is called with the number of each.
fn in_parts(table: &Table, count: usize, mut between: impl FnMut(usize)) -> Vec<(u64, u64)> {
    let (mut met, mut cursor) = (Vec::new(), 0);
    for part in 0.. {
        let (pairs, next) = table.scan(cursor, count).unwrap();
        met.extend(pairs);
        cursor = next;
        if cursor == 0 {
            break;
        }
        between(part);
    }
    met
}

#[test]
fn scans_in_parts_are_exact_beside_two_writers() {
    tables_beside_writers(|table| in_parts(table, 90, |_| {}));
}

#[test]
fn scans_of_stores_in_parts_are_exact_beside_two_writers() {
    stores_beside_writers(|store| {
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            let (pairs, next) = store.scan(cursor, 90).unwrap();
            met.extend(pairs);
            cursor = next;
            if cursor == 0 {
                return met;
            }
        }
    });
}

/// Resizes, changes and other scans between the parts; more scans at once than are remembered.
#[test]
fn a_scan_outlives_what_comes_between_its_parts() {
    const STAY: u64 = 12_000;
    for table in tables() {
        (0..STAY).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        let mut others: Vec<(u64, Vec<u64>)> = vec![(0, Vec::new()); 11];
        let mut others_go_on = |count: usize| {
            for (cursor, met) in
                others.iter_mut().filter(|(cursor, met)| *cursor != 0 || met.is_empty())
            {
                let (pairs, next) = table.scan(*cursor, count).unwrap();
                met.extend(pairs.into_iter().map(|(key, _)| key));
                *cursor = next;
            }
        };
        let mut met = in_parts(&table, 900, |part| {
            let wave = STAY * (1 + part as u64)..STAY * (1 + part as u64) + 3000;
            wave.clone().for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
            others_go_on(1 + 2500 * (part % 2));
            wave.for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(!key)));
            let _may_not_be_offered = table.shrink();
        });
        others_go_on(usize::MAX);
        met.retain(|&(key, _)| key < STAY);
        met.sort();
        assert!(met.iter().map(|&(key, _)| key).eq(0..STAY), "{:?}", table.stats());
        for (cursor, mut met) in others {
            assert_eq!(cursor, 0);
            met.sort();
            let twice = met.windows(2).find(|keys| keys[0] == keys[1]);
            assert_eq!(twice, None);
            assert_eq!(met.into_iter().filter(|&key| key < STAY).count() as u64, STAY);
        }
    }
}

/// A scan that begins meets what was inserted before that, whatever others have gathered earlier.
#[test]
fn a_scan_is_served_from_no_run_that_is_older() {
    let table = <Table>::in_memory().unwrap();
    (0..100).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
    let (_, first) = table.scan(0, 10).unwrap();
    (100..200).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
    let mut met = in_parts(&table, 10, |_| drop(table.scan(first, 10).unwrap()));
    met.sort();
    assert!(met.into_iter().map(|(key, _)| key).eq(0..200));
}

/// A cursor goes on in another process.
#[test]
fn a_cursor_outlives_its_handle() {
    let directory = crate::places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.to_string());
        let options = Options::new().engine(engine);
        let table = options.create_table(&path).unwrap();
        (0..5000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        table.close().unwrap();
        let (mut met, mut cursor, mut handles) = (Vec::new(), 0, 0);
        while handles == 0 || cursor != 0 {
            let table = options.open_table(&path).unwrap();
            let (pairs, next) = table.scan(cursor, 600).unwrap();
            met.extend(pairs);
            cursor = next;
            handles += 1;
            for key in 10_000 * handles..10_000 * handles + 4000 {
                assert_eq!(table.put(key, !key).unwrap(), None);
                let earlier = (handles > 1).then(|| table.remove(key - 10_000).unwrap());
                assert!(earlier.is_none_or(|removed| removed.is_some()));
            }
            table.close().unwrap();
        }
        met.sort();
        let met: Vec<u64> = met.into_iter().map(|(key, _)| key).collect();
        assert!(met.windows(2).all(|keys| keys[0] < keys[1]), "{engine}: a key came twice");
        assert!(met.into_iter().filter(|&key| key < 5000).eq(0..5000), "{engine}");
        assert!(handles > 5, "{engine}: {handles}");
    }
}

#[test]
fn every_number_is_a_cursor() {
    let (table, store) = (<Table>::in_memory().unwrap(), Store::in_memory().unwrap());
    assert_eq!(table.scan(0, 10).unwrap(), (vec![], 0));
    for key in 0..5000u64 {
        assert_eq!(table.put(key, !key).unwrap(), None);
        assert!(store.put(key.to_be_bytes(), b"").unwrap().is_none());
    }
    for cursor in [1, 7 << 20, 7 << 20 | 1, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
        for count in [0, 1, 100, usize::MAX] {
            let (pairs, next) = table.scan(cursor, count).unwrap();
            assert!(pairs.len() <= count.max(1), "{count}: {}", pairs.len());
            assert!(firndex::is_cursor(next));
            assert!(next == 0 || next > cursor >> 20 << 20);
            assert!(pairs.iter().all(|&(key, value)| value == !key));
            assert!(store.scan(cursor, count).unwrap().0.len() <= count.max(1));
        }
    }
}
