//! Threads that start together, and how long they took.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io;
use std::sync::{Condvar, LockResult, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// Below this many seconds [`Timing::cpu_share`] would be too coarse.
const CPU_SHARE_ELAPSED_MIN_S: f64 = 0.1;

/// How long a crew worked.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// From the first thread's start to the last one's end.
    pub elapsed_s: f64,
    /// Part of the time that the threads had a processor, if the kernel tells.
    pub cpu_share: Option<f64>,
}

struct Part {
    started: Instant,
    ended: Instant,
    on_cpu_ns: Option<u64>,
}

/// Where a crew waits until it is complete, or called off because a thread could not be started.
struct Start {
    /// How many are still to come, and whether they are waited for.
    missing: Mutex<(usize, bool)>,
    is_over: Condvar,
}

impl Start {
    fn new(threads: usize) -> Start {
        Start { missing: Mutex::new((threads, true)), is_over: Condvar::new() }
    }

    /// Returns when all are there; whether they are.
    fn wait(&self) -> bool {
        let mut missing = unpoisoned(self.missing.lock());
        missing.0 -= 1;
        if missing.0 == 0 {
            self.is_over.notify_all();
        }
        let waits = |&mut (count, is_on): &mut (usize, bool)| count > 0 && is_on;
        unpoisoned(self.is_over.wait_while(missing, waits)).1
    }

    fn call_off(&self) {
        unpoisoned(self.missing.lock()).1 = false;
        self.is_over.notify_all();
    }
}

/// Time that this thread has had a processor.
fn on_cpu_ns() -> Option<u64> {
    fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Runs `work` on each of the inputs, in a thread each. All start together. The calling thread works on one input.
pub fn run<I: Send, R: Send>(
    inputs: Vec<I>,
    work: impl Fn(I) -> R + Sync,
) -> Result<(Vec<R>, Timing)> {
    let slots: Vec<_> =
        inputs.into_iter().map(|input| (Mutex::new(Some(input)), Mutex::new(None))).collect();
    let timing = run_numbered(slots.len(), &|number| {
        let (input, result) = &slots[number];
        let input = unpoisoned(input.lock()).take();
        let done = input.map(&work);
        *unpoisoned(result.lock()) = done;
    })?;
    let results = slots.into_iter().filter_map(|(_, result)| unpoisoned(result.into_inner()));
    Ok((results.collect(), timing))
}

/// What a lock protects, even if its thread has panicked: the panic goes on where the thread is joined.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// [`run`] of a number for each thread. Compiled once for everything that is timed.
fn run_numbered(threads: usize, work: &(dyn Fn(usize) + Sync)) -> Result<Timing> {
    let start = Start::new(threads);
    let part = |number: usize| {
        let on_cpu_before_ns = on_cpu_ns();
        if !start.wait() {
            return None;
        }
        let started = Instant::now();
        work(number);
        let ended = Instant::now();
        let on_cpu_ns = on_cpu_ns().zip(on_cpu_before_ns).map(|(now, before)| now - before);
        Some(Part { started, ended, on_cpu_ns })
    };
    let done: Vec<Part> = if threads == 1 {
        part(0).into_iter().collect()
    } else {
        std::thread::scope(|scope| {
            let part = &part;
            let begin = |number| Builder::new().spawn_scoped(scope, move || part(number));
            let handles: Vec<_> = (0..threads).map(begin).collect();
            if handles.iter().any(io::Result::is_err) {
                start.call_off();
            }
            let join = |handle: io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
                let handle = handle.with_context(|| format!("starting {threads} threads"))?;
                Ok(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            };
            let done: Result<Vec<Option<Part>>> = handles.into_iter().map(join).collect();
            done.map(|parts| parts.into_iter().flatten().collect())
        })?
    };
    let started = done.iter().map(|part| part.started).min();
    let ended = done.iter().map(|part| part.ended).max();
    let (started, ended) = started.zip(ended).context("a crew of no threads")?;
    let elapsed_s = (ended - started).as_secs_f64().max(1e-9);
    // The kernel counts in ticks of some milliseconds.
    let on_cpu_ns: Option<u64> = done.iter().map(|part| part.on_cpu_ns).sum();
    let cpu_share = on_cpu_ns
        .filter(|_| elapsed_s >= CPU_SHARE_ELAPSED_MIN_S)
        .map(|ns| ns as f64 / 1e9 / (elapsed_s * threads as f64));
    Ok(Timing { elapsed_s, cpu_share })
}

/// Works through `words` with `threads` threads, a contiguous part each. `work` returns the number of wrong answers in
/// its part; any wrong answer is an error.
pub fn check<W: Sync>(
    op: &str,
    words: &[W],
    threads: usize,
    work: &(dyn Fn(&[W]) -> u64 + Sync),
) -> Result<Timing> {
    let (wrong, timing) = run(split(words, threads), work)?;
    refuse_wrong(op, wrong.into_iter().sum(), words.len() as u64)?;
    Ok(timing)
}

/// A contiguous part of `words` for each thread.
pub fn split<W>(words: &[W], threads: usize) -> Vec<&[W]> {
    workload::Part::all(threads)
        .map(|part| part.range(words.len() as u64))
        .map(|range| &words[range.start as usize..range.end as usize])
        .collect()
}

/// Fails if any answer was wrong.
pub fn refuse_wrong(op: &str, wrong: u64, of: u64) -> Result<()> {
    ensure!(wrong == 0, "{op}: {wrong} of {of} answers are wrong");
    Ok(())
}
