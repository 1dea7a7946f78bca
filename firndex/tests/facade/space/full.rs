//! A full pool keeps what it has, serves on, takes more once there is room, and kills nobody.

use crate::byte_map::ByteMap;
use crate::{effort, places, processes};
use firndex::{Engine, Error, Options, Store, Table};
use std::path::Path;
use std::process::{Command, Output};

fn is_full<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> String {
    let error = result.map_err(Into::into).unwrap_err();
    assert!(matches!(error, Error::PoolFull(_)), "{error:?}");
    let message = error.to_string();
    for part in ["the pool is full", "remove entries", "try again"] {
        assert!(message.contains(part), "{message}");
    }
    message
}

fn assert_limit_is_named(message: &str, max_bytes: u64) {
    let cause = format!("its limit is {max_bytes} bytes: raise `Options::max_bytes`");
    assert!(message.contains(&cause), "{message}");
}

/// Puts keys from `from` on until the table is full; returns the first that was refused.
fn fill_table(table: &Table, from: u64) -> u64 {
    let key = (from..).find(|&key| match table.put(key, !key) {
        Ok(replaced) => {
            assert_eq!(replaced, None);
            false
        }
        Err(error) => {
            is_full::<()>(Err(error));
            true
        }
    });
    key.unwrap()
}

fn assert_table_has(table: &Table, keys: std::ops::Range<u64>) {
    for key in keys.clone() {
        assert_eq!(table.get(key).unwrap(), Some(!key), "key {key}");
    }
    assert_eq!(table.get(keys.end).unwrap(), None, "what was refused is there");
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((table.len(), report.pairs), (keys.end, keys.end));
}

/// Puts a key whose space some thread of the engine may still read: a refusal says so, and a later put finds it.
fn put_where_another_was(table: &Table, key: u64) {
    let mut puts = std::iter::repeat_with(|| table.put(key, !key)).take(1000);
    let is_held = |put: &firndex::Result<Option<u64>>| {
        put.as_ref().is_err_and(|refused| refused.to_string().contains("drop them"))
    };
    let put = puts.find(|put| !is_held(put)).expect("held by a thread for longer than any sleeps");
    assert_eq!(put.unwrap(), None, "key {key}");
}

/// What a full table still does.
fn exercise_full_table(table: &Table) -> u64 {
    let end = fill_table(table, 0);
    assert!(end > 1000, "full with {end} pairs");
    assert_table_has(table, 0..end);
    for key in 0..end {
        assert_eq!(table.update(key, key).unwrap(), Some(!key));
        assert_eq!(table.put(key, !key).unwrap(), Some(key));
    }
    is_full(table.insert(end, 1));
    is_full(table.compare_exchange(end, None, Some(1)));
    is_full(table.modify(end, |_| Some(1)));
    is_full(table.put_many(&[(end, 1)]));
    assert_table_has(table, 0..end);
    for key in 0..end {
        assert_eq!(table.remove(key).unwrap(), Some(!key));
        // The very slot that it left takes it again.
        put_where_another_was(table, key);
    }
    assert_table_has(table, 0..end);
    let half: Vec<u64> = (end / 2..end).collect();
    assert!(table.remove_many(&half).unwrap().iter().all(Option::is_some));
    let refilled = fill_table(table, end / 2);
    assert!(
        refilled > end * 9 / 10,
        "{refilled} of {end} pairs fit again: {:#?}",
        table.stats().unwrap()
    );
    assert_table_has(table, 0..refilled);
    refilled
}

/// On all engines at once: whoever finds no room waits a while for others to let some go.
pub(crate) fn on_every_engine(test: impl Fn(Engine) + Sync) {
    on_engines(Engine::ALL.iter().copied(), test);
}

fn on_engines(engines: impl Iterator<Item = Engine>, test: impl Fn(Engine) + Sync) {
    std::thread::scope(|scope| {
        for engine in engines {
            let test = &test;
            scope.spawn(move || test(engine));
        }
    });
}

#[test]
fn a_table_at_its_limit() {
    on_every_engine(|engine| {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine).max_bytes(600_000);
        let table = options.open_or_create_table(&path).unwrap();
        let pairs = exercise_full_table(&table);
        assert_limit_is_named(&is_full(table.insert(pairs, 1)), 600_000);
        table.close().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= 602_112, "the limit, to a full page");
        let table = <Table>::open(&path).unwrap();
        assert_table_has(&table, 0..pairs);
        for key in pairs..3 * pairs {
            table.put(key, !key).unwrap();
        }
        assert_table_has(&table, 0..3 * pairs);
    });
}

