//! Cutting files into content-defined chunks: what there is to store, known beforehand.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fastcdc::v2020::FastCDC;

use crate::audience::{Audience, Note, Stage};
use crate::crew::on_threads;
use crate::walk::Found;

/// The BLAKE3 digest of a chunk's bytes: the key it is stored under.
pub(crate) type Digest = [u8; blake3::OUT_LEN];

/// Chunks are cut by content, so that an insertion moves the cuts near it and no others.
const CHUNK_BYTES_AVERAGE: u32 = 8 << 10;
/// A quarter and eight times the average, as the FastCDC paper has it.
const CHUNK_BYTES_MIN: u32 = CHUNK_BYTES_AVERAGE / 4;
const CHUNK_BYTES_MAX: u32 = CHUNK_BYTES_AVERAGE * 8;
/// Read at once and cut: many chunks, so that the rest which moves to the front is small beside.
const WINDOW_BYTES: usize = 1 << 20;

/// A chunk that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) digest: Digest,
    /// Index into the plan's files.
    pub(crate) file: u32,
    pub(crate) length: u32,
    pub(crate) offset: u64,
}

/// A file that was cut.
#[derive(Debug)]
pub(crate) struct PlannedFile {
    /// Relative to the plan's directory.
    pub(crate) path: PathBuf,
    /// Its part of the plan's chunks, in order of offset.
    pub(crate) chunks: Range<usize>,
}

/// All chunks of all files.
#[derive(Debug)]
pub struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) files: Vec<PlannedFile>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) bytes: u64,
    by_path: HashMap<Vec<u8>, u32>,
}

impl Plan {
    /// Reads and cuts the files with several threads. One that cannot be read is told and left
    /// out.
    pub fn make(dir: &Path, found: &[Found], threads: usize, audience: &dyn Audience) -> Self {
        let bytes = found.iter().map(|file| file.bytes).sum();
        let progress = audience.begin(Stage::Cut, Some(bytes));
        let next = AtomicUsize::new(0);
        let cut_some = || {
            let mut cutter = Cutter::default();
            let mut cut = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(file) = found.get(index) else {
                    return cut;
                };
                match cutter.cut(&dir.join(&file.path)) {
                    Ok(chunks) => cut.push((index, chunks)),
                    Err(error) => {
                        audience.tell(Note::Skipped { path: Some(&file.path), why: &error });
                    }
                }
                progress.advance(file.bytes);
            }
        };
        let mut cut: Vec<(usize, Vec<Chunk>)> =
            on_threads(threads, cut_some).into_iter().flatten().collect();
        cut.sort_unstable_by_key(|(index, _)| *index);

        let mut plan = Plan {
            dir: dir.to_owned(),
            files: Vec::with_capacity(cut.len()),
            chunks: Vec::new(),
            bytes: 0,
            by_path: HashMap::with_capacity(cut.len()),
        };
        for (index, chunks) in cut {
            plan.add(found[index].path.clone(), chunks);
        }
        plan
    }

    fn add(&mut self, path: PathBuf, chunks: Vec<Chunk>) {
        let file = self.files.len() as u32;
        let start = self.chunks.len();
        self.bytes += chunks.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
        self.chunks.extend(chunks.into_iter().map(|chunk| Chunk { file, ..chunk }));
        self.by_path.insert(path.as_os_str().as_bytes().to_vec(), file);
        self.files.push(PlannedFile { path, chunks: start..self.chunks.len() });
    }

    /// The location of a chunk, as it is stored.
    pub(crate) fn location(&self, index: usize) -> Location<'_> {
        let chunk = &self.chunks[index];
        Location {
            offset: chunk.offset,
            length: chunk.length,
            path: self.files[chunk.file as usize].path.as_os_str().as_bytes(),
        }
    }

    /// The chunk that is at a location, if the plan has one just there.
    pub(crate) fn chunk_at(&self, location: &Location<'_>) -> Option<usize> {
        let file = *self.by_path.get(location.path)?;
        let range = self.files[file as usize].chunks.clone();
        let chunks = &self.chunks[range.clone()];
        let index = chunks.binary_search_by_key(&location.offset, |chunk| chunk.offset).ok()?;
        (chunks[index].length == location.length).then_some(range.start + index)
    }
}

/// Where a chunk's bytes are: the value stored under its digest. Encoded as the offset (8 bytes,
/// little-endian), the length (4 bytes, little-endian), and the path's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location<'a> {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// Relative to the directory of the run.
    pub(crate) path: &'a [u8],
}

impl<'a> Location<'a> {
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(self.path);
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let (length, path) = rest.split_first_chunk()?;
        Some(Location {
            offset: u64::from_le_bytes(*offset),
            length: u32::from_le_bytes(*length),
            path,
        })
    }
}

