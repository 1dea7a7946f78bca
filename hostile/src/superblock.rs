//! The superblock as words of a file, with checksums that are made right again.

use crate::words::{WORD, load, store};
use pmem::superblock::{COPY_BYTES, COPY_WORDS, Place, Superblock};

const COPY: usize = COPY_BYTES as usize;
/// The word of a copy with its checksum.
const CHECKSUM: usize = 3;
/// State, and the medium.
pub(crate) const STATE: usize = 15;
/// The place begins here: boot id, inode, file system.
const PLACE: usize = 16;
/// The number of extents, and log2 of the bytes of a segment.
pub(crate) const EXTENTS: usize = 21;
/// The first extent.
pub(crate) const FIRST_EXTENT: usize = 64;

/// What one or both copies say.
pub(crate) fn decode(bytes: &[u8]) -> Option<Superblock> {
    let copy = |copy: usize| -> Option<Box<[u64; COPY_WORDS]>> {
        let words: Vec<u64> =
            (0..COPY_WORDS).map(|word| load(bytes, place_of(copy, word))).collect();
        words.try_into().ok()
    };
    let (first, second) = (copy(0)?, copy(1)?);
    Superblock::choose([Some(&first), Some(&second)]).ok().map(|chosen| chosen.0)
}

fn place_of(copy: usize, word: usize) -> usize {
    copy * COPY + word * WORD
}

/// A word of the first copy.
pub(crate) fn word(bytes: &[u8], word: usize) -> u64 {
    load(bytes, place_of(0, word))
}

/// Sets a word in both copies.
pub(crate) fn set(bytes: &mut [u8], word: usize, value: u64) {
    (0..2).for_each(|copy| set_in(bytes, copy, word, value));
}

/// Sets a word in one copy.
pub(crate) fn set_in(bytes: &mut [u8], copy: usize, word: usize, value: u64) {
    if word < COPY_WORDS {
        store(bytes, place_of(copy, word), value);
    }
}

/// Says that the pool was last opened here, and whether it was closed.
pub(crate) fn set_place(bytes: &mut [u8], place: &Place, is_clean: bool) {
    let state = word(bytes, STATE) & !u64::from(u32::MAX) | u64::from(!is_clean);
    set(bytes, STATE, state);
    let words = [place.boot_id[0], place.boot_id[1], place.inode, place.file_system];
    (PLACE..).zip(words).for_each(|(at, word)| set(bytes, at, word));
}

/// Makes the checksums of both copies right.
pub(crate) fn mend(bytes: &mut [u8]) {
    for copy in 0..2 {
        set_in(bytes, copy, CHECKSUM, 0);
        let range = copy * COPY..(copy + 1) * COPY;
        if let Some(sum) = bytes.get(range).map(crc32c::crc32c) {
            set_in(bytes, copy, CHECKSUM, sum.into());
        }
    }
}
