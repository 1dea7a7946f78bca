//! Bytes written to disks: what the kernel charges a process with, and what a device counts.
//!
//! The kernel charges a process when it makes a page of a file dirty, by a call or through a mapping, and when it
//! writes past the page cache. So a page is charged although it is written later, or never, and several changes of it
//! until then count once. It charges whole folios, which may have many pages. Those of a mapped file are written whole,
//! too; of those that `write` changed, only the blocks concerned. What the file system writes for itself is not
//! charged, nor is what lies in memory, as in /dev/shm.
//!
//! A device counts all that reaches it: of other processes, too, and of the file system. The file system's caches are
//! written out before each look. So both are upper bounds of what somebody's data cost the device, and the smaller one
//! is nearer.

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;

/// Bytes of a sector, as the kernel counts them.
const SECTOR_BYTES: u64 = 512;
/// Index of the sectors written in a device's `stat`.
const SECTORS_WRITTEN_FIELD: usize = 6;

/// Bytes that this process was charged with so far.
pub(crate) fn by_this_process() -> Result<u64> {
    charged("self")
}

/// Waits until a child has ended, and returns the bytes that it was charged with. It has still to be reaped.
pub fn by_ended(child: &Child) -> Result<u64> {
    let pid = Pid::from_raw(child.id().cast_signed()).context("a process without a number")?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .context("waiting for a process")?;
    charged(&child.id().to_string())
}

fn charged(process: &str) -> Result<u64> {
    let source = format!("/proc/{process}/io");
    let text = fs::read_to_string(&source).with_context(|| source.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|line| line.trim().parse().ok())
        .with_context(|| format!("{source} does not tell the bytes written"))
}

/// The device below a directory's file system, if there is one.
pub(crate) struct Device {
    directory: File,
    statistics: PathBuf,
}

impl Device {
    pub(crate) fn below(directory: &Path) -> Result<Option<Device>> {
        let directory = File::open(directory).with_context(|| directory.display().to_string())?;
        let number = directory.metadata()?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let statistics = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        Ok(statistics.exists().then_some(Device { directory, statistics }))
    }

    /// Bytes that the device has written so far, with all that is dirty now.
    pub(crate) fn written_bytes(&self) -> Result<u64> {
        rustix::fs::syncfs(&self.directory).context("writing a file system's caches out")?;
        let text = fs::read_to_string(&self.statistics)?;
        let sectors = text.split_whitespace().nth(SECTORS_WRITTEN_FIELD);
        let sectors = sectors.and_then(|sectors| sectors.parse::<u64>().ok());
        let sectors = sectors.with_context(|| format!("{} is odd", self.statistics.display()))?;
        Ok(sectors * SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_ended_child_is_charged_with_what_it_wrote() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let is_on_a_disk = Device::below(directory.path()).unwrap().is_some();
        let bytes = |count: &str| {
            let file = directory.path().join(count);
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "bs=4096", &format!("count={count}")]);
            let mut child = command
                .arg(format!("of={}", file.display()))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let bytes = by_ended(&child).unwrap();
            assert!(child.wait().unwrap().success());
            bytes
        };
        let (few, many) = (bytes("1"), bytes("256"));
        assert!(!is_on_a_disk || few < many && many >= 256 * 4096, "{few}, {many}");
    }

    #[test]
    fn a_device_counts_what_was_dirty() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let Some(device) = Device::below(directory.path()).unwrap() else { return };
        let before = device.written_bytes().unwrap();
        fs::write(directory.path().join("file"), vec![1; 1 << 20]).unwrap();
        assert!(device.written_bytes().unwrap() - before >= 1 << 20);
    }

    #[test]
    fn memory_has_no_device() {
        assert!(Device::below(Path::new("/dev/shm")).unwrap().is_none());
    }
}
