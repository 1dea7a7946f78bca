//! What the guest acknowledges, noted where no power loss reaches it: behind the file system, at the end of the same
//! disk.
//!
//! A console would tell the host of an acknowledgement some time after it was made. How much of the record lay before
//! it would then be known too late, and only the images of a later state could be held to it. A note is an entry of the
//! record itself. Everything that an acknowledgement rests on was complete before it was made, so lies before its
//! note; and whatever the guest did after it lies behind. So each image of a state that has the note is held to it, and
//! none before.

use crate::disk::SECTOR_BYTES;
use anyhow::{Context, Result};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Size of the disk.
pub const DISK_BYTES: u64 = 1 << 30;
/// Where the notes begin: what is before belongs to the file system.
pub const NOTES_FROM: u64 = DISK_BYTES - THREADS_MAX as u64 * SECTOR_BYTES as u64;
const THREADS_MAX: usize = 128;
const MAGIC: u64 = u64::from_le_bytes(*b"NOTED\0\0\0");

/// Past the page cache, memory must be aligned.
#[repr(align(512))]
struct Sector([u8; SECTOR_BYTES]);

/// The notes on a disk.
#[derive(Debug)]
pub struct Notes {
    disk: File,
    /// Where the first thread's note is.
    from: u64,
}

impl Notes {
    /// The notes of the guest, on its disk. Writes go past the page cache: a note is on its way to the disk at once.
    pub fn on_device(disk: &Path) -> Result<Notes> {
        let flags = OFlags::DIRECT.bits() as i32;
        let disk = OpenOptions::new().read(true).write(true).custom_flags(flags).open(disk);
        Ok(Notes { disk: disk.context("the disk does not open")?, from: NOTES_FROM })
    }

    /// The notes on an image of a disk.
    pub fn on_image(image: File) -> Notes {
        Notes { disk: image, from: NOTES_FROM }
    }

    /// The notes of one pool among several, whose threads have the numbers from `first` on.
    pub fn of_threads_from(self, first: usize) -> Notes {
        Notes { from: place(self.from, first), ..self }
    }

    /// Notes that a thread's first `count` operations must not be lost any more.
    pub fn acknowledge(&self, thread: usize, count: u64) -> Result<()> {
        let mut sector = Sector([0; SECTOR_BYTES]);
        sector.0[..8].copy_from_slice(&MAGIC.to_le_bytes());
        sector.0[8..16].copy_from_slice(&count.to_le_bytes());
        self.disk
            .write_all_at(&sector.0, place(self.from, thread))
            .context("a note cannot be written")
    }

    /// How many operations of a thread must be there.
    pub fn acknowledged(&self, thread: usize) -> Result<u64> {
        let mut sector = Sector([0; SECTOR_BYTES]);
        self.disk
            .read_exact_at(&mut sector.0, place(self.from, thread))
            .context("a note cannot be read")?;
        let [magic, count] = [0, 8].map(|at| {
            let word = sector.0[at..at + 8].try_into();
            u64::from_le_bytes(word.expect("eight bytes"))
        });
        Ok(if magic == MAGIC { count } else { 0 })
    }
}

fn place(from: u64, thread: usize) -> u64 {
    let place = from + (thread * SECTOR_BYTES) as u64;
    assert!(place < DISK_BYTES);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read() {
        let image = tempfile::tempfile().unwrap();
        image.set_len(DISK_BYTES).unwrap();
        let notes = Notes::on_image(image);
        assert_eq!(notes.acknowledged(3).unwrap(), 0);
        notes.acknowledge(3, 17).unwrap();
        notes.acknowledge(THREADS_MAX - 1, 9).unwrap();
        assert_eq!(notes.acknowledged(3).unwrap(), 17);
        assert_eq!(notes.acknowledged(THREADS_MAX - 1).unwrap(), 9);
        assert_eq!(notes.of_threads_from(2).acknowledged(1).unwrap(), 17);
    }
}
