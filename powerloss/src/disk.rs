//! What a disk may hold when the power fails: all that a flush has covered, and of every sector written since, the
//! durable content or any that was written.

use crate::record::{Content, Entry};
use anyhow::{Result, ensure};
use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The unit that a disk writes as a whole.
pub const SECTOR_BYTES: usize = 512;
/// The unit in which images are written: what is all zeros stays a hole.
const PAGE_BYTES: usize = 4096;
const PAGE_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;

/// A content of a sector, and by which entry it was written.
#[derive(Debug, Clone, Copy)]
struct Version<'a> {
    entry: usize,
    /// `None`: discarded, and read as zeros.
    bytes: Option<&'a [u8]>,
}

/// A disk while entries of a record are replayed onto it.
#[derive(Debug)]
pub struct Disk<'a> {
    durable: Vec<u8>,
    /// Of each page, whether it may hold anything but zeros.
    is_used: Vec<bool>,
    /// The sectors written since the last flush, with what was written to them.
    volatile: BTreeMap<u64, Vec<Version<'a>>>,
    /// From here on every write is durable at once.
    notes_from: u64,
    entries: usize,
}

impl<'a> Disk<'a> {
    /// The disk that an image holds. Writes from byte `notes_from` on are notes of the experiment, which no power loss
    /// takes away.
    pub fn of(image: &File, notes_from: u64) -> Result<Disk<'a>> {
        let bytes = image.metadata()?.len() as usize;
        ensure!(bytes.is_multiple_of(PAGE_BYTES), "the image does not end with a page");
        let mut disk = Disk {
            durable: vec![0; bytes],
            is_used: vec![false; bytes / PAGE_BYTES],
            volatile: BTreeMap::new(),
            notes_from,
            entries: 0,
        };
        // Most of the image is holes. Reading them would take longer than all the rest.
        let mut at = 0;
        while let Ok(begin) = seek(image, SeekFrom::Data(at)) {
            at = seek(image, SeekFrom::Hole(begin))?;
            let (begin, end) = (begin as usize / PAGE_BYTES, (at as usize).div_ceil(PAGE_BYTES));
            let bytes = begin * PAGE_BYTES..end * PAGE_BYTES;
            image.read_exact_at(&mut disk.durable[bytes.clone()], bytes.start as u64)?;
            for (page, content) in (begin..).zip(disk.durable[bytes].chunks(PAGE_BYTES)) {
                disk.is_used[page] = is_used(content);
            }
        }
        Ok(disk)
    }

    /// Entries replayed so far.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Sectors that a power loss now may take away.
    pub fn volatile_sectors(&self) -> usize {
        self.volatile.len()
    }

    /// Replays the next entry. It is complete: an unfinished one is not in the record, and what it might have done,
    /// the images of the state after it do in part.
    pub fn replay(&mut self, entry: &Entry<'a>) -> Result<()> {
        if entry.is_flush {
            self.settle();
        }
        let (bytes, data) = match entry.content {
            Content::Data(data) => (data.len() as u64, Some(data)),
            Content::Discard(bytes) => (bytes, None),
        };
        let end = entry.at.checked_add(bytes);
        ensure!(
            end.is_some_and(|end| end <= self.durable.len() as u64),
            "entry {} writes behind the end of the disk",
            self.entries
        );
        let is_durable = entry.is_durable || entry.at >= self.notes_from;
        let first = entry.at / SECTOR_BYTES as u64;
        for index in 0..bytes as usize / SECTOR_BYTES {
            let sector = first + index as u64;
            let bytes = data.map(|data| &data[index * SECTOR_BYTES..][..SECTOR_BYTES]);
            if is_durable {
                // What was written to this sector before is no longer under way.
                self.volatile.remove(&sector);
                store(&mut self.durable, &mut self.is_used, sector, bytes);
            } else {
                let version = Version { entry: self.entries, bytes };
                self.volatile.entry(sector).or_default().push(version);
            }
        }
        self.entries += 1;
        Ok(())
    }

    fn settle(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.volatile) {
            let newest = versions.last().expect("a sector is listed once it was written");
            store(&mut self.durable, &mut self.is_used, sector, newest.bytes);
        }
    }

    /// Writes the image that holds all that is durable, and of each other sector the newest content that `keeps`, by
    /// its entry and the sector. `image` is empty.
    pub fn write_image(&self, image: &File, keeps: impl Fn(usize, u64) -> bool) -> Result<()> {
        image.set_len(self.durable.len() as u64)?;
        let mut page = 0;
        for run in self.is_used.chunk_by(|one, other| one == other) {
            if run[0] {
                let bytes = page * PAGE_BYTES..(page + run.len()) * PAGE_BYTES;
                image.write_all_at(&self.durable[bytes.clone()], bytes.start as u64)?;
            }
            page += run.len();
        }
        for (&sector, versions) in &self.volatile {
            if let Some(kept) = versions.iter().rfind(|version| keeps(version.entry, sector)) {
                let bytes = kept.bytes.unwrap_or(&[0; SECTOR_BYTES]);
                image.write_all_at(bytes, sector * SECTOR_BYTES as u64)?;
            }
        }
        Ok(())
    }
}

