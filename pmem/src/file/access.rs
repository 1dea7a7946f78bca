//! What a pool file is opened for.

/// How a pool file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By at most one process, which may write.
    Write,
    /// By any number of processes while none writes.
    Read,
}
