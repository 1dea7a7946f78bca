//! Flushes forced for measuring change nothing that a user sees but the speed.

use crate::places;
use firndex::{Engine, Error, Medium, OpenError, Options, Store, Table};

const PAIRS: u64 = 20_000;

/// The option, unless this machine has no flush instruction, which it then says.
fn forced() -> Option<Options> {
    let options = Options::new().medium(Medium::Mapped).force_flushes(true);
    match options.in_memory_table() {
        Ok(_) => Some(options),
        Err(Error::Open(OpenError::Unsupported { missing })) => {
            assert!(missing.contains("force_flushes"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn fill_table(table: &Table) {
    for key in 0..PAIRS {
        table.put(key, key + 1).unwrap();
    }
    for key in (0..PAIRS).step_by(3) {
        table.remove(key).unwrap();
    }
}

fn assert_filled(table: &Table, medium: Medium) {
    let stats = table.stats().unwrap();
    assert_eq!(stats.medium, medium);
    assert!(table.check().unwrap().is_sound());
    for key in 0..PAIRS {
        let expected = (key % 3 != 0).then_some(key + 1);
        assert_eq!(table.get(key).unwrap(), expected, "key {key}");
    }
}

fn fill_store(store: &Store) {
    for key in 0..PAIRS / 10 {
        store.put(key.to_le_bytes(), "x".repeat(key as usize % 500)).unwrap();
    }
}

fn assert_stored(store: &Store, medium: Medium) {
    assert_eq!(store.stats().unwrap().medium, medium);
    for key in 0..PAIRS / 10 {
        let found = store.get(key.to_le_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some("x".repeat(key as usize % 500).as_bytes()));
    }
}

#[test]
fn pools_in_memory() {
    let Some(options) = forced() else { return };
    for &engine in Engine::ALL {
        let options = options.clone().engine(engine);
        let table = options.in_memory_table().unwrap();
        fill_table(&table);
        assert_filled(&table, Medium::Dram);
        let store = options.in_memory_store().unwrap();
        fill_store(&store);
        assert_stored(&store, Medium::Dram);
    }
}

#[test]
fn pools_in_files_open_with_and_without() {
    let Some(forced) = forced() else { return };
    let plain = Options::new().medium(Medium::Mapped);
    let directory = places::in_ram();
    let ways = [[&forced, &plain], [&plain, &forced]].into_iter().enumerate();
    for ((number, [make, open]), &engine) in
        ways.flat_map(|way| Engine::ALL.iter().map(move |engine| (way, engine)))
    {
        let make = make.clone().engine(engine);
        let path = directory.path().join(format!("table {number} on {engine}"));
        let table = make.create_table(&path).unwrap();
        fill_table(&table);
        assert_filled(&table, Medium::Mapped);
        // Dropped rather than closed, so that the other opening recovers.
        drop(table);
        assert_filled(&open.open_table(&path).unwrap(), Medium::Mapped);

        let path = directory.path().join(format!("store {number} on {engine}"));
        let store = make.create_store(&path).unwrap();
        fill_store(&store);
        assert_stored(&store, Medium::Mapped);
        drop(store);
        assert_stored(&open.open_store(&path).unwrap(), Medium::Mapped);
    }
}
