//! Reading the superblock of a file that another process may be writing.
//!
//! A writer changes one copy after the other, and the file has the recorded length before that is recorded. A reader
//! sees each part at a different moment: a copy may be torn, or both may be, one after the other, and the length may be
//! that of another moment. What it cannot make sense of it therefore reads again, and believes once it has found the
//! very same twice: had a writer been at it, it would have stood still between two stores to one copy, and the other
//! copy would have been whole.

use crate::error::OpenError;
use crate::superblock::{COPY_BYTES, COPY_WORDS, SUPERBLOCK_BYTES, Superblock};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Looks at a file that keeps changing; each change takes a writer a system call at least.
const LOOKS_MAX: u32 = 1000;

/// What a superblock is read from.
pub(super) trait Source {
    /// As [`FileExt::read_at`].
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, at)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Reads a superblock; `io` tells what was being done to which file.
pub(super) fn superblock(
    source: &impl Source,
    io: impl Fn(io::Error) -> OpenError,
) -> Result<Superblock, OpenError> {
    let mut look = Look::take(source).map_err(&io)?;
    for _ in 1..LOOKS_MAX {
        match look.superblock() {
            Ok(superblock) => return Ok(superblock),
            Err(error) => {
                let again = Look::take(source).map_err(&io)?;
                if again == look {
                    return Err(error);
                }
                look = again;
            }
        }
    }
    look.superblock()
}

/// What was found.
#[derive(PartialEq)]
struct Look {
    /// The first bytes of the file, as many of both copies as there are.
    copies: Vec<u8>,
    /// Length of the file, after that.
    found_bytes: u64,
}

