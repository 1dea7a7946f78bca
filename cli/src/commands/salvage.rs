//! `firndex salvage`: what still reads well of a damaged pool.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use firndex::{Kind, Options, Orphans, Salvage, Salvaged, SuperblockState};
use indicatif::HumanBytes;
use serde_json::json;

use super::target::Target;
use crate::count::counted;
use crate::explain::explain;
use crate::failure::{Failure, Status};
use crate::output;
use crate::pool;
use crate::progress;
use crate::sizes::{self, AnyKey, AnyValue};

/// Copy out of a damaged or refused pool what still reads well
///
/// For pools that cannot be opened or fail their check, if there is no backup. Nothing in POOL is trusted: an item must
/// fit its checksum, and a key must lie where it belongs. OUT is a new pool on the same engine. POOL is only read; it
/// may also be the directory of its checkpoint (POOL.safe).
///
/// On most engines values of a table have no checksum, so a value with flipped bits is copied as it is. If both
/// superblocks (the pool's description of itself) are lost, all items of a store that are found are copied, including
/// those that were removed or replaced; of a table nothing can be found then.
///
/// The exit status is 0 if nothing is missing. It is 2 if something is, or may be: POOL was not closed, or is a
/// checkpoint, or nothing was found. OUT has the rest.
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
    /// Also copy pairs that the index does not lead to: they were removed, or a damaged part of it led to them
    #[arg(long)]
    orphans: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    let Arguments { pool: path, target, orphans } = arguments;
    let salvage = Salvage::open(path).map_err(|error| explain(path, error))?;
    let kind = salvage.kind();
    let (out, existing, options) = (target.out(), target.existing(), Options::default());
    let sizes = salvage.sizes().filter(|_| kind == Some(Kind::Table));
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
    let saved =
        saved.map_err(|error| target.explain(format!("salvaging {}", path.display()), error))?;
    if target.wants_json() {
        output::json(&as_json(&saved))?;
    } else {
        output::data(as_text(&saved).as_bytes())?;
        output::talk(format_args!(
            "wrote {} to {} ({})",
            counted(saved.pairs, "pair"),
            out.display(),
            HumanBytes(saved.bytes)
        ));
    }
    if saved.is_complete() {
        return Ok(Status::Done);
    }
    output::error(&incomplete(path, &saved, *orphans).into());
    Ok(Status::Failed)
}

/// What is to be said of a pool of which something is missing, or may be.
fn incomplete(path: &Path, saved: &Salvaged, has_orphans: bool) -> Failure {
    let shown = path.display();
    let mut if_closed = saved.clone();
    if_closed.closed = true;
    let what = if saved.pairs == 0 {
        format!("nothing of {shown} could be saved")
    } else if if_closed.is_complete() {
        format!("{shown} may have had more: it was not closed, or is a checkpoint")
    } else {
        format!("not all of {shown} could be saved")
    };
    let mut safe = path.as_os_str().to_owned();
    safe.push(".safe");
    let safe = Path::new(&safe);
    let hint = if saved.orphans > 0 && !has_orphans {
        "pairs that the index does not lead to may be what is missing: --orphans copies them, too"
            .into()
    } else if safe.exists() {
        format!(
            "try its checkpoint, too, and keep the larger: firndex salvage {} OUT",
            safe.display()
        )
    } else {
        "if there is a backup, restore that".into()
    };
    Failure::new(what, hint)
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
        "closed": saved.closed,
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
    if saved.superblock != SuperblockState::Lost && !saved.closed {
        let says = "this is not a closed pool: what was written last may be missing or torn";
        lines.push(says.into());
    }
    for (count, noun, what) in [
        (
            saved.misplaced,
            "pair",
            "left out: no look-up finds such a key there, so the key or its place is damaged",
        ),
        (saved.unreadable, "pair", "left out: what the index leads to does not fit its checksum"),
        (
            saved.contradictory,
            "pair",
            "left out: the same key is there with the value that look-ups find",
        ),
        (saved.unread_bytes, "byte", "of the index missing or unreadable, with all pairs in them"),
        (
            saved.orphans,
            "pair",
            "that the index does not lead to: removed earlier, or lost with a damaged part of it",
        ),
    ] {
        if count > 0 {
            lines.push(format!("{} {what}", counted(count, noun)));
        }
    }
    if let Some(expected) = saved.expected.filter(|expected| *expected != saved.pairs) {
        lines.push(format!("{} in the pool when it was closed", counted(expected, "pair")));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
