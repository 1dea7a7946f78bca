//! The log as it is written: segments, one after another.

use super::disk::PAGE_BYTES;
use super::error::LogError;
use super::frame::{FRAME_HEADER_WORDS, FrameHeader, SegmentHeader, frame_bytes};
use super::held;
use super::names;
use super::pages::{PAGE_WORDS, Pages};
use super::segments::{Segment, Segments};
use super::supply::Supply;
use std::io;
use std::sync::{Arc, Mutex};

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

/// A segment ends soon if no more than this fraction of it is free.
const ENDS_SOON_FRACTION: u64 = 8;

/// Writes frames, one after another.
pub(super) struct Writer {
    segments: Arc<Segments>,
    generation: u128,
    current: Segment,
    at: u64,
    frame: u64,
    /// The last epoch that is in the log.
    epoch: u64,
    supply: Arc<Mutex<Supply>>,
    /// Why nothing more is written: what could not be written once must not be followed by anything.
    failure: Option<LogError>,
    /// Its first segment's number.
    first: u64,
    /// The number of the epoch to which all belongs that is written next, if that is not the caller's.
    joined_as: Option<u64>,
    /// Where in the segment the next one is asked for.
    spare_from: u64,
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
        has_reserve: bool,
    ) -> Result<Writer, LogError> {
        let supply = Supply::new(first.number + 1, has_reserve);
        let at = Position { segment: first.number, at: PAGE, frame: 1 };
        let mut writer = Writer::at(segments, generation, first, (at, 0), supply);
        let begun = writer.begin_segment();
        begun.inspect_err(|_| writer.segments.remove(writer.first))?;
        Ok(writer)
    }

    /// A log that goes on at this position, behind this epoch, in `current`.
    pub(super) fn at(
        segments: Arc<Segments>,
        generation: u128,
        current: Segment,
        (position, epoch): (Position, u64),
        supply: Supply,
    ) -> Writer {
        let mut writer = Writer {
            segments,
            generation,
            first: current.number,
            current,
            at: position.at,
            frame: position.frame,
            epoch,
            supply: Arc::new(Mutex::new(supply)),
            failure: None,
            written_bytes: 0,
            header: Pages::zeroed(PAGE_BYTES),
            part: Pages::new(),
            joined_as: None,
            spare_from: 0,
        };
        writer.set_spare_from();
        writer
    }

    fn set_spare_from(&mut self) {
        self.spare_from = 0;
        if !self.ends_soon() {
            let free = self.current.bytes - self.at;
            self.spare_from = (self.at + free / 2).max(self.current.bytes / 2);
        }
    }

    /// Goes on at another place of the same segment, of which only the caller knows by now.
    pub(super) fn go_on_at(&mut self, at: u64, frame: u64) {
        (self.at, self.frame) = (at, frame);
        self.set_spare_from();
    }

    /// Writes to the current segment what is there already, durably.
    pub(super) fn write_again(&self, at: u64, pages: &Pages) -> Result<(), LogError> {
        let written = self.current.file.write_durably_at(pages.bytes(), at);
        written.map_err(|error| self.failed(error))
    }

    /// From now on, epochs end none: a restoration takes them as one, with the first that ends after this was unset, or
    /// not at all. So their frames have the number of the first of them: no epoch has ended before one that can be
    /// missed.
    pub(super) fn join_epochs(&mut self, joins: bool) {
        self.joined_as = joins.then_some(self.epoch + 1);
    }

    pub(super) fn generation(&self) -> u128 {
        self.generation
    }

    /// Where the next frame will be.
    pub(super) fn position(&self) -> Position {
        Position { segment: self.current.number, at: self.at, frame: self.frame }
    }

    /// The last epoch that has a frame; 0: none has.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
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

    /// Whether the next segment has to be made, and nobody is making it: half of this one is full.
    pub(super) fn lacks_spare(&self) -> bool {
        self.needs_spare() && self.supply.try_lock().is_ok_and(|supply| !supply.has_spare())
    }

    /// Whether half of the segment is full; and of one in which the log goes on, half of what was free of it. Otherwise
    /// each process that writes little to one that is more than half full would make another, and drop it.
    pub(super) fn needs_spare(&self) -> bool {
        self.at >= self.spare_from
    }

    /// Whether so little is free of the segment that the next process to go on needs another one at once.
    pub(super) fn ends_soon(&self) -> bool {
        self.current.bytes - self.at < self.current.bytes / ENDS_SOON_FRACTION
    }

    /// Whether something could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Writes nothing any more. The numbers of all its segments.
    pub(super) fn end(&mut self, failure: LogError) -> std::ops::Range<u64> {
        self.failure.get_or_insert(failure);
        self.first..held(&self.supply).number()
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
        self.spare_from = self.current.bytes / 2;
        let written = self.current.file.write_durably_at(self.header.bytes(), 0);
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> LogError {
        let name = names::segment(self.current.number);
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
        if written.is_ok() {
            self.epoch = epoch;
        }
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

    /// Goes on in the next segment, whatever room there is in this one.
    pub(super) fn turn_over(&mut self) -> Result<(), LogError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let turned = self.next_segment();
        self.failure = turned.clone().err();
        turned
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
        let is_last = is_last && self.joined_as.is_none();
        let epoch = self.joined_as.unwrap_or(epoch);
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
