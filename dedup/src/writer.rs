//! The child process: it stores what it is handed, until it is killed or the work ends.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use firndex::{Options, Store};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::crew::on_threads;
use crate::error::{Error, Result};
use crate::tempo::Span;
use crate::wire::{Reports, read_frame};

/// Stores the chunks that come over stdin in the store `pool`, which exists, and reports them on
/// stdout: the work of the process that [`Demonstration::writer`](crate::Demonstration::writer)
/// starts. It dies with the process `parent`. A thread that fails ends the process by `fail`, since
/// the other threads may wait for work that comes only after its reports.
pub fn store_chunks(pool: &Path, threads: usize, parent: u32, fail: fn(Error) -> !) -> Result<()> {
    die_with(parent)?;
    let store = Options::default().open_store(pool).map_err(Error::pool("opening the pool"))?;

    let work = io::stdin().as_fd().try_clone_to_owned();
    let work = File::from(work.map_err(Error::system("opening stdin"))?);
    let work = Mutex::new(BufReader::new(work));
    // `io::stdout` would cut the writes at newlines, which the bytes of reports may hold.
    let reports = io::stdout().as_fd().try_clone_to_owned();
    let reports = File::from(reports.map_err(Error::system("opening stdout"))?);
    let started = Instant::now();
    on_threads(threads, || {
        if let Err(error) = store_all(&store, &work, &reports, started) {
            fail(error);
        }
    });
    store.close().map_err(Error::pool("closing the pool"))
}

/// Lets this process die with `parent`, the process that has started it.
pub fn die_with(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Error::system("asking to die with the parent process")(error.into()))?;
    // It may have died before it was asked for, and then no signal comes.
    let found = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if found != Some(parent) {
        return Err(Error::Orphaned(parent));
    }
    Ok(())
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
            read_frame(&mut *input, &mut buffer).map_err(Error::system("reading the work"))?
        };
        let Some(jobs) = jobs else {
            return Ok(());
        };
        let began = started.elapsed();
        for job in jobs {
            let job = job.map_err(Error::system("reading the work"))?;
            // Whatever location is there already came first, and stays.
            store.insert(job.digest, job.location).map_err(Error::pool("storing a chunk"))?;
            reports.add(job.chunk);
        }
        let span = Span { began, ended: started.elapsed() };
        reports.send(&mut output, span).map_err(Error::system("reporting"))?;
    }
}
