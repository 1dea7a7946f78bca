//! The command line of firndex: make, fill, read and check pools, and a demonstration that kills
//! its own writer.
//!
//! Data goes to stdout, everything else to stderr. The exit status is 0 for done or found, 1 for absent, 2 for an
//! error.

mod advice;
mod base64;
mod commands;
mod count;
mod failure;
mod format;
mod input;
mod output;
mod pool;
mod progress;
mod quote;
mod reading;
mod safety;
mod sizes;
mod typed;
mod waiting;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Where that fails, a limit on the length of files ends the command, as it would any other.
    let _ = pmem::signals::ignore_file_limit_signal();
    match commands::run(commands::parse()) {
        Ok(status) => status.into(),
        Err(error) => {
            output::error(&error);
            failure::Status::Failed.into()
        }
    }
}
