//! Pools in use by several processes: as guests see them, and what the owner lets them see.

use super::gate::GateState;
use super::{Pool, Recorded};
use crate::error::OpenError;
use crate::medium::Medium;
use crate::superblock::{INCARNATION_WORD, Place};
use crate::sync;
use crate::view::View;
use std::sync::Arc;

/// How often a superblock is read that somebody may be writing.
const LOOKS_BESIDE: u32 = 10;

impl<M: Medium> Pool<M> {
    /// Opens a pool that another process is writing to, for a look at its superblock as it is now. Changes nothing in
    /// it.
    #[inline(never)]
    pub fn open_beside(medium: M, place: Place) -> Result<Self, OpenError> {
        let mut read = Self::read(&medium);
        for _ in 1..LOOKS_BESIDE {
            if read.is_ok() {
                break;
            }
            // The owner writes one copy after the other, and has written both since the first look.
            sync::pause();
            read = Self::read(&medium);
        }
        let (superblock, _) = read?;
        Self::assemble(medium, superblock, Recorded::default(), place, GateState::ReadOnly)
    }

    /// The incarnation that the file has now, for a pool that was opened beside its owner. An opening for writing
    /// changes it before anything else.
    #[inline(always)]
    pub fn incarnation_in_file(&self) -> u64 {
        self.medium.load_at_start(INCARNATION_WORD)
    }

    /// Has guests see no more of the pool by this view once it is refused.
    pub fn show_by(&self, view: &Arc<View>) {
        let _ = self.view.set(Arc::clone(view));
        self.medium.close_on_failure(view);
    }
}
