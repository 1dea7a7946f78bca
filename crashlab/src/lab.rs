//! Crashing, recovering, judging.

use crate::ends::{end_resize, read_clean};
use crate::execution::{self, CrashPoint, Execution, Manner};
use crate::history::{Action, Call, Key, Op, PROBE, Program, Value};
use crate::images::{Image, Images, missing};
use crate::judge;
use crate::logbook::Closed;
use crate::machine::{self, Schedule};
use crate::owed::{Contents, Owed};
pub use crate::report::Counters;
use crate::report::Failure;
use crate::subject::{Failed, Refusal, Setup, Subject};
use pmem::Offset;
use pmem::medium::sim::{Durable, OnFence, Sim};
use pmem::superblock::SUPERBLOCK_BYTES;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use workload::{Random, mix};

/// How thoroughly to look.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Images tried at a crash point. If there are more, a sample of about this size.
    pub images: u64,
    /// Images tried of one crashing recovery, and of each operation after a recovery. A recovery that follows a crashed
    /// recovery is crashed at a quarter as many images.
    pub images_nested: u64,
    /// Of this many recoveries, one is crashed where it writes only the superblock, and one has the operations after it
    /// crashed.
    pub nested_one_in: u64,
    /// How many recoveries in a row may crash. With 0, recovered tables are inspected, not used.
    pub depth: u32,
    /// Whether processes die, too, with the machine failing later.
    pub kills: bool,
    /// ... in one of so many random histories.
    pub kills_one_in: u64,
}

/// A broken promise, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trouble {
    what: String,
    trail: Vec<String>,
}

/// The outcome of recovering an image, including crashes in the recovery.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Outcome {
    contents: Vec<Contents>,
    trouble: Option<Trouble>,
    depth: u32,
}

/// Outcomes that are remembered; when there are more, all are forgotten.
const MEMO_MAX: usize = 1 << 21;
/// The boot in which histories run, and in which a kill is recovered.
const FIRST_BOOT: u64 = 0;
/// About how many accesses a recovery makes. It decides where its threads switch, if it has several.
const ACCESSES_OF_PARTS: u64 = 160;
thread_local! {
    static COLLECTED: RefCell<Vec<Durable>> = const { RefCell::new(Vec::new()) };
}

fn collect(sim: &Sim) {
    COLLECTED.with_borrow_mut(|collected| collected.push(sim.durable()));
}

/// Skips moments at which only the superblock has pending stores.
fn collect_beyond_superblock(sim: &Sim) {
    if sim.is_pending_from(Offset(SUPERBLOCK_BYTES)) {
        collect(sim);
    }
}

/// Everything that is tried in one setup.
pub struct Lab<S> {
    pub(crate) setup: Arc<Setup>,
    bounds: Bounds,
    initial: Vec<Option<Value>>,
    memo: HashMap<u64, Rc<Outcome>>,
    /// Hashes of judged moments, deaths and images, each with its obligations. The first unsound one ends the run.
    tried: HashSet<u64>,
    /// Counts the work done.
    pub counters: Counters,
    /// Decides which images are sampled. In recoveries the sample depends only on the image, so the outcome of an image
    /// can be remembered.
    seed: u64,
    processes: u32,
    /// Contents met so far, each once.
    met: HashSet<Rc<[Option<Value>]>>,
    /// Good outcomes met so far, each once: few, for very many images.
    outcomes: HashSet<Rc<Outcome>>,
    /// Resizes of the last run, its setup's included, and how many there may be in one.
    pub(crate) resizes_seen: u64,
    pub(crate) resizes_max: u64,
    subject: std::marker::PhantomData<S>,
}

