//! Keys and values of any size: types whose size a command learns from its pool.
//!
//! A type of its own for each pair of sizes would compile the engines again and again. These two are compiled once.

use std::sync::OnceLock;

use firndex::Fixed;

/// Most bytes of a key, and of a value, that a command copies: more than any engine packs into a bucket. Tables with
/// longer ones have them in the heap, and need no key and no value to be checked or to shrink.
pub(crate) const COPIED_BYTES_MAX: usize = 256;
const WORDS: usize = COPIED_BYTES_MAX / 8;

/// Bytes of this process's keys and values.
///
/// [`Fixed`] demands that the size of a type never changes, and this one does not. A process opens one such pool. The
/// sizes are [`set`] before it is opened, nothing asks for them earlier, and a `OnceLock` keeps them. Pools that the
/// command writes from that one have the same sizes.
static SIZES: OnceLock<[usize; 2]> = OnceLock::new();

/// What [`SIZES`] says, by index.
const KEY: usize = 0;
const VALUE: usize = 1;

/// A key of as many bytes as the pool's keys have.
pub type AnyKey = AnySize<KEY>;
/// A value of as many bytes as the pool's values have.
pub type AnyValue = AnySize<VALUE>;

/// As many bytes as the pool's keys (`WHICH` 0) or values (1) have, in words, with zeros behind them.
#[derive(Clone, Copy)]
pub struct AnySize<const WHICH: usize>([u64; WORDS]);

impl<const WHICH: usize> Fixed for AnySize<WHICH> {
    /// Chooses code at compile time: that for sizes in general, and not that for words. Every engine has some.
    const BYTES: usize = 1;

    #[inline(always)]
    fn layout_bytes() -> usize {
        SIZES.get().expect("the sizes are set before the pool is opened")[WHICH]
    }

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        let bytes = Self::layout_bytes();
        assert!(bytes <= COPIED_BYTES_MAX, "a value of {bytes} bytes, which no command copies");
        let mut words = [0; WORDS];
        for (index, of) in words.iter_mut().enumerate().take(bytes.div_ceil(8)) {
            *of = word(index);
        }
        // What `word` has beyond the end is not the value's.
        if !bytes.is_multiple_of(8) {
            words[bytes / 8] &= (1 << (bytes % 8 * 8)) - 1;
        }
        AnySize(words)
    }
}

/// Whether a command copies keys and values of these sizes.
pub(crate) fn are_copied(key_bytes: u32, value_bytes: u32) -> bool {
    key_bytes.max(value_bytes) as usize <= COPIED_BYTES_MAX
}

/// Says how many bytes the keys and values of the command's pool have.
pub fn set(key_bytes: u32, value_bytes: u32) {
    let sizes = [key_bytes as usize, value_bytes as usize];
    assert_eq!(*SIZES.get_or_init(|| sizes), sizes, "a second pool, of other sizes");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of this test's process: no other test may set them.
    #[test]
    fn values_are_their_words_whatever_lies_beyond() {
        set(20, 256);
        let words = |index: usize| u64::MAX - index as u64;
        let key = AnyKey::of_words(|index| {
            assert!(index < 3);
            words(index)
        });
        assert_eq!((AnyKey::layout_bytes(), AnyValue::layout_bytes()), (20, 256));
        let expected = [u64::MAX, u64::MAX - 1, 0xffff_fffd, 0];
        assert_eq!([0, 1, 2, 3].map(|index| key.word(index)), expected);
        assert_eq!(key.word(usize::MAX), 0);
        let value = AnyValue::of_words(words);
        assert!((0..32).all(|index| value.word(index) == words(index)));
        assert_eq!(value.word(32), 0);
    }
}
