//! Measures one contender in this process.

use anyhow::{Context, Result, ensure};
use peers::pages::Resident;
use peers::stream::{Keys, Writer};
use peers::{Batched, Map, WithMap, statically};
use serde_json::{Value, json};
use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// The contender that is no map: random lines read from an array as large as firndex would be.
/// The other rows are read against it, since it tells how fast the machine's memory was.
pub(crate) const CEILING: &str = "ceiling";

/// Bytes of that array per pair.
const CEILING_BYTES_PER_PAIR: u64 = 20;

/// Answers that are looked at again, after the clock stopped, at most.
const CHECKS_MAX: u64 = 2_000_000;

/// Seconds below which [`Rate::cpu_share`] would be too coarse to tell.
const CPU_SHARE_ELAPSED_MIN_S: f64 = 0.1;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) pairs: u64,
    pub(crate) ops: u64,
    pub(crate) threads: usize,
    /// Keys per call; 1: the calls that take one.
    pub(crate) batch: usize,
    pub(crate) seed: u64,
}

/// How fast one operation was.
pub(crate) struct Rate {
    pub(crate) op: String,
    /// All threads together.
    pub(crate) ops_per_s: f64,
    /// Part of the time that the threads had a processor, where the kernel tells: well below 1,
    /// others used the machine (or threads slept on a lock), and the rate says little.
    pub(crate) cpu_share: Option<f64>,
}

/// What was measured.
pub(crate) struct Outcome {
    pub(crate) rates: Vec<Rate>,
    /// Resident bytes that the filled map has added, per pair.
    pub(crate) bytes_per_pair: f64,
    /// Share of them on large pages.
    pub(crate) huge_pages: f64,
}

impl Outcome {
    pub(crate) fn to_json(&self) -> Value {
        let rate = |rate: &Rate| json!([rate.op, rate.ops_per_s, rate.cpu_share]);
        let rates: Vec<Value> = self.rates.iter().map(rate).collect();
        json!({
            "rates": rates,
            "bytes_per_pair": self.bytes_per_pair,
            "huge_pages": self.huge_pages,
        })
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text)?;
        let number = |name: &str| value[name].as_f64().with_context(|| format!("no {name}"));
        let rates = value["rates"].as_array().context("no rates")?.iter();
        let rate = |rate: &Value| {
            let (op, ops_per_s) = (rate[0].as_str()?.to_owned(), rate[1].as_f64()?);
            Some(Rate { op, ops_per_s, cpu_share: rate[2].as_f64() })
        };
        Ok(Outcome {
            rates: rates.map(rate).collect::<Option<_>>().context("a rate is malformed")?,
            bytes_per_pair: number("bytes_per_pair")?,
            huge_pages: number("huge_pages")?,
        })
    }
}

/// Measures the contender of this name.
pub(crate) fn run(name: &str, job: &Job) -> Result<Outcome> {
    if name == CEILING {
        return ceiling(job);
    }
    let outcome = statically(name, MapJob(*job));
    outcome.with_context(|| format!("no map here is called {name:?}"))?
}

/// What one thread did of an operation.
struct Part {
    started: Instant,
    ended: Instant,
    on_cpu_ns: Option<u64>,
    wrong: u64,
}

/// Time that this thread has had a processor.
fn on_cpu_ns() -> Option<u64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Words that the threads work through, a contiguous part each. Made before the clock starts, in
/// memory that is there before the map is, so that the map's own can be told from it.
struct Bench {
    words: Vec<u64>,
    threads: usize,
    rates: Vec<Rate>,
    before: Resident,
}

impl Bench {
    fn new(job: &Job) -> Result<Self> {
        let words = vec![1; job.pairs.max(job.ops) as usize];
        Ok(Bench { words, threads: job.threads, rates: Vec::new(), before: Resident::now()? })
    }

