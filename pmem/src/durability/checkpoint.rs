//! The checkpoint: a whole image of the pool, and from where on the log continues it.
//!
//! ```text
//! page 0    word 0  magic                          word 10  epoch from which on the log is replayed
//!                1  version                             11  epoch up to which it must be
//!                2  pool UUID (2 words)                 12  bytes of the image
//!                4  generation of the log (2 words)     13  CRC-32C of the sums
//!                6  log: segment, offset, frame         14  CRC-32C of words 0 to 13
//!                9  bytes of a chunk
//! then      the image; chunks of zeros are holes
//! then      sums: the CRC-32C of each chunk, a word each
//! ```

use super::disk::{Disk, DiskFile, PAGE_BYTES};
use super::error::{LogError, RestoreError};
use super::frame::{VERSION, checksum, whole};
use super::names::Names;
use super::pages::{PAGE_WORDS, Pages};
use super::writer::Position;
use super::{CHUNK_BYTES_MAX, Image};
use std::io;
use std::sync::Arc;

const MAGIC: u64 = u64::from_le_bytes(*b"FIRNSAFE");
/// The largest image: 16 TiB. A header that says more is no checkpoint's.
const IMAGE_BYTES_MAX: u64 = 1 << 44;
const PAGE: u64 = PAGE_BYTES as u64;

/// The first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) uuid: u128,
    pub(super) generation: u128,
    pub(super) log: Position,
    /// Epochs before this one are in the image.
    pub(super) from_epoch: u64,
    /// What the image caught half is in the log up to this one.
    pub(super) to_epoch: u64,
    pub(super) chunk_bytes: u64,
    pub(super) image_bytes: u64,
    pub(super) sums_crc: u32,
}

impl Header {
    fn encode(&self, page: &mut [u64]) {
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
        page[14] = checksum(0, &page[..14]).into();
    }

    fn decode(page: &[u64]) -> Result<Header, HeaderFault> {
        let words: &[u64; 15] =
            page.first_chunk().ok_or(HeaderFault::Damaged("its header is cut"))?;
        if words[0] != MAGIC {
            return Err(HeaderFault::Damaged("it does not begin with a checkpoint's magic number"));
        }
        if words[14] != u64::from(checksum(0, &words[..14])) {
            return Err(HeaderFault::Damaged("its header's checksum is wrong"));
        }
        if words[1] != VERSION {
            return Err(HeaderFault::Version(words[1]));
        }
        if words[9] == 0 || words[9] > CHUNK_BYTES_MAX || !words[9].is_multiple_of(PAGE) {
            return Err(HeaderFault::Damaged("its chunks have a size that none has"));
        }
        if words[10] == 0 || words[10] > words[11] {
            return Err(HeaderFault::Damaged("its epochs are out of order"));
        }
        if words[12] > IMAGE_BYTES_MAX {
            return Err(HeaderFault::Damaged("its image is larger than any"));
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
        })
    }
}

enum HeaderFault {
    Damaged(&'static str),
    Version(u64),
}

/// A checkpoint that is being written; the one before stays until [`Draft::publish`].
pub(super) struct Draft<'a> {
    disk: &'a dyn Disk,
    names: &'a Names,
    file: Box<dyn DiskFile>,
    image_bytes: u64,
    chunk_bytes: u64,
    sums: Pages,
    is_published: bool,
}

/// What does not become the checkpoint takes no space.
impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // The next one is written over what stays.
            let _ = self.disk.remove(&self.names.new_checkpoint());
        }
    }
}

fn sums_at(image_bytes: u64) -> u64 {
    PAGE + image_bytes.next_multiple_of(PAGE)
}

impl<'a> Draft<'a> {
    /// Takes space for an image of this many bytes.
    pub(super) fn begin(
        disk: &'a dyn Disk,
        names: &'a Names,
        image_bytes: u64,
        chunk_bytes: u64,
    ) -> Result<Draft<'a>, LogError> {
        let name = names.new_checkpoint();
        let chunks = image_bytes.div_ceil(chunk_bytes) as usize;
        let sums = Pages::zeroed((chunks * 8).next_multiple_of(PAGE_BYTES));
        let bytes = sums_at(image_bytes) + sums.bytes().len() as u64;
        let begin = || -> io::Result<Box<dyn DiskFile>> {
            let file = disk.create(&name)?;
            file.allocate(bytes)?;
            file.sync()?;
            disk.sync_names()?;
            Ok(file)
        };
        let file = begin().map_err(|error| {
            // The space is better used by the log.
            let _ = disk.remove(&name);
            let path = disk.path(&name);
            if LogError::is_full(&error) {
                LogError::Full { path, source: Arc::new(error) }
            } else {
                LogError::io("making", path)(error)
            }
        })?;
        Ok(Draft { disk, names, file, image_bytes, chunk_bytes, sums, is_published: false })
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError + use<> {
        LogError::io(action, self.disk.path(&self.names.new_checkpoint()))
    }

