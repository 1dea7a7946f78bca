//! `firndex-lab torture --lives`: are pools sound at every size and limit, however they are used, killed and filled?

mod ballast;
mod child;
mod contents;
mod errors;
mod kept;
mod model;
mod plan;
mod session;
mod subject;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cli::count::counted;
use cli::failure::Status;
use cli::{output, progress};
use dedup::{fresh_seed, interrupt};
use firndex::Engine;
use rustix::fs::statfs;
use serde_json::{Value, json};

use super::arguments::{Arguments, fastest_directory, new_directory};
use child::Outcome;
pub(crate) use child::{Arguments as ChildArguments, COMMAND, run as run_child};
use plan::Scope;

/// Lives, if neither their number nor a time was asked for.
const LIVES: u64 = 1000;
/// Failed lives whose pools are kept.
const KEPT_MAX: usize = 10;
/// What `statfs` says of a file system in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

pub(super) fn run(arguments: &Arguments) -> Result<Status> {
    let parent = arguments.dir.clone().unwrap_or_else(fastest_directory);
    let directory = new_directory(Some(&parent))?;
    if arguments.fill {
        ballast::demand_a_small_file_system(directory.path())?;
    }
    interrupt::remove_on_signal(directory.path().to_owned())?;
    let run = Run::new(arguments, directory.path())?;
    let ended = run.go();
    interrupt::give_way();
    let seed = run.seed;
    let so_far = run.so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
    if arguments.json {
        output::json(&as_json(&so_far, seed))?;
    } else {
        for tally in &so_far.tallies {
            output::data(format!("{}\n", tally.told()).as_bytes())?;
        }
    }
    if ended.is_ok() && so_far.failed.is_empty() {
        return Ok(Status::Done);
    }
    super::keep(directory, seed, ended)
}

/// What the lives on an engine came to.
#[derive(Debug)]
struct Tally {
    engine: Engine,
    lives: u64,
    kills: u64,
    openings: u64,
    calls: u64,
    refused: u64,
    failed: u64,
}

impl Tally {
    fn new(engine: Engine) -> Tally {
        Tally { engine, lives: 0, kills: 0, openings: 0, calls: 0, refused: 0, failed: 0 }
    }

    fn add(&mut self, outcome: &Outcome) {
        self.lives += 1;
        self.kills += outcome.kills;
        self.openings += outcome.openings;
        self.calls += outcome.calls;
        self.refused += outcome.refused;
        self.failed += u64::from(outcome.violation.is_some());
    }

    fn told(&self) -> String {
        format!(
            "{}: {}, {}, {}, {} refused, {}, {} bad",
            self.engine,
            match self.lives {
                1 => "1 life".into(),
                lives => counted(lives, "live"),
            },
            counted(self.openings, "opening"),
            counted(self.calls, "call"),
            self.refused,
            counted(self.kills, "kill"),
            self.failed
        )
    }

    fn json(&self) -> Value {
        json!({
            "engine": self.engine.name(),
            "lives": self.lives,
            "openings": self.openings,
            "calls": self.calls,
            "refused": self.refused,
            "kills": self.kills,
            "bad": self.failed,
        })
    }
}

/// A life that went wrong.
#[derive(Debug)]
struct Failed {
    command: String,
    what: String,
}

fn as_json(so_far: &SoFar, seed: u64) -> Value {
    let sum = |count: &dyn Fn(&Tally) -> u64| -> u64 { so_far.tallies.iter().map(count).sum() };
    let failed = so_far.failed.iter();
    json!({
        "seed": seed,
        "lives": sum(&|tally| tally.lives),
        "openings": sum(&|tally| tally.openings),
        "calls": sum(&|tally| tally.calls),
        "refused": sum(&|tally| tally.refused),
        "kills": sum(&|tally| tally.kills),
        "bad": sum(&|tally| tally.failed),
        "engines": so_far.tallies.iter().map(Tally::json).collect::<Vec<_>>(),
        "violations": failed
            .map(|failed| json!({ "command": failed.command, "what": failed.what }))
            .collect::<Vec<_>>(),
    })
}

/// All lives of a command.
struct Run<'a> {
    arguments: &'a Arguments,
    program: PathBuf,
    dir: &'a Path,
    in_memory: bool,
    seed: u64,
    lives_max: u64,
    end: Option<Instant>,
    so_far: Mutex<SoFar>,
}