    /// Times `work` over `count` words; it returns the number of wrong answers.
    fn time(
        &mut self,
        op: &str,
        count: u64,
        word: impl Fn(u64) -> u64,
        work: impl Fn(&[u64]) -> u64 + Sync,
    ) -> Result<()> {
        let words = &mut self.words[..count as usize];
        for (place, stored) in (0..).zip(words.iter_mut()) {
            *stored = word(place);
        }
        let barrier = Barrier::new(self.threads);
        let part = |words: &[u64]| {
            let on_cpu_before_ns = on_cpu_ns();
            barrier.wait();
            let started = Instant::now();
            let wrong = work(words);
            let ended = Instant::now();
            let on_cpu_ns = on_cpu_ns().zip(on_cpu_before_ns).map(|(now, before)| now - before);
            Part { started, ended, on_cpu_ns, wrong }
        };
        // One thread is this one: a map that is bound to a thread was opened here.
        let parts: Vec<Part> = if self.threads == 1 {
            vec![part(words)]
        } else {
            std::thread::scope(|scope| {
                let chunks = words.chunks(words.len().div_ceil(self.threads));
                let mut handles: Vec<_> = chunks.map(|words| scope.spawn(|| part(words))).collect();
                // Fewer words than threads: the barrier waits for all of them.
                handles.extend((handles.len()..self.threads).map(|_| scope.spawn(|| part(&[]))));
                let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                handles.into_iter().map(join).collect()
            })
        };
        let wrong: u64 = parts.iter().map(|part| part.wrong).sum();
        ensure!(wrong == 0, "{op}: {wrong} of {count} answers are wrong");
        let started = parts.iter().map(|part| part.started).min();
        let ended = parts.iter().map(|part| part.ended).max();
        let (started, ended) = started.zip(ended).context("no threads")?;
        let elapsed_s = (ended - started).as_secs_f64().max(1e-9);
        // The kernel counts in ticks of some milliseconds.
        let is_long = elapsed_s >= CPU_SHARE_ELAPSED_MIN_S;
        let on_cpu_ns: Option<u64> = parts.iter().map(|part| part.on_cpu_ns).sum();
        self.rates.push(Rate {
            op: op.to_owned(),
            ops_per_s: count as f64 / elapsed_s,
            cpu_share: on_cpu_ns
                .filter(|_| is_long)
                .map(|ns| ns as f64 / 1e9 / (elapsed_s * self.threads as f64)),
        });
        Ok(())
    }

    fn outcome(self, pairs: u64, filled: Resident) -> Outcome {
        let added = filled.since(self.before);
        Outcome {
            rates: self.rates,
            bytes_per_pair: added.bytes as f64 / pairs as f64,
            huge_pages: added.huge_bytes as f64 / added.bytes.max(1) as f64,
        }
    }
}

fn ceiling(job: &Job) -> Result<Outcome> {
    const WORDS_PER_LINE: usize = 8;
    let mut bench = Bench::new(job)?;
    let lines = (job.pairs * CEILING_BYTES_PER_PAIR).div_ceil(64) as usize;
    // Ones, not zeros: those might all be one page.
    let array = black_box(vec![1u64; lines * WORDS_PER_LINE]);
    let filled = Resident::now()?;
    let at = |word: u64| array[((word as u128 * lines as u128) >> 64) as usize * WORDS_PER_LINE];
    let words = Keys::new(job.seed, job.pairs);
    bench.time(
        "read_line",
        job.ops,
        |place| words.key(place),
        |words| words.iter().map(|word| (at(*word) != 1) as u64).sum(),
    )?;
    let few = job.ops.div_ceil(4);
    bench.time(
        "read_line_dependent",
        few,
        |place| words.key(place),
        |words| {
            let mut last = 1;
            for word in words {
                last = at(word.wrapping_add(last - 1));
            }
            (last != 1) as u64
        },
    )?;
    Ok(bench.outcome(job.pairs, filled))
}

/// A [`Job`] on a map.
struct MapJob(Job);

impl WithMap for MapJob {
    type Output = Result<Outcome>;

    fn with<M: Map>(self, open: impl Fn(u64, usize) -> M) -> Result<Outcome> {
        let job = self.0;
        let mut bench = Bench::new(&job)?;
        let map = open(job.pairs, job.threads);
        let keys = Keys::new(job.seed, job.pairs);
        let filled = match job.batch {
            1 => singles(&map, &job, &keys, &mut bench)?,
            _ => batches(&map, &job, &keys, &mut bench)?,
        };
        Ok(bench.outcome(job.pairs, filled))
    }
}

/// The number of answers that are not what `right` says.
#[inline(always)]
fn wrong(keys: &[u64], right: impl Fn(u64) -> bool) -> u64 {
    keys.iter().map(|key| !right(*key) as u64).sum()
}

/// Orders of the keys, one per operation.
const HITS: u64 = 1;
const UPDATES: u64 = 2;
const UPSERTS: u64 = 3;
const REMOVALS: u64 = 4;

fn fill<M: Map>(map: &M, pairs: u64, keys: &Keys, bench: &mut Bench) -> Result<Resident> {
    bench.time(
        "insert",
        pairs,
        |number| keys.key(number),
        |words| wrong(words, |key| map.insert(key, Writer::Insert.value(key))),
    )?;
    Resident::now()
}

