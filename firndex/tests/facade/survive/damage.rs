//! One superblock copy may be damaged anywhere: the other serves, and repairs it. Both damaged:
//! an error, never a panic.

use crate::places;
use crate::superblocks::{assert_intact, copy, make_table_on};
use firndex::{Durability, Engine, Error, Existing, OpenError, Options, Store, Table};
use pmem::superblock::{COPY_BYTES, Superblock};
use std::path::Path;

/// Every byte of the fields, and some of the extents that are mostly absent.
fn positions() -> impl Iterator<Item = usize> + Clone {
    (0..600).chain((600..COPY_BYTES as usize).step_by(61)).chain([COPY_BYTES as usize - 1])
}

/// The bytes of a table on each engine.
fn made_tables(path: &Path) -> Vec<Vec<u8>> {
    let made = |&engine: &Engine| {
        make_table_on(engine, path);
        let bytes = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        bytes
    };
    Engine::ALL.iter().map(made).collect()
}

#[test]
fn any_byte_of_one_copy_may_be_damaged() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let wholes = made_tables(&path);
    for (index, damaged) in positions().flat_map(|at| [(at, 0), (at, 1)]) {
        let mut bytes = wholes[(index + damaged) % wholes.len()].clone();
        bytes[damaged * COPY_BYTES as usize + index] ^= 1 << (index % 8);
        std::fs::write(&path, &bytes).unwrap();
        let table = <Table>::open(&path).unwrap();
        // All pairs now and then, a few each time.
        if index % 64 == 0 {
            assert_intact(&table);
        }
        assert_eq!((table.get(0).unwrap(), table.len()), (Some(7), crate::superblocks::PAIRS));
        table.close().unwrap();
        let repaired = std::fs::read(&path).unwrap();
        for copy in [copy(&repaired, 0), copy(&repaired, 1)] {
            let (superblock, repair) = Superblock::choose([Some(&copy), Some(&copy)]).unwrap();
            assert!(superblock.clean && repair.is_none(), "byte {index} of copy {damaged}");
        }
    }
}

#[test]
fn damage_of_both_copies_is_an_error() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let wholes = made_tables(&path);
    let count = positions().count();
    // The same byte of both copies, then two that are far apart.
    let pairs =
        positions().map(|at| (at, at)).chain(positions().zip(positions().cycle().skip(count / 2)));
    for (first, second) in pairs {
        let mut bytes = wholes[first % wholes.len()].clone();
        bytes[first] ^= 1 << (first % 8);
        bytes[COPY_BYTES as usize + second] ^= 1 << (second % 8);
        std::fs::write(&path, &bytes).unwrap();
        let error = <Table>::open(&path).unwrap_err();
        let is_refused =
            matches!(error, Error::Open(OpenError::Damaged { .. } | OpenError::NotAPool { .. }));
        assert!(is_refused, "bytes {first} and {second}: {error}");
        assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed");
    }
}

/// Flips a bit of a value in the file.
fn damage_value(path: &Path, value: &[u8]) {
    let mut bytes = std::fs::read(path).unwrap();
    let found = bytes.windows(value.len()).position(|part| part == value);
    bytes[found.expect("the value lies in the file as it is") + 3] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// A copy would give the value a checksum that fits, and nobody could tell any more that it is wrong.
#[test]
fn a_damaged_value_is_not_copied() {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        let [path, out] = ["pool", "out"].map(|name| directory.path().join(name));
        let options = Options::new().engine(engine).durability(Durability::Process);
        let store = options.create_store(&path).unwrap();
        for key in 0..300 {
            store.put(format!("key {key}"), format!("value number {key}.")).unwrap();
        }
        store.close().unwrap();
        damage_value(&path, b"value number 177.");
        let store: Store = options.open_store(&path).unwrap();
        let is_corrupt = |result: Result<(), Error>, what: &str| {
            assert!(matches!(result, Err(Error::Corrupt(_))), "{engine}, {what}: {result:?}");
        };
        is_corrupt(store.iter().try_for_each(|pair| pair.map(drop)), "a scan");
        is_corrupt(store.backup(&out, Existing::Keep).map(drop), "a backup");
        is_corrupt(store.convert(&out, Existing::Keep, &Options::new()).map(drop), "a conversion");
        assert!(!out.exists(), "{engine}");
        assert!(!store.check().unwrap().is_sound(), "{engine}");
        is_corrupt(store.rewrite().map(drop), "a new file");
        let store: Store = options.open_store(&path).unwrap();
        assert!(!store.check().unwrap().is_sound(), "{engine}: the file was replaced");
        assert_eq!(store.len(), 300, "{engine}");
    }
}

/// Tables whose pairs are items in the heap have checksums of them.
#[test]
fn nor_is_a_damaged_pair_that_has_a_checksum() {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        let [path, out] = ["pool", "out"].map(|name| directory.path().join(name));
        let options = Options::new().engine(engine).durability(Durability::Process);
        let table: Table = options.create_table(&path).unwrap();
        (0..300).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        table.close().unwrap();
        damage_value(&path, &(!177u64).to_le_bytes());
        let table: Table = options.open_table(&path).unwrap();
        let is_noticed = !table.check().unwrap().is_sound();
        let copied = table.backup(&out, Existing::Keep);
        assert_eq!(copied.is_err(), is_noticed, "{engine}: {copied:?}");
        assert_eq!(out.exists(), copied.is_ok(), "{engine}");
    }
}
