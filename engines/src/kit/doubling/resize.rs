//! Resizing while operations run.
//!
//! An extension adds a data table as large as all before it, and about half of the items of each of these move there.
//! Every insertion or removal also empties some buckets of what must move. The items of a bucket are copied, with few
//! fences, and then deleted there. A shrink does the reverse: it empties the last table.

use super::geometry::{Geometry, Pair, Resize, SPAN_MAX, pair_among};
use super::tables::{CHANGES, PAIRS, TABLES, Tables, write_roots};
use crate::Settings;
use crate::kit::buckets::Locked;
use crate::kit::change::Mutate;
use crate::kit::crowded::{Room, refuse_crowd};
use crate::kit::hash::{Hash, slots_in};
use crate::kit::helper::{Background, Refused, Signal};
use crate::kit::operations::{Operations, Placed};
use index::{Error, Shrunk};
use pmem::SpaceError;
use pmem::pool::Draft;
use pmem::superblock::Extent;
use pmem::sync::{Array, AtomicU64, Ordering, pause, spin, thread_index};

/// Buckets that an insertion or a removal empties.
const BUCKETS_PER_CHANGE: u64 = 1;
/// log2 of the insertions and removals of a thread between its looks at the load factor, at most.
const LOOK_LOG2_MAX: u32 = 10;
/// A table shrinks only if it is then at most this full, as a part of where it grows.
const SHRINK_WITHIN: f64 = 0.9;
/// Buckets that cannot be emptied are tried again this often before a resize is given up.
const ATTEMPTS: u32 = 3;
/// How often a thread with time to spare sleeps for such a thread: some milliseconds, a scheduler's slice.
const PATIENCE: u32 = 20;
/// Buckets between two values of the cursor, at most.
const CURSOR_STEP_MAX: u64 = 256;
/// Steps by which one operation moves the cursor, at most: one bucket may have held it up for a long way.
const CURSOR_STEPS_MAX: u64 = 16;
/// Buckets that a helper empties with one right to write: some 20 us of work, for which a sync waits.
const BUCKETS_PER_TURN: u64 = 16;
/// How far below the load factor of an extension the memory for it is asked for.
const PREPARE_WITHIN: f64 = 0.1;

/// The geometry changed before anything was done: begin again.
pub(crate) struct Stale;

