//! Opening: what segments say they are, and what a crash has left half done. What they hold is counted later.

use super::expiry::Wheel;
use super::hits::Hits;
use super::index::{Directory, Part};
use super::segments::{COUNTED, Lists, Phase, Segment, Use, in_mark};
use super::sketch::Sketch;
use super::space::{Stream, spare};
use super::{Cache, Count, GENERATION_MASK, LOCKS, Settings};
use ::index::hash::Hasher;
use pmem::arena::{
    Arena, BESIDE_BYTES, CAPACITY_ROOT, GRANULE, SEGMENT_HEAD_BYTES, SEGMENT_LOG2_MAX,
    SEGMENT_LOG2_MIN, SEGMENT_PARAMETER, SEGMENTS_MIN, segments_within,
};
use pmem::epoch::Epochs;
use pmem::superblock::Superblock;
use pmem::sync::{AtomicU64, Mutex, Ordering, PerThread, spin};
use pmem::{Medium, OpenError, Pool, SpaceError};
use std::ops::Range;
use std::sync::Arc;

/// Segments of a cache, about: with fewer, its queues would be coarse; with more, each would be small.
const SEGMENTS_LOG2: u32 = 11;
/// Bytes of the cache for each byte of its sketch.
const BYTES_PER_COUNTER: u64 = 16;
/// Where the pool says how often it was cleared ...
const GENERATION_ROOT: usize = 0;
/// ... the latest time that its clock has told ...
const TIME_ROOT: usize = 2;
/// ... and look-ups that found a value, and those that found none. The other root is its [capacity](CAPACITY_ROOT).
const LOOKED_UP_ROOTS: [usize; 2] = [3, 4];
/// Segments that a new pool has.
const FIRST_SEGMENTS: u32 = if cfg!(feature = "simulated") { 4 } else { 16 };

/// log2 of the bytes of a segment in a new cache of this capacity.
pub fn segment_log2(capacity_bytes: u64) -> u32 {
    let log2 = capacity_bytes.max(1).ilog2().saturating_sub(SEGMENTS_LOG2);
    log2.clamp(SEGMENT_LOG2_MIN, SEGMENT_LOG2_MAX)
}

/// Least capacity of a cache in bytes.
pub const CAPACITY_MIN: u64 = 256 << 10;
const _: () = assert!(SEGMENTS_MIN << SEGMENT_LOG2_MIN < CAPACITY_MIN - BESIDE_BYTES);

/// The capacity that a pool records.
pub fn capacity_of(superblock: &Superblock) -> u64 {
    superblock.engine_roots[CAPACITY_ROOT]
}

/// The latest time that a pool records.
pub fn recorded_ms(superblock: &Superblock) -> u64 {
    superblock.engine_roots[TIME_ROOT]
}

fn no_memory(source: std::io::Error) -> OpenError {
    OpenError::Io { action: "reserving memory for", path: "the cache".into(), source }
}

/// A pool that says something that cannot be.
fn damaged(field: &'static str, found: u64) -> OpenError {
    OpenError::Mismatch {
        field,
        found: format!("{found:#x}"),
        expected: "what a cache has".into(),
        advice: "the pool is damaged: delete it, and let the cache fill again",
    }
}

