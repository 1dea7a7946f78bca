//! `firndex-lab torture --caches --soak`: as many operations on one cache as a machine can do, each of them judged.

use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use cli::failure::Status;
use cli::{output, progress};
use dedup::{fresh_seed, interrupt};
use firndex::{Cache, Options};
use indicatif::HumanCount;
use serde_json::json;
use workload::mix;

use super::THREADS;
use super::ledger::Ledger;
use super::user::{User, World};
use super::values::Source;
use super::verdict::Breach;
use crate::torture::arguments::{Arguments, fastest_directory, new_directory};
use crate::torture::keep;

/// About half of what is put has to make room.
const CAPACITY: u64 = 8 << 20;
/// Keys of each thread.
const KEYS: u64 = 16 << 10;
/// Of a million values, those that may have a quarter of the capacity: to write more of them would take all the time.
const LARGE_IN_MILLION: u64 = 50;
const CLEAR_EVERY: u64 = 5_000_000;
/// Operations of a thread after which it looks how large the file is.
const MEASURE_EVERY: u64 = 1 << 16;

pub(super) fn run(arguments: &Arguments, operations: u64) -> Result<Status> {
    let parent = arguments.dir.clone().unwrap_or_else(fastest_directory);
    let directory = new_directory(Some(&parent))?;
    interrupt::remove_on_signal(directory.path().to_owned())?;
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let threads = arguments.threads.unwrap_or(THREADS);
    let ledger = Ledger::open(&directory.path().join("ledger"), KEYS * threads)?;
    let started = Instant::now();
    let ended = soak(arguments, (seed, threads, operations), &ledger, directory.path());
    interrupt::give_way();
    let (calls, found, breaches) = (ledger.calls(), ledger.found(), ledger.breaches());
    let count = |breach: Breach| breaches[breach as usize];
    if arguments.json {
        let mut json = json!({ "seed": seed, "operations": calls, "found": found });
        for breach in Breach::ALL {
            json[breach.key()] = count(breach).into();
        }
        output::json(&json)?;
    } else {
        let line = format!(
            "operations {}, found {}, expired returned {}, wrong {}, old {}, refused {}, \
             bound exceeded {}, {:.1} million a second\n",
            HumanCount(calls),
            HumanCount(found),
            count(Breach::Expired),
            count(Breach::Wrong),
            count(Breach::Old),
            count(Breach::Refused),
            count(Breach::Large),
            calls as f64 / 1e6 / started.elapsed().as_secs_f64(),
        );
        output::data(line.as_bytes())?;
    }
    if ended.is_ok() && breaches == [0; Breach::COUNT] {
        return Ok(Status::Done);
    }
    keep(directory, seed, ended)
}

fn soak(
    arguments: &Arguments,
    (seed, threads, operations): (u64, u64, u64),
    ledger: &Ledger,
    dir: &Path,
) -> Result<()> {
    let path = dir.join("cache.firn");
    let source = Source::new(mix(seed), KEYS * threads, CAPACITY / 4, LARGE_IN_MILLION);
    let options = Options::new();
    let options = match arguments.durability {
        Some(durability) => options.durability(durability),
        None => options,
    };
    ledger.begin_opening(CAPACITY);
    let cache: Cache = options.create_cache(&path, CAPACITY)?;
    ledger.end_opening();
    let clear_every = CLEAR_EVERY;
    let world =
        World { cache: &cache, ledger, source: &source, capacity: CAPACITY, threads, clear_every };
    let step = progress::count("soaking", "operations", operations);
    let work = |thread: u64| -> Result<()> {
        let mut user = User::new(world, thread, seed);
        let own = operations / threads + u64::from(thread < operations % threads);
        for number in 0..own {
            if number % MEASURE_EVERY == 0 {
                user.witness.measure(&path)?;
                step.inc(MEASURE_EVERY.min(own - number));
            }
            user.call()?;
        }
        user.witness.measure(&path)
    };
    thread::scope(|scope| {
        let start = |number| thread::Builder::new().spawn_scoped(scope, move || work(number));
        let started: Vec<_> = (0..threads).map(start).collect();
        let ended = started.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))),
            Err(error) => Err(error).context("starting a thread"),
        });
        ended.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    let report = cache.check()?;
    anyhow::ensure!(report.is_sound(), "the cache is not sound: {:?}", report.findings);
    Ok(cache.close()?)
}
