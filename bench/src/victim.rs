//! A process that opens something, reports what it has done with it, and then is told to close it, or is killed with
//! SIGKILL.
//!
//! It is this program started once more: an environment variable holds its order, and [`crate::run`] obeys before it
//! does anything else.

use crate::kept::Form;
use crate::setting::Setting;
use crate::written;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Environment variable that tells a process what to do.
const ORDER: &str = "FIRNDEX_BENCH_ORDER";
/// What that process prints when it has done so, at the beginning of a line; its report follows.
const DONE: &str = "firndex-lab bench: done: ";
/// What it prints when it has closed what it had open; what its own processes have written follows.
const CLOSED: &str = "firndex-lab bench: closed: ";
/// What it prints if it could not; the reason follows.
const FAILED: &str = "firndex-lab bench: failed: ";
/// What tells it to close.
const CLOSE: &str = "close";

/// What to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Load a contender's store of byte strings.
    Load(LoadOrder),
    /// Do a task of suite `open`.
    Open(OpenOrder),
    /// Warm a contender's cache up.
    Warm(WarmOrder),
}

/// What store to load, which is a contender's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoadOrder {
    pub(crate) contender: String,
    pub(crate) directory: PathBuf,
    pub(crate) pairs: u64,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

/// What cache to warm up, by how many of its trace's keys.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WarmOrder {
    pub(crate) contender: String,
    pub(crate) directory: PathBuf,
    pub(crate) pairs: u64,
    pub(crate) seed: u64,
}

/// What to do with the store of suite `open`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenOrder {
    pub(crate) contender: String,
    pub(crate) form: Form,
    pub(crate) directory: PathBuf,
    pub(crate) pools: Option<PathBuf>,
    pub(crate) pairs: u64,
    pub(crate) seed: u64,
    /// How many puts there were since all pairs were there.
    pub(crate) changed: u64,
    pub(crate) task: Task,
}

/// What to do once it is open.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Put all pairs.
    Fill,
    /// Look a pair up, put one, or both in turn, each as soon as possible. Then look at what was put before.
    Touch { get: bool, put: bool },
    /// Put some pairs, and perhaps sync.
    Put { pairs: u64, synced: bool },
}

impl Task {
    /// How many pairs it puts again.
    pub(crate) fn puts(self) -> u64 {
        match self {
            Task::Fill => 0,
            Task::Touch { put, .. } => u64::from(put),
            Task::Put { pairs, .. } => pairs,
        }
    }
}

/// What a process has done.
pub(crate) struct Obeyed {
    /// Its report, of one line.
    pub(crate) report: String,
    /// Closes what it has open. Returns the bytes that other processes have written for it.
    pub(crate) close: Box<dyn FnOnce() -> Result<u64>>,
}

/// A process that has done as ordered, and still has everything open. It is killed when this is dropped.
pub(crate) struct Victim {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    report: String,
}

impl Victim {
    /// Starts a process, and waits until it has done its order.
    pub(crate) fn obeying(order: &Order, setting: &Setting) -> Result<Victim> {
        let program = std::env::current_exe().context("finding this program")?;
        let arguments = match &setting.again {
            Some(arguments) => arguments.clone(),
            None => std::env::args_os().skip(1).collect(),
        };
        let mut child = Command::new(program)
            .args(arguments)
            .env(ORDER, serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a process that opens a store")?;
        let output = child.stdout.take();
        let said = BufReader::new(output.context("that process has no output")?).lines();
        let mut victim = Victim { child, said, report: String::new() };
        victim.report = victim.hears(DONE)?;
        Ok(victim)
    }

    fn hears(&mut self, what: &str) -> Result<String> {
        for line in &mut self.said {
            let line = line.context("listening to the process that opens a store")?;
            if let Some(rest) = line.strip_prefix(what) {
                return Ok(rest.to_owned());
            }
            if let Some(reason) = line.strip_prefix(FAILED) {
                bail!("in a process of its own: {reason}");
            }
        }
        bail!("the process that opens a store ended without a word")
    }

    /// What it reported.
    pub(crate) fn report(&self) -> &str {
        &self.report
    }

    /// Has it close what is open. Returns the bytes that were written by it, and for it.
    pub(crate) fn close(mut self) -> Result<u64> {
        let mut input = self.child.stdin.take().context("that process has no input")?;
        writeln!(input, "{CLOSE}").context("telling a process to close a store")?;
        let by_others: u64 = self.hears(CLOSED)?.parse()?;
        let bytes = written::by_ended(&self.child)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the process that closed a store ended with {status}");
        Ok(bytes + by_others)
    }

    /// Kills it. Returns the bytes that it had written.
    pub(crate) fn kill(mut self) -> Result<u64> {
        self.child.kill()?;
        written::by_ended(&self.child)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If this process was started to do something, does so, says so on standard output, and waits to be told to close, to
/// be killed, or for its parent's end. Returns whether it was started for that.
pub(crate) fn obey_if_ordered(obey: impl FnOnce(&Order) -> Result<Obeyed>) -> Result<bool> {
    let Ok(order) = std::env::var(ORDER) else { return Ok(false) };
    let mut output = io::stdout();
    let mut say = |what: &str| -> io::Result<()> {
        writeln!(output, "\n{what}")?;
        output.flush()
    };
    let order = serde_json::from_str(&order).map_err(anyhow::Error::from);
    match order.and_then(|order| obey(&order)) {
        Err(error) => say(&format!("{FAILED}{error:#}"))?,
        Ok(Obeyed { report, close }) => {
            say(&format!("{DONE}{report}"))?;
            let mut told = String::new();
            io::stdin().read_line(&mut told)?;
            if told.trim_end() == CLOSE {
                match close() {
                    Err(error) => say(&format!("{FAILED}{error:#}"))?,
                    Ok(by_others) => say(&format!("{CLOSED}{by_others}"))?,
                }
            }
        }
    }
    Ok(true)
}
