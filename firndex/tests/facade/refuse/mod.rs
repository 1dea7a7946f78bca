//! What is refused, and what an error says: no pool, the wrong pool, a damaged pool, too much.

pub(crate) mod batch_errors;
pub(crate) mod bounds;
pub(crate) mod diagnostics;
pub(crate) mod flips;
pub(crate) mod floods;
pub(crate) mod hostile;
pub(crate) mod limits;
pub(crate) mod lost_pages;
pub(crate) mod messages;
pub(crate) mod open_errors;
pub(crate) mod open_locks;
pub(crate) mod read_only;
pub(crate) mod resets;
pub(crate) mod sums;
