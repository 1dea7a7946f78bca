//! What lies in the heap: items, and groups of items whose keys share one hash.
//!
//! ```text
//! item    | key bytes: u32 | crc: u32 | value bytes: u64 | key, to a full word | value |
//! group   | items: u32     | crc: u32 | GROUP mark       | item offset | item offset | ... |
//! ```
//!
//! The checksum covers key and value, or the offsets. Reading a group verifies it; reading an item does not, but
//! [`Item::is_sound`] does. Both are immutable once published.

use super::checksum::checksum;
use super::{Corrupt, Heap};
use crate::epoch::Guard;
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::{LINE, Offset};
use crate::prefetch::prefetch;

/// Lines of an item that are prefetched. Processors foresee the next ones by themselves.
pub(super) const LINES_FETCHED: usize = 4;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;
/// Most items of a group.
pub const GROUP_MAX: usize = 1 << 12;

pub(super) const HEADER_BYTES: u64 = 16;
/// A group has this in place of the length of a value. No value has this length.
pub(super) const GROUP_MARK: u64 = u64::from_le_bytes(*b"GROUP\0\0\xff");

/// An item in place.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    crc: u32,
}

impl Item<'_> {
    /// Whether the item has this key.
    #[inline(always)]
    fn has_key(&self, key: &[u8]) -> bool {
        is_same(self.key, key)
    }

    /// Hints that the value is about to be read: fetches the lines behind its first one, which [`Heap::prefetch`]
    /// fetches, up to as many as the processor takes to foresee the rest.
    #[inline]
    pub fn prefetch_value(&self) {
        let near = &self.value[..self.value.len().min(LINES_FETCHED * LINE as usize)];
        let further = near.iter().skip(LINE as usize).step_by(LINE as usize);
        // The last line has only the end where the value begins amid a line.
        further.chain(near.last()).for_each(|byte| prefetch(byte));
    }

    /// Whether key and value fit the checksum.
    pub fn is_sound(&self) -> bool {
        checksum(self.key, self.value) == self.crc
    }
}

/// Compares keys of eight to 32 bytes without a call, which would cost a hit the registers of its hot path.
#[inline(always)]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        8..=16 => ends::<8>(a) == ends::<8>(b),
        17..=32 => ends::<16>(a) == ends::<16>(b),
        _ => a == b,
    }
}

/// The first and the last bytes, which may overlap.
#[inline(always)]
fn ends<const LEN: usize>(bytes: &[u8]) -> Option<(&[u8; LEN], &[u8; LEN])> {
    bytes.first_chunk().zip(bytes.last_chunk())
}

/// [`Heap::prefetch`], for who has no heap.
#[inline]
pub fn prefetch_item<M: Medium>(medium: &M, at: Offset, key_bytes: usize) {
    medium.prefetch(at);
    // Where its value begins: often the next line.
    medium.prefetch(at.add(HEADER_BYTES + key_bytes as u64));
}

pub(super) const fn padded(key_bytes: u64) -> u64 {
    (key_bytes + 7) & !7
}

/// Bytes of an item with this key and value.
pub(super) fn item_bytes(key: &[u8], value: &[u8]) -> u64 {
    HEADER_BYTES + padded(key.len() as u64) + value.len() as u64
}

impl<M: Medium> Heap<M> {
    /// Writes an item and starts writing it back. It is durable after the thread's next fence, and must not be
    /// published before. `key` and `value` must be within their limits.
    ///
    /// `replaced` is the item or group whose place it will take, if any. Even a full heap then has room for it if it
    /// needs no more space than that one, unless too many that were replaced may still be held. Items of more than a
    /// megabyte have no such promise.
    pub fn write_item(
        &self,
        key: &[u8],
        value: &[u8],
        replaced: Option<Offset>,
    ) -> Result<Offset, SpaceError> {
        let at = self.allocate(item_bytes(key, value), replaced)?;
        self.store_item(at, key, value, checksum(key, value));
        Ok(at)
    }