fn store(durable: &mut [u8], is_used_pages: &mut [bool], sector: u64, bytes: Option<&[u8]>) {
    let place = &mut durable[sector as usize * SECTOR_BYTES..][..SECTOR_BYTES];
    place.copy_from_slice(bytes.unwrap_or(&[0; SECTOR_BYTES]));
    if is_used(place) {
        is_used_pages[(sector / PAGE_SECTORS) as usize] = true;
    }
}

fn is_used(bytes: &[u8]) -> bool {
    bytes.iter().any(|&byte| byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{entries, made::Record};

    const DISK_SECTORS: usize = 16;

    /// The first byte of every sector of the image that keeps what it is asked to, after `count` entries.
    fn image(record: &[u8], count: usize, keeps: impl Fn(usize, u64) -> bool) -> Vec<u8> {
        let base = tempfile::tempfile().unwrap();
        base.set_len((DISK_SECTORS * SECTOR_BYTES) as u64).unwrap();
        let mut disk = Disk::of(&base, 12 * SECTOR_BYTES as u64).unwrap();
        for entry in &entries(record).unwrap()[..count] {
            disk.replay(entry).unwrap();
        }
        let image = tempfile::tempfile().unwrap();
        disk.write_image(&image, keeps).unwrap();
        let mut bytes = vec![0; DISK_SECTORS * SECTOR_BYTES];
        image.read_exact_at(&mut bytes, 0).unwrap();
        for sector in bytes.chunks(SECTOR_BYTES) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
        }
        bytes.iter().step_by(SECTOR_BYTES).copied().collect()
    }

    fn sectors(contents: &[(usize, u8)]) -> Vec<u8> {
        let mut sectors = vec![0; DISK_SECTORS];
        contents.iter().for_each(|&(sector, byte)| sectors[sector] = byte);
        sectors
    }

    #[test]
    fn a_flush_covers_all_entries_before_it() {
        let record = Record::new().write(1, &[1; 1024]).flush().write(2, &[2; 1024]).bytes();
        assert_eq!(image(&record, 1, |_, _| false), sectors(&[]));
        assert_eq!(image(&record, 1, |_, _| true), sectors(&[(1, 1), (2, 1)]));
        assert_eq!(image(&record, 2, |_, _| false), sectors(&[(1, 1), (2, 1)]));
        assert_eq!(image(&record, 3, |_, _| false), sectors(&[(1, 1), (2, 1)]));
        assert_eq!(image(&record, 3, |_, sector| sector == 3), sectors(&[(1, 1), (2, 1), (3, 2)]));
        assert_eq!(image(&record, 3, |_, sector| sector == 2), sectors(&[(1, 1), (2, 2)]));
    }

    #[test]
    fn of_a_sector_written_twice_either_content_may_be_left() {
        let record = Record::new().write(1, &[1; 512]).write(1, &[2; 512]).bytes();
        assert_eq!(image(&record, 2, |_, _| true), sectors(&[(1, 2)]));
        assert_eq!(image(&record, 2, |entry, _| entry == 0), sectors(&[(1, 1)]));
        let flushed = Record::new().write(1, &[1; 512]).write(1, &[2; 512]).flush().bytes();
        assert_eq!(image(&flushed, 3, |_, _| false), sectors(&[(1, 2)]));
    }

    #[test]
    fn a_durable_write_makes_only_itself_durable() {
        let record = Record::new().write(1, &[1; 1024]).write_durably(2, &[2; 512]).bytes();
        assert_eq!(image(&record, 2, |_, _| false), sectors(&[(2, 2)]));
        assert_eq!(image(&record, 2, |_, _| true), sectors(&[(1, 1), (2, 2)]));
    }

    #[test]
    fn a_discarded_sector_holds_zeros_or_what_it_held() {
        let record = Record::new().write(1, &[1; 1024]).flush().discard(1, 1).bytes();
        assert_eq!(image(&record, 3, |_, _| false), sectors(&[(1, 1), (2, 1)]));
        assert_eq!(image(&record, 3, |_, _| true), sectors(&[(2, 1)]));
    }

    #[test]
    fn notes_stay() {
        let record = Record::new().write(11, &[1; 512]).write(12, &[2; 512]).bytes();
        assert_eq!(image(&record, 2, |_, _| false), sectors(&[(12, 2)]));
    }

    #[test]
    fn a_write_behind_the_end_is_refused() {
        let base = tempfile::tempfile().unwrap();
        base.set_len(8192).unwrap();
        let record = Record::new().write(15, &[1; 1024]).bytes();
        assert!(Disk::of(&base, 8192).unwrap().replay(&entries(&record).unwrap()[0]).is_err());
    }
}
