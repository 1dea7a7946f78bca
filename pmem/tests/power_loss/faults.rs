//! Faults of the disk: told, harmless to what was durable, and over when they are over.

use crate::disk::{Fault, Handle, SimulatedDisk, UUID};
use crate::history::{Plan, RESTLESS, Run, Step, Verdict};
use crate::pool::{Pool, WORDS};
use pmem::durability::{Config, Durable, LogError, Sizes, Steps};
use pmem::line_log::LineLog;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use Step::*;

const HISTORY: [Step; 12] = [
    Keep,
    Operate,
    Flush,
    Provide,
    OperateLargely,
    Flush,
    Checkpoint,
    Provide,
    Operate,
    Flush,
    Keep,
    Operate,
];

fn plan(fault: Option<Fault>) -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes: 8 << 10,
        fault,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 4,
        seed: 1,
    }
}

/// Takes all steps under a fault. Then it is over, and the pool goes on by itself: the keeper's next look is enough.
fn explore(fault: Fault) -> Verdict {
    let run = Run::begin(&plan(Some(fault)), None, 0);
    let is_told = |error: &LogError| match error {
        LogError::Full { path, .. } => fault.is_full && path.starts_with("/disk"),
        LogError::Io { path, .. } => path.starts_with("/disk"),
        _ => false,
    };
    for step in HISTORY {
        let taken = run.take(step);
        assert!(taken.as_ref().err().is_none_or(is_told), "{fault:?}: {step:?}: {taken:?}");
    }
    run.disk.state().fault = None;
    run.take(Keep).unwrap_or_else(|error| panic!("{fault:?}: {error}"));
    for step in [Operate, Flush, OperateLargely, Flush, Operate] {
        run.take(step).unwrap_or_else(|error| panic!("{fault:?}: {step:?}: {error}"));
    }
    run.sync().unwrap();
    run.end().0
}

#[test]
fn every_call_may_fail() {
    let run = Run::begin(&plan(None), None, 0);
    HISTORY.into_iter().for_each(|step| run.take(step).unwrap());
    let calls = run.disk.state().calls;
    let mut verdict = run.end().0;
    for from in 0..calls {
        for (calls, is_full) in
            [(1, false), (1, true), (7, true), (u64::MAX, false), (u64::MAX, true)]
        {
            verdict.add(explore(Fault { from, calls, is_full }));
        }
    }
    println!("{calls} calls may fail; {} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// Whether it becomes so. What takes ten minutes hangs; how long it takes is not judged otherwise.
pub(crate) fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(600) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A pool with its threads. The first checkpoint is made beside operations.
pub(crate) fn started(disk: &Arc<SimulatedDisk>) -> (Pool, Durable) {
    let log = Arc::new(LineLog::new(0).unwrap());
    let image = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let durable = Durable::start(config(disk), Arc::clone(&log), image, false).unwrap();
    (Pool::of(&[0; WORDS], log), durable)
}

/// Calls that it takes to begin a log on such a disk.
fn calls_of_beginning(disk: &SimulatedDisk) -> u64 {
    let disk = SimulatedDisk::like(&disk.state());
    let log = Arc::new(LineLog::new(0).unwrap());
    let image = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    Steps::begin(config(&disk), Sizes::default(), log, image).unwrap();
    disk.state().calls
}

fn config(disk: &Arc<SimulatedDisk>) -> Config {
    Config {
        disk: Arc::new(Handle(Arc::clone(disk))),
        uuid: UUID,
        interval: Duration::from_millis(1),
        checkpoint_bytes_min: Some(1 << 20),
        is_in_doubt: false,
        clock: SystemTime::now,
    }
}

pub(crate) fn fail_from_now_on(disk: &SimulatedDisk, is_full: bool) {
    let mut state = disk.state();
    state.fault = Some(Fault { from: state.calls, calls: u64::MAX, is_full });
}

/// Nobody waits forever for a checkpoint that cannot be made; changes are refused, and taken again later.
#[test]
fn a_full_disk_is_told_to_who_waits() {
    let disk = SimulatedDisk::of(4096, []);
    let (_pool, durable) = started(&disk);
    assert!(soon(|| durable.wait(durable.ticket()).is_ok()));
    drop(durable);
    // The next one begins its log, and then there is no room for its checkpoint.
    for extra in 0..4 {
        let beginning = calls_of_beginning(&disk);
        {
            let mut state = disk.state();
            let from = state.calls + beginning + extra;
            state.fault = Some(Fault { from, calls: u64::MAX, is_full: true });
        }
        let (_pool, durable) = started(&disk);
        assert!(soon(|| durable.admit().is_err()), "changes are refused");
        let refused = durable.wait(durable.ticket()).unwrap_err();
        assert!(refused.to_string().contains("/disk/"), "{refused}");
        disk.state().fault = None;
        assert!(soon(|| durable.admit().is_ok()), "changes go on");
        assert!(soon(|| durable.wait(durable.ticket()).is_ok()));
    }
}

/// A log that cannot be written refuses changes, tells who waits, and is begun anew when it can.
#[test]
fn a_broken_log_begins_anew_by_itself() {
    for is_full in [false, true] {
        let disk = SimulatedDisk::of(4096, []);
        let (pool, durable) = started(&disk);
        pool.operate(1);
        assert!(soon(|| durable.wait(durable.ticket()).is_ok()));
        let before = durable.ticket() - 1;
        fail_from_now_on(&disk, is_full);
        pool.operate(2);
        let ticket = durable.ticket();
        assert!(soon(|| durable.wait(durable.ticket()).is_err()));
        assert!(soon(|| durable.admit().is_err()));
        assert!(durable.usage().failure.is_some());
        if durable.durable_up_to() >= before {
            durable.wait(before).expect("what is durable stays so");
        }
        // Beyond its ring nobody waits for a log that is broken.
        (0..20).for_each(|_| pool.operate_largely(3));
        disk.state().fault = None;
        assert!(soon(|| durable.admit().is_ok()));
        durable.wait(ticket).unwrap();
        durable.wait(durable.ticket()).unwrap();
        assert_eq!(durable.usage().failure, None);
        let segments = disk.state().names.iter().filter(|(_, inode)| inode.is_there()).count();
        assert!(segments < 8, "{segments} files are left");
    }
}
