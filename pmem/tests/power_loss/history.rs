//! Histories of a pool on a simulated disk. After each call of the disk, everything that a crash may leave is restored
//! and judged.

use crate::crash::{Choice, Crash, CrashedDisk, Random};
use crate::disk::{Fault, Handle, SimulatedDisk, State, UUID};
use crate::pool::{Moment, Pool, WORDS, Words, hash};
use pmem::durability::{Config, Image, LogEnd, LogError, SafeCopy, Sizes, Steps};
use pmem::line_log::LineLog;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An operation.
    Operate,
    /// One with a large record.
    OperateLargely,
    /// An epoch is written.
    Flush,
    /// A checkpoint is made as a copy of the pool, beside operations and epochs.
    Checkpoint,
    /// The log is merged into the checkpoint, if it continues one.
    Merge,
    /// The next segment is provided.
    Provide,
    /// What the keeper does.
    Keep,
    /// The pool is closed, and opened by another process, whose log goes on.
    Reopen,
    /// The process is killed, between two steps or amid one, and another one opens the pool.
    Kill,
}

use Step::*;

/// Calls of the disk that a step makes before the process is killed amid it, at most.
const CALLS_BEFORE_KILL: usize = 24;

pub(crate) const STEPS: [Step; 9] =
    [Operate, OperateLargely, Flush, Checkpoint, Merge, Provide, Keep, Reopen, Kill];

/// A history, and how it is explored.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) sector_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) fault: Option<Fault>,
    /// Bytes that the disk has room for.
    pub(crate) capacity: Option<u64>,
    /// What companions of a closed pool may take beside its image.
    pub(crate) rest: u64,
    /// Crash images looked at after each call of the disk.
    pub(crate) images_per_call: usize,
    pub(crate) seed: u64,
}

/// A closed pool keeps everything that it has.
pub(crate) const RESTLESS: u64 = 1 << 30;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) images: u64,
    pub(crate) calls: u64,
    pub(crate) violations: Vec<String>,
}

/// A disk that a crash has left, and what was restored from it.
pub(crate) struct Left {
    pub(crate) disk: CrashedDisk,
    pub(crate) words: Vec<u64>,
}

/// What a crash may lead to.
struct Judge {
    plan: Plan,
    random: Random,
    /// Each state that an epoch ended with, in order, across generations: its hash, and the epoch.
    states: Vec<(u64, u64)>,
    /// How many of them were there before this process.
    former: usize,
    /// Whether there may be no checkpoint at all.
    may_be_missing: bool,
    steps: Arc<OnceLock<Arc<Steps>>>,
    words: Arc<Words>,
    pool: Arc<Pool>,
    verdict: Verdict,
    /// One of the images of each call, for what comes after.
    left: Vec<Left>,
    keeps: usize,
}

/// Violations that are told; the others are counted.
const TOLD_MAX: usize = 5;

impl Judge {
    /// The first state that a crash may lead to.
    fn floor(&self) -> usize {
        let durable = self.steps.get().map_or(0, |steps| steps.durable_up_to());
        let at = self.states.iter().skip(self.former).position(|&(_, epoch)| epoch >= durable);
        match durable {
            0 => 0,
            _ => at.map_or(self.states.len(), |at| at + self.former),
        }
    }

    fn look(&mut self, state: &State) {
        self.verdict.calls += 1;
        let crash = Crash::of(state);
        let mut random = self.random.clone();
        let floor = self.floor();
        crash.for_each(self.plan.images_per_call, &mut random, |choice| {
            self.judge(&crash, choice, floor);
        });
        if self.keeps > 0 {
            self.keep_one(&crash, &mut random);
        }
        self.random = random;
    }

    fn restored(&self, disk: &CrashedDisk) -> Result<Option<u64>, String> {
        let disk = Arc::new(disk.clone());
        let found = SafeCopy::find(disk).map_err(|error| error.to_string())?;
        let Some(safe) = found else { return Ok(None) };
        let named = *self.pool.named.lock().unwrap();
        if named != [None; 2] && !named.contains(&Some(safe.generation())) {
            return Err("the pool does not name the checkpoint".into());
        }
        self.words.clear();
        safe.restore(&*self.words, &|_, _| ()).map_err(|error| error.to_string())?;
        Ok(Some(self.words.hash()))
    }

