//! What is no pool, not the right pool or not a whole pool is refused with an error that says
//! what was found, what was expected and what to do, and stays as it was.

use crate::places;
use crate::superblocks::{
    PAIRS, PREFERRED, assert_intact, assert_refused, change, change_words, make_store,
    make_table_on,
};
use firndex::{Engine, Error, OpenError, Options, Store, Table, inspect};
use pmem::superblock::{Extent, PoolKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn table() -> (TempDir, PathBuf) {
    table_on(PREFERRED)
}

fn table_on(engine: Engine) -> (TempDir, PathBuf) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table_on(engine, &path);
    (directory, path)
}

fn open_table(path: &Path) -> firndex::Result<Table> {
    Options::new().open_table(path)
}

/// Refused by `Table::open`, by a read-only opening and by `inspect` alike.
fn assert_refused_by_all(path: &Path, is_expected: impl Fn(&OpenError) -> bool, says: &[&str]) {
    let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
    let errors = [
        assert_refused(path, open_table, says),
        assert_refused(path, |path| <Table>::open(path), says),
        assert_refused(path, read_only, says),
        assert_refused(path, |path| inspect(path), says),
    ];
    for error in errors {
        assert!(matches!(&error, Error::Open(error) if is_expected(error)), "{error:?}");
    }
}

#[test]
fn files_that_are_no_pools() {
    let directory = places::in_ram();
    let path = directory.path().join("file");
    let not_a_pool = |error: &OpenError| matches!(error, OpenError::NotAPool { .. });
    let contents: [(Vec<u8>, &str); 6] = [
        (Vec::new(), "the file is empty"),
        (vec![b'x'], "has only one byte"),
        (b"FIRNDEX".to_vec(), "has only 7 bytes"),
        (vec![0; 100], "has only 100 bytes"),
        (vec![0; 8192], "magic number"),
        (vec![0xff; 1 << 20], "magic number"),
    ];
    for (content, found) in contents {
        std::fs::write(&path, content).unwrap();
        let says = ["not a firndex pool", found, "name a file that `create` made"];
        assert_refused_by_all(&path, not_a_pool, &says);
    }
}

#[test]
fn truncated_pools() {
    for &engine in Engine::ALL {
        let (_directory, path) = table_on(engine);
        let whole = std::fs::read(&path).unwrap();
        let superblock = crate::superblocks::decode(&whole);
        let bounds = superblock.extents.iter().flat_map(|extent: &Extent| {
            [extent.start.0, extent.end(), extent.start.0 + extent.bytes / 2]
        });
        let around = bounds.flat_map(|at| [at.saturating_sub(1), at, at + 1]);
        let short = (8..8192).step_by(37).chain([4095, 4096, 4097, 8191, 8192]);
        for len in short.chain(around).filter(|&len| len < superblock.end) {
            std::fs::write(&path, &whole[..len as usize]).unwrap();
            let truncated = |error: &OpenError| match error {
                OpenError::Truncated { found_bytes, expected_bytes } => {
                    *found_bytes == len && *expected_bytes >= 8192
                }
                _ => false,
            };
            let says = ["truncated", &format!("{len} bytes"), "restore the file from a backup"];
            assert_refused_by_all(&path, truncated, &says);
        }
        for len in
            [superblock.end, superblock.end + 1, whole.len() as u64, whole.len() as u64 + 999]
        {
            let mut bytes = whole.clone();
            bytes.resize(len as usize, 0);
            std::fs::write(&path, bytes).unwrap();
            let table = <Table>::open(&path).unwrap();
            assert_intact(&table);
            // Space beyond what is recorded may be gone: growth must not rely on it.
            for key in PAIRS..10 * PAIRS {
                table.put(key, key).unwrap();
            }
            assert!(table.check().unwrap().is_sound());
        }
    }
}

#[test]
fn a_sparse_copy_gets_its_space_back() {
    for &engine in Engine::ALL {
        let (_directory, path) = table_on(engine);
        let sparse = path.with_extension("sparse");
        let end = crate::superblocks::decode(&std::fs::read(&path).unwrap()).end;
        let copied = Command::new("cp").arg("--sparse=always").args([&path, &sparse]).status();
        if !copied.is_ok_and(|status| status.success()) {
            return eprintln!("skipped: this system's cp makes no sparse copies");
        }
        assert_intact(&<Table>::open(&sparse).unwrap());
        let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&sparse).unwrap());
        assert!(blocks * 512 >= end, "{blocks} blocks of 512 bytes are allocated for {end} bytes");
    }
}

