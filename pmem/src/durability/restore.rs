//! From checkpoint and log to the image of a pool.

use super::SEGMENT_BYTES_MAX;
use super::changes::Changes;
use super::checkpoint::{Checkpoint, MergedTo};
use super::disk::{Disk, PAGE_BYTES, is_of_others};
use super::error::RestoreError;
use super::frame::{FrameHeader, SegmentHeader, frame_words};
use super::names;
use super::pages::{PAGE_WORDS, Pages};
use super::writer::Position;
use crate::line_log::{Record, records};
use crate::medium::Medium;
use crate::offset::WORD;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::Builder;

/// Epochs that may wait for a thread that applies them.
const EPOCHS_AHEAD: usize = 16;
/// Bytes of neighbouring words whose records one thread applies. Records of a stripe must be applied in order.
const PART_BYTES: u64 = 4096;
/// One more thread for each of this many bytes, while there are processors.
const BYTES_PER_THREAD: u64 = 4 << 20;

/// Where a log ends.
struct End {
    /// In the segment of this number.
    segment: u64,
    /// The number of the frame that would follow.
    frame: u64,
    /// What stands against that segment.
    why: Option<&'static str>,
}

/// A complete epoch of a log.
struct Epoch {
    number: u64,
    content: Vec<u64>,
    /// Where the log goes on behind it.
    behind: Position,
}

/// A pool's checkpoint and log.
pub struct SafeCopy {
    disk: Arc<dyn Disk>,
    checkpoint: Checkpoint,
    /// The last epoch that is replayed, if that is not all of them.
    last_epoch: Option<u64>,
}

/// What was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of the log's content.
    pub log_bytes: u64,
    /// Epochs that were replayed.
    pub epochs: u64,
}

impl std::fmt::Debug for SafeCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafeCopy").field("header", &self.checkpoint.header).finish_non_exhaustive()
    }
}

impl SafeCopy {
    /// The checkpoint and log in a pool's directory; `None` if there is no checkpoint.
    pub fn find(disk: Arc<dyn Disk>) -> Result<Option<SafeCopy>, RestoreError> {
        let found = Checkpoint::open(&*disk)?;
        Ok(found.map(|checkpoint| SafeCopy { disk, checkpoint, last_epoch: None }))
    }

    /// The checkpoint and its log up to this epoch, of which the log has a frame. What follows is not read, since it
    /// may be being written.
    pub(super) fn up_to(disk: Arc<dyn Disk>, epoch: u64) -> Result<SafeCopy, RestoreError> {
        let found = Checkpoint::open(&*disk)?;
        let checkpoint = found.ok_or_else(|| RestoreError::Missing { path: disk.path("") })?;
        Ok(SafeCopy { disk, checkpoint, last_epoch: Some(epoch) })
    }

    /// The checkpoint.
    pub(super) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    fn checkpoint_path(&self) -> PathBuf {
        self.path(self.checkpoint.name())
    }

    /// The pool's identity.
    pub fn uuid(&self) -> u128 {
        self.checkpoint.header.uuid
    }

    /// The generation of the log that continues it.
    pub fn generation(&self) -> u128 {
        self.checkpoint.header.generation
    }

