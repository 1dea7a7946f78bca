//! The pool's description of itself, kept in two copies.
//!
//! ```text
//! word  0  magic                      word 16  boot id (2 words)
//!       1  version | superblock bytes      18  inode
//!       2  byte order mark                 19  file-system id
//!       3  checksum                        20  end: all extents lie below
//!       4  sequence number                 21  extents | log2 of heap segment bytes
//!       5  features, compatible            22  8 typed roots of 2 words: type, offset
//!       6  features, read-only compat.         (see `pairs`, `logged`, `log_end`, `miscounted`, `free_slots`)
//!       7  features, incompatible          38  16 engine parameters, fixed at creation
//!       8  pool UUID (2 words)             54  10 engine roots, changed with the extents
//!      10  incarnation                     64  224 extents of 2 words
//!      11  kind | engine                            owner | index | offset (8, 8, 48 bits)
//!      12  key bytes | value bytes                  length in bytes
//!      13  hash id | checksum id      (a | b: a in the low half of the word)
//!      14  hash seed
//!      15  state | medium
//! ```

mod at_rest;
mod free_slots;
mod guess;
mod log_end;
mod logged;
mod miscounted;
mod pairs;
mod place;
mod roots;

pub use log_end::LogEnd;
pub use logged::{Durability, Logged};
pub use place::{BootId, MADE_UP_BOOT, Place, is_made_up};

use crate::error::OpenError;
use crate::medium::MediumKind;
use crate::offset::{LINE, Offset};

/// Bytes of one copy.
pub const COPY_BYTES: u64 = 4096;
/// Bytes of both copies; extents begin here.
pub const SUPERBLOCK_BYTES: u64 = 2 * COPY_BYTES;
/// Words of one copy.
pub const COPY_WORDS: usize = (COPY_BYTES / 8) as usize;
/// Compatible feature: who closes the pool writes sums of its file beside it.
const KEEPS_SUMS: u64 = 1;
/// The first of the two words of a copy that hold the pool's identity.
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) const UUID_WORD: u64 = 8;
/// The word of a copy that holds the incarnation.
pub(crate) const INCARNATION_WORD: u64 = 10;
/// The word of a copy that holds its checksum.
const CHECKSUM_WORD: usize = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"FIRNDEX\0");
/// The format this build reads and writes.
pub const VERSION: u32 = 4;
const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
/// CRC-32C, the only checksum so far.
pub const CHECKSUM_ID: u32 = 1;

const TYPED_ROOTS: usize = 8;
/// Parameters an engine fixes at creation.
pub const ENGINE_PARAMS: usize = 16;
/// Words an engine changes together with the extents.
pub const ENGINE_ROOTS: usize = 10;
/// Sequence numbers and incarnations stay below this, so that counting on never overflows.
const COUNT_MAX: u64 = 1 << 62;
/// Bits of an extent's offset.
const OFFSET_BITS: u32 = 48;
/// log2 of the largest heap segment.
pub const SEGMENT_LOG2_MAX: u32 = 16;
/// Extents a pool can have.
pub const EXTENTS_MAX: usize = 224;

const _: () = assert!(22 + 2 * TYPED_ROOTS == 38);
const _: () = assert!(38 + ENGINE_PARAMS == 54);
const _: () = assert!(54 + ENGINE_ROOTS == 64);
const _: () = assert!(64 + 2 * EXTENTS_MAX == COPY_WORDS);

/// What a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// Fixed-size keys and values.
    Table,
    /// Byte strings.
    Store,
    /// Byte strings within a bound.
    Cache,
}

impl std::fmt::Display for PoolKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PoolKind::Table => "table",
            PoolKind::Store => "store",
            PoolKind::Cache => "cache",
        })
    }
}

/// A run of pool bytes and whom it was handed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// [`HEAP`], or a number of the engine's.
    pub owner: u8,
    /// Which of the owner's extents this is.
    pub index: u8,
    /// Its first byte.
    pub start: Offset,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Owner of the heap's segments; engines number theirs from 1.
pub const HEAP: u8 = 0;
/// Owner of the tables with the descriptor words of segments.
pub const HEAP_WORDS: u8 = u8::MAX;

impl Extent {
    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.start.0 + self.bytes
    }
}

