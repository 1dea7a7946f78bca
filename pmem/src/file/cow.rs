//! File systems that put what is written elsewhere than what it replaces. There, space that a file has is no promise
//! that it can be written to: a store needs more space, and where there is none left, the kernel ends the process by
//! SIGBUS.

use rustix::fs::{FallocateFlags, IFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// `f_type` of file systems that do so.
const BTRFS: u64 = 0x9123_683e;
const ZFS: u64 = 0x2fc1_2fc1;
const BCACHEFS: u64 = 0xca45_1a4e;
const NILFS: u64 = 0x3434;

fn kind(file: &File) -> u64 {
    rustix::fs::fstatfs(file).map_or(0, |system| system.f_type.cast_unsigned())
}

/// Has a new, empty file written in place, where the file system can be asked for that.
pub(super) fn write_in_place(file: &File) {
    if kind(file) == BTRFS
        && let Ok(flags) = rustix::fs::ioctl_getflags(file)
    {
        // Where it is refused, `is_copied` says so.
        let _ = rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// Gives a file its own copy of what it shares with a copy of itself (`cp --reflink`), where the file system can do
/// that.
pub(super) fn unshare(file: &File, bytes: u64) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::UNSHARE_RANGE, 0, bytes) {
            Err(Errno::INTR) => {}
            Err(full @ (Errno::NOSPC | Errno::DQUOT)) => return Err(full),
            // Nothing can be shared here, or nothing can be done about it.
            _ => return Ok(()),
        }
    }
}

/// Whether each store to the file may need more space of its file system.
pub(super) fn is_copied(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    match kind(&file) {
        BTRFS => {
            !rustix::fs::ioctl_getflags(&file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
        }
        kind => [ZFS, BCACHEFS, NILFS].contains(&kind),
    }
}