    fn judge(&mut self, crash: &Crash<'_>, choice: &Choice, floor: usize) {
        self.verdict.images += 1;
        let disk = crash.disk(choice);
        let found = self.restored(&disk);
        let is_right = match &found {
            Ok(Some(hash)) => self.states[floor..].iter().any(|(allowed, _)| allowed == hash),
            Ok(None) => self.may_be_missing && floor == 0,
            Err(_) => false,
        };
        if !is_right {
            let known = found.as_ref().ok().copied().flatten();
            let at = known.and_then(|hash| self.states.iter().position(|state| state.0 == hash));
            let of = self.states.len();
            self.violation(format!(
                "{found:?}, state {at:?} of {of}, allowed from {floor} on; {}",
                crash.describe(choice)
            ));
        } else if self.verdict.images.is_multiple_of(64) && self.restored(&disk) != found {
            self.violation("restored again, it is something else".into());
        }
    }

    fn violation(&mut self, found: String) {
        let told = format!("{:?}: {found}", self.plan);
        if self.verdict.violations.len() < TOLD_MAX {
            self.verdict.violations.push(told);
        }
    }

    /// Keeps an image, as a reservoir does: each call's with the same probability.
    fn keep_one(&mut self, crash: &Crash<'_>, random: &mut Random) {
        let mut choice = Choice::new();
        crash.draw(random, &mut choice);
        let disk = crash.disk(&choice);
        if self.restored(&disk).is_ok_and(|found| found.is_some()) {
            let left = Left { disk, words: self.words.get() };
            let place = random.below(self.verdict.calls as usize);
            if self.left.len() < self.keeps {
                self.left.push(left);
            } else if place < self.keeps {
                self.left[place] = left;
            }
        }
    }
}

/// A pool that is open on a simulated disk.
pub(crate) struct Run {
    pub(crate) disk: Arc<SimulatedDisk>,
    pool: Arc<Pool>,
    log: Arc<LineLog>,
    steps: Arc<OnceLock<Arc<Steps>>>,
    judge: Arc<Mutex<Judge>>,
    value: AtomicU64,
}

impl Run {
    /// Opens the pool that is `former`, or a new one, and begins its log.
    pub(crate) fn begin(plan: &Plan, former: Option<&Left>, keeps: usize) -> Arc<Run> {
        let files = former.map(|left| left.disk.files.clone()).unwrap_or_default();
        let files = files.into_iter().map(|(name, bytes)| (name, bytes.to_vec()));
        let disk = SimulatedDisk::of(plan.sector_bytes, files);
        let log = Arc::new(LineLog::new(0).unwrap());
        let words = former.map_or_else(|| vec![0; WORDS], |left| left.words.clone());
        let pool = Arc::new(Pool::of(&words, Arc::clone(&log)));
        // It was restored from that.
        let safe = former.and_then(|left| SafeCopy::find(Arc::new(left.disk.clone())).unwrap());
        *pool.named.lock().unwrap() = [safe.map(|safe| safe.generation()), None];
        disk.state().fault = plan.fault;
        let states = vec![(hash(words.iter().copied()), 0)];
        Self::of(plan, disk, log, pool, states, former.is_none(), keeps)
    }

    /// The same pool, opened by another process after this one was killed.
    pub(crate) fn next_process(&self) -> Arc<Run> {
        self.disk.observe(None);
        let disk = SimulatedDisk::like(&self.disk.state());
        let log = Arc::new(LineLog::new(0).unwrap());
        let mut judge = self.judge.lock().unwrap();
        self.pool.end();
        let words = self.pool.fenced();
        let pool = Arc::new(Pool::of(&words, Arc::clone(&log)));
        *pool.named.lock().unwrap() = *self.pool.named.lock().unwrap();
        let floor = judge.floor();
        let mut states = judge.states.split_off(floor);
        states.push((hash(words.iter().copied()), 0));
        let may_be_missing = judge.may_be_missing && floor == 0;
        let run = Self::of(&judge.plan, disk, log, pool, states, may_be_missing, judge.keeps);
        {
            let mut next = run.judge.lock().unwrap();
            next.verdict = std::mem::take(&mut judge.verdict);
            next.left = std::mem::take(&mut judge.left);
            next.random = judge.random.clone();
        }
        run
    }

