//! What is measured of a cache.

/// How a cache's process ends before the cache is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The cache is closed.
    Closed,
    /// SIGKILL.
    Killed,
}

/// The rows that a cache has without a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rows {
    /// All of them.
    #[default]
    All,
    /// Only `get_hit`.
    GetHit,
    /// None.
    Restarts,
}

/// What is measured of a cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) rows: Rows,
    /// Below this its bound is not exact, so it has no hit ratios there.
    pub(crate) bytes_min: u64,
    /// Whether it cannot keep the pace of a trace whose values live by the clock.
    pub(crate) is_slow: bool,
    /// After what it is opened again.
    pub(crate) ends: &'static [End],
}