impl<M: Medium> Cache<M> {
    /// Opens the cache in a pool, or makes it if the pool is new.
    pub fn open(pool: Arc<Pool<M>>, hasher: Hasher, settings: Settings) -> Result<Self, OpenError> {
        let superblock = pool.superblock();
        let segment_log2 = superblock.engine_params[SEGMENT_PARAMETER];
        if !(u64::from(SEGMENT_LOG2_MIN)..=u64::from(SEGMENT_LOG2_MAX)).contains(&segment_log2) {
            return Err(damaged("size of segments", segment_log2));
        }
        let segment_log2 = segment_log2 as u32;
        let limit = segments_within(settings.capacity_bytes, segment_log2);
        pool.prepare_at_most(settings.capacity_bytes);
        let arena = Arena::open(pool, segment_log2, FIRST_SEGMENTS, limit)?;
        let count = arena.count();
        if count < FIRST_SEGMENTS {
            return Err(damaged("number of segments", count.into()));
        }
        let streams = match limit {
            1024.. => 4,
            256.. => 2,
            _ => 1,
        };
        let granules = u64::from(limit.max(count)) * arena.segment_bytes() / GRANULE;
        let make_streams = || (0..streams).map(|_| Mutex::new(Stream::default())).collect();
        let cache = Cache {
            epochs: Epochs::new().map_err(no_memory)?,
            hasher,
            directory: Directory::new(limit.max(count)).map_err(no_memory)?,
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            segments: (0..limit.max(count)).map(|_| Segment::new()).collect(),
            lists: Mutex::new(Lists::new(count, limit)),
            room: AtomicU64::new(0),
            streams: [make_streams(), make_streams()],
            hits: Hits::new(granules).map_err(no_memory)?,
            sketch: Sketch::new(granules * GRANULE / BYTES_PER_COUNTER).map_err(no_memory)?,
            learned: Mutex::default(),
            wheel: Wheel::new(),
            counts: PerThread::new().map_err(no_memory)?,
            looked_up_before: LOOKED_UP_ROOTS.map(|root| superblock.engine_roots[root]),
            generation: AtomicU64::new(superblock.engine_roots[GENERATION_ROOT]),
            growth: Mutex::new(()),
            counting: Mutex::new(()),
            settings,
            arena,
        };
        debug_assert!(spare(streams) < SEGMENTS_MIN);
        let recorded = superblock.engine_roots[CAPACITY_ROOT];
        let former =
            if recorded == 0 { count } else { segments_within(recorded, segment_log2).min(count) };
        cache.adopt(former, limit)?;
        let pool = cache.arena.pool();
        if !pool.is_read_only() {
            // A process that had a larger capacity may have prepared more than this one may have.
            pool.cut_unused();
        }
        if recorded != cache.settings.capacity_bytes && !cache.arena.pool().is_read_only() {
            cache.merge();
            cache.cut(limit..former)?;
            let capacity_bytes = cache.settings.capacity_bytes;
            cache.set_root(CAPACITY_ROOT, capacity_bytes)?;
            if limit < former {
                cache.arena.give_back(limit..former);
            }
        }
        Ok(cache)
    }

    fn set_root(&self, root: usize, value: u64) -> Result<(), SpaceError> {
        self.arena.pool().extend(|draft| {
            draft.engine_roots()[root] = value;
            Ok(())
        })
    }

    /// Records what time it is, so that no later opening begins before it, and how many look-ups there have been.
    pub fn record_time(&self) -> Result<(), SpaceError> {
        let looked_up = self.looked_up();
        self.arena.pool().extend(|draft| {
            let roots = draft.engine_roots();
            roots[TIME_ROOT] = self.now_ms();
            LOOKED_UP_ROOTS
                .into_iter()
                .zip(looked_up)
                .for_each(|(root, count)| roots[root] = count);
            Ok(())
        })
    }

    /// Look-ups that found a value, and those that found none, by all processes.
    pub(super) fn looked_up(&self) -> [u64; 2] {
        let of = |before: u64, count| before.saturating_add(self.counted(count));
        [of(self.looked_up_before[0], Count::Hits), of(self.looked_up_before[1], Count::Misses)]
    }

    /// Empties segments that the cache may not have any more. Nothing else happens meanwhile.
    fn cut(&self, beyond: Range<u32>) -> Result<(), OpenError> {
        if beyond.is_empty() {
            return Ok(());
        }
        match self.clear_range(&beyond) {
            true => Ok(()),
            false => Err(damaged("number of segments that stay in use", beyond.len() as u64)),
        }
    }

