//! A log that goes on where a killed process left it.
//!
//! The pool's memory outlives its process, and has what that had stored and not yet logged. So checkpoint and log lag
//! behind the pool, and nobody knows where. Until they have caught up, what is logged may rest on words that are not
//! in them. So all of it is one epoch: frames that end none. Power loss meanwhile leads back to what the killed
//! process had made durable, as if nothing had been written since.
//!
//! | step | what a restoration finds after a crash here |
//! |---|---|
//! | 1 the log's end is looked for in its last segment; its header and last frame are written again | what was durable |
//! | 2 an empty epoch is written behind them, in one sector | the same |
//! | 3 fences append from the opening on; what they append becomes frames that end no epoch | the same |
//! | 4 every operation in flight ends | the same |
//! | 5 what the log makes of each chunk of the checkpoint is compared with the pool; lines that differ are appended | the same |
//! | 6 every operation in flight ends; a frame is written that ends the epoch | the same, or the pool as of that frame |
//!
//! A process that was killed while it wrote a header or a frame may have left it in the kernel's memory only. It can
//! be read, and after a power loss it would be missing before what follows. Hence the writing in step 1.
//!
//! *Why the end is whole.* Each word that the pool has at step 6 is in the image that the log led to before, or in a
//! record since. A word that was compared and did not differ was so in that image. One that an operation has changed
//! since was fenced, so it is in a record; or it was not, and nothing rests on it. One that differed is appended
//! as an observer does ([`LineLog::append_observed`](crate::line_log::LineLog::append_observed)): its record is never
//! the newer one of two, and has the older content.
//!
//! *Frames that the killed process wrote of an epoch it did not complete* may lie behind the end. Their numbers are
//! those that the log has again. The epoch of step 2 is behind all of them, and a frame counts only if its epoch is
//! behind the last complete one. This process's epochs are numbered from there on.
//!
//! *Where the disk has no room for a copy*, the checkpoint has one place, and the log may have one segment and the
//! reserve. An epoch that goes on from one segment to the next keeps both. So the log goes on in the reserve: behind
//! step 2, a second empty epoch begins it. Before step 5, what was durable is merged into the checkpoint. It needs
//! nothing that this process has written, and then nothing needs the segments before.
//!
//! A log of a new generation begins instead, with a copy of the pool, if the end is not in the last segment, if the
//! image is damaged or was being merged, if the log changes more lines than memory is taken for, or if operations log
//! so much meanwhile that a restoration could hardly hold it as one epoch.

use super::super::checkpoint::Checkpoint;
use super::super::disk::PAGE_BYTES;
use super::super::frame::{FRAME_HEADER_WORDS, FrameHeader, SegmentHeader, frame_words};
use super::super::pages::{PAGE_WORDS, Pages};
use super::super::restore::SafeCopy;
use super::super::segments::Segments;
use super::super::writer::Position;
use super::super::{Sizes, held, names};
use super::found::Found;
use super::{Config, Image, Shared, State, Writing, begin_log};
use crate::durability::LogError;
use crate::durability::changes::{Changes, Ordered};
use crate::line_log::{Flushed, LineLog};
use crate::offset::{LINE, Offset, WORD};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::Builder;

const PAGE: u64 = PAGE_BYTES as u64;
/// Where the numbers of epochs come near their end, a log of a new generation begins.
const EPOCHS_MAX: u64 = 1 << 60;
const LINE_WORDS: usize = (LINE / WORD) as usize;
/// Lines that are appended at once: an observer waits for all processors once for them.
const LINES_AT_ONCE: usize = 64;
/// Threads that compare.
const THREADS_MAX: usize = 4;
/// One more for so many bytes.
const BYTES_PER_THREAD: u64 = 64 << 20;
/// Bytes of frames that a restoration takes as one epoch: no more than this part of the pool,
const JOINED_PART: u64 = 4;
/// but for the least of them,
const JOINED_MIN: u64 = 64 << 20;
/// and no more than these.
const JOINED_MAX: u64 = 1 << 30;

/// How far a log is that goes on without having been ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejoining {
    /// Its end is still to be looked for.
    Unplaced,
    /// It has what is appended, and not yet what the pool had before.
    Behind,
    /// It has everything.
    Done,
}