    /// Copies the image, which may change meanwhile. Calls `beside` before each chunk. Returns how many bytes it wrote.
    pub(super) fn copy(&mut self, image: &dyn Image, beside: impl Fn()) -> Result<u64, LogError> {
        let mut chunk = Pages::new();
        let mut written = 0;
        for (index, at) in (0..self.image_bytes).step_by(self.chunk_bytes as usize).enumerate() {
            beside();
            let bytes = (self.image_bytes - at).min(self.chunk_bytes);
            chunk.resize(bytes.div_ceil(8) as usize);
            image.copy(at, chunk.words_mut());
            // Not of what memory holds by now: of what is written.
            self.sums.words_mut()[index] = checksum(0, chunk.words()).into();
            if chunk.words().iter().all(|&word| word == 0) {
                continue;
            }
            self.file.write_at(chunk.bytes(), PAGE + at).map_err(self.failed("writing"))?;
            written += chunk.bytes().len() as u64;
        }
        let sums_at = sums_at(self.image_bytes);
        self.file.write_at(self.sums.bytes(), sums_at).map_err(self.failed("writing"))?;
        self.file.sync().map_err(self.failed("syncing"))?;
        Ok(written)
    }

    /// Writes the header, and puts this checkpoint in place of the one before.
    pub(super) fn publish(mut self, mut header: Header) -> Result<(), LogError> {
        header.sums_crc = checksum(0, self.sums.words());
        let mut page = Pages::zeroed(PAGE_BYTES);
        header.encode(page.words_mut());
        self.file.write_durably_at(page.bytes(), 0).map_err(self.failed("writing"))?;
        let (new, current) = (self.names.new_checkpoint(), self.names.checkpoint());
        let renamed = self.disk.rename(&new, &current).and_then(|()| self.disk.sync_names());
        renamed.map_err(self.failed("renaming"))?;
        self.is_published = true;
        Ok(())
    }
}

/// A checkpoint that was found.
pub(super) struct Checkpoint {
    pub(super) header: Header,
    file: Box<dyn DiskFile>,
    sums: Pages,
}

impl Checkpoint {
    /// Opens the checkpoint of a pool; `None` if there is none.
    pub(super) fn open(disk: &dyn Disk, names: &Names) -> Result<Option<Checkpoint>, RestoreError> {
        let name = names.checkpoint();
        let path = disk.path(&name);
        let file = match disk.open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RestoreError::Io { path, source }),
        };
        let io = |source| RestoreError::Io { path: path.clone(), source };
        let damaged = |found: String| RestoreError::Damaged { path: path.clone(), found };
        let mut page = Pages::zeroed(PAGE_BYTES);
        let read = file.read_at(page.bytes_mut(), 0).map_err(io)?;
        if read < PAGE_BYTES {
            return Err(damaged(format!("it has only {read} bytes")));
        }
        let header = Header::decode(page.words()).map_err(|fault| match fault {
            HeaderFault::Damaged(found) => damaged(found.into()),
            HeaderFault::Version(found) => {
                RestoreError::Version { path: path.clone(), found, expected: VERSION }
            }
        })?;
        let chunks = header.image_bytes.div_ceil(header.chunk_bytes) as usize;
        let sums_bytes = (chunks * 8).next_multiple_of(PAGE_BYTES);
        let (found, expected) =
            (file.len().map_err(io)?, sums_at(header.image_bytes) + sums_bytes as u64);
        if found < expected {
            return Err(damaged(format!("it has {found} bytes, expected {expected}")));
        }
        let mut sums = Pages::zeroed(sums_bytes);
        file.read_at(sums.bytes_mut(), sums_at(header.image_bytes)).map_err(io)?;
        if checksum(0, sums.words()) != header.sums_crc {
            return Err(damaged("the checksum of its table of sums is wrong".into()));
        }
        Ok(Some(Checkpoint { header, file, sums }))
    }

    /// Chunks of the image.
    pub(super) fn chunks(&self) -> usize {
        self.header.image_bytes.div_ceil(self.header.chunk_bytes) as usize
    }

    /// Reads a chunk of the image into `chunk`, and verifies it; its offset in the image.
    pub(super) fn read(&self, index: usize, chunk: &mut Pages) -> io::Result<Result<u64, String>> {
        let at = index as u64 * self.header.chunk_bytes;
        let bytes = (self.header.image_bytes - at).min(self.header.chunk_bytes);
        chunk.resize(bytes.div_ceil(8) as usize);
        let read = self.file.read_at(chunk.bytes_mut(), PAGE + at)?;
        let sum = u64::from(checksum(0, chunk.words()));
        let is_right = read >= chunk.bytes().len() && sum == self.sums.words()[index];
        Ok(if is_right {
            Ok(at)
        } else {
            Err(format!("the checksum of the {bytes} bytes from {at:#x} of its image on is wrong"))
        })
    }
}

const _: () = assert!(PAGE_WORDS >= 15 && CHUNK_BYTES_MAX.is_multiple_of(PAGE));
