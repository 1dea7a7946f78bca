//! How far the writers have got, in a mapped file: what the kernel keeps when the process is killed.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use pmem::medium::{Mapped, Memory};
use pmem::{Medium, Offset};

use super::ledger::Mark;

/// Each writer has lines of its own: counting must not make writers wait for each other.
const WRITER_BYTES: u64 = 128;
/// Room for both pools' writers.
const FILE_BYTES: u64 = 64 << 10;
/// Writers of a pool.
pub(super) const WRITERS_MAX: u64 = FILE_BYTES / WRITER_BYTES / 2;

/// The file, shared by the process that is killed and the one that judges.
pub(super) struct Progress(Mapped);

impl Progress {
    /// Opens it; makes it first if there is none.
    pub(super) fn open(path: &Path) -> Result<Progress> {
        let map = || -> Result<Mapped> {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            let bytes = file.metadata()?.len();
            let medium = Memory::mapped(file, bytes, FILE_BYTES, true)?;
            medium.grow(FILE_BYTES)?;
            Ok(medium)
        };
        map().map(Progress).with_context(|| format!("mapping {}", path.display()))
    }

    /// Of pool 0 or 1.
    pub(super) fn mark(&self, pool: usize, writer: usize) -> Mark {
        let [begun, returned] = words(pool, writer).map(|word| self.0.load(word));
        Mark { begun, returned }
    }

    pub(super) fn set_begun(&self, pool: usize, writer: usize, calls: u64) {
        self.0.store_release(words(pool, writer)[0], calls);
    }

    pub(super) fn set_returned(&self, pool: usize, writer: usize, calls: u64) {
        self.0.store_release(words(pool, writer)[1], calls);
    }

    /// Calls of all writers of both pools that were begun.
    pub(super) fn begun(&self, writers: usize) -> u64 {
        let all = (0..2).flat_map(|pool| (0..writers).map(move |writer| (pool, writer)));
        all.map(|(pool, writer)| self.mark(pool, writer).begun).sum()
    }
}

fn words(pool: usize, writer: usize) -> [Offset; 2] {
    let at = Offset((pool as u64 * WRITERS_MAX + writer as u64) * WRITER_BYTES);
    [at, at.word(1)]
}