impl Shared {
    /// Goes on with the log of a process that did not end it. `None`: it must not, or there is none.
    pub(super) fn rejoin(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
    ) -> Result<Option<Shared>, LogError> {
        if config.is_in_doubt {
            return Ok(None);
        }
        let segments = Arc::new(Segments::of(&config, sizes)?);
        let found = Found::look(&segments).map_err(segments.reading())?;
        let Some(found) = found.filter(|found| found.checkpoint.header.merging.is_none()) else {
            return Ok(None);
        };
        // Nothing is written before the place is known.
        let unknown = Position { segment: found.last(), at: PAGE, frame: 0 };
        let log_bytes = found.log_bytes();
        let Some(shared) = Shared::go_on(config, segments, log, image, found, (unknown, 0), false)?
        else {
            return Ok(None);
        };
        shared.former_log_bytes.store(log_bytes, Ordering::Relaxed);
        held(&shared.writing).rejoining = Rejoining::Unplaced;
        shared.log.start();
        shared.begin_epochs();
        Ok(Some(shared))
    }

    /// Whether the log has yet to catch up with the pool.
    pub(super) fn is_rejoining(&self) -> bool {
        held(&self.writing).rejoining != Rejoining::Done
    }

    /// Finds the place where the log goes on, before anything is written to it; or begins another one.
    pub(super) fn place(&self, writing: &mut Writing) -> Result<(), LogError> {
        if writing.rejoining != Rejoining::Unplaced {
            return Ok(());
        }
        let place = find_end(&self.segments);
        let Some(place) = place.map_err(self.segments.reading())? else {
            return self.begin_other(writing);
        };
        let Place { position: Position { at, frame, .. }, last, epoch } = place;
        for (at, pages) in last {
            writing.writer.write_again(at, &pages)?;
        }
        writing.rejoining = Rejoining::Behind;
        let is_alone = self.places.is_alone();
        let writer = &mut writing.writer;
        writer.go_on_at(at, frame);
        let former = writer.segment();
        let has_next = is_alone && held(writer.supply()).use_reserve(&self.segments);
        writer.write_epoch(epoch, &mut empty_epoch())?;
        writing.epochs_before = epoch;
        if has_next && writer.segment() == former {
            writer.turn_over()?;
            writer.write_epoch(epoch + 1, &mut empty_epoch())?;
            writing.epochs_before = epoch + 1;
        }
        writer.join_epochs(true);
        writing.others.extend(former..writer.segment());
        Ok(())
    }

    /// Begins a log of a new generation in place of one that cannot go on. It needs a copy of the pool.
    pub(super) fn begin_other(&self, writing: &mut Writing) -> Result<(), LogError> {
        (writing.rejoining, writing.epochs_before) = (Rejoining::Done, 0);
        held(writing.writer.supply()).end();
        let (writer, others) = begin_log(&self.places, &self.segments, self.image.bytes())?;
        writing.writer = writer;
        writing.others = others;
        Ok(())
    }

    /// Makes what a new log rests on, unless it has that: has one that was not ended catch up, or copies the pool.
    pub(super) fn base_as(&self, one: &MutexGuard<'_, ()>) -> Result<(), LogError> {
        if held(&self.waiting).state == State::Based {
            // Somebody else has made it while this thread waited to be the one.
            return Ok(());
        }
        if self.catch_up(one)? { Ok(()) } else { self.copy_as(one) }
    }

    /// Has the log catch up with the pool: see the [module](self). `false` if it does not go on, but another one
    /// does.
    pub(super) fn catch_up(&self, one: &MutexGuard<'_, ()>) -> Result<bool, LogError> {
        let (generation, epoch) = {
            let mut writing = held(&self.writing);
            self.place(&mut writing).inspect_err(|error| self.fail(error.clone()))?;
            if writing.rejoining == Rejoining::Done {
                return Ok(false);
            }
            (writing.writer.generation(), writing.epochs_before)
        };
        if self.places.is_alone() {
            // It may be that nothing can be written before that gives room. If it fails, something else does later.
            let _ = self.merge_as(one, false);
            let _ = self.provide_spare();
        }
        // What was in flight when fences began to append may have been fenced, and not appended.
        self.image.wait_for_operations();
        let is_compared = self.compare(epoch);
        self.image.wait_for_operations();
        let (segment, written) = {
            let mut writing = held(&self.writing);
            // If something could not be written, another log begins elsewhere.
            let is_broken = held(&self.waiting).state != State::Begun;
            if is_broken || writing.writer.generation() != generation {
                return Err(LogError::Closed);
            }
            let Some(segment) = is_compared else {
                let begun = self.begin_other(&mut writing);
                begun.inspect_err(|error| self.fail(error.clone()))?;
                return Ok(false);
            };
            writing.writer.join_epochs(false);
            self.write_epoch(&mut writing, true)?;
            writing.rejoining = Rejoining::Done;
            (segment, writing.written)
        };
        self.turnstile.release(written);
        self.continue_from(generation, segment);
        Ok(true)
    }

