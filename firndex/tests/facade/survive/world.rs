//! The world around a pool: directories that move, names that others use, owners, small disks.

use crate::places::{checkpoint, companions, contents, copy_companions, names, on_disk, segments};
use crate::processes;
use crate::space::full::{self, assert_well};
use crate::superblocks::PREFERRED;
use firndex::{Durability, Error, Existing, LogError, OpenError, Options, Store, Table, Verified};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// Checkpoints come often.
fn options() -> Options {
    Options::new().durability(Durability::Commit).checkpoint_at(64 << 10).helpers(0)
}

fn checkpoints(table: &Table) -> u64 {
    table.log().unwrap().unwrap().checkpoints
}

/// Puts keys from `from` on until some checkpoints have been made meanwhile; the next key.
fn put_through_checkpoints(table: &Table, from: u64) -> u64 {
    let (mut key, before) = (from, checkpoints(table));
    while checkpoints(table) < before + 3 {
        let batch: Vec<_> = (key..key + 500).map(|key| (key, !key)).collect();
        assert_eq!(table.put_many(&batch).unwrap().len(), 500);
        key += 500;
    }
    key
}

fn has_all(table: &Table, keys: u64) {
    assert_eq!(table.len(), keys);
    assert!((0..keys).all(|key| table.get(key).unwrap() == Some(!key)));
    assert!(table.check().unwrap().is_sound());
}

/// What power loss leaves of the pool at `path`.
fn restored(path: &Path) -> (tempfile::TempDir, Table) {
    let after = on_disk();
    copy_companions(path, after.path());
    let table = Options::new().open_table(after.path().join(path.file_name().unwrap())).unwrap();
    (after, table)
}

