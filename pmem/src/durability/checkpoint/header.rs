//! The first page of a checkpoint.

use super::super::disk::PAGE_BYTES;
use super::super::error::RestoreError;
use super::super::frame::{checksum, whole};
use super::super::writer::Position;
use super::super::{CHUNK_BYTES_MAX, names::CHECKPOINTS};
use super::{sums_at, sums_bytes};
use std::path::PathBuf;

/// The version of the checkpoint's format.
pub(super) const VERSION: u64 = 3;
/// The one before, which ends with the first checksum.
const VERSION_UNMERGED: u64 = 2;
/// Words of the header.
pub(super) const HEADER_WORDS: usize = 20;
/// Each has the checksum of the words before it. A build that does not know this version finds the first one right, and
/// says which version it is.
const SUM_WORDS: [usize; 2] = [15, HEADER_WORDS - 1];
const MAGIC: u64 = u64::from_le_bytes(*b"FIRNSAFE");
/// The largest image: 16 TiB. A header that says more is no checkpoint's.
const IMAGE_BYTES_MAX: u64 = 1 << 44;
const PAGE: u64 = PAGE_BYTES as u64;

/// What the first page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Header {
    pub(in super::super) uuid: u128,
    pub(in super::super) generation: u128,
    pub(in super::super) log: Position,
    /// Epochs before this one are in the image.
    pub(in super::super) from_epoch: u64,
    /// What the image caught half is in the log up to this one.
    pub(in super::super) to_epoch: u64,
    pub(in super::super) chunk_bytes: u64,
    pub(in super::super) image_bytes: u64,
    pub(in super::super) sums_crc: u32,
    /// Counted from 1. Of two whole ones the one with the larger number counts.
    pub(in super::super) number: u64,
    /// Where the sums are, in the file that has the image.
    pub(in super::super) sums_at: u64,
    /// The log up to this epoch is being merged into the image. So a chunk may be as it was, as it will be, or between
    /// the two. It fits its sum either as it is, or once that epoch is replayed.
    pub(in super::super) merging: Option<u64>,
    /// Which place has the image: while the log is merged, not the one that has this header.
    pub(in super::super) place: usize,
}

impl Header {
    pub(super) fn encode(&self, page: &mut [u64]) {
        let halves = |value: u128| [value as u64, (value >> 64) as u64];
        page[..2].copy_from_slice(&[MAGIC, VERSION]);
        page[2..4].copy_from_slice(&halves(self.uuid));
        page[4..6].copy_from_slice(&halves(self.generation));
        page[6..9].copy_from_slice(&[self.log.segment, self.log.at, self.log.frame]);
        page[9..13].copy_from_slice(&[
            self.chunk_bytes,
            self.from_epoch,
            self.to_epoch,
            self.image_bytes,
        ]);
        page[13] = self.sums_crc.into();
        page[14] = self.number;
        page[16..19].copy_from_slice(&[self.sums_at, self.merging.unwrap_or(0), self.place as u64]);
        SUM_WORDS.into_iter().for_each(|at| page[at] = checksum(0, &page[..at]).into());
    }

    /// The header in a page that was found in this place.
    pub(super) fn decode(page: &[u64], found_in: usize) -> Result<Header, HeaderFault> {
        let words: &[u64; HEADER_WORDS] =
            page.first_chunk().ok_or(HeaderFault::Damaged("its header is cut"))?;
        if words[0] != MAGIC {
            return Err(HeaderFault::Damaged("it does not begin with a checkpoint's magic number"));
        }
        let fits = |at: usize| words[at] == u64::from(checksum(0, &words[..at]));
        if !fits(SUM_WORDS[0]) {
            return Err(HeaderFault::Damaged("its header's checksum is wrong"));
        }
        let is_unmerged = match words[1] {
            VERSION_UNMERGED => true,
            VERSION if fits(SUM_WORDS[1]) => false,
            VERSION => return Err(HeaderFault::Damaged("its header's second checksum is wrong")),
            other => return Err(HeaderFault::Version(other)),
        };
        if words[9] == 0 || words[9] > CHUNK_BYTES_MAX || !words[9].is_multiple_of(PAGE) {
            return Err(HeaderFault::Damaged("its chunks have a size that none has"));
        }
        // Where a log was merged, the image lacks nothing of the epochs before the first that is replayed.
        if words[10] == 0 || words[10] - 1 > words[11] {
            return Err(HeaderFault::Damaged("its epochs are out of order"));
        }
        if words[12] > IMAGE_BYTES_MAX {
            return Err(HeaderFault::Damaged("its image is larger than any"));
        }
        let first_sums_at = sums_at(words[12]);
        let [at, merging, place] = match is_unmerged {
            true => [first_sums_at, 0, found_in as u64],
            false => [words[16], words[17], words[18]],
        };
        let is_a_place =
            at == first_sums_at || at == first_sums_at + sums_bytes(words[12], words[9]);
        if !is_a_place {
            return Err(HeaderFault::Damaged("its sums are where none are"));
        }
        if merging != 0 && !(words[10]..=words[11]).contains(&merging) {
            return Err(HeaderFault::Damaged("it is being merged with epochs that it has"));
        }
        if place >= CHECKPOINTS.len() as u64 || merging == 0 && place != found_in as u64 {
            return Err(HeaderFault::Damaged("its image is in a place where none is"));
        }
        Ok(Header {
            uuid: whole(words[2], words[3]),
            generation: whole(words[4], words[5]),
            log: Position { segment: words[6], at: words[7], frame: words[8] },
            from_epoch: words[10],
            to_epoch: words[11],
            chunk_bytes: words[9],
            image_bytes: words[12],
            sums_crc: words[13] as u32,
            number: words[14],
            sums_at: at,
            merging: (merging != 0).then_some(merging),
            place: place as usize,
        })
    }

    /// Where the sums of the next image go, if it is as large: not over these.
    pub(super) fn other_sums_at(&self) -> u64 {
        let first = sums_at(self.image_bytes);
        match self.sums_at == first {
            true => first + sums_bytes(self.image_bytes, self.chunk_bytes),
            false => first,
        }
    }
}

/// Why a page has no header that counts.
pub(super) enum HeaderFault {
    Damaged(&'static str),
    Version(u64),
}

impl HeaderFault {
    pub(super) fn of(self, path: PathBuf) -> RestoreError {
        match self {
            HeaderFault::Damaged(found) => RestoreError::Damaged { path, found: found.into() },
            HeaderFault::Version(found) => RestoreError::Version { path, found, expected: VERSION },
        }
    }
}
