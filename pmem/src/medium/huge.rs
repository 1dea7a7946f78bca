//! Huge pages for files in tmpfs, such as those in /dev/shm.
//!
//! tmpfs has huge pages only if it is mounted with them or the system's `shmem_enabled` allows them. Both are rare.
//! With pages of 4 KiB nearly every cache miss needs a page walk, too. Since Linux 6.1 a process may ask for huge pages
//! in a range of a mapped file unless that setting is `deny`: MADV_COLLAPSE. The call copies the pages that the range
//! has, and fills the rest with zeros. So we call it when the space is taken, before the range has more than one page:
//! there is next to nothing to copy, and no other mapping has to wait. Zeroing one huge page takes less time than
//! zeroing 512 small ones, each of which also costs a fault.

use super::allocate::{STEP_BYTES, fallocate, is_in_tmpfs};
use super::reservation::Reservation;
use crate::offset::HUGE_PAGE_BYTES;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Most steps that are taken in single pages after an attempt that was not worth its time. Perhaps the system cannot
/// have huge pages; or its memory is in pieces just now, and it moves others' pages first; or it is a virtual machine,
/// and gets the memory from its host first.
const REST_MAX: u32 = 1 << 10;
/// A huge page that takes longer is not worth it while a writer waits. As many single pages take about as long, with
/// the faults that map them. One that comes from a host may take 5 ms.
const PAGE_TIME_MAX: Duration = Duration::from_millis(2);
/// Most huge pages of one attempt.
const PAGES_MAX: u32 = (STEP_BYTES / HUGE_PAGE_BYTES) as u32;

/// Whether somebody waits for the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// A writer may.
    High,
    /// Nobody waits before this moment. Huge pages are taken however long that takes: they are faster ever after.
    NoneUntil(Instant),
}

impl Haste {
    fn is_none(self) -> bool {
        matches!(self, Haste::NoneUntil(moment) if Instant::now() < moment)
    }
}

/// Whether another attempt is worth its time.
#[derive(Debug, Default)]
pub(super) struct HugePages {
    /// Whether the file is in tmpfs.
    is_offered: bool,
    /// Whether the last attempt was refused, and not only slow.
    is_refused: bool,
    /// Steps to come without an attempt.
    rest: u32,
    /// Steps that follow the next attempt if it is not worth its time.
    patience: u32,
    /// log2 of the huge pages of an attempt. The first one after another kind of step is small: a writer may wait.
    pages_log2: u32,
}

impl HugePages {
    /// For a file.
    pub(super) fn of(file: BorrowedFd<'_>) -> HugePages {
        HugePages { is_offered: is_in_tmpfs(file), ..HugePages::default() }
    }

    fn is_due(&self, haste: Haste) -> bool {
        self.rest == 0 || !self.is_refused && haste.is_none()
    }

    /// Whether the file is in memory, where the system has them.
    pub(super) fn are_offered(&self) -> bool {
        self.is_offered
    }

    /// Most bytes of the next step.
    pub(super) fn step_bytes(&self, haste: Haste) -> u64 {
        if self.is_offered && self.is_due(haste) {
            HUGE_PAGE_BYTES << self.pages_log2
        } else {
            STEP_BYTES
        }
    }

    /// The part of `step` to attempt now, whole huge pages.
    fn wanted(&mut self, step: &Range<u64>, haste: Haste) -> Option<Range<u64>> {
        let whole = step.start.next_multiple_of(HUGE_PAGE_BYTES)..whole_pages(step.end);
        if whole.is_empty() || !self.is_offered {
            return None;
        }
        let is_due = self.is_due(haste);
        self.rest = self.rest.saturating_sub(1);
        is_due.then_some(whole)
    }

    fn learn(&mut self, outcome: Outcome) {
        self.is_refused = outcome == Outcome::Refused;
        if outcome == Outcome::WorthIt {
            self.patience = 0;
            self.pages_log2 = (self.pages_log2 + 1).min(PAGES_MAX.ilog2());
        } else {
            self.patience = (2 * self.patience).clamp(1, REST_MAX);
            self.pages_log2 = 0;
        }
        self.rest = self.patience;
    }

