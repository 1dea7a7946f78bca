//! What a life is like. Everything follows from its seed and from what was asked of all lives.

use std::path::Path;

use clap::Args;
use cli::engine;
use cli::safety;
use firndex::{Durability, Engine, Options, PairSizes};
use workload::{Random, mix};

use super::model::{Stage, State, WRITERS_MAX};

/// Of a new pool with this capacity the heap has large segments.
const LARGE_CAPACITY: u64 = 1 << 16;
/// Bytes that a session writes at most, so that a life is over in a moment.
const SESSION_BYTES: u64 = 5 << 20;
/// Calls of a session.
const SESSION_CALLS_MAX: u64 = 2500;
/// Threads of a life, if their number was not asked for.
const WRITERS: [u64; 8] = [1, 1, 1, 1, 2, 2, 3, 4];
/// Steps of a limit, from one opening to the next.
const STEPS_BYTES: [i64; 5] = [8 << 10, 64 << 10, 160 << 10, 12_345, 1 << 20];
/// Sizes of values that have found something, or lie where something changes.
const SIZES: [u64; 16] = [
    1, 8, 2048, 4096, 8192, 8740, 9000, 12_345, 16_384, 20_000, 32_768, 65_536, 100_000, 131_072,
    262_144, 300_000,
];
/// Sizes of keys and values in tables, some of which each engine takes.
const PAIR_SIZES: [(u32, u32); 7] =
    [(8, 8), (8, 8), (2, 1), (4, 9), (16, 40), (20, 100), (256, 256)];
/// The largest value.
const VALUE_BYTES_MAX: u64 = 300_000;

/// What was asked of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(super) struct Scope {
    /// The hash table
    #[arg(long, value_parser = engine::names())]
    pub(super) engine: Engine,
    /// Determines the life
    #[arg(long)]
    pub(super) seed: u64,
    /// Threads that write
    #[arg(long)]
    pub(super) threads: Option<u64>,
    /// Fill the file system and free it again
    #[arg(long)]
    pub(super) fill: bool,
    /// What the pool is asked to survive of power loss
    #[arg(long, value_parser = safety::names())]
    pub(super) durability: Option<Durability>,
}

/// What the pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Store,
    Table { key_bytes: u32, value_bytes: u32 },
}

impl Shape {
    pub(super) const WORDS: Shape = Shape::Table { key_bytes: 8, value_bytes: 8 };
}

/// A life, from the making of its pool to the last closing.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) seed: u64,
    pub(super) engine: Engine,
    pub(super) shape: Shape,
    pub(super) writers: u64,
    pub(super) fill: bool,
    /// Keys of all threads.
    pub(super) keys: u64,
    pub(super) has_plain_keys: bool,
    /// A store's keys have 8 bytes and fewer than so many more.
    pub(super) key_bytes_more: u64,
    /// Sizes of values.
    pub(super) sizes: Vec<usize>,
    pub(super) durability: Durability,
    /// Of the new pool.
    capacity: u64,
    pub(super) sessions: Vec<Session>,
}

/// From an opening to the next closing.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) limit_bytes: u64,
    helpers: usize,
    compact_at: f64,
    shrink_at: f64,
    cached: Option<u32>,
    /// Whether a pool that was closed is first opened for reading only.
    pub(super) is_read_first: bool,
    pub(super) work: Work,
    /// Calls of each thread.
    pub(super) calls: u64,
    pub(super) end: End,
    pub(super) kill: Option<Kill>,
}

/// What the threads mostly do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Put until the pool is full, and somewhat longer.
    Fill,
    /// Some of everything.
    Change,
    /// Remove.
    Empty,
}

/// How a session ends, unless the process is killed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Close,
    Drop,
    Rewrite,
}

/// When the process is killed: so many calls after it came to the stage, and then some time later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    pub(super) stage: Stage,
    pub(super) calls: u64,
    pub(super) delay_us: u64,
}

