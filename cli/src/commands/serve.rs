//! `firndex serve`: the owner of a pool that does nothing else.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use firndex::Role;

use crate::failure::{Failure, Status};
use crate::interrupt::Interrupts;
use crate::output;
use crate::pool::AnyPool;
use crate::safety::Safety;

/// How often a pool is tried that another process serves.
const PAUSE: Duration = Duration::from_millis(20);

/// Keep a pool open for other processes, until a signal ends it
///
/// Other processes open the pool as usual meanwhile, commands as well as programs, and have this one make their
/// changes. No processor time is spent while nobody asks. SIGTERM, SIGINT (Ctrl-C) and SIGHUP close the pool; a program
/// that has it open then carries on with it by itself. Programs that open a pool with `Options::guests` need no such
/// process.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex serve fruit.firn &
  firndex put fruit.firn apple red     made by the process above
  firndex serve fruit.firn --wait 60   take over from one that is ending")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    safety: Safety,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let path = arguments.pool.display();
    // Before the pool is open: a signal that comes then closes it, too.
    let interrupts = Interrupts::watch().context("watching for signals")?;
    let started = Instant::now();
    let time = arguments.safety.log.waiting.time();
    let pool = loop {
        let pool = AnyPool::open_to_serve(&arguments.pool, &arguments.safety)?;
        if pool.role() == Role::Owner {
            break pool;
        }
        drop(pool);
        interrupts.check()?;
        let left = time.saturating_sub(started.elapsed());
        if left.is_zero() {
            let hint = "end that one first, or wait until it ends: --wait SECONDS";
            let what = format!("another process serves {path} already");
            return Err(Failure::new(what, hint).into());
        }
        std::thread::sleep(PAUSE.min(left));
    };
    output::talk(format_args!("serving {path} until a signal ends this"));
    interrupts.wait().context("waiting for a signal")?;
    pool.close().with_context(|| format!("closing {path}"))?;
    Ok(Status::Done)
}