/// One copy of the superblock, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Grows by one with every change; the valid copy with the larger one counts.
    pub sequence: u64,
    /// Features that a build may ignore.
    pub features_compatible: u64,
    /// Features that a build must know to write.
    pub features_read_only: u64,
    /// Features that a build must know to read.
    pub features_incompatible: u64,
    /// Random identity of the pool.
    pub uuid: u128,
    /// Number of times the pool was opened for writing.
    pub incarnation: u64,
    /// What the pool holds.
    pub kind: PoolKind,
    /// Number of the engine.
    pub engine: u32,
    /// Size of a key in bytes; 0 for byte strings.
    pub key_bytes: u32,
    /// Size of a value in bytes; 0 for byte strings.
    pub value_bytes: u32,
    /// Number of the hash function.
    pub hash_id: u32,
    /// Seed of the hash function.
    pub hash_seed: u64,
    /// Whether the pool was closed, after its data were synced.
    pub clean: bool,
    /// The medium of the last opening for writing.
    pub medium: MediumKind,
    /// Where and when the pool was last opened for writing.
    pub place: Place,
    /// All extents lie below this offset.
    pub end: u64,
    /// log2 of the size of the heap's segments.
    pub segment_log2: u32,
    /// By type: the number of pairs, and room for positions of structures of later versions.
    pub typed_roots: [(u64, u64); TYPED_ROOTS],
    /// The engine's parameters.
    pub engine_params: [u64; ENGINE_PARAMS],
    /// The engine's roots.
    pub engine_roots: [u64; ENGINE_ROOTS],
    /// Everything that was handed out.
    pub extents: Vec<Extent>,
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Over all bytes of a copy but those of the checksum itself, which count as zero.
fn checksum(words: &[u64; COPY_WORDS]) -> u64 {
    let mut bytes = [0; COPY_BYTES as usize];
    for (index, (bytes, word)) in bytes.chunks_exact_mut(8).zip(words).enumerate() {
        if index != CHECKSUM_WORD {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }
    u64::from(crc32c::crc32c(&bytes))
}

/// Why one copy does not count.
enum Fault {
    /// Not a superblock at all.
    Foreign,
    /// A superblock whose content does not add up.
    Broken(String),
    /// A sound superblock that this build does not handle.
    Refused(OpenError),
}

impl Superblock {
    /// Whether who closes the pool writes sums of its file, as
    /// [`PoolFile::write_sums`](crate::file::PoolFile::write_sums) does.
    pub fn keeps_sums(&self) -> bool {
        self.features_compatible & KEEPS_SUMS != 0
    }

    /// Says whether sums are to be written.
    pub fn set_keeps_sums(&mut self, keeps: bool) {
        self.features_compatible &= !KEEPS_SUMS;
        self.features_compatible |= u64::from(keeps) * KEEPS_SUMS;
    }

    /// The extent with which the pool ends.
    pub fn last_extent(&self) -> Option<Extent> {
        self.extents.iter().copied().find(|extent| extent.end() == self.end)
    }

    /// The words of a copy.
    pub fn encode(&self) -> Box<[u64; COPY_WORDS]> {
        let mut words = Box::new([0; COPY_WORDS]);
        words[0] = MAGIC;
        words[1] = halves(VERSION, SUPERBLOCK_BYTES as u32);
        words[2] = BYTE_ORDER;
        words[4] = self.sequence;
        words[5] = self.features_compatible;
        words[6] = self.features_read_only;
        words[7] = self.features_incompatible;
        words[8] = self.uuid as u64;
        words[9] = (self.uuid >> 64) as u64;
        words[INCARNATION_WORD as usize] = self.incarnation;
        let kind = match self.kind {
            PoolKind::Table => 1,
            PoolKind::Store => 2,
            PoolKind::Cache => 3,
        };
        words[11] = halves(kind, self.engine);
        words[12] = halves(self.key_bytes, self.value_bytes);
        words[13] = halves(self.hash_id, CHECKSUM_ID);
        words[14] = self.hash_seed;
        words[15] = halves(u32::from(!self.clean), self.medium.code());
        words[16..18].copy_from_slice(&self.place.boot_id);
        words[18] = self.place.inode;
        words[19] = self.place.file_system;
        words[20] = self.end;
        words[21] = halves(self.extents.len() as u32, self.segment_log2);
        for (pair, (kind, at)) in words[22..38].chunks_exact_mut(2).zip(self.typed_roots) {
            pair.copy_from_slice(&[kind, at]);
        }
        words[38..54].copy_from_slice(&self.engine_params);
        words[54..64].copy_from_slice(&self.engine_roots);
        for (pair, extent) in words[64..].chunks_exact_mut(2).zip(&self.extents) {
            pair[0] = u64::from(extent.owner) << 56
                | u64::from(extent.index) << OFFSET_BITS
                | extent.start.0;
            pair[1] = extent.bytes;
        }
        words[CHECKSUM_WORD] = checksum(&words);
        words
    }

    fn decode(words: &[u64; COPY_WORDS]) -> Result<Superblock, Fault> {
        if words[0] != MAGIC {
            return Err(if words[0] == MAGIC.swap_bytes() {
                Fault::Refused(byte_order_mismatch())
            } else {
                Fault::Foreign
            });
        }
        if words[CHECKSUM_WORD] != checksum(words) {
            let version = low(words[1]);
            return Err(Fault::Broken(format!(
                "its checksum does not fit its content, which says format version {version}"
            )));
        }
        Superblock::decode_content(words)
    }

    /// As [`Superblock::decode`], whatever the checksum is.
    fn decode_content(words: &[u64; COPY_WORDS]) -> Result<Superblock, Fault> {
        let mismatch = |field, found: u64, expected: u64, advice| {
            Err(Fault::Refused(OpenError::Mismatch {
                field,
                found: format!("{found:#x}"),
                expected: format!("{expected:#x}"),
                advice,
            }))
        };
        const OTHER_BUILD: &str = "open it with the firndex version that made it";
        if words[1] != halves(VERSION, SUPERBLOCK_BYTES as u32) {
            return mismatch(
                "format version",
                u64::from(low(words[1])),
                u64::from(VERSION),
                OTHER_BUILD,
            );
        }
        if words[2] != BYTE_ORDER {
            return Err(Fault::Refused(byte_order_mismatch()));
        }
        if words[7] & !logged::LOGGED != 0 {
            let known = logged::LOGGED;
            return mismatch("set of required features", words[7], known, OTHER_BUILD);
        }
        if high(words[13]) != CHECKSUM_ID {
            return mismatch("checksum", high(words[13]).into(), CHECKSUM_ID.into(), OTHER_BUILD);
        }
        let broken = |what: String| Err(Fault::Broken(what));
        let kind = match low(words[11]) {
            1 => PoolKind::Table,
            2 => PoolKind::Store,
            3 => PoolKind::Cache,
            other => return broken(format!("its kind is {other}, expected 1 or 2")),
        };
        let clean = match low(words[15]) {
            0 => true,
            1 => false,
            other => return broken(format!("its state is {other}, expected 0 or 1")),
        };
        let Some(medium) = MediumKind::from_code(high(words[15])) else {
            return broken(format!("its medium is {}, expected 0 to 2", high(words[15])));
        };
        let count = low(words[21]) as usize;
        if count > EXTENTS_MAX {
            return broken(format!("it lists {count} extents, at most {EXTENTS_MAX} fit"));
        }
        if words[4] > COUNT_MAX || words[10] > COUNT_MAX {
            return broken(format!(
                "its sequence number is {:#x} and its incarnation {:#x}, which no pool reaches",
                words[4], words[10]
            ));
        }
        let segment_log2 = high(words[21]);
        if !(7..=SEGMENT_LOG2_MAX).contains(&segment_log2) {
            return broken(format!("its heap segments have 2^{segment_log2} bytes"));
        }
        let extents = words[64..]
            .chunks_exact(2)
            .take(count)
            .map(|pair| Extent {
                owner: (pair[0] >> 56) as u8,
                index: (pair[0] >> 48) as u8,
                start: Offset(pair[0] & ((1 << OFFSET_BITS) - 1)),
                bytes: pair[1],
            })
            .collect();
        let mut typed_roots = [(0, 0); TYPED_ROOTS];
        for (root, pair) in typed_roots.iter_mut().zip(words[22..38].chunks_exact(2)) {
            *root = (pair[0], pair[1]);
        }
        let mut engine_params = [0; ENGINE_PARAMS];
        engine_params.copy_from_slice(&words[38..54]);
        let mut engine_roots = [0; ENGINE_ROOTS];
        engine_roots.copy_from_slice(&words[54..64]);
        let superblock = Superblock {
            sequence: words[4],
            features_compatible: words[5],
            features_read_only: words[6],
            features_incompatible: words[7],
            uuid: u128::from(words[8]) | u128::from(words[9]) << 64,
            incarnation: words[INCARNATION_WORD as usize],
            kind,
            engine: high(words[11]),
            key_bytes: low(words[12]),
            value_bytes: high(words[12]),
            hash_id: low(words[13]),
            hash_seed: words[14],
            clean,
            medium,
            place: Place {
                boot_id: [words[16], words[17]],
                inode: words[18],
                file_system: words[19],
            },
            end: words[20],
            segment_log2,
            typed_roots,
            engine_params,
            engine_roots,
            extents,
        };
        superblock.check_extents().map_err(Fault::Broken)?;
        Ok(superblock)
    }

    /// Extents must be aligned, inside the pool and disjoint: everything else trusts them.
    fn check_extents(&self) -> Result<(), String> {
        if self.end > 1 << OFFSET_BITS {
            return Err(format!("its end is {:#x}, beyond what an offset can say", self.end));
        }
        let mut sorted = self.extents.clone();
        sorted.sort_by_key(|extent| extent.start);
        let mut free_from = SUPERBLOCK_BYTES;
        for extent in sorted {
            let end = extent.start.0.checked_add(extent.bytes);
            let fits = end.is_some_and(|end| end <= self.end);
            if extent.start.0 % LINE != 0 || extent.start.0 < free_from || !fits {
                return Err(format!(
                    "its extent at {} of {} bytes overlaps another or leaves the pool",
                    extent.start, extent.bytes
                ));
            }
            free_from = extent.end();
        }
        if self.end < free_from {
            let end = self.end;
            return Err(format!("its end is {end:#x}, but its extents end at {free_from:#x}"));
        }
        Ok(())
    }

    /// The superblock that counts among the two copies, and which copy needs repair: the other,
    /// if it does not say the same.
    ///
    /// `copies` are the first bytes of the file; missing ones make a copy invalid.
    pub fn choose(
        copies: [Option<&[u64; COPY_WORDS]>; 2],
    ) -> Result<(Superblock, Option<usize>), OpenError> {
        let decoded = copies.map(|copy| match copy {
            Some(words) => Superblock::decode(words),
            None => Err(Fault::Foreign),
        });
        match decoded {
            [Ok(a), Ok(b)] if a == b => Ok((a, None)),
            [Ok(a), Ok(b)] if a.sequence >= b.sequence => Ok((a, Some(1))),
            [Ok(valid), Err(_)] => Ok((valid, Some(1))),
            [_, Ok(valid)] => Ok((valid, Some(0))),
            [Err(Fault::Refused(error)), _] | [_, Err(Fault::Refused(error))] => Err(error),
            [Err(Fault::Broken(a)), Err(Fault::Broken(b))] => {
                Err(OpenError::Damaged { found: format!("first: {a}; second: {b}") })
            }
            [Err(Fault::Broken(found)), Err(Fault::Foreign)]
            | [Err(Fault::Foreign), Err(Fault::Broken(found))] => Err(OpenError::Damaged {
                found: format!("one: {found}; the other: not a superblock"),
            }),
            [Err(Fault::Foreign), Err(Fault::Foreign)] => Err(not_a_pool()),
        }
    }

    /// Whether what the medium kept since the last opening can be trusted at `now`.
    pub fn check_state(&self, now: &Place) -> Result<(), OpenError> {
        if self.clean {
            return Ok(());
        }
        let dirty = |found: &str, advice| Err(OpenError::Dirty { found: found.into(), advice });
        let then = &self.place;
        let same_boot = now.same_boot(then);
        if then.inode != now.inode || (same_boot && then.file_system != now.file_system) {
            return dirty(
                "this file is a copy of it, made while it was open or not closed, or its file system was mounted from \
                 another device since",
                "close the original and copy it again, or restore a backup; `Salvage::open(POOL)` copies out \
                 what reads well as it is",
            );
        }
        if !same_boot && now.may_be_same_boot(then) && self.medium != MediumKind::Dax {
            return dirty(
                "the machine may have been restarted since: the kernel's boot id could not be read \
                 (/proc/sys/kernel/random/boot_id), and the file has not stayed in memory",
                "restore a backup, or copy out what still reads well: `Salvage::open(POOL)`; mount /proc wherever \
                 pools are opened, and no other file over that one",
            );
        }
        if !same_boot && self.medium != MediumKind::Dax {
            return dirty(
                "the machine has been restarted since",
                "restore a backup, or copy out what still reads well: `Salvage::open(POOL)`",
            );
        }
        Ok(())
    }
}

fn not_a_pool() -> OpenError {
    OpenError::NotAPool {
        found: "it does not begin with firndex's magic number".into(),
        advice: "name a file that `create` made; if this was one, try `Salvage::open(POOL)`",
    }
}

fn byte_order_mismatch() -> OpenError {
    OpenError::Mismatch {
        field: "byte order",
        found: "that of another machine".into(),
        expected: "this machine's".into(),
        advice: "open it on a machine of the byte order it was made on",
    }
}

#[cfg(test)]
mod tests;