fn singles<M: Map>(map: &M, job: &Job, keys: &Keys, bench: &mut Bench) -> Result<Resident> {
    let stored = |salt| move |place| keys.key(keys.shuffled(salt, place));
    let absent = |place| keys.key(job.pairs + place);

    let filled = fill(map, job.pairs, keys, bench)?;
    bench.time("get_hit", job.ops, stored(HITS), |words| {
        wrong(words, |key| map.get(key) == Some(Writer::Insert.value(key)))
    })?;
    bench.time("get_miss", job.ops, absent, |words| wrong(words, |key| map.get(key).is_none()))?;
    bench.time("update", job.ops, stored(UPDATES), |words| {
        wrong(words, |key| map.update(key, Writer::Update.value(key)))
    })?;
    bench.time("upsert", job.ops, stored(UPSERTS), |words| {
        wrong(words, |key| map.upsert(key, Writer::Upsert.value(key)))
    })?;
    bench.time("remove", job.ops, stored(REMOVALS), |words| wrong(words, |key| map.remove(key)))?;
    check(map, job, keys, &[(UPDATES, Writer::Update), (UPSERTS, Writer::Upsert)])?;
    Ok(filled)
}

fn batches<M: Map>(map: &M, job: &Job, keys: &Keys, bench: &mut Bench) -> Result<Resident> {
    let stored = |salt| move |place| keys.key(keys.shuffled(salt, place));
    let absent = |place| keys.key(job.pairs + place);
    let everything = map.batched() == Batched::Everything;

    let get_many = |words: &[u64], right: &dyn Fn(u64) -> Option<u64>| {
        let mut found = vec![None; job.batch];
        let mut wrong = 0;
        for keys in words.chunks(job.batch) {
            let found = &mut found[..keys.len()];
            map.get_many(keys, found);
            wrong += keys.iter().zip(found).filter(|(key, found)| **found != right(**key)).count();
        }
        wrong as u64
    };
    let upsert_many = |words: &[u64], writer: Writer, present: bool| {
        let mut pairs = Vec::with_capacity(job.batch);
        let mut answers = vec![!present; job.batch];
        let mut wrong = 0;
        for keys in words.chunks(job.batch) {
            pairs.clear();
            pairs.extend(keys.iter().map(|key| (*key, writer.value(*key))));
            let answers = &mut answers[..keys.len()];
            map.upsert_many(&pairs, answers);
            wrong += answers.iter().filter(|answer| **answer != present).count();
        }
        wrong as u64
    };

    let filled = if everything {
        bench.time(
            "insert_many",
            job.pairs,
            |number| keys.key(number),
            |words| upsert_many(words, Writer::Insert, false),
        )?;
        Resident::now()?
    } else {
        let filled = fill(map, job.pairs, keys, bench)?;
        // The round of single calls has measured it.
        bench.rates.clear();
        filled
    };
    bench.time("get_many_hit", job.ops, stored(HITS), |words| {
        get_many(words, &|key| Some(Writer::Insert.value(key)))
    })?;
    bench.time("get_many_miss", job.ops, absent, |words| get_many(words, &|_| None))?;
    if !everything {
        return Ok(filled);
    }
    bench.time("update_many", job.ops, stored(UPDATES), |words| {
        upsert_many(words, Writer::Update, true)
    })?;
    bench.time("remove_many", job.ops, stored(REMOVALS), |words| {
        let mut removed = vec![false; job.batch];
        let mut wrong = 0;
        for keys in words.chunks(job.batch) {
            let removed = &mut removed[..keys.len()];
            map.remove_many(keys, removed);
            wrong += removed.iter().filter(|removed| !**removed).count();
        }
        wrong as u64
    })?;
    check(map, job, keys, &[(UPDATES, Writer::Update)])?;
    Ok(filled)
}

/// Looks up what the operations should have left, off the clock: `writers` in their order, then
/// the removals.
fn check<M: Map>(map: &M, job: &Job, keys: &Keys, writers: &[(u64, Writer)]) -> Result<()> {
    let mut left = vec![Some(Writer::Insert); job.pairs as usize];
    let removed = (REMOVALS, None);
    for (salt, writer) in
        writers.iter().map(|(salt, writer)| (*salt, Some(*writer))).chain([removed])
    {
        for place in 0..job.ops {
            left[keys.shuffled(salt, place) as usize] = writer;
        }
    }
    let step = job.pairs.div_ceil(CHECKS_MAX) as usize;
    for (number, writer) in (0..).zip(&left).step_by(step) {
        let key = keys.key(number);
        let (found, expected) = (map.get(key), writer.map(|writer| writer.value(key)));
        ensure!(found == expected, "key {key:#x} holds {found:?} instead of {expected:?}");
    }
    Ok(())
}
