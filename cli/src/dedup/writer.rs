//! The child process: it stores what it is handed, until it is killed or the work ends.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use firndex::{Options, Store};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::tempo::Span;
use super::wire::{Reports, read_frame};
use crate::failure::{self, Status};

/// The hidden subcommand that runs it.
pub(crate) const COMMAND: &str = "demo-writer";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's file, a store that exists
    #[arg(long)]
    pub(crate) pool: PathBuf,
    /// Threads that store
    #[arg(long)]
    pub(crate) threads: usize,
    /// The process whose death ends this one
    #[arg(long)]
    pub(crate) parent: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("asking to die with the parent process")?;
    // It may have died before it was asked for, and then no signal comes.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(arguments.parent) {
        bail!("process {} is gone, which this one works for", arguments.parent);
    }
    let store = Options::default()
        .open_store(&arguments.pool)
        .with_context(|| format!("opening {}", arguments.pool.display()))?;

    let work = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let work = Mutex::new(BufReader::new(work));
    // `io::stdout` would cut the writes at newlines, which the bytes of reports may hold.
    let reports = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                if let Err(error) = store_all(&store, &work, &reports, started) {
                    failure::print(&error);
                    // The other threads may wait for work that comes only after this thread's
                    // reports: waiting for them would be for ever.
                    std::process::exit(2);
                }
            });
        }
    });
    store.close().with_context(|| format!("closing {}", arguments.pool.display()))?;
    Ok(Status::Done)
}

fn store_all(
    store: &Store,
    work: &Mutex<impl Read>,
    mut output: impl Write,
    started: Instant,
) -> Result<()> {
    let mut buffer = Vec::new();
    let mut reports = Reports::default();
    loop {
        let jobs = {
            let mut input = work.lock().unwrap_or_else(PoisonError::into_inner);
            read_frame(&mut *input, &mut buffer).context("reading the work")?
        };
        let Some(jobs) = jobs else {
            return Ok(());
        };
        let began = started.elapsed();
        for job in jobs {
            let job = job?;
            // Whatever place is there already came first, and stays.
            store.insert(job.digest, job.place).context("storing a chunk")?;
            reports.add(job.chunk);
        }
        let span = Span { began, ended: started.elapsed() };
        reports.send(&mut output, span).context("reporting")?;
    }
}