impl Look {
    fn take(source: &impl Source) -> io::Result<Look> {
        let mut copies = vec![0; SUPERBLOCK_BYTES as usize];
        let mut read = 0;
        while read < copies.len() {
            match source.read_at(&mut copies[read..], read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        copies.truncate(read);
        Ok(Look { copies, found_bytes: source.len()? })
    }

    fn copy(&self, index: u64) -> Option<Box<[u64; COPY_WORDS]>> {
        let start = (index * COPY_BYTES) as usize;
        let bytes = self.copies.get(start..start + COPY_BYTES as usize)?;
        let mut words = Box::new([0; COPY_WORDS]);
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Some(words)
    }

    fn superblock(&self) -> Result<Superblock, OpenError> {
        let found_bytes = self.found_bytes;
        if (self.copies.len() as u64) < COPY_BYTES {
            return Err(if self.copies.starts_with(b"FIRNDEX\0") {
                OpenError::Truncated { found_bytes, expected_bytes: SUPERBLOCK_BYTES }
            } else {
                let found = match found_bytes {
                    0 => "the file is empty".into(),
                    1 => "it has only one byte".into(),
                    _ => format!("it has only {found_bytes} bytes"),
                };
                OpenError::NotAPool { found, advice: "name a file that `create` made" }
            });
        }
        let copies = [self.copy(0), self.copy(1)];
        let (superblock, _) = Superblock::choose([copies[0].as_deref(), copies[1].as_deref()])?;
        if found_bytes < superblock.end {
            return Err(OpenError::Truncated { found_bytes, expected_bytes: superblock.end });
        }
        Ok(superblock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::MediumKind;
    use crate::offset::Offset;
    use crate::superblock::{Extent, Place, PoolKind};
    use std::cell::Cell;

    /// The copy that says that the pool has grown `changes` times.
    fn copy(changes: u64) -> Vec<u8> {
        let bytes = 4096 * changes;
        let superblock = Superblock {
            sequence: 1 + changes,
            features_compatible: 0,
            features_read_only: 0,
            features_incompatible: 0,
            uuid: 1,
            incarnation: 1,
            kind: PoolKind::Table,
            engine: 1,
            key_bytes: 8,
            value_bytes: 8,
            hash_id: 1,
            hash_seed: 1,
            clean: false,
            medium: MediumKind::Mapped,
            place: Place::default(),
            end: SUPERBLOCK_BYTES + bytes,
            segment_log2: 16,
            typed_roots: Default::default(),
            engine_params: Default::default(),
            engine_roots: Default::default(),
            extents: match changes {
                0 => Vec::new(),
                _ => {
                    vec![Extent { owner: 1, index: 0, start: Offset(SUPERBLOCK_BYTES), bytes }]
                }
            },
        };
        superblock.encode().iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn torn(from: &[u8], to: &[u8]) -> Vec<u8> {
        // Between the checksum and what it is of.
        [&to[..32], &from[32..]].concat()
    }

    /// The file at one moment.
    struct Moment {
        bytes: Vec<u8>,
        len: u64,
    }

    /// All moments of a pool that grows `changes` times; each growth is first a larger attempt that fails.
    fn moments(changes: u64) -> Vec<Moment> {
        let at = |len, first: &[u8], second: &[u8]| Moment { bytes: [first, second].concat(), len };
        let mut moments = vec![at(SUPERBLOCK_BYTES, &copy(0), &copy(0))];
        for change in 1..=changes {
            let (old, new) = (copy(change - 1), copy(change));
            let [before, after] = [change - 1, change].map(|n| SUPERBLOCK_BYTES + 4096 * n);
            moments.extend([
                at(1 << 30, &old, &old),
                at(before, &old, &old),
                at(after, &old, &old),
                at(after, &torn(&old, &new), &old),
                at(after, &new, &old),
                at(after, &new, &torn(&old, &new)),
                at(after, &new, &new),
            ]);
        }
        moments
    }

    /// A file under a writer that goes on between any two calls of the reader.
    struct Written<'a> {
        moments: &'a [Moment],
        /// The moment of the reader's first call, and its calls between two steps of the writer.
        first: usize,
        pace: usize,
        calls: Cell<usize>,
    }

    impl Written<'_> {
        fn now(&self) -> &Moment {
            let call = self.calls.replace(self.calls.get() + 1);
            let moment = self.first + call / self.pace;
            &self.moments[moment.min(self.moments.len() - 1)]
        }
    }

    impl Source for Written<'_> {
        /// A few words at a time: whatever a copy says, it takes several calls to read.
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
            let now = self.now();
            let rest = now.bytes.get(at as usize..).unwrap_or_default();
            let count = rest.len().min(bytes.len()).min(200);
            bytes[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.now().len)
        }
    }

    fn not_io(error: io::Error) -> OpenError {
        panic!("{error}");
    }

    #[test]
    fn a_pool_that_is_being_written_is_neither_damaged_nor_truncated() {
        let moments = moments(5);
        for first in 0..moments.len() {
            for pace in 1..45 {
                let file = Written { moments: &moments, first, pace, calls: Cell::new(0) };
                let superblock = superblock(&file, not_io);
                let superblock = superblock.unwrap_or_else(|error| {
                    panic!("from moment {first} on, at pace {pace}: {error}")
                });
                assert!(superblock.sequence <= 6);
            }
        }
    }

    #[test]
    fn what_stays_wrong_is_told() {
        let found = |bytes: Vec<u8>, len| {
            let file = Written {
                moments: &[Moment { bytes, len }],
                first: 0,
                pace: 1,
                calls: Cell::new(0),
            };
            let error = superblock(&file, not_io).unwrap_err();
            assert!(file.calls.get() <= 100, "it was read {} times", file.calls.get());
            error
        };
        let both = |copy: &[u8]| [copy, copy].concat();
        let truncated = found(both(&copy(3)), SUPERBLOCK_BYTES + 3 * 4096 - 1);
        assert!(matches!(truncated, OpenError::Truncated { .. }), "{truncated}");
        let damaged = found(both(&torn(&copy(1), &copy(2))), 1 << 20);
        assert!(matches!(damaged, OpenError::Damaged { .. }), "{damaged}");
        let short = found(copy(1)[..100].to_vec(), 100);
        assert!(matches!(short, OpenError::Truncated { found_bytes: 100, .. }), "{short}");
        let empty = found(Vec::new(), 0);
        assert!(matches!(empty, OpenError::NotAPool { .. }), "{empty}");
    }

    #[test]
    fn a_file_that_never_stands_still_is_not_read_for_ever() {
        struct Restless(Cell<u64>);
        impl Source for Restless {
            fn read_at(&self, bytes: &mut [u8], _: u64) -> io::Result<usize> {
                self.0.set(self.0.get() + 1);
                bytes.fill(self.0.get() as u8);
                Ok(bytes.len())
            }

            fn len(&self) -> io::Result<u64> {
                Ok(1 << 20)
            }
        }
        assert!(superblock(&Restless(Cell::new(0)), not_io).is_err());
    }
}
