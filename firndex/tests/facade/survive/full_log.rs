//! No room for log or checkpoint, on real files. Changes are refused before they begin, with what to do; what was
//! promised stays, with the pool file and without it; look-ups go on; and changes resume once there is room.
//!
//! The limit is the process's on the size of files. It needs no rights, so it is tried everywhere.

use crate::places::{companions, contents, copy_companions, on_disk, segments};
use crate::processes;
use crate::space::full::{assert_ended_well, assert_well};
use crate::superblocks::PREFERRED;
use firndex::{Durability, Engine, Error, LogError, Options, Table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const KEYS: u64 = 1000;
/// Nothing but headers can be written within it: no frame, not even in the reserve, and no checkpoint.
const PAGE_BYTES: u64 = 4096;
/// The smallest segment of a log.
const SEGMENT_BYTES: u64 = 256 << 10;

/// Ways to run out of room, by the number that is passed to the role.
const COMMITS: u64 = 1;
const GOES_ON: u64 = 2;

/// No file of this process grows beyond so many bytes, or each as far as it may.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

/// A process that meets the limit as an error: the signal that comes with it would end it.
fn process(before: &str, role: &str, engine: Engine, path: &Path, seed: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; {before} exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap()).args(processes::ARGUMENTS);
    processes::environment(&mut command, role, engine, path, seed);
    command
}

fn value_of(key: u64, round: u64) -> u64 {
    round << 32 | key
}

/// The error of a log, which names one of the pool's files in its directory and says what to do.
fn is_refused<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>, path: &Path) -> LogError {
    let result = result.map_err(Into::into);
    let Err(Error::Log(error)) = result else { panic!("{result:?}") };
    let message = error.to_string();
    assert!(message.contains(&format!("{}.", path.display())), "{message}");
    error
}

fn names_the_limit(error: &LogError) {
    assert!(error.to_string().contains("`ulimit -f`"), "{error}");
}

/// Where the process writes how many rounds were promised.
fn promise(path: &Path) -> PathBuf {
    path.with_file_name("promised")
}

fn durability_of(way: u64) -> Durability {
    if way & COMMITS != 0 { Durability::Commit } else { Durability::Periodic }
}

/// Updates all keys round by round, from `round` on, until that is refused; the round, the key, and why.
fn update_until_refused(table: &Table, mut round: u64) -> (u64, u64, Error) {
    loop {
        for key in 0..KEYS {
            if let Err(error) = table.update(key, value_of(key, round)) {
                return (round, key, error);
            }
        }
        if let Err(error) = table.sync() {
            return (round, KEYS, error);
        }
        round += 1;
    }
}

