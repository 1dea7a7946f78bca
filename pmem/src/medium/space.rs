//! Space of a file on its file system: taken before the file is mapped, given back where it does not suffice.
//!
//! What `fallocate` says decides. What the file system reports of its free space does not: some report
//! nothing (tmpfs of no fixed size, ramfs, some FUSE), some free more when they are asked for it (XFS,
//! btrfs), quotas are not in it, and blocks that the file has already are not free. The report only
//! spares a vain attempt where each byte taken costs time, see [`Report::rules_out`].

use super::allocate::{STEP_BYTES_OWN, fallocate, is_tmpfs, write_zeros};
use super::huge::{self, Haste, HugePages};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::ops::Range;

/// What a file has of its file system, beyond what is mapped.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Bytes from the start of the file for which this process has taken space.
    taken: u64,
    /// Length of the file when it was opened. While it is open, the file never becomes shorter: what it owned is not
    /// ours to give.
    found: u64,
    /// The file system cannot allocate, and space is taken by writing zeros.
    writes_zeros: bool,
    huge_pages: HugePages,
}

impl Space {
    /// Of a file of `found` bytes.
    pub(super) fn of_file(file: BorrowedFd<'_>, found: u64) -> Space {
        Space { found, huge_pages: HugePages::of(file), ..Space::default() }
    }

    /// Whether the file's first `target` bytes have space; `mapped` of them are mapped.
    pub(super) fn reaches(&self, target: u64, mapped: u64) -> bool {
        self.taken.max(mapped) >= target
    }

    /// Takes the next step of space towards `target` bytes. Where that fails, all that was taken and
    /// not mapped, in earlier steps and by others as well, goes back to the file system.
    pub(super) fn take_step(
        &mut self,
        file: BorrowedFd<'_>,
        mapped: u64,
        target: u64,
        haste: Haste,
    ) -> Result<(), Errno> {
        let from = self.taken.max(mapped);
        let step = from..self.step_end(from, haste).min(target);
        match self.take(file, mapped, step.clone(), target, haste) {
            Ok(()) => {
                self.taken = step.end;
                Ok(())
            }
            Err(error) => {
                self.give_back(file, mapped);
                Err(error)
            }
        }
    }

    /// Where a step from here on ends, at the latest.
    fn step_end(&self, from: u64, haste: Haste) -> u64 {
        // No step but the last one ends amid a huge page.
        let usual = huge::whole_pages(from + self.huge_pages.step_bytes(haste));
        match self.huge_pages.are_offered() {
            true => usual,
            // An opening goes through what the file has, and nobody waits.
            false => usual.max(self.found.min(from + STEP_BYTES_OWN)),
        }
    }

    fn take(
        &mut self,
        file: BorrowedFd<'_>,
        mapped: u64,
        step: Range<u64>,
        target: u64,
        haste: Haste,
    ) -> Result<(), Errno> {
        let is_ruled_out =
            |zeros| Report::of(file, mapped, zeros).is_ok_and(|it| it.rules_out(target - mapped));
        if is_ruled_out(self.writes_zeros) {
            return Err(Errno::NOSPC);
        }
        if !self.writes_zeros {
            self.huge_pages.attempt(file, &step, haste);
            // Of what has its space already this takes none.
            match fallocate(file, step.clone()) {
                Err(Errno::OPNOTSUPP) => self.writes_zeros = true,
                taken => return taken,
            }
            if is_ruled_out(true) {
                return Err(Errno::NOSPC);
            }
        }
        write_zeros(file, step)
    }

    /// Gives back what is neither mapped nor was in the file when it was opened.
    pub(super) fn give_back(&mut self, file: BorrowedFd<'_>, mapped: u64) {
        // A failure leaves the file longer than it has to be, which harms nothing.
        let _ = rustix::fs::ftruncate(file, mapped.max(self.found));
        self.taken = mapped;
    }
}

/// What a file system says of its space and of a file's.
#[derive(Debug, Clone, Copy)]
struct Report {
    /// Taking space costs time for each byte.
    is_slow: bool,
    /// Size of the file system; 0 where it reports none.
    blocks: u64,
    /// Free space, that for the super-user included: who may use it, only an attempt can tell.
    free_bytes: u64,
    /// What the file owns beyond its mapped bytes.
    owned_bytes: u64,
}

