//! Crashing, recovering, judging.

mod recovery;

use crate::ends::{end_resize, read_clean};
use crate::execution::{self, CrashPoint, Execution, Manner};
use crate::history::{Call, Program, Value};
use crate::images::{Image, Images, missing};
use crate::judge;
use crate::logbook::Closed;
use crate::losing;
use crate::machine::{self, Schedule};
use crate::owed::{Contents, Owed};
pub use crate::report::Counters;
use crate::report::Failure;
use crate::resizes::Resizes;
use crate::subject::{Setup, Subject};
use pmem::medium::sim::{Durable, Sim};
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

thread_local! {
    static COLLECTED: RefCell<Vec<Durable>> = const { RefCell::new(Vec::new()) };
}

fn collect(sim: &Sim) {
    COLLECTED.with_borrow_mut(|collected| collected.push(sim.durable()));
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
    /// Those of the last run, and how many there may be in one.
    pub(crate) resizes_seen: Resizes,
    pub(crate) resizes_max: Resizes,
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
            resizes_seen: Resizes::default(),
            resizes_max: Resizes::ANY,
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
        let states = states.map(|(key, &initial)| match self.setup.is_cache {
            true => losing::allowed(calls, key, initial, at, self.setup.has_room),
            false => judge::allowed(calls, key, initial, at),
        });
        Owed { states: states.collect(), may_be_missing: false }
    }

    /// Judges the end of a run that did not crash.
    fn judge_end(&self, execution: &Execution<S>) -> Result<Resizes, String> {
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
        let resizes = || machine::alone(execution.process, None, || subject.resizes());
        let mut seen = Resizes::of(resizes());
        seen.within(self.resizes_max)?;
        if self.setup.is_tight {
            return Ok(seen);
        }
        // One history ends its resize by writing on, the next one at once.
        let is_by_writes = execution.end.is_multiple_of(4);
        machine::alone(execution.process, None, || {
            end_resize(&**subject, &self.setup, &contents, is_by_writes)
        })
        .map_err(|what| format!("without a crash, {what}"))?;
        seen.ended = resizes();
        seen.within(self.resizes_max)?;
        Ok(seen)
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
