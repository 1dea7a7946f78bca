//! Where a pool and its log are.

use crate::crew;
use crate::keys::{Keys, Writer};
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use firndex::{Durability, Engine, Options, Table};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use workload::Part;

/// Pairs in a call that fills a table.
const FILL_BATCH: usize = 4096;
/// At most this many pairs are looked up to verify a table.
const CHECKS_MAX: u64 = 1 << 20;
/// How often a thread checks whether a checkpoint has ended.
pub(super) const LOOK_EVERY: Duration = Duration::from_micros(500);
/// The log's size up to which no checkpoint is made, as in the facade.
const CHECKPOINT_AT: u64 = 256 << 20;

/// A pool's file and the directory of its log.
pub(super) struct Place {
    logs: PathBuf,
    pool: PathBuf,
    _directories: Vec<TempDir>,
}

impl Place {
    /// In new directories, which are removed with this.
    pub(super) fn new(setting: &Setting) -> Result<Place> {
        let directory = temporary(&setting.directory)?;
        let mut place = Place::in_directory(setting, directory.path())?;
        place._directories.push(directory);
        Ok(place)
    }

    /// With the log in this directory.
    pub(super) fn in_directory(setting: &Setting, directory: &Path) -> Result<Place> {
        let pools = setting.durable.pools.as_deref().map(temporary).transpose()?;
        let pool = pools.as_ref().map_or(directory, TempDir::path).join("bench.firn");
        Ok(Place { logs: directory.to_owned(), pool, _directories: pools.into_iter().collect() })
    }

    /// The pool's file.
    pub(super) fn pool(&self) -> &Path {
        &self.pool
    }

    /// How to open the pool.
    pub(super) fn options(
        &self,
        engine: Engine,
        setting: &Setting,
        durability: Durability,
    ) -> Options {
        Options::new()
            .engine(engine)
            .capacity(setting.capacity)
            .hash_seed(setting.seed)
            .medium(firndex::Medium::Mapped)
            .durability(durability)
            .log_directory(&self.logs)
            .checkpoint_at(checkpoint_at(setting))
    }

    /// Opens a table that was closed, whose log cannot go on. So it makes a checkpoint beside what operations run.
    pub(super) fn opened_anew(
        &self,
        engine: Engine,
        setting: &Setting,
        durability: Durability,
    ) -> Result<Table> {
        if durability != Durability::Process {
            let companions = self.logs.join("bench.firn.safe");
            let entries = std::fs::read_dir(&companions);
            for entry in entries.with_context(|| companions.display().to_string())? {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().starts_with(b"log.") {
                    std::fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(self.options(engine, setting, durability).open_table(&self.pool)?)
    }

    /// A table with all pairs.
    pub(super) fn filled(
        &self,
        engine: Engine,
        setting: &Setting,
        durability: Durability,
    ) -> Result<Table> {
        let table = self.options(engine, setting, durability).create_table(&self.pool)?;
        let keys = Keys::new(setting.seed, setting.pairs);
        for part in Part::all(setting.pairs.div_ceil(FILL_BATCH as u64) as usize) {
            let pairs: Vec<(u64, u64)> = part
                .range(setting.pairs)
                .map(|number| keys.key(number))
                .map(|key| (key, Writer::Insert.value(key)))
                .collect();
            table.put_many(&pairs)?;
        }
        table.sync()?;
        settle(&table, setting)?;
        Ok(table)
    }
}

/// Smaller for small tables, so that they see checkpoints, too.
fn checkpoint_at(setting: &Setting) -> u64 {
    CHECKPOINT_AT.min(setting.pairs * 16)
}

fn temporary(directory: &Path) -> Result<TempDir> {
    tempfile::tempdir_in(directory).with_context(|| format!("a pool in {}", directory.display()))
}

/// Returns when no checkpoint is due or being made.
pub(super) fn settle(table: &Table, setting: &Setting) -> Result<()> {
    loop {
        let Some(log) = table.log()? else { return Ok(()) };
        ensure!(log.failure.is_none(), "the log has failed: {:?}", log.failure);
        let is_due = log.log_bytes >= log.checkpoint_bytes.max(checkpoint_at(setting));
        if log.checkpoints > 0 && !is_due {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Looks up a sample of all keys; each must have one of the values that `writers` store.
pub(super) fn verify(table: &Table, setting: &Setting, writers: &[Writer]) -> Result<()> {
    ensure!(table.len() == setting.pairs, "{} pairs instead of {}", table.len(), setting.pairs);
    let keys = Keys::new(setting.seed, setting.pairs);
    let step = setting.pairs.div_ceil(CHECKS_MAX).max(1) as usize;
    let mut wrong = 0;
    for number in (0..setting.pairs).step_by(step) {
        let key = keys.key(number);
        let found = table.get(key)?;
        let is_right = writers.iter().any(|writer| found == Some(writer.value(key)));
        wrong += u64::from(!is_right);
    }
    crew::refuse_wrong("verifying the table", wrong, setting.pairs.div_ceil(step as u64))
}
