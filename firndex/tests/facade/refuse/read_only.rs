//! Read-only openings, and files that may not be written.

use crate::superblocks::{
    PREFERRED, assert_intact, assert_refused, make_store_on, make_table, make_table_on,
};
use crate::{places, processes};
use firndex::{Engine, Error, OpenError, Options, Table};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;

fn is_read_only<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) {
    let error = result.map_err(Into::into).unwrap_err();
    assert!(matches!(error, Error::ReadOnly), "{error:?}");
    assert!(error.to_string().contains("open it for writing"), "{error}");
}

#[test]
fn a_table_opened_read_only_reads_and_changes_nothing() {
    for &engine in Engine::ALL {
        let directory = places::on_disk();
        let path = directory.path().join("pool");
        make_table_on(engine, &path);
        let before = std::fs::read(&path).unwrap();
        let table = Options::new().read_only(true).open_table(&path).unwrap();
        assert_intact(&table);
        assert!(table.check().unwrap().is_sound());
        assert_eq!(table.stats().unwrap().pairs, crate::superblocks::PAIRS);
        is_read_only(table.put(1, 2));
        is_read_only(table.put(1 << 40, 2));
        is_read_only(table.insert(1 << 40, 2));
        is_read_only(table.update(1, 2));
        is_read_only(table.remove(1));
        is_read_only(table.compare_exchange(1, None, Some(2)));
        is_read_only(table.modify(1, |value| value));
        is_read_only(table.put_many(&[(1, 2)]));
        is_read_only(table.remove_many(&[1]));
        is_read_only(table.shrink());
        table.sync().unwrap();
        assert_intact(&table);
        table.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
    }
}

#[test]
fn a_store_opened_read_only_reads_and_changes_nothing() {
    for &engine in Engine::ALL {
        let directory = places::on_disk();
        let path = directory.path().join("pool");
        make_store_on(engine, &path);
        let before = std::fs::read(&path).unwrap();
        let store = Options::new().read_only(true).open_store(&path).unwrap();
        let record = store.get("large").unwrap().unwrap();
        assert_eq!(record.len(), 600_000);
        assert!(store.check().unwrap().is_sound());
        assert_eq!((store.len(), store.stats().unwrap().pairs), (301, 301));
        is_read_only(store.put("large", ""));
        is_read_only(store.put("new", vec![1; 1 << 20]));
        is_read_only(store.insert("new", ""));
        is_read_only(store.update("large", ""));
        is_read_only(store.remove("large"));
        is_read_only(store.compare_exchange("new", None, Some(b"")));
        is_read_only(store.modify("large", |_| None));
        is_read_only(store.put_many(&[(b"new", b"")]));
        is_read_only(store.remove_many(&[b"large"]));
        is_read_only(store.shrink());
        store.sync().unwrap();
        drop(record);
        drop(store);
        assert!(std::fs::read(&path).unwrap() == before);
    }
}

/// A role, without the right to write the file.
pub(crate) fn open_what_may_not_be_written(path: &Path) {
    let says = ["cannot be written", "make it writable, or open it read-only"];
    let error = assert_refused(path, |path| <Table>::open(path), &says);
    assert!(matches!(error, Error::Open(OpenError::NotWritable { .. })), "{error:?}");
    assert_intact(&Options::new().read_only(true).open_table(path).unwrap());
}

/// A role, without the right to write the file, which was not closed cleanly: reading it is no way out.
pub(crate) fn open_what_may_not_be_recovered(path: &Path) {
    let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
    let error = assert_refused(path, read_only, &["open it once for writing, which recovers it"]);
    assert!(matches!(error, Error::Open(OpenError::NeedsRecovery)), "{error:?}");
    let says = ["cannot be written", "not closed cleanly", "recovery writes", ": make it writable"];
    let error = assert_refused(path, |path| <Table>::open(path), &says);
    let is_typed =
        matches!(error, Error::Open(OpenError::NotWritable { needs_recovery: true, .. }));
    assert!(is_typed, "{error:?}");
    assert!(!error.to_string().contains("or open it read-only"), "{error}");
}

#[test]
fn a_file_that_may_not_be_written() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    make_table(&path);
    play_without_rights(&directory, &path, "open what may not be written");
}

#[test]
fn a_file_that_may_not_be_written_and_needs_recovery() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    make_table(&path);
    let table = <Table>::open(&path).unwrap();
    table.put(1, 1).unwrap();
    // What a killed process would leave there.
    let unclean = std::fs::read(&path).unwrap();
    table.close().unwrap();
    std::fs::write(&path, unclean).unwrap();
    play_without_rights(&directory, &path, "open what may not be recovered");
}

/// The super-user may write any file: it plays the role as nobody.
fn play_without_rights(directory: &tempfile::TempDir, path: &Path, role: &str) {
    const NOBODY: u32 = 65534;
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(path, 0o444);
    set_mode(directory.path(), 0o755);
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return processes::run(role, PREFERRED, path);
    }
    let mut command = processes::process(role, PREFERRED, path, 0);
    match command.uid(NOBODY).gid(NOBODY).current_dir("/").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
        }
        Err(error) => {
            eprintln!("skipped: as root, and nobody may not run the tests' executable: {error}");
        }
    }
}
