//! `firndex stat`: what a pool holds and costs.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use firndex::Stats;
use indicatif::{BinaryBytes, HumanCount};
use serde_json::{Value, json};

use crate::failure::Status;
use crate::output::{self, finite};
use crate::pool::Pool;

/// Print how many pairs a pool holds, how full and how large it is
///
/// The sidecar is memory that an open pool takes beside its file. A pool that was closed properly
/// is only read; one that was cut off is recovered first, and the time that took is shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex stat fruit.firn
  firndex stat fruit.firn --json | jq .load_factor")]
pub(crate) struct Arguments {
    /// The pool's file
    pool: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let pool = Pool::open_to_read(&arguments.pool)?;
    let stats = pool.stats();
    pool.close()?;
    if arguments.json {
        output::json(&to_json(&stats))?;
    } else {
        output::data(to_text(&stats).as_bytes())?;
    }
    Ok(Status::Done)
}

fn to_json(stats: &Stats) -> Value {
    let levels: Vec<Value> = stats
        .levels
        .iter()
        .map(|level| {
            json!({
                "name": level.name,
                "pairs": level.pairs,
                "slots": level.slots,
                "pool_bytes": level.pool_bytes,
                "sidecar_bytes": level.sidecar_bytes,
            })
        })
        .collect();
    json!({
        "kind": stats.kind.to_string(),
        "engine": stats.engine.to_string(),
        "medium": stats.medium.to_string(),
        "pairs": stats.pairs,
        "capacity": stats.capacity,
        "load_factor": finite(stats.load_factor),
        "levels": levels,
        "resizing": stats.resizing,
        "resizes": stats.resizes,
        "pool_bytes": stats.pool_bytes,
        "sidecar_bytes": stats.sidecar_bytes,
        "heap_bytes": stats.heap_bytes,
        "heap_used_bytes": stats.heap_used_bytes,
        "bytes_per_pair": finite(stats.bytes_per_pair),
        "incarnation": stats.incarnation,
        "uuid": uuid(stats.uuid),
        "recovery_ms": finite(stats.recovery_ms),
    })
}

fn to_text(stats: &Stats) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    row("kind", stats.kind.to_string());
    row("engine", stats.engine.to_string());
    row("medium", stats.medium.to_string());
    row("pairs", HumanCount(stats.pairs).to_string());
    row("capacity", HumanCount(stats.capacity).to_string());
    row("load factor", percent(stats.load_factor));
    for level in &stats.levels {
        row(
            &format!("  {}", level.name),
            format!(
                "{} pairs in {} slots, {} of the pool, {} of memory",
                HumanCount(level.pairs),
                HumanCount(level.slots),
                BinaryBytes(level.pool_bytes),
                BinaryBytes(level.sidecar_bytes),
            ),
        );
    }
    let resizing = if stats.resizing { ", one under way" } else { "" };
    row("resizes", format!("{}{resizing}", stats.resizes));
    row("pool", BinaryBytes(stats.pool_bytes).to_string());
    row("sidecar", BinaryBytes(stats.sidecar_bytes).to_string());
    row(
        "heap",
        format!(
            "{}, {} of it in use",
            BinaryBytes(stats.heap_bytes),
            BinaryBytes(stats.heap_used_bytes),
        ),
    );
    row("bytes per pair", format!("{:.1}", finite(stats.bytes_per_pair)));
    row("incarnation", format!("{} (times opened for writing)", HumanCount(stats.incarnation)));
    row("recovery", format!("{:.3} ms", finite(stats.recovery_ms)));
    row("uuid", uuid(stats.uuid));
    text
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * finite(ratio))
}

/// The usual five groups of hexadecimal digits.
fn uuid(bits: u128) -> String {
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_has_five_groups() {
        assert_eq!(
            uuid(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            "01234567-89ab-cdef-0123-456789abcdef"
        );
        assert_eq!(uuid(1), "00000000-0000-0000-0000-000000000001");
    }
}