    /// Writes a copy of an item, with the checksum that it has, if there is space at hand. Like [`Heap::write_item`].
    pub fn write_copy(&self, item: &Item<'_>) -> Option<Offset> {
        let at = self.allocate_for_copy(item_bytes(item.key, item.value))?;
        self.store_item(at, item.key, item.value, item.crc);
        Some(at)
    }

    /// Writes an item into space that was allocated for it, and starts writing it back.
    pub(super) fn store_item(&self, at: Offset, key: &[u8], value: &[u8], crc: u32) {
        let mut head = [0; HEADER_BYTES as usize];
        head[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        head[8..].copy_from_slice(&(value.len() as u64).to_le_bytes());
        // SAFETY: the allocation is this thread's alone until the item is published: the heap
        // hands out no slot twice, and no guard is left that could reach its former item.
        unsafe {
            self.medium().copy_in(at, &head);
            self.medium().copy_in(at.add(HEADER_BYTES), key);
            self.medium().copy_in(at.add(HEADER_BYTES + padded(key.len() as u64)), value);
        }
        self.medium().flush_range(at, item_bytes(key, value));
    }

    /// Whether an item fits into the space of what lies at `replaced`.
    pub fn fits_in_place_of(&self, key: &[u8], value: &[u8], replaced: Offset) -> bool {
        self.capacity_at(replaced).is_some_and(|capacity| item_bytes(key, value) <= capacity)
    }

    /// Writes a group of items and starts writing it back, like [`Heap::write_item`].
    pub fn write_group(
        &self,
        items: &[Offset],
        replaced: Option<Offset>,
    ) -> Result<Offset, SpaceError> {
        let bytes = HEADER_BYTES + 8 * items.len() as u64;
        let at = self.allocate(bytes, replaced)?;
        let mut body = Vec::with_capacity(8 * items.len());
        items.iter().for_each(|item| body.extend_from_slice(&item.0.to_le_bytes()));
        let mut head = [0; HEADER_BYTES as usize];
        head[..4].copy_from_slice(&(items.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&checksum(&[], &body).to_le_bytes());
        head[8..].copy_from_slice(&GROUP_MARK.to_le_bytes());
        // SAFETY: as in `write_item`.
        unsafe {
            self.medium().copy_in(at, &head);
            self.medium().copy_in(at.add(HEADER_BYTES), &body);
        }
        self.medium().flush_range(at, bytes);
        Ok(at)
    }

    /// The header at `at`: two halves and a word; `None` if it does not lie in the pool.
    #[inline(always)]
    fn header(&self, at: Offset) -> Option<(u32, u32, u64)> {
        if !at.0.is_multiple_of(16) {
            return None;
        }
        // By words: in a damaged pool, a slot may lead to where others write.
        let [low, high] = self.medium().try_load_two(at)?.map(u64::from_le);
        Some((low as u32, (low >> 32) as u32, high))
    }

    /// The item at `at`, to which a slot that was read under `guard` led. Whatever a damaged pool contains, the result
    /// lies in the pool.
    #[inline(always)]
    pub fn item<'a>(&'a self, at: Offset, _guard: &Guard<'a>) -> Result<Item<'a>, Corrupt> {
        self.item_within(at).ok_or_else(|| self.no_item(at))
    }

    /// As [`Heap::item`], of an item that fits its checksum. For copies: they would be stored with a checksum that
    /// fits, and nobody could tell any more that something is wrong.
    pub fn sound_item<'a>(&'a self, at: Offset, guard: &Guard<'a>) -> Result<Item<'a>, Corrupt> {
        let item = self.item(at, guard)?;
        if !item.is_sound() {
            return Err(Corrupt { at, found: "an item whose checksum does not fit".into() });
        }
        Ok(item)
    }

    /// The item at `at` if it has this key, like [`Heap::item`]. Little here depends on what was loaded: if loads miss
    /// the caches, that decides with how many further loads they overlap.
    #[inline(always)]
    pub fn item_of_key<'a>(
        &'a self,
        at: Offset,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<Option<Item<'a>>, Corrupt> {
        match self.header(at) {
            Some((key_bytes, crc, value_bytes)) if key_bytes as usize == key.len() => {
                let sound = self.key_and_value(at, key.len() as u64, value_bytes);
                let (key_found, value) = sound.ok_or_else(|| self.no_item(at))?;
                let item = Item { key: key_found, value, crc };
                Ok(item.has_key(key).then_some(item))
            }
            _ => self.item(at, guard).map(|_| None),
        }
    }

    /// Key and value of the item at `at`, which have these lengths.
    #[inline(always)]
    fn key_and_value(
        &self,
        at: Offset,
        key_bytes: u64,
        value_bytes: u64,
    ) -> Option<(&[u8], &[u8])> {
        let padded_bytes = padded(key_bytes);
        let bytes = padded_bytes.checked_add(value_bytes)?;
        // SAFETY: published items are immutable, and the callers' guard keeps this one from being reclaimed while the
        // slices live.
        let bytes = unsafe { self.medium().bytes(at.add(HEADER_BYTES), bytes) }?;
        let (key, value) = bytes.split_at_checked(padded_bytes as usize)?;
        Some((key.get(..key_bytes as usize)?, value))
    }

    #[inline(always)]
    fn item_within(&self, at: Offset) -> Option<Item<'_>> {
        let (key_bytes, crc, value_bytes) = self.header(at)?;
        if key_bytes > KEY_BYTES_MAX as u32 || value_bytes > VALUE_BYTES_MAX as u64 {
            return None;
        }
        let (key, value) = self.key_and_value(at, key_bytes.into(), value_bytes)?;
        Some(Item { key, value, crc })
    }

