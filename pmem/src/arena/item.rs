//! Items of an arena.

use super::{Arena, GRANULE};
use crate::epoch::Guard;
use crate::heap::checksum::checksum;
use crate::medium::Medium;
use crate::offset::Offset;

/// Bytes of an item before its key.
pub const HEAD_BYTES: u64 = 16;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

const KEY_BITS: u32 = 17;
const VALUE_BITS: u32 = 29;
const SUM_SHIFT: u32 = KEY_BITS + VALUE_BITS;
const _: () = assert!(VALUE_BYTES_MAX < 1 << VALUE_BITS && KEY_BYTES_MAX < 1 << KEY_BITS);

/// An item in place.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The stamp, as it was when the item was looked at.
    pub stamp: u64,
    head: u64,
}

impl Entry<'_> {
    /// Whether key and value fit the sum that was written with them.
    pub fn is_sound(&self) -> bool {
        self.head == head_of(self.key, self.value)
    }

    /// Bytes from its beginning to that of the next item.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        item_bytes(self.key.len(), self.value.len())
    }
}

/// Bytes that an item takes, from its beginning to that of the next one.
#[inline(always)]
pub const fn item_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    (HEAD_BYTES + key_bytes as u64 + value_bytes as u64).next_multiple_of(GRANULE)
}

/// The first word of an item. It is never zero.
fn head_of(key: &[u8], value: &[u8]) -> u64 {
    let sum = u64::from(checksum(key, value)) | 1;
    key.len() as u64 | (value.len() as u64) << KEY_BITS | sum << SUM_SHIFT
}

/// Lengths of key and value.
#[inline(always)]
const fn lengths_of(head: u64) -> (u64, u64) {
    (head & ((1 << KEY_BITS) - 1), (head >> KEY_BITS) & ((1 << VALUE_BITS) - 1))
}

impl<M: Medium> Arena<M> {
    /// Begins an item in space that is the caller's alone: writes its head, durably. So whoever walks over the segment
    /// after a crash gets past it, whether or not [`Arena::finish_item`] follows.
    pub fn begin_item(&self, at: Offset, key: &[u8], value: &[u8], stamp: u64) {
        // In any order: nothing leads here before both are durable.
        self.medium().store(at, head_of(key, value));
        self.medium().store(at.word(1), stamp);
        self.medium().flush_range(at, HEAD_BYTES);
        self.medium().fence();
    }

    /// Writes key and value of an item that was begun. They are durable after the thread's next fence; nothing may lead
    /// to them before.
    ///
    /// The caller has taken the space for this item, and nobody has walked over it or is led to it.
    pub fn finish_item(&self, at: Offset, key: &[u8], value: &[u8]) {
        let at = at.add(HEAD_BYTES);
        // SAFETY: the caller's alone until something leads to it, and no guard is left that could reach what was there
        // before: a segment is used again only when all pins have passed that there were when it was given up.
        unsafe {
            self.medium().copy_in(at, key);
            self.medium().copy_in(at.add(key.len() as u64), value);
        }
        self.medium().flush_range(at, (key.len() + value.len()) as u64);
    }

    /// The item at `at` if it has this key. `at` was found under this guard. In a damaged pool it may be anything: the
    /// result lies in the pool.
    #[inline(always)]
    pub fn entry_of_key<'a>(
        &'a self,
        at: Offset,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Option<Entry<'a>> {
        let entry = self.entry(at, guard)?;
        (entry.key == key).then_some(entry)
    }

    /// The item at `at`, which was found under this guard; `None` if there cannot be one.
    #[inline(always)]
    pub fn entry<'a>(&'a self, at: Offset, _guard: &Guard<'a>) -> Option<Entry<'a>> {
        let [head, stamp] = self.medium().try_load_two(at)?;
        let (key_bytes, value_bytes) = lengths_of(head);
        if head == 0 {
            return None;
        }
        // SAFETY: items are immutable once something leads to them, and the guard keeps their segment from being used
        // again while the slices live.
        let bytes = unsafe { self.medium().bytes(at.add(HEAD_BYTES), key_bytes + value_bytes) }?;
        let (key, value) = bytes.split_at_checked(key_bytes as usize)?;
        Some(Entry { key, value, stamp, head })
    }

    /// As [`Arena::entry`], for who walks over a segment: the item ends before `end`. What lies behind the last item is
    /// none, whatever it looks like, and what others are writing behind the segment must not be taken for a part of it.
    pub fn entry_before<'a>(
        &'a self,
        at: Offset,
        end: Offset,
        guard: &Guard<'a>,
    ) -> Option<Entry<'a>> {
        let [head, _] = self.medium().try_load_two(at)?;
        let (key_bytes, value_bytes) = lengths_of(head);
        let bytes = item_bytes(key_bytes as usize, value_bytes as usize);
        if at.0.checked_add(bytes)? > end.0 {
            return None;
        }
        self.entry(at, guard)
    }

    /// Hints that the item at `at`, whose key has `key_bytes` bytes, is about to be read.
    #[inline(always)]
    pub fn prefetch_item(&self, at: Offset, key_bytes: usize) {
        self.medium().prefetch(at);
        self.medium().prefetch(at.add(HEAD_BYTES + key_bytes as u64));
    }

    /// The stamp of the item at `at`.
    #[inline(always)]
    pub fn stamp(&self, at: Offset) -> u64 {
        self.medium().load(at.word(1))
    }

    /// Sets an item's stamp, durably.
    pub fn set_stamp(&self, at: Offset, stamp: u64) {
        self.medium().store(at.word(1), stamp);
        self.medium().flush_range(at.word(1), 8);
        self.medium().fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_both_lengths_and_is_never_zero() {
        let (key, value) = (vec![7; KEY_BYTES_MAX], vec![8; 100]);
        for (key, value) in [(&key[..], &value[..]), (&[][..], &[][..]), (&key[..1], &[][..])] {
            let head = head_of(key, value);
            assert_eq!(lengths_of(head), (key.len() as u64, value.len() as u64));
            assert_ne!(head, 0);
        }
    }

    #[test]
    fn items_begin_at_granules() {
        assert_eq!(item_bytes(0, 0), 16);
        assert_eq!(item_bytes(16, 100), 136);
        assert_eq!(item_bytes(16, 96), 128);
    }
}