/// A role: its log has no room amid a segment, and neither has a new one.
pub(crate) fn run_out_of_log(options: &Options, path: &Path, way: u64) {
    let options = options.clone().durability(durability_of(way)).helpers(0);
    let table = options.create_table(path).unwrap();
    for key in 0..KEYS {
        table.put(key, value_of(key, 0)).unwrap();
    }
    table.sync().unwrap();
    limit_files(Some(PAGE_BYTES));
    let (round, key, error) = update_until_refused(&table, 1);
    let error = is_refused::<()>(Err(error), path);
    names_the_limit(&error);
    // Now everything is refused, and nothing of it begins.
    let before: Vec<_> = (0..KEYS).map(|key| table.get(key).unwrap().unwrap()).collect();
    for key in 0..KEYS {
        is_refused(table.put(key, 1), path);
        is_refused(table.remove(key), path);
        is_refused(table.insert(KEYS + key, 1), path);
    }
    assert_eq!(table.put_many(&[(1, 1), (KEYS, 1)]).unwrap_err().done(), 0);
    is_refused(table.put_many(&[(1, 1), (KEYS, 1)]), path);
    is_refused(table.remove_many(&[1, 2]), path);
    let synced = table.sync();
    // Where only the next segment is lacking, what there is of this one serves on.
    if matches!(error, LogError::Io { .. }) {
        is_refused(synced, path);
    }
    assert!(table.log().unwrap().unwrap().failure.is_some());
    // Look-ups go on.
    for (at, found) in (0..).zip(before) {
        assert_eq!(table.get(at).unwrap(), Some(found));
        let may_be_next = at < key || at == key && way & COMMITS != 0;
        let is_next = found == value_of(at, round);
        assert!(is_next && may_be_next || found == value_of(at, round - 1) && at >= key);
    }
    assert_eq!((table.len(), table.get(KEYS).unwrap()), (KEYS, None));
    assert!(table.check().unwrap().is_sound());
    let mut promised = round - 1;
    if way & GOES_ON != 0 {
        limit_files(None);
        while table.update(0, value_of(0, round)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        promised = round + 1;
        for key in 0..KEYS {
            table.update(key, value_of(key, promised)).unwrap();
        }
        table.sync().unwrap();
        assert_eq!(table.log().unwrap().unwrap().failure, None);
    }
    std::fs::write(promise(path), promised.to_string()).unwrap();
    // As if it were killed.
    std::process::exit(0);
}

/// Whether all is there that was promised, in the pool and in what is restored without it.
fn keeps_its_promise(path: &Path, is_next: bool) {
    let restored = on_disk();
    copy_companions(path, restored.path());
    let promised: u64 = std::fs::read_to_string(promise(path)).unwrap().parse().unwrap();
    for path in [path, &restored.path().join("pool")] {
        let table = Options::new().open_table(path).unwrap();
        assert_eq!(table.len(), KEYS);
        for key in 0..KEYS {
            let found = table.get(key).unwrap().unwrap();
            let is_promised = found == value_of(key, promised);
            assert!(is_promised || is_next && found == value_of(key, promised + 1), "{found:x}");
        }
        assert!(table.check().unwrap().is_sound());
        table.put(KEYS, 1).unwrap();
        table.sync().unwrap();
    }
}

fn run_out(way: u64) {
    std::thread::scope(|scope| {
        for &engine in Engine::ALL {
            scope.spawn(move || {
                let directory = on_disk();
                let path = directory.path().join("pool");
                assert_well(process("", "run out of log", engine, &path, way), engine);
                keeps_its_promise(&path, way & GOES_ON == 0);
            });
        }
    });
}

#[test]
fn what_was_synced_outlasts_a_log_without_room() {
    run_out(0);
}

#[test]
fn what_was_committed_outlasts_a_log_without_room() {
    run_out(COMMITS);
}

#[test]
fn changes_go_on_when_the_log_has_room_again() {
    run_out(GOES_ON);
    run_out(COMMITS | GOES_ON);
}

/// A role: its log goes on, and no checkpoint has room.
pub(crate) fn lack_checkpoints(options: &Options, path: &Path) {
    let options = options.clone().durability(Durability::Commit).checkpoint_at(SEGMENT_BYTES);
    let table = options.helpers(0).capacity(10_000).create_table(path).unwrap();
    for key in 0..KEYS {
        table.put(key, value_of(key, 0)).unwrap();
    }
    limit_files(Some(SEGMENT_BYTES));
    let log = || table.log().unwrap().unwrap();
    let (checkpoints, mut round) = (log().checkpoints, 0);
    while log().log_bytes < 16 * SEGMENT_BYTES {
        round += 1;
        let pairs: Vec<_> = (0..KEYS).map(|key| (key, value_of(key, round))).collect();
        table.put_many(&pairs).unwrap();
    }
    // One may have had its space before the limit was there.
    assert!(log().checkpoints <= checkpoints + 1);
    std::fs::write(promise(path), round.to_string()).unwrap();
    std::process::exit(0);
}

#[test]
fn a_log_goes_on_when_checkpoints_have_no_room() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    assert_well(process("", "lack checkpoints", PREFERRED, &path, 0), PREFERRED);
    keeps_its_promise(&path, false);
}

/// A role: there is no room for the log of a pool that is there.
pub(crate) fn find_no_room(options: &Options, path: &Path) {
    for _ in 0..2 {
        names_the_limit(&is_refused(options.open_table(path).map(drop), path));
    }
}

/// A role: there is room for a new pool, and not for its log.
pub(crate) fn find_no_room_for_a_new_one(options: &Options, path: &Path) {
    names_the_limit(&is_refused(options.create_table(path).map(drop), path));
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
}

/// A role: there is no room for what would be restored.
pub(crate) fn find_no_room_to_restore(options: &Options, path: &Path) {
    let error = options.open_table(path).unwrap_err();
    assert!(matches!(error, Error::PoolFull(_)), "{error:?}");
    assert!(error.to_string().contains("`ulimit -f`"), "{error}");
    assert!(!path.exists());
}