/// Over the pool itself: it is where it was, and most of it is not.
#[test]
fn a_pool_that_a_sparse_copy_was_put_into_gets_its_space_back() {
    for &engine in Engine::ALL {
        let (_directory, path) = table_on(engine);
        let copy = path.with_extension("copy");
        std::fs::copy(&path, &copy).unwrap();
        let end = crate::superblocks::decode(&std::fs::read(&path).unwrap()).end;
        let copied = Command::new("cp").arg("--sparse=always").args([&copy, &path]).status();
        if !copied.is_ok_and(|status| status.success()) {
            return eprintln!("skipped: this system's cp makes no sparse copies");
        }
        assert_intact(&<Table>::open(&path).unwrap());
        let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
        assert!(blocks * 512 >= end, "{blocks} blocks of 512 bytes are allocated for {end} bytes");
    }
}

#[test]
fn pools_made_otherwise() {
    let (_directory, path) = table();
    let whole = std::fs::read(&path).unwrap();
    let mismatch = |error: &OpenError| matches!(error, OpenError::Mismatch { .. });
    let other_build = "open it with the firndex version that made it";
    let refuse_words = |change_in: &dyn Fn(&mut crate::superblocks::Words), says: &[&str]| {
        let mut bytes = whole.clone();
        change_words(&mut bytes, |words| change_in(words));
        std::fs::write(&path, bytes).unwrap();
        assert_refused_by_all(&path, mismatch, says);
    };
    refuse_words(&|words| words[1] += 1, &["format version is 0x5", "expected 0x4", other_build]);
    refuse_words(&|words| words[7] = 4, &["features is 0x4", "expected 0x1", other_build]);
    refuse_words(&|words| words[13] ^= 3 << 32, &["checksum is 0x2", "expected 0x1", other_build]);
    refuse_words(&|words| words[13] += 8, &["hash function is 9", "expected 1", other_build]);
    refuse_words(&|words| words[2] = words[2].swap_bytes(), &["byte order", "another machine"]);
    refuse_words(&|words| words[0] = words[0].swap_bytes(), &["byte order", "another machine"]);
    refuse_words(
        &|words| words[11] += 8 << 32,
        &["engine is number 9", PREFERRED.name(), other_build],
    );
    // An engine with sizes that it does not take: no build makes that.
    refuse_words(&|words| words[12] += 8, &["size is 16", "expected", "8 bytes", "open it with"]);
    let value_size = |words: &mut crate::superblocks::Words| words[12] -= 4 << 32;
    refuse_words(&value_size, &["size is", "4 bytes", "expected", "8 bytes", "open it with"]);
}

#[test]
fn another_engine_than_was_asked_for() {
    for &engine in Engine::ALL {
        let (directory, path) = table_on(engine);
        let store = directory.path().join("store");
        Options::new().engine(engine).create_store(&store).unwrap().close().unwrap();
        for &other in Engine::ALL.iter().filter(|&&other| other != engine) {
            let says = [
                &format!("engine is {engine}"),
                &format!("expected {other}"),
                "ask for the engine it was made with",
            ];
            let options = Options::new().engine(other);
            for error in [
                assert_refused(&path, |path| options.open_table(path), &says),
                assert_refused(&path, |path| options.open_or_create_table(path), &says),
                assert_refused(&store, |path| options.open_store(path), &says),
            ] {
                let is_typed =
                    matches!(error, Error::Open(OpenError::Mismatch { field: "engine", .. }));
                assert!(is_typed, "{error:?}");
            }
        }
        // Nobody has to ask.
        let table = open_table(&path).unwrap();
        assert_eq!(
            (inspect(&path).unwrap().engine, table.stats().unwrap().engine),
            (engine, engine)
        );
    }
}

