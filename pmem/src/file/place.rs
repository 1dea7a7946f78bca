//! Where a file is, and when.

use super::names::io_error;
use super::{boot, look};
use crate::error::OpenError;
use crate::superblock::Place;
use std::fs::File;
use std::path::Path;

pub(super) fn place(file: &File, path: &Path) -> Result<Place, OpenError> {
    let io = io_error("looking at", path);
    let stat = rustix::fs::fstat(file).map_err(|error| io(error.into()))?;
    let vfs = rustix::fs::fstatvfs(file).map_err(|error| io(error.into()))?;
    let recorded = || look::superblock(file, &io).ok().map(|found| found.place.boot_id);
    let file_system = file_system(vfs.f_fsid, stat.st_dev);
    Ok(Place { boot_id: boot::id(file, recorded), inode: stat.st_ino, file_system })
}

/// A file system and the device that it is on: a snapshot of it has the same id on another device, and the snapshot's
/// files have nothing of what was still in memory. What lies on no device has a number in place of one, which may be
/// another one after each mount.
fn file_system(id: u64, device: u64) -> u64 {
    if rustix::fs::major(device) == 0 { id } else { id ^ device.rotate_left(32) }
}
