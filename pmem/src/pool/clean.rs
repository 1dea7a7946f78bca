//! Whether a pool says that it is clean: written to the device whole, and untouched since.

use super::Pool;
use super::copies::write_copies;
use super::gate::GateState;
use crate::medium::{Medium, MediumKind};
use crate::superblock::{LogEnd, SUPERBLOCK_BYTES};
use std::io;

impl<M: Medium> Pool<M> {
    /// Records on the device that the pool is clean, with the number of pairs and the end of its log if these are
    /// known, or that it is dirty.
    #[inline(never)]
    pub(super) fn mark(
        &self,
        clean: bool,
        pairs: Option<u64>,
        log_end: Option<LogEnd>,
    ) -> io::Result<()> {
        let mut superblock = self.superblock.lock();
        self.demand_own(&superblock)?;
        let mut marked = superblock.clone();
        marked.advance(clean, pairs);
        marked.set_log_end(log_end);
        if clean {
            marked.set_free_slots(self.free_slots_to_record.lock().take());
        }
        marked.place = self.place;
        write_copies(&self.medium, &marked);
        *superblock = marked;
        self.medium.sync(0..SUPERBLOCK_BYTES)
    }

    /// Makes everything that has returned so far survive power loss, if the medium can: on `mapped`, writes all to the
    /// device and records the pool as clean until the next write. Writers wait during the last part.
    pub fn sync(&self) -> io::Result<()> {
        self.sync_counted(&|| None)
    }

    /// As [`Pool::sync`]. Records the result of `count`, which is called while nobody has the right to write, as the
    /// number of pairs.
    #[inline(never)]
    pub fn sync_counted(&self, count: &dyn Fn() -> Option<u64>) -> io::Result<()> {
        match self.medium.kind() {
            // On `dax` every operation that returned is durable already.
            MediumKind::Dram | MediumKind::Dax => Ok(()),
            MediumKind::Mapped => self.clean(&mut || (count(), None)),
        }
    }

    /// `record` says the number of pairs, and where the log ends. It is called once, while nobody has the right to
    /// write.
    #[inline(never)]
    fn clean(&self, record: &mut dyn FnMut() -> (Option<u64>, Option<LogEnd>)) -> io::Result<()> {
        let _transition = self.transition.lock();
        if self.gate.state() != GateState::Open {
            return Ok(());
        }
        // The bulk goes out while writers go on; what they add meanwhile is little.
        self.medium.sync(0..self.medium.size())?;
        self.gate.close();
        if let Err(error) = self.medium.sync(0..self.medium.size()) {
            self.gate.set(GateState::Open);
            return Err(error);
        }
        let (pairs, log_end) = record();
        let marked = self.mark(true, pairs, log_end);
        // Also if that failed: "clean" may reach the device by itself later, so the next writer
        // must say "dirty" first.
        self.gate.set(GateState::Clean);
        marked
    }

    /// As [`Pool::sync`] on `mapped`, and calls `work` while the pool is clean on the device and nobody writes.
    pub fn clean_for<R>(
        &self,
        count: impl Fn() -> Option<u64>,
        work: impl FnOnce() -> R,
    ) -> io::Result<R> {
        self.clean(&mut || (count(), None))?;
        let _transition = self.transition.lock();
        if self.gate.state() == GateState::Open {
            // Somebody wrote since: what that was is on its way into the file, and `work` waits no longer for it.
            self.gate.close();
            let synced = self.medium.sync(0..self.medium.size());
            let marked = synced.and_then(|()| self.mark(true, None, None));
            self.gate.set(GateState::Syncing);
            let result = marked.map(|()| work());
            self.gate.set(GateState::Clean);
            return result;
        }
        self.gate.set(GateState::Syncing);
        let result = work();
        self.gate.set(GateState::Clean);
        Ok(result)
    }

    /// Syncs and records the pool as clean, on every medium, with the number given to [`Pool::record_pairs`].
    #[inline(never)]
    pub fn close(&self) -> io::Result<()> {
        self.clean(&mut || (self.pairs_to_record.lock().take(), None))
    }

    /// As [`Pool::close`], of a pool with a log. `end_log` ends it while nobody has the right to write: so the pool
    /// holds exactly what its checkpoint and its log say, and the next opening may go on with both.
    pub fn close_logged(&self, end_log: impl FnOnce() -> Option<LogEnd>) -> io::Result<()> {
        let mut end_log = Some(end_log);
        let mut end = || end_log.take().and_then(|end_log| end_log());
        self.clean(&mut || (self.pairs_to_record.lock().take(), end()))?;
        let _transition = self.transition.lock();
        if self.gate.state() == GateState::Clean
            && let Some(end) = end()
        {
            // Nobody has written since it became clean.
            let pairs = self.superblock.lock().pairs();
            self.mark(true, pairs, Some(end))?;
        }
        Ok(())
    }
}
