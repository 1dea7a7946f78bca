//! Histories in which one thing that the log does makes the difference. Each was found by leaving that out.

use crate::crash::{Choice, Crash};
use crate::disk::{Fault, Handle, SimulatedDisk, UUID};
use crate::history::{Plan, RESTLESS, Run, Step};
use crate::pool::{Moment, Pool, WORDS, Words};
use pmem::durability::disk::{Disk, DiskFile};
use pmem::durability::{Config, Image, SafeCopy, Sizes, Steps};
use pmem::line_log::LineLog;
use pmem::{Medium, Offset, WORD};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use Step::*;

const SEGMENT_BYTES: u64 = 8 << 10;

fn plan() -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes: SEGMENT_BYTES,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 16,
        seed: 1,
    }
}

/// A pool whose log is broken, and has not begun anew.
fn broken() -> Arc<Run> {
    let run = Run::begin(&plan(), None, 0);
    run.take(Checkpoint).unwrap();
    run.take(Operate).unwrap();
    run.sync().unwrap();
    run.take(Operate).unwrap();
    fail_next(&run, 0);
    run.take(Flush).unwrap_err();
    run.disk.state().fault = None;
    run
}

/// Has one call fail, after so many others.
fn fail_next(run: &Run, calls: u64) {
    let mut state = run.disk.state();
    state.fault = Some(Fault { from: state.calls + calls, calls: 1, is_full: false });
}

/// A renamed checkpoint may be there after a crash though the sync of its name failed: its log must be, too. And the
/// space of the log before holds frames with the numbers of the new one's: without a look at their generation they
/// would be taken for those.
#[test]
fn a_log_that_begins_anew_may_fail_anywhere() {
    let run = broken();
    let before = run.disk.state().calls;
    run.take(Keep).unwrap();
    let calls = run.disk.state().calls - before;
    let mut verdict = run.end().0;
    for call in 0..calls {
        let run = broken();
        fail_next(&run, call);
        // Some calls need not succeed.
        let _ = run.take(Keep);
        run.disk.state().fault = None;
        run.take(Keep).unwrap();
        run.take(Operate).unwrap();
        run.sync().unwrap();
        verdict.add(run.end().0);
    }
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

type Before = Box<dyn FnOnce() + Send>;

/// A disk on which something happens just before the header of a checkpoint is written.
struct Interrupted {
    disk: Handle,
    before: Arc<Mutex<Option<Before>>>,
}

struct InterruptedFile {
    file: Box<dyn DiskFile>,
    before: Arc<Mutex<Option<Before>>>,
}

impl Interrupted {
    fn wrap(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(InterruptedFile { file, before: Arc::clone(&self.before) })
    }
}

impl Disk for Interrupted {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }
}

impl DiskFile for InterruptedFile {
    fn write_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        self.file.write_at(pages, at)
    }

    fn write_durably_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        if at == 0 && pages.starts_with(b"FIRNSAFE") {
            let before = self.before.lock().unwrap().take();
            if let Some(before) = before {
                before();
            }
        }
        self.file.write_durably_at(pages, at)
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(pages, at)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.file.allocate(range)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.file.shorten(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

fn steps_on(disk: Arc<dyn Disk>, log: &Arc<LineLog>, image: Arc<dyn Image>) -> Arc<Steps> {
    steps_with(disk, log, image, 32 << 10)
}

fn steps_with(
    disk: Arc<dyn Disk>,
    log: &Arc<LineLog>,
    image: Arc<dyn Image>,
    segment_bytes: u64,
) -> Arc<Steps> {
    let config = Config {
        disk,
        uuid: UUID,
        interval: Duration::ZERO,
        checkpoint_bytes_min: Some(1 << 20),
        is_in_doubt: false,
        clock: SystemTime::now,
    };
    let sizes = Sizes {
        segment_min: segment_bytes,
        segment_max: segment_bytes,
        chunk: 4096,
        rest: 0,
        lines_min: 40,
    };
    Arc::new(Steps::begin(config, sizes, Arc::clone(log), image).unwrap())
}

fn is_segment(name: &str) -> bool {
    name.starts_with("log.") && name != "log.reserve"
}

fn restored(disk: &Arc<SimulatedDisk>) -> Vec<u64> {
    let disk = Crash::of(&disk.state()).disk(&Choice::new());
    let words = Words::new();
    let safe = SafeCopy::find(Arc::new(disk)).unwrap().unwrap();
    safe.restore(&words, &|_, _| ()).unwrap();
    words.get()
}

/// The checkpoint is there then, and nothing that follows it will be: its log has ended.
#[test]
fn a_log_that_fails_while_its_checkpoint_gets_its_name_stays_broken() {
    let disk = SimulatedDisk::of(4096, []);
    let interrupted =
        Arc::new(Interrupted { disk: Handle(Arc::clone(&disk)), before: Arc::default() });
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let steps = steps_on(Arc::clone(&interrupted) as _, &log, Arc::clone(&pool) as _);
    let fail = {
        let (disk, pool, steps) = (Arc::clone(&disk), Arc::clone(&pool), Arc::clone(&steps));
        move || {
            pool.operate(1);
            let from = disk.state().calls;
            disk.state().fault = Some(Fault { from, calls: 1, is_full: false });
            steps.flush().unwrap_err();
            disk.state().fault = None;
        }
    };
    *interrupted.before.lock().unwrap() = Some(Box::new(fail));
    let _ = steps.checkpoint();
    steps.admit().unwrap_err();
    let ticket = log.epoch();
    steps.wait(ticket).unwrap_err();
    steps.keep().unwrap();
    steps.admit().unwrap();
    pool.operate(2);
    let ticket = log.epoch();
    steps.flush().unwrap();
    steps.wait(ticket).unwrap();
    assert_eq!(restored(&disk), pool.fenced());
}

/// While the image of a large pool is copied, the log may fill more than one segment.
#[test]
fn a_log_gets_its_next_segment_while_a_checkpoint_is_made() {
    let disk = Arc::new(Handle(SimulatedDisk::of(4096, [])));
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[1; WORDS], Arc::clone(&log)));
    // Of two pages, one is its header: half of it is full.
    let steps = steps_with(Arc::clone(&disk) as _, &log, Arc::clone(&pool) as _, SEGMENT_BYTES);
    let segments = || disk.names().unwrap().iter().filter(|name| is_segment(name)).count();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let beside = {
        let (disk, seen) = (Arc::clone(&disk), Arc::clone(&seen));
        move |moment| {
            if matches!(moment, Moment::Copy(_)) {
                let names = disk.names().unwrap();
                let count = names.iter().filter(|name| is_segment(name)).count();
                seen.lock().unwrap().push(count);
            }
        }
    };
    *pool.beside.lock().unwrap() = Some(Box::new(beside));
    assert_eq!(segments(), 1);
    steps.checkpoint().unwrap();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|&count| count == 2), "{seen:?}");
}