    /// Reads what segments are, and ends what was begun.
    ///
    /// Of those from `former` on nothing was left when the cache had its last capacity. Now it may have `limit`.
    fn adopt(&self, former: u32, limit: u32) -> Result<(), OpenError> {
        let count = self.lists.lock().count;
        let usable = match limit.min(count) {
            more if more > former && self.arena.take_back(former..more).is_err() => former,
            usable => usable.max(former.min(count)),
        };
        if usable < count {
            let beyond = usable..count;
            if self.arena.pool().is_read_only() {
                self.arena.note_hole(beyond);
            } else {
                // An opening that was cut off when the capacity was a smaller one may not have come to it.
                self.arena.give_back(beyond);
            }
        }
        let mut uses = vec![Use::Free; count as usize];
        let mut number = 0;
        while number < former {
            let state = self.arena.state(number);
            let of = Use::of_word(state).ok_or_else(|| damaged("state of a segment", state))?;
            uses[number as usize] = of;
            number += 1;
            if let Use::Large(..) = of {
                let run = in_mark(self.arena.mark(number - 1)).1.max(1);
                let end = number.checked_add(run - 1).filter(|end| *end <= count);
                let end = end.ok_or_else(|| damaged("run of segments", run.into()))?;
                uses[number as usize..end as usize].fill(Use::Rest);
                number = end;
            }
        }
        self.adopt_index(&mut uses)?;
        let mut queues: [Vec<(u32, u64)>; 2] = Default::default();
        let mut lists = self.lists.lock();
        lists.fresh = count;
        let mut last = 0;
        for (of, number) in uses.into_iter().zip(0..) {
            let segment = &self.segments[number as usize];
            segment.set_use(of);
            match of {
                Use::Index(_) => {
                    segment.set_phase(Phase::Fixed);
                    lists.index_segments += 1;
                }
                Use::Items(queue, sequence) | Use::Large(queue, sequence) => {
                    let is_large = matches!(of, Use::Large(..));
                    let (generation, run) = in_mark(self.arena.mark(number));
                    let run = if is_large { run.max(1) } else { 1 };
                    segment.begin(queue, sequence, generation, run);
                    // Where its items end is found by walking.
                    let used = u64::from(run) * self.arena.segment_bytes();
                    segment.used.store(used, Ordering::Relaxed);
                    segment.counted.store(0, Ordering::Relaxed);
                    segment.set_phase(Phase::Sealed);
                    lists.lengths[queue as usize] += run;
                    lists.sequence = lists.sequence.max(sequence);
                    queues[queue as usize].push((number, sequence));
                    last = sequence;
                }
                Use::Rest => {
                    segment.set_phase(Phase::Fixed);
                    segment.sequence.store(last, Ordering::Relaxed);
                }
                // From `usable` on there is no space behind them.
                Use::Free if number < usable => lists.free.push(number),
                Use::Free => {}
            }
        }
        for (queue, mut found) in queues.into_iter().enumerate() {
            found.sort_by_key(|(_, sequence)| *sequence);
            lists.queues[queue] = found.into();
        }
        lists.free.reverse();
        self.note_room(&lists);
        Ok(())
    }

    /// Reads which segment has which part of the index. A pool without any gets one.
    fn adopt_index(&self, uses: &mut [Use]) -> Result<(), OpenError> {
        let mut parts: Vec<(u32, Part)> = Vec::new();
        for (of, number) in uses.iter_mut().zip(0..) {
            let Use::Index(part) = *of else { continue };
            if !self.directory.can_name(part) || u64::from(part.prefix) >> part.depth != 0 {
                return Err(damaged("part of the index", of.word()));
            }
            if parts.iter().any(|(_, other)| *other == part) {
                // Of a move that had come so far that both were the same.
                self.set_use(number, Use::Free, 0);
                *of = Use::Free;
            } else {
                parts.push((number, part));
            }
        }
        if parts.is_empty() {
            if uses.iter().any(|one| *one != Use::Free) {
                return Err(damaged("number of parts of the index", 0));
            }
            // A new arena is all zero.
            self.set_use(0, Use::Index(Part::WHOLE), 0);
            uses[0] = Use::Index(Part::WHOLE);
            parts.push((0, Part::WHOLE));
        }
        // Of a split that had come so far that the new half was made.
        for place in 0..parts.len() {
            let (number, part) = parts[place];
            let [low, high] = part.halves();
            if parts.iter().any(|(_, other)| *other == high) {
                self.empty_slots_of(number, high);
                self.set_use(number, Use::Index(low), 0);
                parts[place].1 = low;
                uses[number as usize] = Use::Index(low);
            }
        }
        let covered: u64 = parts.iter().map(|(_, part)| 1u64 << (32 - part.depth)).sum();
        if covered != 1 << 32 {
            return Err(damaged("share of the index that is there", covered));
        }
        let mut is_set = vec![false; self.directory.places(Part::WHOLE).len()];
        for (number, part) in parts {
            // Parts that lie in each other leave others out.
            if self.directory.places(part).any(|place| std::mem::replace(&mut is_set[place], true))
            {
                return Err(damaged("part of the index", Use::Index(part).word()));
            }
            self.directory.set(part, number);
        }
        Ok(())
    }