#[derive(Debug)]
struct SoFar {
    /// Kept seeds that have not run yet.
    kept: Vec<u64>,
    begun: u64,
    tallies: Vec<Tally>,
    failed: Vec<Failed>,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a Arguments, dir: &'a Path) -> Result<Run<'a>> {
        let told = statfs(dir).context("looking at the file system")?;
        let lives = arguments.lives.flatten();
        let time = arguments.minutes.map(|minutes| minutes * 60.0);
        let engines = arguments.engine.map_or_else(|| Engine::ALL.to_vec(), |engine| vec![engine]);
        let is_kept = |kept: &&kept::Kept| {
            let is_chosen = engines.contains(&kept::engine_of(kept.seed));
            // A seed that was asked for is that of the only life.
            arguments.seed.is_none() && is_chosen && kept.fill == arguments.fill
        };
        Ok(Run {
            arguments,
            program: std::env::current_exe().context("finding this program's own file")?,
            dir,
            in_memory: u64::try_from(told.f_type).is_ok_and(|kind| kind == TMPFS_MAGIC),
            seed: arguments.seed.unwrap_or_else(fresh_seed),
            lives_max: match (lives, time) {
                (Some(lives), _) => lives,
                (None, Some(_)) => u64::MAX,
                (None, None) => LIVES,
            },
            end: time.and_then(|seconds| {
                Instant::now().checked_add(Duration::try_from_secs_f64(seconds).ok()?)
            }),
            so_far: Mutex::new(SoFar {
                kept: kept::KEPT.iter().filter(is_kept).map(|kept| kept.seed).collect(),
                begun: 0,
                tallies: engines.into_iter().map(Tally::new).collect(),
                failed: Vec::new(),
            }),
        })
    }

    fn so_far(&self) -> std::sync::MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Several lives at a time, but only one that fills the file system.
    fn go(&self) -> Result<()> {
        let step = match self.lives_max {
            u64::MAX => progress::unknown("torturing", "lives"),
            lives => progress::count("torturing", "lives", lives),
        };
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = if self.arguments.fill { 1 } else { at_once };
        let work = || -> Result<()> {
            while let Some(scope) = self.next() {
                self.live(scope)?;
                step.inc(1);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..at_once).map_while(start).collect();
            let own = work();
            let ended = others.into_iter().map(|thread| match thread.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Vec<_>>().into_iter().fold(own, Result::and)
        })
    }

    /// The next life: a kept one, or that of the next seed.
    fn next(&self) -> Option<Scope> {
        let mut so_far = self.so_far();
        if let Some(seed) = so_far.kept.pop() {
            return Some(self.scope(seed));
        }
        let is_over = self.end.is_some_and(|end| Instant::now() >= end);
        if is_over || so_far.begun >= self.lives_max {
            return None;
        }
        so_far.begun += 1;
        Some(self.scope(self.seed.wrapping_add(so_far.begun - 1)))
    }

    fn scope(&self, seed: u64) -> Scope {
        let Arguments { engine, threads, fill, durability, .. } = *self.arguments;
        let engine = engine.unwrap_or_else(|| kept::engine_of(seed));
        Scope { engine, seed, threads, fill, durability }
    }

    fn live(&self, scope: Scope) -> Result<()> {
        let dir = self.dir.join(format!("{}-{}", scope.engine, scope.seed));
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let life = child::Arguments {
            dir: dir.clone(),
            scope,
            in_memory: self.in_memory,
            parent: std::process::id(),
        };
        let outcome = life.live(&self.program)?;
        interrupt::give_way();
        let mut so_far = self.so_far();
        let of_engine = so_far.tallies.iter_mut().find(|tally| tally.engine == scope.engine);
        if let Some(tally) = of_engine {
            tally.add(&outcome);
        }
        if let Some(what) = outcome.violation {
            let command = self.command(scope);
            output::complain(&format!("{what}\n  again: {command}"));
            so_far.failed.push(Failed { command, what });
            if so_far.failed.len() <= KEPT_MAX {
                return Ok(());
            }
        }
        drop(so_far);
        std::fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))
    }

    /// The command that lives this life again.
    fn command(&self, scope: Scope) -> String {
        let Scope { engine, seed, threads, fill, durability } = scope;
        let mut command = format!("firndex-lab torture --lives 1 --seed {seed} --engine {engine}");
        let mut add = |option: String| {
            command.push(' ');
            command.push_str(&option);
        };
        threads.into_iter().for_each(|threads| add(format!("--threads {threads}")));
        durability.into_iter().for_each(|durability| add(format!("--durability {durability}")));
        if fill {
            add("--fill".into());
        }
        if let Some(dir) = &self.arguments.dir {
            add(format!("--dir {}", dir.display()));
        }
        command
    }
}