    fn of(
        plan: &Plan,
        disk: Arc<SimulatedDisk>,
        log: Arc<LineLog>,
        pool: Arc<Pool>,
        states: Vec<(u64, u64)>,
        may_be_missing: bool,
        keeps: usize,
    ) -> Arc<Run> {
        let steps = Arc::new(OnceLock::new());
        // Values of generations differ.
        let value = AtomicU64::new(pool.fenced().into_iter().max().unwrap() + 1);
        let judge = Arc::new(Mutex::new(Judge {
            plan: plan.clone(),
            random: Random(plan.seed),
            former: states.len(),
            states,
            may_be_missing,
            steps: Arc::clone(&steps),
            words: Arc::new(Words::new()),
            pool: Arc::clone(&pool),
            verdict: Verdict::default(),
            left: Vec::new(),
            keeps,
        }));
        let observer = Arc::clone(&judge);
        disk.observe(Some(Box::new(move |state| observer.lock().unwrap().look(state))));
        disk.state().capacity = plan.capacity;
        Arc::new(Run { disk, pool, log, steps, judge, value })
    }

    /// Ends the log, as who closes the pool does.
    pub(crate) fn close(self: &Arc<Run>) -> Option<LogEnd> {
        self.pool.end();
        if let Some(steps) = self.steps.get() {
            self.note_state();
            let steps = Arc::clone(steps);
            self.beside_quietly(|| steps.prepare_end());
        }
        // What it may hold, and then an empty epoch.
        self.note_state();
        let epoch = self.log.epoch() + 1;
        self.judge.lock().unwrap().states.push((hash(self.pool.fenced().into_iter()), epoch));
        let end = self.steps().ok().and_then(|steps| steps.end());
        self.disk.show();
        end
    }

    /// The same pool, closed, and opened by another process. Its log goes on where it was ended. If it was not ended,
    /// or cannot go on, another one begins when it is needed.
    pub(crate) fn reopened(self: &Arc<Run>) -> Arc<Run> {
        let end = self.close();
        let next = self.next_process();
        let resumed = end.is_some_and(|end| next.resume(end).is_ok_and(|resumed| resumed));
        let is_faultless = {
            let plan = &self.judge.lock().unwrap().plan;
            plan.fault.is_none() && plan.capacity.is_none()
        };
        if end.is_some() && !resumed && is_faultless {
            next.judge.lock().unwrap().violation("its log did not go on".into());
        }
        next
    }

    /// Goes on with the log that ends at `end`; whether it could.
    pub(crate) fn resume(&self, end: LogEnd) -> Result<bool, LogError> {
        let (config, sizes) = self.config();
        let (log, image) = (Arc::clone(&self.log), Arc::clone(&self.pool) as _);
        let Some(steps) = Steps::resume(config, sizes, log, image, end)? else { return Ok(false) };
        // The epoch that is sealed at once.
        let state = (hash(self.pool.fenced().into_iter()), self.log.epoch() - 1);
        self.judge.lock().unwrap().states.push(state);
        let _ = self.steps.set(Arc::new(steps));
        self.disk.show();
        Ok(true)
    }

    /// The same on a disk that somebody else has filled, whose checkpoint the pool names.
    pub(crate) fn resume_on_its_own(&self, end: LogEnd) -> Result<bool, LogError> {
        let disk = Crash::of_killed(&self.disk.state());
        let found = SafeCopy::find(Arc::new(disk)).ok().flatten();
        *self.pool.named.lock().unwrap() = [found.map(|safe| safe.generation()), None];
        self.resume(end)
    }

    fn config(&self) -> (Config, Sizes) {
        let (size, rest) = {
            let plan = &self.judge.lock().unwrap().plan;
            (plan.segment_bytes, plan.rest)
        };
        let sizes =
            Sizes { segment_min: size, segment_max: size, chunk: 4096, rest, lines_min: 40 };
        let config = Config {
            disk: Arc::new(Handle(Arc::clone(&self.disk))),
            uuid: UUID,
            interval: Duration::ZERO,
            checkpoint_bytes_min: Some(3 << 12),
            is_in_doubt: self.is_in_doubt(),
            clock: SystemTime::now,
        };
        (config, sizes)
    }

