//! The process that uses a cache and is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use cli::failure::Status;
use cli::{output, safety};
use firndex::{Cache, Durability, Options};
use workload::{Random, mix};

use super::ledger::Ledger;
use super::user::{User, World};
use super::values::Source;
use crate::torture::victim::Victim;

/// The hidden subcommand that runs it.
pub(crate) const COMMAND: &str = "torture-cache";

/// The cache is closed and opened again after a time of up to this.
const ROUND_MS_MAX: u64 = 150;
/// Capacities that it may have.
const CAPACITIES: [u64; 5] = [256 << 10, 1 << 20, 5_000_000, 12 << 20, 40 << 20];
/// Openings that give it another capacity than the one that it mostly has.
const OTHER_PERCENT: u64 = 30;
/// Keys of each thread.
const KEYS: u64 = 1000;
/// Of a million values, those that may have a quarter of the largest capacity.
const LARGE_IN_MILLION: u64 = 1000;
const CLEAR_EVERY: u64 = 50_000;
/// Calls after which a thread looks how large the file is.
const MEASURE_EVERY: u64 = 500;
/// Of the log, in half of the openings: a short run makes checkpoints, too.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// What the process works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the cache
    #[arg(long)]
    pub(super) dir: PathBuf,
    /// What the cache is asked to survive of power loss
    #[arg(long, value_parser = safety::names())]
    pub(super) durability: Option<Durability>,
    /// Threads that use it
    #[arg(long)]
    pub(super) threads: u64,
    /// Determines the values, and the capacity that the cache mostly has
    #[arg(long)]
    pub(super) seed: u64,
    /// Determines all else; another one for each process
    #[arg(long)]
    pub(super) life: u64,
    /// The process whose death ends this one
    #[arg(long)]
    pub(super) parent: u32,
}

impl Arguments {
    pub(super) fn source(&self) -> Source {
        let bytes_max = CAPACITIES.iter().max().map_or(0, |most| most / 4);
        Source::new(self.seed, KEYS * self.threads, bytes_max, LARGE_IN_MILLION)
    }

    pub(super) fn ledger(&self) -> Result<Ledger> {
        Ledger::open(&self.dir.join("ledger"), KEYS * self.threads)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join("cache.firn")
    }

    /// Opens the cache, mostly with its own capacity; and with which.
    pub(super) fn open(
        &self,
        ledger: &Ledger,
        random: &mut Random,
    ) -> firndex::Result<(Cache, u64)> {
        let own = CAPACITIES[(mix(self.seed) % CAPACITIES.len() as u64) as usize];
        let capacity = if random.percent(OTHER_PERCENT) { *random.of(&CAPACITIES) } else { own };
        let mut options = Options::new();
        if let Some(durability) = self.durability {
            options = options.durability(durability);
        } else if random.percent(50) {
            options = options.durability(*random.of(Durability::ALL));
        }
        if random.percent(50) {
            options = options.checkpoint_at(CHECKPOINT_BYTES);
        }
        ledger.begin_opening(capacity);
        let cache = options.open_or_create_cache(self.path(), capacity)?;
        ledger.end_opening();
        Ok((cache, capacity))
    }

    /// Starts the process.
    pub(super) fn start(&self, program: &Path) -> Result<Victim> {
        // In one argument, since a file's name may start like an option.
        let mut dir = std::ffi::OsString::from("--dir=");
        dir.push(&self.dir);
        let mut command = Command::new(program);
        command
            .arg(COMMAND)
            .arg(dir)
            .args(self.durability.map(|durability| format!("--durability={}", durability.name())))
            .arg(format!("--threads={}", self.threads))
            .arg(format!("--seed={}", self.seed))
            .arg(format!("--life={}", self.life))
            .arg(format!("--parent={}", self.parent))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Victim::start(&mut command)
    }
}

/// Uses the cache until it is killed. Never returns unless something fails.
pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    dedup::die_with(arguments.parent)?;
    let (ledger, source) = (arguments.ledger()?, arguments.source());
    let mut random = Random::new(mix(arguments.seed ^ mix(arguments.life)));
    loop {
        let opened = arguments.open(&ledger, &mut random);
        let (cache, capacity) =
            opened.with_context(|| format!("opening {}", arguments.path().display()))?;
        let world = World {
            cache: &cache,
            ledger: &ledger,
            source: &source,
            capacity,
            threads: arguments.threads,
            clear_every: CLEAR_EVERY,
        };
        live(world, &arguments.path(), &mut random);
        if random.percent(50) {
            cache.close().context("closing the cache")?;
        }
    }
}

/// From an opening to the next closing.
fn live(world: World<'_>, path: &Path, random: &mut Random) {
    let end = Instant::now() + Duration::from_millis(random.below(ROUND_MS_MAX));
    let (seed, is_over) = (random.word(), &AtomicBool::new(false));
    let demand = |done: Result<()>| {
        if let Err(error) = done {
            // The other threads would go on until they are killed, and nobody would notice.
            output::error(&error.context("using the cache"));
            std::process::exit(Status::Failed as i32);
        }
    };
    let work = move |thread| {
        let mut user = User::new(world, thread, seed);
        let mut work = || -> Result<()> {
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                if calls % MEASURE_EVERY == 0 {
                    user.witness.measure(path)?;
                }
                user.call()?;
                calls += 1;
            }
            Ok(())
        };
        demand(work());
    };
    thread::scope(|scope| {
        for thread in 0..world.threads {
            let started = thread::Builder::new().spawn_scoped(scope, move || work(thread));
            demand(started.map(drop).map_err(|error| anyhow!("{error}")));
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
        is_over.store(true, Ordering::Relaxed);
    });
}
