//! Keys and values of a fixed size, as words.

/// A type that can be a key or a value of a table: it has a fixed number of bytes, and every byte pattern is a value.
///
/// Tables compare the bytes of keys and values, and never use [`PartialEq`]. So a NaN is found and exchanged like any
/// other value, and -0.0 and 0.0 are different keys.
///
/// Tables store the bytes as words (8 bytes), so these are part of the file format and never change. An integer has
/// little-endian bytes, an array its bytes in order. Types of equal size can read each other's tables.
///
/// `#[derive(Fixed)]` implements it for a struct of such types.
///
/// Three kinds of types have no implementation: `bool` and `char`, since not every byte pattern is one; floats, since a
/// program should choose knowingly to compare bytes; and `usize`, whose size depends on the machine.
pub trait Fixed: Copy + Send + Sync + 'static {
    /// Bytes of a value.
    const BYTES: usize;

    /// Bytes of a value, where a layout or a comparison asks.
    ///
    /// It is hidden, since it is [`Fixed::BYTES`] for every type that a program needs. The command `firndex` opens
    /// tables of any sizes with two types that learn theirs at run time, before the table is opened. Their `BYTES`
    /// only chooses code at compile time. No such pair has 8 and 8 bytes: words have code and a layout of their own.
    #[doc(hidden)]
    #[inline(always)]
    fn layout_bytes() -> usize {
        Self::BYTES
    }

    /// Word `index` of the value: its little-endian bytes from `8 * index` on, zeros beyond its
    /// end.
    fn word(self, index: usize) -> u64;

    /// The value whose words `word` tells; what they have beyond its end is ignored.
    fn of_words(word: impl Fn(usize) -> u64) -> Self;
}

/// Whether keys and values are one word each.
pub const fn are_words<K: Fixed, V: Fixed>() -> bool {
    K::BYTES == 8 && V::BYTES == 8
}

/// Whether two values have the same bytes. For integers this is one comparison, or two.
#[inline(always)]
pub fn is_same<T: Fixed>(one: T, other: T) -> bool {
    (0..T::layout_bytes().div_ceil(8)).all(|index| one.word(index) == other.word(index))
}

/// As [`is_same`] for two states of a key, of which absence is one.
#[inline(always)]
pub fn is_same_state<T: Fixed>(one: Option<T>, other: Option<T>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (None, None) => true,
        _ => false,
    }
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

/// By way of the bytes: for a constant index the compiler leaves a move or nothing.
macro_rules! fixed_integers {
    ($($integer:ty),+) => {$(
        impl Fixed for $integer {
            const BYTES: usize = size_of::<$integer>();

            #[inline(always)]
            fn word(self, index: usize) -> u64 {
                self.to_le_bytes().word(index)
            }

            #[inline(always)]
            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                Self::from_le_bytes(Fixed::of_words(word))
            }
        }
    )+};
}
fixed_integers!(u8, u16, u32, u128, i8, i16, i32, i64, i128);

impl<const N: usize> Fixed for [u8; N] {
    const BYTES: usize = N;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        // The length of the rest is known to the compiler, so that no copy is a call.
        let (words, rest) = self.as_chunks::<8>();
        match words.get(index) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None if index == words.len() => {
                let mut bytes = [0; 8];
                bytes[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(bytes)
            }
            None => 0,
        }
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        let mut value = [0; N];
        let (words, rest) = value.as_chunks_mut::<8>();
        for (index, bytes) in words.iter_mut().enumerate() {
            *bytes = word(index).to_le_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&word(N / 8).to_le_bytes()[..rest.len()]);
        }
        value
    }
}

/// Structs made of values of a fixed size, one behind another: what `#[derive(Fixed)]` calls.
pub mod fields {
    use super::Fixed;

    /// What of `field`, which begins at byte `begin` of a struct, lies in word `index` of that.
    #[inline(always)]
    pub fn word<T: Fixed>(field: T, begin: usize, index: usize) -> u64 {
        let word_begin = 8 * index;
        if word_begin + 8 <= begin {
            return 0;
        }
        if word_begin < begin {
            return field.word(0) << (8 * (begin - word_begin));
        }
        let (first, shift) = ((word_begin - begin) / 8, 8 * ((word_begin - begin) % 8));
        match shift {
            0 => field.word(first),
            _ => field.word(first) >> shift | field.word(first + 1) << (64 - shift),
        }
    }

    /// The field that begins at byte `begin` of a struct whose words `word` tells.
    #[inline(always)]
    pub fn of_words<T: Fixed>(begin: usize, word: impl Fn(usize) -> u64) -> T {
        let (first, shift) = (begin / 8, 8 * (begin % 8));
        T::of_words(|index| {
            let low = word(first + index) >> shift;
            // The struct may end with the field: there may be no next word.
            let bits = 8 * T::BYTES.saturating_sub(8 * index).min(8);
            if shift + bits <= 64 { low } else { low | word(first + index + 1) << (64 - shift) }
        })
    }
}
