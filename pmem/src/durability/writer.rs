//! The log as it is written: segments, one after another.

use super::disk::{Disk, DiskFile, PAGE_BYTES};
use super::error::LogError;
use super::frame::{FRAME_HEADER_WORDS, FrameHeader, SegmentHeader, frame_bytes};
use super::names::Names;
use super::pages::{PAGE_WORDS, Pages};
use super::{Sizes, held};
use std::io;
use std::sync::{Arc, Mutex};

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

/// A segment whose space is allocated and has been written to the end. So a write to it changes neither the length nor
/// the extents of its file, and takes only as long as the device.
pub(super) struct Segment {
    number: u64,
    file: Box<dyn DiskFile>,
    bytes: u64,
}

/// What segments are made from.
pub(super) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) names: Names,
    pub(super) uuid: u128,
    pub(super) sizes: Sizes,
}

/// Where a log gets its segments from. Numbers are given once, in order. The maker of a segment holds this lock, so
/// that nobody else makes one with the same name meanwhile.
pub(super) struct Supply {
    /// Number of the segment that is made next.
    number: u64,
    /// Used when the current one is full.
    spare: Option<Segment>,
}

impl Supply {
    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Makes the spare segment, from an obsolete one if one fits. Others are removed.
    pub(super) fn provide(
        &mut self,
        segments: &Segments,
        bytes: u64,
        obsolete: &mut Vec<u64>,
    ) -> Result<(), LogError> {
        while let Some(old) = obsolete.pop() {
            if let Some(spare) = segments.reuse(old, self.number, bytes) {
                self.number += 1;
                self.spare = Some(spare);
                return Ok(());
            }
            segments.remove(old);
        }
        self.spare = Some(self.make(segments, bytes)?);
        Ok(())
    }

    fn make(&mut self, segments: &Segments, bytes: u64) -> Result<Segment, LogError> {
        let made = segments.make(self.number, bytes)?;
        self.number += 1;
        Ok(made)
    }

    fn take(&mut self, segments: &Segments, bytes: u64) -> Result<Segment, LogError> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self.make(segments, bytes),
        }
    }
}

impl Segments {
    /// Bytes of the next segment of a pool of this size.
    pub(super) fn bytes(&self, pool_bytes: u64) -> u64 {
        let part = (pool_bytes / SEGMENTS_PER_POOL).next_power_of_two();
        part.clamp(self.sizes.segment_min, self.sizes.segment_max)
    }

    /// Removes a segment that nobody needs. One that stays takes space, and no more; the next opening removes it.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.disk.remove(&self.names.segment(number));
    }

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

    /// Makes a segment of one that is not needed any more, if that is of a size that this build makes, and if
    /// the pool has not become more private since.
    fn reuse(&self, old: u64, number: u64, bytes_min: u64) -> Option<Segment> {
        let (old, name) = (self.names.segment(old), self.names.segment(number));
        let again = || -> io::Result<Segment> {
            let file = self.disk.open(&old)?;
            let bytes = file.len()?;
            let is_of_size = (bytes_min..=self.sizes.segment_max).contains(&bytes);
            // Who has opened it to read, as its permissions were, would read on.
            if !is_of_size || bytes % PAGE != 0 || !self.disk.is_as_private(&old)? {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // Its header stays until the log gets here. It says another number, so an opening finds the log's end here;
            // and it has no later frame than the checkpoint that made it obsolete, so nothing is missed before it.
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
    supply: Arc<Mutex<Supply>>,
    /// Why nothing more is written: what could not be written once must not be followed by anything.
    failure: Option<LogError>,
    /// Its first segment's number.
    first: u64,
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
        let supply = Supply { number: first.number + 1, spare: None };
        let mut writer = Writer {
            segments,
            generation,
            first: first.number,
            current: first,
            at: PAGE,
            frame: 1,
            supply: Arc::new(Mutex::new(supply)),
            failure: None,
            written_bytes: 0,
            header: Pages::zeroed(PAGE_BYTES),
            part: Pages::new(),
        };
        let begun = writer.begin_segment();
        begun.inspect_err(|_| writer.segments.remove(writer.first))?;
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

    /// Where its segments come from.
    pub(super) fn supply(&self) -> &Arc<Mutex<Supply>> {
        &self.supply
    }

    /// Whether the end of the segment would have to wait for a new one that nobody is making.
    pub(super) fn lacks_spare(&self) -> bool {
        self.supply.try_lock().is_ok_and(|supply| !supply.has_spare())
    }

    /// Whether something could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Writes nothing any more. The numbers of all its segments.
    pub(super) fn end(&mut self, failure: LogError) -> std::ops::Range<u64> {
        self.failure.get_or_insert(failure);
        self.first..held(&self.supply).number
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
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let written = self.try_write_epoch(epoch, pages);
        self.failure = written.clone().err();
        written
    }

    fn try_write_epoch(&mut self, epoch: u64, pages: &mut Pages) -> Result<(), LogError> {
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
        // If one is being made, this waits for it.
        self.current = held(&self.supply).take(&self.segments, self.current.bytes)?;
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
        frame.clear_rest();
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