/// A pool with an operation in flight that found the log not begun, so that it appends nothing. Its store is on its way
/// to memory, and there when the operation has ended.
struct Late(Words);

const LATE_WORD: Offset = Offset(5 * WORD);

impl Image for Late {
    fn bytes(&self) -> u64 {
        WORDS as u64 * WORD
    }

    fn copy(&self, at: u64, words: &mut [u64]) {
        for (index, word) in (0..).zip(words) {
            *word = self.0.load(Offset(at).word(index));
        }
    }

    fn wait_for_operations(&self) {
        self.0.store(LATE_WORD, 1);
    }

    fn name_checkpoints(&self, _current: Option<u128>, _next: Option<u128>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_checkpoint_has_what_was_in_flight_when_its_log_began() {
    let disk = SimulatedDisk::of(4096, []);
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Late(Words::new()));
    let steps = steps_on(Arc::new(Handle(Arc::clone(&disk))), &log, Arc::clone(&pool) as _);
    steps.checkpoint().unwrap();
    let words = pool.0.get();
    assert_eq!(words[(LATE_WORD.0 / WORD) as usize], 1);
    assert_eq!(restored(&disk), words);
}

/// The first epoch of the log behind a checkpoint changes what has been copied, and nothing changes it later.
#[test]
fn a_checkpoint_is_continued_by_the_epoch_that_is_open_when_it_begins() {
    let disk = SimulatedDisk::of(4096, []);
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let steps = steps_on(Arc::new(Handle(Arc::clone(&disk))), &log, Arc::clone(&pool) as _);
    let beside = {
        let (pool, steps) = (Arc::clone(&pool), Arc::clone(&steps));
        move |moment| {
            if matches!(moment, Moment::Copy(at) if at > 0) {
                pool.operate(1);
                assert!(steps.flush().unwrap());
            }
        }
    };
    *pool.beside.lock().unwrap() = Some(Box::new(beside));
    steps.checkpoint().unwrap();
    *pool.beside.lock().unwrap() = None;
    assert_eq!(restored(&disk), pool.fenced());
}

/// Before the first of its headers is written, an operation returns and its epoch is written.
#[test]
fn what_is_written_beside_a_merge_is_there_behind_it() {
    let disk = SimulatedDisk::of(4096, []);
    let interrupted =
        Arc::new(Interrupted { disk: Handle(Arc::clone(&disk)), before: Arc::default() });
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let steps = steps_on(Arc::clone(&interrupted) as _, &log, Arc::clone(&pool) as _);
    steps.checkpoint().unwrap();
    for value in 1..20 {
        pool.operate(2 * value);
        steps.flush().unwrap();
        let beside = {
            let (pool, steps) = (Arc::clone(&pool), Arc::clone(&steps));
            move || {
                pool.operate(2 * value + 1);
                assert!(steps.flush().unwrap());
            }
        };
        *interrupted.before.lock().unwrap() = Some(Box::new(beside));
        assert!(steps.merge().unwrap());
        assert!(interrupted.before.lock().unwrap().is_none());
        assert_eq!(restored(&disk), pool.fenced());
    }
}

/// What is written while a backup reads belongs to it no more.
#[test]
fn what_is_held_is_of_one_moment() {
    let disk = SimulatedDisk::of(4096, []);
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let handle = Arc::new(Handle(Arc::clone(&disk)));
    let steps = steps_on(handle, &log, Arc::clone(&pool) as _);
    steps.checkpoint().unwrap();
    pool.operate(1);
    steps.flush().unwrap();
    // Not in the log yet.
    pool.operate(2);
    let before = pool.fenced();
    let read = steps.hold(|safe| {
        for value in 3..6 {
            pool.operate(value);
            assert!(steps.flush().unwrap());
        }
        let words = Words::new();
        safe.restore(&words, &|_, _| ()).unwrap();
        words.get()
    });
    assert_eq!(read.unwrap(), before);
    assert_ne!(pool.fenced(), before);
    assert_eq!(restored(&disk), pool.fenced());
}
