//! A crash run as the command line asks for it.

use crate::arena::{EXHAUSTIVE, Effort, Running, SAMPLED};
use crate::lab::Counters;
use crate::machine::silence_panics;
use crate::report::Failure;
use crate::target::Target;
use crate::trial;
use pmem::sync::simulated::fault::Site;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// On what.
    pub target: Target,
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
    /// Run one in this many of the directed histories of several threads, and one of each kind; 1 runs all.
    pub directed_one_in: u64,
    /// Whether each site is broken in turn.
    pub sites: bool,
    /// Threads of the operating system.
    pub workers: usize,
}

/// Its result.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The work done, without the trial of sites.
    pub counters: Counters,
    /// Every broken promise that was found. A run of one kind ends with the first.
    pub violations: Vec<Failure>,
    /// Places that flush, fence or order.
    pub sites: Vec<Site>,
    /// Of those, the ones whose breaking went unnoticed, if that was tried.
    pub unnoticed: Option<Vec<Site>>,
    /// How long it took.
    pub time: Duration,
}

/// What a short run does on a target, as CI's is: a sample of the directed histories, each site broken in turn, random
/// histories of three threads, and all short ones of one.
pub fn short(target: Target, workers: usize) -> Vec<Campaign> {
    let Effort { histories, directed_one_in, exhaustive_ops, breaks_sites: sites, .. } =
        target.effort();
    let random = Campaign { histories, directed_one_in, sites, ..full(target, workers) };
    let exhaustive = Campaign {
        threads: 1,
        ops: exhaustive_ops,
        directed: false,
        sites: false,
        ..random.clone()
    };
    if exhaustive_ops == 0 { vec![random] } else { vec![random, exhaustive] }
}

/// All directed histories, and random ones of three threads.
pub fn full(target: Target, workers: usize) -> Campaign {
    Campaign {
        target,
        threads: 3,
        ops: 3,
        histories: 5000,
        time: None,
        seed: 1,
        directed: true,
        directed_one_in: 1,
        sites: false,
        workers,
    }
}

impl Campaign {
    /// Runs it. Now and then `tick` gets the work done so far.
    pub fn run(&self, tick: &(dyn Fn(Counters) + Sync)) -> Report {
        let start = Instant::now();
        silence_panics();
        let mut report = Report::default();
        let (directed, others) =
            trial::sample(self.target.directed(), self.directed_one_in, self.seed);
        if self.sites {
            match trial::trial(&directed, &others, self.workers) {
                Ok(trial) => {
                    report.counters += trial.counters;
                    report.sites = trial.sites;
                    report.unnoticed = Some(trial.unnoticed);
                }
                Err(failure) => report.violations.push(failure),
            }
        } else if self.directed {
            match trial::look(&directed, trial::BOUNDS, self.workers) {
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
        let makers = self.target.arenas();
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
            let mut labs: Vec<Option<Box<dyn Running>>> = makers.iter().map(|_| None).collect();
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
                        "firndex-lab crash --engine {} --threads {threads} --ops {ops} --seed {seed} \
                         --histories 1",
                        self.target.name()
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
            let work: &(dyn Fn() + Sync) = if is_exhaustive { &exhaust } else { &sample };
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            if (0..self.workers).map_while(start).count() == 0 {
                work();
            }
        });
    }
}

/// Histories between two reports of progress.
const HISTORIES_PER_TICK: u64 = 64;

fn total(labs: &[Option<Box<dyn Running>>]) -> Counters {
    labs.iter().flatten().fold(Counters::default(), |mut total, lab| {
        total += lab.counters();
        total
    })
}
