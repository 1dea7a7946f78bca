//! Whether the system has kept every store to a file since a process recorded where and when it wrote: whether its page
//! cache is the same one.
//!
//! There are two witnesses.
//!
//! *The kernel's boot id*, in /proc. It decides, if it was read then and can be read now. A container may have a file
//! of its own mounted there: one that says another id whenever the container starts, or for ever the same one. So only
//! what procfs itself says is believed.
//!
//! *A mark on the file's inode*, used where one of the two ids is missing. It is the inode's write-lifetime hint, which
//! the kernel keeps in memory only. It is set once the superblock has been written with this place and boot. An inode
//! that still has the mark has been in memory ever since, and so have all pages of the file that were not written back.
//! A restart leaves no mark, and no other program has a reason to set one. The kernel may drop an inode that no process
//! has open, and with it the mark, once it has written it back. The pool is then treated as after a restart.

use crate::superblock::{BootId, MADE_UP_BOOT, is_made_up};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `f_type` of procfs.
const PROCFS: u64 = 0x9fa0;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

// As <linux/fcntl.h> has them.
const F_GET_RW_HINT: libc::c_int = 1035;
const F_SET_RW_HINT: libc::c_int = 1036;
/// The mark: this hint says nothing about what is written. (0, an inode's first value, says nothing either.)
const RWH_WRITE_LIFE_NONE: u64 = 1;

/// The kernel's boot id, if it can be read.
fn kernels() -> Option<BootId> {
    let mut file = File::open(BOOT_ID).ok()?;
    let system = rustix::fs::fstatfs(&file).ok()?;
    if system.f_type.cast_unsigned() != PROCFS {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|&id| id != 0)?;
    Some([id as u64, (id >> 64) as u64])
}

/// This boot, for a file in which `recorded` is that of its last opening for writing.
pub(super) fn id(file: &File, recorded: impl FnOnce() -> Option<BootId>) -> BootId {
    let made_up = || [RandomState::new().hash_one(std::process::id()), MADE_UP_BOOT];
    decide(kernels(), recorded(), || is_marked(file)).unwrap_or_else(made_up)
}

/// `None`: another boot than any that was recorded.
fn decide(
    kernels: Option<BootId>,
    recorded: Option<BootId>,
    is_marked: impl FnOnce() -> bool,
) -> Option<BootId> {
    let tells = recorded.is_some_and(|recorded| !is_made_up(&recorded));
    match recorded {
        Some(recorded) if !(tells && kernels.is_some()) && is_marked() => Some(recorded),
        _ => kernels,
    }
}

fn is_marked(file: &File) -> bool {
    let mut hint = 0u64;
    // SAFETY: the kernel stores one word, which outlives the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &mut hint) };
    asked == 0 && hint != 0
}

/// Marks a file whose superblock has been written in this boot, and says so. Where the system refuses, there is one
/// witness fewer.
pub(crate) fn mark(file: BorrowedFd<'_>) {
    // SAFETY: the kernel reads one word, which outlives the call.
    unsafe { libc::fcntl(file.as_raw_fd(), F_SET_RW_HINT, &RWH_WRITE_LIFE_NONE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const ONE: BootId = [1, 2];
    const OTHER: BootId = [3, 4];
    const MADE_UP: BootId = [5, MADE_UP_BOOT];

    #[test]
    fn two_boot_ids_of_the_kernel_decide() {
        let unasked = || panic!("the mark is not needed");
        assert_eq!(decide(Some(ONE), Some(ONE), unasked), Some(ONE));
        assert_eq!(decide(Some(ONE), Some(OTHER), unasked), Some(ONE));
        assert_eq!(decide(Some(ONE), None, unasked), Some(ONE));
        assert_eq!(decide(None, None, unasked), None);
    }

    #[test]
    fn otherwise_a_mark_says_that_the_boot_is_the_same() {
        for recorded in [ONE, MADE_UP] {
            assert_eq!(decide(None, Some(recorded), || true), Some(recorded));
            assert_eq!(decide(None, Some(recorded), || false), None);
        }
        assert_eq!(decide(Some(ONE), Some(MADE_UP), || true), Some(MADE_UP));
        assert_eq!(decide(Some(ONE), Some(MADE_UP), || false), Some(ONE));
    }

    #[test]
    fn a_mark_stays_with_the_file_and_is_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        let [path, copy] = ["pool", "copy"].map(|name| directory.path().join(name));
        let file = File::create(&path).unwrap();
        assert!(!is_marked(&file));
        mark(file.as_fd());
        drop(file);
        std::fs::copy(&path, &copy).unwrap();
        assert!(is_marked(&File::open(&path).unwrap()) && !is_marked(&File::open(&copy).unwrap()));
        std::fs::rename(&copy, &path).unwrap();
        assert!(!is_marked(&File::open(&path).unwrap()));
    }

    #[test]
    fn made_up_ids_are_known_as_such() {
        assert!(is_made_up(&MADE_UP) && is_made_up(&[0, 0]) && !is_made_up(&ONE));
    }
}