#[test]
fn a_link_that_is_switched_leads_nothing_to_another_directory() {
    let root = on_disk();
    let at = |name: &str| root.path().join(name);
    for name in ["one", "two"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    symlink("one", at("current")).unwrap();
    let table = options().keep_sums(true).create_table(at("current/pool")).unwrap();
    let keys = put_through_checkpoints(&table, 0);
    std::fs::remove_file(at("current")).unwrap();
    symlink("two", at("current")).unwrap();
    let keys = put_through_checkpoints(&table, keys);
    has_all(&restored(&at("one/pool")).1, keys);
    assert!(table.rewrite().unwrap().is_some());
    assert_eq!(names(&at("two")), [""; 0]);
    let table = options().open_table(at("one/pool")).unwrap();
    has_all(&table, keys);
    table.close().unwrap();
    assert!(matches!(firndex::verify(at("one/pool")).unwrap(), Verified::Sound { .. }));
    assert_eq!(names(&at("one")), ["pool", "pool.safe"]);
}

#[test]
fn a_directory_that_moves_takes_its_pool_along() {
    let root = on_disk();
    let at = |name: &str| root.path().join(name);
    std::fs::create_dir(at("old")).unwrap();
    let table = options().create_table(at("old/pool")).unwrap();
    let keys = put_through_checkpoints(&table, 0);
    std::fs::rename(at("old"), at("new")).unwrap();
    std::fs::create_dir(at("old")).unwrap();
    let other = options().create_table(at("old/pool")).unwrap();
    other.put(1, 1).unwrap();
    let keys = put_through_checkpoints(&table, keys);
    has_all(&restored(&at("new/pool")).1, keys);
    let (_directory, found) = restored(&at("old/pool"));
    assert_eq!((found.len(), found.get(1).unwrap()), (1, Some(1)));
    table.close().unwrap();
    other.close().unwrap();
}

/// A role: it goes into another directory after it has opened a pool by a relative path, as daemons do.
pub(crate) fn go_elsewhere(options: &Options, path: &Path) {
    let elsewhere = path.with_file_name("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::env::set_current_dir(path.parent().unwrap()).unwrap();
    let options = options.clone().durability(Durability::Commit).checkpoint_at(64 << 10);
    let table = options.keep_sums(true).create_table("pool").unwrap();
    std::env::set_current_dir(&elsewhere).unwrap();
    let keys = put_through_checkpoints(&table, 0);
    has_all(&restored(path).1, keys);
    table.backup("copy", Existing::Keep).unwrap();
    table.rewrite().unwrap();
    assert_eq!(names(&elsewhere), ["copy", "copy.safe"]);
    has_all(&Options::new().open_table(path).unwrap(), keys);
}

#[test]
fn a_process_that_goes_elsewhere_leaves_its_pool_where_it_is() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    assert_well(processes::process("go elsewhere", PREFERRED, &path, 0), PREFERRED);
}

fn is_displaced(error: &Error) -> bool {
    matches!(error, Error::Log(LogError::Displaced { .. }))
}

/// The table's pool has lost its name: it notices, and says so.
fn wait_until_displaced(table: &Table) -> String {
    for key in 0.. {
        match table.put(key, 0) {
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Err(error) => {
                assert!(is_displaced(&error), "{error}");
                return error.to_string();
            }
        }
    }
    unreachable!()
}

#[test]
fn a_pool_that_was_removed_does_nothing_to_another_in_its_place() {
    for removes_all in [false, true] {
        let directory = on_disk();
        let path = directory.path().join("pool");
        let table = options().create_table(&path).unwrap();
        put_through_checkpoints(&table, 0);
        std::fs::remove_file(&path).unwrap();
        if removes_all {
            std::fs::remove_dir_all(companions(&path)).unwrap();
        } else {
            // What is left of it is neither overwritten nor restored while somebody writes to it.
            let refused = options().create_table(&path).unwrap_err();
            assert!(matches!(refused, Error::Open(OpenError::LeftLog { .. })), "{refused}");
            let refused = options().open_table(&path).unwrap_err();
            assert!(matches!(refused, Error::Open(OpenError::BusyLog { .. })), "{refused}");
            std::fs::rename(companions(&path), directory.path().join("aside")).unwrap();
        }
        let new = options().create_table(&path).unwrap();
        new.put_many(&(0..3000).map(|key| (key, !key)).collect::<Vec<_>>()).unwrap();
        let says = wait_until_displaced(&table);
        assert!(says.contains("moved or removed"), "{says}");
        new.close().unwrap();
        let before = contents(&companions(&path));
        for _ in 0..100 {
            assert!(table.put(1, 1).is_err());
        }
        let _ = table.close();
        assert!(contents(&companions(&path)) == before, "the new pool's files were changed");
        has_all(&restored(&path).1, 3000);
    }
}

#[test]
fn files_of_others_stay_whatever_they_are_called() {
    let directory = on_disk();
    let at = |name: &str| directory.path().join(name);
    let others = [
        "srv.log.1",
        "srv.log.2",
        "srv.log.7",
        "srv.log.20261127",
        "srv.safe.new",
        "srv.sums",
        "srv.creating-0123456789abcdef",
    ];
    for name in others {
        std::fs::write(at(name), name).unwrap();
    }
    std::fs::write(at("precious"), "precious").unwrap();
    symlink("precious", at("srv.sums.new")).unwrap();
    let table = options().keep_sums(true).create_table(at("srv")).unwrap();
    // In its own directory, too.
    let inside = ["log.20261127", "log.3.gz", "notes", "sums.new"];
    for name in inside {
        std::fs::write(at("srv.safe").join(name), name).unwrap();
    }
    let keys = put_through_checkpoints(&table, 0);
    assert!(table.close().is_err(), "its sums would go where something else is");
    std::fs::remove_file(at("srv.safe/sums.new")).unwrap();
    symlink("../precious", at("srv.safe/sums.new")).unwrap();
    let table = options().open_table(at("srv")).unwrap();
    let keys = put_through_checkpoints(&table, keys);
    has_all(&table, keys);
    assert!(table.close().is_err());
    firndex::remove(at("srv")).unwrap();
    for name in others {
        assert_eq!(std::fs::read(at(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(std::fs::read(at("precious")).unwrap(), b"precious");
    for name in &inside[..3] {
        assert_eq!(std::fs::read(at("srv.safe").join(name)).unwrap(), name.as_bytes());
    }
    assert!(!at("srv").exists() && segments(&at("srv")).len() == 1);
}

#[test]
fn what_is_in_the_way_is_told_and_left_alone() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let file = |at: &Path| std::fs::write(at, "mine").unwrap();
    let full = |at: &Path| {
        std::fs::create_dir(at).unwrap();
        std::fs::write(at.join("identity"), "mine").unwrap();
    };
    let link = |at: &Path| symlink("nowhere", at).unwrap();
    for make in [&file as &dyn Fn(&Path), &full, &link] {
        make(&companions(&path));
        let before = names(directory.path());
        let error = options().create_table(&path).unwrap_err();
        assert!(matches!(error, Error::Open(OpenError::InTheWay { .. })), "{error}");
        assert!(error.to_string().contains("move that away"), "{error}");
        assert_eq!(names(directory.path()), before);
        // A pool without companions does not need the name.
        let without = options().durability(Durability::Process).create_table(&path).unwrap();
        without.close().unwrap();
        let error = options().open_table(&path).unwrap_err();
        assert!(matches!(error, Error::Open(OpenError::InTheWay { .. })), "{error}");
        std::fs::remove_file(&path).unwrap();
        let safe = companions(&path);
        let _ = std::fs::remove_file(&safe).or_else(|_| std::fs::remove_dir_all(&safe));
    }
}

#[test]
fn names_are_bytes_and_may_be_long() {
    let directory = on_disk();
    let [one, other] =
        [&b"caf\xe9"[..], b"caf\xe8"].map(|name| directory.path().join(OsStr::from_bytes(name)));
    for (path, value) in [(&one, 1), (&other, 2)] {
        options().create_table(path).unwrap().put(7, value).unwrap();
    }
    let table = options().open_table(&one).unwrap();
    table.backup(&other, Existing::Replace).unwrap();
    let keys = put_through_checkpoints(&table, 0);
    has_all(&restored(&one).1, keys);
    drop(table);
    firndex::remove(&other).unwrap();
    has_all(&options().open_table(&one).unwrap(), keys);

    for bytes in 245..=255 {
        let path = directory.path().join("n".repeat(bytes));
        let made = options().create_table(&path);
        if bytes <= 250 {
            let table = made.unwrap();
            let keys = put_through_checkpoints(&table, 0);
            table.close().unwrap();
            has_all(&options().open_table(&path).unwrap(), keys);
            firndex::remove(&path).unwrap();
            continue;
        }
        let error = made.unwrap_err();
        assert!(matches!(error, Error::Open(OpenError::NameTooLong { .. })), "{error}");
        assert!(!path.exists());
        let table = options().durability(Durability::Process).create_table(&path).unwrap();
        table.put(1, 1).unwrap();
        table.close().unwrap();
        firndex::remove(&path).unwrap();
    }
}

#[test]
fn a_pool_that_has_no_companions_is_not_restored_from_any() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let table = options().create_table(&path).unwrap();
    table.put(1, 1).unwrap();
    table.close().unwrap();
    assert!(checkpoint(&path).is_some());
    let table = options().durability(Durability::Process).open_table(&path).unwrap();
    assert!(!companions(&path).exists());
    table.put(1, 2).unwrap();
    table.close().unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = options().open_table(&path).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::Missing { .. })), "{error}");
}