    /// Takes the space of what huge pages a step has, if it is worth an attempt. What is left is to be taken otherwise.
    pub(super) fn attempt(&mut self, file: BorrowedFd<'_>, step: &Range<u64>, haste: Haste) {
        let Some(pages) = self.wanted(step, haste) else { return };
        let count = (pages.end - pages.start) / HUGE_PAGE_BYTES;
        let began = Instant::now();
        self.learn(match take(file, pages) {
            Err(_) => Outcome::Refused,
            Ok(()) if began.elapsed() > PAGE_TIME_MAX * count as u32 => Outcome::Slow,
            Ok(()) => Outcome::WorthIt,
        });
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    WorthIt,
    Slow,
    Refused,
}

/// The largest multiple of a huge page that is not larger.
pub(crate) const fn whole_pages(bytes: u64) -> u64 {
    bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
}

/// Takes the space of a range of whole huge pages, which may lie beyond the file's end, in huge pages. After an error
/// the range may have a part of its space, in pages of any size.
pub(super) fn take(file: BorrowedFd<'_>, range: Range<u64>) -> io::Result<()> {
    let page = rustix::param::page_size() as u64;
    for start in range.clone().step_by(HUGE_PAGE_BYTES as usize) {
        // An empty range is refused. The last page also makes the file long enough.
        let end = start + HUGE_PAGE_BYTES;
        fallocate(file, end.saturating_sub(page)..end)?;
    }
    let bytes = range.end - range.start;
    let window = Reservation::exactly(bytes)?;
    let address = window.base.as_ptr().cast();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: MAP_FIXED replaces pages of a reservation that nobody else knows.
    unsafe { rustix::mm::mmap(address, bytes as usize, protection, flags, file, range.start)? };
    // SAFETY: as above; the range's content stays as it is. `rustix` lacks this advice.
    match unsafe { libc::madvise(address, bytes as usize, libc::MADV_COLLAPSE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Refused, Slow, WorthIt};
    use super::*;
    use crate::medium::{Medium, Memory};
    use crate::offset::Offset;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    /// A file in tmpfs, if there is one and the system has huge pages for it.
    fn file() -> Option<File> {
        let probe = tempfile::tempfile_in("/dev/shm").ok()?;
        (is_in_tmpfs(probe.as_fd()) && take(probe.as_fd(), 0..HUGE_PAGE_BYTES).is_ok())
            .then(|| tempfile::tempfile_in("/dev/shm").unwrap())
    }

    /// Bytes of the mapping at `address` that are mapped by huge pages.
    fn huge_bytes_at(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{address:x}-");
        let mapping = maps.lines().skip_while(|line| !line.starts_with(&start));
        let mut fields = mapping.filter_map(|line| line.strip_prefix("ShmemPmdMapped:"));
        let field = fields.next().unwrap().trim().trim_end_matches(" kB");
        field.parse::<u64>().unwrap() << 10
    }

    #[test]
    fn a_mapping_grows_by_huge_pages() {
        let Some(file) = file() else { return };
        let bytes = 5 * HUGE_PAGE_BYTES;
        let memory = Memory::mapped(file.try_clone().unwrap(), 0, 1 << 30, true).unwrap();
        // Neither the first page nor the last one is whole.
        memory.grow(12_288).unwrap();
        memory.store(Offset(8), 7);
        memory.grow(bytes + 8192).unwrap();
        memory.populate(0..bytes + 8192);
        // SAFETY: nobody else uses the memory.
        let start = unsafe { memory.bytes(Offset(0), 8) }.unwrap().as_ptr();
        // The first attempt succeeds, however long it takes. Whether others follow depends on that.
        let huge_bytes = huge_bytes_at(start as usize);
        let most = bytes - HUGE_PAGE_BYTES;
        assert!((HUGE_PAGE_BYTES..=most).contains(&huge_bytes), "{huge_bytes}");
        // All of it has space, and no more than that.
        let taken_bytes = file.metadata().unwrap().blocks() * 512;
        assert_eq!((taken_bytes, file.metadata().unwrap().len()), (bytes + 8192, bytes + 8192));
        assert_eq!((memory.load(Offset(8)), memory.load(Offset(bytes + 8184))), (7, 0));
    }

    #[test]
    fn what_is_there_stays() {
        let Some(file) = file() else { return };
        file.write_all_at(b"kept", HUGE_PAGE_BYTES - 2).unwrap();
        take(file.as_fd(), 0..3 * HUGE_PAGE_BYTES).unwrap();
        let mut bytes = vec![1; 3 * HUGE_PAGE_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let at = HUGE_PAGE_BYTES as usize - 2;
        assert_eq!(&bytes[at..at + 4], b"kept");
        bytes[at..at + 4].fill(0);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    /// As of a kernel without them.
    #[test]
    fn a_refusal_leaves_single_pages() {
        let file = tempfile::tempfile().unwrap();
        if is_in_tmpfs(file.as_fd()) {
            return;
        }
        take(file.as_fd(), 0..HUGE_PAGE_BYTES).unwrap_err();
        let memory = Memory::mapped(file.try_clone().unwrap(), 0, 1 << 30, true).unwrap();
        memory.grow(2 * HUGE_PAGE_BYTES).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= 2 * HUGE_PAGE_BYTES);
    }

    #[test]
    fn attempts_begin_small() {
        let mut pages = HugePages { is_offered: true, ..HugePages::default() };
        let mut steps = Vec::new();
        for outcome in [WorthIt, WorthIt, WorthIt, WorthIt, Refused, WorthIt] {
            steps.push(pages.step_bytes(Haste::High) >> 20);
            pages.learn(outcome);
            if outcome == Refused {
                assert_eq!(pages.step_bytes(Haste::High), STEP_BYTES);
                assert_eq!(pages.wanted(&(0..STEP_BYTES), Haste::High), None);
            }
        }
        assert_eq!(steps, [2, 4, 8, 16, 16, 2]);
        assert_eq!(HugePages::default().step_bytes(Haste::High), STEP_BYTES);
    }

    #[test]
    fn slow_ones_are_taken_while_nobody_waits() {
        let mut pages = HugePages { is_offered: true, ..HugePages::default() };
        let step = 0..STEP_BYTES;
        let no_haste = Haste::NoneUntil(Instant::now() + Duration::from_secs(3600));
        let too_late = Haste::NoneUntil(Instant::now());
        for _ in 0..5 {
            pages.learn(Slow);
            for haste in [Haste::High, too_late] {
                assert_eq!(pages.step_bytes(haste), STEP_BYTES);
            }
            // One by one, so that a writer that comes to wait does not wait for long.
            assert_eq!(pages.step_bytes(no_haste), HUGE_PAGE_BYTES);
            assert_eq!(pages.wanted(&step, no_haste), Some(step.clone()));
        }
        assert_eq!(pages.wanted(&step, too_late), None);
        assert_eq!(pages.wanted(&step, Haste::High), None);
        pages.learn(Refused);
        assert_eq!(pages.step_bytes(no_haste), STEP_BYTES);
        assert_eq!(pages.wanted(&step, no_haste), None);
    }

    #[test]
    fn attempts_become_rare_after_refusals() {
        let Some(file) = file() else { return };
        let mut pages = HugePages::of(file.as_fd());
        let mut attempts = |count: usize, succeed: bool| {
            let is_attempted = |_: &usize| {
                let wanted = pages.wanted(&(4096..2 * HUGE_PAGE_BYTES + 1), Haste::High);
                if let Some(wanted) = &wanted {
                    assert_eq!(*wanted, HUGE_PAGE_BYTES..2 * HUGE_PAGE_BYTES);
                    pages.learn(if succeed { WorthIt } else { Slow });
                }
                wanted.is_some()
            };
            (0..count).filter(is_attempted).collect::<Vec<_>>()
        };
        assert_eq!(attempts(3, true), [0, 1, 2]);
        assert_eq!(attempts(12, false), [0, 2, 5, 10]);
        let seldom = attempts(10_000, false);
        assert!((15..25).contains(&seldom.len()), "{seldom:?}");
        // As soon as one succeeds, the next steps are attempts again.
        let first = attempts(2_000, true)[0];
        assert!(first <= REST_MAX as usize);
        assert_eq!(attempts(2, true), [0, 1]);
        assert_eq!(pages.wanted(&(1..HUGE_PAGE_BYTES), Haste::High), None);
    }
}