    /// Says what is wrong at `at`, where there is no item.
    #[cold]
    #[inline(never)]
    fn no_item(&self, at: Offset) -> Corrupt {
        let found = match self.header(at) {
            None => "a slot leads outside the pool".into(),
            Some((key_bytes, _, value_bytes)) => {
                format!("an item with {key_bytes} bytes of key, {value_bytes} of value")
            }
        };
        Corrupt { at, found }
    }

    /// The offsets in the group at `at`, like [`Heap::item`].
    pub fn group(&self, at: Offset, _guard: &Guard<'_>) -> Result<Vec<Offset>, Corrupt> {
        let header = self.header(at).ok_or_else(|| self.no_item(at))?;
        let (count, crc, mark) = header;
        let body_bytes = 8 * u64::from(count);
        let body = if mark == GROUP_MARK && count as usize <= GROUP_MAX {
            // SAFETY: as in `key_and_value`.
            unsafe { self.medium().bytes(at.add(HEADER_BYTES), body_bytes) }
        } else {
            None
        };
        let Some(body) = body else {
            return Err(Corrupt { at, found: format!("no group of items: {count}, {mark:#x}") });
        };
        if checksum(&[], body) != crc {
            return Err(Corrupt { at, found: "a group whose checksum does not fit".into() });
        }
        let offset = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            Offset(u64::from_le_bytes(word))
        };
        Ok(body.chunks_exact(8).map(offset).collect())
    }

    /// Hints that the item at `at`, whose key has `key_bytes` bytes, is about to be read.
    #[inline]
    pub fn prefetch(&self, at: Offset, key_bytes: usize) {
        prefetch_item(self.medium(), at, key_bytes);
    }

    /// Gives back an item or group that was never published, or that was retired and that nobody can hold any more.
    pub fn reclaim(&self, at: Offset) {
        self.release(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_if_every_byte_is() {
        for len in 0..80usize {
            let key: Vec<u8> = (0..len as u8).collect();
            assert!(is_same(&key, &key.clone()), "{len}");
            assert!(!is_same(&key, &[&key[..], &[0]].concat()), "{len}");
            for place in 0..len {
                let mut other = key.clone();
                other[place] ^= 0x80;
                assert!(!is_same(&key, &other), "byte {place} of {len}");
            }
        }
    }
}
