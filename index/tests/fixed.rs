//! Keys and values as words: what the words are, and that they lead back to the value.

use index::{Fixed, is_same, is_same_state};
use std::fmt::Debug;

/// The words of `value`, its bytes being `bytes`, are those of the definition, and make it again
/// whatever they have beyond its end.
#[track_caller]
fn assert_words<T: Fixed + PartialEq + Debug>(value: T, bytes: &[u8]) {
    assert_eq!(T::BYTES, bytes.len());
    let expected = |index: usize| {
        let byte = |at: usize| bytes.get(8 * index + at).map_or(0, |&byte| u64::from(byte));
        (0..8).map(|at| byte(at) << (8 * at)).sum::<u64>()
    };
    for index in (0..bytes.len() / 8 + 3).chain([1 << 40, usize::MAX]) {
        let expected = if index < 1 << 32 { expected(index) } else { 0 };
        assert_eq!(value.word(index), expected, "word {index} of {value:?}");
    }
    let len_in = |index: usize| bytes.len().saturating_sub(8 * index).min(8);
    let asked_for = |index: usize| assert!(len_in(index) > 0, "word {index} of {value:?}");
    let exact = T::of_words(|index| {
        asked_for(index);
        value.word(index)
    });
    assert_eq!(exact, value);
    let beyond = |index: usize| u64::MAX.checked_shl(8 * len_in(index) as u32).unwrap_or(0);
    assert_eq!(T::of_words(|index| value.word(index) | beyond(index)), value);
}

#[test]
fn integers_are_their_little_endian_bytes() {
    macro_rules! assert_words_of {
        ($($integer:ty),+) => {$(
            let digits = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128 as $integer;
            for value in [0, 1, digits, !digits, !0, <$integer>::MIN, <$integer>::MAX] {
                assert_words(value, &value.to_le_bytes());
            }
        )+};
    }
    assert_words_of!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);
    assert_eq!((0x0102_0304_u32.word(0), (-2_i16).word(0)), (0x0102_0304, 0xfffe));
    assert_eq!([(1_u128 << 64 | 2).word(0), (1_u128 << 64 | 2).word(1)], [2, 1]);
}

/// A type that the compiler takes for one of another size.
#[derive(Debug, Clone, Copy)]
struct Late([u8; 12]);

impl Fixed for Late {
    const BYTES: usize = 1;

    fn layout_bytes() -> usize {
        12
    }

    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Late(Fixed::of_words(word))
    }
}

#[test]
fn sizes_told_at_run_time_count_when_values_are_compared() {
    let value = [7; 12];
    assert!(is_same(Late(value), Late(value)));
    for at in 0..value.len() {
        let mut other = value;
        other[at] = 8;
        assert!(!is_same(Late(value), Late(other)), "byte {at}");
    }
    assert_eq!((u64::layout_bytes(), <[u8; 5]>::layout_bytes()), (8, 5));
}

#[test]
fn arrays_of_any_length_are_their_bytes() {
    fn assert_all<const N: usize>() {
        let counted = std::array::from_fn(|at| at as u8 + 1);
        for value in [[0; N], [0xff; N], counted] {
            assert_words(value, &value);
        }
    }
    macro_rules! assert_all_of {
        ($($len:literal),+) => {$( assert_all::<$len>(); )+};
    }
    assert_all_of!(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 23, 24, 25, 127, 128
    );
}

#[test]
fn one_size_has_one_set_of_words() {
    let value = 0x0102_0304_0506_0708_u64;
    assert_eq!(i64::of_words(|index| value.word(index)), value.cast_signed());
    assert_eq!(<[u8; 8]>::of_words(|index| value.word(index)), value.to_le_bytes());
}

