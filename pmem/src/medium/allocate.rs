//! How space is taken for a range of a file, and given back.

use crate::limits;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, SeekFrom, StatFs};
use rustix::io::Errno;
use std::ops::Range;

/// One call takes at most this much: a writer that needs space waits for no more of what a helper prepares (in
/// /dev/shm some milliseconds).
pub(super) const STEP_BYTES: u64 = 16 << 20;

/// The same on a disk, where what the file has already takes time for each extent, and not for each page.
pub(super) const STEP_BYTES_OWN: u64 = 1 << 30;

/// `f_type` of tmpfs.
const TMPFS: u64 = 0x0102_1994;

pub(super) fn is_tmpfs(system: &StatFs) -> bool {
    system.f_type.cast_unsigned() == TMPFS
}

pub(super) fn is_in_tmpfs(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| is_tmpfs(&system))
}

/// Whether a file in memory is at least this long, and has space but for so many of these bytes. Enough to know of one
/// that nobody but pools has written to: they make no hole but where nothing needs space. It takes no time, however
/// large the file is.
pub(crate) fn has_space(file: BorrowedFd<'_>, bytes: u64, vacant_bytes: u64) -> bool {
    is_in_tmpfs(file)
        && rustix::fs::fstat(file).is_ok_and(|found| {
            let space_bytes = found.st_blocks.cast_unsigned() * 512;
            found.st_size.cast_unsigned() >= bytes
                && space_bytes >= bytes.saturating_sub(vacant_bytes)
        })
}

/// Whether a file in memory is at least this long, and every page of it was written. It looks at each page, 25 ms for a
/// pool of 64 million pairs; to take space for it all the same would take 40. Elsewhere that looks at extents.
///
/// How much space the file has would not tell: the last huge page reaches beyond its end, which hides as large a hole.
pub(crate) fn is_written(file: BorrowedFd<'_>, bytes: u64) -> bool {
    let first_hole = || rustix::fs::seek(file, SeekFrom::Hole(0));
    is_in_tmpfs(file) && first_hole().is_ok_and(|hole| hole >= bytes)
}

/// Takes space for a range of a file, by allocation or, where the file system cannot, by zeros beyond its end.
pub(crate) fn allocate(file: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    match fallocate(file, range.clone()) {
        Err(Errno::OPNOTSUPP) => write_zeros(file, range),
        allocated => allocated,
    }
}

/// Gives the space of whole pages back to the file system; the file keeps its length, and they read as zero.
pub(crate) fn give_back(file: BorrowedFd<'_>, pages: Range<u64>) -> Result<(), Errno> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        match rustix::fs::fallocate(file, flags, pages.start, pages.end - pages.start) {
            Err(Errno::INTR) => {}
            punched => return punched,
        }
    }
}

/// As [`allocate`], of a file that is written to by calls, which a limit on the length of files holds amid it, too.
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) fn allocate_for_writes(file: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    limits::demand_file_bytes(range.end)?;
    allocate(file, range)
}

pub(super) fn fallocate(file: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    demand_length(file, range.end)?;
    let step_bytes = if is_in_tmpfs(file) { STEP_BYTES } else { STEP_BYTES_OWN };
    let mut from = range.start;
    while from < range.end {
        let bytes = (range.end - from).min(step_bytes);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), from, bytes) {
            Ok(()) => from += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An error if a limit keeps the file from becoming so long. What it has already, it may keep.
fn demand_length(file: BorrowedFd<'_>, bytes: u64) -> Result<(), Errno> {
    limits::demand_file_bytes(bytes).or_else(|refused| match length(file)? {
        length if length >= bytes => Ok(()),
        _ => Err(refused),
    })
}

fn length(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(file)?.st_size.cast_unsigned())
}

pub(super) fn write_zeros(file: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    /// Aligned: the file may be one that is read and written past the page cache.
    #[repr(align(4096))]
    struct Zeros([u8; 64 << 10]);
    static ZEROS: Zeros = Zeros([0; 64 << 10]);
    demand_length(file, range.end)?;
    let end = length(file)?;
    let mut from = range.start.max(end);
    while from < range.end {
        let bytes = (range.end - from).min(ZEROS.0.len() as u64) as usize;
        match rustix::io::pwrite(file.as_fd(), &ZEROS.0[..bytes], from) {
            Ok(written) => from += written as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_of_a_file_in_memory_are_known() {
        let made = tempfile::tempfile_in("/dev/shm").ok();
        // There may be none.
        let Some(file) = made.filter(|file| is_in_tmpfs(file.as_fd())) else { return };
        let bytes = 4 << 20;
        file.write_all_at(&vec![1; bytes], 0).unwrap();
        let (file, bytes) = (file.as_fd(), bytes as u64);
        assert!(is_written(file, bytes) && !is_written(file, bytes + 1));
        give_back(file, 1 << 20..(1 << 20) + 4096).unwrap();
        assert!(!is_written(file, bytes));
        // Space alone does not tell.
        allocate(file, bytes..2 * bytes).unwrap();
        assert!(rustix::fs::fstat(file).unwrap().st_blocks as u64 * 512 > bytes);
        assert!(!is_written(file, bytes));
    }
}