impl Report {
    fn of(file: BorrowedFd<'_>, mapped: u64, writes_zeros: bool) -> rustix::io::Result<Report> {
        let system = rustix::fs::fstatfs(file)?;
        let sizes = rustix::fs::fstatvfs(file)?;
        let owned_bytes = rustix::fs::fstat(file)?.st_blocks.cast_unsigned().saturating_mul(512);
        Ok(Report {
            is_slow: writes_zeros || is_tmpfs(&system),
            blocks: sizes.f_blocks,
            free_bytes: sizes.f_bfree.saturating_mul(sizes.f_frsize),
            owned_bytes: owned_bytes.saturating_sub(mapped),
        })
    }

    /// Whether an attempt to take `needed_bytes` is known to fail, late and at a high price.
    ///
    /// A report of no free space at all is not believed, since it may stand for no report, and since an
    /// attempt fails at once if it is true.
    fn rules_out(&self, needed_bytes: u64) -> bool {
        let has_report = self.blocks > 0 && self.free_bytes > 0;
        let available = self.free_bytes.saturating_add(self.owned_bytes);
        self.is_slow && has_report && needed_bytes > available
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocate::{STEP_BYTES, allocate};
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    const USUAL: Report =
        Report { is_slow: true, blocks: 1000, free_bytes: 400_000, owned_bytes: 0 };

    #[test]
    fn a_report_rules_out_only_what_it_knows() {
        assert!(!USUAL.rules_out(400_000) && USUAL.rules_out(400_001));
        // Owned blocks are not taken twice.
        let owning = Report { owned_bytes: 600_000, ..USUAL };
        assert!(!owning.rules_out(1_000_000) && owning.rules_out(1_000_001));
        // No size, or nothing free: perhaps nobody counts.
        assert!(!Report { blocks: 0, free_bytes: 0, ..USUAL }.rules_out(1 << 40));
        assert!(!Report { free_bytes: 0, ..USUAL }.rules_out(1 << 40));
        // Where an attempt costs nothing, it is made.
        assert!(!Report { is_slow: false, ..USUAL }.rules_out(1 << 40));
        let endless = Report { free_bytes: u64::MAX, owned_bytes: u64::MAX, ..USUAL };
        assert!(!endless.rules_out(u64::MAX));
    }

    fn file_of(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        allocate(file.as_fd(), 0..bytes).unwrap();
        file
    }

    fn len(file: &File) -> u64 {
        file.metadata().unwrap().len()
    }

    #[test]
    fn steps_that_were_taken_are_given_back() {
        let file = file_of(8192);
        let mut space = Space::of_file(file.as_fd(), 8192);
        space.take_step(file.as_fd(), 8192, 1 << 30, Haste::High).unwrap();
        assert_eq!(len(&file), STEP_BYTES);
        assert!(!space.reaches(1 << 30, 8192) && space.reaches(STEP_BYTES, 8192));
        // Another thread has mapped a part of it before the next step fails.
        let mapped = 1 << 20;
        space.give_back(file.as_fd(), mapped);
        assert_eq!(len(&file), mapped);
        assert!(file.metadata().unwrap().blocks() * 512 < 2 * mapped);
        assert!(space.reaches(mapped, mapped) && !space.reaches(mapped + 1, mapped));
        // What it gave back is taken anew.
        space.take_step(file.as_fd(), mapped, mapped + 8192, Haste::High).unwrap();
        assert_eq!(len(&file), mapped + 8192);
    }

    #[test]
    fn what_the_file_had_is_not_given_back() {
        let file = file_of(1 << 20);
        let mut space = Space::of_file(file.as_fd(), 1 << 20);
        space.take_step(file.as_fd(), 8192, 2 << 20, Haste::High).unwrap();
        space.give_back(file.as_fd(), 8192);
        assert_eq!(len(&file), 1 << 20);
    }

    #[test]
    fn zeros_are_written_beyond_the_end_only() {
        let file = file_of(0);
        std::os::unix::fs::FileExt::write_all_at(&file, b"kept", 0).unwrap();
        write_zeros(file.as_fd(), 0..200_000).unwrap();
        let mut space = Space { writes_zeros: true, ..Space::of_file(file.as_fd(), 200_000) };
        space.take_step(file.as_fd(), 4096, 300_000, Haste::High).unwrap();
        let mut bytes = vec![1; 300_000];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes.starts_with(b"kept") && bytes[4..].iter().all(|&byte| byte == 0));
        assert_eq!(len(&file), 300_000);
    }
}
