//! Places for random and exhaustive histories: a subject in a setup, whatever its type.

use crate::explore;
use crate::lab::{Bounds, Counters, Lab};
use crate::report::Failure;
use crate::subject::{Setup, Subject};

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

/// How much of what there is to do on a target a short run does, as CI's is.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Random histories.
    pub histories: u64,
    /// Of the directed histories of several threads, one in so many is run, and one of each kind.
    pub directed_one_in: u64,
    /// All histories of one thread of up to so many operations are run, too; none if 0.
    pub exhaustive_ops: usize,
    /// Random histories in the default tests.
    pub histories_in_tests: u64,
    /// Whether each site is broken in turn.
    pub breaks_sites: bool,
}

impl Effort {
    /// That of an engine whose operations take few steps.
    pub(crate) const OF_ENGINE: Effort = Effort {
        histories: 600,
        directed_one_in: 8,
        exhaustive_ops: 1,
        histories_in_tests: 300,
        breaks_sites: true,
    };
}

/// A lab on some subject in some setup.
pub(crate) trait Running {
    fn sample(&mut self, threads: usize, ops: usize, seed: u64) -> Result<(), Failure>;
    fn exhaust(&mut self, ops: usize, is_over: &dyn Fn() -> bool) -> Result<(), Failure>;
    fn counters(&self) -> Counters;
}

impl<S: Subject> Running for Lab<S> {
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

/// Makes a lab.
pub(crate) type Arena = Box<dyn Fn(Bounds) -> Result<Box<dyn Running>, Failure> + Send + Sync>;

/// One for each setup.
pub(crate) fn arenas_of<S: Subject>(setups: Vec<Setup>) -> impl Iterator<Item = Arena> + use<S> {
    setups.into_iter().map(|setup| {
        let make = move |bounds: Bounds| {
            Lab::<S>::new(setup.clone(), bounds, 0).map(|lab| Box::new(lab) as Box<dyn Running>)
        };
        Box::new(make) as Arena
    })
}
