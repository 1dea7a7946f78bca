//! Where items are appended, and how a put comes by a segment.

use super::empty::Keep;
use super::segments::{Phase, Queue, Use, mark_of};
use super::{Cache, CacheError, GENERATION_MASK, GENERATION_SHIFT};
use pmem::arena::{GRANULE, SEGMENT_HEAD_BYTES, item_bytes};
use pmem::sync::{Ordering, pause, thread_index};
use pmem::{Medium, Offset};
use std::collections::VecDeque;

/// The segment to which a queue is being appended.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Its number, if there is one.
    segment: Option<u32>,
    used: u64,
}

/// Segments that are kept free, for what is kept of those that are emptied: one for each stream, and one more.
pub(super) const fn spare(streams: usize) -> u64 {
    2 * streams as u64 + 1
}

/// Segments that are emptied, and wait for readers, before more are emptied.
const RETIRED_MAX: usize = if cfg!(feature = "simulated") { 2 } else { 4 };
/// How often a put tries again to make room while others hold what would be room: for seconds, since a thread that is
/// looking something up may not run for a while.
pub(super) const TRIES_MAX: u32 = if cfg!(feature = "simulated") { 8 } else { 50_000 };

impl<M: Medium> Cache<M> {
    /// Takes space for an item in a queue, and begins it there. `None`: there is no segment for it. Every item that is
    /// begun is [ended](Cache::end_item): until then its segment is not emptied.
    ///
    /// The item's head is written under the stream's lock: so it is durable before any later one is begun.
    pub(super) fn begin_item(
        &self,
        queue: Queue,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
    ) -> Option<Offset> {
        let bytes = item_bytes(key.len(), value.len());
        let streams = &self.streams[queue as usize];
        let mut stream = streams[thread_index() % streams.len()].lock();
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            if let Some(number) = stream.segment {
                let segment = &self.segments[number as usize];
                let is_current = segment.generation.load(Ordering::Relaxed) == generation;
                if is_current && stream.used + bytes <= self.arena.segment_bytes() {
                    let at = self.arena.start_of(number).add(stream.used);
                    segment.writers.fetch_add(1, Ordering::AcqRel);
                    let stamp = expires_ms | (generation & GENERATION_MASK) << GENERATION_SHIFT;
                    self.arena.begin_item(at, key, value, stamp);
                    stream.used += bytes;
                    segment.used.store(stream.used, Ordering::Release);
                    return Some(at);
                }
            }
            self.seal(&mut stream);
            stream.segment = Some(self.open_segment(queue, generation)?);
            stream.used = SEGMENT_HEAD_BYTES;
        }
    }

    /// The item at `at` has been led to, or given up.
    pub(super) fn end_item(&self, at: Offset) {
        self.segment_at(at).writers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Nothing more is appended to the stream's segment.
    fn seal(&self, stream: &mut Stream) {
        if let Some(number) = stream.segment.take() {
            let segment = &self.segments[number as usize];
            segment.set_phase(Phase::Sealed);
            if segment.live_bytes.load(Ordering::Relaxed) < stream.used / 2 {
                self.note_sparse(number);
            }
        }
    }

    /// Notes that most of a segment is dead.
    pub(super) fn note_sparse(&self, number: u32) {
        let mut lists = self.lists.lock();
        // Some have been emptied for another reason.
        if lists.sparse.len() > 2 * lists.count as usize {
            self.drop_outdated(&mut lists.sparse);
        }
        let sequence = self.segments[number as usize].sequence.load(Ordering::Relaxed);
        lists.sparse.push_back((number, sequence));
    }

    /// Seals all open segments.
    pub(super) fn seal_all(&self) {
        for stream in self.streams.iter().flatten() {
            self.seal(&mut stream.lock());
        }
    }

    /// A free segment, as the next one of a queue.
    fn open_segment(&self, queue: Queue, generation: u64) -> Option<u32> {
        let number = self.take_segment()?;
        let sequence = {
            let mut lists = self.lists.lock();
            lists.lengths[queue as usize] += 1;
            lists.next_sequence()
        };
        let segment = &self.segments[number as usize];
        segment.begin(queue, sequence, generation, 1);
        segment.used.store(SEGMENT_HEAD_BYTES, Ordering::Relaxed);
        self.clear_hits(number, 1);
        self.arena.note_time(number, self.now_ms());
        self.set_use(number, Use::Items(queue, sequence), mark_of(generation, 1));
        segment.set_phase(Phase::Open);
        let mut lists = self.lists.lock();
        let some = lists.lengths[queue as usize] as usize * 2 + 16;
        let queue = &mut lists.queues[queue as usize];
        // Of a cache whose entries are replaced segments are emptied that are not the oldest.
        if queue.len() > some {
            self.drop_outdated(queue);
        }
        queue.push_back((number, sequence));
        Some(number)
    }

    /// Drops from a list what has been emptied since, and may be in use for something else.
    pub(super) fn drop_outdated(&self, queue: &mut VecDeque<(u32, u64)>) {
        queue.retain(|&(number, sequence)| {
            let segment = &self.segments[number as usize];
            segment.sequence.load(Ordering::Relaxed) == sequence && segment.has_items()
        });
    }

    pub(super) fn clear_hits(&self, number: u32, run: u32) {
        let granules = self.arena.segment_bytes() / GRANULE;
        let first = u64::from(number) * granules;
        self.hits.clear(first..first + u64::from(run) * granules);
    }

    /// A segment that nobody uses; its state is [`Use::Free`].
    pub(super) fn take_segment(&self) -> Option<u32> {
        let mut lists = self.lists.lock();
        let taken = match lists.free.pop() {
            Some(number) => Some(number),
            None if lists.fresh < lists.limit => {
                if lists.fresh == lists.count {
                    match self.arena.grow(lists.limit) {
                        Ok(count) => lists.count = count,
                        // The disk is full: from now on the cache is as large as it is.
                        Err(_) => lists.limit = lists.count,
                    }
                }
                let number = lists.fresh;
                (number < lists.count).then(|| {
                    lists.fresh += 1;
                    number
                })
            }
            None => None,
        };
        self.note_room(&lists);
        taken
    }

    pub(super) fn note_room(&self, lists: &super::Lists) {
        self.room.store(lists.room().into(), Ordering::Relaxed);
    }

    /// Makes room for a put, unless there is: some segments are free afterwards. The caller is not pinned.
    pub(super) fn ensure_room(&self) -> Result<(), CacheError> {
        let spare = spare(self.streams[0].len());
        let mut tries = 0;
        while self.room.load(Ordering::Relaxed) < spare {
            if self.reclaim() {
                continue;
            }
            let is_waiting = self.lists.lock().retired.len() >= RETIRED_MAX;
            if !is_waiting && self.empty_next() {
                tries = 0;
                continue;
            }
            tries += 1;
            if tries > TRIES_MAX || self.epochs.is_pinned_here() {
                return Err(CacheError::Held);
            }
            pause();
        }
        Ok(())
    }

    /// Makes segments free that were emptied, if nobody can look at them any more. Whether there were any.
    pub(super) fn reclaim(&self) -> bool {
        let mut lists = self.lists.lock();
        let mut some = false;
        while let Some(&(number, moment)) = lists.retired.front() {
            if !self.epochs.has_passed(moment) {
                break;
            }
            lists.retired.pop_front();
            let run = self.segments[number as usize].run.load(Ordering::Relaxed);
            self.free_rest(number, run);
            for one in number..number + run {
                self.segments[one as usize].set_phase(Phase::Idle);
                lists.free.push(one);
            }
            some = true;
        }
        self.note_room(&lists);
        some
    }

    /// Empties what is next; whether there was anything: a segment of which most is dead, or else what is decided by a
    /// [contest](super::contest).
    fn empty_next(&self) -> bool {
        match self.next_sparse() {
            Some((number, keep)) => {
                self.empty(number, keep);
                true
            }
            None => self.contend(),
        }
    }

    /// A segment of which most is dead, taken.
    fn next_sparse(&self) -> Option<(u32, Keep)> {
        let mut lists = self.lists.lock();
        let generation = self.generation.load(Ordering::Acquire);
        while let Some((number, sequence)) = lists.sparse.pop_back() {
            let segment = &self.segments[number as usize];
            if segment.sequence.load(Ordering::Relaxed) == sequence && segment.take_sealed() {
                let is_cleared = segment.generation.load(Ordering::Relaxed) != generation;
                return Some((number, if is_cleared { Keep::Nothing } else { Keep::All }));
            }
        }
        None
    }
}
