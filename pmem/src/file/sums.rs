//! Checksums of a closed pool file, in the file `sums` beside it: a bit that its disk flips is found later, wherever it
//! is.
//!
//! ```text
//! word 0  magic                            word 6  bytes of the pool
//!      1  version | bytes of a block            7  CRC-32C of the sums
//!      2  pool UUID (2 words)                   8  CRC-32C of words 0 to 7
//!      4  incarnation                      then the CRC-32C of each block, half a word each
//!      5  sequence number of the superblock
//! ```
//!
//! Sums hold for the one state of the file that their incarnation and sequence number name. Whoever opens the pool for
//! writing changes both, so sums that are left from before say nothing, and do no harm.

use super::PoolFile;
use super::safe::{Found, SafeDirectory};
use crate::superblock::{Place, Superblock};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::ops::Range;

const NAME: &str = "sums";
/// Sums that are being written.
const NEW_NAME: &str = "sums.new";
const MAGIC: u64 = u64::from_le_bytes(*b"FIRNSUMS");
const VERSION: u32 = 1;
/// What one sum covers.
const BLOCK_BYTES: u64 = 4096;
const HEADER_WORDS: usize = 9;
const HEADER_BYTES: usize = HEADER_WORDS * 8;
/// What is read at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// Damaged ranges that are listed; more are only counted.
const LISTED_MAX: usize = 64;

/// What the sums of a pool file say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// Nothing: there are none of this state of the file.
    Unknown {
        /// Why.
        reason: String,
    },
    /// The file is what it was when it was closed.
    Sound {
        /// Bytes of the pool.
        bytes: u64,
    },
    /// Parts of the file are not what they were when it was closed.
    Damaged {
        /// Bytes of the pool.
        bytes: u64,
        /// Bytes of all blocks that differ.
        damaged_bytes: u64,
        /// Where those are: the first ranges of such blocks, in order.
        damaged: Vec<Range<u64>>,
    },
}

