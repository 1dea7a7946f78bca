//! A log that goes on where an earlier process has ended it.
//!
//! Who closes a pool ends its log while nobody has the right to write: the log's last frame has nothing but a random
//! mark, and the pool records where that frame is, with the mark ([`LogEnd`]). From then on the checkpoint and the log
//! are exactly what the pool holds, as they are while a process writes on. So the next one writes on, behind that frame
//! and in the same generation, and makes no checkpoint.
//!
//! It goes on only if nothing else can have become of pool or log since. The record is void once the pool has been
//! opened for writing. Nothing of the generation may follow the last frame: if something does, another process has gone
//! on, and this pool is an older copy that was put back. And the frame must have the mark: without it, the log may be
//! that of another copy of the pool, which went on from the same checkpoint. In all these cases a log of a new
//! generation begins, with a checkpoint.
//!
//! *Why no old frame can be taken for a new one.* Frames of a generation are numbered on across processes, so those in
//! reused space have lower numbers. Where frames lie that a killed process wrote behind the last one, the pool is not
//! clean, and the next log has another generation.

use super::super::checkpoint::Header;
use super::super::disk::PAGE_BYTES;
use super::super::frame::{FRAME_HEADER_WORDS, FrameHeader};
use super::super::pages::Pages;
use super::super::segments::Segments;
use super::super::writer::Position;
use super::super::{Sizes, held, names};
use super::found::Found;
use super::{Config, Durable, Image, Shared, State, Writing};
use crate::durability::LogError;
use crate::line_log::{Flushed, LineLog};
use crate::offset::{Offset, WORD};
use crate::superblock::{LogEnd, SUPERBLOCK_BYTES};
use crate::sync::forks;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE: u64 = PAGE_BYTES as u64;

/// A log that was ended, as it is found.
struct Ended {
    found: Found,
    /// Where the next frame goes.
    position: Position,
    /// The epoch of the last one.
    epoch: u64,
    /// Bytes of the log since the checkpoint.
    log_bytes: u64,
}

impl Durable {
    /// Goes on with the log that ends at `end`, where the pool was closed. Nobody may have changed the pool since, but
    /// for its superblock, and nobody changes it during the call. `None`: there is no such log, or something follows
    /// its end. Then [`Durable::start`] begins another one.
    pub fn resume(
        config: Config,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        end: LogEnd,
    ) -> Result<Option<Durable>, LogError> {
        let Some(shared) = Shared::resume(config, Sizes::default(), log, image, end)? else {
            return Ok(None);
        };
        let shared = Arc::new(shared);
        let mut durable = Durable { shared, threads: Vec::new(), forks_at_start: forks() };
        // If one cannot be started, the log ends as it was found.
        durable.start_threads().inspect_err(|_| durable.stop())?;
        durable.shared.append_superblock();
        Ok(Some(durable))
    }

    /// To be called before [`Durable::end`], while operations may still run: makes a checkpoint if else the closed pool
    /// would have to keep a long log, or two places, since it has grown.
    pub fn prepare_end(&self) {
        self.shared.prepare_end();
    }

    /// Ends the log, and says where, if the next process may go on there. Nobody may change the pool until it is
    /// recorded as clean.
    pub fn end(mut self) -> Option<LogEnd> {
        self.end_threads();
        let end = self.shared.end();
        self.stop();
        end
    }
}

impl Shared {
    pub(super) fn resume(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        end: LogEnd,
    ) -> Result<Option<Shared>, LogError> {
        if config.is_in_doubt {
            return Ok(None);
        }
        let segments = Arc::new(Segments::of(&config, sizes)?);
        let Some(ended) = find(&segments, end).map_err(segments.reading())? else {
            return Ok(None);
        };
        let Ended { found, position, epoch, log_bytes } = ended;
        let at = (position, epoch);
        let Some(shared) = Shared::go_on(config, segments, log, image, found, at, true)? else {
            return Ok(None);
        };
        shared.former_log_bytes.store(log_bytes, Ordering::Relaxed);
        held(&shared.waiting).state = State::Based;
        shared.log.start_from(epoch + 1);
        shared.begin_epochs();
        shared.publish(&held(&shared.writing));
        if shared.places.is_alone() {
            // There may be no room for another segment, and the last one may be nearly full. Nobody writes yet.
            let _ = shared.keep_once(true);
        }
        Ok(Some(shared))
    }

    /// Appends what the superblock is by now. The log has no record of what was changed in it since the log ended, and
    /// later changes are logged line by line. Waits for the flusher where a ring is smaller.
    fn append_superblock(&self) {
        let mut words = [0; (SUPERBLOCK_BYTES / WORD) as usize];
        self.image.copy(0, &mut words);
        let all = Flushed { at: Offset(0), words: words.len() as u64 };
        self.log.append(&[all], |at| words[(at.0 / WORD) as usize]);
    }

    /// Whether what there is beside the pool, the second place included, is more than a closed pool should have.
    fn is_above_rest(&self, writing: &Writing) -> bool {
        let pool_bytes = self.image.bytes();
        let segments = self.log_at_rest(writing) + self.segments.bytes(pool_bytes);
        self.places.bytes(pool_bytes) + segments > self.at_rest(pool_bytes)
    }

