//! A cache: byte strings within a bound, the least popular of which make room.
//!
//! The space is an [arena](pmem::arena): equal segments. Some are the index (`index`), in the others items lie one
//! behind the other. A put appends its item to the open segment of a queue, and then lets a slot of the index lead to
//! it. Space comes back by the segment: the oldest one of a queue is emptied, its popular items are appended again, and
//! nothing leads to the others any more. So room is made for items of any size alike, and there is no space between
//! items that nobody could use.
//!
//! What is put is in a small queue at first, of a twenty-fifth of the segments; all others are the main queue's. If
//! room is made, the oldest segment of either queue is emptied, and their items contend for one segment of the main
//! queue (`contest`). The frame is that of S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for
//! cache eviction, SOSP 2023), and of Segcache (Yang, Yue, Rashmi, NSDI 2021), which merges segments. What decides is
//! neither's: how often items of the same history were asked for afterwards, as measured while the cache runs
//! (`learned`).
//!
//! **Crashes.** 1. A slot leads only to items that are durable: the item is fenced before the slot is stored.
//! 2. Before a segment is used again, no durable slot leads to what it had: it is walked over, item by item, once no
//! thread is adding to it, each slot that leads there is changed and made durable, and only then is its state made
//! free. The walk meets every item to which a slot can lead, since heads are durable in their order. 3. A split of the
//! index (`split`) makes the new half durable before it counts, and an opening ends what it finds begun.
//!
//! **Threads.** Look-ups take no lock: a slot is one word, and items stay in place while a thread is pinned. A change
//! holds its key's lock from its look at the slot to its store. Segments are emptied by one thread each, and used again
//! when all pins have passed that there were when that one was done.

mod batches;
mod check;
mod contest;
mod demand;
mod empty;
mod expiry;
mod hits;
mod index;
mod large;
mod learned;
mod open;
mod segments;
mod sketch;
mod space;
mod split;
mod stats;
#[cfg(test)]
mod tests;
mod walk;

pub use batches::KEYS_AHEAD;
pub use demand::Demand;
pub use open::{CAPACITY_MIN, capacity_of, recorded_ms, segment_log2};
pub use stats::CacheStats;
pub use walk::Walk;

use ::index::Record;
use ::index::hash::Hasher;
use expiry::Wheel;
use hits::Hits;
use index::{Directory, granule_in, lines_with, numbers_in, slot_of, slots_that, tag_in, tag_of};
use learned::{CLASS_BITS, Learned};
use pmem::arena::{Arena, Entry, KEY_BYTES_MAX, SEGMENT_HEAD_BYTES, VALUE_BYTES_MAX, item_bytes};
use pmem::epoch::{Epochs, Guard};
use pmem::sync::{AtomicU64, Mutex, Ordering, PerThread, fence, thread_index};
use pmem::{Medium, Offset, SpaceError};
use segments::{Lists, Queue, Segment};
use sketch::Sketch;
use space::Stream;
use std::sync::Arc;

/// Locks on keys. Each key has one of them, by its hash.
const LOCKS: u64 = if cfg!(feature = "simulated") { 4 } else { 1024 };

/// The small queue has one segment of so many.
const SMALL_SHARE: u32 = 25;

/// Bits of a stamp that are the time. Above them are those of the [class](learned) that the item had when it was kept
/// last, and of how often the cache had been cleared.
const TIME_BITS: u32 = 44;
const GENERATION_SHIFT: u32 = TIME_BITS + CLASS_BITS;
const GENERATION_MASK: u64 = (1 << (64 - GENERATION_SHIFT)) - 1;

/// Until when there is an item with this stamp, in milliseconds since 1970; 0: for ever.
const fn expires_in(stamp: u64) -> u64 {
    stamp & ((1 << TIME_BITS) - 1)
}

/// Tells the time, in milliseconds since 1970. It must not go back.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now_ms(&self) -> u64;
}

/// Why an item is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It made room.
    Evicted,
    /// Its time was over.
    Expired,
}

/// Who wants to know what has gone: key, value, and why.
pub type WhenGone = Arc<dyn Fn(&[u8], &[u8], Cause) + Send + Sync>;

