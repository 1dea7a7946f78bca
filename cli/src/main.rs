//! The command line of firndex: make, fill, read and check pools, and a demonstration that kills
//! its own writer.
//!
//! Data goes to stdout, everything else to stderr. The exit status is 0 for done or found, 1 for absent or a broken
//! promise, 2 for an error.

mod advice;
mod base64;
mod closed;
mod commands;
mod count;
mod failure;
mod format;
mod input;
mod interrupt;
mod limits;
mod output;
mod packed;
mod pool;
mod progress;
mod quote;
mod reading;
mod safety;
mod sizes;
mod typed;
mod waiting;
mod whole_file;

use std::process::ExitCode;

fn main() -> ExitCode {
    let error = match limits::turn_into_errors().and_then(|()| commands::run()) {
        Ok(status) => return status.into(),
        Err(error) => error,
    };
    let ended = error.downcast_ref::<failure::Ended>();
    if ended.is_none_or(failure::Ended::is_told) {
        output::error(&error);
    }
    if let Some(ended) = ended {
        ended.end();
    }
    failure::Status::Failed.into()
}
