//! The log as it is written: segments, one after another.

use super::disk::{Disk, DiskFile, PAGE_BYTES};
use super::error::LogError;
use super::frame::{FRAME_HEADER_WORDS, FrameHeader, SegmentHeader, frame_bytes};
use super::names::Names;
use super::pages::{PAGE_WORDS, Pages};
use std::io;
use std::sync::Arc;

/// The smallest segment, and the largest one.
const SEGMENT_BYTES_MIN: u64 = 256 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// A segment is about this part of the pool.
const SEGMENTS_PER_POOL: u64 = 4;
/// Bytes of zeros that are written at once.
const ZEROS_BYTES: usize = 1 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

/// Where a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Number of the segment.
    pub(super) segment: u64,
    /// Offset of the next frame in it.
    pub(super) at: u64,
    /// That frame's number.
    pub(super) frame: u64,
}

/// A segment that has space of its own and is written to the end with something: a write to it changes no length, and
/// no extent of its file, so it takes as long as the device does and no longer.
pub(super) struct Segment {
    number: u64,
    file: Box<dyn DiskFile>,
    bytes: u64,
}

/// Bytes of the next segment of a pool of this size.
pub(super) fn segment_bytes(pool_bytes: u64) -> u64 {
    let part = (pool_bytes / SEGMENTS_PER_POOL).next_power_of_two();
    part.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

/// What segments are made from.
pub(super) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) names: Names,
    pub(super) uuid: u128,
}

impl Segments {
    /// Makes a segment.
    pub(super) fn make(&self, number: u64, bytes: u64) -> Result<Segment, LogError> {
        let name = self.names.segment(number);
        let made = self.write_zeros(&name, bytes);
        made.map(|file| Segment { number, file, bytes }).map_err(|error| {
            // What there is of it would count as used space.
            let _ = self.disk.remove(&name);
            self.refused("making", &name, error)
        })
    }

    fn write_zeros(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(name)?;
        // First: a full disk is met before anything is written.
        file.allocate(bytes)?;
        let zeros = Pages::zeroed(ZEROS_BYTES.min(bytes as usize));
        for at in (0..bytes).step_by(ZEROS_BYTES) {
            let some = (bytes - at).min(ZEROS_BYTES as u64) as usize;
            file.write_at(&zeros.bytes()[..some], at)?;
        }
        file.sync()?;
        self.disk.sync_names()?;
        Ok(file)
    }

    /// Makes a segment of one that is not needed any more, if that is large enough.
    pub(super) fn reuse(&self, old: u64, number: u64, bytes_min: u64) -> Option<Segment> {
        let (old, name) = (self.names.segment(old), self.names.segment(number));
        let again = || -> io::Result<Segment> {
            let file = self.disk.open(&old)?;
            let bytes = file.len()?;
            if bytes < bytes_min {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // Its header must not be taken for that of a segment of this number.
            file.write_durably_at(Pages::zeroed(PAGE_BYTES).bytes(), 0)?;
            self.disk.rename(&old, &name)?;
            self.disk.sync_names()?;
            Ok(Segment { number, file, bytes })
        };
        again().ok()
    }

    fn refused(&self, action: &'static str, name: &str, error: io::Error) -> LogError {
        let path = self.disk.path(name);
        if LogError::is_full(&error) {
            LogError::Full { path, source: Arc::new(error) }
        } else {
            LogError::io(action, path)(error)
        }
    }
}

/// Writes frames, one after another.
pub(super) struct Writer {
    segments: Arc<Segments>,
    generation: u128,
    current: Segment,
    at: u64,
    frame: u64,
    /// Used when the current one is full.
    spare: Option<Segment>,
    /// Bytes of frames and their padding so far.
    written_bytes: u64,
    header: Pages,
    part: Pages,
}

impl Writer {
    /// A log in a new generation, which begins in `first`.
    pub(super) fn new(
        segments: Arc<Segments>,
        generation: u128,
        first: Segment,
    ) -> Result<Writer, LogError> {
        let mut writer = Writer {
            segments,
            generation,
            current: first,
            at: PAGE,
            frame: 1,
            spare: None,
            written_bytes: 0,
            header: Pages::zeroed(PAGE_BYTES),
            part: Pages::new(),
        };
        writer.begin_segment()?;
        Ok(writer)
    }

