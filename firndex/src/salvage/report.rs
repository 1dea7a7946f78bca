//! The result of a salvage.

use super::found::Led;
use crate::Result;
use pmem::Offset;
use pmem::superblock::Superblock;

/// Most findings that are listed.
const FINDINGS_MAX: usize = 20;

/// How much of a superblock was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SuperblockState {
    /// At least one copy is whole.
    Sound,
    /// Neither copy fits its checksum. One of them was used all the same.
    Damaged,
    /// Neither copy can be a superblock.
    Lost,
}

/// What was saved of a pool, and what was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Pairs in the new pool.
    pub pairs: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Pairs that the damaged pool had when it was closed, if that is recorded.
    pub expected: Option<u64>,
    /// How much of the superblock was left.
    pub superblock: SuperblockState,
    /// Whether this was a closed pool. If not, it was cut off, or is a checkpoint: what was written last may be
    /// missing.
    pub closed: bool,
    /// Slots whose key does not belong there. They were left out.
    pub misplaced: u64,
    /// Slots that lead to no item with a valid checksum. They were left out.
    pub unreadable: u64,
    /// Further slots of a key, with another value. The value that look-ups prefer was taken.
    pub contradictory: u64,
    /// Items that no slot leads to: their pairs were removed, or their slots are damaged.
    pub orphans: u64,
    /// Bytes of tables that are missing or unreadable.
    pub unread_bytes: u64,
    /// The first omissions, in words.
    pub findings: Vec<String>,
}

impl Salvaged {
    /// Whether the new pool has everything, as far as anybody can tell. Nobody can of a pool that was not closed, of a
    /// checkpoint, or where nothing was found though it is not recorded that there was nothing. Orphans do not count
    /// against it: pools leave them behind all the time.
    pub fn is_complete(&self) -> bool {
        self.superblock == SuperblockState::Sound
            && self.closed
            && (self.pairs > 0 || self.expected == Some(0))
            && self.misplaced + self.unreadable + self.contradictory + self.unread_bytes == 0
            && self.expected.is_none_or(|expected| expected == self.pairs)
    }
}

/// The result in the making.
pub(super) struct Tally {
    report: Salvaged,
    pub(super) unread_bytes: u64,
    /// Why nothing more can be written.
    failed: Option<crate::Error>,
}

impl Tally {
    pub(super) fn new(
        superblock: SuperblockState,
        says: Option<&Superblock>,
        closed: bool,
    ) -> Tally {
        let report = Salvaged {
            pairs: 0,
            bytes: 0,
            expected: says.filter(|_| closed).and_then(Superblock::pairs),
            superblock,
            closed,
            misplaced: 0,
            unreadable: 0,
            contradictory: 0,
            orphans: 0,
            unread_bytes: 0,
            findings: Vec::new(),
        };
        Tally { report, unread_bytes: 0, failed: None }
    }

    /// Counts a pair that `keep` writes, and whether it agrees with earlier ones.
    pub(super) fn keep(&mut self, keep: impl FnOnce() -> Result<bool>) {
        if let Some(false) = self.unless_failed(keep) {
            self.report.contradictory += 1;
        }
    }

    /// Counts a pair that is left out.
    pub(super) fn lose<T>(&mut self, led: &Led<T>) {
        let (count, what) = match led {
            Led::Pair(_) => return,
            Led::Misplaced(at) => (
                &mut self.report.misplaced,
                format!("{}: a key that does not belong there", place(*at)),
            ),
            Led::Unreadable(at) => (
                &mut self.report.unreadable,
                format!("{}: no item that fits its checksum", place(*at)),
            ),
        };
        *count += 1;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(what);
        }
    }

    /// Counts an item, if `is_orphan` finds that it is one.
    pub(super) fn try_orphan(&mut self, is_orphan: impl FnOnce() -> Result<bool>) {
        if let Some(true) = self.unless_failed(is_orphan) {
            self.report.orphans += 1;
        }
    }

    fn unless_failed(&mut self, work: impl FnOnce() -> Result<bool>) -> Option<bool> {
        if self.failed.is_some() {
            return None;
        }
        work().map_err(|error| self.failed = Some(error)).ok()
    }

    pub(super) fn failure(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), |error| Err(error.of_a_new_pool()))
    }

    pub(super) fn end(self, pairs: u64, bytes: u64) -> Salvaged {
        Salvaged { pairs, bytes, unread_bytes: self.unread_bytes, ..self.report }
    }
}

/// Where something was found, for reports.
fn place(at: Offset) -> String {
    format!("at {at}")
}
