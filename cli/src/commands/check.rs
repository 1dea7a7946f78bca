//! `firndex check`: is the pool sound?

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use firndex::{CheckReport, Verified};
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::count::counted;
use crate::explain::{explain, inspect};
use crate::failure::{Failure, Status};
use crate::output;
use crate::pool::AnyPool;
use crate::progress;
use crate::reading::Reading;

/// Check that every pair is where a look-up will find it
///
/// Reads the whole pool and prints what is wrong with it. If there are sums of the closed file (POOL.safe/sums, see
/// `firndex create --sums`), the file is compared with them first. The exit status is 0 if the pool is sound, and 2 if
/// it is not or cannot be opened. A pool that was cut off is recovered first. One that was closed properly is only
/// read. Keys and values of a table may have any size.
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
    let (path, reading) = (&arguments.pool, &arguments.reading);
    if !reading.read_only {
        reading.log.restore(path)?;
    }
    let info = inspect(path)?;
    let step = progress::waiting("comparing with the sums");
    let verified = reading.log.waiting.until_free(path, &step, || firndex::verify(path));
    drop(step);
    let verified = verified.map_err(|error| explain(path, error))?;
    let mut report = sums_report(&verified);
    let opened = AnyPool::open_to_check(path, &info, reading);
    if opened.is_err() && report.faults > 0 {
        // What keeps it from being opened lies there.
        output::data(lines(&report.findings).as_bytes())?;
    }
    let pool = opened?;
    let step = progress::waiting("checking");
    let found = pool.check();
    drop(step);
    report.merge(found?);
    pool.close()?;
    let is_sound = report.is_sound();
    if arguments.json {
        output::json(&json!({
            "ok": is_sound,
            "pairs": report.pairs,
            "looked_at": report.looked_at,
            "faults": report.faults,
            "findings": report.findings,
            "sums": sums_to_json(&verified),
        }))?;
    } else {
        let text = lines(&report.findings) + &summary(&report, &verified);
        output::data(text.as_bytes())?;
    }
    if is_sound {
        return Ok(Status::Done);
    }
    let shown = path.display();
    let failure = Failure::new(
        format!("{shown} is not sound: {}", counted(report.faults, "fault")),
        format!("restore a backup, or copy out what still reads well: firndex salvage {shown} OUT"),
    );
    output::error(&failure.into());
    Ok(Status::Failed)
}

/// What the sums found fault with.
fn sums_report(verified: &Verified) -> CheckReport {
    let mut report = CheckReport::default();
    if let Verified::Damaged { damaged_bytes, damaged, .. } = verified {
        for range in damaged {
            report.fault(&|| {
                format!(
                    "the bytes from {:#x} to {:#x} are not what was closed",
                    range.start, range.end
                )
            });
        }
        if damaged.iter().map(|range| range.end - range.start).sum::<u64>() < *damaged_bytes {
            report.fault(&|| format!("{} differ in all", HumanBytes(*damaged_bytes)));
        }
    }
    report
}

fn sums_to_json(verified: &Verified) -> Value {
    match verified {
        Verified::Sound { bytes } => json!({ "state": "sound", "bytes": bytes }),
        Verified::Damaged { bytes, damaged_bytes, .. } => {
            json!({ "state": "damaged", "bytes": bytes, "damaged_bytes": damaged_bytes })
        }
        Verified::Unknown { reason } => json!({ "state": "unknown", "reason": reason }),
        _ => Value::Null,
    }
}

fn lines(findings: &[String]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

fn summary(report: &CheckReport, verified: &Verified) -> String {
    let mut parts = vec![
        counted(report.pairs, "pair"),
        format!("{} looked at", counted(report.looked_at, "place")),
    ];
    if let Verified::Sound { bytes } | Verified::Damaged { bytes, .. } = verified {
        parts.push(format!("{} compared with their sums", HumanBytes(*bytes)));
    }
    parts.push(counted(report.faults, "fault"));
    let verdict = if report.is_sound() { "sound" } else { "not sound" };
    format!("{verdict}: {}\n", parts.join(", "))
}