    pub(super) fn generation(&self) -> u128 {
        self.generation
    }

    /// Where the next frame will be.
    pub(super) fn position(&self) -> Position {
        Position { segment: self.current.number, at: self.at, frame: self.frame }
    }

    /// Bytes written so far.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The number of the segment that is being written.
    pub(super) fn segment(&self) -> u64 {
        self.current.number
    }

    /// Whether the end of the segment would have to wait for a new one.
    pub(super) fn lacks_spare(&self) -> bool {
        self.spare.is_none()
    }

    /// Takes the segment that follows.
    pub(super) fn put_spare(&mut self, spare: Segment) {
        self.spare = Some(spare);
    }

    fn begin_segment(&mut self) -> Result<(), LogError> {
        let header = SegmentHeader {
            uuid: self.segments.uuid,
            generation: self.generation,
            number: self.current.number,
            first_frame: self.frame,
            bytes: self.current.bytes,
        };
        header.encode(self.header.words_mut());
        self.at = PAGE;
        let written = self.current.file.write_durably_at(self.header.bytes(), 0);
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> LogError {
        let name = self.segments.names.segment(self.current.number);
        LogError::io("writing", self.segments.disk.path(&name))(error)
    }

    /// Writes the content of an epoch and waits until it is durable. The content follows
    /// [`FRAME_HEADER_WORDS`] words in `pages`, which are this function's.
    pub(super) fn write_epoch(&mut self, epoch: u64, pages: &mut Pages) -> Result<(), LogError> {
        let content_words = pages.words().len() - FRAME_HEADER_WORDS;
        if frame_bytes(content_words) <= self.current.bytes - self.at {
            return self.write_frame(epoch, true, pages);
        }
        let mut part = std::mem::replace(&mut self.part, Pages::new());
        let result = self.write_parts(epoch, &pages.words()[FRAME_HEADER_WORDS..], &mut part);
        self.part = part;
        result
    }

    /// As above, in several frames.
    fn write_parts(
        &mut self,
        epoch: u64,
        mut content: &[u64],
        part: &mut Pages,
    ) -> Result<(), LogError> {
        loop {
            if self.current.bytes - self.at < PAGE {
                self.next_segment()?;
            }
            let room_words = ((self.current.bytes - self.at) / PAGE) as usize * PAGE_WORDS;
            let (now, later) = content.split_at(content.len().min(room_words - FRAME_HEADER_WORDS));
            part.resize(0);
            part.resize(FRAME_HEADER_WORDS);
            part.extend(now.iter().copied());
            self.write_frame(epoch, later.is_empty(), part)?;
            if later.is_empty() {
                return Ok(());
            }
            content = later;
        }
    }

    fn next_segment(&mut self) -> Result<(), LogError> {
        let number = self.current.number + 1;
        self.current = match self.spare.take() {
            Some(spare) => spare,
            None => self.segments.make(number, self.current.bytes)?,
        };
        self.begin_segment()
    }

    fn write_frame(
        &mut self,
        epoch: u64,
        is_last: bool,
        frame: &mut Pages,
    ) -> Result<(), LogError> {
        let header =
            FrameHeader { generation: self.generation, number: self.frame, epoch, is_last };
        header.seal(frame.words_mut());
        let bytes = frame.bytes();
        let written = self.current.file.write_durably_at(bytes, self.at);
        written.map_err(|error| self.failed(error))?;
        let bytes = bytes.len() as u64;
        self.at += bytes;
        self.written_bytes += bytes;
        self.frame += 1;
        Ok(())
    }
}
