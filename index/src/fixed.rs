//! Keys and values of a fixed size, as words.

/// A type that can be a key or a value of a table: a fixed number of bytes, every pattern of which
/// is a value.
///
/// Tables store the words, so they are part of the file format: a value's words never change.
pub trait Fixed: Copy + PartialEq + Send + Sync + 'static {
    /// Bytes of a value.
    const BYTES: usize;

    /// Word `index` of the value: its little-endian bytes from `8 * index` on, zeros beyond its
    /// end.
    fn word(self, index: usize) -> u64;

    /// The value whose words `word` tells.
    fn of_words(word: impl Fn(usize) -> u64) -> Self;
}

impl Fixed for u64 {
    const BYTES: usize = 8;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        if index == 0 { self } else { 0 }
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> u64 {
        word(0)
    }
}
