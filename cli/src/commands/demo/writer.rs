//! `firndex demo-writer`: the process that `demo` starts and kills.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::failure::Status;
use crate::output;
use crate::program::Start;

/// The hidden subcommand that runs it.
pub(in crate::commands) const COMMAND: &str = "demo-writer";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The pool's file, a store that exists
    #[arg(long)]
    pool: PathBuf,
    /// Threads that store
    #[arg(long)]
    threads: usize,
    /// The process whose death ends this one
    #[arg(long)]
    parent: u32,
}

/// What starts it.
pub(super) fn command(again: &Start, pool: &Path, threads: usize) -> Command {
    // In one argument, since a file's name may start like an option.
    let mut pool_argument = OsString::from("--pool=");
    pool_argument.push(pool);
    let mut command = again.command();
    command
        .arg(COMMAND)
        .arg(pool_argument)
        .arg(format!("--threads={threads}"))
        .arg(format!("--parent={}", std::process::id()));
    command
}

pub(in crate::commands) fn run(arguments: &Arguments) -> Result<Status> {
    dedup::store_chunks(&arguments.pool, arguments.threads, arguments.parent, |error| {
        output::error(&error.into());
        std::process::exit(2)
    })?;
    Ok(Status::Done)
}
