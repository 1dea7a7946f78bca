//! Pools that are open before their sidecars are built and their heaps swept.

use crate::places;
use firndex::{Engine, Options, Store, Table};
use std::path::Path;

const PAIRS: u64 = 3000;

fn engines() -> impl Iterator<Item = Engine> {
    Engine::ALL.iter().copied().filter(|engine| engine.description().opens_at_once)
}

fn later() -> Options {
    Options::new().built_at_once_max(0)
}

/// Nobody builds but who is asked to.
fn later_alone() -> Options {
    later().helpers(0)
}

fn value(key: u64) -> [u8; 40] {
    [key as u8; 40]
}

/// A closed store in which every third key is gone.
fn make_store(engine: Engine, path: &Path) {
    let store = Options::new().engine(engine).create_store(path).unwrap();
    (0..PAIRS).for_each(|key| assert!(store.put(key.to_le_bytes(), value(key)).unwrap().is_none()));
    for key in (0..PAIRS).step_by(3) {
        assert!(store.remove(key.to_le_bytes()).unwrap().is_some());
    }
    store.close().unwrap();
}

fn assert_whole(store: &Store, of: &str) {
    for key in 0..PAIRS {
        let expected = (key % 3 != 0).then(|| value(key));
        let found = store.get(key.to_le_bytes()).unwrap();
        assert_eq!(found.as_deref(), expected.as_ref().map(|value| &value[..]), "{of}, {key}");
    }
}

#[test]
fn a_store_answers_before_it_is_swept_and_then_uses_its_free_space() {
    let directory = places::in_ram();
    for engine in engines() {
        let path = directory.path().join(engine.name());
        make_store(engine, &path);
        for options in [later(), later_alone()] {
            let store = options.open_store(&path).unwrap();
            assert_eq!(store.len(), PAIRS - PAIRS / 3);
            assert_whole(&store, "before the first change");
            let bytes = std::fs::metadata(&path).unwrap().len();
            for key in (0..PAIRS).step_by(3) {
                assert!(store.put(key.to_le_bytes(), value(key)).unwrap().is_none());
            }
            assert_eq!(store.len(), PAIRS);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes, "nothing free was found");
            assert!(store.check().unwrap().is_sound());
            for key in (0..PAIRS).step_by(3) {
                assert!(store.remove(key.to_le_bytes()).unwrap().is_some());
            }
            store.close().unwrap();
        }
    }
}

#[test]
fn threads_change_a_store_beside_its_sweep() {
    let directory = places::in_ram();
    for engine in engines() {
        let path = directory.path().join(engine.name());
        make_store(engine, &path);
        let store = later().open_store(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..300 {
                        let key = (1 << 32 | thread << 16 | number).to_le_bytes();
                        assert!(store.put(key, value(number)).unwrap().is_none());
                        assert!(store.get(key).unwrap().is_some());
                    }
                });
            }
        });
        assert_whole(&store, "beside changes");
        assert_eq!(store.len(), PAIRS - PAIRS / 3 + 4 * 300);
        assert!(store.check().unwrap().is_sound());
    }
}

/// As a command does that puts one pair: what the last one left free, the next one uses.
#[test]
fn openings_that_put_little_do_not_let_a_store_grow() {
    let directory = places::in_ram();
    for engine in engines() {
        for options in [later(), later_alone()] {
            let path = directory.path().join(engine.name());
            make_store(engine, &path);
            let bytes = std::fs::metadata(&path).unwrap().len();
            for round in 0..200 {
                let store = options.open_store(&path).unwrap();
                // One that is new, and one that was there.
                assert!(store.put((1u64 << 32 | round).to_le_bytes(), value(7)).unwrap().is_none());
                assert!(store.put(1u64.to_le_bytes(), value(1)).unwrap().is_some());
                assert_eq!(store.len(), PAIRS - PAIRS / 3 + round + 1);
                store.close().unwrap();
            }
            assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
            let store = Options::new().open_store(&path).unwrap();
            assert_whole(&store, "after many openings");
            assert!(store.check().unwrap().is_sound());
            drop(store);
            firndex::remove(&path).unwrap();
        }
    }
}

#[test]
fn a_reader_sees_all_of_a_store_that_nobody_sweeps() {
    let directory = places::in_ram();
    for engine in engines() {
        let path = directory.path().join(engine.name());
        make_store(engine, &path);
        let swept = Options::new().read_only(true).open_store(&path).unwrap();
        let expected = swept.stats().unwrap();
        drop(swept);
        let store = later_alone().read_only(true).open_store(&path).unwrap();
        assert_eq!(store.len(), PAIRS - PAIRS / 3);
        assert_whole(&store, "read only");
        let mut met = 0;
        store.for_each(|_, _| met += 1).unwrap();
        assert_eq!(met, PAIRS - PAIRS / 3);
        let found = store.stats().unwrap();
        assert_eq!(
            (found.pairs, found.heap_used_bytes, found.load_factor),
            (expected.pairs, expected.heap_used_bytes, expected.load_factor)
        );
        assert!(store.check().unwrap().is_sound());
    }
}

/// Opened, changed and closed again and again, and never built: the number of pairs stays right.
#[test]
fn a_table_is_counted_across_openings_that_build_nothing() {
    let directory = places::in_ram();
    for engine in engines() {
        let path = directory.path().join(engine.name());
        let table: Table<u64, u64> = Options::new().engine(engine).create_table(&path).unwrap();
        (0..PAIRS).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
        table.close().unwrap();
        for round in 0..10 {
            let table: Table<u64, u64> = later_alone().open_table(&path).unwrap();
            assert_eq!(table.len(), PAIRS + round);
            assert_eq!(table.put(PAIRS + round, 1).unwrap(), None);
            assert_eq!(table.remove(PAIRS + 1000).unwrap(), None);
            table.close().unwrap();
        }
        let table: Table<u64, u64> = Options::new().open_table(&path).unwrap();
        assert_eq!(table.len(), PAIRS + 10);
        assert!(table.check().unwrap().is_sound());
    }
}
