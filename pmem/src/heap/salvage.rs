//! Reads items and groups from the file of a heap that may be damaged anywhere. It trusts nothing in the file.

use super::checksum::checksum;
use super::class::Classes;
use super::item::{GROUP_MARK, GROUP_MAX, HEADER_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX, padded};
use super::map::{Tables, Words};
pub use super::remains::Remains;
use super::segment::Descriptor;
use crate::offset::Offset;
use crate::superblock::{HEAP, SEGMENT_LOG2_MAX, SUPERBLOCK_BYTES, Superblock};
use std::ops::Range;

/// A key and a value.
pub type KeyAndValue = (Vec<u8>, Vec<u8>);

/// Items begin at multiples of this.
const ITEM_ALIGN: u64 = 16;
/// Bytes of which checksums are computed in search of items, for each byte of the pool. A limit is needed because a
/// damaged pool may be full of what looks like large items.
const EFFORT: u64 = 64;

/// The header at `at`.
fn header(remains: &dyn Remains, at: u64) -> Option<(u32, u32, u64)> {
    let mut head = [0; HEADER_BYTES as usize];
    (at.is_multiple_of(ITEM_ALIGN) && remains.read(at, &mut head)).then(|| split(&head))
}

fn split(head: &[u8; HEADER_BYTES as usize]) -> (u32, u32, u64) {
    let whole = u128::from_le_bytes(*head);
    (whole as u32, (whole >> 32) as u32, (whole >> 64) as u64)
}

/// Bytes of the item that this header begins, if that is possible.
fn item_bytes((key_bytes, _, value_bytes): (u32, u32, u64)) -> Option<u64> {
    let is_possible = key_bytes as usize <= KEY_BYTES_MAX && value_bytes <= VALUE_BYTES_MAX as u64;
    is_possible.then(|| HEADER_BYTES + padded(key_bytes.into()) + value_bytes)
}

/// The item at `at`, if there is one that fits its checksum.
pub fn read_item(remains: &dyn Remains, at: Offset) -> Option<KeyAndValue> {
    let head = header(remains, at.0)?;
    let bytes = item_bytes(head)?;
    if at.0.checked_add(bytes)? > remains.len() {
        return None;
    }
    let mut body = vec![0; (bytes - HEADER_BYTES) as usize];
    if !remains.read(at.0 + HEADER_BYTES, &mut body) {
        return None;
    }
    let value = body.split_off(padded(head.0.into()) as usize);
    body.truncate(head.0 as usize);
    (checksum(&body, &value) == head.1).then_some((body, value))
}

/// The offsets in the group at `at`, if there is one that fits its checksum.
pub fn read_group(remains: &dyn Remains, at: Offset) -> Option<Vec<Offset>> {
    let (count, crc, mark) = header(remains, at.0)?;
    if mark != GROUP_MARK || count as usize > GROUP_MAX {
        return None;
    }
    let mut body = vec![0; 8 * count as usize];
    if !remains.read(at.0.checked_add(HEADER_BYTES)?, &mut body) || checksum(&[], &body) != crc {
        return None;
    }
    let (words, _) = body.as_chunks::<8>();
    Some(words.iter().map(|word| Offset(u64::from_le_bytes(*word))).collect())
}

/// Shows `visit` all items that fit their checksums, whether something leads to them or not. Removed and replaced items
/// are among them if nothing else has been written there since. The superblock tells where the heap is; without it,
/// items are looked for everywhere.
pub fn for_each_item(
    remains: &dyn Remains,
    superblock: Option<&Superblock>,
    visit: &mut dyn FnMut(Offset, KeyAndValue),
) {
    let segment_log2 = superblock.map_or(SEGMENT_LOG2_MAX, |superblock| superblock.segment_log2);
    let mut search = Search {
        remains,
        segment_bytes: 1 << segment_log2,
        classes: Classes::new(1 << segment_log2),
        effort: remains.len().saturating_mul(EFFORT),
        visit,
    };
    let Some(superblock) = superblock else {
        let first = SUPERBLOCK_BYTES.next_multiple_of(ITEM_ALIGN);
        return search.unknown(first..remains.len());
    };
    let tables = Tables::of(superblock);
    for extent in superblock.extents.iter().filter(|extent| extent.owner == HEAP) {
        let end = remains.len().min(extent.end());
        let first = extent.start.0 >> segment_log2;
        let present = first..(end >> segment_log2).max(first);
        let mut words = Words::new(&tables, remains);
        let mut segment = present.start;
        while segment < present.end {
            let left = (extent.end() >> segment_log2).saturating_sub(segment).max(1);
            let descriptor = words.get(segment).and_then(Descriptor::decode);
            segment += search.segment(segment << segment_log2, descriptor, left).min(left);
        }
        // The rest of an extent that was cut off.
        search.unknown((present.end << segment_log2).max(extent.start.0)..end);
    }
}

