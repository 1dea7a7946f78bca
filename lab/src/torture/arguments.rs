//! The arguments of `firndex-lab torture`, which its two kinds of runs share.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use cli::failure::Failure;
use cli::{engine, safety};
use firndex::{Durability, Engine};
use tempfile::TempDir;

use super::progress::WRITERS_MAX;
use crate::minutes::minutes;

/// Kill writing processes, and look for what they had been promised
///
/// Starts a process that opens a table and a store in real files. Several threads write to each, others read, back up,
/// sync, shrink and compact; the pools grow, are closed, written anew and opened again. The process notes in a shared
/// file which calls have returned. It is killed with SIGKILL at a random moment. Then the pools are opened, checked and
/// read: each call that had returned must have its effect, nothing may be there that no call wrote, and the keys of a
/// call that was cut off must be in the state before or after it. The next process continues with the same pools.
///
/// With --lives it tortures small pools at their limits instead. A life is determined by its seed: a store or a table,
/// a few sizes of values from 0 to 300 KB, a limit that stays, rises or falls, and 20 to 30 openings. One to four
/// threads change it, each its own keys. Every answer is compared with a model, and so are all pairs after each
/// opening. Some processes are killed. With --fill the file system is filled and freed meanwhile. By default the
/// directory is in /dev/shm, and lives that once found something run first.
///
/// With --caches it tortures a cache. Threads put, look up, touch, remove and clear, with values up to a quarter of the
/// capacity and with ends; each changes its own keys. The process is killed, and the cache opened again, often with
/// another capacity and durability. Whatever is returned must have been put for that key, and be neither older than the
/// last call that had returned nor over. No put may fail unless its value is too large, and the file must stay within
/// its bound. The clock must not be set back meanwhile. With --soak nobody is killed: threads make so many operations
/// on one cache, as fast as they can, by default in /dev/shm, and each answer is judged.
///
/// The exit status is 1 if a promise was broken. The pools are kept then.
#[derive(Debug, Default, Args)]
#[command(after_long_help = "\
Examples:
  firndex-lab torture                                   a hundred kills on every engine
  firndex-lab torture --engine level --minutes 60       for an hour
  firndex-lab torture --dir /dev/shm --kills 1000       without a log
  firndex-lab torture --durability commit --json        {\"kills\":…,\"acknowledged\":…,\"lost\":0,…}
  firndex-lab torture --lives                           a thousand lives of small pools
  firndex-lab torture --lives --minutes 60              as many as an hour takes
  firndex-lab torture --lives 1 --seed 7                one life again
  firndex-lab torture --caches                          a hundred kills of a process with a cache
  firndex-lab torture --caches --soak 1000000000        operations on a cache, without kills")]
pub(crate) struct Arguments {
    /// The hash table to torture [default: each in turn]
    #[arg(long, value_parser = engine::names(), conflicts_with = "caches")]
    pub(super) engine: Option<Engine>,
    /// Kills on each engine
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) kills: u64,
    /// Live lives of small pools instead: this many [default: 1000, or as many as --minutes allows]
    #[arg(long, value_name = "N", num_args = 0..=1, conflicts_with = "kills")]
    pub(super) lives: Option<Option<u64>>,
    /// Torture a cache instead
    #[arg(long, conflicts_with = "lives")]
    pub(super) caches: bool,
    /// Kill nobody: make this many operations on a cache
    #[arg(long, value_name = "OPERATIONS", requires = "caches")]
    #[arg(conflicts_with_all = ["kills", "minutes"])]
    pub(super) soak: Option<u64>,
    /// In lives, fill the file system and free it again. It must have 1 GiB at most
    #[arg(long, requires = "lives", conflicts_with = "durability")]
    pub(super) fill: bool,
    /// Instead of a number of kills, kill for this many minutes on each engine; live lives for so long in all
    #[arg(long, value_name = "M", value_parser = minutes, conflicts_with = "kills")]
    pub(super) minutes: Option<f64>,
    /// Make the pools in a new directory in this one, and so on its file system [default: that of temporary files; of
    /// lives and a soak /dev/shm]
    #[arg(long)]
    pub(super) dir: Option<PathBuf>,
    /// Writers of each pool [default: 2; of a cache 4; in lives 1 to 4, and 16 at most]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=WRITERS_MAX))]
    pub(super) threads: Option<u64>,
    /// Determines the calls; the moments of the kills are as the machine runs. Of lives it is the first one's seed, and
    /// the next lives have the next ones [default: a new seed each time]
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,
    /// What the pools are asked to survive of power loss [default: periodic on a disk, process in /dev/shm; of a cache
    /// another one now and then]
    #[arg(long, value_parser = safety::names())]
    pub(super) durability: Option<Durability>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// The fastest place that there is.
pub(super) fn fastest_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A directory in this one, by default in that of temporary files.
pub(super) fn new_directory(parent: Option<&Path>) -> Result<TempDir> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    tempfile::Builder::new().prefix("firndex-torture-").tempdir_in(&parent).map_err(|error| {
        Failure::new(
            format!("making a directory in {}", parent.display()),
            "name one that can be written with --dir",
        )
        .caused_by(error)
        .into()
    })
}
