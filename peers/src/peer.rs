//! What a map of another author offers.

use anyhow::Result;
use bench::Map;

/// A map of another author.
pub trait Peer: Map + Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Its version, as the lock file or its headers tell.
    const VERSION: &'static str;

    /// How many threads it bears.
    const THREADS_MAX: usize = usize::MAX;

    /// Whether it grows. One that does not is measured only by name.
    const GROWS: bool = true;

    /// Makes an empty one with room for so many pairs.
    fn open(capacity: u64) -> Result<Self>;
}