#[test]
fn a_lost_pool_is_restored_or_removed_and_nothing_else_is_advised() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    options().create_table(&path).unwrap().put(1, 1).unwrap();
    std::fs::remove_file(&path).unwrap();
    for durability in Durability::ALL {
        let error = options().durability(*durability).create_table(&path).unwrap_err().to_string();
        assert!(error.contains("open it instead, which restores the pool"), "{error}");
        assert!(error.contains("to begin anew"), "{error}");
    }
    assert!(options().restore(&path).unwrap());
    assert_eq!(options().open_table(&path).unwrap().get(1).unwrap(), Some(1));
    std::fs::remove_file(&path).unwrap();
    firndex::remove(&path).unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
    options().create_table(&path).unwrap();
}

#[test]
fn only_pools_are_removed_and_only_closed_ones() {
    let (directory, logs) = (on_disk(), on_disk());
    let path = directory.path().join("pool");
    let missing = firndex::remove(&path).unwrap_err();
    assert!(matches!(missing, Error::Open(OpenError::Missing { .. })), "{missing}");
    std::fs::write(&path, "a letter").unwrap();
    let letter = firndex::remove(&path).unwrap_err();
    assert!(matches!(letter, Error::Open(OpenError::NotAPool { .. })), "{letter}");
    std::fs::remove_file(&path).unwrap();
    let elsewhere = options().log_directory(logs.path()).keep_sums(true);
    let table = elsewhere.create_table(&path).unwrap();
    let open = firndex::remove(&path).unwrap_err();
    assert!(matches!(open, Error::Open(OpenError::AlreadyOpen { .. })), "{open}");
    table.close().unwrap();
    let refused = firndex::remove(&path).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::LogElsewhere { .. })), "{refused}");
    elsewhere.remove(&path).unwrap();
    assert_eq!((names(directory.path()), names(logs.path())), (vec![], vec![]));
}

