//! A crash run as the command line asks for it.

use crate::directed::BOUNDS;
use crate::engine::Engine;
use crate::explore;
use crate::lab::{Bounds, Counters, Lab};
use crate::machine::silence_panics;
use crate::report::Failure;
use crate::setups;
use crate::subject::{
    ClevelStoreSubject, ClevelSubject, HeapSubject, LevelStoreSubject, LevelSubject,
    LongLevelSubject, PoolSubject, Setup, StoreSubject, Subject, TableSubject,
};
use crate::trial;
use pmem::sync::simulated::fault::Site;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// On what.
    pub engine: Engine,
    /// Simulated threads: one explores all histories, several sample them.
    pub threads: usize,
    /// Operations of each thread.
    pub ops: usize,
    /// Random histories; ignored if `time` is set, and by exhaustive runs.
    pub histories: u64,
    /// Goes on for this long.
    pub time: Option<Duration>,
    /// The first history's seed; each further one has the next number.
    pub seed: u64,
    /// Whether the directed histories are run, too.
    pub directed: bool,
    /// Of the directed histories of several threads one in so many; all if 1.
    pub directed_one_in: u64,
    /// Whether each site is broken in turn.
    pub sites: bool,
    /// Threads of the operating system.
    pub workers: usize,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What was done, the trial of sites aside.
    pub counters: Counters,
    /// Every broken promise that was found: the run of its kind ends with the first.
    pub violations: Vec<Failure>,
    /// Places that flush, fence or order.
    pub sites: Vec<Site>,
    /// Of those, the ones whose breaking went unnoticed, if that was tried.
    pub unnoticed: Option<Vec<Site>>,
    /// How long it took.
    pub time: Duration,
}

/// Bounds of exhaustive histories.
pub const EXHAUSTIVE: Bounds = Bounds {
    images: 512,
    images_nested: 24,
    nested_one_in: 16,
    depth: 2,
    kills: true,
    kills_one_in: 1,
};
/// Bounds of sampled histories.
pub const SAMPLED: Bounds = Bounds {
    images: 64,
    images_nested: 8,
    nested_one_in: 64,
    depth: 2,
    kills: true,
    kills_one_in: 8,
};

/// A setup of some subject.
trait Arena {
    fn sample(&mut self, threads: usize, ops: usize, seed: u64) -> Result<(), Failure>;
    fn exhaust(&mut self, ops: usize, is_over: &dyn Fn() -> bool) -> Result<(), Failure>;
    fn counters(&self) -> Counters;
}

impl<S: Subject> Arena for Lab<S> {
    fn sample(&mut self, threads: usize, ops: usize, seed: u64) -> Result<(), Failure> {
        explore::sample(self, threads, ops, seed)
            .map_err(|failure| explore::shrink::<S>(self.setup(), SAMPLED, failure))
    }