    /// Bytes of the checkpoint's image.
    pub fn image_bytes(&self) -> u64 {
        self.checkpoint.header.image_bytes
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    /// Puts the pool's last durable image on `medium`, which must be zero. Any thread may call `progress` with the
    /// bytes read so far and the bytes in all.
    pub fn restore<M: Medium>(
        &self,
        medium: &M,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Restored, RestoreError> {
        let segments = self.segments()?;
        let log_bytes: u64 = segments.iter().map(|segment| segment.1).sum();
        let total_bytes = self.image_bytes() + log_bytes;
        medium.grow(self.image_bytes())?;
        let mut misfits = self.load(medium, &|done| progress(done, total_bytes))?;
        // Those fit their sums as soon as what was being merged is replayed, and before anything else is.
        let merging = self.checkpoint.header.merging.unwrap_or(0);
        let mut restored = Restored { checkpoint_bytes: self.image_bytes(), ..Restored::default() };
        let threads = self.threads_for(total_bytes);
        // Known when all have been started, and before any of them gets work.
        let started = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            // A small pool is restored sooner than threads are started.
            let helpers = if threads == 1 { 0 } else { threads };
            let start = |thread| {
                let (sender, receiver) = sync_channel(EPOCHS_AHEAD);
                let started = &started;
                let work = move || apply(medium, &receiver, thread, started);
                Builder::new().spawn_scoped(scope, work).ok().map(|_| sender)
            };
            let appliers: Vec<SyncSender<Work>> = (0..helpers as u64).map_while(start).collect();
            started.store(appliers.len(), Ordering::Release);
            let mut done = self.image_bytes();
            self.replay(segments, |epoch, read_bytes| {
                done += read_bytes;
                progress(done.min(total_bytes), total_bytes);
                let Some(Epoch { number, content, .. }) = epoch else { return Ok(true) };
                if number > merging && !misfits.is_empty() {
                    let all = Arc::new(Barrier::new(appliers.len() + 1));
                    appliers.iter().for_each(|applier| {
                        let _ = applier.send(Work::Meet(Arc::clone(&all)));
                    });
                    all.wait();
                    self.demand_fit(medium, &std::mem::take(&mut misfits))?;
                }
                restored.epochs += 1;
                restored.log_bytes += size_of_val(content.as_slice()) as u64;
                let ends =
                    records(&content).map(|record| record.at.word(record.content.len() as u64).0);
                let end = ends.max().unwrap_or(0);
                if end > medium.size() {
                    medium.grow(end)?;
                }
                if appliers.is_empty() {
                    apply_epoch(medium, &content, 0, 1);
                    return Ok(true);
                }
                let content = Arc::new(content);
                for applier in &appliers {
                    // Who applies does nothing that could fail.
                    let _ = applier.send(Work::Epoch(Arc::clone(&content)));
                }
                Ok(true)
            })
        })?;
        self.demand_fit(medium, &misfits)?;
        Ok(restored)
    }

    /// What the log makes of the lines that it changes, and up to where it does: to its end, or to that of the epoch
    /// with which these are so many lines. `None` if there is no epoch.
    pub(super) fn changes(
        &self,
        lines_max: usize,
    ) -> Result<Option<(Changes, MergedTo)>, RestoreError> {
        let mut changes = Changes::new();
        let mut to = None;
        self.replay(self.segments()?, |epoch, _| {
            let Some(Epoch { number, content, behind }) = epoch else { return Ok(true) };
            in_order(records(&content)).iter().for_each(|record| changes.add(record));
            to = Some(MergedTo { epoch: number, log: behind });
            Ok(changes.lines() < lines_max)
        })?;
        Ok(to.map(|to| (changes, to)))
    }

    /// An error if one of these chunks does not fit its sum on `medium`.
    fn demand_fit<M: Medium>(&self, medium: &M, chunks: &[usize]) -> Result<(), RestoreError> {
        let mut found = Vec::new();
        for &index in chunks {
            let (at, words) = self.checkpoint.chunk(index);
            found.clear();
            let places = (at..).step_by(WORD as usize).take(words);
            found.extend(places.map(|at| medium.load(crate::Offset(at))));
            if !self.checkpoint.fits(index, &found) {
                return Err(self.damaged_image(index));
            }
        }
        Ok(())
    }

    fn damaged_image(&self, chunk: usize) -> RestoreError {
        RestoreError::Damaged { path: self.checkpoint_path(), found: self.checkpoint.misfit(chunk) }
    }

    /// How many threads restore this many bytes.
    fn threads_for(&self, bytes: u64) -> usize {
        let wanted = (bytes / BYTES_PER_THREAD) as usize;
        // Writers need the other processors.
        if wanted <= 1 || self.last_epoch.is_some() {
            return 1;
        }
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        threads.min(wanted)
    }