    /// Begins the log, if that has not been done.
    pub(crate) fn steps(&self) -> Result<&Arc<Steps>, LogError> {
        if self.steps.get().is_none() {
            let (config, sizes) = self.config();
            let (log, image): (_, Arc<dyn Image>) =
                (Arc::clone(&self.log), Arc::clone(&self.pool) as _);
            let rejoined =
                Steps::rejoin(config.clone(), sizes, Arc::clone(&log), Arc::clone(&image))?;
            let steps = rejoined.map_or_else(|| Steps::begin(config, sizes, log, image), Ok)?;
            let _ = self.steps.set(Arc::new(steps));
        }
        Ok(self.steps.get().unwrap())
    }

    /// Whether there is a checkpoint that the pool does not name.
    fn is_in_doubt(&self) -> bool {
        let named = *self.pool.named.lock().unwrap();
        let disk = Crash::of_killed(&self.disk.state());
        let found = SafeCopy::find(Arc::new(disk)).ok().flatten();
        found.is_some_and(|safe| !named.contains(&Some(safe.generation())))
    }

    fn next(&self) -> u64 {
        self.value.fetch_add(1, Ordering::Relaxed)
    }

    /// Says what the epoch that is open will end with, if it ends now.
    fn note_state(&self) {
        let state = (hash(self.pool.fenced().into_iter()), self.log.epoch());
        self.judge.lock().unwrap().states.push(state);
    }

    pub(crate) fn flush(&self) -> Result<(), LogError> {
        self.note_state();
        self.steps()?.flush().map(drop)
    }

    /// Writes what was done so far, and waits until it survives.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        let ticket = self.log.epoch();
        self.flush()?;
        self.steps()?.wait(ticket)?;
        self.disk.show();
        Ok(())
    }

    /// Beside the copy: an operation is under way at each chunk, others end, an epoch is written.
    fn checkpoint(
        self: &Arc<Run>,
        make: impl FnOnce(&Steps) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let steps = Arc::clone(self.steps()?);
        let run = Arc::clone(self);
        *self.pool.beside.lock().unwrap() = Some(Box::new(move |moment| match moment {
            Moment::Copy(at) => {
                if at > 0 {
                    // A failure is found by the checkpoint, too.
                    let _ = run.flush();
                    let _ = run.steps().and_then(|steps| steps.provide_spare());
                }
                run.pool.begin(run.next());
            }
            Moment::Wait => run.note_state(),
        }));
        let made = make(&steps);
        *self.pool.beside.lock().unwrap() = None;
        self.pool.end();
        made
    }

    /// Merges the log; whether it could be.
    pub(crate) fn merge(&self) -> Result<bool, LogError> {
        self.steps()?.merge()
    }

    /// Kills the process between two steps, or amid one more.
    fn kill(self: &Arc<Run>) {
        let (calls, step) = {
            let mut judge = self.judge.lock().unwrap();
            let amid = [Flush, Checkpoint, Merge, Keep];
            (judge.random.below(CALLS_BEFORE_KILL), amid[judge.random.below(amid.len())])
        };
        let killed_from = self.disk.state().calls + calls as u64;
        self.disk.state().killed_from = Some(killed_from);
        if calls > 0 {
            let _ = self.take(step);
        }
    }

    /// What a cut made now stands for.
    pub(crate) fn fenced(&self) -> Vec<u64> {
        self.pool.fenced()
    }

    /// A checkpoint during which nothing happens.
    pub(crate) fn checkpoint_quietly(self: &Arc<Run>) -> Result<(), LogError> {
        let steps = Arc::clone(self.steps()?);
        let made = self.beside_quietly(|| steps.checkpoint());
        self.disk.show();
        made
    }

    /// Has a log that was not ended catch up with the pool, or has another one begin, while nothing happens.
    pub(crate) fn catch_up_quietly(self: &Arc<Run>) -> Result<(), LogError> {
        let steps = Arc::clone(self.steps()?);
        let made = self.beside_quietly(|| steps.keep());
        self.disk.show();
        made
    }

    /// Something during which nothing else happens.
    fn beside_quietly<R>(self: &Arc<Run>, make: impl FnOnce() -> R) -> R {
        let run = Arc::clone(self);
        *self.pool.beside.lock().unwrap() = Some(Box::new(move |moment| {
            if moment == Moment::Wait {
                run.note_state();
            }
        }));
        let made = make();
        *self.pool.beside.lock().unwrap() = None;
        made
    }

    /// Takes a step; mutations only if they are admitted.
    pub(crate) fn take(self: &Arc<Run>, step: Step) -> Result<(), LogError> {
        let steps = self.steps()?;
        let result = match step {
            Operate => steps.admit().map(|()| self.pool.operate(self.next())),
            OperateLargely => steps.admit().map(|()| self.pool.operate_largely(self.next())),
            Flush => self.flush(),
            Checkpoint => self.checkpoint(Steps::checkpoint),
            Merge => self.merge().map(drop),
            Provide => steps.provide_spare(),
            Keep => self.checkpoint(Steps::keep),
            Reopen | Kill => unreachable!("another run goes on"),
        };
        // What is promised by now may be more than at the last call.
        self.disk.show();
        result
    }

    /// The verdict, and the images that were kept.
    pub(crate) fn end(&self) -> (Verdict, Vec<Left>) {
        self.disk.observe(None);
        let mut judge = self.judge.lock().unwrap();
        (std::mem::take(&mut judge.verdict), std::mem::take(&mut judge.left))
    }
}

