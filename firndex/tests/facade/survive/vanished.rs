//! Pages that vanish under an open pool, since somebody truncates its file: an error of that pool, and of no other.

use crate::{effort, places, processes};
use firndex::{Durability, Engine, Error, Options, Store, Table};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pairs that are there before.
const PAIRS: u64 = 20_000;
const SIGBUS: i32 = 7;

fn value_of(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(1 + key as usize % 20)
}

fn make(options: &Options, path: &Path) -> (Table, Store) {
    let table = options.create_table(path.with_extension("table")).unwrap();
    table.extend((0..PAIRS).map(|key| (key, !key))).unwrap();
    table.sync().unwrap();
    let store = options.create_store(path.with_extension("store")).unwrap();
    for key in 0..2 * PAIRS {
        store.put(key.to_le_bytes(), value_of(key)).unwrap();
    }
    // Room for what replaces values.
    for key in PAIRS..2 * PAIRS {
        store.remove(key.to_le_bytes()).unwrap();
    }
    store.sync().unwrap();
    (table, store)
}

/// Leaves the first `percent` of a file.
fn truncate(path: &Path, percent: u64) {
    let file = File::options().write(true).open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes * percent / 100).unwrap();
}

#[track_caller]
fn demand_vanished<R>(result: Result<R, impl Into<Error>>) {
    match result.map_err(Into::into) {
        Err(Error::Vanished { file_bytes, pool_bytes }) => assert!(file_bytes < pool_bytes),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it went on"),
    }
}

/// Calls until the pool is refused. A call that is under way when pages vanish may be answered in any way.
fn call_until_refused<R>(mut call: impl FnMut(u64) -> firndex::Result<R>) {
    let mut number = 0;
    while !matches!(call(number), Err(Error::Vanished { .. })) {
        number += 1;
    }
}

/// One key in so many is never removed.
const STAYS_ONE_IN: u64 = 3;

/// A key that may be removed: this one, or the next if this one stays.
fn removable(key: u64) -> u64 {
    key + u64::from(key.is_multiple_of(STAYS_ONE_IN))
}

/// The role of a process whose pools are truncated to `percent_left` while threads use them and they grow.
pub(crate) fn lose_pages(options: &Options, path: &Path, percent_left: u64) {
    lose_pages_among(options, path, percent_left, 4 * PAIRS);
}

/// The same, where threads put so many keys, of which the first `PAIRS` are there before.
fn lose_pages_among(options: &Options, path: &Path, percent_left: u64, keys: u64) {
    let other = Store::in_memory().unwrap();
    let options = options.clone().survive_bus_errors(true);
    let (table, store) = make(&options, path);
    let third = options.create_store(path.with_extension("third")).unwrap();
    let key_of = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (table, store) = (&table, &store);
            scope.spawn(move || {
                call_until_refused(|number| {
                    let key = (PAIRS + 2 * number + thread) % keys;
                    table.put(key, !key)
                });
            });
            scope.spawn(move || {
                call_until_refused(|number| table.remove(removable(2 * (number % PAIRS) + thread)))
            });
            scope.spawn(move || {
                call_until_refused(|number| {
                    store.put(key_of(number + thread).to_le_bytes(), value_of(number % 99))
                });
            });
            scope.spawn(move || {
                call_until_refused(|number| {
                    store.remove(removable(key_of(7 * number)).to_le_bytes())
                })
            });
        }
        scope.spawn(|| call_until_refused(|number| table.get(number % PAIRS)));
        scope.spawn(|| call_until_refused(|number| store.get(key_of(number).to_le_bytes())));
        scope.spawn(|| call_until_refused(|_| table.for_each(|_, _| ())));
        scope.spawn(|| call_until_refused(|_| store.sync()));
        std::thread::sleep(Duration::from_millis(5));
        truncate(&path.with_extension("table"), percent_left);
        truncate(&path.with_extension("store"), percent_left);
    });
    demand_vanished(table.get(1));
    demand_vanished(table.get_many(&[1]));
    demand_vanished(table.put(1, 1));
    demand_vanished(table.put_many(&[(1, 1)]));
    demand_vanished(table.for_each(|_, _| ()));
    demand_vanished(table.iter().next().unwrap());
    demand_vanished(table.check());
    demand_vanished(table.stats());
    demand_vanished(table.sync());
    demand_vanished(table.backup(path.with_extension("backup"), firndex::Existing::Keep));
    demand_vanished(table.close());
    demand_vanished(store.get("a"));
    demand_vanished(store.put("a", "b"));
    demand_vanished(store.put_many(&[("a", "b")]));
    demand_vanished(store.iter().next().unwrap());
    demand_vanished(store.check());
    demand_vanished(store.compact());
    demand_vanished(store.rewrite());
    assert!(!path.with_extension("backup").exists());
    // No other pool is concerned, watched or not.
    for pool in [&other, &third] {
        pool.put("a", "b").unwrap();
        assert_eq!(pool.get("a").unwrap().as_deref(), Some(&b"b"[..]));
        assert!(pool.check().unwrap().is_sound());
    }
    third.close().unwrap();
}

