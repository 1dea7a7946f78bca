//! The command `firndex`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use cli::program::{self, Start};

fn main() -> ExitCode {
    program::run(cli::NAME, || cli::run(std::env::args_os(), again)).into()
}

fn again() -> Result<Start> {
    let program = std::env::current_exe().context("finding this program's own file")?;
    Ok(Start { program, arguments: Vec::new() })
}
