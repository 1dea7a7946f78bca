//! Keys and values of the paper's sizes.

use index::Fixed;

/// `N` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes<const N: usize>([u8; N]);

impl<const N: usize> Fixed for Bytes<N> {
    const BYTES: usize = N;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        let mut word = [0; 8];
        let bytes = self.0.get(8 * index..).unwrap_or_default();
        let count = bytes.len().min(8);
        word[..count].copy_from_slice(&bytes[..count]);
        u64::from_le_bytes(word)
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        let mut all = [0; N];
        for (index, bytes) in all.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&word(index).to_le_bytes()[..bytes.len()]);
        }
        Bytes(all)
    }
}

/// A key or a value that stands for a word: different words give different bytes.
pub(crate) trait OfWord: Fixed + std::fmt::Debug {
    /// The key or value for `word`. All of its bytes depend on the word.
    fn of_word(word: u64) -> Self;
}

impl<const N: usize> OfWord for Bytes<N> {
    fn of_word(word: u64) -> Self {
        Self::of_words(|index| word.rotate_left(8 * index as u32))
    }
}

impl OfWord for u64 {
    fn of_word(word: u64) -> Self {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_words() {
        let bytes = Bytes::<15>(std::array::from_fn(|index| index as u8 + 1));
        assert_eq!(bytes.word(0), 0x0807_0605_0403_0201);
        assert_eq!((bytes.word(1), bytes.word(2)), (0x000f_0e0d_0c0b_0a09, 0));
        assert_eq!(Bytes::<15>::of_words(|index| bytes.word(index)), bytes);
        let key = Bytes::<16>::of_word(0x0102_0304_0506_0708);
        assert_eq!(key.word(0), 0x0102_0304_0506_0708);
        assert_ne!(key.word(0), key.word(1));
    }
}
