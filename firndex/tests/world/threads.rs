//! Each start of a thread is refused in turn. What was asked for is done with fewer threads, or refused with an error
//! that says why; never does it hang or panic, and nothing is lost.

use crate::starts::{Refused, refusing};
use firndex::{Durability, Engine, Error, Options, Table};
use std::fs;
use std::path::Path;

/// More than any call starts.
const STARTS_MAX: u32 = 100;
/// Enough to be recovered and restored by several threads.
const PAIRS: u64 = 250_000;

/// Runs `work` with each start refused in turn, alone and with all that follow. After a refusal it must succeed.
fn with_each_refused(what: &str, mut work: impl FnMut() -> Result<(), Error>) -> u32 {
    for kind in [Refused::One as fn(u32) -> Refused, Refused::From] {
        for number in 0..STARTS_MAX {
            let refused = kind(number);
            let (done, attempts) = refusing(refused, &mut work);
            if let Err(error) = done {
                let told = error.to_string();
                assert!(told.contains("thread"), "{what}, {refused:?}: {told}");
                work().unwrap_or_else(|error| panic!("{what}, after {refused:?}: {error}"));
            }
            if attempts <= number {
                if matches!(refused, Refused::From(_)) {
                    return attempts;
                }
                break;
            }
        }
    }
    panic!("{what} never stops starting threads");
}

fn options(engine: Engine) -> Options {
    Options::new().engine(engine).helpers(2)
}

fn is_whole(table: &Table) -> bool {
    table.len() == PAIRS && (0..PAIRS).step_by(97).all(|key| table.get(key).unwrap() == Some(!key))
}

/// A directory with what a killed process leaves of a pool.
fn killed(engine: Engine, durability: Durability, directory: &Path) -> std::path::PathBuf {
    let path = directory.join("pool");
    // No checkpoint comes between its files when they are copied.
    let options = options(engine).checkpoint_at(1 << 40);
    let table = options.durability(durability).create_table(&path).unwrap();
    let pairs: Vec<(u64, u64)> = (0..PAIRS).map(|key| (key, !key)).collect();
    pairs.chunks(1000).for_each(|pairs| drop(table.put_many(pairs).unwrap()));
    if durability != Durability::Process {
        table.commit().unwrap();
    }
    let left = directory.join("left");
    put_back(directory, &left);
    left
}

/// Copies a pool with its directory.
fn put_back(left: &Path, at: &Path) {
    let _ = fs::remove_dir_all(at);
    fs::create_dir(at).unwrap();
    fs::create_dir(at.join("pool.safe")).unwrap();
    for place in ["", "pool.safe"] {
        let Ok(entries) = fs::read_dir(left.join(place)) else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), at.join(place).join(entry.file_name())).unwrap();
            }
        }
    }
}

#[test]
fn a_new_pool_needs_few_threads_or_says_so() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut number = 0;
    for engine in Engine::ALL.iter().copied() {
        let starts = with_each_refused("creating", || {
            number += 1;
            let path = directory.path().join(format!("pool {number}"));
            let store = options(engine).compact_at(0.5).open_or_create_store(&path)?;
            store.put("key", "value")?;
            store.close()
        });
        assert!(starts >= 3, "{starts}: two for the log, one that compacts, helpers");
    }
}

#[test]
fn a_closed_pool_opens_with_fewer_threads() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for engine in Engine::ALL.iter().copied() {
        let path = directory.path().join(engine.name());
        let table = options(engine).durability(Durability::Commit).create_table(&path).unwrap();
        table.put(0, 0).unwrap();
        table.close().unwrap();
        let mut last = 0;
        with_each_refused("opening", || {
            let table = options(engine).open_table(&path)?;
            assert_eq!(table.get(last).unwrap(), Some(last));
            table.put(last + 1, last + 1)?;
            last += 1;
            table.close()
        });
    }
}

#[test]
fn a_pool_is_restored_and_recovered_by_fewer_threads() {
    let engine = Engine::ALL[0];
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let left = killed(engine, Durability::Commit, directory.path());
    fs::remove_file(left.join("pool")).unwrap();
    let at = directory.path().join("at");
    let starts = with_each_refused("restoring", || {
        put_back(&left, &at);
        let table = options(engine).open_table(at.join("pool"))?;
        assert!(is_whole(&table));
        table.close()
    });
    assert!(starts >= 4, "{starts}: of the restoration, helpers, log");
}