#[test]
fn a_log_directory_that_is_not_there_is_named() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let nowhere = directory.path().join("no/such");
    let error = options().log_directory(&nowhere).create_table(&path).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::NoLogDirectory { .. })), "{error}");
    assert!(error.to_string().contains(&nowhere.display().to_string()), "{error}");
    options().create_table(&path).unwrap().close().unwrap();
    let error = options().log_directory(&nowhere).open_table(&path).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::NoLogDirectory { .. })), "{error}");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn companions_and_copies_are_as_private_as_the_pool() {
    let directory = on_disk();
    let at = |name: &str| directory.path().join(name);
    let store = Options::new().durability(Durability::Periodic).create_store(at("pool")).unwrap();
    store.put("a", "b").unwrap();
    store.close().unwrap();
    std::fs::set_permissions(at("pool"), PermissionsExt::from_mode(0o600)).unwrap();
    let store = Store::open(at("pool")).unwrap();
    store.put("c", "d").unwrap();
    store.sync().unwrap();
    while store.log().unwrap().unwrap().checkpoints == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(mode(&at("pool.safe")), 0o700);
    store.sync().unwrap();
    drop(store);
    let store = Store::open(at("pool")).unwrap();
    for (path, _) in contents(&at("pool.safe")) {
        let is_others = mode(&path) & 0o077 != 0;
        // What holds nothing of the pool yet may still be as it was.
        assert!(!is_others || path.file_name().unwrap() == "log.reserve", "{path:?}");
    }
    for existing in [Existing::Keep, Existing::Replace] {
        store.backup(at("backup"), existing).unwrap();
        store.convert(at("other"), existing, &Options::new()).unwrap();
        assert_eq!((mode(&at("backup")), mode(&at("other"))), (0o600, 0o600));
    }
    drop(store);
    let saved = firndex::Salvage::open(at("pool")).unwrap();
    let orphans = firndex::Orphans::Leave;
    saved.store(at("saved"), Existing::Keep, &Options::new(), orphans).unwrap();
    assert_eq!(mode(&at("saved")), 0o600);
    // A file that is replaced keeps its own.
    std::fs::set_permissions(at("backup"), PermissionsExt::from_mode(0o640)).unwrap();
    drop(saved);
    Store::open(at("pool")).unwrap().backup(at("backup"), Existing::Replace).unwrap();
    assert_eq!(mode(&at("backup")), 0o640);
}

