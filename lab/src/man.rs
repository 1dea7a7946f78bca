//! `firndex-lab man`: the manual pages.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command};
use cli::failure::Status;
use cli::teaching;

/// Print the manual page, or write those of all commands to a directory
///
/// Each command has a page, firndex-lab-COMMAND.1. Existing pages in the directory are replaced.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab man | man -l -
  firndex-lab man ~/.local/share/man/man1          then: man firndex-lab-crash")]
pub(crate) struct Arguments {
    /// The directory to write to [default: print the program's page to stdout]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<Status> {
    teaching::describe(program, arguments.dir.as_deref())
}