fn key_of(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// Of the length that makes `bytes` bytes of values a pool full of a few hundred of them.
fn value_of(key: u64, len: usize) -> Vec<u8> {
    vec![key as u8; len + key as usize % 30]
}

fn fill_store(store: &Store, from: u64, len: usize) -> u64 {
    let key = (from..).find(|&key| match store.put(key_of(key), value_of(key, len)) {
        Ok(replaced) => {
            assert!(replaced.is_none());
            false
        }
        Err(error) => {
            is_full::<()>(Err(error));
            true
        }
    });
    key.unwrap()
}

fn assert_store_has(store: &Store, keys: std::ops::Range<u64>, len: usize) {
    let contents = store.sound_contents();
    assert_eq!(contents.len() as u64, keys.end - keys.start);
    for key in keys.clone() {
        assert!(contents[&key_of(key)[..]] == value_of(key, len), "key {key}");
        assert!(store.get(key_of(key)).unwrap().unwrap() == value_of(key, len), "key {key}");
    }
    assert!(store.get(key_of(keys.end)).unwrap().is_none());
}

/// Updating goes on in a full store, whatever calls do it, with values of as many bytes.
fn update_all(store: &Store, keys: std::ops::Range<u64>, len: usize) {
    let refused = |key: u64, error| -> ! { panic!("key {key} of {}: {error}", keys.end) };
    let every = (keys.end - keys.start) / 100 + 1;
    for key in keys.clone().step_by(every as usize) {
        let value = value_of(key, len);
        let other = vec![!0; value.len()];
        let exchanged = store.compare_exchange(key_of(key), Some(&value), Some(&other));
        exchanged.unwrap_or_else(|error| refused(key, error)).unwrap();
        store.update(key_of(key), &value).unwrap_or_else(|error| refused(key, error));
        let modified = store.modify(key_of(key), |found| found.map(|_| other.clone()));
        modified.unwrap_or_else(|error| refused(key, error));
        let put = || store.put(key_of(key), &value).map(drop);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(put)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
    }
}

fn exercise_full_store(store: &Store, len: usize) -> std::ops::Range<u64> {
    let end = fill_store(store, 0, len);
    assert!(end > 4, "full with {end} pairs");
    assert_store_has(store, 0..end, len);
    is_full(store.insert(key_of(end), value_of(end, len)));
    is_full(store.put_many(&[(&key_of(end), &value_of(end, len))]));
    is_full(store.compare_exchange(key_of(end), None, Some(&value_of(end, len))));
    assert!(store.update(key_of(end), "").unwrap().is_none(), "an absent key needs no space");
    update_all(store, 0..end, len);
    assert_store_has(store, 0..end, len);
    let removed = end / 3;
    for key in 0..removed {
        assert!(store.remove(key_of(key)).unwrap().is_some());
    }
    assert_store_has(store, removed..end, len);
    let added = (end..).take_while(|&key| store.put(key_of(key), value_of(key, len)).is_ok());
    let added = added.count() as u64;
    assert!(added > 0, "after {removed} of {end} were removed not one more fits");
    assert_store_has(store, removed..end + added, len);
    removed..end + added
}

fn exercise_store_at_its_limit(len: usize, max_bytes: u64) {
    on_engines(effort::engines(), |engine| exercise_engine_at_its_limit(engine, len, max_bytes));
}

fn exercise_engine_at_its_limit(engine: Engine, len: usize, max_bytes: u64) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let options = Options::new().engine(engine).max_bytes(max_bytes);
    let store = options.open_or_create_store(&path).unwrap();
    let mut keys = exercise_full_store(&store, len);
    let refused = store.insert("new", vec![0; max_bytes as usize]);
    assert_limit_is_named(&is_full(refused), max_bytes);
    drop(store);
    let store = options.open_or_create_store(&path).unwrap();
    keys.end = fill_store(&store, keys.end, len);
    update_all(&store, keys.clone(), len);
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_store_has(&store, keys.clone(), len);
    let end = keys.end + 100;
    for key in keys.end..end {
        store.put(key_of(key), value_of(key, len)).unwrap();
    }
    assert_store_has(&store, keys.start..end, len);
}

#[test]
fn a_store_of_small_values_at_its_limit() {
    exercise_store_at_its_limit(100, 6 << 20);
}

#[test]
fn a_store_of_middling_values_at_its_limit() {
    exercise_store_at_its_limit(10_000, 3 << 20);
}

#[test]
fn a_store_of_large_values_at_its_limit() {
    exercise_store_at_its_limit(400_000, 6 << 20);
}

