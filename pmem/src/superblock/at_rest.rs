//! Whether pairs of the table may be on their way from one place to another.

use super::Superblock;
use crate::error::OpenError;

/// Read-only compatible feature: no pair of the table is on its way from one place to another.
const AT_REST: u64 = 1;

impl Superblock {
    /// Whether no pair of the table is on its way, so that each part of the table says by itself what is in it. A build
    /// that does not know this may not write: it would begin to move pairs, and not say so.
    pub fn is_at_rest(&self) -> bool {
        self.features_read_only & AT_REST != 0
    }

    pub(crate) fn set_at_rest(&mut self, is_at_rest: bool) {
        self.features_read_only &= !AT_REST;
        self.features_read_only |= u64::from(is_at_rest) * AT_REST;
    }

    /// Refuses a pool that this build may only read.
    pub fn check_writable(&self) -> Result<(), OpenError> {
        if self.features_read_only & !AT_REST == 0 {
            return Ok(());
        }
        Err(OpenError::Mismatch {
            field: "set of features needed for writing",
            found: format!("{:#x}", self.features_read_only),
            expected: format!("{AT_REST:#x}"),
            advice: "open it read-only, or with the firndex version that made it",
        })
    }
}