impl<S: Subject> Lab<S> {
    /// A lab for this setup.
    pub fn new(setup: Setup, bounds: Bounds, seed: u64) -> Result<Lab<S>, Failure> {
        let setup = Arc::new(setup);
        let process = 1;
        let subject = execution::prepare::<S>(&setup, process)
            .map_err(|what| Failure::new::<S>(&setup, what))?;
        let initial = machine::alone(process, None, || subject.contents(&setup))
            .map_err(|what| Failure::new::<S>(&setup, what))?;
        Ok(Lab {
            setup,
            bounds,
            initial,
            memo: HashMap::new(),
            tried: HashSet::new(),
            counters: Counters::default(),
            seed,
            processes: process,
            met: HashSet::new(),
            outcomes: HashSet::new(),
            resizes_seen: 0,
            resizes_max: u64::MAX,
            subject: std::marker::PhantomData,
        })
    }

    /// Decides which images of the next histories are sampled.
    pub fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The setup.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn next_process(&mut self) -> u32 {
        self.processes = self.processes.wrapping_add(1).max(1);
        self.processes
    }

    /// Crashes everywhere in the creation of the pool.
    pub fn creation(&mut self) -> Result<(), Failure> {
        self.counters.histories += 1;
        let process = self.next_process();
        COLLECTED.take();
        let setup = Arc::clone(&self.setup);
        let created = machine::alone(process, Some(collect), || {
            let subject = S::create(setup.medium(&[]), &setup);
            subject.inspect(|subject| collect(subject.medium()))
        });
        created.map_err(|refusal| Failure::new::<S>(&setup, format!("{refusal:?}")))?;
        let collected = COLLECTED.take();
        let last = collected.len() - 1;
        for (index, durable) in collected.into_iter().enumerate() {
            let owed = Owed {
                may_be_missing: index < last || setup.is_mapped,
                ..Owed::exactly(&vec![None; self.setup.keys.len()])
            };
            let point = CrashPoint { at: index as u32, durable };
            self.judge(&point, &owed, false).map_err(|trouble| {
                Failure::new::<S>(&self.setup, format!("creating the pool: {}", trouble.what))
                    .with_trail(trouble.trail)
            })?;
        }
        Ok(())
    }

    /// Runs a program under a schedule, and crashes it wherever it may crash from the operation of
    /// number `from_op` on. Returns the accesses of each thread.
    pub fn explore(
        &mut self,
        program: &Program,
        schedule: &Schedule,
        from_op: usize,
    ) -> Result<Vec<u64>, Failure> {
        let manner = Manner { schedule, from_op, slices_before: 0, is_traced: false };
        Ok(self.explore_part(program, manner)?.accesses)
    }

    pub(crate) fn explore_part(
        &mut self,
        program: &Program,
        manner: Manner<'_>,
    ) -> Result<Execution<S>, Failure> {
        self.counters.histories += 1;
        let process = self.next_process();
        let has_kills = self.bounds.kills && self.seed.is_multiple_of(self.bounds.kills_one_in);
        let fail = |setup: &Setup, what: String| {
            Failure::new::<S>(setup, what).with_program(program, manner.schedule)
        };
        let execution = execution::run::<S>(&self.setup, program, process, manner)
            .map_err(|what| fail(&self.setup, what))?;
        if let Some(what) = &execution.wrong {
            return Err(fail(&self.setup, what.clone()).with_calls(&execution.calls));
        }
        for points in execution.points.chunk_by(|one, other| one.at == other.at) {
            let at = points[0].at;
            let mut owed = self.owed(&execution.calls, at);
            owed.may_be_missing = self.setup.is_mapped && !execution.is_synced(at);
            for point in points {
                self.judge(point, &owed, has_kills).map_err(|trouble| {
                    let calls: Vec<Call> = known_at(&execution.calls, point.at);
                    fail(&self.setup, trouble.what).with_calls(&calls).with_trail(trouble.trail)
                })?;
            }
        }
        for closed in &execution.closed {
            self.judge_closed(&execution.calls, closed).map_err(|trouble| {
                let calls: Vec<Call> = known_at(&execution.calls, closed.to);
                fail(&self.setup, trouble.what).with_calls(&calls).with_trail(trouble.trail)
            })?;
        }
        self.resizes_seen = self
            .judge_end(&execution)
            .map_err(|what| fail(&self.setup, what).with_calls(&execution.calls))?;
        Ok(execution)
    }