/// Names and lengths of all files.
fn lengths(directory: &Path) -> Vec<(PathBuf, usize)> {
    contents(directory).into_iter().map(|(path, bytes)| (path, bytes.len())).collect()
}

#[test]
fn a_pool_is_as_it_was_when_opening_finds_no_room_for_its_log() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let table = Options::new().capacity(1).create_table(&path).unwrap();
    // In a few frames: half a segment more, and there would be a spare one, which would do.
    table.put_many(&(0..KEYS).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    table.close().unwrap();
    // With it there would be room, and with a segment that is at hand for later.
    std::fs::remove_file(companions(&path).join("log.reserve")).unwrap();
    for (number, path) in segments(&path) {
        let header = std::fs::read(&path).unwrap();
        if header[48..56] != number.to_le_bytes() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let before = lengths(directory.path());
    assert_well(process("ulimit -f 400;", "find no room", PREFERRED, &path, 0), PREFERRED);
    assert_eq!(lengths(directory.path()), before);
    let table = <Table>::open(&path).unwrap();
    assert!((0..KEYS).all(|key| table.get(key).unwrap() == Some(key)));
    drop(table);
    std::fs::remove_file(&path).unwrap();
    let before = lengths(directory.path());
    let limited = process("ulimit -f 80;", "find no room to restore", PREFERRED, &path, 0);
    assert_well(limited, PREFERRED);
    assert_eq!(lengths(directory.path()), before);
    let table = <Table>::open(&path).unwrap();
    assert!((0..KEYS).all(|key| table.get(key).unwrap() == Some(key)));
}

#[test]
fn a_new_pool_that_finds_no_room_for_its_log_leaves_nothing_behind() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let limited = process("ulimit -f 500;", "find no room for a new one", PREFERRED, &path, 0);
    assert_well(limited, PREFERRED);
}

/// A directory in the place of a file that is to be made: nobody can, whatever rights they have.
fn in_the_way(path: &Path) {
    std::fs::create_dir_all(path.join("full")).unwrap();
}

#[test]
fn a_segment_whose_name_is_taken_refuses_changes_until_it_is_free() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let options = Options::new().durability(Durability::Commit).helpers(0);
    let table = options.create_table(&path).unwrap();
    (0..KEYS).for_each(|key| assert_eq!(table.put(key, value_of(key, 0)).unwrap(), None));
    let numbers: Vec<PathBuf> =
        (1..40).map(|number| companions(&path).join(format!("log.{number}"))).collect();
    let taken: Vec<_> = numbers.into_iter().filter(|path| !path.exists()).collect();
    // Some may have been made meanwhile.
    taken.iter().skip(1).filter(|path| !path.exists()).for_each(|path| {
        let _ = std::fs::create_dir_all(path.join("full"));
    });
    let updated = |round| {
        let pairs: Vec<_> = (0..KEYS).map(|key| (key, value_of(key, round))).collect();
        table.put_many(&pairs).map(drop)
    };
    let mut round = 0;
    let refused = loop {
        round += 1;
        if let Err(error) = updated(round) {
            break error;
        }
    };
    // It was refused before it began, or all of it was done and only its log was not written.
    assert!([0, KEYS as usize].contains(&refused.done()), "{refused}");
    let is_of_round = |key| table.get(key).unwrap() == Some(value_of(key, round));
    assert!((0..KEYS).all(|key| refused.is_done(key as usize) == is_of_round(key)), "{refused}");
    let error = is_refused::<()>(Err(refused), &path);
    assert!(error.to_string().contains("pool.safe/log."), "{error}");
    is_refused(table.put(KEYS, 1), &path);
    assert_eq!((table.len(), table.get(KEYS).unwrap()), (KEYS, None));
    let restored = on_disk();
    std::fs::create_dir(companions(&restored.path().join("pool"))).unwrap();
    for entry in std::fs::read_dir(companions(&path)).unwrap().map(|entry| entry.unwrap()) {
        if entry.path().is_file() {
            let to = companions(&restored.path().join("pool")).join(entry.file_name());
            match std::fs::copy(entry.path(), to) {
                // A segment that nobody needs any more.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{copied:?}"),
            }
        }
    }
    let copy = Options::new().open_table(restored.path().join("pool")).unwrap();
    for key in 0..KEYS {
        let found = copy.get(key).unwrap().unwrap();
        assert!(found == value_of(key, round - 1) || found == value_of(key, round), "{found:x}");
    }
    taken.iter().skip(1).for_each(|path| drop(std::fs::remove_dir_all(path)));
    while updated(round).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    table.close().unwrap();
}

