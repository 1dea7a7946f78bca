//! `firndex demo`: a deduplication index whose writer is killed again and again.

mod figures;
mod screen;
pub(super) mod writer;

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use dedup::{Demonstration, Identity, Plan, fresh_seed, interrupt};
use firndex::{Options, Store};
use indicatif::BinaryBytes;
use tempfile::TempDir;

use crate::engine::Choice;
use crate::failure::{Failure, Status};
use crate::output;
use crate::program::Start;
use screen::Screen;

/// Limit for the default directory.
const DEFAULT_BYTES_MAX: u64 = 512 << 20;

/// Deduplicate a directory, killing the writer on the way
///
/// Cuts every regular file below DIR into chunks by their content (FastCDC, 8 KiB on average). Stores where each chunk
/// was first seen, under its BLAKE3 digest, as a backup program would. A child process does this and reports each chunk
/// after its insert has returned. It is killed with SIGKILL after random numbers of reports. After each kill the pool
/// is opened again, every reported chunk must be there, the pool must be sound, and the work continues where it
/// stopped. At the end the chunks are read back from the files. If a reported chunk is missing, the exit status is 1.
///
/// Directories named `target`, anything named `.git`, and the pool itself are skipped. Symbolic links are not followed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  firndex demo                                 Cargo's unpacked sources, at most 512 MiB of them
  firndex demo ~/photos --kills 10
  firndex demo /usr/share --pool share.firn    keep the index
  firndex demo --seed 7 --json | jq .lost

The values are locations: the offset (8 bytes, little-endian), the length (4 bytes, little-endian),
and the path below DIR.")]
pub(crate) struct Arguments {
    /// The directory [default: Cargo's unpacked registry sources if there are any, otherwise the current directory; at
    /// most 512 MiB of it]
    dir: Option<PathBuf>,
    #[command(flatten)]
    engine: Choice,
    /// Keep the pool in this new file [default: a temporary one, which is removed]
    #[arg(long, value_name = "FILE")]
    pool: Option<PathBuf>,
    /// How often to kill the writer
    #[arg(long, value_name = "N", default_value_t = 3)]
    kills: u64,
    /// When to kill: the same seed gives the same moments [default: a new seed each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Threads that cut, store and look up [default: one per core]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, again: impl FnOnce() -> Result<Start>) -> Result<Status> {
    let (dir, bytes_max) = match &arguments.dir {
        Some(dir) => (dir.clone(), u64::MAX),
        None => (default_directory(), DEFAULT_BYTES_MAX),
    };
    demand_directory(&dir)?;
    let threads = match arguments.threads {
        Some(threads) => usize::from(threads),
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let seed = arguments.seed.unwrap_or_else(fresh_seed);

    let pool = PoolFile::new(arguments.pool.as_deref())?;
    let options = arguments.engine.options();
    options
        .create_store(&pool.path)
        .and_then(Store::close)
        .with_context(|| format!("creating {}", pool.path.display()))?;

    let again = again()?;
    let screen = Screen::default();
    let plan = make_plan(&dir, bytes_max, &pool.to_leave_out()?, threads, &screen);
    let demonstration = Demonstration {
        plan: &plan,
        pool: &pool.path,
        threads,
        writer: &|| writer::command(&again, &pool.path, threads),
        audience: &screen,
    };
    let outcome = demonstration.run(arguments.kills, seed);
    interrupt::give_way();
    let outcome = outcome?;

    if arguments.json {
        output::json(&figures::to_json(&outcome))?;
    } else {
        output::data(figures::to_text(&outcome).as_bytes())?;
    }
    if pool.temporary.is_none() {
        output::talk(format_args!("the index is kept in {}", pool.path.display()));
    }
    match outcome.breach() {
        None => Ok(Status::Done),
        Some(breach) => {
            output::complain(&breach);
            Ok(Status::Absent)
        }
    }
}

/// Cargo's unpacked registry sources if there are any, else the current directory.
fn default_directory() -> PathBuf {
    let cargo_home = std::env::var_os("CARGO_HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    cargo_home
        .map(|home| home.join("registry/src"))
        .filter(|sources| holds_something(sources))
        .unwrap_or_else(|| PathBuf::from("."))
}

fn holds_something(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

fn demand_directory(dir: &Path) -> Result<()> {
    let hint = "DIR is the directory whose files are to be deduplicated";
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(format!("{} is not a directory", dir.display()), hint).into()),
        Err(error) => {
            Err(Failure::new(format!("looking at the directory {}", dir.display()), hint)
                .caused_by(error)
                .into())
        }
    }
}

/// Where the pool is, and the temporary directory around it unless the user named a file.
struct PoolFile {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl PoolFile {
    fn new(named: Option<&Path>) -> Result<Self> {
        if let Some(path) = named {
            return Ok(PoolFile { path: path.to_owned(), temporary: None });
        }
        let temporary =
            tempfile::Builder::new().prefix("firndex-demo-").tempdir().map_err(|error| {
                Failure::new(
                    format!("making a temporary directory in {}", std::env::temp_dir().display()),
                    "set TMPDIR to a directory that can be written, or name a file with --pool",
                )
                .caused_by(error)
            })?;
        interrupt::remove_on_signal(temporary.path().to_owned())?;
        Ok(PoolFile { path: temporary.path().join("demo.firn"), temporary: Some(temporary) })
    }

    /// What a walk through the directory must not take for a file of the user's.
    fn to_leave_out(&self) -> Result<Vec<Identity>> {
        let temporary = self.temporary.as_ref().map(TempDir::path);
        // Their directory, since they come and go.
        let log = Options::default().log_files(&self.path)?.paths;
        let log = log.first().and_then(|path| path.parent());
        let paths = [self.path.as_path()].into_iter().chain(temporary).chain(log);
        paths
            .map(|path| {
                Identity::of(path).with_context(|| format!("looking at {}", path.display()))
            })
            .collect()
    }
}

fn make_plan(
    dir: &Path,
    bytes_max: u64,
    left_out: &[Identity],
    threads: usize,
    screen: &Screen,
) -> Plan {
    let walk = dedup::walk(dir, bytes_max, left_out, screen);
    if walk.cut {
        output::talk(format_args!(
            "taking the first {} of {}; name the directory to take all of it",
            BinaryBytes(walk.bytes),
            dir.display(),
        ));
    }
    Plan::make(dir, &walk.files, threads, screen)
}
