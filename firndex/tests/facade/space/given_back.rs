//! Space of removed values goes back to the file system in the background, and is taken again before it is used.

use crate::places;
use crate::space::full;
use firndex::{Durability, Error, Options, Store, inspect};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Values of 4,000 bytes: what waits to be reclaimed is little beside them.
const VALUE_BYTES: usize = 4000;
const VALUES: u32 = 8000;
/// One in ten stays.
const ONE_IN: u32 = 10;

fn value_of(key: u32) -> Vec<u8> {
    vec![key as u8; VALUE_BYTES]
}

/// Bytes that the file takes on its file system.
pub(crate) fn taken(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// Most that a store still takes that took `full_bytes`. A tenth is left, what waits to be reclaimed is 4 MiB at most,
/// and as much may be free.
fn small_part(full_bytes: u64) -> u64 {
    full_bytes * 45 / 100
}

fn fill(store: &Store, keys: u32) {
    (0..keys).for_each(|key| drop(store.put(key.to_le_bytes(), value_of(key)).unwrap()));
}

fn empty(store: &Store, keys: u32) {
    for key in (0..keys).filter(|key| key % ONE_IN != 0) {
        assert!(store.remove(key.to_le_bytes()).unwrap().is_some(), "{key}");
    }
}

fn assert_has_the_rest(store: &Store, keys: u32) {
    for key in 0..keys {
        let found = store.get(key.to_le_bytes()).unwrap().map(|value| value.to_vec());
        assert_eq!(found, (key % ONE_IN == 0).then(|| value_of(key)), "{key}");
    }
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Waits until the store has given back what it can; how soon is nobody's promise.
pub(crate) fn wait_until_small(path: &Path, most_bytes: u64) {
    while taken(path) > most_bytes {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the store says that it has given back more than this, and returns how much.
fn vacant_beyond(store: &Store, least_bytes: u64) -> u64 {
    loop {
        let vacant_bytes = store.stats().unwrap().heap_vacant_bytes;
        if vacant_bytes > least_bytes {
            return vacant_bytes;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn demand_that_space_goes_back_and_is_taken_again(
    options: &Options,
    directory: TempDir,
) {
    let path = directory.path().join("pool");
    let options = options.clone().durability(Durability::Process).compact_at(0.5);
    let store = options.create_store(&path).unwrap();
    fill(&store, VALUES);
    let full = taken(&path);
    empty(&store, VALUES);
    wait_until_small(&path, small_part(full));
    assert_has_the_rest(&store, VALUES);
    let vacant_bytes = vacant_beyond(&store, full / 2);
    store.close().unwrap();

    // An opening takes no space for holes.
    let store = options.open_store(&path).unwrap();
    assert!(taken(&path) <= small_part(full), "{} of {full}", taken(&path));
    // Until it was closed, more may have gone back.
    assert!(store.stats().unwrap().heap_vacant_bytes >= vacant_bytes);
    assert_has_the_rest(&store, VALUES);
    // The heap fills its holes, and does not grow beside them.
    let pool_bytes = store.stats().unwrap().pool_bytes;
    fill(&store, VALUES);
    let stats = store.stats().unwrap();
    assert!(stats.pool_bytes <= pool_bytes + pool_bytes / 8, "{stats:?}");
    (0..VALUES).for_each(|key| {
        assert!(store.get(key.to_le_bytes()).unwrap().is_some_and(|it| it == value_of(key)));
    });
    assert!(store.check().unwrap().is_sound());
}

#[test]
fn space_of_removed_values_goes_back_and_is_taken_again() {
    demand_that_space_goes_back_and_is_taken_again(&Options::new(), places::on_disk());
}

#[test]
fn nothing_is_given_back_unless_asked_for() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    let store = Options::new().durability(Durability::Process).create_store(&path).unwrap();
    fill(&store, VALUES);
    let full = taken(&path);
    empty(&store, VALUES);
    store.compact().unwrap();
    assert_eq!(store.stats().unwrap().heap_vacant_bytes, 0);
    assert!(taken(&path) >= full);
}

/// It is no writer of the program's: a check does not take what it is about to do for damage.
#[test]
fn a_check_beside_it_finds_nothing() {
    let options = Options::new().compact_at(0.25);
    for _ in 0..3 {
        let store = options.in_memory_store().unwrap();
        fill(&store, VALUES);
        empty(&store, VALUES);
        let mut checks = 0;
        while checks < 20 || store.stats().unwrap().heap_vacant_bytes == 0 {
            let report = store.check().unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
            checks += 1;
        }
    }
}

/// A pool that was synced stays as it is, so that power loss does not find it half changed.
#[test]
fn a_pool_that_was_synced_stays_clean() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    let options = Options::new().durability(Durability::Process).compact_at(0.25);
    let store = options.create_store(&path).unwrap();
    fill(&store, VALUES);
    store.sync().unwrap();
    empty(&store, VALUES);
    store.sync().unwrap();
    let synced = inspect(&path).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(synced.clean && inspect(&path).unwrap() == synced);
    // The next change lets it go on.
    store.put("one", "more").unwrap();
    wait_until_small(&path, synced.bytes / 2);
    assert!(!inspect(&path).unwrap().clean);
}

/// In a pool that was restored from its checkpoint after power loss, what was given back takes no space either.
#[test]
fn a_restored_pool_has_its_holes() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    let options = Options::new().durability(Durability::Periodic);
    let store = options.create_store(&path).unwrap();
    fill(&store, VALUES);
    let full = taken(&path);
    empty(&store, VALUES);
    store.close().unwrap();
    // All at once, with no change behind it that would write to the log.
    let options = options.compact_at(0.25);
    let store = options.open_store(&path).unwrap();
    wait_until_small(&path, full / 4);
    let vacant_bytes = vacant_beyond(&store, full / 2);
    store.sync().unwrap();
    let copy = places::on_disk();
    places::copy_companions(&path, copy.path());
    let restored_path = copy.path().join("pool");
    let restored = options.clone().compact_at(0.0).open_store(&restored_path).unwrap();
    assert!(taken(&restored_path) <= full / 4, "{} of {full}", taken(&restored_path));
    assert!(restored.stats().unwrap().heap_vacant_bytes >= vacant_bytes);
    assert_has_the_rest(&restored, VALUES);
    fill(&restored, VALUES);
    assert!(restored.check().unwrap().is_sound());
}

/// A checkpoint reads the whole pool. On tmpfs, a look at a hole would take its space.
#[test]
fn a_checkpoint_leaves_holes_alone() {
    let (directory, logs) = (places::in_ram(), places::on_disk());
    let path = directory.path().join("pool");
    let options = Options::new().log_directory(logs.path()).durability(Durability::Periodic);
    let store = options.clone().compact_at(0.5).create_store(&path).unwrap();
    fill(&store, VALUES);
    let full = taken(&path);
    empty(&store, VALUES);
    wait_until_small(&path, small_part(full));
    store.close().unwrap();

    let store = places::with_a_new_checkpoint(&options, &path);
    assert!(taken(&path) <= small_part(full), "{} of {full}", taken(&path));
    // A pool that is restored from it has everything.
    store.put("one", "more").unwrap();
    store.commit().unwrap();
    drop(store);
    std::fs::remove_file(&path).unwrap();
    let store = options.open_store(&path).unwrap();
    assert_has_the_rest(&store, VALUES);
}

/// Plays in a file system of its own, of 8 MiB: a store into a hole that cannot be filled would end the process.
pub(crate) fn find_holes_that_cannot_be_filled(options: &Options, directory: &Path) {
    const KEYS: u32 = 1200;
    let path = directory.join("store");
    let options = options.clone().compact_at(0.5);
    let store = options.create_store(&path).unwrap();
    fill(&store, KEYS);
    empty(&store, KEYS);
    wait_until_small(&path, 4 << 20);
    let filler = directory.join("filler");
    let mut bytes = 8 << 20;
    // All that is left.
    while bytes > 0 {
        let _ = std::fs::write(&filler, vec![1; bytes]);
        if std::fs::metadata(&filler).unwrap().len() == bytes as u64 {
            break;
        }
        bytes -= 4096;
    }
    let refused = (0..KEYS)
        .find_map(|key| store.put((KEYS + key).to_le_bytes(), value_of(key)).map(drop).err());
    let refused = refused.expect("holes have no space");
    assert!(matches!(refused, Error::PoolFull(_)), "{refused:?}");
    assert!(refused.to_string().contains("too little space left"), "{refused}");
    // What it has can still be replaced.
    for key in (0..KEYS).step_by(ONE_IN as usize) {
        assert!(store.put(key.to_le_bytes(), value_of(key)).unwrap().is_some());
    }
    // What could not be filled is not lost.
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let len = store.len();
    store.close().unwrap();
    // It can be opened where there is no space to fill its holes.
    let store = options.open_store(&path).unwrap();
    assert_eq!(store.len(), len);
    std::fs::remove_file(&filler).unwrap();
    (KEYS..2 * KEYS).for_each(|key| drop(store.remove(key.to_le_bytes()).unwrap()));
    fill(&store, KEYS);
    (0..KEYS).for_each(|key| {
        assert!(store.get(key.to_le_bytes()).unwrap().is_some_and(|it| it == value_of(key)));
    });
    assert!(store.check().unwrap().is_sound());
}

#[test]
fn holes_that_cannot_be_filled_make_the_pool_full() {
    full::run_mounted("-t tmpfs -o size=8m tmpfs", "", "find holes that cannot be filled", "");
}
