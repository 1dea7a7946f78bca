//! Finds errors that can be known before an hour is spent on measuring.

use crate::choices::Suite;
use crate::contender::Contender;
use crate::ground::BYTES_PER_PAIR;
use crate::medium::Medium;
use crate::options::Options;
use crate::suite::{open, pairs};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Fails if these options cannot lead to rows.
pub(crate) fn check(
    suite: Suite,
    options: &Options,
    contenders: &[Box<dyn Contender>],
) -> Result<()> {
    check_names(options, contenders)?;
    for path in [&options.json, &options.html].into_iter().flatten() {
        check_writable(path)?;
    }
    let (from, pairs) = (options.grow_from(), pairs(suite, options));
    ensure!(
        from < pairs || !matches!(suite, Suite::Resize | Suite::All),
        "no growth is left to measure from --grow-from {from} to --pairs {pairs}"
    );
    if options.media.contains(&Medium::Mapped)
        || matches!(
            suite,
            Suite::Open | Suite::Durable | Suite::Store | Suite::Values | Suite::Cache | Suite::All
        )
    {
        let directory = options.directory();
        tempfile::tempfile_in(&directory)
            .with_context(|| format!("making pools in {}", directory.display()))?;
    }
    ensure!(
        options.pairs.len() <= 1 || suite == Suite::Open,
        "only suite open takes several numbers of pairs"
    );
    if matches!(suite, Suite::Open | Suite::All) {
        open::check(&options.openings(), &options.directory())?;
    }
    check_memory(pairs, BYTES_PER_PAIR)
}

fn check_names(options: &Options, contenders: &[Box<dyn Contender>]) -> Result<()> {
    // There is one contender for each type of map that it takes.
    let mut names: Vec<&str> = contenders.iter().map(|contender| contender.name()).collect();
    names.dedup();
    for name in &options.engines {
        ensure!(
            names.contains(&name.as_str()),
            "no contender is called {name:?}; there are {}",
            names.join(", ")
        );
    }
    Ok(())
}

/// Leaves an existing file unchanged, and an empty file if there was none.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(|_| ()).with_context(|| format!("writing {}", path.display()))
}

/// A run needs at least what a table and the list of its keys take at once.
pub(crate) fn check_memory(pairs: u64, bytes_per_pair: u64) -> Result<()> {
    let needed = pairs.saturating_mul(bytes_per_pair + 8);
    let Some(available) = available_bytes() else { return Ok(()) };
    ensure!(
        needed <= available,
        "{pairs} pairs need at least {} MiB of memory, and {} MiB are available",
        needed >> 20,
        available >> 20
    );
    Ok(())
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