    /// What a closed pool may have beside it.
    fn at_rest(&self, pool_bytes: u64) -> u64 {
        pool_bytes + pool_bytes / 20 + self.segments.sizes.rest
    }

    /// Bytes of the log that a closed pool needs, and of the reserve.
    fn log_at_rest(&self, writing: &Writing) -> u64 {
        let from = writing.obsolete_before;
        let needed = writing.others.iter().filter(|&&number| number >= from);
        let current = std::iter::once(writing.writer.segment());
        let segments = needed.copied().chain(current).map(|number| self.segments.bytes_of(number));
        segments.sum::<u64>() + self.segments.sizes.segment_min
    }

    /// See [`Durable::prepare_end`].
    pub(super) fn prepare_end(&self) {
        if self.is_rejoining() {
            // Else the next opening would have to.
            let _ = self.catch_up(&held(&self.checkpointing));
        }
        let pool_bytes = self.image.bytes();
        let (is_above, log_bytes, generation) = {
            let writing = held(&self.writing);
            let generation = writing.writer.generation();
            (self.is_above_rest(&writing), self.log_at_rest(&writing), generation)
        };
        let is_long = self.places.bytes(pool_bytes) / 2 + log_bytes > self.at_rest(pool_bytes);
        let may_rest = || self.places.may_rest(generation, pool_bytes);
        if is_above && held(&self.waiting).state == State::Based && (is_long || !may_rest()) {
            // Without it more stays than has to.
            let _ = self.checkpoint();
            let _ = self.provide_spare();
        }
    }

    /// See [`Durable::end`]. No other thread uses the log any more.
    pub(super) fn end(&self) -> Option<LogEnd> {
        let mut writing = held(&self.writing);
        let is_whole =
            held(&self.waiting).state == State::Based && !self.is_in_doubt.load(Ordering::Relaxed);
        // A helper may have appended something since the last epoch.
        if !is_whole || self.write_epoch(&mut writing, false).is_err() {
            return None;
        }
        let mark = random_mark();
        let before = writing.epochs_before;
        let Writing { writer, pages, written, .. } = &mut *writing;
        pages.resize(0);
        pages.resize(FRAME_HEADER_WORDS);
        *written = self.log.seal_into(pages);
        pages.extend(ending(mark));
        writer.write_epoch(before + *written, pages).ok()?;
        let generation = writer.generation();
        let Position { segment, at, .. } = writer.position();
        self.publish(&writing);
        if self.is_above_rest(&writing) && self.places.may_rest(generation, self.image.bytes()) {
            self.places.rest();
            // Beside a small segment, or one that ends soon, the next one has to be at hand.
            let bytes = self.segments.bytes(self.image.bytes());
            let is_small = self.segments.bytes_of(writing.writer.segment()) < bytes;
            if !is_small && !writing.writer.ends_soon() {
                held(writing.writer.supply()).drop_spare(&self.segments);
            }
        }
        Some(LogEnd { segment, page: at / PAGE - 1, mark })
    }
}

/// The content of the last frame: a record of no words, so nothing that is replayed.
fn ending(mark: u64) -> [u64; 2] {
    [mark, 0]
}

fn random_mark() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The log that ends at `end`, if it is all there and nothing follows.
fn find(segments: &Segments, end: LogEnd) -> io::Result<Option<Ended>> {
    let disk = &*segments.disk;
    let Some(found) = Found::look(segments)?.filter(|found| found.last() == end.segment) else {
        return Ok(None);
    };
    let Header { generation, log: begin, to_epoch, .. } = found.checkpoint.header;
    let is_before = (begin.segment, begin.at) <= (end.segment, end.page * PAGE);
    let segment_bytes = found.log.last().map_or(0, |segment| segment.header.bytes);
    let file = disk.open(&names::segment(end.segment))?;
    // One that was made longer would be written where no restoration reads.
    let is_of_size = segment_bytes <= segments.sizes.segment_max && file.len()? == segment_bytes;
    if !is_before || end.page == 0 || !is_of_size {
        return Ok(None);
    }
    let (mut last, mut next) = (Pages::zeroed(PAGE_BYTES), Pages::zeroed(PAGE_BYTES));
    let (last_at, next_at) = (end.page * PAGE, (end.page + 1) * PAGE);
    let is_read = file.read_at(last.bytes_mut(), last_at)? == PAGE_BYTES;
    let last = match FrameHeader::read(last.words()) {
        Some((frame, content))
            if is_read
                && frame.generation == generation
                && frame.is_last
                && content == ending(end.mark) =>
        {
            frame
        }
        _ => return Ok(None),
    };
    let is_old = last.number < begin.frame || last.epoch < to_epoch;
    file.read_at(next.bytes_mut(), next_at)?;
    let follows = FrameHeader::seen_in(next.words(), generation)
        .is_some_and(|(number, epoch)| number > last.number && epoch > last.epoch);
    if is_old || follows {
        return Ok(None);
    }
    let unused_bytes = segment_bytes.saturating_sub(next_at) + begin.at;
    Ok(Some(Ended {
        position: Position { segment: end.segment, at: next_at, frame: last.number + 1 },
        epoch: last.epoch,
        log_bytes: found.log_bytes().saturating_sub(unused_bytes),
        found,
    }))
}
