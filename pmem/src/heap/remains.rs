//! The bytes of a pool that may be damaged anywhere.

/// The bytes of a pool that cannot be opened.
pub trait Remains {
    /// Reads some of them; returns whether all of them are there and could be read.
    fn read(&self, at: u64, bytes: &mut [u8]) -> bool;
    /// How many there are.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
