//! The record of a disk's writes and flushes, in the format of dm-log-writes.
//!
//! ```text
//! superblock  word 0  magic         entry   word 0  first sector     both fill one sector;
//!                  1  version               word 1  sectors          all numbers are little-endian
//!                  2  entries               word 2  flags
//!                  3  bytes of a sector     word 3  not used here
//!             (32 bits)                     then the data, sectors of it, unless it is a discard
//! ```
//!
//! QEMU's `blklogwrites` adds an entry when the request is complete. The guest's driver has one request on its way at
//! a time, so an entry is complete before the next one is issued: a flush covers exactly the entries before it.

use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// One request of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// All that was written before is durable once this request is complete.
    pub is_flush: bool,
    /// What this request writes is durable once it is complete.
    pub is_durable: bool,
    /// Where on the disk it writes, in bytes.
    pub at: u64,
    /// What it does there.
    pub content: Content<'a>,
}

/// What a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// These bytes; none if it is only a flush.
    Data(&'a [u8]),
    /// Nothing: this many bytes are no longer needed.
    Discard(u64),
}

/// All entries of a record. What QEMU was adding when it was killed does not count.
pub fn entries(record: &[u8]) -> Result<Vec<Entry<'_>>> {
    if record.is_empty() {
        return Ok(Vec::new());
    }
    ensure!(word(record, 0)? == MAGIC, "this is no record of dm-log-writes");
    ensure!(word(record, 1)? == VERSION, "the record has an unknown version");
    let count = word(record, 2)?;
    let sector_bytes = word(record, 3)? & u64::from(u32::MAX);
    ensure!(
        sector_bytes.is_power_of_two() && sector_bytes >= 512,
        "the record has sectors of {sector_bytes} bytes"
    );
    let mut entries = Vec::new();
    let mut at = sector_bytes;
    for number in 0..count {
        let (entry, next) = entry(record, at, sector_bytes)
            .with_context(|| format!("entry {number} of {count}, at byte {at}"))?;
        entries.extend(entry);
        at = next;
    }
    Ok(entries)
}

/// How many entries a record says it has, while it is being made.
pub fn count(record: &Path) -> Result<u64> {
    let mut superblock = [0; 24];
    let is_begun = File::open(record)?.read_exact_at(&mut superblock, 0).is_ok();
    if is_begun { word(&superblock, 2) } else { Ok(0) }
}

/// The entry at a place, `None` for a remark, and where the next one begins.
fn entry(record: &[u8], at: u64, sector_bytes: u64) -> Result<(Option<Entry<'_>>, u64)> {
    let header = part(record, at, sector_bytes)?;
    let flags = word(header, 2)?;
    if flags & !(FLUSH | FUA | DISCARD | MARK) != 0 {
        bail!("unknown flags {flags:#x}");
    }
    let at = at + sector_bytes;
    if flags & MARK != 0 {
        // A remark of whoever made the record: its text has a length of its own.
        return Ok((None, at + word(header, 3)?.next_multiple_of(sector_bytes)));
    }
    let bytes = word(header, 1)?.checked_mul(sector_bytes).context("too many sectors")?;
    let (content, next) = if flags & DISCARD != 0 {
        (Content::Discard(bytes), at)
    } else {
        (Content::Data(part(record, at, bytes)?), at + bytes)
    };
    let place = word(header, 0)?.checked_mul(sector_bytes).context("no such sector")?;
    let entry =
        Entry { is_flush: flags & FLUSH != 0, is_durable: flags & FUA != 0, at: place, content };
    Ok((Some(entry), next))
}

fn part(record: &[u8], at: u64, bytes: u64) -> Result<&[u8]> {
    let end = at.checked_add(bytes).context("the record says where it cannot reach")?;
    record.get(at as usize..end as usize).context("the record ends too early")
}

fn word(bytes: &[u8], index: usize) -> Result<u64> {
    let word = bytes.get(index * 8..index * 8 + 8).context("the record ends too early")?;
    Ok(u64::from_le_bytes(word.try_into()?))
}

/// Makes a record, for tests.
#[cfg(test)]
pub(crate) mod made {
    use super::*;

    /// A record of sectors of 512 bytes.
    pub(crate) struct Record {
        bytes: Vec<u8>,
        count: u64,
    }

    impl Record {
        pub(crate) fn new() -> Record {
            Record { bytes: vec![0; 512], count: 0 }
        }

        fn add(mut self, words: [u64; 4], data: &[u8]) -> Record {
            let begin = self.bytes.len();
            for word in words {
                self.bytes.extend(word.to_le_bytes());
            }
            self.bytes.resize(begin + 512, 0);
            self.bytes.extend(data);
            self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
            self.count += 1;
            self
        }

        pub(crate) fn write(self, sector: u64, data: &[u8]) -> Record {
            self.add([sector, data.len() as u64 / 512, 0, 0], data)
        }

        pub(crate) fn write_durably(self, sector: u64, data: &[u8]) -> Record {
            self.add([sector, data.len() as u64 / 512, FUA, 0], data)
        }

        pub(crate) fn flush(self) -> Record {
            self.add([0, 0, FLUSH, 0], &[])
        }

        pub(crate) fn discard(self, sector: u64, sectors: u64) -> Record {
            self.add([sector, sectors, DISCARD, 0], &[])
        }

        pub(crate) fn remark(self, text: &str) -> Record {
            self.add([0, 0, MARK, text.len() as u64], text.as_bytes())
        }

        pub(crate) fn raw(self, words: [u64; 4]) -> Record {
            self.add(words, &[])
        }

        pub(crate) fn bytes(mut self) -> Vec<u8> {
            for (index, word) in [MAGIC, VERSION, self.count, 512].into_iter().enumerate() {
                self.bytes[index * 8..index * 8 + 8].copy_from_slice(&word.to_le_bytes());
            }
            self.bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made::Record;
    use super::*;

    #[test]
    fn what_was_recorded_is_read() {
        let record = Record::new()
            .write(3, &[1; 1024])
            .remark("a remark of more than nothing")
            .flush()
            .discard(8, 16)
            .write_durably(5, &[2; 512]);
        let bytes = record.bytes();
        let plain =
            Entry { is_flush: false, is_durable: false, at: 0, content: Content::Data(&[]) };
        let expected = [
            Entry { at: 3 * 512, content: Content::Data(&[1; 1024]), ..plain },
            Entry { is_flush: true, ..plain },
            Entry { at: 8 * 512, content: Content::Discard(16 * 512), ..plain },
            Entry { is_durable: true, at: 5 * 512, content: Content::Data(&[2; 512]), ..plain },
        ];
        assert_eq!(entries(&bytes).unwrap(), expected);
    }

    #[test]
    fn an_entry_that_is_not_counted_yet_does_not_count() {
        let mut bytes = Record::new().write(3, &[1; 1024]).bytes();
        let whole = bytes.len();
        bytes.resize(whole + 700, 0xff);
        assert_eq!(entries(&bytes).unwrap().len(), 1);
        assert!(entries(&bytes[..whole - 1]).is_err());
        assert!(entries(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert!(entries(&[0; 512]).is_err());
        assert!(entries(&[0; 7]).is_err());
        for words in [[0, 0, 16, 0], [0, u64::MAX, 0, 0], [u64::MAX, 0, 0, 0], [0, 1, 0, 0]] {
            assert!(entries(&Record::new().raw(words).bytes()).is_err(), "{words:x?}");
        }
    }
}