/// Exit status of a process that could not make the log fail where it was to fail.
const LACKS_SPARE: i32 = 3;
/// How often such a process is started anew.
const ATTEMPTS: u32 = 20;

/// A role: its log cannot be written to its end. The pool is closed all the same, which its file allows.
pub(crate) fn close_without_log(options: &Options, path: &Path, way: u64) {
    let table =
        options.clone().durability(durability_of(way)).helpers(0).create_table(path).unwrap();
    for key in 0..KEYS {
        table.put(key, value_of(key, 0)).unwrap();
    }
    // The next segment is there, lest making it fail first.
    let has_spare = || {
        let is_whole = |(_, path): &(u64, PathBuf)| {
            std::fs::metadata(path).is_ok_and(|found| found.len() >= SEGMENT_BYTES)
        };
        segments(path).iter().filter(|segment| is_whole(segment)).count() >= 2
    };
    // Behind the limit there is nothing that can be written.
    while !has_spare() || table.log().unwrap().unwrap().log_bytes < SEGMENT_BYTES / 3 {
        table.update(0, value_of(0, 0)).unwrap();
        table.sync().unwrap();
    }
    limit_files(Some(PAGE_BYTES));
    let (round, key, error) = update_until_refused(&table, 1);
    let error = is_refused::<()>(Err(error), path);
    if matches!(error, LogError::Full { .. }) {
        // The log went on to the next segment meanwhile, and the one behind it was not there yet.
        std::process::exit(LACKS_SPARE);
    }
    assert!(matches!(error, LogError::Io { .. }), "{error:?}");
    std::fs::write(promise(path), format!("{round} {key}")).unwrap();
    if way & GOES_ON == 0 {
        is_refused(table.close(), path);
    } else {
        drop(table);
    }
    std::process::exit(0);
}

/// What was closed counts, though its log is behind it. Power may fail as soon as it has been opened: so nobody
/// may write before it has a checkpoint.
#[test]
fn a_pool_whose_log_failed_when_it_was_closed_never_goes_back_to_that_log() {
    for way in [0, COMMITS, GOES_ON, COMMITS | GOES_ON] {
        let (directory, ended) = (0..ATTEMPTS)
            .map(|_| {
                let directory = on_disk();
                let path = directory.path().join("pool");
                let mut command = process("", "close without log", PREFERRED, &path, way);
                (directory, command.output().unwrap())
            })
            .find(|(_, ended)| ended.status.code() != Some(LACKS_SPARE))
            .expect("the next segment of the log is always missing");
        assert_ended_well(&ended, PREFERRED);
        let path = directory.path().join("pool");
        let closed = firndex::inspect(&path).unwrap();
        assert!(closed.clean);
        let said = std::fs::read_to_string(promise(&path)).unwrap();
        let (round, key) = said.split_once(' ').unwrap();
        let (round, key): (u64, u64) = (round.parse().unwrap(), key.parse().unwrap());
        let is_there = |table: &Table| {
            assert_eq!(table.len(), KEYS);
            (0..KEYS).all(|at| {
                let found = table.get(at).unwrap();
                let is_next = found == Some(value_of(at, round));
                let is_last = found == Some(value_of(at, round - 1));
                if at == key {
                    is_next || is_last
                } else {
                    is_next == (at < key) && (is_next || is_last)
                }
            })
        };
        // No checkpoint can be made: so it is not opened.
        let [taken, aside] = ["checkpoint.1", "aside"].map(|name| companions(&path).join(name));
        std::fs::rename(&taken, &aside).unwrap();
        in_the_way(&taken);
        is_refused(<Table>::open(&path).map(drop), &path);
        std::fs::remove_dir_all(&taken).unwrap();
        std::fs::rename(&aside, &taken).unwrap();
        let table = <Table>::open(&path).unwrap();
        assert_eq!(table.stats().unwrap().durability, durability_of(way));
        let restored = on_disk();
        copy_companions(&path, restored.path());
        assert!(is_there(&table));
        assert!(is_there(&<Table>::open(restored.path().join("pool")).unwrap()));
    }
}