impl PoolFile {
    /// Writes the sums of the file, whose superblock this is, in place of former ones, which say nothing any more. For
    /// who has closed the pool and still has the file locked.
    pub fn write_sums(&self, superblock: &Superblock) -> io::Result<()> {
        let mut sums = Vec::new();
        self.each_sum(superblock.end, |sum| sums.push(sum))?;
        let at = self.located().safe(None).map_err(io::Error::other)?;
        let mut safe = match SafeDirectory::find(&at).map_err(io::Error::other)? {
            Found::Directory(found) if found.uuid() == superblock.uuid => found,
            Found::Nothing => {
                let ownership = self.ownership().map_err(io::Error::other)?;
                let made = SafeDirectory::make(&at, superblock.uuid, ownership);
                made.map_err(io::Error::other)?
            }
            _ => {
                let found = format!("{} is not this pool's: move it away", at.path().display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, found));
            }
        };
        safe.belong_to(self).map_err(io::Error::other)?;
        let [name, draft] = [NAME, NEW_NAME].map(OsStr::new);
        safe.remove(draft)?;
        let encoded = encode(superblock, &sums);
        crate::limits::demand_file_bytes(encoded.len() as u64)?;
        let mut file = safe.create(draft, OFlags::empty())?;
        let written = file.write_all(&encoded).and_then(|()| file.sync_all());
        let named =
            written.and_then(|()| safe.remove(name)).and_then(|()| safe.rename(draft, name));
        if named.is_err() {
            // What is left of it is no sums file, and the next one takes its place.
            let _ = safe.remove(draft);
        }
        named?;
        safe.sync_names()
    }

    /// What the file of sums holds; `None` if there is none.
    fn read_sums(&self) -> io::Result<Option<Vec<u8>>> {
        let at = self.located().safe(None).map_err(io::Error::other)?;
        let Found::Directory(safe) = SafeDirectory::find(&at).map_err(io::Error::other)? else {
            return Ok(None);
        };
        let mut file = match safe.open(NAME.as_ref(), OFlags::RDONLY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Compares the file, whose superblock this is, with its sums. The file is locked, and no pool in it is open.
    pub fn verify(&self, superblock: &Superblock, place: &Place) -> io::Result<Verified> {
        let unknown = |reason: String| Ok(Verified::Unknown { reason });
        if !superblock.clean || superblock.check_state(place).is_err() {
            return unknown("the pool was not closed".into());
        }
        let path = || format!("{}.safe/{NAME}", self.path().display());
        let Some(bytes) = self.read_sums()? else {
            return unknown(format!("there is no {}", path()));
        };
        let sums = match decode(&bytes, superblock) {
            Ok(sums) => sums,
            Err(found) => return unknown(format!("{}: {found}", path())),
        };
        let (mut damaged, mut damaged_bytes) = (Vec::<Range<u64>>::new(), 0);
        let (mut at, end) = (0, superblock.end);
        self.each_sum(end, |sum| {
            let block = at..(at + BLOCK_BYTES).min(end);
            if sums.get((at / BLOCK_BYTES) as usize) != Some(&sum) {
                damaged_bytes += block.end - block.start;
                let is_full = damaged.len() == LISTED_MAX;
                match damaged.last_mut() {
                    Some(last) if last.end == block.start => last.end = block.end,
                    _ if is_full => {}
                    _ => damaged.push(block.clone()),
                }
            }
            at = block.end;
        })?;
        Ok(match damaged_bytes {
            0 => Verified::Sound { bytes: end },
            _ => Verified::Damaged { bytes: end, damaged_bytes, damaged },
        })
    }

    /// The sums of the first `end` bytes, block by block. What the file lacks counts as zeros.
    fn each_sum(&self, end: u64, mut take: impl FnMut(u32)) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        for at in (0..end).step_by(CHUNK_BYTES as usize) {
            let chunk = &mut chunk[..(end - at).min(CHUNK_BYTES) as usize];
            self.read_or_zeros(chunk, at)?;
            chunk.chunks(BLOCK_BYTES as usize).for_each(|block| take(crc32c::crc32c(block)));
        }
        Ok(())
    }

    fn read_or_zeros(&self, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::unix::fs::FileExt::read_at(&self.file, bytes, at) {
                Ok(0) => {
                    bytes.fill(0);
                    return Ok(());
                }
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn header(superblock: &Superblock, sums_crc: u32) -> [u64; HEADER_WORDS] {
    let mut words = [
        MAGIC,
        u64::from(VERSION) | BLOCK_BYTES << 32,
        superblock.uuid as u64,
        (superblock.uuid >> 64) as u64,
        superblock.incarnation,
        superblock.sequence,
        superblock.end,
        sums_crc.into(),
        0,
    ];
    words[HEADER_WORDS - 1] = crc32c::crc32c(&bytes_of(&words[..HEADER_WORDS - 1])).into();
    words
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn encode(superblock: &Superblock, sums: &[u32]) -> Vec<u8> {
    let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    let mut bytes = bytes_of(&header(superblock, crc32c::crc32c(&sums)));
    bytes.extend(sums);
    bytes
}

/// The sums, if the file holds those of this superblock's state; else what it holds.
fn decode(bytes: &[u8], superblock: &Superblock) -> Result<Vec<u32>, &'static str> {
    let Some((head, sums)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err("it is cut short");
    };
    let (words, _) = head.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
    if words[0] != MAGIC {
        return Err("it holds no sums");
    }
    if words[HEADER_WORDS - 1] != u64::from(crc32c::crc32c(&head[..HEADER_BYTES - 8])) {
        return Err("its header's checksum is wrong");
    }
    let expected = header(superblock, words[7] as u32);
    if words[1] != expected[1] {
        return Err("it was written by another version");
    }
    if words[2..4] != expected[2..4] {
        return Err("it belongs to another pool");
    }
    if words[4..7] != expected[4..7] {
        return Err("it is older than the pool");
    }
    if sums.len() as u64 != superblock.end.div_ceil(BLOCK_BYTES) * 4
        || words[7] != u64::from(crc32c::crc32c(sums))
    {
        return Err("its own checksum is wrong");
    }
    let (sums, _) = sums.as_chunks::<4>();
    Ok(sums.iter().map(|&sum| u32::from_le_bytes(sum)).collect())
}