/// Only root can give files away.
#[test]
fn what_root_makes_for_a_pool_belongs_to_the_pool_s_owner() {
    const SERVICE: u32 = 54321;
    let directory = on_disk();
    let path = directory.path().join("pool");
    options().keep_sums(true).create_table(&path).unwrap().close().unwrap();
    if chown(&path, Some(SERVICE), Some(SERVICE)).is_err() {
        eprintln!("skipped: this user cannot give files away");
        return;
    }
    let belongs = |path: &Path| {
        let found = std::fs::metadata(path).unwrap();
        assert_eq!((found.uid(), found.gid()), (SERVICE, SERVICE), "{}", path.display());
    };
    let all_belong = || {
        [path.clone(), companions(&path)].iter().for_each(|path| belongs(path));
        for (path, _) in contents(&companions(&path)) {
            let name = path.file_name().unwrap();
            if name != "log.reserve" {
                belongs(&path);
            }
        }
    };
    let table = options().open_table(&path).unwrap();
    let keys = put_through_checkpoints(&table, 0);
    table.close().unwrap();
    all_belong();
    let table = options().open_table(&path).unwrap();
    table.rewrite().unwrap();
    all_belong();
    std::fs::remove_file(&path).unwrap();
    has_all(&options().open_table(&path).unwrap(), keys);
    all_belong();
}

/// A disk that the pool with its companions nearly fills.
const DISK: &str = "-t tmpfs -o size=12m tmpfs";
const KEYS: u64 = 1000;
/// Bytes that are written to the log in a life: more than the disk has.
const LIFE_BYTES: u64 = 14 << 20;

/// Replaces all values again and again, which nothing may refuse, until so much was written to the log.
fn replace_all(table: &Table, round: u64) -> u64 {
    for round in round.. {
        let pairs: Vec<_> = (0..KEYS).map(|key| (key, key << 32 | round)).collect();
        table.put_many(&pairs).unwrap_or_else(|error| panic!("round {round}: {error}"));
        if table.log().unwrap().unwrap().written_bytes >= LIFE_BYTES {
            return round;
        }
    }
    unreachable!()
}

/// A role, on a disk of its own: no change of a pool whose checkpoint fits is refused, however long it goes on.
pub(crate) fn live_on_a_small_disk(options: &Options, directory: &Path) {
    let path = directory.join("pool");
    let options = options.clone().durability(Durability::Commit).checkpoint_at(1 << 40).helpers(0);
    let mut round = 0;
    let create = || options.clone().capacity(KEYS).create_table(&path).unwrap();
    let mut table = create();
    for life in 0..4 {
        round = replace_all(&table, round + 1);
        if life % 2 == 0 {
            table.close().unwrap();
        } else {
            drop(table);
            // As after power loss.
            std::fs::remove_file(&path).unwrap();
        }
        table = options.open_table(&path).unwrap();
        assert!((0..KEYS).all(|key| table.get(key).unwrap() == Some(key << 32 | round)));
    }
    // All that is left is taken by others.
    fill_up(&directory.join("filler"));
    round = replace_all(&table, round + 1);
    (0..KEYS).for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(key << 32 | round)));
    table.close().unwrap();
    let table = options.open_table(&path).unwrap();
    assert_eq!(table.len(), 0);
    replace_all(&table, round + 1);
    table.close().unwrap();
}

fn fill_up(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let mut bytes = vec![1; 1 << 20];
    while !bytes.is_empty() {
        if file.write_all(&bytes).is_err() {
            bytes.truncate(bytes.len() / 2);
        }
    }
}

#[test]
fn a_small_disk_is_never_full_for_a_pool_whose_checkpoint_fits() {
    full::run_mounted(DISK, "", "live on a small disk", "");
}

/// Bytes of a pool's companions.
fn companion_bytes(path: &Path) -> u64 {
    let sizes = std::fs::read_dir(companions(path)).unwrap().map(|entry| entry.unwrap().metadata());
    sizes.map(|found| found.unwrap().len()).sum()
}

