//! Memory behind a pool: more than it needs, prepared ahead, and given back.

use super::Pool;
use crate::error::SpaceError;
use crate::medium::{Medium, whole_pages};
use crate::offset::HUGE_PAGE_BYTES;
use crate::sync::Ordering;

/// A pool that grows allocates this much more than it needs, or an eighth of its size.
const GROW_BYTES_MIN: u64 = 256 << 10;
/// ... but no more than this.
const GROW_BYTES_MAX: u64 = 32 << 20;

impl<M: Medium> Pool<M> {
    /// Puts memory behind the first `end` bytes, and some more if there is any, so that a series of small extents does
    /// not take a series of system calls.
    pub(super) fn grow_amply(&self, end: u64) -> Result<(), SpaceError> {
        if end <= self.medium.size() {
            return Ok(());
        }
        let extra = (end / 8).clamp(GROW_BYTES_MIN, GROW_BYTES_MAX);
        let most = self.medium.limit().min(self.prepared_max.load(Ordering::Relaxed));
        let ample = end.saturating_add(extra).min(most);
        // Only whole huge pages can be taken as such.
        let ample = if whole_pages(ample) > end { whole_pages(ample) } else { ample };
        if ample > end && self.medium.grow(ample).is_ok() { Ok(()) } else { self.medium.grow(end) }
    }

    /// From now on no more is prepared beyond the end than up to so many bytes from the beginning.
    pub fn prepare_at_most(&self, bytes: u64) {
        self.prepared_max.store(bytes, Ordering::Relaxed);
    }

    /// Gives back what the file has beyond the memory of the pool: what a process that was killed had prepared.
    pub fn cut_unused(&self) {
        self.medium.cut(self.medium.size());
    }

    /// Gives the space that was prepared beyond the end back to the system; returns how many bytes. A later extent
    /// takes it again.
    #[inline(never)]
    pub fn give_prepared_back(&self) -> u64 {
        let superblock = self.superblock.lock();
        let mut hollow = self.hollow.lock();
        let beyond = superblock.end..self.medium.size();
        let bytes = beyond.end.saturating_sub(beyond.start.max(hollow.end));
        if bytes < GROW_BYTES_MIN || !self.medium.give_back(beyond.clone()) {
            return 0;
        }
        *hollow = beyond;
        self.prepared.store(0, Ordering::Relaxed);
        bytes
    }

    /// Takes space again up to `end`. The caller has the superblock's lock.
    pub(super) fn fill_hollow(&self, end: u64) -> Result<(), SpaceError> {
        let mut hollow = self.hollow.lock();
        let needed = hollow.start..end.min(hollow.end);
        if !needed.is_empty() {
            self.medium.take_back(needed.clone())?;
            hollow.start = needed.end;
        }
        Ok(())
    }

    /// Why the pool may not grow to `needed_bytes`: its limit, or missing addresses for `what`, the volatile state that
    /// goes with it.
    #[cold]
    #[inline(never)]
    pub fn no_room_for(&self, what: &str, needed_bytes: u64) -> SpaceError {
        let limit_bytes = self.medium.limit();
        if needed_bytes > limit_bytes {
            // The medium knows what limits it.
            let refused = self.medium.grow(needed_bytes).err();
            return refused.unwrap_or(SpaceError::beyond_limit(needed_bytes, limit_bytes));
        }
        let reason = format!(
            "the system grants no addresses for {what}: raise the process's limit (`ulimit -v`), if \
             it has one"
        );
        SpaceError::Full { needed_bytes, reason }
    }

    /// Allocates and touches memory for `bytes` of further extents, so that [`Pool::extend`] finds it ready. For a
    /// helper: it may take long, but delays nobody for long.
    #[inline(never)]
    pub fn prepare(&self, bytes: u64) -> Result<(), SpaceError> {
        let end = self.superblock.lock().end;
        // Wherever they may begin.
        let least = end.next_multiple_of(HUGE_PAGE_BYTES).saturating_add(bytes);
        // In whole huge pages, where one is not too much.
        let ample = least.checked_next_multiple_of(HUGE_PAGE_BYTES).unwrap_or(least);
        let target = if bytes < HUGE_PAGE_BYTES || self.medium.grow_ahead(ample).is_err() {
            self.medium.grow_ahead(least)?;
            least
        } else {
            ample
        };
        let further = |before: u64| (before < target).then_some(target);
        let before = self.prepared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
        if let Ok(before) = before {
            self.medium.populate(before.max(end)..target);
        }
        Ok(())
    }
}
