//! `firndex salvage`: what still reads well of a damaged pool.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use firndex::{Kind, Options, Orphans, Salvage, Salvaged, SuperblockState};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

use super::target::Target;
use crate::failure::Status;
use crate::output;
use crate::pool;
use crate::progress;
use crate::sizes::{self, AnyKey, AnyValue};

/// Copy out of a damaged or refused pool what still reads well
///
/// For pools that cannot be opened or fail their check, if there is no backup. Nothing in POOL is trusted: an item must
/// fit its checksum, and a key must lie where it belongs. OUT is a new pool on the same engine. POOL is only read; it
/// may also be a checkpoint (POOL.safe).
///
/// On most engines values of a table have no checksum, so a value with flipped bits is copied as it is. If both
/// superblocks (the pool's description of itself) are lost, all items of a store that are found are copied, including
/// those that were removed or replaced; of a table nothing can be found then.
///
/// The exit status is 0 if nothing is missing, and 2 if something is; OUT then has the rest.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex salvage fruit.firn saved.firn
  firndex salvage fruit.firn saved.firn --orphans    also what may have been removed
  firndex salvage fruit.firn.safe saved.firn --json")]
pub(crate) struct Arguments {
    /// The damaged pool's file
    pool: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Also copy items that nothing leads to: their pairs were removed, or their slots are damaged
    #[arg(long)]
    orphans: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let Arguments { pool: path, target, orphans } = arguments;
    let salvage = Salvage::open(path).map_err(|error| pool::explain(path, error))?;
    let (out, existing, options) = (target.out(), target.existing(), Options::default());
    let sizes = salvage.sizes().filter(|_| salvage.kind() == Some(Kind::Table));
    if let Some((key_bytes, value_bytes)) = sizes {
        pool::refuse_long_pairs(path, key_bytes, value_bytes)?;
    }
    let bar = progress::waiting("salvaging");
    let saved = match sizes {
        Some((8, 8)) => salvage.table_of::<u64, u64>(out, existing, &options),
        Some((key_bytes, value_bytes)) => {
            sizes::set(key_bytes, value_bytes);
            salvage.table_of::<AnyKey, AnyValue>(out, existing, &options)
        }
        None => {
            let orphans = if *orphans { Orphans::Copy } else { Orphans::Leave };
            salvage.store(out, existing, &options, orphans)
        }
    };
    bar.finish_and_clear();
    let saved = saved.with_context(|| format!("salvaging {}", path.display()))?;
    if target.wants_json() {
        output::json(&as_json(&saved))?;
    } else {
        output::data(as_text(&saved).as_bytes())?;
        output::talk(format_args!(
            "wrote {} pairs to {} ({})",
            HumanCount(saved.pairs),
            out.display(),
            HumanBytes(saved.bytes)
        ));
    }
    if saved.is_complete() {
        return Ok(Status::Done);
    }
    output::complain(&format!("not all of {} could be saved", path.display()));
    Ok(Status::Failed)
}

fn name(state: SuperblockState) -> &'static str {
    match state {
        SuperblockState::Sound => "sound",
        SuperblockState::Damaged => "damaged",
        SuperblockState::Lost => "lost",
    }
}

fn as_json(saved: &Salvaged) -> serde_json::Value {
    json!({
        "complete": saved.is_complete(),
        "pairs": saved.pairs,
        "expected": saved.expected,
        "superblock": name(saved.superblock),
        "misplaced": saved.misplaced,
        "unreadable": saved.unreadable,
        "contradictory": saved.contradictory,
        "orphans": saved.orphans,
        "unread_bytes": saved.unread_bytes,
        "bytes": saved.bytes,
        "findings": saved.findings,
    })
}

fn as_text(saved: &Salvaged) -> String {
    let mut lines = saved.findings.clone();
    if saved.superblock != SuperblockState::Sound {
        lines.push(format!("the superblock is {} in both copies", name(saved.superblock)));
    }
    for (count, what) in [
        (saved.misplaced, "keys left out, since they lay where they cannot be"),
        (saved.unreadable, "slots left out, since they lead to no item that fits its checksum"),
        (saved.contradictory, "keys met once more with another value"),
        (saved.unread_bytes, "bytes of the index that are missing or cannot be read"),
        (saved.orphans, "items that nothing leads to: removed, or their slots are damaged"),
    ] {
        if count > 0 {
            lines.push(format!("{} {what}", HumanCount(count)));
        }
    }
    if let Some(expected) = saved.expected.filter(|expected| *expected != saved.pairs) {
        lines.push(format!("{} pairs were in the pool when it was closed", HumanCount(expected)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
