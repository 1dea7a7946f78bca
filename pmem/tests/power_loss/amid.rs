//! Operations that return in the middle of the disk's calls. Whatever is said to survive by then, by its epoch or by
//! its time, is on the disk.

use crate::crash::{Choice, Crash};
use crate::disk::{Fault, Handle, SimulatedDisk, State, UUID};
use crate::histories;
use crate::pool::{OPERATIONS_KEPT, Pool, WORDS, Words};
use pmem::durability::{Config, SafeCopy, Sizes, Steps};
use pmem::line_log::LineLog;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Small enough for a history to fill some.
const SEGMENT_BYTES: u64 = 16 << 10;

/// A clock that goes on when it is looked at: no two looks see the same time.
fn clock() -> SystemTime {
    static MS: AtomicU64 = AtomicU64::new(1);
    UNIX_EPOCH + Duration::from_millis(MS.fetch_add(1, Ordering::Relaxed))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Flush,
    Wait,
    Checkpoint,
    Merge,
    Provide,
    Keep,
    /// A backup reads.
    Hold,
    /// A frame cannot be written.
    Fail,
}

const STEPS: [Step; 8] = [
    Step::Flush,
    Step::Wait,
    Step::Checkpoint,
    Step::Merge,
    Step::Provide,
    Step::Keep,
    Step::Hold,
    Step::Fail,
];

/// An operation that has returned.
struct Returned {
    value: u64,
    /// The epoch that it belongs to, or to an earlier one.
    ticket: u64,
    at: SystemTime,
}

struct Run {
    history: Vec<Step>,
    log: Arc<LineLog>,
    pool: Arc<Pool>,
    steps: OnceLock<Steps>,
    returned: Mutex<Vec<Returned>>,
    looks: AtomicU64,
}

/// The pool after the operations with the values from 1 to `last`.
fn after(last: u64) -> Vec<u64> {
    let pool = Pool::of(&[0; WORDS], Arc::new(LineLog::new(0).unwrap()));
    (last.saturating_sub(OPERATIONS_KEPT - 1).max(1)..=last).for_each(|value| pool.operate(value));
    pool.fenced()
}

/// The last operation that there is in an image, which has all before it, too.
fn last_in(safe: &SafeCopy) -> u64 {
    let words = Words::new();
    safe.restore(&words, &|_, _| ()).unwrap();
    let words = words.get();
    let last = words.iter().copied().max().unwrap_or(0);
    assert_eq!(words, after(last), "no moment was like this");
    last
}

/// The same of what is durable.
fn durable(state: &State) -> u64 {
    let disk = Crash::of(state).disk(&Choice::new());
    let safe = SafeCopy::find(Arc::new(disk)).unwrap();
    safe.map_or(0, |safe| last_in(&safe))
}

impl Run {
    fn operate(&self) {
        let mut returned = self.returned.lock().unwrap();
        let value = returned.len() as u64 + 1;
        self.pool.operate(value);
        returned.push(Returned { value, ticket: self.log.epoch(), at: clock() });
    }

    fn last(&self) -> u64 {
        self.returned.lock().unwrap().len() as u64
    }

    /// Compares what is said to survive with what is durable.
    fn look(&self, state: &State) {
        let Some(steps) = self.steps.get() else { return };
        let (up_to, until) = (steps.durable_up_to(), steps.usage().durable_until);
        let durable = durable(state);
        for Returned { value, ticket, at } in &*self.returned.lock().unwrap() {
            let history = &self.history;
            let is_there = *value <= durable;
            assert!(
                is_there || *ticket > up_to,
                "{history:?}: operation {value}, of epoch {ticket}, is said to survive, as all up to {up_to}"
            );
            assert!(
                is_there || until.is_none_or(|until| *at >= until),
                "{history:?}: operation {value}, of {at:?}, is said to survive, as all before {until:?}"
            );
        }
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self, disk: &SimulatedDisk, step: Step) {
        self.operate();
        let last = self.last();
        let steps = self.steps.get().unwrap();
        match step {
            Step::Flush => drop(steps.flush()),
            Step::Wait => {
                // Without a checkpoint it would wait for one.
                if steps.durable_up_to() > 0 && steps.wait(self.log.epoch()).is_ok() {
                    let durable = durable(&disk.state());
                    assert!(durable >= last, "{:?}: {durable} of {last}", self.history);
                }
            }
            Step::Checkpoint => drop(steps.checkpoint()),
            Step::Merge => drop(steps.merge()),
            Step::Provide => drop(steps.provide_spare()),
            Step::Keep => drop(steps.keep()),
            Step::Hold => {
                let held = steps.hold(|safe| last_in(&safe));
                assert!(held.is_err() || held.unwrap() >= last, "{:?}", self.history);
            }
            Step::Fail => {
                let from = disk.state().calls;
                disk.state().fault = Some(Fault { from, calls: 1, is_full: false });
                let _ = steps.flush();
                disk.state().fault = None;
            }
        }
    }
}

/// Takes the steps; during each call of the disk an operation returns. How many looks there were.
fn run(history: Vec<Step>) -> u64 {
    let disk = SimulatedDisk::of(4096, []);
    let log = Arc::new(LineLog::new(0).unwrap());
    let pool = Arc::new(Pool::of(&[0; WORDS], Arc::clone(&log)));
    let run = Arc::new(Run {
        history,
        log: Arc::clone(&log),
        pool: Arc::clone(&pool),
        steps: OnceLock::new(),
        returned: Mutex::default(),
        looks: AtomicU64::new(0),
    });
    let config = Config {
        disk: Arc::new(Handle(Arc::clone(&disk))),
        uuid: UUID,
        interval: Duration::ZERO,
        checkpoint_bytes_min: Some(3 << 12),
        is_in_doubt: false,
        clock,
    };
    let sizes = Sizes {
        segment_min: SEGMENT_BYTES,
        segment_max: SEGMENT_BYTES,
        chunk: 4096,
        rest: 0,
        lines_min: 40,
    };
    let steps = Steps::begin(config, sizes, log, pool).unwrap();
    assert!(run.steps.set(steps).is_ok());
    let observer = Arc::clone(&run);
    disk.observe(Some(Box::new(move |state| {
        observer.look(state);
        observer.operate();
    })));
    for &step in &run.history {
        run.take(&disk, step);
        run.look(&disk.state());
    }
    disk.observe(None);
    run.looks.load(Ordering::Relaxed)
}

#[test]
fn what_returns_while_the_disk_is_asked_survives_when_it_is_said_to() {
    let mut looks = 0;
    for steps in histories(&STEPS, 3) {
        looks += run([&[Step::Checkpoint], &steps[..]].concat());
    }
    // Before there is a checkpoint nothing survives.
    for steps in histories(&STEPS, 2) {
        looks += run(steps);
    }
    println!("{looks} looks");
    assert!(looks > 10_000, "{looks}");
}
