//! Another program copies a file over the pool's while that is open.

use firndex::{Durability, Error, Options, Table};
use std::path::Path;

const DURABILITIES: [Durability; 3] =
    [Durability::Process, Durability::Periodic, Durability::Commit];

/// Without threads that look at the pool while the other one is copied.
fn options(durability: Durability) -> Options {
    Options::new().durability(durability).helpers(0)
}

fn is_told(error: &str) -> bool {
    error.contains("written over") || error.contains("copied something over")
}

/// Copies as `cp` does: into the same file, which it empties first.
fn copy_over(from: &Path, to: &Path) {
    let other = std::fs::read(from).unwrap();
    std::fs::write(to, other).unwrap();
}

/// A pool with pairs, open; and another one, larger and closed.
fn pools(directory: &Path, options: &Options) -> (Table, std::path::PathBuf) {
    let other = directory.join("other");
    let larger = Options::new().durability(Durability::Process).create_table(&other).unwrap();
    let pairs: Vec<(u64, u64)> = (0..150_000).map(|key| (key, !key)).collect();
    larger.put_many(&pairs).unwrap();
    larger.close().unwrap();
    let table: Table = options.create_table(directory.join("pool")).unwrap();
    table.put_many(&(0..1000).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    table.sync().unwrap();
    table.put(1000, 1000).unwrap();
    (table, other)
}

/// Does `act`, which must notice it, and after which no call does as if nothing had happened. A pool with a log comes
/// back.
fn notices(what: &str, act: impl Fn(&Table) -> Result<(), Error>) {
    for durability in DURABILITIES {
        for survives in [false, true] {
            let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let options = options(durability).survive_bus_errors(survives);
            let (table, other) = pools(directory.path(), &options);
            let path = directory.path().join("pool");
            copy_over(&other, &path);
            let noticed = act(&table).unwrap_err();
            let told = noticed.to_string();
            assert!(is_told(&told), "{what}, {durability:?}: {told}");
            let refused = table.get(1).unwrap_err();
            assert!(matches!(refused, Error::Vanished { .. }), "{what}: {refused:?}");
            drop(table);
            if durability != Durability::Process {
                std::fs::remove_file(&path).unwrap();
                let table: Table = Options::new().open_table(&path).unwrap();
                assert!((0..1000).all(|key| table.get(key).unwrap() == Some(key)), "{what}");
            }
        }
    }
}

#[test]
fn growth_notices_a_file_that_was_written_over() {
    notices("growing", |table| {
        (2000..500_000).try_for_each(|key| table.insert(key, key).map(drop))
    });
}

#[test]
fn check_notices_a_file_that_was_written_over() {
    notices("checking", |table| table.check().map(drop));
}

#[test]
fn closing_notices_a_file_that_was_written_over() {
    for durability in DURABILITIES {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (table, other) = pools(directory.path(), &options(durability));
        copy_over(&other, &directory.path().join("pool"));
        let noticed = table.close().unwrap_err().to_string();
        assert!(is_told(&noticed), "{durability:?}: {noticed}");
    }
}
