//! Words in bytes, and the words that tend to be checked wrongly.

use crate::choices::Choices;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Sizes, bounds and marks of the formats, and numbers around the ends of types.
const SPECIAL: [u64; 28] = [
    0,
    1,
    2,
    3,
    8,
    16,
    17,
    64,
    255,
    4096,
    8192,
    (1 << 18) + 1,
    64 << 10,
    256 << 20,
    u32::MAX as u64,
    1 << 32,
    (1 << 32) + 1,
    1 << 36,
    1 << 40,
    (1 << 48) - 64,
    1 << 48,
    1 << 62,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 15,
    u64::MAX - 1,
    u64::MAX,
    u64::from_le_bytes(*b"GROUP\0\0\xff"),
];

/// The word at a place; 0 beyond the end.
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<WORD>());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Puts a word at a place, if that is within the bytes.
pub(crate) fn store(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<WORD>()) {
        *place = word.to_le_bytes();
    }
}

/// What a word becomes that is `old` now, in bytes of which other words may be taken.
pub(crate) fn another(old: u64, bytes: &[u8], choices: &mut Choices<'_>) -> u64 {
    let end = bytes.len() as u64;
    match choices.below(8) {
        0 | 1 => old ^ 1 << choices.below(64),
        2 => choices.of(&SPECIAL).unwrap_or(0),
        3 => old.wrapping_add_signed(i64::from(choices.byte() as i8)),
        4 => end.wrapping_add_signed(i64::from(choices.byte() as i8) * 16),
        5 => load(bytes, choices.below(bytes.len() / WORD) * WORD),
        6 => choices.word() >> choices.below(64),
        _ => {
            // One half of it.
            let shift = 32 * choices.below(2);
            let half = choices.of(&SPECIAL).unwrap_or(0) & u64::from(u32::MAX);
            old & !(u64::from(u32::MAX) << shift) | half << shift
        }
    }
}

/// Changes that need no knowledge of what the bytes are.
pub(crate) fn strike_anywhere(bytes: &mut Vec<u8>, first: usize, choices: &mut Choices<'_>) {
    let Some(len) = bytes.len().checked_sub(first).filter(|&len| len > 0) else { return };
    let at = first + choices.below(len);
    match choices.below(8) {
        0..3 => bytes[at] ^= 1 << choices.below(8),
        3 => bytes[at] = choices.byte(),
        4 => {
            let word = another(load(bytes, at & !7), bytes, choices);
            store(bytes, at & !7, word);
        }
        5 => {
            // A splice: what is somewhere is here as well.
            let from = first + choices.below(len);
            let count = 1usize << choices.below(13);
            let count = count.min(bytes.len() - at.max(from));
            bytes.copy_within(from..from + count, at);
        }
        6 => {
            let count = (1usize << choices.below(13)).min(bytes.len() - at);
            let fill = if choices.one_in(4) { 0xff } else { 0 };
            bytes[at..at + count].fill(fill);
        }
        _ => {
            // A cut, or bytes behind the end.
            if choices.one_in(4) {
                let fill = choices.byte();
                bytes.resize(bytes.len() + 1 + choices.below(9000), fill);
            } else {
                bytes.truncate(at);
            }
        }
    }
}