/// On an error some of a batch is stored: each pair whole, nothing lost.
#[test]
fn batches_into_a_full_pool() {
    on_every_engine(|engine| {
        for len in [20, 5000] {
            let options = Options::new().engine(engine).max_bytes(5 << 20);
            let store = options.in_memory_store().unwrap();
            let mut stored = 0;
            for first in (0u64..).step_by(100) {
                let pairs: Vec<_> =
                    (first..first + 100).map(|key| (key_of(key), value_of(key, len))).collect();
                let slices: Vec<(&[u8], &[u8])> =
                    pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                match store.put_many(&slices) {
                    Ok(replaced) => assert!(replaced.iter().all(Option::is_none)),
                    Err(error) => {
                        is_full::<()>(Err(error));
                        break;
                    }
                }
                stored = first + 100;
            }
            let contents = store.sound_contents();
            assert!((0..stored).all(|key| contents.contains_key(&key_of(key)[..])));
            for (key, value) in &contents {
                let key = u64::from_be_bytes(key[..].try_into().unwrap());
                assert!(key < stored + 100 && *value == value_of(key, len));
            }
            let keys: Vec<&[u8]> = contents.keys().map(Vec::as_slice).collect();
            assert!(store.remove_many(&keys).unwrap().iter().all(Option::is_some));
            assert!(store.sound_contents().is_empty());
        }
        let options = Options::new().engine(engine).max_bytes(300_000);
        let table = options.in_memory_table().unwrap();
        let pairs: Vec<(u64, u64)> = (0..100_000).map(|key| (key, !key)).collect();
        is_full(table.put_many(&pairs));
        assert!(table.check().unwrap().is_sound());
        let found = table.get_many(&(0..100_000).collect::<Vec<_>>()).unwrap();
        assert!(found.iter().zip(0..).all(|(found, key)| found.is_none_or(|value| value == !key)));
        assert_eq!(found.iter().flatten().count() as u64, table.len());
    });
}

/// A role: the directory is a file system of a few megabytes, all of it this process's own.
pub(crate) fn fill_a_file_system(options: &Options, directory: &Path) {
    let filler = directory.join("filler");
    for helpers in [1, 0] {
        let options = options.clone().helpers(helpers);
        let path = directory.join("table");
        std::fs::write(&filler, vec![1; 2 << 20]).unwrap();
        let table = options.open_or_create_table(&path).unwrap();
        let pairs = exercise_full_table(&table);
        std::fs::remove_file(&filler).unwrap();
        let (pool_bytes, grown) = (table.stats().unwrap().pool_bytes, pairs + pairs / 4);
        for key in pairs..grown {
            table.put(key, !key).unwrap();
        }
        assert!(table.stats().unwrap().pool_bytes > pool_bytes, "it did not grow into the room");
        assert_table_has(&table, 0..grown);
        let end = fill_table(&table, grown);
        drop(table);
        assert_table_has(&options.open_table(&path).unwrap(), 0..end);
        std::fs::remove_file(&path).unwrap();

        // Small values, to which it makes no difference, once.
        for &len in [100, 200_000].iter().skip(1 - helpers) {
            let path = directory.join("store");
            std::fs::write(&filler, vec![1; 1 << 20]).unwrap();
            let store = options.open_or_create_store(&path).unwrap();
            let mut keys = exercise_full_store(&store, len);
            std::fs::remove_file(&filler).unwrap();
            let end = fill_store(&store, keys.end, len);
            assert!(end > keys.end, "it did not grow into the room");
            keys.end = end;
            assert_store_has(&store, keys.clone(), len);
            drop(store);
            let store = options.open_store(&path).unwrap();
            assert_store_has(&store, keys.clone(), len);
            drop(store);
            std::fs::remove_file(&path).unwrap();
        }
        // Where not even a new pool fits.
        std::fs::write(&filler, vec![1; 4_190_208]).unwrap();
        let nowhere = options.open_or_create_table(directory.join("no room"));
        let nowhere = nowhere.map(|table| table.len()).unwrap_err();
        assert!(matches!(nowhere, Error::PoolFull(_)), "{nowhere:?}");
        let message = nowhere.to_string();
        assert!(message.contains("no room for the new pool") && message.contains("free some"));
        assert!(!message.contains("remove"), "there is nothing to remove: {message}");
        assert!(!directory.join("no room").exists());
        std::fs::remove_file(&filler).unwrap();
    }
}