/// The same, with a log.
pub(crate) fn lose_pages_with_a_log(options: &Options, path: &Path, percent_left: u64) {
    // Many checkpoints: one is being made when pages vanish.
    let options = options.clone().durability(Durability::Periodic).checkpoint_at(1);
    // No pool grows at that moment, which would hide what is missing.
    lose_pages_among(&options, path, percent_left, PAIRS);
}

#[test]
fn a_truncated_file_is_an_error_of_its_pool() {
    for engine in effort::engines() {
        for percent_left in [0, 50] {
            let directory = places::in_ram();
            let path = directory.path().join("pool");
            processes::run_with_seed("lose pages", engine, &path, percent_left);
        }
    }
}

#[test]
fn neither_log_nor_checkpoint_takes_over_what_was_read_as_zeros() {
    for engine in effort::engines() {
        // So little that what is used is missing, and not only space for growth.
        for percent_left in [0, 5] {
            let directory = places::on_disk();
            let path = directory.path().join("pool");
            processes::run_with_seed("lose pages with a log", engine, &path, percent_left);
            let options = Options::new();
            let table = options.open_table(path.with_extension("table")).unwrap();
            let store = options.open_store(path.with_extension("store")).unwrap();
            for (name, report) in [("table", table.check()), ("store", store.check())] {
                let report = report.unwrap();
                assert!(report.is_sound(), "{engine}, {name}: {:?}", report.findings);
            }
            // What was synced is there, but for what was removed or replaced later.
            for key in 0..PAIRS {
                let found = table.get(key).unwrap();
                assert!(found.is_none_or(|value| value == !key), "{engine}: {key} {found:?}");
            }
            let mut count = 0;
            store
                .for_each(|_, value| count += u64::from(value == value_of(value_key(value))))
                .unwrap();
            assert_eq!(count, store.len(), "{engine}: values that nobody wrote");
            for key in (0..PAIRS).step_by(STAYS_ONE_IN as usize) {
                assert_eq!(table.get(key).unwrap(), Some(!key), "{engine}");
                assert!(store.get(key.to_le_bytes()).unwrap().is_some(), "{engine}: {key}");
            }
        }
    }
}

fn value_key(value: &[u8]) -> u64 {
    value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

fn end_of(role: &str, path: &Path) -> Option<i32> {
    let ended = processes::process(role, Engine::ALL[0], path, 0).output().unwrap();
    assert!(ended.status.signal().is_some() || ended.status.success(), "{ended:?}");
    ended.status.signal()
}

/// The role of a process that ends with SIGBUS.
pub(crate) fn lose_pages_unwatched(options: &Options, path: &Path) {
    // Another pool that is watched does not change what becomes of this one.
    let watched = options.clone().survive_bus_errors(true);
    let _watched = watched.create_store(path.with_extension("watched")).unwrap();
    let (table, _store) = make(options, path);
    truncate(&path.with_extension("table"), 0);
    let _ = table.check();
}

/// The role of a process whose first call after the loss is a look-up.
pub(crate) fn look_up_what_vanished(options: &Options, path: &Path) {
    let options = options.clone().survive_bus_errors(true);
    let (table, store) = make(&options, path);
    truncate(&path.with_extension("table"), 0);
    demand_vanished(table.get(PAIRS / 2));
    truncate(&path.with_extension("store"), 0);
    demand_vanished(store.get((PAIRS / 2).to_le_bytes()));
}

#[test]
fn the_first_look_up_that_meets_the_loss_fails() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        processes::run_with_seed("look up what vanished", engine, &path, 0);
    }
}

/// The role of a process that is sent a SIGBUS.
pub(crate) fn be_sent_a_bus_error(options: &Options, path: &Path) {
    let options = options.clone().survive_bus_errors(true);
    let _store = options.create_store(path).unwrap();
    // The standard library's handler takes the first one for an overflow of the stack that will happen again.
    loop {
        send_bus_error();
    }
}

fn send_bus_error() {
    kill_process(Pid::from_raw(std::process::id() as i32).unwrap(), Signal::BUS).unwrap();
}

/// The role of a process that has a handler of its own.
pub(crate) fn keep_a_handler(options: &Options, path: &Path) {
    let is_called = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGBUS, Arc::clone(&is_called)).unwrap();
    let options = options.clone().survive_bus_errors(true);
    let (table, _store) = make(&options, path);
    truncate(&path.with_extension("table"), 0);
    demand_vanished(table.check());
    assert!(!is_called.load(Ordering::SeqCst), "what concerns a pool is not passed on");
    send_bus_error();
    // Another thread may take it, and later.
    while !is_called.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

#[test]
fn what_concerns_no_watched_pool_is_as_it_was() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    assert_eq!(end_of("lose pages unwatched", &path), Some(SIGBUS));
    assert_eq!(end_of("be sent a bus error", &path), Some(SIGBUS));
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    assert_eq!(end_of("keep a handler", &path), None);
}