/// What a cache goes by that is not recorded in the pool.
#[derive(Clone)]
pub struct Settings {
    /// Most bytes of all segments.
    pub capacity_bytes: u64,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Called after an item has gone that nobody removed or replaced, by the thread that made room. It may look up
    /// items, and do nothing else with the cache: others may be waiting for that thread.
    pub when_gone: Option<WhenGone>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

/// Why nothing was put.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The key is too long.
    #[error("the key has {found} bytes, at most {limit} are possible; use a digest of it")]
    KeyTooLong {
        /// Its bytes.
        found: usize,
        /// Longest key in bytes.
        limit: usize,
    },
    /// Key and value take more than a quarter of the cache.
    #[error(
        "key and value take {found} bytes, more than a quarter of the cache; at most {limit} are possible"
    )]
    TooLarge {
        /// Bytes of the item.
        found: u64,
        /// Most bytes of an item.
        limit: u64,
    },
    /// What would make room is being read.
    #[error("no room can be made: values that were read are still held; drop them")]
    Held,
    /// The pool has no space for the segments that every cache needs.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// Words of a thread's line of counts.
#[derive(Debug, Clone, Copy)]
enum Count {
    Hits,
    Misses,
    Insertions,
    Evictions,
    Expired,
    Refused,
    Kept,
}

/// A cache in a pool.
pub struct Cache<M: Medium> {
    arena: Arena<M>,
    epochs: Epochs,
    hasher: Hasher,
    directory: Directory,
    locks: Box<[Mutex<()>]>,
    segments: Box<[Segment]>,
    lists: Mutex<Lists>,
    /// [`Lists::room`], to be read without its lock.
    room: AtomicU64,
    /// Open segments, by queue; threads are spread over each.
    streams: [Box<[Mutex<Stream>]>; 2],
    hits: Hits,
    sketch: Sketch,
    learned: Mutex<Learned>,
    wheel: Wheel,
    counts: PerThread,
    /// Hits and misses of earlier processes.
    looked_up_before: [u64; 2],
    /// How often the cache was cleared.
    generation: AtomicU64,
    /// Serialises splits, large items and clearing.
    growth: Mutex<()>,
    /// Serialises those who count what an opening found.
    counting: Mutex<()>,
    settings: Settings,
}

/// What is to become of what a slot leads to.
enum Link {
    /// A slot leads to the new item.
    Done,
    /// Both lines are full.
    Crowded,
    /// What is there is not what was demanded.
    Refused,
    /// The cache was cleared meanwhile: what was demanded is to be looked at once more.
    Again,
}

