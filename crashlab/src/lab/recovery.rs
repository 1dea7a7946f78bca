//! Recoveries, crashed themselves, and the use of what they recover.

use super::{COLLECTED, FIRST_BOOT, Lab, Outcome, Trouble, caught, collect};
use crate::ends::end_resize;
use crate::history::{Action, Key, Op, PROBE, Value};
use crate::images::{Images, missing};
use crate::machine::{self, Schedule};
use crate::owed::Owed;
use crate::subject::{Failed, Refusal, Subject};
use pmem::Offset;
use pmem::medium::sim::{Durable, OnFence, Sim};
use pmem::superblock::SUPERBLOCK_BYTES;
use std::rc::Rc;
use std::sync::Arc;
use workload::{Random, mix};

/// About how many accesses a recovery makes. It decides where its threads switch, if it has several.
const ACCESSES_OF_PARTS: u64 = 160;
/// Skips moments at which only the superblock has pending stores.
fn collect_beyond_superblock(sim: &Sim) {
    if sim.is_pending_from(Offset(SUPERBLOCK_BYTES)) {
        collect(sim);
    }
}

impl<S: Subject> Lab<S> {
    /// Recovers what is on `medium`, crashing the recovery up to `depth` times in a row. At the
    /// full depth (and after a kill), what comes of it is also used, and that crashed.
    pub(super) fn recover(&mut self, medium: Sim, is_kill: bool, depth: u32, hash: u64) -> Outcome {
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
                None if setup.is_cache => Action::Upsert(PROBE),
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
                Ok(Ok(found)) if found == contents[index] || setup.is_cache => {
                    contents[index] = action.apply(found);
                }
                Ok(Ok(found)) => return trouble(format!("it finds {found:?}")),
                Ok(Err(Failed::Full)) if setup.may_be_full(action) && !setup.is_cache => {}
                Ok(Err(Failed::Full)) => return trouble("no room, where there should be".into()),
                Ok(Err(Failed::Wrong(what))) => return trouble(what),
                Err(panic) => return trouble(format!("panic: {panic}")),
            }
            if !is_crashed {
                continue;
            }
            let may_be_missing = setup.is_mapped;
            let exactly = |contents: &[Option<Value>]| match setup.is_cache {
                true => Owed { may_be_missing, ..Owed::at_most(contents) },
                false => Owed { may_be_missing, ..Owed::exactly(contents) },
            };
            let mut either = exactly(&before);
            either.states[index].insert(contents[index]);
            let after = exactly(&contents);
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
            Ok(found) if setup.is_cache && Owed::at_most(&contents).allows(&found) => return None,
            Ok(found) => format!("used after recovery, it holds {found:?}, expected {contents:?}"),
            Err(what) => format!("used after recovery: {what}"),
        };
        Some(Trouble { what, trail: vec!["recovered and used".into()] })
    }
}
