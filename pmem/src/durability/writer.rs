//! The log as it is written: segments, one after another.

use super::disk::{Disk, DiskFile, PAGE_BYTES, recognises};
use super::error::LogError;
use super::frame::{FRAME_HEADER_WORDS, FrameHeader, SegmentHeader, frame_bytes};
use super::names;
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

impl Segment {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// What segments are made from.
pub(super) struct Segments {
    pub(super) disk: Arc<dyn Disk>,
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
    /// Whether there is a segment for a disk without room.
    has_reserve: bool,
    /// Another log has begun, and gives their numbers to segments.
    has_ended: bool,
}

impl Supply {
    /// The supply of a log that goes on in the segment before `number`. One of the segments of no use is the reserve,
    /// if that is lacking, and another one the spare, if one fits. See [`Supply::provide`] for `is_scarce`.
    pub(super) fn behind(
        number: u64,
        segments: &Segments,
        bytes: u64,
        is_scarce: bool,
        useless: &mut Vec<u64>,
    ) -> Supply {
        let mut supply = Supply { number, spare: None, has_reserve: false, has_ended: false };
        if is_scarce {
            supply.reuse_one(segments, bytes, useless);
        }
        supply.has_reserve = segments.provide_reserve(useless).is_ok();
        // The one that has the name already first: another one would replace it.
        useless.sort_unstable_by_key(|&old| old == number);
        while supply.spare.is_none()
            && let Some(old) = useless.pop()
        {
            supply.spare = segments.reuse(&names::segment(old), number, bytes);
            match supply.spare {
                Some(_) => supply.number += 1,
                None => segments.remove(old),
            }
        }
        supply
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    pub(super) fn has_reserve(&self) -> bool {
        self.has_reserve
    }

    /// Nothing is made any more.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Makes one of these segments that fits the spare, and leaves the others as they are.
    fn reuse_one(&mut self, segments: &Segments, bytes: u64, from: &mut Vec<u64>) {
        from.retain(|&old| {
            if self.spare.is_none() {
                self.spare = segments.reuse(&names::segment(old), self.number, bytes);
                self.number += u64::from(self.spare.is_some());
                return self.spare.is_none();
            }
            true
        });
    }

    /// Gives up the spare, or makes it the reserve if that is lacking.
    pub(super) fn drop_spare(&mut self, segments: &Segments) {
        if let Some(Segment { number, .. }) = self.spare.take() {
            if self.has_reserve {
                segments.remove(number);
            } else {
                self.has_reserve = segments.set_aside(number);
            }
        }
    }

    /// Makes the reserve the spare, where there is no room for another one; whether it could. The log's next obsolete
    /// segment is the reserve then.
    pub(super) fn use_reserve(&mut self, segments: &Segments) -> bool {
        if self.spare.is_none() && std::mem::take(&mut self.has_reserve) {
            self.spare = segments.first_of_reserve(self.number);
            self.number += u64::from(self.spare.is_some());
        }
        self.spare.is_some()
    }

    /// Makes an obsolete segment the reserve, if that is lacking, and another one the spare. If there is none that
    /// fits, the spare is made if it `is_needed`. Other obsolete ones are for the caller to remove.
    ///
    /// `is_scarce`: the disk has room for no other. Then the spare comes first, and nothing large is cut to a reserve.
    pub(super) fn provide(
        &mut self,
        segments: &Segments,
        bytes: u64,
        is_needed: bool,
        is_scarce: bool,
        obsolete: &mut Vec<u64>,
    ) -> Result<(), LogError> {
        if self.has_ended {
            obsolete.clear();
            return Ok(());
        }
        if is_scarce && !self.has_spare() {
            self.reuse_one(segments, bytes, obsolete);
        }
        while !self.has_reserve
            && let Some(old) = obsolete.pop()
        {
            self.has_reserve = segments.set_aside(old);
        }
        if self.has_spare() {
            return Ok(());
        }
        while let Some(old) = obsolete.pop() {
            if let Some(spare) = segments.reuse(&names::segment(old), self.number, bytes) {
                self.number += 1;
                self.spare = Some(spare);
                return Ok(());
            }
            segments.remove(old);
        }
        if is_needed {
            self.spare = Some(self.make(segments, bytes)?);
        }
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

/// A segment ends soon if no more than this fraction of it is free.
const ENDS_SOON_FRACTION: u64 = 8;

/// The header of a segment that is not used yet.
const NO_GENERATION: u128 = 0;

impl Segments {
    /// Bytes of the next segment of a pool of this size.
    pub(super) fn bytes(&self, pool_bytes: u64) -> u64 {
        let part = (pool_bytes / SEGMENTS_PER_POOL).next_power_of_two();
        part.clamp(self.sizes.segment_min, self.sizes.segment_max)
    }

    /// Removes a segment that nobody needs. One that stays takes space, and no more; the next opening removes it.
    pub(super) fn remove(&self, number: u64) {
        let _ = self.disk.remove(&names::segment(number));
    }

    /// Bytes of a segment that there is.
    pub(super) fn bytes_of(&self, number: u64) -> u64 {
        let file = self.disk.open(&names::segment(number));
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Makes a segment of so many bytes, or as many of them as there is room for.
    pub(super) fn make(&self, number: u64, bytes: u64) -> Result<Segment, LogError> {
        match self.make_exactly(&names::segment(number), bytes) {
            Err(LogError::Full { .. }) if bytes / 2 >= self.sizes.segment_min => {
                self.make(number, bytes / 2)
            }
            made => made.map(|file| Segment { number, file, bytes }),
        }
    }

    fn make_exactly(&self, name: &str, bytes: u64) -> Result<Box<dyn DiskFile>, LogError> {
        self.write_zeros(name, bytes).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return LogError::InTheWay { path: self.disk.path(name) };
            }
            // What there is of it would count as used space.
            let _ = self.disk.remove(name);
            LogError::refused("making", self.disk.path(name), error)
        })
    }

    fn write_zeros(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        if recognises(&*self.disk, name, self.uuid)? == Some(true) {
            self.disk.remove(name)?;
        }
        let file = self.disk.create(name)?;
        // Before it takes any space: what a crash leaves is recognised, and used again.
        let mut header = Pages::zeroed(PAGE_BYTES);
        let unused = SegmentHeader {
            uuid: self.uuid,
            generation: NO_GENERATION,
            number: 0,
            first_frame: 0,
            bytes,
        };
        unused.encode(header.words_mut());
        file.write_durably_at(header.bytes(), 0)?;
        // A full disk is met before anything else is written.
        file.allocate(0..bytes)?;
        let zeros = Pages::zeroed(ZEROS_BYTES.min(bytes as usize));
        for at in (PAGE..bytes).step_by(ZEROS_BYTES) {
            let some = (bytes - at).min(zeros.bytes().len() as u64) as usize;
            file.write_at(&zeros.bytes()[..some], at)?;
        }
        file.sync()?;
        self.disk.sync_names()?;
        Ok(file)
    }

    /// Makes a segment of one that is not needed any more, if that is of a size that this build makes, and if
    /// the pool has not become more private since.
    pub(super) fn reuse(&self, old: &str, number: u64, bytes_min: u64) -> Option<Segment> {
        let again = || -> io::Result<Segment> {
            let file = self.disk.open(old)?;
            let bytes = file.len()?;
            let is_of_size = (bytes_min..=self.sizes.segment_max).contains(&bytes);
            // Who has opened it to read, as its permissions were, would read on.
            if !is_of_size || bytes % PAGE != 0 || !file.is_as_private()? {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // Its header stays until the log gets here. It says another number, so an opening finds the log's end here;
            // and it has no later frame than the checkpoint that made it obsolete, so nothing is missed before it.
            let new = names::segment(number);
            if old != new {
                self.disk.rename(old, &new)?;
                self.disk.sync_names()?;
            }
            Ok(Segment { number, file, bytes })
        };
        again().ok()
    }

    /// Makes an obsolete segment the reserve; whether that is there then.
    fn set_aside(&self, old: u64) -> bool {
        let (old, min) = (names::segment(old), self.sizes.segment_min);
        let set_aside = || -> io::Result<()> {
            let file = self.disk.open(&old)?;
            if file.len()? < min || !file.is_as_private()? {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.disk.rename(&old, names::RESERVE)?;
            self.disk.sync_names()?;
            // If it stays longer than it has to be, the next opening tries again.
            let _ = file.shorten(min);
            Ok(())
        };
        let is_done = set_aside().is_ok();
        if !is_done {
            // Whichever name it has by now.
            let _ = self.disk.remove(&old);
            let _ = self.disk.remove(names::RESERVE);
        }
        is_done
    }

    /// Whether there is a reserve that can be used: a crash may have left one that is not whole.
    fn has_reserve(&self) -> io::Result<bool> {
        if recognises(&*self.disk, names::RESERVE, self.uuid)? != Some(true) {
            return Ok(false);
        }
        let (file, min) = (self.disk.open(names::RESERVE)?, self.sizes.segment_min);
        let bytes = file.len()?;
        if bytes > min {
            file.shorten(min)?;
        }
        Ok(bytes >= min && file.is_as_private()?)
    }

    /// Makes the reserve, unless there is one: from a segment of no use, if one fits.
    pub(super) fn provide_reserve(&self, useless: &mut Vec<u64>) -> Result<(), LogError> {
        if self.has_reserve().unwrap_or(false) {
            return Ok(());
        }
        let _ = self.disk.remove(names::RESERVE);
        while let Some(old) = useless.pop() {
            if self.set_aside(old) {
                return Ok(());
            }
        }
        self.make_exactly(names::RESERVE, self.sizes.segment_min).map(drop)
    }

    /// The first segment of a new log: one that is of no use any more, or a new one.
    pub(super) fn first(
        &self,
        number: u64,
        bytes: u64,
        useless: &mut Vec<u64>,
    ) -> Result<Segment, LogError> {
        while let Some(old) = useless.pop() {
            match self.reuse(&names::segment(old), number, bytes) {
                Some(segment) => return Ok(segment),
                None => self.remove(old),
            }
        }
        self.make(number, bytes)
    }

    /// The segment in which a log goes on; `None` if who must not read the pool may have opened it.
    pub(super) fn again(&self, number: u64) -> io::Result<Option<Segment>> {
        let file = self.disk.open(&names::segment(number))?;
        let bytes = file.len()? / PAGE * PAGE;
        Ok(file.is_as_private()?.then_some(Segment { number, file, bytes }))
    }

    /// The reserve as the first segment of a new log.
    pub(super) fn first_of_reserve(&self, number: u64) -> Option<Segment> {
        self.reuse(names::RESERVE, number, self.sizes.segment_min)
    }
}

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
    /// Whether what is written next belongs to the same epoch, whatever its number.
    joins_epochs: bool,
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
        let number = first.number + 1;
        let supply = Supply { number, spare: None, has_reserve, has_ended: false };
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
            joins_epochs: false,
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
    /// not at all.
    pub(super) fn join_epochs(&mut self, joins: bool) {
        self.joins_epochs = joins;
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
        let is_last = is_last && !self.joins_epochs;
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
