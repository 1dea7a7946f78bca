//! Caches that begin anew in place of a useless pool, and the pools and files that this never touches.

use crate::places::{checkpoint, companions, contents, copy_companions, in_ram, on_disk};
use crate::superblocks::{change, change_words, make_store};
use firndex::{Durability, Error, OpenError, Options, Store, Table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn resetting() -> Options {
    Options::new().reset_if_refused(true)
}

/// A change of a pool's bytes.
type Damage = fn(&mut Vec<u8>);
/// What is damaged, how, and what opening says.
type Case = (&'static str, Damage, fn(&OpenError) -> bool);

/// The pool is refused for the expected reason, and stays; then it is made anew and says so, once.
fn is_reset(path: &Path, options: &Options, is_expected: impl Fn(&Error) -> bool) {
    let refused = options.open_store(path).unwrap_err();
    assert!(is_expected(&refused), "{refused:?}");
    let options = options.clone().reset_if_refused(true);
    let store = options.open_store(path).unwrap();
    let why = store.was_reset().unwrap_or_else(|| panic!("it was not reset: {refused:?}"));
    assert!(is_expected(why), "{why:?}");
    assert!(store.is_empty());
    store.put("again", "here").unwrap();
    store.close().unwrap();
    let store = options.open_store(path).unwrap();
    assert!(store.was_reset().is_none());
    assert_eq!(store.get("again").unwrap().as_deref(), Some(&b"here"[..]));
    assert!(store.check().unwrap().is_sound());
}

/// Every file below a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    contents(directory).into_iter().collect()
}

/// The pool is refused as it is without the option, and no file changes.
fn is_kept<T: std::fmt::Debug>(
    path: &Path,
    open: impl Fn(&Options) -> firndex::Result<T>,
) -> Error {
    let before = files(path.parent().unwrap());
    let refused = open(&resetting()).unwrap_err();
    let plainly = open(&Options::new()).unwrap_err();
    assert_eq!(refused.to_string(), plainly.to_string());
    assert!(files(path.parent().unwrap()) == before, "files have changed: {refused}");
    refused
}

#[test]
fn damaged_pools_and_those_of_other_versions_are_reset() {
    let damages: [Case; 5] = [
        (
            "both superblocks",
            |bytes| (0..2).for_each(|copy| bytes[copy * 4096 + 100] ^= 1),
            |error| matches!(error, OpenError::Damaged { .. }),
        ),
        (
            "its end",
            |bytes| bytes.truncate(9000),
            |error| matches!(error, OpenError::Truncated { .. }),
        ),
        (
            "the number of pairs",
            |bytes| {
                change(bytes, |superblock| {
                    let is_number = |root: &&mut (u64, u64)| root.0 as u32 == 1;
                    superblock.typed_roots.iter_mut().find(is_number).unwrap().1 += 1;
                });
            },
            |error| matches!(error, OpenError::Miscounted { .. }),
        ),
        (
            "another version",
            |bytes| change_words(bytes, |words| words[1] += 1),
            |error| matches!(error, OpenError::Mismatch { field: "format version", .. }),
        ),
        (
            "features for writing",
            |bytes| change_words(bytes, |words| words[6] = 1 << 40),
            |error| matches!(error, OpenError::Mismatch { .. }),
        ),
    ];
    for (what, damage, is_expected) in damages {
        println!("{what}");
        let directory = in_ram();
        let path = directory.path().join("cache");
        make_store(&path);
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let is_expected = |error: &Error| matches!(error, Error::Open(open) if is_expected(open));
        is_reset(&path, &Options::new().durability(Durability::Process), is_expected);
        let left = files(directory.path()).into_keys().collect::<Vec<_>>();
        assert_eq!(left, [path]);
    }
}

#[test]
fn pools_that_cannot_be_recovered_are_reset_with_their_logs() {
    // A copy that was made while the pool was open, without a log.
    let directory = in_ram();
    let (path, copy) = (directory.path().join("cache"), directory.path().join("copy"));
    let unlogged = Options::new().durability(Durability::Process);
    let store = unlogged.create_store(&path).unwrap();
    store.put("a", "b").unwrap();
    std::fs::copy(&path, &copy).unwrap();
    drop(store);
    let is_dirty = |error: &Error| matches!(error, Error::Open(OpenError::Dirty { .. }));
    is_reset(&copy, &unlogged, is_dirty);

    // The same with a log that is damaged; the pool's file is there, or is gone.
    let logged = Options::new().durability(Durability::Periodic);
    for is_missing in [false, true] {
        let directory = on_disk();
        let path = directory.path().join("cache");
        let store = logged.create_store(&path).unwrap();
        store.put("a", "b").unwrap();
        store.sync().unwrap();
        let elsewhere = on_disk();
        let path = {
            copy_companions(&path, elsewhere.path());
            let copy = elsewhere.path().join("cache");
            std::fs::copy(&path, &copy).unwrap();
            copy
        };
        store.close().unwrap();
        let safe = checkpoint(&path).unwrap();
        let mut bytes = std::fs::read(&safe).unwrap();
        // In its image.
        bytes[4096 + 40] ^= 1;
        std::fs::write(&safe, bytes).unwrap();
        if is_missing {
            std::fs::remove_file(&path).unwrap();
        }
        is_reset(&path, &logged, |error| {
            matches!(error, Error::Open(OpenError::NotRestored { .. }))
        });
    }

    // Its log is elsewhere, and stays there.
    let (directory, logs) = (on_disk(), on_disk());
    let path = directory.path().join("cache");
    let store = logged.clone().log_directory(logs.path()).create_store(&path).unwrap();
    store.put("a", "b").unwrap();
    store.close().unwrap();
    let before = files(logs.path());
    is_reset(&path, &Options::new(), |error| {
        matches!(error, Error::Open(OpenError::LogElsewhere { .. }))
    });
    assert!(files(logs.path()) == before);
}

#[test]
fn what_is_not_this_cache_is_never_touched() {
    let directory = on_disk();
    let path = directory.path().join("cache");
    let open = |options: &Options| options.open_or_create_store(&path);

    // Something else than a pool, whatever lies beside it.
    for content in [&b"a letter to a friend"[..], &[0; 9000], b""] {
        std::fs::write(&path, content).unwrap();
        std::fs::write(directory.path().join("cache.safe.1"), "of an application").unwrap();
        let refused = is_kept(&path, open);
        assert!(matches!(refused, Error::Open(OpenError::NotAPool { .. })), "{refused:?}");
    }
    std::fs::remove_file(&path).unwrap();

    // What is in the way of its directory, and another program's directory that is called so.
    std::fs::write(companions(&path), [7; 9000]).unwrap();
    let refused = is_kept(&path, open);
    assert!(matches!(refused, Error::Open(OpenError::InTheWay { .. })), "{refused:?}");
    std::fs::remove_file(companions(&path)).unwrap();
    std::fs::create_dir(companions(&path)).unwrap();
    std::fs::write(companions(&path).join("checkpoint.0"), [7; 9000]).unwrap();
    let refused = is_kept(&path, open);
    assert!(matches!(refused, Error::Open(OpenError::InTheWay { .. })), "{refused:?}");
    std::fs::remove_dir_all(companions(&path)).unwrap();

    // A sound pool of another kind or of other sizes.
    let table: Table<u64, u32> = Table::create(&path).unwrap();
    table.put(1, 2).unwrap();
    let refused = open(&resetting()).unwrap_err();
    let is_own = matches!(refused, Error::Open(OpenError::AlreadyOpen { .. }));
    assert!(is_own, "{refused:?}");
    table.close().unwrap();
    for refused in [is_kept(&path, open), is_kept(&path, |options| options.open_table(&path))] {
        assert!(matches!(refused, Error::Open(OpenError::Mismatch { .. })), "{refused:?}");
    }
    let table = Table::<u64, u32>::open(&path).unwrap();
    assert_eq!(table.get(1).unwrap(), Some(2));
    table.close().unwrap();

    // What is opened for reading, or must be new.
    let mut bytes = std::fs::read(&path).unwrap();
    (0..2).for_each(|copy| bytes[copy * 4096 + 100] ^= 1);
    std::fs::write(&path, bytes).unwrap();
    std::fs::remove_dir_all(companions(&path)).unwrap();
    std::fs::remove_file(directory.path().join("cache.safe.1")).unwrap();
    is_kept(&path, |options| options.clone().read_only(true).open_store(&path));
    is_kept(&path, |options| options.create_store(&path));

    // A missing pool is made only by those who may make one.
    std::fs::remove_file(&path).unwrap();
    is_kept(&path, |options| options.open_store(&path));
    let store: Store = open(&resetting()).unwrap();
    assert!(store.was_reset().is_none());
}
