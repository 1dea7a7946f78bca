//! Keys and values of a fixed size, as words.

use crate::shape::{Shape, Simple};

/// A type that can be a key or a value of a table: it has a fixed number of bytes, and every byte pattern is a value.
///
/// Tables compare the bytes of keys and values, and never use [`PartialEq`]. So a NaN is found and exchanged like any
/// other value, but by its own bits only: there are many NaNs. And -0.0 and 0.0 are different keys.
///
/// | type | its bytes |
/// |---|---|
/// | integers | little-endian |
/// | `f32`, `f64` | those of the integer with its bits |
/// | `bool` | 1 or 0 |
/// | `char` | those of its number, a `u32` |
/// | arrays, tuples of up to 12, `()` | those of the elements in order, without padding |
/// | structs with `#[derive(Fixed)]` | those of the fields in order, without padding |
///
/// Tables store the bytes as words (8 bytes), so these are part of the file format and never change. A pool made by
/// another program, or a damaged one, may hold any bytes. Where they are no `bool`, the value is `true`; where they are
/// no `char`, it is [`char::REPLACEMENT_CHARACTER`].
///
/// Two kinds of types have no implementation: `usize` and `isize`, whose size depends on the machine; and enums, of
/// which the bytes may be none: keep the number of a variant. What has no fixed size belongs into a store.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key or a value of a `Table`: derive `firndex::Fixed` if it is a struct of numbers, \
               or keep it in a `Store`",
    label = "has no fixed bytes"
)]
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

    /// What a value consists of, which a table records when it is made. If a type has none, as one whose author does
    /// not implement this, the table takes any type of the same size, and so does the type any table.
    /// `#[derive(Fixed)]` implements it.
    fn shape() -> Option<Shape> {
        None
    }

    /// [`Fixed::word`] of an array of such values.
    #[doc(hidden)]
    #[inline(always)]
    fn word_of_array<const N: usize>(array: [Self; N], index: usize) -> u64 {
        fields::word_of_array(array, index)
    }

    /// [`Fixed::of_words`] of an array of such values.
    #[doc(hidden)]
    #[inline(always)]
    fn array_of_words<const N: usize>(word: impl Fn(usize) -> u64) -> [Self; N] {
        std::array::from_fn(|index| fields::of_words(index * Self::BYTES, &word))
    }
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

    fn shape() -> Option<Shape> {
        Some(Shape::Simple(Simple::U64))
    }
}

/// By way of the bytes: for a constant index the compiler leaves a move or nothing.
macro_rules! fixed_integers {
    ($($integer:ty: $simple:ident),+) => {$(
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

            fn shape() -> Option<Shape> {
                Some(Shape::Simple(Simple::$simple))
            }
        }
    )+};
}
fixed_integers!(
    u16: U16, u32: U32, u128: U128, i8: I8, i16: I16, i32: I32, i64: I64, i128: I128
);

impl Fixed for u8 {
    const BYTES: usize = 1;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        if index == 0 { self.into() } else { 0 }
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> u8 {
        word(0) as u8
    }

    #[inline(always)]
    fn word_of_array<const N: usize>(array: [u8; N], index: usize) -> u64 {
        // The length of the rest is known to the compiler, so that no copy is a call.
        let (words, rest) = array.as_chunks::<8>();
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
    fn array_of_words<const N: usize>(word: impl Fn(usize) -> u64) -> [u8; N] {
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

    fn shape() -> Option<Shape> {
        Some(Shape::Simple(Simple::U8))
    }
}

impl<T: Fixed, const N: usize> Fixed for [T; N] {
    const BYTES: usize = N * T::BYTES;

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        T::word_of_array(self, index)
    }

    #[inline(always)]
    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        T::array_of_words(word)
    }

    fn shape() -> Option<Shape> {
        Some(Shape::Array(T::shape()?.into(), N))
    }
}

/// Types as an integer of which each value is one of theirs.
macro_rules! fixed_by_integers {
    ($($type:ty as $integer:ty, $simple:ident: $to:expr, $from:expr;)+) => {$(
        impl Fixed for $type {
            const BYTES: usize = <$integer>::BYTES;

            #[inline(always)]
            fn word(self, index: usize) -> u64 {
                $to(self).word(index)
            }

            #[inline(always)]
            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                $from(<$integer>::of_words(word))
            }

            fn shape() -> Option<Shape> {
                Some(Shape::Simple(Simple::$simple))
            }
        }
    )+};
}
fixed_by_integers! {
    f32 as u32, F32: f32::to_bits, f32::from_bits;
    f64 as u64, F64: f64::to_bits, f64::from_bits;
    bool as u8, Bool: u8::from, |byte| byte != 0;
    char as u32, Char: u32::from, |number| char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
}

impl Fixed for () {
    const BYTES: usize = 0;

    #[inline(always)]
    fn word(self, _: usize) -> u64 {
        0
    }

    #[inline(always)]
    fn of_words(_: impl Fn(usize) -> u64) {}

    fn shape() -> Option<Shape> {
        Some(Shape::Tuple(Vec::new()))
    }
}

/// Each element begins behind all earlier ones.
macro_rules! fixed_tuples {
    ($(($($element:ident $index:tt),+))+) => {$(
        impl<$($element: Fixed),+> Fixed for ($($element,)+) {
            const BYTES: usize = 0 $(+ $element::BYTES)+;

            #[inline(always)]
            fn word(self, index: usize) -> u64 {
                let (mut begin, mut bits) = (0, 0);
                if index >= Self::BYTES.div_ceil(8) {
                    return bits;
                }
                $(
                    bits |= fields::word(self.$index, begin, index);
                    begin += $element::BYTES;
                )+
                debug_assert_eq!(begin, Self::BYTES);
                bits
            }

            #[inline(always)]
            fn of_words(word: impl Fn(usize) -> u64) -> Self {
                let mut end = 0;
                ($({
                    let begin = end;
                    end += $element::BYTES;
                    debug_assert!(end <= Self::BYTES);
                    fields::of_words::<$element>(begin, &word)
                },)+)
            }

            fn shape() -> Option<Shape> {
                Some(Shape::Tuple(vec![$($element::shape()?),+]))
            }
        }
    )+};
}
fixed_tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
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

    /// Word `index` of an array.
    #[inline(always)]
    pub(super) fn word_of_array<T: Fixed, const N: usize>(array: [T; N], index: usize) -> u64 {
        if T::BYTES == 0 || index >= (N * T::BYTES).div_ceil(8) {
            return 0;
        }
        // Elements that have bytes in the word.
        let (first, last) = (8 * index / T::BYTES, (8 * index + 7) / T::BYTES);
        let elements = array.iter().enumerate().take(last + 1).skip(first);
        elements.fold(0, |bits, (at, element)| bits | word(*element, at * T::BYTES, index))
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