/// A role: it is killed as soon as it has the pool open, or a little later.
pub(crate) fn begin_and_be_killed(options: &Options, path: &Path, seed: u64) {
    let table = options.clone().durability(Durability::Periodic).open_table(path).unwrap();
    (0..seed * 100).for_each(|key| assert!(table.put(key, seed).is_ok()));
    std::process::abort();
}

/// The bound that README states: two checkpoints, the log since the last one, and four segments.
#[test]
fn processes_that_are_killed_again_and_again_fill_no_disk() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let options = Options::new().durability(Durability::Periodic).capacity(400_000);
    options.create_table(&path).unwrap().close().unwrap();
    let pool_bytes = std::fs::metadata(&path).unwrap().len();
    let segment_bytes = (pool_bytes / 4).next_power_of_two().clamp(256 << 10, 64 << 20);
    let logged_bytes = 8 * 100 * 64 * 64;
    let bound = 2 * (pool_bytes + (1 << 20)) + 4 * segment_bytes + logged_bytes;
    for seed in 0..8 {
        let mut killed = processes::process("begin and be killed", PREFERRED, &path, seed);
        assert!(!killed.output().unwrap().status.success());
        let found = companion_bytes(&path);
        assert!(found <= bound, "{found} bytes after {} kills, {bound} at most", seed + 1);
    }
    assert_eq!(options.open_table(&path).unwrap().len(), 700);
}

/// What a killed process has stored and not logged is found, and logged. Nothing else is written, however large the
/// pool is, and whether or not it has grown since its checkpoint.
#[test]
fn a_pool_whose_process_was_killed_is_not_written_anew() {
    for capacity in [400_000, 16] {
        let directory = on_disk();
        let path = directory.path().join("pool");
        let options = Options::new().durability(Durability::Periodic).capacity(capacity);
        options.create_table(&path).unwrap().close().unwrap();
        let pool_bytes = || std::fs::metadata(&path).unwrap().len();
        let mut has_grown = false;
        for seed in [3, 9, 40] {
            let former_bytes = pool_bytes();
            let mut killed = processes::process("begin and be killed", PREFERRED, &path, seed);
            assert!(!killed.output().unwrap().status.success());
            has_grown |= pool_bytes() > former_bytes;
            let table = options.open_table(&path).unwrap();
            table.put(1 << 40, seed).unwrap();
            table.sync().unwrap();
            let log = table.log().unwrap().unwrap();
            // How much the killed process had not logged depends on when its log was written: at most all of it, a line
            // and its head for each pair.
            let stored_bytes = seed * 100 * 128 + (64 << 10);
            assert!(log.checkpoints == 0 && log.written_bytes < stored_bytes, "{log:?}");
            let (elsewhere, restored) = restored(&path);
            assert!(restored.check().unwrap().is_sound());
            assert_eq!(
                (restored.len(), restored.get(1 << 40).unwrap()),
                (seed * 100 + 1, Some(seed))
            );
            assert!((0..seed * 100).all(|key| restored.get(key).unwrap() == Some(seed)));
            drop(elsewhere);
            // The log goes on at the end, as that of any pool that is closed.
            table.close().unwrap();
            let table = options.open_table(&path).unwrap();
            table.sync().unwrap();
            assert_eq!(table.log().unwrap().unwrap().checkpoints, 0);
            table.close().unwrap();
        }
        assert_eq!(has_grown, capacity == 16);
    }
}

/// Who it was is lost with its superblocks. Its directory is replaced with it.
#[test]
fn a_damaged_pool_is_replaced_with_its_companions() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    options().create_table(&path).unwrap().put(1, 1).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    (0..2).for_each(|copy| bytes[copy * 4096 + 100] ^= 1);
    std::fs::write(&path, bytes).unwrap();
    let table = <Table>::in_memory().unwrap();
    table.put(2, 2).unwrap();
    table.backup(&path, Existing::Replace).unwrap();
    let has_only = |table: &Table| {
        assert_eq!((table.len(), table.get(2).unwrap()), (1, Some(2)));
    };
    has_only(&options().open_table(&path).unwrap());
    has_only(&restored(&path).1);
}
