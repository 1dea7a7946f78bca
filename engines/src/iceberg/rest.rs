//! Whether the pool says that the table is at rest: that no pair is on its way from one place to another.
//!
//! The change of the superblock that begins a resize takes it back, before anything moves. It is said again when all
//! moves are durable. Between the two a crash may leave pairs in two places, and recovery reads the whole table. The
//! paper keeps no such record, and always reads the whole table (section 6).

use super::Core;
use pmem::Medium;

impl<M: Medium> Core<M> {
    /// Ends a resize that is under way, and sees that the pool says so.
    pub(super) fn come_to_rest(&self) {
        if self.geometry().is_moving()
            && let Ok(_write) = self.pool.write()
        {
            self.finish_moves();
        }
        let is_to_be_said = !self.pool.is_read_only() && !self.pool.superblock().is_at_rest();
        if is_to_be_said && let Ok(_write) = self.pool.write() {
            self.record_rest();
        }
        // A helper in its turn may be about to write, though nothing is left to be moved.
        self.signal.rest();
    }

    /// Records that no pair is on its way any more, if that is so and the pool does not say it. If somebody else is
    /// about to begin a resize, or if the pool cannot be written, it says so later: at the end of that one, or when it
    /// is closed.
    pub(super) fn record_rest(&self) {
        if self.geometry().is_moving() || self.pool.superblock().is_at_rest() {
            return;
        }
        // While this is held, no resize begins.
        let Some(_beginning) = self.beginning.try_lock() else { return };
        if !self.geometry().is_moving() {
            let _ = self.pool.extend(|draft| {
                draft.set_at_rest(true);
                Ok(())
            });
        }
    }
}