/// A table that doubles.
pub(crate) trait Doubles: Operations<Geometry = Geometry, Bucket = u64> + 'static {
    /// Words of the sidecar for each bucket.
    const RECORD_WORDS: usize;
    /// What is full when an item finds no room.
    const FULL: &'static str;

    fn tables(&self) -> &Tables<Self::Medium>;

    /// The sidecar of the buckets.
    fn records(&self) -> &Array<AtomicU64>;

    /// Pairs that the load factor is relative to.
    fn capacity(&self, geometry: Geometry) -> u64;

    /// How room is made for a key.
    fn room_for_keys(&self) -> Room;

    /// Whether a bucket was emptied in the resize of this geometry.
    fn is_drained(&self, geometry: Geometry, bucket: u64) -> bool;

    /// Says so; the bucket is locked, or nothing else is under way.
    fn mark_drained(&self, geometry: Geometry, bucket: u64);

    /// Inserts the items of a locked bucket that are not in their place where that is, and then deletes them
    /// here.
    fn copy_out(&self, geometry: Geometry, bucket: u64) -> Placed {
        self.copy_out_of(geometry, bucket, self.misplaced(geometry, bucket))
    }

    /// Bytes that a data table brings besides its buckets.
    fn bytes_beside(&self, _table: usize) -> u64 {
        0
    }

    /// Takes the extent of those, if it is not there yet.
    fn take_beside(&self, _draft: &mut Draft, _table: usize) -> Result<Option<Extent>, SpaceError> {
        Ok(None)
    }

    /// That has been recorded.
    fn add_beside(&self, _table: usize, _extent: Extent) {}

    /// Whether what is in the sidecar besides the records suffices for `1 << log2` buckets: the system may have granted
    /// fewer addresses for it than for those.
    fn has_sidecar_for(&self, _log2: u32) -> bool {
        true
    }

    /// Called before a geometry is published.
    fn prepare_for(&self, _next: Geometry) {}

    /// The two buckets of a key among `1 << log2`.
    #[inline(always)]
    fn pair_among(&self, log2: u32, hash: Hash) -> Pair {
        pair_among(log2, self.tables().form.initial_log2, hash)
    }

    /// Counts pairs that the calling thread has inserted and removed, and does what that does besides.
    #[inline(always)]
    fn look_after(&self, inserted: u64, removed: u64) {
        let (thread, changes) = (thread_index(), inserted + removed);
        let counts = &self.tables().counts;
        counts.add(thread, PAIRS, inserted.wrapping_sub(removed));
        let before = counts.add(thread, CHANGES, changes).wrapping_sub(changes);
        let geometry = self.tables().geometry();
        if geometry.is_resizing() {
            self.empty_next(changes * BUCKETS_PER_CHANGE);
        }
        let look_log2 = geometry.log2().saturating_sub(3).min(LOOK_LOG2_MAX);
        if before.wrapping_add(changes) >> look_log2 != before >> look_log2 {
            self.look_around(geometry);
        }
    }

    #[cold]
    fn look_around(&self, geometry: Geometry) {
        if geometry.is_resizing() {
            return;
        }
        let Settings { resize_at, shrink_at, .. } = self.tables().settings;
        let (pairs, capacity) = (self.tables().len() as f64, self.capacity(geometry) as f64);
        // Without space, the table keeps filling, and an operation that then finds no room reports it; or it stays as
        // large as it is.
        if resize_at <= 1.0 && pairs >= resize_at * capacity {
            let _ = self.begin_extension(geometry);
        } else if pairs < shrink_at * capacity {
            let _ = self.begin_shrink(geometry);
        } else {
            self.prepare_if_near(geometry, pairs / capacity);
        }
    }

    /// Called when an item with this hash found no room under `geometry`. `Ok`: trying again makes sense.
    #[cold]
    fn make_room(&self, geometry: Geometry, hash: Hash) -> Result<(), SpaceError> {
        if geometry.is_resizing() {
            // Half of what fills its buckets may have to move: to end the resize would take as long as the table
            // is large.
            let empties = |bucket: u64| {
                geometry.sources().contains(&bucket)
                    && !self.is_drained(geometry, bucket)
                    && self.drain(geometry, bucket).is_ok()
                    && self.is_drained(geometry, bucket)
            };
            let pair = self.pair_among(geometry.log2(), hash);
            let [first, second] = pair.map(empties);
            if first || second || self.tables().geometry() != geometry {
                return Ok(());
            }
            // Another thread has emptied one of them since the item found no room.
            let slots = self.room_for_keys().of_bucket;
            if pair.iter().any(|&bucket| self.used(bucket).count_ones() < slots) {
                return Ok(());
            }
            // A resize whose keys crowd may never end: not every key of theirs is to go through all of it.
            self.refuse_crowd(geometry)?;
            self.finish_resize();
            if self.tables().progress.undrained(geometry.generation()) == Some(0) {
                // The thread that emptied the last bucket has not reported it yet.
                self.end_resize(geometry);
            }
            if self.tables().geometry() != geometry {
                return Ok(());
            }
        }
        if self.tables().settings.resize_at > 1.0 {
            return Err(SpaceError::Full {
                needed_bytes: self.bytes_with(geometry.log2()),
                reason: format!(
                    "{}, and `Options::resize_at` above 1 keeps the table from growing",
                    Self::FULL
                ),
            });
        }
        self.refuse_crowd(geometry)?;
        self.begin_extension(geometry)
    }

    /// An error if the table has so many slots for its pairs that a key without room is no reason to double.
    fn refuse_crowd(&self, geometry: Geometry) -> Result<(), SpaceError> {
        refuse_crowd(self.tables().len(), self.capacity(geometry), self.room_for_keys())
    }

    /// About how large the pool is with one more data table of this many buckets.
    fn bytes_with(&self, log2: u32) -> u64 {
        self.tables().pool.superblock().end.saturating_add(self.tables().form.bucket_bytes << log2)
    }

    /// Adds a data table. `Ok` also if another thread is at it.
    fn begin_extension(&self, geometry: Geometry) -> Result<(), SpaceError> {
        // A shrink that found no room turns back.
        let log2 = geometry.used_log2() + u32::from(geometry.resize() != Resize::Shrink);
        if log2 - geometry.lowest() > SPAN_MAX {
            let (pairs, slots) = (self.tables().len(), self.capacity(geometry));
            return Err(SpaceError::Crowded { pairs, slots });
        }
        self.begin(geometry, geometry.next(log2, geometry.lowest(), Resize::Extend)).map(|_| ())
    }

    /// Begins to empty the last data table, unless the table is as small as it may get; whether it has begun.
    fn begin_shrink(&self, geometry: Geometry) -> Result<bool, SpaceError> {
        if geometry.is_resizing() || geometry.log2() <= self.tables().form.initial_log2 {
            return Ok(false);
        }
        // Else it would grow again at once, or find no room for everything and turn back.
        let fill = self.tables().len() as f64 / (self.capacity(geometry) / 2) as f64;
        if fill >= self.tables().settings.resize_at.min(1.0) * SHRINK_WITHIN {
            return Ok(false);
        }
        if self.shared().scans.open() != 0 {
            return Ok(false);
        }
        let log2 = geometry.log2() - 1;
        self.begin(geometry, geometry.next(log2, log2, Resize::Shrink))
    }

    /// Publishes a geometry, with a new data table if it is an extension; whether it has.
    fn begin(&self, geometry: Geometry, next: Geometry) -> Result<bool, SpaceError> {
        let tables = self.tables();
        let Some(_beginning) = tables.beginning.try_lock() else { return Ok(false) };
        if self.tables().geometry() != geometry {
            return Ok(false);
        }
        let used_log2 = next.used_log2();
        if used_log2 > tables.form.log2_max
            || Self::RECORD_WORDS << used_log2 > self.records().len()
            || !self.has_sidecar_for(used_log2)
        {
            let needed_bytes = self.bytes_with(used_log2 - 1);
            return Err(tables.pool.no_room_for("a larger table", needed_bytes));
        }
        let table = tables.last_table(used_log2);
        let is_there = tables.has_table(table);
        // Before the roots say that there is a resize, of which it would tell.
        let _advancing = tables.advancing.lock();
        tables.reset_cursor();
        let taken = tables.pool.extend(|draft| {
            write_roots(draft, next);
            // A table that was there before is as it was left: empty.
            if is_there {
                return Ok(None);
            }
            let beside = self.take_beside(draft, table)?;
            let bytes = tables.form.bucket_bytes << (used_log2 - 1);
            Ok(Some((draft.take_extent(TABLES, table as u8, bytes)?, beside)))
        })?;
        if let Some((extent, beside)) = taken {
            if let Some(beside) = beside {
                self.add_beside(table, beside);
            }
            tables.add_table(table, extent.start);
            // A helper has done so, or is at it: then this would wait for it, for milliseconds.
            if tables.prepared_log2.load(Ordering::Relaxed) != u64::from(used_log2) {
                self.advise_records(used_log2 - 1, false);
            }
        }
        self.start_resize(next, 0, next.sources().end - next.sources().start);
        self.tables().resizes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Publishes a geometry with `undrained` buckets to be emptied of what is not in its place, none of them among
    /// the first `passed`.
    fn start_resize(&self, next: Geometry, passed: u64, undrained: u64) {
        self.prepare_for(next);
        self.tables().progress.start(next.generation(), passed, undrained);
        self.tables().published.publish(next);
        if next.is_resizing() {
            self.tables().signal.wake();
        }
    }

    /// Empties the next `count` buckets.
    fn empty_next(&self, count: u64) {
        for _ in 0..count {
            let geometry = self.tables().geometry();
            let sources = geometry.sources();
            if sources.is_empty() {
                return;
            }
            // In circles: a bucket may have been left out, or belong to a thread that stalled. There is a power of two
            // of them.
            let nth = self.tables().progress.take_next() & (sources.end - sources.start - 1);
            let _ = self.drain(geometry, sources.start + nth);
            let step = cursor_step(geometry);
            if (nth + 1).is_multiple_of(step) {
                self.advance_cursor(geometry, step);
            }
        }
    }

    /// Ends a resize that is under way, in the calling thread, if that can be done.
    fn finish_resize(&self) {
        let mut turn = 0;
        for _ in 0..ATTEMPTS {
            loop {
                let geometry = self.tables().geometry();
                if !geometry.is_resizing() {
                    return;
                }
                let drained =
                    geometry.sources().try_for_each(|bucket| self.drain(geometry, bucket));
                if drained.is_ok() {
                    break;
                }
            }
            // All were visited; the thread that emptied the last one is about to say so.
            spin(&mut turn);
        }
    }

    /// As [`Doubles::finish_resize`], and waits for a helper that is about to end it, or holds what is to be moved, and
    /// lost its processor. Otherwise repeated shrinks would fail as if the table could not become smaller.
    fn outlast_resize(&self) {
        self.finish_resize();
        let is_helped = self.tables().signal.has_helper();
        for _ in 0..if is_helped { PATIENCE } else { 0 } {
            if !self.tables().geometry().is_resizing() {
                return;
            }
            pause();
            self.finish_resize();
        }
    }

    /// Moves the items of a bucket that are not in their place.
    fn drain(&self, geometry: Geometry, bucket: u64) -> Result<(), Stale> {
        if self.is_drained(geometry, bucket) {
            return Ok(());
        }
        let _locked = Locked::wait(self.state(bucket));
        if self.tables().geometry() != geometry {
            return Err(Stale);
        }
        if self.is_drained(geometry, bucket) {
            return Ok(());
        }
        match self.copy_out(geometry, bucket) {
            Placed::Done => {}
            // Nobody ends this resize while one of its buckets is not emptied; only a shrink that
            // finds no room can have been turned.
            Placed::Stale => return Err(Stale),
            // It stays where it is found as well, and is tried again.
            Placed::Busy => return Ok(()),
            Placed::NoRoom => {
                if geometry.resize() == Resize::Shrink && self.turn_to_extension(geometry) {
                    return Err(Stale);
                }
                return Ok(());
            }
        }
        self.mark_drained(geometry, bucket);
        // Not if another resize has begun since: it visits this bucket again.
        if self.tables().progress.end_bucket(geometry.generation()) {
            self.end_resize(geometry);
        }
        Ok(())
    }

    /// The slots of a bucket whose items have their place elsewhere by now.
    ///
    /// Not those of items that never had it here: that is damage, and left to `check`. They could belong into a
    /// bucket that is being emptied itself, and two threads wait for each other.
    fn misplaced(&self, geometry: Geometry, bucket: u64) -> u64 {
        let is_misplaced = |slot: &usize| {
            let hash = self.hash(self.key_in(bucket, *slot));
            let is_here = |log2| self.pair_among(log2, hash).contains(&bucket);
            !is_here(geometry.log2()) && geometry.places().any(is_here)
        };
        slots_in(self.used(bucket)).filter(is_misplaced).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Called by the thread that emptied the last bucket.
    fn end_resize(&self, geometry: Geometry) {
        // Against another extension.
        let _beginning = self.tables().beginning.lock();
        if self.tables().geometry() != geometry {
            return;
        }
        let next = geometry.next(geometry.log2(), geometry.log2(), Resize::No);
        // What cannot be recorded, the next opening finds out.
        let _ = self.tables().pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        self.start_resize(next, 0, 0);
    }

    /// A shrink that finds no room for an item becomes an extension: back to as many tables as there were.
    /// Whether the geometry has changed.
    fn turn_to_extension(&self, geometry: Geometry) -> bool {
        let _beginning = self.tables().beginning.lock();
        if self.tables().geometry() != geometry {
            return true;
        }
        let log2 = geometry.log2();
        let next = geometry.next(log2 + 1, log2, Resize::Extend);
        let _advancing = self.tables().advancing.lock();
        self.tables().reset_cursor();
        let recorded = self.tables().pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        if recorded.is_ok() {
            self.start_resize(next, 0, next.sources().end - next.sources().start);
        }
        recorded.is_ok()
    }

    /// Moves the cursor over the buckets that have been emptied. Without a flush: after a crash an earlier value
    /// does as well, and only takes longer.
    #[cold]
    fn advance_cursor(&self, geometry: Geometry, step: u64) {
        let Some(_advancing) = self.tables().advancing.try_lock() else { return };
        let sources = geometry.sources();
        let before = self.tables().cursor();
        let mut cursor = before;
        let is_drained = |bucket| self.is_drained(geometry, bucket);
        let end = sources.end.min(sources.start + before + CURSOR_STEPS_MAX * step);
        while sources.start + cursor + step <= end
            && (sources.start + cursor..sources.start + cursor + step).all(is_drained)
        {
            cursor += step;
        }
        // Another resize begins with a cursor of 0, under the same lock: that is not for this one to move.
        if cursor != before && self.tables().geometry() == geometry {
            self.tables().set_cursor(cursor);
        }
    }

    /// Ends a resize that is under way. What cannot be written, a later opening ends.
    fn settle(&self) {
        let tables = self.tables();
        if tables.geometry().is_resizing()
            && let Ok(_write) = tables.pool.write()
        {
            loop {
                self.finish_resize();
                // An item that finds no room in its table needs another one.
                let geometry = tables.geometry();
                let may_grow = tables.settings.resize_at <= 1.0;
                if !geometry.is_resizing()
                    || !may_grow
                    || self.refuse_crowd(geometry).is_err()
                    || self.begin_extension(geometry).is_err()
                {
                    break;
                }
            }
        }
        // A helper in its turn may be about to write, though nothing is left to be moved.
        tables.signal.rest();
    }

    /// Goes on with a resize that recovery finds under way, of which `undrained` says what is not emptied.
    fn resume(&self, passed: u64, undrained: u64) {
        let tables = self.tables();
        let geometry = tables.geometry();
        if undrained == 0 && !tables.pool.is_read_only() {
            self.end_resize(geometry);
        } else {
            self.start_resize(geometry, passed, undrained);
        }
    }

    /// Hints, before anything is read of it, that the sidecar of all buckets is about to be written: with small pages
    /// an operation would wait for their addresses rather than for what is there.
    fn advise_used_records(&self) {
        let words = Self::RECORD_WORDS << self.tables().geometry().used_log2();
        self.records().advise(0..words, false);
    }

    /// Hints that the sidecar of the `1 << log2` buckets after as many will be needed, or prepares memory for it.
    fn advise_records(&self, log2: u32, populate: bool) {
        let words = Self::RECORD_WORDS << log2;
        if 2 * words <= self.records().len() {
            self.records().advise(words..2 * words, populate);
        }
    }

    /// Asks a helper for the space of the next data table if an extension is near; once for each.
    fn prepare_if_near(&self, geometry: Geometry, load_factor: f64) {
        let tables = self.tables();
        let (resize_at, next_log2) = (tables.settings.resize_at, u64::from(geometry.log2()) + 1);
        if tables.signal.has_helper()
            && resize_at <= 1.0
            && load_factor >= resize_at - PREPARE_WITHIN
            && tables.prepared_log2.swap(next_log2, Ordering::Relaxed) != next_log2
        {
            tables.signal.ask_to_prepare();
        }
    }

    /// What a helper does of a resize in one turn.
    fn help_once(&self) -> Result<(), Refused> {
        let tables = self.tables();
        let _write = tables.pool.write().map_err(|_| Refused)?;
        let geometry = tables.geometry();
        let undrained = tables.progress.undrained(geometry.generation());
        self.empty_next(BUCKETS_PER_TURN);
        if tables.geometry() != geometry
            || tables.progress.undrained(geometry.generation()) != undrained
        {
            tables.visited_in_vain.store(0, Ordering::Relaxed);
            return Ok(());
        }
        // Once around, and nothing could be moved: what is left waits for room, which only writers make.
        let visited = tables.visited_in_vain.fetch_add(BUCKETS_PER_TURN, Ordering::Relaxed);
        let sources = geometry.sources();
        if visited + BUCKETS_PER_TURN < sources.end - sources.start {
            return Ok(());
        }
        tables.visited_in_vain.store(0, Ordering::Relaxed);
        Err(Refused)
    }

    /// Prepares memory for the next data table.
    fn have_memory(&self) {
        let tables = self.tables();
        let log2 = tables.geometry().log2();
        let beside = self.bytes_beside(tables.last_table(log2 + 1));
        // Refused now, it is asked for again when the extension is due, and reported there.
        let _ = tables.pool.prepare((tables.form.bucket_bytes << log2) + beside);
        self.advise_records(log2, true);
    }
}

/// What helpers do for a table that doubles: they empty buckets during a resize, and prepare memory.
impl<T: Doubles> Background for T {
    /// Some 150 us of work.
    fn turns_at_once(&self) -> Option<u32> {
        Some(8)
    }

    fn signal(&self) -> &Signal {
        &self.tables().signal
    }

    fn is_resizing(&self) -> bool {
        self.tables().geometry().is_resizing()
    }

    fn take_turn(&self) -> Result<(), Refused> {
        self.help_once()
    }

    fn prepare(&self) {
        self.have_memory();
    }
}

/// Halves a table, if it may; waits for helpers.
pub(crate) fn shrink<T: Doubles>(table: &T) -> Result<Shrunk, Error> {
    table.outlast_resize();
    let geometry = table.tables().geometry();
    if !table.begin_shrink(geometry)? {
        return Ok(Shrunk::Kept);
    }
    table.outlast_resize();
    let has_halved = table.tables().geometry().log2() < geometry.log2();
    Ok(if has_halved { Shrunk::Halved } else { Shrunk::Kept })
}

/// Doubles a table in the calling thread, whatever the settings say of growth.
pub(crate) fn extend<T: Doubles>(table: &T) -> Result<(), Error> {
    table.finish_resize();
    table.begin_extension(table.tables().geometry())?;
    table.finish_resize();
    Ok(())
}

/// Buckets between two values of the cursor.
fn cursor_step(geometry: Geometry) -> u64 {
    let sources = geometry.sources();
    ((sources.end - sources.start) / 16).clamp(1, CURSOR_STEP_MAX)
}