#[test]
fn every_byte_counts_when_values_are_compared() {
    fn assert_all<const N: usize>() {
        let value: [u8; N] = std::array::from_fn(|at| at as u8);
        assert!(is_same(value, value) && is_same_state(Some(value), Some(value)));
        assert!(!is_same_state(Some(value), None) && !is_same_state(None, Some(value)));
        assert!(is_same_state::<[u8; N]>(None, None));
        for at in 0..N {
            let mut other = value;
            other[at] ^= 0x80;
            assert!(!is_same(value, other) && !is_same_state(Some(other), Some(value)));
        }
    }
    assert_all::<0>();
    assert_all::<1>();
    assert_all::<8>();
    assert_all::<9>();
    assert_all::<127>();
    assert!(is_same(-1_i128, -1) && !is_same(1_i128, 1 << 64 | 1));
}

/// Values that have the bytes they should, one way and back. Floats are compared by their bits.
#[test]
fn floats_are_their_bits_whatever_they_compare_as() {
    let signalling = f64::from_bits(0x7ff0_0000_0000_0001);
    for value in [0.0, -0.0, 1.5, f64::MIN_POSITIVE / 2.0, f64::INFINITY, f64::NAN, signalling] {
        assert_eq!(value.word(0), value.to_bits());
        assert_eq!(f64::of_words(|_| value.word(0)).to_bits(), value.to_bits());
        assert!(is_same(value, value), "{value}");
    }
    assert!(!is_same(0.0, -0.0) && !is_same(f64::NAN, -f64::NAN));
    assert_words(-1.25_f32, &(-1.25_f32).to_le_bytes());
    assert!(is_same(f32::NAN, f32::NAN) && !is_same(f32::NAN, -f32::NAN));
}

#[test]
fn any_bytes_are_some_bool_and_some_char() {
    for byte in 0..=0xff_u8 {
        assert_eq!(bool::of_words(|_| byte.into()), byte != 0);
        assert!(!bool::of_words(|_| u64::from(byte) << 8), "what is beyond its end is ignored");
    }
    for number in (0..0x11_1000).chain([u32::MAX, 0x8000_0000, 1 << 21]) {
        let found = char::of_words(|_| 0xffff_ffff << 32 | u64::from(number));
        assert_eq!(found, char::from_u32(number).unwrap_or('\u{fffd}'));
    }
    assert_words(true, &[1]);
    assert_words(false, &[0]);
    assert_words('\u{10ffff}', &0x10_ffff_u32.to_le_bytes());
}

#[test]
fn tuples_and_arrays_have_their_elements_in_a_row() {
    assert_words((), &[]);
    assert_words((7_u8,), &[7]);
    assert_words(
        (0x0102_u16, true, 'x', -1_i64),
        &[2, 1, 1, b'x', 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
    );
    let mut bytes: Vec<u8> = (1..=12).collect();
    assert_words(
        (1_u8, 2_u8, 3_u8, 4_u8, 5_u8, 6_u8, 7_u8, 8_u8, 9_u8, 10_u8, 11_u8, 12_u8),
        &bytes,
    );
    bytes.extend([0, 1, 2]);
    assert_words(
        (
            (0x0201_u16, [3_u8; 0], 0x0403_u16),
            [[5_u8, 6], [7, 8]],
            0x0c0b_0a09_u32,
            [false, true],
            2_u8,
        ),
        &bytes,
    );
    fn assert_arrays<const N: usize>() {
        let wide: [u16; N] = std::array::from_fn(|at| at as u16 * 257 + 1);
        assert_words(wide, &wide.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>());
        let odd: [(u8, u16); N] = std::array::from_fn(|at| (at as u8, !(at as u16)));
        let bytes = odd.iter().flat_map(|(one, two)| [&[*one][..], &two.to_le_bytes()].concat());
        assert_words(odd, &bytes.collect::<Vec<_>>());
        let large: [u128; N] = std::array::from_fn(|at| u128::MAX / (at as u128 + 3));
        assert_words(large, &large.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>());
        assert_words([(); N], &[]);
    }
    assert_arrays::<0>();
    assert_arrays::<1>();
    assert_arrays::<3>();
    assert_arrays::<5>();
    assert_arrays::<8>();
}
