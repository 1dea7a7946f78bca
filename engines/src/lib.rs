//! The hash tables of firndex, one folder per paper.

#![forbid(unsafe_code)]

/// Calls a macro with a variant of [`Engine`] and the module of each engine, in the order of preference.
///
/// The list of engines. A new engine is added here, and its module declared below.
#[macro_export]
macro_rules! for_each_engine {
    ($callback:ident) => {
        $callback! {
            Iceberg iceberg,
            Level level,
            Clevel clevel,
            Rewo rewo,
            Pfht pfht,
        }
    };
}

pub mod cache;
pub mod clevel;
pub mod engine;
pub mod iceberg;
mod kit;
pub mod level;
mod list;
pub mod pfht;
pub mod rewo;
mod sizes;
pub mod wreck;

pub use list::{
    Engine, Inlined, Opened, Preferred, PreferredChanges, PreferredHot, PreferredSight,
};

/// Tuning that is not recorded in the pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Load factor at which the table doubles; above 1 it never does by itself.
    pub resize_at: f64,
    /// Load factor below which the table halves, if its engine does that by itself. 0: never by itself. An engine
    /// lowers a value at which a halved table would soon double again.
    pub shrink_at: f64,
    /// Threads that prepare space and move pairs, so that writers need not. An engine without them ignores this. With
    /// 0 the writers do both in small steps.
    pub helpers: usize,
    /// Threads that recovery uses; 0 for one per processor.
    pub recovery_threads: usize,
    /// Slots of a table up to which its sidecar is built whole while it is opened, by an engine that can build it
    /// afterwards, while operations run. That takes no time, and damage is found at once. Without helpers every table
    /// is, since look-ups would never complete it. 0: none is, whatever else holds; for tests.
    pub built_at_once_max: u64,
    /// Size of the DRAM table that caches pairs, for an engine with one: 1/n of the table in the pool, 0 for none.
    /// `None`: what the pool records.
    pub cached: Option<u32>,
    /// Whether a thread fills that table after opening and after each resize. Else it fills as look-ups come.
    pub refills_cache: bool,
    /// Whether other processes are to look keys up by themselves, where an engine lets them.
    pub is_shown: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            resize_at: 0.85,
            shrink_at: 0.0,
            helpers: 1,
            recovery_threads: 0,
            built_at_once_max: 1 << 18,
            cached: None,
            refills_cache: false,
            is_shown: false,
        }
    }
}

impl Settings {
    /// Whether a table of so many slots is built while it is opened.
    fn builds_at_once(&self, slots: u64) -> bool {
        self.built_at_once_max != 0 && (self.helpers == 0 || slots <= self.built_at_once_max)
    }

    /// Threads that recovery uses, at least 1.
    pub fn recovery_threads(&self) -> usize {
        match self.recovery_threads {
            0 => std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            threads => threads,
        }
    }
}
