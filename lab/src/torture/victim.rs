//! The process that `torture` starts and kills.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use cli::engine;
use cli::failure::Status;
use cli::pool::Pool;
use cli::{output, safety};
use firndex::{Durability, Engine, Options};
use workload::{Random, mix};

use super::calls::Source;
use super::pools::{self, Which};
use super::progress::Progress;

/// The hidden subcommand that runs it.
pub(crate) const COMMAND: &str = "torture-victim";

/// Pools are closed and opened again after a time of up to this.
const ROUND_MS_MAX: u64 = 150;
/// Between two backups and the like.
const PAUSE_MS_MAX: u64 = 10;
/// Of the log, in half of the lives: a short run makes checkpoints, too.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// What the process works on.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the pools
    #[arg(long)]
    pub(super) dir: PathBuf,
    /// The hash table under the pools
    #[arg(long, value_parser = engine::names())]
    pub(super) engine: Engine,
    /// What the pools are asked to survive of power loss
    #[arg(long, value_parser = safety::names())]
    pub(super) durability: Option<Durability>,
    /// Writers of each pool
    #[arg(long)]
    pub(super) writers: usize,
    /// Determines the calls
    #[arg(long)]
    pub(super) seed: u64,
    /// Determines all else; another one for each process
    #[arg(long)]
    pub(super) life: u64,
    /// The process whose death ends this one
    #[arg(long)]
    pub(super) parent: u32,
}

impl Arguments {
    pub(super) fn source(&self, which: Which) -> Source {
        Source { seed: mix(self.seed ^ which as u64) }
    }

    pub(super) fn progress(&self) -> Result<Progress> {
        Progress::open(&self.dir.join("progress"))
    }

    /// Options for the pools, without those that differ from life to life.
    pub(super) fn options(&self) -> Options {
        let options = Options::default().engine(self.engine);
        match self.durability {
            Some(durability) => options.durability(durability),
            None => options,
        }
    }

    /// Starts the process.
    pub(super) fn start(&self, program: &Path) -> Result<Victim> {
        let with_value = |name: &str, value: &std::ffi::OsStr| {
            // In one argument, since a file's name may start like an option.
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            argument
        };
        let mut command = Command::new(program);
        command
            .arg(COMMAND)
            .arg(with_value("dir", self.dir.as_os_str()))
            .arg(format!("--engine={}", self.engine))
            .args(self.durability.map(|durability| format!("--durability={}", durability.name())))
            .arg(format!("--writers={}", self.writers))
            .arg(format!("--seed={}", self.seed))
            .arg(format!("--life={}", self.life))
            .arg(format!("--parent={}", self.parent))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Victim::start(&mut command)
    }
}

/// The running process, killed at the latest when dropped.
pub(super) struct Victim(Child);

impl Victim {
    pub(super) fn start(command: &mut Command) -> Result<Victim> {
        Ok(Victim(command.spawn().context("starting the process to be killed")?))
    }

    /// Fails if the process has ended.
    pub(super) fn demand_life(&mut self) -> Result<()> {
        let status = self.0.try_wait().context("looking at the process to be killed")?;
        ensure!(status.is_none(), "the process to be killed ended by itself: {status:?}");
        Ok(())
    }

    /// Kills it with SIGKILL, and waits until its locks are gone.
    pub(super) fn kill(mut self) -> Result<()> {
        self.demand_life()?;
        self.0.kill().and_then(|()| self.0.wait()).context("killing the process")?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes until it is killed. Never returns unless something fails.
pub(crate) fn run(arguments: &Arguments) -> Result<Status> {
    dedup::die_with(arguments.parent)?;
    let progress = arguments.progress()?;
    let mut random = Random::new(mix(arguments.seed ^ mix(arguments.life)));
    loop {
        let mut options = arguments.options().helpers(random.index(3));
        if random.percent(50) && arguments.engine.description().shrinks_by_itself {
            options = options.shrink_at(0.3);
        }
        if random.percent(50) {
            options = options.compact_at(0.25);
        }
        if random.percent(50) {
            options = options.built_at_once_max(0);
        }
        if random.percent(50) {
            options = options.checkpoint_at(CHECKPOINT_BYTES);
        }
        let open = |which: Which| {
            let path = which.path(&arguments.dir);
            let opened = which.open_or_create(&path, &options);
            opened.with_context(|| format!("opening {}", path.display()))
        };
        let pools = [open(Which::Table)?, open(Which::Store)?];
        Round { arguments, progress: &progress, pools: &pools, is_over: AtomicBool::new(false) }
            .run(random.word());
        for pool in pools {
            pools::end(pool, random.word()).context("closing a pool")?;
        }
    }
}

/// From an opening to the next closing.
struct Round<'a> {
    arguments: &'a Arguments,
    progress: &'a Progress,
    pools: &'a [Pool; 2],
    is_over: AtomicBool,
}

impl Round<'_> {
    fn run(&self, seed: u64) {
        let mut random = Random::new(seed);
        let work = |what: &'static str, work: &dyn Fn() -> Result<()>| {
            if let Err(error) = work() {
                // The other threads would write on until they are killed, and nobody would notice.
                output::error(&error.context(what));
                std::process::exit(Status::Failed as i32);
            }
        };
        let end = Instant::now() + Duration::from_millis(random.below(ROUND_MS_MAX));
        let (reader, maintainer) = (random.word(), random.word());
        type Work<'a> = Box<dyn Fn() + Send + 'a>;
        let mut threads: Vec<Work<'_>> = Vec::new();
        for which in Which::BOTH {
            for writer in 0..self.arguments.writers {
                let write = move || work("writing", &|| self.write(which, writer));
                threads.push(Box::new(write));
            }
        }
        threads.push(Box::new(move || work("looking up", &|| self.read(reader))));
        threads.push(Box::new(move || work("maintaining", &|| self.maintain(maintainer))));
        thread::scope(|scope| {
            for thread in threads {
                let started = thread::Builder::new().spawn_scoped(scope, thread);
                work("starting a thread", &|| {
                    started.as_ref().map(drop).map_err(|error| anyhow!("{error}"))
                });
            }
            thread::sleep(end.saturating_duration_since(Instant::now()));
            self.is_over.store(true, Ordering::Relaxed);
        });
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn write(&self, which: Which, writer: usize) -> Result<()> {
        let (index, source) = (which as usize, self.arguments.source(which));
        let mut number = self.progress.mark(index, writer).begun;
        while self.goes_on() {
            let call = source.call(writer as u64, number);
            number += 1;
            self.progress.set_begun(index, writer, number);
            pools::perform(&self.pools[index], source, &call)
                .with_context(|| format!("{:?} in the {}", call.deed, which.name()))?;
            self.progress.set_returned(index, writer, number);
        }
        Ok(())
    }

    fn read(&self, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        while self.goes_on() {
            let which = *random.of(&Which::BOTH);
            let source = self.arguments.source(which);
            let key = source.some_key(self.arguments.writers as u64, &mut random);
            pools::look_up(&self.pools[which as usize], source, key)?;
        }
        Ok(())
    }

    fn maintain(&self, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        while self.goes_on() {
            let which = *random.of(&Which::BOTH);
            let out = self.arguments.dir.join(which.name()).with_extension("backup");
            let pool = &self.pools[which as usize];
            pools::maintain(pool, random.word(), &out)?;
            thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
        }
        Ok(())
    }
}