/// A role: no file of this process may become larger than a megabyte.
pub(crate) fn fill_a_file(options: &Options, path: &Path) {
    let table = options.create_table(path).unwrap();
    let pairs = exercise_full_table(&table);
    drop(table);
    assert_table_has(&<Table>::open(path).unwrap(), 0..pairs);
}

/// A role: no file of this process may become larger than 40 megabytes.
pub(crate) fn refuse_in_steps(options: &Options, path: &Path) {
    let store = options.clone().helpers(0).create_store(path).unwrap();
    store.put("key", "value").unwrap();
    let pool_bytes = store.stats().unwrap().pool_bytes;
    // Space for it is taken in steps, the first of which succeed.
    let message = is_full(store.put("large", vec![1; 100 << 20]));
    assert!(
        message.contains("no file of this process may become larger than 41943040 bytes: raise"),
        "{message}"
    );
    assert_eq!(store.stats().unwrap().pool_bytes, pool_bytes);
    let file = std::fs::metadata(path).unwrap();
    assert!(file.len() <= pool_bytes.next_multiple_of(4096), "{} bytes were left", file.len());
    assert!(store.put("small", vec![1; 100 << 10]).unwrap().is_none());
    assert!(store.check().is_sound());
}

/// Runs a role where no file may have more than `blocks` blocks of 512 bytes.
fn run_limited(blocks: u64, role: &str, engine: Engine, path: &Path) {
    let mut command = Command::new("sh");
    // The signal that comes with an attempt to make one larger ends the process.
    command.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap()).args(processes::ARGUMENTS);
    processes::environment(&mut command, role, engine, path, 0);
    assert_well(command, engine);
}

/// Runs a process to its end, which must be a good one.
pub(crate) fn assert_well(mut command: Command, engine: Engine) {
    assert_ended_well(&command.output().unwrap(), engine);
}

/// The end of a process is a good one.
#[track_caller]
pub(crate) fn assert_ended_well(output: &Output, engine: Engine) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine}: {}: {said}", output.status);
}

/// The file system has room, and allocating fails all the same, as it does at a quota.
#[test]
fn a_limit_that_shows_only_on_allocation() {
    on_engines(effort::engines(), |engine| {
        let directory = places::on_disk();
        let path = directory.path().join("pool");
        run_limited(2048, "fill a file", engine, &path);
        assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
        assert!(<Table>::open(&path).unwrap().put(u64::MAX, 1).unwrap().is_none());
    });
}

#[test]
fn a_refusal_gives_back_what_it_took() {
    on_engines(effort::engines(), |engine| {
        let directory = places::on_disk();
        run_limited(81_920, "refuse in steps", engine, &directory.path().join("pool"));
    });
}

/// Commands that run what follows them where it may mount: as root, and as anyone else.
const UNSHARES: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-U", "-r", "-m"]];

/// Runs a role on a new file system, mounted where nobody else sees it, after `before` in a shell.
/// Where nothing can be mounted, it says so and does nothing.
pub(crate) fn run_mounted(mount: &str, before: &str, role: &str, file: &str) {
    let directory = places::on_disk();
    let mount = format!("mount {mount} \"$0\"");
    let unshared = |unshare: &[&str]| {
        let mut command = Command::new(unshare[0]);
        command.args(&unshare[1..]).args(["sh", "-c"]);
        command
    };
    let can_mount = |unshare: &&&[&str]| {
        let tried = unshared(unshare).arg(&mount).arg(directory.path()).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(unshare) = UNSHARES.iter().find(can_mount) else {
        eprintln!("skipped, since this cannot be done here: {mount}");
        return;
    };
    on_engines(effort::engines(), |engine| {
        let mut command = unshared(unshare);
        command.arg(format!("{mount} && {before} exec \"$@\"")).arg(directory.path());
        command.arg(std::env::current_exe().unwrap()).args(processes::ARGUMENTS);
        let path = directory.path().join(file);
        processes::environment(&mut command, role, engine, &path, 0);
        assert_well(command, engine);
    });
}

#[test]
fn a_small_file_system() {
    run_mounted("-t tmpfs -o size=4m tmpfs", "", "fill a file system", "");
}

/// They report that no block is free, which is all they say whether it is so or not. What an attempt to
/// allocate says is also decided in `pmem::medium`, whose own tests need no such file system.
#[test]
fn file_systems_that_report_no_free_space() {
    for mount in ["-t tmpfs -o size=0 tmpfs", "-t ramfs ramfs"] {
        run_mounted(mount, "trap '' XFSZ; ulimit -f 2048;", "fill a file", "pool");
    }
}