/// Cuts one file after another through the same window of memory.
#[derive(Default)]
struct Cutter {
    window: Vec<u8>,
}

impl Cutter {
    fn cut(&mut self, path: &Path) -> io::Result<Vec<Chunk>> {
        self.cut_stream(File::open(path)?)
    }

    fn cut_stream(&mut self, mut input: impl Read) -> io::Result<Vec<Chunk>> {
        self.window.resize(WINDOW_BYTES, 0);
        let mut chunks = Vec::new();
        let mut window_offset = 0;
        let mut filled = 0;
        loop {
            let ended = fill(&mut input, &mut self.window, &mut filled)?;
            let cutter = FastCDC::new(
                &self.window[..filled],
                CHUNK_BYTES_MIN,
                CHUNK_BYTES_AVERAGE,
                CHUNK_BYTES_MAX,
            );
            let mut start = 0;
            // Near the window's end a cut could come too early, for want of what follows.
            while start < filled && (ended || filled - start >= CHUNK_BYTES_MAX as usize) {
                let (_, end) = cutter.cut(start, filled - start);
                chunks.push(Chunk {
                    digest: *blake3::hash(&self.window[start..end]).as_bytes(),
                    file: 0,
                    length: (end - start) as u32,
                    offset: window_offset + start as u64,
                });
                start = end;
            }
            if ended {
                return Ok(chunks);
            }
            self.window.copy_within(start..filled, 0);
            window_offset += start as u64;
            filled -= start;
        }
    }
}

/// Reads until the window is full or the input ends, and says whether it ended.
fn fill(input: &mut impl Read, window: &mut [u8], filled: &mut usize) -> io::Result<bool> {
    while *filled < window.len() {
        match input.read(&mut window[*filled..]) {
            Ok(0) => return Ok(true),
            Ok(read) => *filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::audience::Nobody;
    use workload::Random;

    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut random = Random::new(seed);
        (0..bytes).map(|_| random.word() as u8).collect()
    }

    fn cut(bytes: &[u8]) -> Vec<Chunk> {
        Cutter::default().cut_stream(bytes).unwrap()
    }

    #[test]
    fn chunks_cover_a_file_larger_than_the_window() {
        let bytes = noise(1, 3 * WINDOW_BYTES + 12_345);
        let chunks = cut(&bytes);
        let mut end = 0;
        for chunk in &chunks {
            assert_eq!(chunk.offset, end);
            let piece = &bytes[end as usize..][..chunk.length as usize];
            assert_eq!(chunk.digest, *blake3::hash(piece).as_bytes());
            assert!(chunk.length <= CHUNK_BYTES_MAX);
            end += u64::from(chunk.length);
        }
        assert_eq!(end, bytes.len() as u64);
        let average = bytes.len() / chunks.len();
        assert!((4 << 10..16 << 10).contains(&average), "{average}");

        // The window is no part of where the cuts fall.
        let whole = FastCDC::new(&bytes, CHUNK_BYTES_MIN, CHUNK_BYTES_AVERAGE, CHUNK_BYTES_MAX);
        assert!(
            whole.map(|chunk| chunk.length).eq(chunks.iter().map(|chunk| chunk.length as usize))
        );
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let bytes = noise(2, 1 << 20);
        let mut longer = bytes.clone();
        longer.splice(500_000..500_000, *b"inserted");
        let before: Vec<Digest> = cut(&bytes).iter().map(|chunk| chunk.digest).collect();
        let after = cut(&longer);
        let fresh = after.iter().filter(|chunk| !before.contains(&chunk.digest)).count();
        assert!(fresh <= 4, "{fresh} of {} chunks are new", after.len());
    }

    #[test]
    fn a_plan_is_in_file_order_and_finds_its_chunks_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut found = Vec::new();
        for (name, bytes) in [("a", 50_000), ("b", 0), ("c", 100), ("vanished", 0), ("d", 70_000)] {
            if name != "vanished" {
                fs::write(dir.path().join(name), noise(bytes, bytes as usize)).unwrap();
            }
            found.push(Found { path: name.into(), bytes });
        }
        let plan = Plan::make(dir.path(), &found, 2, &Nobody);
        let names: Vec<_> = plan.files.iter().filter_map(|file| file.path.to_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(plan.bytes, 120_100);
        for index in 0..plan.chunks.len() {
            let mut bytes = Vec::new();
            plan.location(index).encode_into(&mut bytes);
            let location = Location::decode(&bytes).unwrap();
            assert_eq!(plan.chunk_at(&location), Some(index));
            let shifted = Location { offset: location.offset + 1, ..location };
            assert_eq!(plan.chunk_at(&shifted), None);
            let longer = Location { length: location.length + 1, ..location };
            assert_eq!(plan.chunk_at(&longer), None);
        }
        assert_eq!(Location::decode(b"too short"), None);
    }
}