    fn exhaust(&mut self, ops: usize, is_over: &dyn Fn() -> bool) -> Result<(), Failure> {
        explore::exhaustive(self, ops, is_over)
            .map_err(|failure| explore::shrink::<S>(self.setup(), EXHAUSTIVE, failure))
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

type MakeArena = Box<dyn Fn(Bounds) -> Result<Box<dyn Arena>, Failure> + Send + Sync>;

fn arenas_of<S: Subject>(setups: Vec<Setup>) -> impl Iterator<Item = MakeArena> {
    setups.into_iter().map(|setup| {
        let make = move |bounds: Bounds| {
            Lab::<S>::new(setup.clone(), bounds, 0).map(|lab| Box::new(lab) as Box<dyn Arena>)
        };
        Box::new(make) as MakeArena
    })
}

fn arenas(engine: Engine) -> Vec<MakeArena> {
    match engine {
        Engine::Pool => arenas_of::<PoolSubject>(setups::pool())
            .chain(arenas_of::<PoolSubject>(setups::synced_pool()))
            .collect(),
        Engine::Heap => arenas_of::<HeapSubject>(setups::heap()).collect(),
        Engine::Iceberg => arenas_of::<TableSubject>(setups::iceberg())
            .chain(arenas_of::<TableSubject>(setups::iceberg_blocks()))
            .chain(arenas_of::<TableSubject>(setups::synced_iceberg()))
            .chain(arenas_of::<TableSubject>(setups::helped_iceberg()))
            .chain(arenas_of::<TableSubject>(setups::recovered_iceberg()))
            .chain(arenas_of::<StoreSubject>(setups::store()))
            .chain(arenas_of::<StoreSubject>(setups::synced_store()))
            .collect(),
        Engine::Level => arenas_of::<LevelSubject>(setups::level())
            .chain(arenas_of::<LongLevelSubject>(setups::level_long()))
            .chain(arenas_of::<LevelSubject>(setups::synced_level()))
            .chain(arenas_of::<LevelSubject>(setups::recovered_level()))
            .chain(arenas_of::<LevelStoreSubject>(setups::level_store()))
            .collect(),
        Engine::Clevel => arenas_of::<ClevelSubject>(setups::clevel())
            .chain(arenas_of::<ClevelSubject>(setups::synced_clevel()))
            .chain(arenas_of::<ClevelSubject>(setups::helped_clevel()))
            .chain(arenas_of::<ClevelSubject>(setups::recovered_clevel()))
            .chain(arenas_of::<ClevelStoreSubject>(setups::clevel_store()))
            .collect(),
    }
}

impl Campaign {
    /// Runs it; `tick` is told now and then what has been done so far.
    pub fn run(&self, tick: &(dyn Fn(Counters) + Sync)) -> Report {
        let start = Instant::now();
        silence_panics();
        let mut report = Report::default();
        let mut directed = self.engine.directed();
        directed.retain(|directed| directed.is_sampled(self.directed_one_in, self.seed));
        if self.sites {
            match trial::trial(&directed, self.workers) {
                Ok(trial) => {
                    report.counters += trial.counters;
                    report.sites = trial.sites;
                    report.unnoticed = Some(trial.unnoticed);
                }
                Err(failure) => report.violations.push(failure),
            }
        } else if self.directed {
            match trial::look(&directed, BOUNDS, self.workers) {
                Ok((counters, places)) => {
                    report.counters += counters;
                    report.sites = places.into_iter().filter(trial::is_on_trial).collect();
                }
                Err(failure) => report.violations.push(failure),
            }
        }
        tick(report.counters);
        self.explore(start, &mut report, tick);
        report.time = start.elapsed();
        report
    }

    fn explore(&self, start: Instant, report: &mut Report, tick: &(dyn Fn(Counters) + Sync)) {
        let makers = arenas(self.engine);
        let is_exhaustive = self.threads <= 1;
        let next = AtomicU64::new(0);
        let found_one = AtomicBool::new(false);
        let shared = Mutex::new(report);
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let out_of_time = || self.time.is_some_and(|time| start.elapsed() >= time);
        let is_over = || found_one.load(Ordering::Relaxed) || out_of_time();
        let fail = |failure: Failure| {
            found_one.store(true, Ordering::Relaxed);
            lock().violations.push(failure);
        };
        let exhaust = || {
            while let Some(make) = makers.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                if is_over() {
                    break;
                }
                let made = make(EXHAUSTIVE);
                let result = made.and_then(|mut arena| {
                    let result = arena.exhaust(self.ops, &is_over);
                    lock().counters += arena.counters();
                    tick(lock().counters);
                    result
                });
                result.unwrap_or_else(&fail);
            }
        };
        let sample = || {
            let mut labs: Vec<Option<Box<dyn Arena>>> = makers.iter().map(|_| None).collect();
            let mut told = Counters::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let is_enough = self.time.is_none() && number >= self.histories;
                if is_enough || is_over() {
                    break;
                }
                let seed = self.seed.wrapping_add(number);
                let index = (seed % makers.len() as u64) as usize;
                let result = match &mut labs[index] {
                    Some(lab) => lab.sample(self.threads, self.ops, seed),
                    empty => makers[index](SAMPLED)
                        .and_then(|lab| empty.insert(lab).sample(self.threads, self.ops, seed)),
                };
                if let Err(mut failure) = result {
                    let (threads, ops) = (self.threads, self.ops);
                    let replay = format!(
                        "firndex crash --engine {} --threads {threads} --ops {ops} --seed {seed} \
                         --histories 1",
                        self.engine.name()
                    );
                    failure.evidence.replay = Some(replay);
                    fail(failure);
                }
                if number.is_multiple_of(HISTORIES_PER_TICK) {
                    let so_far = total(&labs);
                    let mut report = lock();
                    report.counters += so_far.less(told);
                    told = so_far;
                    tick(report.counters);
                }
            }
            lock().counters += total(&labs).less(told);
        };
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                match is_exhaustive {
                    true => scope.spawn(exhaust),
                    false => scope.spawn(sample),
                };
            }
        });
    }
}

/// Histories between two reports of progress.
const HISTORIES_PER_TICK: u64 = 64;

fn total(labs: &[Option<Box<dyn Arena>>]) -> Counters {
    labs.iter().flatten().fold(Counters::default(), |mut total, lab| {
        total += lab.counters();
        total
    })
}