impl Life {
    /// `in_memory`: whether its directory is, so that a log would serve nothing.
    pub(super) fn new(scope: Scope, in_memory: bool) -> Life {
        let mut random = Random::new(mix(scope.seed ^ 0x6c69_7665));
        let writers = *random.of(&WRITERS);
        let writers = scope.threads.unwrap_or(writers).min(WRITERS_MAX);
        let fitting: Vec<_> = PAIR_SIZES
            .into_iter()
            .filter(|&(key_bytes, value_bytes)| {
                scope.engine.may_hold(PairSizes { key_bytes, value_bytes })
            })
            .collect();
        let &(key_bytes, value_bytes) = random.of(&fitting);
        let shape = match random.percent(65) {
            true => Shape::Store,
            false => Shape::Table { key_bytes, value_bytes },
        };
        let sizes = match shape {
            Shape::Store => some_sizes(&mut random),
            Shape::Table { value_bytes, .. } => vec![value_bytes as usize],
        };
        let limits = Limits::some(shape, &mut random);
        let mean_bytes = sizes.iter().sum::<usize>() as u64 / sizes.len() as u64 + 50;
        let keys_to_fill = 3 * limits.bytes_max / mean_bytes / 2;
        let keys_of_bytes = match shape {
            Shape::Table { key_bytes: 0..4, .. } => 1 << (8 * key_bytes),
            _ => u64::MAX,
        };
        let keys = (keys_to_fill.clamp(300, 5000) + random.below(200)).min(keys_of_bytes);
        let mut life = Life {
            seed: scope.seed,
            engine: scope.engine,
            shape,
            writers,
            fill: scope.fill,
            keys,
            has_plain_keys: random.percent(50),
            key_bytes_more: *random.of(&[1, 40, 40, 40, 2000]),
            sizes,
            durability: scope.durability.unwrap_or(Durability::Process),
            capacity: if random.percent(15) { LARGE_CAPACITY } else { 0 },
            sessions: Vec::new(),
        };
        life.sessions = life.some_sessions(limits, mean_bytes, &mut random);
        if random.percent(50) && scope.durability.is_none() && !in_memory && !scope.fill {
            life.durability = Durability::Periodic;
        }
        life
    }

    fn some_sessions(
        &self,
        mut limits: Limits,
        mean_bytes: u64,
        random: &mut Random,
    ) -> Vec<Session> {
        let count = 20 + random.below(11);
        let kills_percent = *random.of(&[0, 0, 15, 40]);
        let helpers = *random.of(&[0, 0, 1]);
        // What a background thread does, in some lives only: the others can be followed step by step.
        let compacts = random.percent(20);
        let shrinks = random.percent(20) && self.engine.description().shrinks_by_itself;
        let fills_percent = *random.of(&[30, 60, 100]);
        let session = |_| {
            let work = match random.below(100) {
                chance if chance < fills_percent => Work::Fill,
                chance if chance % 5 == 0 => Work::Empty,
                _ => Work::Change,
            };
            let calls = (SESSION_BYTES / mean_bytes).clamp(40, SESSION_CALLS_MAX);
            let calls = match work {
                Work::Change => 10 + random.below(calls / 2),
                Work::Fill | Work::Empty => calls,
            };
            let calls = calls.div_ceil(self.writers);
            let end = match random.below(100) {
                0..60 => End::Close,
                60..94 => End::Drop,
                _ => End::Rewrite,
            };
            let scale = random.below(13);
            let kill = random.percent(kills_percent).then(|| Kill {
                stage: *random.of(&[Stage::Opening, Stage::Living, Stage::Living, Stage::Closing]),
                calls: random.below(calls * self.writers),
                delay_us: random.below(1 << scale),
            });
            Session {
                limit_bytes: limits.next(random),
                helpers,
                compact_at: if compacts { *random.of(&[0.0, 0.25, 0.5]) } else { 0.0 },
                shrink_at: if shrinks { 0.3 } else { 0.0 },
                cached: random.percent(10).then(|| random.below(4) as u32),
                is_read_first: random.percent(15),
                work,
                calls,
                end,
                kill,
            }
        };
        (0..count).map(session).collect()
    }

    /// Options of a session, with this limit.
    pub(super) fn options(&self, session: &Session, limit_bytes: u64) -> Options {
        let options = Options::new()
            .engine(self.engine)
            .capacity(self.capacity)
            .durability(self.durability)
            .max_bytes(limit_bytes)
            .helpers(session.helpers)
            .compact_at(session.compact_at)
            .shrink_at(session.shrink_at)
            .hash_seed(mix(self.seed));
        // Of no draw, so that lives on record stay what they are.
        let builds_later = mix(self.seed ^ session.limit_bytes) & 1 == 0;
        let options = if builds_later { options.built_at_once_max(0) } else { options };
        match session.cached {
            Some(cached) => options.cached(cached),
            None => options,
        }
    }
}

