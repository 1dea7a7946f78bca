//! A process that fills something, reports that, and is then killed with SIGKILL.
//!
//! It is this program started once more: an environment variable holds its order, and [`crate::run`] obeys before it
//! does anything else.

use crate::setting::Setting;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Environment variable that tells a process what to fill.
const ORDER: &str = "FIRNDEX_BENCH_FILL";
/// What that process prints when it has done so, at the beginning of a line.
const FILLED: &str = "firndex-lab bench: filled";
/// What it prints if it could not; the reason follows.
const FAILED: &str = "firndex-lab bench: failed: ";

/// What to fill.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// A table in a pool.
    Table(TableOrder),
    /// A contender's store of byte strings.
    Store(StoreOrder),
}

/// What table to fill.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TableOrder {
    pub(crate) path: PathBuf,
    pub(crate) engine: String,
    pub(crate) pairs: u64,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

/// What store to load, which is a contender's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoreOrder {
    pub(crate) contender: String,
    pub(crate) directory: PathBuf,
    pub(crate) pairs: u64,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

/// Makes a process fill something, and kills it when it has reported that.
pub(crate) fn fill_and_kill(order: &Order, setting: &Setting) -> Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let arguments = match &setting.again {
        Some(arguments) => arguments.clone(),
        None => std::env::args_os().skip(1).collect(),
    };
    let child = Command::new(program)
        .args(arguments)
        .env(ORDER, serde_json::to_string(order)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting a process that fills a pool")?;
    let mut filler = Filler { child };
    filler.wait_until_filled()
}

/// A process that is killed when this is dropped.
struct Filler {
    child: Child,
}

impl Filler {
    fn wait_until_filled(&mut self) -> Result<()> {
        let output = self.child.stdout.take().context("the filling process has no output")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("listening to the filling process")?;
            if line.starts_with(FILLED) {
                return Ok(());
            }
            if let Some(reason) = line.strip_prefix(FAILED) {
                bail!("filling a pool: {reason}");
            }
        }
        bail!("the process that fills a pool ended without a word")
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If this process was started to fill something, does so, says so on standard output, and waits to be killed (or for
/// its parent's end). Returns whether it was started for that.
pub(crate) fn fill_if_ordered(fill: impl FnOnce(&Order) -> Result<Box<dyn Send>>) -> Result<bool> {
    let Ok(order) = std::env::var(ORDER) else { return Ok(false) };
    let mut output = io::stdout();
    let order = serde_json::from_str(&order).map_err(anyhow::Error::from);
    match order.and_then(|order| fill(&order)) {
        Err(error) => writeln!(output, "\n{FAILED}{error:#}")?,
        Ok(_filled) => {
            writeln!(output, "\n{FILLED}")?;
            output.flush()?;
            io::stdin().read_to_end(&mut Vec::new())?;
        }
    }
    Ok(true)
}
