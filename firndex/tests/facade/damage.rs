//! One superblock copy may be damaged anywhere: the other serves, and repairs it. Both damaged:
//! an error, never a panic.

use crate::places;
use crate::superblocks::{assert_intact, copy, make_table_on};
use firndex::{Engine, Error, OpenError, Table};
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
