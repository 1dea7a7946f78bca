//! A note in a pool for whoever opens it: some bytes, written once.
//!
//! ```text
//! extent of owner 254   | bytes of the note | CRC-32C of the note |      the halves of a word
//!                       | the note, 8 bytes a word, low bytes first |
//! ```
//!
//! The first word is written last. So a crash leaves an extent of zeros or with a part of the note behind a zero: no
//! note, in both cases. The checksum is for what disks do. A build that knows no notes leaves the extent as it is.

use super::Pool;
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::{LINE, Offset, WORD};
use crate::superblock::{Extent, Superblock};

/// Owner of the extent of a note.
const NOTE: u8 = 254;
/// Longest note in bytes.
pub const NOTE_BYTES_MAX: usize = 64 << 10;

impl<M: Medium> Pool<M> {
    /// Writes the note of a pool that has none. Needs the right to write. It is durable when this returns.
    ///
    /// # Panics
    ///
    /// The note is longer than [`NOTE_BYTES_MAX`].
    #[inline(never)]
    pub fn set_note(&self, note: &[u8]) -> Result<(), SpaceError> {
        assert!(note.len() <= NOTE_BYTES_MAX, "a note of {} bytes", note.len());
        let bytes = (WORD + note.len() as u64).next_multiple_of(LINE);
        let extent = self.extend(|draft| draft.take_extent(NOTE, 0, bytes))?;
        let medium = self.medium();
        for (index, part) in (1..).zip(note.chunks(WORD as usize)) {
            let mut word = [0; WORD as usize];
            word[..part.len()].copy_from_slice(part);
            medium.store(extent.start.word(index), u64::from_le_bytes(word));
        }
        medium.flush_range(extent.start, extent.bytes);
        medium.fence();
        medium.store(extent.start, head(note));
        medium.flush(extent.start);
        medium.fence();
        Ok(())
    }

    /// The note, if there is a whole one.
    #[inline(never)]
    pub fn note(&self) -> Option<Vec<u8>> {
        note_in(&self.superblock(), |at| Some(self.medium().load(at)))
    }
}

fn head(note: &[u8]) -> u64 {
    note.len() as u64 | u64::from(crc32c::crc32c(note)) << 32
}

/// The extent in which a pool's note is, and which may have none.
pub fn note_extent(superblock: &Superblock) -> Option<Extent> {
    superblock.extents.iter().copied().find(|extent| extent.owner == NOTE)
}

/// The note of a pool whose words `load` tells.
pub fn note_in(superblock: &Superblock, load: impl Fn(Offset) -> Option<u64>) -> Option<Vec<u8>> {
    let extent = note_extent(superblock)?;
    let first = load(extent.start)?;
    let len = first as u32 as usize;
    if len > NOTE_BYTES_MAX || extent.bytes < WORD + len as u64 {
        return None;
    }
    let mut note = Vec::with_capacity(len.next_multiple_of(WORD as usize));
    for index in 1..=len.div_ceil(WORD as usize) as u64 {
        note.extend_from_slice(&load(extent.start.word(index))?.to_le_bytes());
    }
    note.truncate(len);
    (len > 0 && head(&note) == first).then_some(note)
}
