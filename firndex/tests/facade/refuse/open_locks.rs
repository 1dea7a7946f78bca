//! One writer, or readers: between processes, within one, and in races for one path.

use crate::superblocks::{PREFERRED, assert_intact, assert_refused, make_store, make_table};
use crate::{places, processes};
use firndex::{Error, OpenError, Options, Store, Table};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELD: u8 = 0xf0;

/// A role: opens the table, says so, and holds it until its input ends.
pub(crate) fn hold(path: &Path) {
    // Nothing is to change any more once it has said so: no helper goes on by itself.
    let table = Options::new().helpers(0).open_table(path).unwrap();
    table.put(u64::MAX, 1).unwrap();
    processes::unbuffered_output().write_all(&[HELD]).unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// A role: the pool must be in use elsewhere.
pub(crate) fn be_refused(path: &Path) {
    let error = <Table>::open(path).unwrap_err();
    assert!(matches!(error, Error::Open(OpenError::Busy { .. })), "{error}");
}

#[test]
fn a_pool_that_another_process_holds_is_busy() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table(&path);
    let mut command = processes::process("hold", PREFERRED, &path, 0);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    while byte != [HELD] {
        holder.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }
    let says = ["in use by another process", "close it there first"];
    let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
    for error in [
        assert_refused(&path, |path| <Table>::open(path), &says),
        assert_refused(&path, read_only, &says),
    ] {
        assert!(matches!(error, Error::Open(OpenError::Busy { .. })), "{error:?}");
    }
    assert!(!firndex::inspect(&path).unwrap().clean);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let table = <Table>::open(&path).unwrap();
    assert_eq!(table.remove(u64::MAX).unwrap(), Some(1));
    assert_intact(&table);
    processes::run("be refused", PREFERRED, &path);
}

#[test]
fn one_process_opens_a_pool_once_for_writing_or_often_for_reading() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table(&path);
    let link = directory.path().join("link");
    std::fs::hard_link(&path, &link).unwrap();
    let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
    let says = ["open in this process already", "share that handle"];
    let refused = |error: Error| {
        assert!(matches!(error, Error::Open(OpenError::AlreadyOpen { .. })), "{error:?}");
    };
    let writer = <Table>::open(&path).unwrap();
    refused(assert_refused(&path, |path| <Table>::open(path), &says));
    refused(assert_refused(&link, |path| <Table>::open(path), &says));
    refused(assert_refused(&path, read_only, &says));
    assert_intact(&writer);
    drop(writer);
    let readers = (read_only(&path).unwrap(), read_only(&link).unwrap());
    refused(assert_refused(&path, |path| <Table>::open(path), &says));
    drop(readers.0);
    refused(assert_refused(&path, |path| <Table>::open(path), &says));
    assert_intact(&readers.1);
    drop(readers.1);
    assert_intact(&<Table>::open(&path).unwrap());
}

#[test]
fn a_refused_opening_leaves_no_claim_behind() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_store(&path);
    for _ in 0..3 {
        <Table>::open(&path).unwrap_err();
        Options::new().read_only(true).open_table(&path).unwrap_err();
        Options::new().medium(firndex::Medium::Dax).open_store(&path).unwrap_err();
    }
    Store::open(&path).unwrap();
}

/// Whoever comes second to create finds a pool in use, or a pool: never "exists already", since
/// either would have done.
#[test]
fn threads_that_open_or_create_one_path_at_once() {
    const THREADS: usize = 4;
    let directory = places::in_ram();
    for round in 0..60 {
        let path = directory.path().join(round.to_string());
        let barrier = Barrier::new(THREADS);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                let opened = Store::open_or_create(&path);
                barrier.wait();
                opened.map(|store| store.len())
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let opened = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(opened, 1, "round {round}: {outcomes:?}");
        for error in outcomes.into_iter().filter_map(Result::err) {
            let is_expected = matches!(
                error,
                Error::Open(OpenError::AlreadyOpen { .. } | OpenError::Busy { .. })
            );
            assert!(is_expected, "round {round}: {error:?}");
        }
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, round + 1, "losers left files behind");
    }
}

/// Opens again and again while other threads start processes, and looks for a refusal that only
/// a lock left behind explains.
fn open_beside_spawns(open: impl Fn() -> Option<Error>) {
    let done = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
        }
        let is_busy = |error: &Error| {
            matches!(error, Error::Open(OpenError::Busy { .. } | OpenError::AlreadyOpen { .. }))
        };
        let busy = (0..400).filter_map(|_| open()).find(is_busy);
        done.store(true, Ordering::Relaxed);
        busy
    });
    assert!(busy.is_none(), "{busy:?}");
}

/// A child that has been forked and has not yet executed its program holds every file of this
/// process: a lock that ends with the last of them would outlive the handle.
#[test]
fn a_closed_pool_opens_again_while_this_process_starts_others() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    open_beside_spawns(|| <Table>::open(&path).err());
}

#[test]
fn a_refused_pool_is_not_left_locked_while_this_process_starts_others() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    std::fs::write(&path, [1; 8192]).unwrap();
    open_beside_spawns(|| <Table>::open(&path).err());
}

#[test]
fn opening_waits_for_a_busy_pool_as_long_as_it_may() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table(&path);
    let mut command = processes::process("hold", PREFERRED, &path, 0);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    while byte != [HELD] {
        holder.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }
    let options = |time| Options::new().wait(time).reset_if_refused(true);
    let refused = options(Duration::from_millis(50)).open_table(&path).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::Busy { .. })), "{refused:?}");
    std::thread::scope(|scope| {
        // All wait for as long as it takes: one by one, since each closes what it has opened.
        let patient = options(Duration::MAX).read_only(true);
        let waits = [(); 2].map(|()| {
            let (path, patient) = (&path, patient.clone());
            scope.spawn(move || patient.open_table(path).map(|table| table.len()))
        });
        // Its input ends, and so it closes the pool and ends.
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        for wait in waits {
            assert!(wait.join().unwrap().unwrap() > 0);
        }
    });
    // A pool that this process has is not waited for: nobody else may close it.
    let table = options(Duration::MAX).open_table(&path).unwrap();
    let refused = options(Duration::MAX).open_table(&path).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::AlreadyOpen { .. })), "{refused:?}");
    assert!(table.was_reset().is_none());
}
