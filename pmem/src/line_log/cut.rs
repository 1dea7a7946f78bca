//! The records of an epoch.

use super::{Flushed, PIECE_HEADER_WORDS};
use crate::offset::{Offset, WORD};

/// Bits of a record's place that say how many words it has.
const COUNT_BITS: u32 = 15;
/// The bit that separates pieces of an even epoch from those of an odd one. A ring has pieces of at most two epochs.
const ODD: u64 = 1 << COUNT_BITS;
/// Where the number of the first word begins.
const FIRST_SHIFT: u32 = COUNT_BITS + 1;

/// Where the words of a piece lie, in one word.
pub(super) fn place(piece: Flushed) -> u64 {
    (piece.at.0 / WORD) << FIRST_SHIFT | piece.words
}

/// The same, with the mark of an epoch.
pub(super) fn marked(place: u64, epoch: u64) -> u64 {
    place | (epoch & 1) << COUNT_BITS
}

/// Whether a [`marked`] place is of this epoch and not of a neighbouring one.
pub(super) fn is_of(marked: u64, epoch: u64) -> bool {
    (marked & ODD != 0) == (epoch & 1 != 0)
}

/// The piece that lies at a [`place`], marked or not.
pub(super) fn extent(place: u64) -> Flushed {
    Flushed { at: Offset((place >> FIRST_SHIFT) * WORD), words: place & (ODD - 1) }
}

/// All records of one epoch, unordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    epoch: u64,
    /// Record after record: sequence number, place, content.
    words: Vec<u64>,
}

/// The records in the words that [`LineLog::seal_into`](super::LineLog::seal_into) has made. Ends where words are no
/// record.
pub fn records(words: &[u64]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (&[sequence, place], after) = rest.split_first_chunk::<PIECE_HEADER_WORDS>()?;
        let Flushed { at, words } = extent(place);
        let (content, after) = after.split_at_checked(words as usize)?;
        rest = after;
        Some(Record { sequence, at, content })
    })
}

/// A run of words of the pool, as it was when it was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number among the records of its stripe.
    pub sequence: u64,
    /// The first word's place.
    pub at: Offset,
    /// What the words hold.
    pub content: &'a [u64],
}

impl Cut {
    pub(super) fn new(epoch: u64, words: Vec<u64>) -> Cut {
        Cut { epoch, words }
    }

    /// The epoch that it closes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Its records, in no order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        records(&self.words)
    }

    /// Stores every word as it was at the end of the epoch. Cuts are to be replayed in the order of their epochs.
    pub fn replay(&self, mut store: impl FnMut(Offset, u64)) {
        let mut records: Vec<Record<'_>> = self.records().collect();
        records.sort_by_key(|record| record.sequence);
        for record in records {
            for (word, &value) in (0..).zip(record.content) {
                store(record.at.word(word), value);
            }
        }
    }
}
