//! What fills the file system.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use cli::failure::Failure;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs, ftruncate, statvfs};
use rustix::io::Errno;

/// The largest file system that is filled: nobody else can be on it.
const FILE_SYSTEM_BYTES_MAX: u64 = 1 << 30;
/// What a file takes besides its contents.
const SLACK_BYTES: u64 = 64 << 10;

/// A file of any size.
pub(super) struct Ballast(Mutex<File>);

impl Ballast {
    /// In this directory, and empty.
    pub(super) fn new(dir: &Path) -> Result<Ballast> {
        let path = dir.join("ballast");
        let made = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Ballast(Mutex::new(made)))
    }

    /// Leaves this much of the file system free, or somewhat more.
    pub(super) fn fill(&self, left_bytes: u64) -> Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = fstatvfs(&*file).context("looking at the file system")?;
        let taken_bytes = (told.f_bavail * told.f_frsize).saturating_sub(left_bytes);
        if taken_bytes == 0 {
            return Ok(());
        }
        let bytes = file.metadata()?.len();
        match fallocate(&*file, FallocateFlags::empty(), bytes, taken_bytes) {
            // The pool has taken some of it meanwhile.
            Err(Errno::NOSPC) => Ok(()),
            done => done.context("filling the file system"),
        }
    }

    /// Gives everything back.
    pub(super) fn free(&self) -> Result<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ftruncate(&*file, 0).context("freeing the file system")
    }
}

/// Refuses to fill a large file system: others have files there.
pub(super) fn demand_a_small_file_system(dir: &Path) -> Result<()> {
    let told = statvfs(dir).context("looking at the file system")?;
    let bytes = told.f_blocks * told.f_frsize;
    if bytes <= FILE_SYSTEM_BYTES_MAX {
        ensure!(bytes > SLACK_BYTES, "the file system of {} has no space", dir.display());
        return Ok(());
    }
    Err(Failure::new(
        format!("the file system of {} has {bytes} bytes, and --fill would fill it", dir.display()),
        "name a directory of a small one of its own with --dir: 1 GiB at most, as tests/lives/run mounts one",
    )
    .into())
}
