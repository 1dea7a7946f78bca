//! Where a file is, and when.

use super::names::io_error;
use crate::error::OpenError;
use crate::superblock::Place;
use std::fs::File;
use std::path::Path;

fn boot_id() -> [u64; 2] {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16).unwrap_or_default();
    [id as u64, (id >> 64) as u64]
}

pub(super) fn place(file: &File, path: &Path) -> Result<Place, OpenError> {
    let io = io_error("looking at", path);
    let stat = rustix::fs::fstat(file).map_err(|error| io(error.into()))?;
    let vfs = rustix::fs::fstatvfs(file).map_err(|error| io(error.into()))?;
    Ok(Place { boot_id: boot_id(), inode: stat.st_ino, file_system: vfs.f_fsid })
}