    /// Appends what the pool has and the log up to `epoch` does not lead to. Returns the first segment of that log,
    /// or `None` if it could not be done.
    fn compare(&self, epoch: u64) -> Option<u64> {
        let safe = SafeCopy::up_to(Arc::clone(&self.segments.disk), epoch).ok()?;
        let (checkpoint, pool_bytes) = (safe.checkpoint(), self.image.bytes());
        if checkpoint.header.image_bytes > pool_bytes {
            return None;
        }
        let changes = if checkpoint.header.from_epoch > epoch {
            // All of it is merged.
            Changes::new()
        } else {
            let (changes, to) = safe.changes(self.lines_max(safe.image_bytes())).ok()??;
            (to.epoch == epoch).then_some(changes)?
        };
        let comparing = Comparing {
            shared: self,
            checkpoint,
            changes: changes.in_order(),
            pool_bytes,
            next: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
        };
        let processors = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let threads = (pool_bytes / BYTES_PER_THREAD) as usize;
        std::thread::scope(|scope| {
            for _ in 1..threads.min(processors).min(THREADS_MAX) {
                // Those that run do the work of one that cannot be started.
                let _ = Builder::new().spawn_scoped(scope, || comparing.run());
            }
            comparing.run();
        });
        let is_right = !comparing.has_failed.into_inner();
        is_right.then_some(checkpoint.header.log.segment)
    }

    /// Whether more has been logged than a restoration should take as one epoch.
    fn has_joined_too_much(&self) -> bool {
        if self.places.is_alone() {
            // There is no room for a copy. What can be joined is bounded by the segments that there are.
            return false;
        }
        let joined_max = (self.image.bytes() / JOINED_PART).clamp(JOINED_MIN, JOINED_MAX);
        self.log_written_bytes.load(Ordering::Relaxed) > joined_max
    }
}

/// A comparison under way.
struct Comparing<'a> {
    shared: &'a Shared,
    checkpoint: &'a Checkpoint,
    changes: Ordered,
    pool_bytes: u64,
    /// The chunk to be compared next.
    next: AtomicUsize,
    /// Whether it cannot come to an end.
    has_failed: AtomicBool,
}

impl Comparing<'_> {
    /// Compares chunks as long as there are any.
    fn run(&self) {
        let (mut chunk, mut now) = (Pages::new(), Pages::new());
        let chunk_bytes = self.checkpoint.header.chunk_bytes;
        while !self.has_failed.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let at = index as u64 * chunk_bytes;
            if at >= self.pool_bytes {
                return;
            }
            let bytes = (self.pool_bytes - at).min(chunk_bytes);
            now.resize((bytes / WORD) as usize);
            let compared = self.read(index, &mut chunk, now.words().len()).and_then(|()| {
                self.changes.change(at, chunk.words_mut());
                self.shared.image.copy(at, now.words_mut());
                self.append(at, &chunk, &now)
            });
            let shared = self.shared;
            if compared.is_none() || shared.has_joined_too_much() {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            let _ = shared.provide_spare_if_lacking();
        }
    }

    /// Reads a chunk of the image, and zeros where the pool has grown since.
    fn read(&self, index: usize, chunk: &mut Pages, words: usize) -> Option<()> {
        chunk.resize(0);
        if index < self.checkpoint.chunks() && !self.checkpoint.read(index, chunk).ok()? {
            return None;
        }
        chunk.resize(words);
        Some(())
    }

    /// Appends the lines that differ, as they are by now.
    fn append(&self, at: u64, before: &Pages, now: &Pages) -> Option<()> {
        let lines = before.words().chunks(LINE_WORDS).zip(now.words().chunks(LINE_WORDS));
        let places = (at..).step_by(LINE as usize).zip(lines);
        let image = &*self.shared.image;
        let different: Vec<Flushed> = places
            .filter(|(at, (before, now))| before != now && !image.is_given_back(*at))
            .map(|(at, (_, now))| Flushed { at: Offset(at), words: now.len() as u64 })
            .collect();
        for some in different.chunks(LINES_AT_ONCE) {
            if self.shared.log.is_own_ring_half_full() {
                self.shared.write_epoch(&mut held(&self.shared.writing), false).ok()?;
            }
            self.shared.log.append_observed(some, |at| image.load(at.0));
        }
        Some(())
    }
}

