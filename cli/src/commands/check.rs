//! `firndex check`: is the pool sound?

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::HumanCount;
use serde_json::json;

use crate::failure::Status;
use crate::output;
use crate::pool::Pool;
use crate::progress;
use crate::reading::Reading;

/// Check that every pair is where a look-up will find it
///
/// Reads the whole pool and prints what is wrong with it. The exit status is 0 if it is sound, and 2 if it is not or
/// cannot be opened. A pool that was cut off is recovered first. One that was closed properly is only read.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex check fruit.firn
  firndex check fruit.firn --json    {\"ok\":true,\"pairs\":…,\"looked_at\":…,\"faults\":…,\"findings\":[]}")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let pool = Pool::open_to_read(&arguments.pool, &arguments.reading)?;
    let step = progress::waiting("checking");
    let report = pool.check();
    drop(step);
    let report = report?;
    pool.close()?;
    let sound = report.is_sound();

    if arguments.json {
        output::json(&json!({
            "ok": sound,
            "pairs": report.pairs,
            "looked_at": report.looked_at,
            "faults": report.faults,
            "findings": report.findings,
        }))?;
    } else {
        let mut text = String::new();
        for finding in &report.findings {
            let _ = writeln!(text, "{finding}");
        }
        let _ = writeln!(
            text,
            "{}: {} pairs, {} places looked at, {} faults",
            if sound { "sound" } else { "not sound" },
            HumanCount(report.pairs),
            HumanCount(report.looked_at),
            HumanCount(report.faults),
        );
        output::data(text.as_bytes())?;
    }
    if sound {
        return Ok(Status::Done);
    }
    output::complain(&format!(
        "{} is not sound: {} faults",
        arguments.pool.display(),
        report.faults
    ));
    Ok(Status::Failed)
}
