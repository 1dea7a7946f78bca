//! The processes that a life runs in: one until it is killed, and then the next.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use cli::failure::Status;

use super::model::{Model, Stage};
use super::plan::{self, Kill, Life, Scope};
use super::session::Living;

/// The hidden subcommand that runs it.
pub(crate) const COMMAND: &str = "torture-life";

/// How often to look how far a process is that is to be killed, and one that is not.
const LOOK_CLOSELY: Duration = Duration::from_micros(100);
const LOOK: Duration = Duration::from_millis(2);
/// A process that makes no call for so long hangs. No call takes a hundredth of it.
const HANGS_AFTER: Duration = Duration::from_secs(180);

/// What the process works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the pool
    #[arg(long)]
    pub(super) dir: PathBuf,
    #[command(flatten)]
    pub(super) scope: Scope,
    /// Whether the directory is in memory
    #[arg(long)]
    pub(super) in_memory: bool,
    /// The process whose death ends this one
    #[arg(long)]
    pub(super) parent: u32,
}

/// Lives the rest of a life. The parent reads what went wrong.
pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    dedup::die_with(arguments.parent)?;
    let life = Life::new(arguments.scope, arguments.in_memory);
    Living::new(&life, &arguments.dir)?.run()?;
    Ok(Status::Done)
}

/// What a life came to.
pub(super) struct Outcome {
    pub(super) kills: u64,
    pub(super) openings: u64,
    pub(super) calls: u64,
    pub(super) refused: u64,
    /// What went wrong.
    pub(super) violation: Option<String>,
}

impl Arguments {
    /// Runs the life from its beginning to its end, in one process after another.
    pub(super) fn live(&self, program: &Path) -> Result<Outcome> {
        let life = Life::new(self.scope, self.in_memory);
        let model = Model::open(&plan::model(&self.dir), life.keys)?;
        let mut kills = 0;
        let violation = loop {
            let mut process = Process(self.command(program).spawn().context("starting a life")?);
            match process.watch(&life, &model)? {
                Ended::Killed => kills += 1,
                Ended::Well => break None,
                Ended::Badly(how) => break Some(how),
            }
        };
        let (openings, calls, refused) = (model.openings(), model.calls(), model.refused());
        Ok(Outcome { kills, openings, calls, refused, violation })
    }

    fn command(&self, program: &Path) -> Command {
        // In one argument, since a file's name may start like an option.
        let mut dir = OsString::from("--dir=");
        dir.push(&self.dir);
        let Scope { engine, seed, threads, fill, durability } = self.scope;
        let mut command = Command::new(program);
        command
            .arg(COMMAND)
            .arg(dir)
            .arg(format!("--engine={engine}"))
            .arg(format!("--seed={seed}"))
            .args(threads.map(|threads| format!("--threads={threads}")))
            .args(fill.then_some("--fill"))
            .args(durability.map(|durability| format!("--durability={durability}")))
            .args(self.in_memory.then_some("--in-memory"))
            .arg(format!("--parent={}", self.parent))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

/// How a process ended.
enum Ended {
    Well,
    Killed,
    Badly(String),
}

/// A running process, killed at the latest when dropped.
struct Process(Child);

impl Process {
    /// Waits until it ends, and kills it if the life is so. The next process then begins with the next session.
    fn watch(&mut self, life: &Life, model: &Model) -> Result<Ended> {
        let first = model.session();
        let kill = (first..).zip(life.sessions.iter().skip(first as usize));
        let kill = kill.into_iter().find_map(|(number, session)| Some((number, session.kill?)));
        let mut moved = (Instant::now(), (0, 0, 0));
        let mut calls_before = None;
        loop {
            if let Some(status) = self.0.try_wait().context("waiting for a life")? {
                return Ok(match status.code() {
                    Some(0) => Ended::Well,
                    _ => Ended::Badly(self.said(&format!("its process ended: {status}"))),
                });
            }
            let is_there = kill.filter(|(number, _)| model.session() == *number);
            if let Some((number, kill)) = is_there {
                let before = *calls_before.get_or_insert_with(|| model.calls());
                if is_due(kill, model, before) {
                    thread::sleep(Duration::from_micros(kill.delay_us));
                    return self.kill(model, number + 1);
                }
            }
            let now = (model.session(), model.calls(), model.openings());
            if now != moved.1 {
                moved = (Instant::now(), now);
            } else if moved.0.elapsed() > HANGS_AFTER {
                self.0.kill().context("ending a life that hangs")?;
                return Ok(Ended::Badly(format!("it hangs in session {}", now.0)));
            }
            thread::sleep(if is_there.is_some() { LOOK_CLOSELY } else { LOOK });
        }
    }

    /// Kills it with SIGKILL, and waits until its locks are gone.
    fn kill(&mut self, model: &Model, next: u64) -> Result<Ended> {
        self.0.kill().context("killing a life")?;
        let status = self.0.wait().context("waiting for a killed life")?;
        // It may have met something wrong just before.
        if status.signal().is_none() {
            return Ok(Ended::Badly(self.said(&format!("its process ended: {status}"))));
        }
        model.set_stage(None);
        model.set_session(next);
        Ok(Ended::Killed)
    }

    /// What it said, or else `otherwise`.
    fn said(&mut self, otherwise: &str) -> String {
        let mut said = Vec::new();
        let read = self.0.stderr.take().map(|mut stderr| stderr.read_to_end(&mut said));
        let text = String::from_utf8_lossy(&said);
        match text.trim() {
            "" => otherwise.into(),
            _ if matches!(read, Some(Err(_))) => otherwise.into(),
            text => text.trim_start_matches("firndex-lab: ").into(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_due(kill: Kill, model: &Model, calls_before: u64) -> bool {
    match kill.stage {
        Stage::Living if model.is_at(Stage::Closing) => true,
        Stage::Living => model.is_at(Stage::Living) && model.calls() >= calls_before + kill.calls,
        stage => model.is_at(stage),
    }
}
