//! The two copies of the superblock in a pool: written one after the other, so that a crash leaves one whole.

use super::LINE_WORDS;
use crate::medium::Medium;
use crate::offset::{LINE, Offset, WORD};
use crate::superblock::{COPY_BYTES, COPY_WORDS, Superblock};

pub(super) fn write_copies<M: Medium>(medium: &M, superblock: &Superblock) {
    write_copy(medium, superblock, 0);
    write_copy(medium, superblock, 1);
}

/// Writes one copy and waits until it is durable: with both under way at once, one crash could tear both. Unchanged
/// lines are not written.
pub(super) fn write_copy<M: Medium>(medium: &M, superblock: &Superblock, copy: u64) {
    let start = Offset(copy * COPY_BYTES);
    let before = read_copy(medium, start);
    let after = superblock.encode();
    for word in (0..COPY_WORDS).filter(|&word| before[word] != after[word]) {
        medium.store(start.word(word as u64), after[word]);
    }
    let lines = before.chunks(LINE_WORDS).zip(after.chunks(LINE_WORDS));
    for (line, _) in (0..).zip(lines).filter(|(_, (before, after))| before != after) {
        medium.flush(start.add(line * LINE));
    }
    medium.fence();
}

/// The words of the copy that begins at `start`; zeros, which are no valid copy, if the medium ends earlier.
pub(super) fn read_copy<M: Medium>(medium: &M, start: Offset) -> [u64; COPY_WORDS] {
    let mut words = [0; COPY_WORDS];
    // SAFETY: copies are stored to by `write_copy` only, whose callers hold the lock on the
    // superblock or have the pool to themselves, as the callers of this function do.
    let bytes = unsafe { medium.bytes(start, COPY_BYTES) }.unwrap_or_default();
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD as usize)) {
        let mut word_bytes = [0; WORD as usize];
        word_bytes.copy_from_slice(bytes);
        *word = u64::from_ne_bytes(word_bytes);
    }
    words
}