    /// What a segment is for.
    pub(super) fn use_of(&self, number: u32) -> Use {
        self.segments[number as usize].of()
    }

    /// Sets what a segment is for, durably.
    pub(super) fn set_use(&self, number: u32, of: Use, mark: u64) {
        self.arena.set_state(number, of.word(), mark);
        self.segments[number as usize].set_use(of);
    }

    /// Counts what an opening has found, if that was not done yet. Waits for others who do.
    ///
    /// A process that has inherited the pool by a fork counts nothing: who counted in its parent counts no more here,
    /// and has the lock for ever.
    pub fn count_all(&self) {
        self.count_unless(&|| false);
    }

    /// As [`Cache::count_all`], and what it finds can be [swept](Cache::sweep) when its time is over, but only until
    /// `is_stopped`.
    pub fn count_unless(&self, is_stopped: &dyn Fn() -> bool) {
        if self.arena.pool().is_inherited() {
            return;
        }
        let _counting = self.counting.lock();
        for number in 0..self.segments.len() as u32 {
            let segment = &self.segments[number as usize];
            let mut turn = 0;
            while segment.counted.load(Ordering::Relaxed) != COUNTED {
                if is_stopped() {
                    return;
                }
                if !segment.take_sealed() {
                    spin(&mut turn);
                } else if segment.counted.load(Ordering::Relaxed) == COUNTED {
                    // Emptied meanwhile, and used again.
                    segment.set_phase(Phase::Sealed);
                } else {
                    self.count_segment(number);
                }
            }
        }
    }

    /// Counts what slots lead to in a segment that the caller has taken.
    fn count_segment(&self, number: u32) {
        let segment = &self.segments[number as usize];
        let start = self.arena.start_of(number);
        let end = segment.used.load(Ordering::Relaxed);
        let mut place = SEGMENT_HEAD_BYTES;
        while place < end {
            let guard = self.epochs.pin();
            let at = start.add(place);
            let Some(entry) = self.arena.entry_before(at, start.add(end), &guard) else { break };
            let hash = self.hasher.first_bytes(entry.key);
            let _lock = self.lock(hash);
            place += entry.bytes();
            let slot = super::slot_of(self.arena.granule_of(at), hash);
            if self.slot_with(hash, slot).is_some() {
                segment.count(entry.bytes());
                self.note(hash, self.arena.stamp(at));
            }
            segment.counted.store(place, Ordering::Relaxed);
        }
        segment.used.store(place, Ordering::Relaxed);
        segment.counted.store(COUNTED, Ordering::Relaxed);
        let is_sparse = segment.live_bytes.load(Ordering::Relaxed) < place / 2;
        segment.set_phase(Phase::Sealed);
        if is_sparse {
            self.note_sparse(number);
        }
    }

    /// Removes all items, in a time that does not depend on how many there are: they are there no more, and their space
    /// comes back little by little. Only each 1024th time all slots are emptied.
    pub fn clear(&self) -> Result<(), SpaceError> {
        let _growth = self.growth.lock();
        let next = self.generation.load(Ordering::Relaxed) + 1;
        if next & (GENERATION_MASK >> 1) == 0 {
            self.empty_slots();
        }
        self.set_root(GENERATION_ROOT, next)?;
        self.generation.store(next, Ordering::Release);
        self.wheel.clear(next);
        self.seal_all();
        let mut lists = self.lists.lock();
        let lists = &mut *lists;
        lists.sparse.clear();
        for queue in &mut lists.queues {
            self.drop_outdated(queue);
            lists.sparse.extend(queue.iter());
        }
        Ok(())
    }
}