impl Verdict {
    pub(crate) fn add(&mut self, other: Verdict) {
        self.images += other.images;
        self.calls += other.calls;
        self.violations.extend(other.violations);
        self.violations.truncate(TOLD_MAX);
    }
}

/// Explores a history. `keeps` of the disks that crashes leave are returned.
pub(crate) fn explore(plan: &Plan, former: Option<&Left>, keeps: usize) -> (Verdict, Vec<Left>) {
    let mut run = Run::begin(plan, former, keeps);
    for &step in &plan.steps {
        match step {
            Reopen => {
                run = run.reopened();
                continue;
            }
            Kill => {
                run.kill();
                run = run.next_process();
                continue;
            }
            _ => {}
        }
        // With a fault, a step may fail; without one, none does.
        if let Err(error) = run.take(step)
            && plan.fault.is_none()
        {
            run.judge.lock().unwrap().violation(format!("{step:?} failed: {error}"));
        }
    }
    run.end()
}

/// Explores a history, and then histories of what crashes in it have left, `depth` times.
pub(crate) fn explore_deeply(
    plan: &Plan,
    former: Option<&Left>,
    depth: usize,
    keeps: usize,
) -> Verdict {
    let (mut verdict, left) = explore(plan, former, if depth > 0 { keeps } else { 0 });
    let mut random = Random(plan.seed ^ 1);
    for left in left {
        // A short history: what was there before is written over, and then more.
        let steps = (0..5).map(|_| STEPS[random.below(STEPS.len())]);
        let next =
            Plan { steps: steps.collect(), fault: None, seed: random.next(), ..plan.clone() };
        verdict.add(explore_deeply(&next, Some(&left), depth - 1, keeps));
    }
    verdict
}

/// A history drawn at random, with a fault in every other one.
pub(crate) fn draw(random: &mut Random) -> Plan {
    let mut steps = vec![Operate, Checkpoint];
    steps.extend((0..3 + random.below(8)).map(|_| STEPS[random.below(STEPS.len())]));
    let fault = (random.below(2) == 0).then(|| Fault {
        from: random.below(100) as u64,
        calls: [1, 1, 2, 5, 20, u64::MAX][random.below(6)],
        is_full: random.below(2) == 0,
    });
    Plan {
        steps,
        sector_bytes: [512, 4096][random.below(2)],
        segment_bytes: [8 << 10, 16 << 10, 32 << 10][random.below(3)],
        fault,
        rest: [0, 24 << 10, RESTLESS][random.below(3)],
        images_per_call: 512,
        seed: random.next(),
        capacity: None,
    }
}