/// A search for items.
struct Search<'a> {
    remains: &'a dyn Remains,
    segment_bytes: u64,
    classes: Classes,
    /// Bytes of which checksums may still be computed.
    effort: u64,
    visit: &'a mut dyn FnMut(Offset, KeyAndValue),
}

impl Search<'_> {
    /// Searches the segment at `at`, with which `most` are left; returns how many segments that were.
    fn segment(&mut self, at: u64, descriptor: Option<Descriptor>, most: u64) -> u64 {
        match descriptor {
            Some(Descriptor::Small { class, .. }) => self.slab(at, class.into(), most),
            // How many segments a large item takes is for itself to say. A free one has at most removed or replaced
            // items, if that is true.
            Some(Descriptor::Large { .. } | Descriptor::Free | Descriptor::Vacant) | None => {
                self.unknown_segment(at)
            }
        }
    }

    /// Searches a slab, of which at most `most` segments can be there.
    fn slab(&mut self, at: u64, class: usize, most: u64) -> u64 {
        let segments = self.classes.segments(class);
        let Some(size) = self.classes.size(class).filter(|_| segments <= most) else {
            return self.unknown_segment(at);
        };
        if !self.is_slab_of(at, class, size) {
            return self.unknown_segment(at);
        }
        for slot in 0..self.classes.slots(class) {
            self.item(at + slot * size, size);
        }
        segments
    }

    /// Whether items say so, too: a damaged descriptor may name any class.
    fn is_slab_of(&mut self, at: u64, class: usize, size: u64) -> bool {
        // Slabs of all classes have a slot at their start, so that one tells nothing.
        let has_item_of_class = (1..self.classes.slots(class)).any(|slot| {
            self.sound_item(at + slot * size, size).is_some_and(|(bytes, _)| {
                let classes = &self.classes;
                [classes.narrow_class_of(bytes), classes.wide_class_of(bytes)]
                    .contains(&Some(class))
            })
        });
        // And where an item begins with a segment, but not with a slot, there is another slab.
        has_item_of_class
            && !(1..self.classes.segments(class)).any(|segment| {
                let within = segment * self.segment_bytes;
                !within.is_multiple_of(size) && self.sound_item(at + within, u64::MAX).is_some()
            })
    }

    /// Searches what is behind an item that begins at `at`, in its last segment; returns how many segments it is in.
    fn rest_of(&mut self, at: u64, bytes: u64) -> u64 {
        let segments = bytes.div_ceil(self.segment_bytes);
        let end = (at + bytes).next_multiple_of(ITEM_ALIGN);
        self.unknown(end..at + segments * self.segment_bytes);
        segments
    }

    /// Searches a whole segment of which nothing is known. If a large item begins there, returns how many segments it
    /// takes.
    fn unknown_segment(&mut self, at: u64) -> u64 {
        if let Some(bytes) = self.item(at, u64::MAX) {
            return self.rest_of(at, bytes);
        }
        self.unknown(at + ITEM_ALIGN..at + self.segment_bytes);
        1
    }

    /// Searches a whole range.
    fn unknown(&mut self, range: Range<u64>) {
        let mut at = range.start;
        let mut chunk = vec![0; self.segment_bytes as usize];
        while at < range.end {
            let bytes = (range.end - at).min(chunk.len() as u64);
            let is_read = self.remains.read(at, &mut chunk[..bytes as usize]);
            let end = at + bytes;
            while at < end {
                let within = (at + bytes - end) as usize;
                let head = chunk[within..].first_chunk::<{ HEADER_BYTES as usize }>();
                // What could not be read in one piece is read item by item.
                let may_begin = !is_read
                    || head.is_none_or(|head| {
                        *head != [0; HEADER_BYTES as usize] && item_bytes(split(head)).is_some()
                    });
                let item = if may_begin { self.item(at, u64::MAX) } else { None };
                at += item.unwrap_or(ITEM_ALIGN).next_multiple_of(ITEM_ALIGN);
            }
        }
    }

    /// Shows the item at `at`, if there is one of at most `bytes_max` bytes; returns its size.
    fn item(&mut self, at: u64, bytes_max: u64) -> Option<u64> {
        let (bytes, item) = self.sound_item(at, bytes_max)?;
        (self.visit)(Offset(at), item);
        Some(bytes)
    }

    /// The item at `at`, if there is one of at most `bytes_max` bytes, and its size.
    fn sound_item(&mut self, at: u64, bytes_max: u64) -> Option<(u64, KeyAndValue)> {
        let head = header(self.remains, at)?;
        let bytes = item_bytes(head).filter(|&bytes| bytes <= bytes_max)?;
        // An empty item has a checksum of 0, and so has unused space.
        if bytes == HEADER_BYTES || bytes > self.effort {
            return None;
        }
        self.effort -= bytes;
        Some((bytes, read_item(self.remains, Offset(at))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Remains for Vec<u8> {
        fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
            let found = self.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
            found.is_some_and(|found| {
                bytes.copy_from_slice(found);
                true
            })
        }

        fn len(&self) -> u64 {
            Vec::len(self) as u64
        }
    }

    fn item(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = (key.len() as u32).to_le_bytes().to_vec();
        bytes.extend(checksum(key, value).to_le_bytes());
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(key);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(value);
        bytes
    }

    fn found_in(bytes: &Vec<u8>) -> Vec<(Offset, KeyAndValue)> {
        let mut found = Vec::new();
        for_each_item(bytes, None, &mut |at, item| found.push((at, item)));
        found
    }

    #[test]
    fn items_are_found_without_a_superblock_and_others_are_not() {
        let mut bytes = vec![0; 1 << 18];
        let mut expected = Vec::new();
        for (at, key_bytes, value_bytes) in
            [(8192, 4, 7), (8256, 0, 1), (9008, 3, 70_000), (1 << 17, 1, 0), ((1 << 18) - 32, 8, 8)]
        {
            let (key, value) = (vec![at as u8 ^ 5; key_bytes], vec![7; value_bytes]);
            let item = item(&key, &value);
            bytes[at..at + item.len()].copy_from_slice(&item);
            expected.push((Offset(at as u64), (key, value)));
        }
        assert_eq!(found_in(&bytes), expected);
        for (at, _) in expected.clone() {
            // A flipped bit in an item costs that item.
            let mut damaged = bytes.clone();
            damaged[at.0 as usize + 5] ^= 4;
            let found = found_in(&damaged);
            assert!(found.iter().all(|found| expected.contains(found)));
            assert_eq!(found.len(), expected.len() - 1, "{at}");
            // So does a cut.
            damaged.truncate(at.0 as usize + 16);
            assert!(read_item(&damaged, at).is_none());
        }
    }

    /// Every 16 bytes there is something that could be the largest of all items.
    #[test]
    fn a_hostile_pool_is_searched_in_time() {
        let bytes: Vec<u8> = (0..1 << 22).map(|at| if at % 16 == 10 { 0x3f } else { 0 }).collect();
        let mut search = Search {
            remains: &bytes,
            segment_bytes: 1 << 16,
            classes: Classes::new(1 << 16),
            effort: 1 << 26,
            visit: &mut |_, _| panic!("there is none"),
        };
        search.unknown(0..bytes.len() as u64);
        assert!(search.effort < 1 << 23, "effort is left: {}", search.effort);
    }
}