    fn owed(&self, calls: &[Call], at: u32) -> Owed {
        let states = (0..).zip(&self.initial);
        let states = states.map(|(key, &initial)| judge::allowed(calls, key, initial, at));
        Owed { states: states.collect(), may_be_missing: false }
    }

    /// Judges the end of a run that did not crash.
    fn judge_end(&self, execution: &Execution<S>) -> Result<u64, String> {
        let subject = &execution.subject;
        let (contents, checked) = machine::alone(execution.process, None, || {
            (subject.contents(&self.setup), subject.check())
        });
        let owed = self.owed(&execution.calls, execution.end);
        let contents = contents?;
        if let Some(violation) = owed.violation(&Some(contents.clone().into())) {
            return Err(format!("without a crash, {violation}"));
        }
        checked.map_err(|what| format!("without a crash, check finds: {what}"))?;
        let resizes = machine::alone(execution.process, None, || subject.resizes());
        if resizes > self.resizes_max {
            return Err(format!("{resizes} resizes, {} are enough", self.resizes_max));
        }
        if self.setup.is_tight {
            return Ok(resizes);
        }
        // One history ends its resize by writing on, the next one at once.
        let is_by_writes = execution.end.is_multiple_of(4);
        machine::alone(execution.process, None, || {
            end_resize(&**subject, &self.setup, &contents, is_by_writes)
        })
        .map_err(|what| format!("without a crash, {what}"))?;
        Ok(resizes)
    }