/// An epoch with a record of no words.
fn empty_epoch() -> Pages {
    let mut pages = Pages::zeroed(0);
    pages.resize(FRAME_HEADER_WORDS);
    pages.extend([0, 0]);
    pages
}

/// Where a log goes on.
struct Place {
    position: Position,
    /// What the killed process may have written without it being on the device yet, each with its place in the last
    /// segment: this one's header, and its last frame.
    last: Vec<(u64, Pages)>,
    /// The number of an epoch behind all that it wrote.
    epoch: u64,
}

/// The place behind the log's last complete epoch, if that is found.
fn find_end(segments: &Segments) -> io::Result<Option<Place>> {
    let Some(found) = Found::look(segments)? else { return Ok(None) };
    let header = &found.checkpoint.header;
    let mut after: Option<Place> = None;
    for segment in found.log.iter().rev().take(2) {
        let SegmentHeader { number, first_frame, bytes, .. } = segment.header;
        let file = segments.disk.open(&names::segment(number))?;
        let is_of_size = (PAGE..=segments.sizes.segment_max).contains(&bytes);
        if !is_of_size || bytes % PAGE != 0 || bytes != file.len()? {
            return Ok(None);
        }
        let mut pages = Pages::zeroed(bytes as usize);
        file.read_at(pages.bytes_mut(), 0)?;
        let begin = match number == header.log.segment {
            true => header.log,
            false => Position { segment: number, at: PAGE, frame: first_frame },
        };
        // What is written elsewhere is found by nobody.
        if begin.at % PAGE != 0 || !(PAGE..=bytes).contains(&begin.at) {
            return Ok(None);
        }
        let end = walk(&pages, header.generation, begin);
        let is_complete = |epoch: u64| epoch >= header.to_epoch;
        let position = end.position;
        if let Some(place) = after {
            // The last segment has no complete epoch. It begins with one if the segment before ends with another.
            let frame = place.position.frame;
            let is_next = position.frame == frame && end.frame == frame;
            let is_whole = end.epoch.is_some_and(is_complete);
            let epoch = end.epoch.unwrap_or(0).saturating_add(1).max(place.epoch);
            return Ok(is_next.then_some(Place { epoch, ..place }).filter(|_| is_whole));
        }
        let seen = pages.words().chunks(PAGE_WORDS);
        let seen = seen.filter_map(|page| FrameHeader::seen_in(page, header.generation));
        let seen = seen.map(|(_, epoch)| epoch).max().unwrap_or(0);
        let last_epoch = seen.max(header.from_epoch).max(header.to_epoch);
        let Some(epoch) = last_epoch.checked_add(1).filter(|&epoch| epoch < EPOCHS_MAX) else {
            return Ok(None);
        };
        let part = |bytes: Range<u64>| {
            let words = (bytes.start / WORD) as usize..(bytes.end / WORD) as usize;
            let mut part = Pages::zeroed(0);
            part.extend(pages.words()[words].iter().copied());
            (bytes.start, part)
        };
        let mut last = vec![part(0..PAGE)];
        last.extend(end.last_at.map(|at| part(at..position.at)));
        let place = Place { position, last, epoch };
        match end.epoch {
            Some(found) => return Ok(is_complete(found).then_some(place)),
            None if number == header.log.segment => {
                let is_whole = is_complete(header.from_epoch.saturating_sub(1));
                return Ok(is_whole.then_some(place));
            }
            None => after = Some(place),
        }
    }
    Ok(None)
}

/// What a segment has.
struct End {
    /// Behind its last complete epoch, or where it begins.
    position: Position,
    /// That epoch.
    epoch: Option<u64>,
    /// Where its last frame begins.
    last_at: Option<u64>,
    /// The number of the frame that would follow all that are whole.
    frame: u64,
}

fn walk(pages: &Pages, generation: u128, begin: Position) -> End {
    let mut end = End { position: begin, epoch: None, last_at: None, frame: begin.frame };
    let mut at = (begin.at / WORD) as usize;
    while let Some((found, content)) = pages.words().get(at..).and_then(FrameHeader::read) {
        let is_next = (found.generation, found.number) == (generation, end.frame);
        if !is_next || end.epoch.is_some_and(|epoch| found.epoch <= epoch) {
            break;
        }
        let frame_at = at as u64 * WORD;
        at += frame_words(content.len());
        end.frame += 1;
        if found.is_last {
            (end.epoch, end.last_at) = (Some(found.epoch), Some(frame_at));
            end.position = Position { at: at as u64 * WORD, frame: end.frame, ..begin };
        }
    }
    end
}
