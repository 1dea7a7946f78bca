//! Items as a guest of the pool reads them: with nothing that keeps them in place. See [`view`](crate::view).

use super::item::{HEADER_BYTES, KEY_BYTES_MAX, LINES_FETCHED, VALUE_BYTES_MAX, padded};
use crate::medium::Medium;
use crate::offset::{LINE, Offset};

/// What was found where a slot leads. It counts only if the item was there all the while.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// The item with the key: its value.
    Value(Box<[u8]>),
    /// The item of another key.
    OtherKey,
    /// No item.
    Nothing,
}

/// Reads what lies at `at`, and copies its value if it has the key. All of it may be anything, of any length: so before
/// the copy it asks whether it `is_there`.
#[inline(always)]
pub fn seen<M: Medium>(
    medium: &M,
    at: Offset,
    key: &[u8],
    is_there: impl FnOnce() -> bool,
) -> Seen {
    let header = at.0.is_multiple_of(HEADER_BYTES).then(|| read_header(medium, at)).flatten();
    // All zeros may also be a page that the file has lost: the owner tells them apart.
    let header = header.filter(|words| *words != [0; 2]);
    let Some([low, value_bytes]) = header else { return Seen::Nothing };
    let key_bytes = u64::from(low as u32);
    let key_at = at.add(HEADER_BYTES);
    let value_at = key_at.add(padded(key_bytes));
    if key_bytes > KEY_BYTES_MAX as u64
        || value_bytes > VALUE_BYTES_MAX as u64
        || !medium.follow(value_at.0 + value_bytes)
    {
        return Seen::Nothing;
    }
    if key_bytes != key.len() as u64 || !medium.has_bytes(key_at, key) {
        return Seen::OtherKey;
    }
    // Before memory is taken for a length that may be none.
    if value_bytes > LINE * LINES_FETCHED as u64 && !is_there() {
        return Seen::Nothing;
    }
    medium.copy_out(value_at, value_bytes).map_or(Seen::Nothing, Seen::Value)
}

/// Hints that the value of the item at `at`, whose key has `key_bytes` bytes, is about to be copied, of which its
/// beginning is at hand.
#[inline]
pub fn prefetch_value<M: Medium>(medium: &M, at: Offset, key_bytes: usize) {
    let Some([_, value_bytes]) = medium.try_load_two(at) else { return };
    let head = HEADER_BYTES + padded(key_bytes as u64);
    let end = head + u64::from_le(value_bytes).min(LINE * LINES_FETCHED as u64);
    let lines = (LINE..end + LINE).step_by(LINE as usize);
    lines.for_each(|line| medium.prefetch(at.add(line.min(end - 1))));
}

#[inline(always)]
fn read_header<M: Medium>(medium: &M, at: Offset) -> Option<[u64; 2]> {
    let header = medium.try_load_two(at).or_else(|| {
        // The owner may have lengthened the pool.
        medium.follow(at.0.checked_add(HEADER_BYTES)?).then(|| medium.try_load_two(at)).flatten()
    });
    header.map(|words| words.map(u64::from_le))
}