    /// Tries the images of a crash point, and with `has_kills` the death of the process, against the obligations.
    /// Images that were tried with the same obligations are skipped.
    fn judge(&mut self, point: &CrashPoint, owed: &Owed, has_kills: bool) -> Result<(), Trouble> {
        let obligation = owed.hash();
        let moment = point.durable.hash();
        let mut trouble = None;
        if self.is_new(moment ^ obligation) {
            let mut random = Random::new(self.seed ^ mix(point.at.into()) ^ point.durable.sum);
            let images = Images::new(&point.durable, &mut random);
            images.visit(self.bounds.images, &mut random, &mut |hash, image| {
                if self.is_new(hash ^ obligation) {
                    trouble =
                        self.judge_image(hash, image, owed, &point.durable, self.bounds.depth);
                }
                trouble.is_none()
            });
        }
        // The same moment, once more.
        let death = mix(moment);
        if has_kills && trouble.is_none() && self.is_new(death ^ obligation) {
            trouble = self.judge_kill(death, &point.durable, owed);
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Tries what a line log leaves. A crash at one moment while the epoch was being closed must explain it.
    fn judge_closed(&mut self, calls: &[Call], closed: &Closed) -> Result<(), Trouble> {
        let owed: Vec<Owed> = (closed.from..=closed.to).map(|at| self.owed(calls, at)).collect();
        let obligation = owed.iter().fold(closed.image.hash, |hash, owed| mix(hash ^ owed.hash()));
        if !self.is_new(obligation) {
            return Ok(());
        }
        self.counters.images += 1;
        let build = || closed.image.clone();
        let outcome = self.outcome(closed.image.hash, &build, self.bounds.depth);
        let violation =
            |owed: &Owed| outcome.contents.iter().find_map(|contents| owed.violation(contents));
        let violations: Option<Vec<String>> = owed.iter().map(violation).collect();
        let violation = || {
            let what = violations?.pop()?;
            Some(Trouble { what, trail: Vec::new() })
        };
        let Some(mut trouble) = outcome.trouble.clone().or_else(violation) else { return Ok(()) };
        let moment = format!("power fails; what is left is {}", closed.what);
        trouble.trail.insert(0, moment);
        Err(trouble)
    }

    /// Whether this is tried for the first time.
    fn is_new(&mut self, hash: u64) -> bool {
        if self.tried.len() >= MEMO_MAX {
            self.tried.clear();
        }
        self.tried.insert(hash)
    }

    fn judge_image(
        &mut self,
        hash: u64,
        build: &dyn Fn() -> Image,
        owed: &Owed,
        durable: &Durable,
        depth: u32,
    ) -> Option<Trouble> {
        self.counters.images += 1;
        let outcome = self.outcome(hash, build, depth);
        let found = outcome.trouble.clone().or_else(|| {
            let what = outcome.contents.iter().find_map(|contents| owed.violation(contents))?;
            Some(Trouble { what, trail: Vec::new() })
        });
        found.map(|mut trouble| {
            let mut step = vec!["power fails:".to_string()];
            step.extend(missing(durable, &build()));
            trouble.trail.splice(0..0, step);
            trouble
        })
    }

    fn judge_kill(&mut self, key: u64, durable: &Durable, owed: &Owed) -> Option<Trouble> {
        self.counters.images += 1;
        let outcome = match self.memo.get(&key) {
            Some(outcome) => Rc::clone(outcome),
            None => {
                let killed = self.setup.killed(durable);
                let outcome = self.recover(killed, true, 1, key);
                self.remember(key, outcome)
            }
        };
        let found = outcome.trouble.clone().or_else(|| {
            let what = outcome.contents.iter().find_map(|contents| owed.violation(contents))?;
            Some(Trouble { what, trail: Vec::new() })
        });
        found.map(|mut trouble| {
            trouble.trail.insert(0, "the process is killed; caches keep what they have".into());
            trouble
        })
    }

    fn outcome(&mut self, hash: u64, build: &dyn Fn() -> Image, depth: u32) -> Rc<Outcome> {
        if let Some(known) = self.memo.get(&hash)
            && known.depth >= depth
        {
            return Rc::clone(known);
        }
        let image = build();
        let medium = self.setup.medium(&image.words);
        let mut outcome = self.recover(medium, false, depth, hash);
        if self.setup.syncs && outcome.trouble.is_none() {
            let process = self.next_process();
            outcome.trouble =
                caught(|| read_clean::<S>(&self.setup, process, &image, &outcome.contents))
                    .unwrap_or_else(|panic| Err(format!("panic: {panic}")))
                    .err()
                    .map(|what| Trouble {
                        what: format!("read as it is: {what}"),
                        trail: Vec::new(),
                    });
        }
        outcome.depth = depth;
        self.remember(hash, outcome)
    }

    fn remember(&mut self, hash: u64, outcome: Outcome) -> Rc<Outcome> {
        let outcome = match self.outcomes.get(&outcome) {
            Some(known) => Rc::clone(known),
            None => {
                let new = Rc::new(outcome);
                self.outcomes.insert(Rc::clone(&new));
                new
            }
        };
        if self.memo.len() >= MEMO_MAX {
            self.memo.clear();
        }
        self.memo.insert(hash, Rc::clone(&outcome));
        outcome
    }

    /// Recovers what is on `medium`, crashing the recovery up to `depth` times in a row. At the
    /// full depth (and after a kill), what comes of it is also used, and that crashed.
    fn recover(&mut self, medium: Sim, is_kill: bool, depth: u32, hash: u64) -> Outcome {
        self.counters.recoveries += 1;
        let process = self.next_process();
        let setup = Arc::clone(&self.setup);
        let is_used = is_kill || (depth > 0 && depth == self.bounds.depth);
        let is_chosen = is_kill || mix(hash).is_multiple_of(self.bounds.nested_one_in);
        let on_fence: Option<OnFence> = match (depth, is_chosen) {
            (0, _) => None,
            (_, true) => Some(collect),
            (_, false) => Some(collect_beyond_superblock),
        };
        COLLECTED.take();
        // The same number for the same depth, so that images can be met again. A killed process
        // leaves the boot that it ran in.
        let boot = if is_kill {
            FIRST_BOOT
        } else {
            FIRST_BOOT + 1 + u64::from(self.bounds.depth - depth)
        };
        let parts = match setup.recovery_threads {
            0 | 1 => Schedule::default(),
            threads => machine::random_schedule(threads, ACCESSES_OF_PARTS, &mut Random::new(hash)),
        };
        let open = || machine::in_parts(parts, || S::open(medium, &setup, boot));
        let opened = caught(|| machine::alone(process, on_fence, open));
        let collected = COLLECTED.take();
        let mut outcome = Outcome::default();
        let trouble = |what: String| Some(Trouble { what, trail: vec!["recovered".into()] });
        let subject = match opened {
            Err(panic) => {
                outcome.trouble = trouble(format!("recovery panics: {panic}"));
                return outcome;
            }
            Ok(Err(Refusal::Wrong(what))) => {
                outcome.trouble = trouble(format!("recovery fails: {what}"));
                return outcome;
            }
            Ok(Err(Refusal::Dirty)) if !setup.is_mapped => {
                outcome.trouble = trouble("it is refused as not closed".into());
                return outcome;
            }
            Ok(Err(Refusal::NoPool | Refusal::Dirty)) => {
                outcome.contents.push(None);
                None
            }
            Ok(Ok(subject)) => Some(subject),
        };
        let mut contents = Vec::new();
        if let Some(subject) = &subject {
            let looked = caught(|| {
                machine::alone(process, None, || {
                    subject.check()?;
                    subject.contents(&setup)
                })
            });
            match looked.unwrap_or_else(|panic| Err(format!("panic: {panic}"))) {
                Ok(found) => contents = found,
                Err(what) => {
                    outcome.trouble = trouble(format!("after recovery: {what}"));
                    return outcome;
                }
            }
            outcome.contents.push(Some(self.shared(&contents)));
        }
        let most = if is_kill {
            // What the killed process left may be lost in part as well.
            self.bounds.images
        } else if depth == self.bounds.depth {
            self.bounds.images_nested
        } else {
            self.bounds.images_nested / 4
        };
        self.crash_in_recovery(collected, most, depth, &mut outcome);
        if let Some(subject) = subject
            && is_used
            && outcome.trouble.is_none()
        {
            outcome.trouble = self.use_and_crash(&subject, process, contents, is_chosen || is_kill);
        }
        outcome
    }

    fn shared(&mut self, contents: &[Option<Value>]) -> Rc<[Option<Value>]> {
        if let Some(known) = self.met.get(contents) {
            return Rc::clone(known);
        }
        let new: Rc<[Option<Value>]> = contents.into();
        self.met.insert(Rc::clone(&new));
        new
    }

    fn crash_in_recovery(
        &mut self,
        collected: Vec<Durable>,
        most: u64,
        depth: u32,
        outcome: &mut Outcome,
    ) {
        let mut random = Random::new(collected.iter().fold(most, |sum, point| sum ^ point.sum));
        let mut points = collected;
        // At least four images of a point, of as many points as that leaves.
        while points.len() as u64 > most.div_ceil(4) {
            points.swap_remove(random.index(points.len()));
        }
        let most_each = most / points.len().max(1) as u64;
        for durable in points {
            self.crash_at(&durable, most_each, depth - 1, outcome);
        }
    }

    fn crash_at(&mut self, durable: &Durable, most: u64, depth: u32, outcome: &mut Outcome) {
        let mut random = Random::new(durable.sum);
        let images = Images::new(durable, &mut random);
        images.visit(most, &mut random, &mut |hash, build| {
            if outcome.trouble.is_some() {
                return false;
            }
            self.counters.images += 1;
            let nested = self.outcome(hash, build, depth);
            if let Some(trouble) = &nested.trouble {
                let mut trail = vec!["power fails in recovery:".to_string()];
                trail.extend(missing(durable, &build()));
                trail.extend(trouble.trail.iter().cloned());
                outcome.trouble = Some(Trouble { what: trouble.what.clone(), trail });
            }
            for contents in &nested.contents {
                if contents.is_none() && self.setup.is_mapped {
                    // Whoever opens a pool there changes it; nothing is owed until the next sync.
                    continue;
                }
                if !outcome.contents.contains(contents) {
                    outcome.contents.push(contents.clone());
                }
            }
            true
        });
    }

    /// Changes every key of a recovered table, crashing that, too.
    fn use_and_crash(
        &mut self,
        subject: &S,
        process: u32,
        contents: Vec<Option<Value>>,
        is_crashed: bool,
    ) -> Option<Trouble> {
        let setup = Arc::clone(&self.setup);
        let mut contents = contents;
        for key in 0..setup.free_keys as Key {
            let index = usize::from(key);
            let action = match contents[index] {
                Some(_) => Action::Remove,
                None => Action::Insert(PROBE),
            };
            let op = Op::One(key, action);
            let trouble =
                |what: String| Some(Trouble { what, trail: vec![format!("recovered; then {op}")] });
            COLLECTED.take();
            let called = caught(|| {
                let on_fence = is_crashed.then_some(collect as OnFence);
                // As another thread than the one that recovered, whose fences complete no flush of
                // the recovery.
                machine::alone_as(1, process, on_fence, || subject.call(&setup, key, action))
            });
            let during = COLLECTED.take();
            let before = contents.clone();
            match called {
                Ok(Ok(found)) if found == contents[index] => {
                    contents[index] = action.apply(found);
                }
                Ok(Ok(found)) => return trouble(format!("it finds {found:?}")),
                Ok(Err(Failed::Full)) if setup.may_be_full(action) => {}
                Ok(Err(Failed::Full)) => return trouble("no room, where there should be".into()),
                Ok(Err(Failed::Wrong(what))) => return trouble(what),
                Err(panic) => return trouble(format!("panic: {panic}")),
            }
            if !is_crashed {
                continue;
            }
            let may_be_missing = setup.is_mapped;
            let mut either = Owed { may_be_missing, ..Owed::exactly(&before) };
            either.states[index].insert(contents[index]);
            let after = Owed { may_be_missing, ..Owed::exactly(&contents) };
            let steps = during.iter().map(|durable| (durable.clone(), &either));
            for (durable, owed) in steps.chain([(subject.medium().durable(), &after)]) {
                let mut random = Random::new(durable.sum);
                let images = Images::new(&durable, &mut random);
                let mut found = None;
                images.visit(self.bounds.images_nested, &mut random, &mut |hash, build| {
                    found = self.judge_image(hash, build, owed, &durable, 0);
                    found.is_none()
                });
                if let Some(mut found) = found {
                    found.trail.insert(0, format!("recovered; then {op}"));
                    return Some(found);
                }
            }
        }
        let looked = caught(|| {
            machine::alone(process, None, || {
                subject.check()?;
                if !setup.is_tight {
                    end_resize(subject, &setup, &contents, is_crashed)?;
                }
                subject.contents(&setup)
            })
        });
        let what = match looked.unwrap_or_else(|panic| Err(format!("panic: {panic}"))) {
            Ok(found) if found == contents => return None,
            Ok(found) => format!("used after recovery, it holds {found:?}, expected {contents:?}"),
            Err(what) => format!("used after recovery: {what}"),
        };
        Some(Trouble { what, trail: vec!["recovered and used".into()] })
    }
}

/// The calls that had begun before a moment, as they stood then.
fn known_at(calls: &[Call], at: u32) -> Vec<Call> {
    let begun = calls.iter().filter(|call| call.began < at);
    begun
        .map(|call| Call { ended: call.ended.filter(|&(ended, _)| ended < at), ..call.clone() })
        .collect()
}

fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref().map(|text: &&str| text.to_string()))
            .unwrap_or_default()
    })
}
