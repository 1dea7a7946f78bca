//! Where segments and their descriptor words lie.
//!
//! Segments are numbered through the whole pool. Their words lie apart from them, in *tables*, which are extents of
//! their own. Each table has the words of a fixed range of segments, as many as all tables before it together:
//!
//! ```text
//! table 0: segments 0 .. N       table 1: N .. 2 N       table 2: 2 N .. 4 N       table t: 2^(t-1) N .. 2^t N
//! ```
//!
//! counted from the first one behind the superblock, with N = [`WORDS_MIN`]. A table may have words of segments that
//! are not the heap's; they stay zero.
//!
//! Invariants:
//!
//! 1. A word never moves. Its place follows from the segment's number and from where the table begins.
//! 2. A segment on record has a word: one change of the superblock records segments and the tables that they need.
//! 3. A word is zero, which means free, until its segment is taken for the first time: extents begin as zeros, and
//!    nothing is stored in a word before its segment is on record.
//!
//! So growth writes nothing but the superblock. Rejected: words behind the segments of their extent, which move when
//! that grows. Where it grows by fewer segments than the words take, old and new place overlap, and no order of
//! copying is safe if a crash may come in the middle.

use super::remains::Remains;
use crate::offset::{Offset, WORD};
use crate::superblock::{Extent, HEAP, HEAP_WORDS, SUPERBLOCK_BYTES, Superblock};
use crate::sync::{AtomicU64, Ordering};
use std::ops::Range;

/// Words of the first table: a page. One line on the crash lab's machine: its pools are tiny, and are to have tables
/// of less than a segment and of more.
pub(super) const WORDS_MIN: u64 = if cfg!(feature = "simulated") { 8 } else { 512 };
/// More tables than a pool of the largest size has.
const TABLES_MAX: usize = 40;

/// Most words that are read from a file at once.
const CHUNK_WORDS: u64 = 8192;

/// Where the tables of a pool begin.
#[derive(Debug)]
pub(super) struct Tables {
    segment_log2: u32,
    /// 0 if the pool does not have the table.
    starts: [AtomicU64; TABLES_MAX],
}

impl Tables {
    /// None, of a pool with segments of this size.
    pub(super) fn new(segment_log2: u32) -> Tables {
        Tables { segment_log2, starts: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Those on record in a superblock; what is wrong with a record is passed over.
    pub(super) fn of(superblock: &Superblock) -> Tables {
        let tables = Tables::new(superblock.segment_log2);
        for extent in superblock.extents.iter().filter(|extent| extent.owner == HEAP_WORDS) {
            // Its segments then have no words.
            let _ = tables.adopt(extent);
        }
        tables
    }

    /// Takes in a table.
    pub(super) fn adopt(&self, extent: &Extent) -> Result<(), String> {
        let (index, bytes) = (usize::from(extent.index), extent.bytes);
        let wrong = |what: String| {
            Err(format!("table {index} of the heap's descriptors at {}: {what}", extent.start))
        };
        let Some(start) = self.starts.get(index) else {
            return wrong(format!("there are at most {TABLES_MAX} tables"));
        };
        if bytes != bytes_of(index) {
            return wrong(format!("it has {bytes} bytes, expected {}", bytes_of(index)));
        }
        match start.swap(extent.start.0, Ordering::Release) {
            0 => Ok(()),
            other => wrong(format!("it is at {} as well", Offset(other))),
        }
    }

    /// Where the word of a segment is, if there is a table for it.
    #[inline]
    pub(super) fn word_of(&self, segment: u64) -> Option<Offset> {
        let number = segment.checked_sub(self.first_segment())?;
        let table = table_of(number);
        let start = self.starts.get(table)?.load(Ordering::Acquire);
        (start != 0).then(|| Offset(start).word(number - numbers_of(table).start))
    }

    /// Where the word of a segment is, and how many words there are from it on in the same table.
    pub(super) fn row_of(&self, segment: u64) -> Option<(Offset, u64)> {
        let at = self.word_of(segment)?;
        let number = segment - self.first_segment();
        Some((at, numbers_of(table_of(number)).end - number))
    }

    /// The tables that segments in this range need and the pool does not have.
    pub(super) fn missing_for(&self, segments: &Range<u64>) -> impl Iterator<Item = usize> {
        let number = |segment: u64| segment.saturating_sub(self.first_segment());
        let last = number(segments.end.saturating_sub(1));
        let needed = table_of(number(segments.start))..=table_of(last);
        needed.filter(|&table| {
            self.starts.get(table).is_none_or(|start| start.load(Ordering::Acquire) == 0)
        })
    }

    /// The one behind the superblock, as far as that fills whole segments.
    fn first_segment(&self) -> u64 {
        SUPERBLOCK_BYTES >> self.segment_log2
    }
}

/// The surviving words of segments in a file, read in order. A superblock may claim any size, so no more is read, and
/// kept, than a chunk.
pub(super) struct Words<'a> {
    tables: &'a Tables,
    remains: &'a dyn Remains,
    /// The words that were read last.
    words: Vec<u64>,
    /// The segment of the first one.
    first: u64,
}

impl<'a> Words<'a> {
    pub(super) fn new(tables: &'a Tables, remains: &'a dyn Remains) -> Words<'a> {
        Words { tables, remains, words: Vec::new(), first: 0 }
    }