/// One to four sizes of values.
fn some_sizes(random: &mut Random) -> Vec<usize> {
    let count = 1 + random.index(4);
    assert!(count <= State::SIZES_MAX);
    let mut size = || {
        let size = match random.below(100) {
            0..15 => random.below(64),
            15..25 => random.below(1000),
            25..40 => random.below(8000),
            40..65 => *random.of(&SIZES),
            // A header before the value makes it a little more than whole segments, or a little less.
            65..80 => (1 + random.below(36)) * 8192 - random.below(80),
            80..92 => 8000 + random.below(58_000),
            _ => random.below(VALUE_BYTES_MAX),
        };
        size.min(VALUE_BYTES_MAX) as usize
    };
    (0..count).map(|_| size()).collect()
}

/// The limit, from opening to opening.
struct Limits {
    bytes: i64,
    bytes_min: i64,
    bytes_max: u64,
    /// The step of each opening, in lives whose limit only rises.
    rises_by: Option<i64>,
    moves_percent: u64,
}

impl Limits {
    fn some(shape: Shape, random: &mut Random) -> Limits {
        let (bytes_min, bytes_max) = match shape {
            Shape::Store => match random.below(10) {
                0 => (200 << 10, 1 << 20),
                // What describes the heap then takes more than a segment.
                1..5 => (8 << 20, 13 << 20),
                _ => (1 << 20, 13 << 20),
            },
            Shape::Table { .. } => (100 << 10, 2 << 20),
        };
        let bytes = (bytes_min + random.below(bytes_max - bytes_min)) as i64;
        let bytes_min = bytes_min as i64 / 4;
        let step = *random.of(&STEPS_BYTES);
        let (rises_by, moves_percent) = match random.below(10) {
            0 | 1 => (None, 0),
            2..6 => (Some(step), 0),
            _ => (None, 70),
        };
        Limits { bytes, bytes_min, bytes_max, rises_by, moves_percent }
    }

    fn next(&mut self, random: &mut Random) -> u64 {
        let limit = self.bytes.max(self.bytes_min);
        if let Some(step) = self.rises_by {
            self.bytes += step;
        } else if random.percent(self.moves_percent) {
            let far = random.percent(20);
            let most = if far { self.bytes_max } else { *random.of(&STEPS_BYTES) as u64 };
            let step = if far { random.below(most) } else { most } as i64;
            self.bytes += if random.percent(60) { step } else { -step };
            self.bytes = self.bytes.clamp(self.bytes_min, self.bytes_max as i64 + (4 << 20));
        }
        limit as u64
    }
}

/// Names of a life's files.
pub(super) fn pool(dir: &Path) -> std::path::PathBuf {
    dir.join("pool.firn")
}

pub(super) fn model(dir: &Path) -> std::path::PathBuf {
    dir.join("model")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(engine: Engine, seed: u64) -> Life {
        let scope = Scope { engine, seed, threads: None, fill: false, durability: None };
        let life = Life::new(scope, true);
        assert_eq!(format!("{life:?}"), format!("{:?}", Life::new(scope, true)));
        life
    }

    /// Otherwise lives would leave out what they are for.
    #[test]
    fn lives_differ_in_everything() {
        for engine in Engine::ALL {
            let lives: Vec<Life> = (0..300).map(|seed| life(*engine, seed)).collect();
            let has = |what: &str, is: &dyn Fn(&Life) -> bool| {
                let count = lives.iter().filter(|life| is(life)).count();
                assert!((15..300).contains(&count), "{engine}: {what} in {count} lives");
            };
            has("a store", &|life| life.shape == Shape::Store);
            has("a table", &|life| life.shape != Shape::Store);
            has("one thread", &|life| life.writers == 1);
            has("four threads", &|life| life.writers == 4);
            has("large segments", &|life| life.capacity > 0);
            let any = |is: &'static dyn Fn(&Session) -> bool| {
                move |life: &Life| life.sessions.iter().any(is)
            };
            has("a kill", &any(&|session| session.kill.is_some()));
            has("a rewrite", &any(&|session| session.end == End::Rewrite));
            has("a compaction", &any(&|session| session.compact_at > 0.0));
            has("helpers", &any(&|session| session.helpers > 0));
            has("emptying", &any(&|session| session.work == Work::Empty));
            let falls = |life: &Life| {
                let limits = life.sessions.windows(2);
                limits.into_iter().any(|two| two[1].limit_bytes < two[0].limit_bytes)
            };
            has("a limit that falls", &falls);
            for life in &lives {
                assert!((20..=30).contains(&life.sessions.len()));
                assert!(life.sizes.iter().all(|size| *size as u64 <= VALUE_BYTES_MAX));
                let Shape::Table { key_bytes, .. } = life.shape else { continue };
                assert!(key_bytes >= 4 || life.keys <= 1 << (8 * key_bytes));
            }
        }
    }
}
