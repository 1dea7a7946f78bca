//! `firndex man`: the manual pages.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap_mangen::Man;

use crate::failure::{Failure, Status};
use crate::output;

/// Print the manual page, or write those of all commands to a directory
///
/// Each command has a page, firndex-COMMAND.1. Existing pages in the directory are replaced.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex man | man -l -
  firndex man ~/.local/share/man/man1          then: man firndex-load")]
pub(crate) struct Arguments {
    /// The directory to write to [default: print the program's page to stdout]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let Some(dir) = &arguments.dir else {
        let mut page = Vec::new();
        Man::new(super::command()).render(&mut page)?;
        output::data(&page)?;
        return Ok(Status::Done);
    };
    clap_mangen::generate_to(super::command(), dir).map_err(|error| {
        let hint = "name an existing directory that can be written";
        Failure::new(format!("writing manual pages to {}", dir.display()), hint).caused_by(error)
    })?;
    Ok(Status::Done)
}