    /// The word of a segment. `None` if it has none, or if that cannot be read.
    pub(super) fn get(&mut self, segment: u64) -> Option<u64> {
        let read = |words: &Self| {
            let index = segment.checked_sub(words.first)?;
            words.words.get(usize::try_from(index).ok()?).copied()
        };
        read(self).or_else(|| {
            self.fetch(segment)?;
            read(self)
        })
    }

    /// Reads the words from this segment on, up to the end of its table or of a chunk; if that fails, its word alone.
    fn fetch(&mut self, segment: u64) -> Option<()> {
        let (at, left) = self.tables.row_of(segment)?;
        for count in [left.min(CHUNK_WORDS), 1] {
            let mut bytes = vec![0; (count * WORD) as usize];
            if self.remains.read(at.0, &mut bytes) {
                self.words =
                    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
                self.first = segment;
                return Some(());
            }
        }
        None
    }
}

/// The table with the word of the segment of this number, counted from the first one.
fn table_of(number: u64) -> usize {
    (number / WORDS_MIN).checked_ilog2().map_or(0, |log2| log2 as usize + 1)
}

/// The numbers of the segments whose words are in a table.
fn numbers_of(table: usize) -> Range<u64> {
    match table {
        0 => 0..WORDS_MIN,
        _ => WORDS_MIN << (table - 1)..WORDS_MIN << table,
    }
}

/// Bytes of a table.
pub(super) fn bytes_of(table: usize) -> u64 {
    let numbers = numbers_of(table);
    (numbers.end - numbers.start) * WORD
}

/// The segments of the heap's extents, in order. Those of extents without a gap between them are one range.
pub(super) fn segments_of(
    extents: impl IntoIterator<Item = Extent>,
    segment_log2: u32,
) -> Result<Vec<Range<u64>>, String> {
    let mut extents: Vec<Extent> =
        extents.into_iter().filter(|extent| extent.owner == HEAP).collect();
    extents.sort_unstable_by_key(|extent| extent.start);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for extent in extents {
        let inside = (1 << segment_log2) - 1;
        if (extent.start.0 | extent.bytes) & inside != 0 || extent.bytes == 0 {
            return Err(format!(
                "the heap extent at {} has {} bytes, which is no whole number of segments",
                extent.start, extent.bytes
            ));
        }
        let segments = extent.start.0 >> segment_log2..extent.end() >> segment_log2;
        match ranges.last_mut() {
            Some(last) if last.end == segments.start => last.end = segments.end,
            _ => ranges.push(segments),
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_has_a_word_of_its_own() {
        for segment_log2 in [7, 13, 16] {
            let tables = Tables::new(segment_log2);
            let mut next = 1 << 20;
            for index in 0..8 {
                let extent = Extent {
                    owner: HEAP_WORDS,
                    index,
                    start: Offset(next),
                    bytes: bytes_of(index.into()),
                };
                tables.adopt(&extent).unwrap();
                next = extent.end();
            }
            let first = tables.first_segment();
            let count = numbers_of(7).end;
            for number in 0..count {
                // The tables lie one behind the other here.
                let expected = Offset(1 << 20).word(number);
                assert_eq!(tables.word_of(first + number), Some(expected));
            }
            assert_eq!(tables.word_of(first + count), None);
            assert_eq!(first.checked_sub(1).and_then(|before| tables.word_of(before)), None);
            assert_eq!(tables.missing_for(&(first..first + count)).next(), None);
            let beyond = first + count - 1..first + 2 * count + 1;
            assert_eq!(tables.missing_for(&beyond).collect::<Vec<_>>(), [8, 9]);
        }
    }

    #[test]
    fn the_last_segment_that_an_offset_reaches_has_a_table() {
        for segment_log2 in 7..=16 {
            assert!(table_of((1 << 48 >> segment_log2) - 1) < TABLES_MAX);
        }
    }

    #[test]
    fn wrong_tables_are_refused() {
        let tables = Tables::new(13);
        let table = |index: u8, bytes: u64| {
            tables.adopt(&Extent { owner: HEAP_WORDS, index, start: Offset(8192), bytes })
        };
        assert!(table(0, bytes_of(0) + 8).unwrap_err().contains("bytes, expected"));
        assert!(table(200, 64).unwrap_err().contains("at most"));
        table(0, bytes_of(0)).unwrap();
        assert!(table(0, bytes_of(0)).unwrap_err().contains("as well"));
    }
}