impl<M: Medium> Cache<M> {
    /// The value of `key`, if it is there and its time is not over. Takes no lock and never waits.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Record<'_>> {
        let found = self.look_up(key);
        self.count(if found.is_some() { Count::Hits } else { Count::Misses });
        found
    }

    /// As [`Cache::get`], but it is no hit: for those who look what there is.
    pub fn peek(&self, key: &[u8]) -> Option<Record<'_>> {
        let guard = self.epochs.pin();
        let (_, _, entry) = self.find(self.hasher.first_bytes(key), key, &guard)?;
        let value = entry.value;
        self.is_current(entry.stamp).then(|| Record::new(value, guard))
    }

    #[inline]
    fn look_up(&self, key: &[u8]) -> Option<Record<'_>> {
        let guard = self.epochs.pin();
        let (_, slot, entry) = self.find(self.hasher.first_bytes(key), key, &guard)?;
        if !self.is_current(entry.stamp) {
            return None;
        }
        self.hits.add(granule_in(slot));
        let value = entry.value;
        Some(Record::new(value, guard))
    }

    /// Stores the pair, whether or not the key is there, until `expires_ms`; 0: for ever. It stays until it is
    /// replaced, removed or evicted, or its time is over.
    ///
    /// The caller has the right to write, and holds no [`Record`]: room may have to be made.
    pub fn put(&self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<(), CacheError> {
        self.put_if(key, value, expires_ms, Demand::Nothing).map(drop)
    }

    /// As [`Cache::put`], if what is there is as demanded; whether it was. What replaces a value of which the bytes
    /// were demanded ends when that would have ended.
    pub fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
        demand: Demand<'_>,
    ) -> Result<bool, CacheError> {
        let put = self.try_put(key, value, expires_ms.min((1 << TIME_BITS) - 1), demand);
        match put {
            Ok(true) => self.count(Count::Insertions),
            Ok(false) => {}
            Err(_) => self.count(Count::Refused),
        }
        put
    }

    fn try_put(
        &self,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
        demand: Demand<'_>,
    ) -> Result<bool, CacheError> {
        self.check_sizes(key, value)?;
        let bytes = item_bytes(key.len(), value.len());
        let hash = self.hasher.first_bytes(key);
        // Nothing is written in vain, as a rule.
        if demand != Demand::Nothing && !self.meets(demand, hash, key) {
            return Ok(false);
        }
        if bytes > self.segment_room() {
            return self.put_large(key, value, hash, expires_ms, demand);
        }
        self.sketch.prefetch(hash);
        let (queue, hits) = self.standing(hash, key);
        loop {
            self.ensure_room()?;
            let link = {
                let guard = self.epochs.pin();
                self.prefetch_lines(hash);
                let Some(at) = self.begin_item(queue, key, value, expires_ms) else { continue };
                self.arena.finish_item(at, key, value);
                self.arena.medium().fence();
                if hits > 0 {
                    self.hits.set(self.arena.granule_of(at), hits);
                }
                let link = self.link(hash, key, at, bytes, demand, &guard);
                self.end_item(at);
                link
            };
            match link {
                Link::Done => {
                    self.sketch.add(hash, 1);
                    return Ok(true);
                }
                Link::Refused => return Ok(false),
                Link::Again => {}
                Link::Crowded => self.relieve(hash),
            }
        }
    }

    /// Where a key's new item belongs, and its hits: where the former one is, with what that one had.
    fn standing(&self, hash: u64, key: &[u8]) -> (Queue, u8) {
        let guard = self.epochs.pin();
        match self.find(hash, key, &guard) {
            Some((_, slot, _)) => {
                let queue = self.segment_at(self.place(slot)).queue();
                (queue, self.hits.of(granule_in(slot)))
            }
            None => (Queue::Small, 0),
        }
    }

    /// Removes the key. Returns whether it was there.
    pub fn remove(&self, key: &[u8]) -> bool {
        let hash = self.hasher.first_bytes(key);
        let guard = self.epochs.pin();
        let _lock = self.lock(hash);
        let Some((slot_at, slot, entry)) = self.find(hash, key, &guard) else { return false };
        self.empty_slot(slot_at);
        self.uncount(slot, entry.bytes());
        self.is_current(entry.stamp)
    }

    /// Sets the time up to which the value of `key` is there, if it is; 0: for ever. Returns whether it is.
    pub fn touch(&self, key: &[u8], expires_ms: u64) -> bool {
        let expires_ms = expires_ms.min((1 << TIME_BITS) - 1);
        let hash = self.hasher.first_bytes(key);
        let guard = self.epochs.pin();
        let _lock = self.lock(hash);
        let Some((_, slot, entry)) = self.find(hash, key, &guard) else { return false };
        if !self.is_current(entry.stamp) {
            return false;
        }
        let stamp = expires_ms | entry.stamp & !((1 << TIME_BITS) - 1);
        self.arena.set_stamp(self.place(slot), stamp);
        if !self.has_note(slot, entry.stamp, expires_ms) {
            self.note(hash, stamp);
        }
        true
    }

    /// When the value of `key` is over, in milliseconds since 1970; 0: never. `None`: it is not there.
    pub fn expires_ms(&self, key: &[u8]) -> Option<u64> {
        let guard = self.epochs.pin();
        let (_, _, entry) = self.find(self.hasher.first_bytes(key), key, &guard)?;
        self.is_current(entry.stamp).then_some(expires_in(entry.stamp))
    }

    /// Number of items, those of which the time is over but which are still there among them. Exact when nothing
    /// writes.
    pub fn len(&self) -> u64 {
        self.count_all();
        let generation = self.generation.load(Ordering::Acquire);
        let is_current = |one: &&Segment| {
            one.generation.load(Ordering::Relaxed) == generation && one.has_items()
        };
        self.segments.iter().filter(is_current).map(|one| one.live.load(Ordering::Relaxed)).sum()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most bytes of an item: a quarter of the cache.
    pub fn item_bytes_max(&self) -> u64 {
        let quarter = u64::from(self.lists.lock().limit) / 4 * self.arena.segment_bytes();
        quarter - SEGMENT_HEAD_BYTES
    }

    /// What time it is.
    pub fn now_ms(&self) -> u64 {
        self.settings.clock.now_ms()
    }

    fn check_sizes(&self, key: &[u8], value: &[u8]) -> Result<(), CacheError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(CacheError::KeyTooLong { found: key.len(), limit: KEY_BYTES_MAX });
        }
        let found = item_bytes(key.len(), value.len());
        if found <= self.segment_room() {
            return Ok(());
        }
        let limit = self.item_bytes_max().min(VALUE_BYTES_MAX as u64);
        if found > limit { Err(CacheError::TooLarge { found, limit }) } else { Ok(()) }
    }

    /// Bytes of a segment that items may take.
    fn segment_room(&self) -> u64 {
        self.arena.segment_bytes() - SEGMENT_HEAD_BYTES
    }

    #[inline(always)]
    fn count(&self, count: Count) {
        self.counts.add(thread_index(), count as usize, 1);
    }

    fn counted(&self, count: Count) -> u64 {
        self.counts.used().map(|line| line.0[count as usize].load(Ordering::Relaxed)).sum()
    }

    /// Where the item lies to which a slot leads.
    #[inline(always)]
    fn place(&self, slot: u64) -> Offset {
        self.arena.at_granule(granule_in(slot))
    }

    /// Whether an item with this stamp has been neither cleared nor is its time over.
    #[inline(always)]
    fn is_current(&self, stamp: u64) -> bool {
        let expires_ms = expires_in(stamp);
        self.is_of_generation(stamp)
            && (expires_ms == 0 || self.settings.clock.now_ms() < expires_ms)
    }

    /// Whether an item with this stamp was put since the cache was cleared last.
    #[inline(always)]
    fn is_of_generation(&self, stamp: u64) -> bool {
        stamp >> GENERATION_SHIFT == self.generation.load(Ordering::Acquire) & GENERATION_MASK
    }

    fn lock(&self, hash: u64) -> impl Drop + '_ {
        self.locks[(hash % LOCKS) as usize].lock()
    }

    /// Fetches the lines in which a key with this hash can be.
    fn prefetch_lines(&self, hash: u64) {
        for line in lines_with(&self.arena, self.directory.segment(hash), hash) {
            self.arena.medium().prefetch(line);
        }
    }

    /// The slot of `key`, where it is, and what it leads to.
    ///
    /// Without the key's lock, a split may move the slot meanwhile: then the directory has changed, and the search
    /// begins again. A key that is found had that item when the slot was read.
    #[inline(always)]
    fn find<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Option<(Offset, u64, Entry<'a>)> {
        let medium = self.arena.medium();
        let mut segment = self.directory.segment(hash);
        loop {
            let lines = lines_with(&self.arena, segment, hash);
            medium.prefetch(lines[1]);
            for line in &lines {
                let slots = medium.load_line(*line);
                let tag = tag_of(hash);
                for number in numbers_in(slots_that(&slots, |one| tag_in(one) == tag)) {
                    let slot = slots[number as usize];
                    if slot == 0 {
                        continue;
                    }
                    self.hits.prefetch(granule_in(slot));
                    if let Some(entry) = self.arena.entry_of_key(self.place(slot), key, guard) {
                        return Some((line.word(number), slot, entry));
                    }
                }
            }
            let now = self.directory.segment(hash);
            if now == segment {
                return None;
            }
            segment = now;
        }
    }

    /// Lets a slot lead to the item at `at`, which is durable, in place of the key's former one, if there was any.
    ///
    /// If the cache was cleared since the item was begun, its put counts as one before that, and nothing has to lead to
    /// it. Nothing may, either: the next time but one that generations begin again, it would be there once more.
    fn link(
        &self,
        hash: u64,
        key: &[u8],
        at: Offset,
        bytes: u64,
        demand: Demand<'_>,
        guard: &Guard<'_>,
    ) -> Link {
        let slot = slot_of(self.arena.granule_of(at), hash);
        let mut stamp = self.arena.stamp(at);
        let _lock = self.lock(hash);
        if !self.is_of_generation(stamp) {
            return if demand == Demand::Nothing { Link::Done } else { Link::Again };
        }
        let found = self.find(hash, key, guard);
        if !self.is_met(demand, found.as_ref().map(|(_, _, entry)| entry)) {
            return Link::Refused;
        }
        if let Some((slot_at, former, entry)) = found {
            if let Demand::Value(_) = demand {
                // Durable before a slot leads to it.
                stamp = expires_in(entry.stamp) | stamp & !((1 << TIME_BITS) - 1);
                self.arena.set_stamp(at, stamp);
            }
            self.segment_at(at).count(bytes);
            self.set_slot(slot_at, slot);
            if !self.has_note(former, entry.stamp, expires_in(stamp)) {
                self.note(hash, stamp);
            }
            self.uncount(former, entry.bytes());
            return Link::Done;
        }
        // Before anybody can find it, and count it out again.
        self.segment_at(at).count(bytes);
        if self.claim(hash, slot) {
            self.note(hash, stamp);
            return Link::Done;
        }
        self.segment_at(at).uncount(0, bytes);
        Link::Crowded
    }

    /// Fills an empty slot, in the emptier one of the two lines.
    fn claim(&self, hash: u64, slot: u64) -> bool {
        let medium = self.arena.medium();
        let lines = lines_with(&self.arena, self.directory.segment(hash), hash);
        loop {
            let empty_in = |line: Offset| slots_that(&medium.load_line(line), |slot| slot == 0);
            let empty = [empty_in(lines[0]), empty_in(lines[1])];
            let counts = [empty[0].count_ones(), empty[1].count_ones()];
            // As long as there is much room, look-ups are to find their keys in the first line.
            let which = usize::from(counts[0] < 3 && counts[1] > counts[0]);
            let Some(number) = numbers_in(empty[which]).next() else { return false };
            let slot_at = lines[which].word(number);
            if medium.compare_exchange(slot_at, 0, slot).is_ok() {
                medium.flush_range(slot_at, 8);
                medium.fence();
                return true;
            }
        }
    }

    fn set_slot(&self, slot_at: Offset, slot: u64) {
        let medium = self.arena.medium();
        // Who finds the slot finds the item. A release store would keep it behind other slots of its line, too.
        fence(Ordering::Release);
        medium.store(slot_at, slot);
        medium.flush_range(slot_at, 8);
        medium.fence();
    }

    fn empty_slot(&self, slot_at: Offset) {
        self.set_slot(slot_at, 0);
    }

    fn segment_at(&self, at: Offset) -> &Segment {
        &self.segments[self.segment_of(at) as usize]
    }

    /// The number of the segment in which an item lies. A slot of a damaged pool may lead anywhere: then it is the
    /// last.
    fn segment_of(&self, at: Offset) -> u32 {
        self.arena.segment_of(at).min(self.segments.len() as u32 - 1)
    }

    /// No slot leads any more to what `slot` led to.
    fn uncount(&self, slot: u64, bytes: u64) {
        let at = self.place(slot);
        let number = self.segment_of(at);
        let segment = &self.segments[number as usize];
        let is_sparse = segment.uncount(at.0.wrapping_sub(self.arena.start_of(number).0), bytes);
        // Of one that is still appended to, its end will tell.
        if is_sparse && !segment.is_in(segments::Phase::Open) {
            self.note_sparse(number);
        }
    }
}

impl<M: Medium> std::fmt::Debug for Cache<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("settings", &self.settings).finish_non_exhaustive()
    }
}