#[test]
fn superblocks_that_contradict_themselves() {
    let (_directory, path) = table();
    let whole = std::fs::read(&path).unwrap();
    let damaged = |error: &OpenError| matches!(error, OpenError::Damaged { .. });
    let says = ["damaged in both copies", "restore the file from a backup"];
    let refuse_words = |change_in: &dyn Fn(&mut crate::superblocks::Words), found: &str| {
        let mut bytes = whole.clone();
        change_words(&mut bytes, |words| change_in(words));
        std::fs::write(&path, bytes).unwrap();
        assert_refused_by_all(&path, damaged, &[says[0], found, says[1]]);
    };
    refuse_words(&|words| words[11] += 6, "kind is 7");
    refuse_words(&|words| words[15] |= 8, "state is 8");
    refuse_words(&|words| words[15] |= 9 << 32, "medium is 9");
    refuse_words(&|words| words[21] |= 255, "255 extents");
    refuse_words(&|words| words[21] ^= 1 << 63, "heap segments");
    refuse_words(&|words| words[64] = words[64] >> 48 << 48 | 4096, "leaves the pool");
    refuse_words(&|words| words[64] += 8, "leaves the pool");
    refuse_words(&|words| words[65] = u64::MAX, "leaves the pool");
    refuse_words(&|words| words[66] = words[64], "overlaps");
}

#[test]
fn tables_are_no_stores_and_stores_no_tables() {
    let (directory, path) = table();
    let as_store = |path: &Path| Options::new().open_store(path);
    let says = ["kind is table", "expected store", "open it as a `Table`"];
    let error = assert_refused(&path, as_store, &says);
    assert!(matches!(error, Error::Open(OpenError::Mismatch { field: "kind", .. })));
    assert_refused(&path, |path| Store::open(path), &says);

    let store = directory.path().join("store");
    make_store(&store);
    let says = ["kind is store", "expected table", "open it as a `Store`"];
    assert_refused(&store, open_table, &says);

    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes, |superblock| superblock.kind = PoolKind::Store);
    std::fs::write(&path, &bytes).unwrap();
    assert_refused(&path, as_store, &["key size is 8 bytes", "expected 0 bytes"]);
}

#[test]
fn features_that_only_writers_must_know() {
    let (_directory, path) = table();
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes, |superblock| {
        superblock.features_read_only = 2;
        superblock.features_compatible = 1 << 63;
    });
    std::fs::write(&path, &bytes).unwrap();
    let says = ["features needed for writing is 0x2", "expected 0x1", "open it read-only"];
    let error = assert_refused(&path, open_table, &says);
    assert!(matches!(error, Error::Open(OpenError::Mismatch { .. })));
    assert_intact(&Options::new().read_only(true).open_table(&path).unwrap());
}

#[test]
fn paths_that_lead_to_no_file() {
    let directory = places::in_ram();
    let missing = directory.path().join("missing");
    let refused = |result: firndex::Result<Table>, says: &[&str]| {
        let error = result.unwrap_err();
        let message = error.to_string();
        assert!(says.iter().all(|part| message.contains(part)), "{message}");
        error
    };
    let error = refused(open_table(&missing), &["no pool at", "missing", "create it first"]);
    assert!(matches!(error, Error::Open(OpenError::Missing { .. })));
    let read_only = Options::new().read_only(true);
    let error = refused(read_only.open_or_create_table(&missing), &["no pool at", "missing"]);
    assert!(matches!(error, Error::Open(OpenError::Missing { .. })));
    assert!(!missing.exists());

    let nowhere = directory.path().join("no/such/pool");
    let says = ["no directory", "no/such", "create the directory first"];
    for result in [<Table>::open_or_create(&nowhere), Options::new().create_table(&nowhere)] {
        assert!(matches!(refused(result, &says), Error::Open(OpenError::NoDirectory { .. })));
    }
    let says = ["a directory", "a pool is a regular file", "name the file itself"];
    for result in
        [<Table>::open_or_create(directory.path()), read_only.open_table(directory.path())]
    {
        assert!(matches!(refused(result, &says), Error::Open(OpenError::NotAFile { .. })));
    }
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let says = ["pipe", "a pool is a regular file", "name the file itself"];
    for result in [<Table>::open_or_create(&fifo), read_only.open_table(&fifo)] {
        assert!(matches!(refused(result, &says), Error::Open(OpenError::NotAFile { .. })));
    }
    let inside_a_file = fifo.join("pool");
    refused(<Table>::open_or_create(&inside_a_file), &["fifo"]);
}