    /// Reads the checkpoint's image. The chunks that do not fit their sums, if the log was being merged into it.
    fn load<M: Medium>(
        &self,
        medium: &M,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<usize>, RestoreError> {
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failure: Mutex<Option<RestoreError>> = Mutex::new(None);
        let misfits: Mutex<Vec<usize>> = Mutex::default();
        let path = || self.checkpoint_path();
        let load_some = || {
            let mut chunk = Pages::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.checkpoint.chunks() {
                    return Ok(());
                }
                let read = self.checkpoint.read(index, &mut chunk);
                if !read.map_err(|source| RestoreError::Io { path: path(), source })? {
                    if self.checkpoint.header.merging.is_none() {
                        return Err(self.damaged_image(index));
                    }
                    misfits.lock().unwrap_or_else(PoisonError::into_inner).push(index);
                }
                let (at, _) = self.checkpoint.chunk(index);
                for (word_at, &word) in (at..).step_by(WORD as usize).zip(chunk.words()) {
                    if word != 0 {
                        medium.store(crate::Offset(word_at), word);
                    }
                }
                let bytes = size_of_val(chunk.words()) as u64;
                progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
            }
        };
        let load_or_end = || {
            if let Err(error) = load_some() {
                next.store(usize::MAX / 2, Ordering::Relaxed);
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads_for(self.image_bytes()) {
                // Those that run do the work of one that cannot be started.
                let _ = Builder::new().spawn_scoped(scope, load_or_end);
            }
            load_or_end();
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(misfits.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Numbers and sizes of the log's segments from the checkpoint on, in order.
    fn segments(&self) -> Result<Vec<(u64, u64)>, RestoreError> {
        let io = |name: &str, source| RestoreError::Io { path: self.path(name), source };
        let names = self.disk.names().map_err(|source| io("", source))?;
        let numbers = names.iter().filter_map(|name| names::number_of(name));
        let mut numbers: Vec<u64> =
            numbers.filter(|&number| number >= self.checkpoint.header.log.segment).collect();
        numbers.sort_unstable();
        let sized = numbers.into_iter().filter_map(|number| {
            let name = names::segment(number);
            match self.disk.open(&name).and_then(|file| file.len()) {
                Ok(bytes) => Some(Ok((number, bytes))),
                Err(error) if is_of_others(&error) => None,
                Err(source) => Some(Err(io(&name, source))),
            }
        });
        sized.collect()
    }

    /// Calls `epoch` with each complete epoch of the log, in order, and with `None` for what else was read; and with
    /// the bytes read since the last call. Ends where that returns `false`.
    ///
    /// The log ends where no frame follows. A frame is written when the one before is durable: so one behind the end
    /// says that something between them is damaged or missing, and that what was durable would be lost.
    fn replay(
        &self,
        segments: Vec<(u64, u64)>,
        mut epoch: impl FnMut(Option<Epoch>, u64) -> Result<bool, RestoreError>,
    ) -> Result<(), RestoreError> {
        let header = &self.checkpoint.header;
        let mut end = End { segment: header.log.segment, frame: header.log.frame, why: None };
        // Frames of epochs that the image has are not missed, if they lie behind the log's end: a process that was
        // killed before its log had caught up may have written them.
        let in_image = header.from_epoch.saturating_sub(1);
        let mut reached = in_image;
        // The last epoch that the log completes.
        let mut complete = 0;
        let mut content: Vec<u64> = Vec::new();
        let mut pages = Pages::new();
        for (number, bytes) in segments {
            if end.why.is_some() || number != end.segment {
                end.why.get_or_insert("it is missing");
                self.read_segment(number, PAGE_BYTES as u64, &mut pages)?;
                let found = SegmentHeader::decode(pages.words());
                if found.is_some_and(|found| self.owns(&found) && found.first_frame > end.frame) {
                    return Err(self.damaged_before(&end, number));
                }
                continue;
            }
            self.read_segment(number, bytes, &mut pages)?;
            epoch(None, bytes)?;
            let is_first = number == header.log.segment;
            let found = SegmentHeader::decode(pages.words());
            end.why = match &found {
                None => Some("its header is not whole"),
                Some(found) if found.uuid != header.uuid => Some("it belongs to another pool"),
                Some(found) if !self.owns(found) || found.number != number => {
                    Some("it belongs to another log")
                }
                Some(found) if !is_first && found.first_frame != end.frame => {
                    Some("its first frame is another one")
                }
                Some(_) => None,
            };
            if end.why.is_some() {
                if self.has_frames(&pages, PAGE_WORDS, end.frame, complete.max(in_image)) {
                    return Err(self.damaged_before(&end, number));
                }
                continue;
            }
            let first_at = if is_first { header.log.at as usize / 8 } else { PAGE_WORDS };
            let mut at = first_at;
            while let Some((found, some)) =
                pages.words().get(at..).and_then(FrameHeader::read).filter(|(found, _)| {
                    (found.generation, found.number) == (header.generation, end.frame)
                        && found.epoch > complete
                })
            {
                content.extend_from_slice(some);
                at += frame_words(some.len());
                end.frame += 1;
                if found.is_last {
                    let (number, content) = (found.epoch, std::mem::take(&mut content));
                    let behind =
                        Position { segment: end.segment, at: at as u64 * WORD, frame: end.frame };
                    if number >= header.from_epoch
                        && !epoch(Some(Epoch { number, content, behind }), 0)?
                    {
                        return Ok(());
                    }
                    (reached, complete) = (found.epoch, found.epoch);
                    if self.last_epoch.is_some_and(|last| last <= reached) {
                        return Ok(());
                    }
                }
            }
            if self.has_frames(&pages, at, end.frame, complete.max(in_image)) {
                end.why = Some("a frame in it is not whole");
                return Err(self.damaged_before(&end, number));
            }
            end.segment += 1;
        }
        let needed = self.last_epoch.unwrap_or(header.to_epoch);
        if reached < needed {
            let found = format!(
                "the log ends with epoch {reached}, and the checkpoint is whole only with epoch {needed} ({})",
                end.why.unwrap_or("it is missing"),
            );
            return Err(self.damaged(end.segment, found));
        }
        Ok(())
    }

    /// Whether a segment is one of this log's.
    fn owns(&self, found: &SegmentHeader) -> bool {
        let header = &self.checkpoint.header;
        (found.uuid, found.generation) == (header.uuid, header.generation)
    }

    /// Whether there is a frame of this log from the `at`th word of a segment on, of this number or a later one, that
    /// says that an epoch behind the last `complete` one was durable: it ends one, or there is one between.
    ///
    /// One of the next epoch that does not end it says nothing. A process that was killed before its log had caught up
    /// leaves such frames, and the next one writes over the first of them. Power may be lost amid that.
    fn has_frames(&self, pages: &Pages, at: usize, number: u64, complete: u64) -> bool {
        let words = pages.words();
        let starts = (at.next_multiple_of(PAGE_WORDS)..words.len()).step_by(PAGE_WORDS);
        let generation = self.checkpoint.header.generation;
        // Before sums are made of what seems to be content.
        let is_seen = |at: &usize| FrameHeader::seen_in(&words[*at..], generation).is_some();
        let mut frames = starts.filter(is_seen).filter_map(|at| FrameHeader::read(&words[at..]));
        frames.any(|(found, _)| {
            let first_epoch = if found.is_last { complete } else { complete.saturating_add(1) };
            found.generation == generation && found.number >= number && found.epoch > first_epoch
        })
    }

    fn damaged(&self, segment: u64, found: String) -> RestoreError {
        RestoreError::Damaged { path: self.path(&names::segment(segment)), found }
    }

    fn damaged_before(&self, end: &End, later: u64) -> RestoreError {
        let why = end.why.unwrap_or("it is missing");
        let later = names::segment(later);
        let found = format!("{why}, and the log goes on behind that, in {later}");
        self.damaged(end.segment, found)
    }

    fn read_segment(&self, number: u64, bytes: u64, pages: &mut Pages) -> Result<(), RestoreError> {
        let name = names::segment(number);
        // No log wrote more, whatever the file's length says.
        let whole = bytes.min(SEGMENT_BYTES_MAX) as usize / PAGE_BYTES * PAGE_BYTES;
        pages.resize(0);
        pages.resize(whole / 8);
        let mut read =
            || -> io::Result<usize> { self.disk.open(&name)?.read_at(pages.bytes_mut(), 0) };
        read().map(drop).map_err(|source| RestoreError::Io { path: self.path(&name), source })
    }
}

/// What a thread that applies epochs is to do.
enum Work {
    Epoch(Arc<Vec<u64>>),
    /// Wait until all threads have come here.
    Meet(Arc<Barrier>),
}

/// Applies what of each epoch is this thread's, of as many as have been started.
fn apply<M: Medium>(medium: &M, work: &Receiver<Work>, thread: u64, started: &AtomicUsize) {
    while let Ok(work) = work.recv() {
        match work {
            Work::Epoch(content) => {
                apply_epoch(medium, &content, thread, started.load(Ordering::Acquire) as u64);
            }
            Work::Meet(all) => {
                all.wait();
            }
        }
    }
}

/// Applies those records of an epoch that lie in this thread's parts, each stripe's in order.
fn apply_epoch<M: Medium>(medium: &M, content: &[u64], thread: u64, threads: u64) {
    let is_own = |record: &Record<'_>| record.at.0 / PART_BYTES % threads == thread;
    for record in in_order(records(content).filter(is_own)) {
        for (word, &value) in (0..).zip(record.content) {
            medium.store(record.at.word(word), value);
        }
    }
}

/// Records of an epoch, the newer behind the older ones of its stripe.
fn in_order<'a>(records: impl Iterator<Item = Record<'a>>) -> Vec<Record<'a>> {
    let mut all: Vec<Record<'a>> = records.collect();
    all.sort_by_key(|record| record.sequence);
    all
}