#[test]
fn what_exists_is_not_created_again() {
    let (directory, path) = table();
    let create = |path: &Path| Options::new().create_table(path);
    let error = assert_refused(&path, create, &["exists already", "open it instead"]);
    assert!(matches!(error, Error::Open(OpenError::Exists { .. })));
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path().join("nothing"), &link).unwrap();
    assert!(matches!(create(&link), Err(Error::Open(OpenError::Exists { .. }))));
    assert!(!directory.path().join("nothing").exists());
    std::fs::write(directory.path().join("text"), "precious").unwrap();
    assert_refused(&directory.path().join("text"), |path| <Table>::open(path), &["not a firndex"]);
}

#[test]
fn media_that_do_not_fit() {
    let (_directory, path) = table();
    let with = |medium| move |path: &Path| Options::new().medium(medium).open_table(path);
    let says = ["medium is dram", "expected auto, mapped or dax", "in_memory_table"];
    assert_refused(&path, with(firndex::Medium::Dram), &says);
    let says = ["not on a DAX file system", "use the medium `mapped`"];
    let error = assert_refused(&path, with(firndex::Medium::Dax), &says);
    assert!(matches!(error, Error::Open(OpenError::NoDax { .. })));
}

#[test]
fn dirty_pools_from_before_a_restart_and_copies_of_dirty_pools() {
    for &engine in Engine::ALL {
        let (directory, path) = table_on(engine);
        let dirty_image = {
            let table = <Table>::open(&path).unwrap();
            table.put(1, 1).unwrap();
            std::fs::read(&path).unwrap()
        };
        let copy_again = "close the original and copy it again, or restore a backup";
        let is_dirty = |error: &OpenError| matches!(error, OpenError::Dirty { .. });
        let refused = |path: &Path, found: &str, advice: &str| {
            let says = ["not closed cleanly", found, advice];
            let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
            for error in
                [assert_refused(path, open_table, &says), assert_refused(path, read_only, &says)]
            {
                assert!(matches!(&error, Error::Open(error) if is_dirty(error)), "{error:?}");
            }
            assert!(!inspect(path).unwrap().clean);
        };
        // Written over the pool: the inode is right, and only the boot tells.
        let mut rebooted = dirty_image.clone();
        change(&mut rebooted, |superblock| superblock.place.boot_id[0] ^= 1);
        std::fs::write(&path, &rebooted).unwrap();
        refused(&path, "restarted", "; restore a backup");
        let copy = directory.path().join("copy");
        std::fs::write(&path, &dirty_image).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        refused(&copy, "copy", copy_again);
        change(&mut rebooted, |superblock| superblock.place.inode ^= 1);
        std::fs::write(&path, &rebooted).unwrap();
        refused(&path, "copy", copy_again);
        // The same image in its own place is what a killed process leaves.
        std::fs::write(&path, &dirty_image).unwrap();
        let error = Options::new().read_only(true).open_table(&path).unwrap_err();
        assert!(matches!(error, Error::Open(OpenError::NeedsRecovery)), "{error:?}");
        assert!(error.to_string().contains("open it once for writing"), "{error}");
        let table = <Table>::open(&path).unwrap();
        assert_eq!((table.get(1).unwrap(), table.len()), (Some(1), PAIRS));
    }
}

#[test]
fn a_copy_of_a_clean_pool_is_a_pool() {
    for &engine in Engine::ALL {
        let (directory, path) = table_on(engine);
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let (original, copied) = (<Table>::open(&path).unwrap(), <Table>::open(&copy).unwrap());
        assert_intact(&copied);
        copied.put(PAIRS, 1).unwrap();
        assert_intact(&original);
        drop(copied);
        assert_eq!(<Table>::open(&copy).unwrap().get(PAIRS).unwrap(), Some(1));
        let mut elsewhere = std::fs::read(&path).unwrap();
        drop(original);
        change(&mut elsewhere, |superblock| {
            superblock.clean = true;
            superblock.place.boot_id = [1, 2];
            superblock.place.inode = 3;
        });
        std::fs::write(&copy, elsewhere).unwrap();
        assert_intact(&<Table>::open(&copy).unwrap());
    }
}
