//! Resizing, beside running operations. The paper has none; this is that of `directory`.
//!
//! An extension adds a data table as large as all before it, with as many nodes for the stash, and about half of the
//! items of each of these move there. Whoever inserts or removes meanwhile empties some buckets besides of what has to
//! move. Of each bucket the items are copied, with few fences, and then deleted there. Nodes of the stash that belong
//! to the bucket go to the main table if there is room. A shrink is the mirror: it empties the last table. Its nodes
//! stay.

use super::bucket::Unfenced;
use super::layout::{
    BUCKET_BYTES, Bucket, LOG2_MAX, Locked, RECORD_WORDS, ROOT_LOG2, ROOT_LOWEST, ROOT_RESIZE,
    STASH_OWNER, STASHED, TABLES,
};
use super::ops::Placed;
use super::{CHANGES, Core, NO_BASE, base_of};
use crate::Settings;
use crate::directory::{Geometry, Hash, Resize, SPAN_MAX, slots_in};
use index::Fixed;
use pmem::pool::Draft;
use pmem::sync::{Ordering, spin, thread_index};
use pmem::{Medium, SpaceError};

/// Buckets that an insertion or a removal empties.
const BUCKETS_PER_CHANGE: u64 = 1;
/// log2 of the insertions and removals of a thread between its looks at the load factor, at most.
const LOOK_LOG2_MAX: u32 = 10;
/// A table shrinks only if it is then at most this full, as a part of where it grows.
const SHRINK_WITHIN: f64 = 0.9;
/// Buckets that cannot be emptied are tried again this often before a resize is given up.
const ATTEMPTS: u32 = 3;
/// Buckets between two values of the cursor, at most.
const CURSOR_STEP_MAX: u64 = 256;
/// Steps by which one operation moves the cursor, at most: one bucket may have held it up for a long way.
const CURSOR_STEPS_MAX: u64 = 16;
/// Copies of a bucket's items that share their fences.
const COPIES: usize = 8;

/// The geometry changed before anything was done: begin again.
pub(super) struct Stale;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Counts changes of the calling thread, and does what they do besides.
    #[inline(always)]
    pub(super) fn look_after(&self, inserted: u64, removed: u64) {
        let changes = inserted + removed;
        let before = self.counts.add(thread_index(), CHANGES, changes).wrapping_sub(changes);
        let geometry = self.geometry();
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
        let Settings { resize_at, shrink_at, .. } = self.settings;
        let (pairs, capacity) = (self.len() as f64, self.capacity(geometry) as f64);
        // Refused for want of space, the table fills on, and whoever then finds no room says so; or it
        // stays as large as it is.
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
    pub(super) fn make_room(&self, geometry: Geometry, hash: Hash) -> Result<(), SpaceError> {
        if geometry.is_resizing() {
            // Half of what fills its buckets may have to move: to end the resize would take as long as the table
            // is large.
            let empties = |bucket: u64| {
                geometry.sources().contains(&bucket)
                    && !self.is_drained(geometry, bucket)
                    && self.drain(geometry, bucket).is_ok()
                    && self.is_drained(geometry, bucket)
            };
            let [first, second] = self.pair_among(geometry.log2(), hash).map(empties);
            if first || second || self.geometry() != geometry {
                return Ok(());
            }
            self.finish_resize();
            if self.progress.undrained(geometry.generation()) == Some(0) {
                // Whoever emptied the last bucket has not come to say so yet.
                self.end_resize(geometry);
            }
            if self.geometry() != geometry {
                return Ok(());
            }
        }
        if self.settings.resize_at > 1.0 {
            return Err(SpaceError::Full {
                needed_bytes: self.bytes_with(geometry.log2()),
                reason:
                    "the buckets of a key are full, and `Options::resize_at` above 1 keeps the \
                         table from growing"
                        .into(),
            });
        }
        self.begin_extension(geometry)
    }

    /// About how large the pool is with one more data table of so many buckets.
    fn bytes_with(&self, log2: u32) -> u64 {
        self.pool.superblock().end.saturating_add(BUCKET_BYTES << log2)
    }

    /// Adds a data table. `Ok` also if another thread is at it.
    pub(super) fn begin_extension(&self, geometry: Geometry) -> Result<(), SpaceError> {
        // A shrink that found no room turns back.
        let log2 = geometry.used_log2() + u32::from(geometry.resize() != Resize::Shrink);
        if log2 - geometry.lowest() > SPAN_MAX {
            return Err(SpaceError::Full {
                needed_bytes: self.bytes_with(log2),
                reason: "too many of its keys belong to the same buckets".into(),
            });
        }
        self.begin(geometry, geometry.next(log2, geometry.lowest(), Resize::Extend)).map(|_| ())
    }

    /// Begins to empty the last data table, unless the table is as small as it may get; whether it has begun.
    pub(super) fn begin_shrink(&self, geometry: Geometry) -> Result<bool, SpaceError> {
        if geometry.is_resizing() || geometry.log2() <= self.shape.initial_log2 {
            return Ok(false);
        }
        // Else it would grow again at once, or find no room for everything and turn back.
        let fill = self.len() as f64 / (self.capacity(geometry) / 2) as f64;
        if fill >= self.settings.resize_at.min(1.0) * SHRINK_WITHIN {
            return Ok(false);
        }
        if self.scans.open() != 0 {
            return Ok(false);
        }
        let log2 = geometry.log2() - 1;
        self.begin(geometry, geometry.next(log2, log2, Resize::Shrink))
    }

    /// Publishes a geometry, with a new data table if it is an extension; whether it has.
    fn begin(&self, geometry: Geometry, next: Geometry) -> Result<bool, SpaceError> {
        let Some(_beginning) = self.beginning.try_lock() else { return Ok(false) };
        if self.geometry() != geometry {
            return Ok(false);
        }
        let used_log2 = next.used_log2();
        if used_log2 > LOG2_MAX || RECORD_WORDS << used_log2 > self.records.len() {
            return Err(self.pool.no_room_for("a larger table", self.bytes_with(used_log2 - 1)));
        }
        let table = (used_log2 - self.shape.initial_log2) as usize;
        let is_there = self.bases[table].load(Ordering::Acquire) != NO_BASE;
        // Before the roots say that there is a resize, of which it would tell.
        let _advancing = self.advancing.lock();
        self.reset_cursor();
        let extent = self.pool.extend(|draft| {
            write_roots(draft, next);
            // A table that was there before is as it was left: empty.
            if is_there {
                return Ok(None);
            }
            let stash = if self.stash.tables() > table {
                None
            } else {
                Some(draft.take_extent(STASH_OWNER, table as u8, self.stash.bytes_of(table))?)
            };
            let table = draft.take_extent(TABLES, table as u8, BUCKET_BYTES << (used_log2 - 1))?;
            Ok(Some((table, stash)))
        })?;
        if let Some((extent, stash)) = extent {
            if let Some(stash) = stash {
                self.stash.add(table, stash.start);
            }
            let base = base_of(table, &self.shape, extent.start);
            self.bases[table].store(base, Ordering::Release);
            // A helper has done so, or is at it: then this would wait for it, for milliseconds.
            if self.prepared_log2.load(Ordering::Relaxed) != u64::from(used_log2) {
                let records = RECORD_WORDS << (used_log2 - 1);
                self.records.advise(records..2 * records, false);
            }
        }
        self.start_resize(next, 0, next.sources().end - next.sources().start);
        self.resizes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Publishes a geometry with `undrained` buckets to be emptied of what is not in its place, none of them among
    /// the first `passed`.
    pub(super) fn start_resize(&self, next: Geometry, passed: u64, undrained: u64) {
        self.progress.start(next.generation(), passed, undrained);
        self.published.publish(next);
        if next.is_resizing() {
            self.signal.wake();
        }
    }

    /// Empties the next `count` buckets.
    pub(super) fn empty_next(&self, count: u64) {
        for _ in 0..count {
            let geometry = self.geometry();
            let sources = geometry.sources();
            if sources.is_empty() {
                return;
            }
            // In circles: a bucket may have been left, or passed by somebody who was held up. There is a power
            // of two of them.
            let nth = self.progress.take_next() & (sources.end - sources.start - 1);
            let _ = self.drain(geometry, sources.start + nth);
            let step = cursor_step(geometry);
            if (nth + 1).is_multiple_of(step) {
                self.advance_cursor(geometry, step);
            }
        }
    }

    /// Ends a resize that is under way, in the calling thread, if that can be done.
    pub(super) fn finish_resize(&self) {
        let mut turn = 0;
        for _ in 0..ATTEMPTS {
            loop {
                let geometry = self.geometry();
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

    /// Moves the items of a bucket that are not in their place.
    fn drain(&self, geometry: Geometry, bucket: u64) -> Result<(), Stale> {
        if self.is_drained(geometry, bucket) {
            return Ok(());
        }
        let _locked = Locked::wait(self.state(bucket));
        if self.geometry() != geometry {
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
            Placed::NoRoom => {
                if geometry.resize() == Resize::Shrink && self.turn_to_extension(geometry) {
                    return Err(Stale);
                }
                // It stays where it is found as well, and is tried again.
                return Ok(());
            }
        }
        self.mark_drained(geometry, bucket);
        // Not if another resize has begun since: it visits this bucket again.
        if self.progress.end_bucket(geometry.generation()) {
            self.end_resize(geometry);
        }
        Ok(())
    }

    /// The slots of a bucket whose items have their place elsewhere by now.
    ///
    /// Not those of items that never had it here: that is damage, and left to `check`. They could belong into a
    /// bucket that is being emptied itself, and two threads wait for each other.
    pub(super) fn misplaced(&self, geometry: Geometry, bucket: u64) -> u64 {
        let (medium, at) = (self.medium(), self.at(bucket));
        let is_misplaced = |slot: &usize| {
            let hash = self.hash(self.bucket.key(medium, at, *slot));
            let is_here = |log2| self.pair_among(log2, hash).contains(&bucket);
            !is_here(geometry.log2()) && geometry.places().any(is_here)
        };
        let used = self.bucket.bitmap(medium, at);
        slots_in(used).filter(is_misplaced).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Inserts the items of a locked bucket that are not in their place where that is, and then deletes them
    /// here.
    fn copy_out(&self, geometry: Geometry, bucket: u64) -> Placed {
        let (medium, at) = (self.medium(), self.at(bucket));
        let mut unfenced = Unfenced::<M, K, V, COPIES>::from(self, bucket);
        for slot in slots_in(self.misplaced(geometry, bucket)) {
            let item = self.bucket.pair(medium, at, slot);
            match self.insert(&mut unfenced, geometry, item, self.hash(item.0)) {
                Placed::Done => unfenced.end_copy(slot, item.0),
                other => return other,
            }
        }
        unfenced.commit();
        if self.state(bucket).load(Ordering::Relaxed) & STASHED != 0 {
            return self.copy_out_nodes(geometry, bucket);
        }
        Placed::Done
    }

    /// Empties the stash of what belongs to a locked bucket, as far as the main table has room, and copies the rest
    /// to nodes of the buckets that it belongs to now. (Relinked, a node would be in neither chain for a moment.)
    #[cold]
    fn copy_out_nodes(&self, geometry: Geometry, bucket: u64) -> Placed {
        let is_source = |bucket: &u64| geometry.sources().contains(bucket);
        for node in self.stash.nodes_of(bucket) {
            let item = self.stash.pair(self.medium(), node);
            let hash = self.hash(item.0);
            let pair = self.pair_among(geometry.log2(), hash);
            let takes = Bucket::<K, V>::takes(item.0);
            if pair[0] == bucket {
                // Of its buckets one is locked here, and the other may be another thread's that waits for this one.
                if takes {
                    self.copy_node_here(bucket, node, item, hash);
                }
                continue;
            }
            let mut unfenced = Unfenced::<M, K, V, 1>::from(self, bucket);
            let mut placed = Placed::NoRoom;
            if takes && !pair.iter().any(is_source) {
                placed = self.insert_into_table(&mut unfenced, geometry, item, hash);
            }
            if matches!(placed, Placed::NoRoom) {
                placed = self.insert_into_stash(&mut unfenced, geometry, pair[0], item);
            }
            match placed {
                Placed::Done => unfenced.end_copy_of_node(node, item.0),
                other => return other,
            }
        }
        Placed::Done
    }

    /// Moves a node's item into an empty slot of the locked bucket that the node belongs to, if it has one.
    fn copy_node_here(&self, bucket: u64, node: u64, item: (K, V), hash: Hash) {
        let empty = self.empty(bucket);
        if empty == 0 {
            return;
        }
        self.put_locked(bucket, empty.trailing_zeros() as usize, item, hash.print());
        self.delete_node(bucket, node);
    }

    /// Called by the thread that emptied the last bucket.
    pub(super) fn end_resize(&self, geometry: Geometry) {
        // Against another extension.
        let _beginning = self.beginning.lock();
        if self.geometry() != geometry {
            return;
        }
        let next = geometry.next(geometry.log2(), geometry.log2(), Resize::No);
        // What cannot be recorded, the next opening finds out.
        let _ = self.pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        self.start_resize(next, 0, 0);
    }

    /// A shrink that finds no room for an item becomes an extension: back to as many tables as there were.
    /// Whether the geometry has changed.
    fn turn_to_extension(&self, geometry: Geometry) -> bool {
        let _beginning = self.beginning.lock();
        if self.geometry() != geometry {
            return true;
        }
        let log2 = geometry.log2();
        let next = geometry.next(log2 + 1, log2, Resize::Extend);
        let _advancing = self.advancing.lock();
        self.reset_cursor();
        let recorded = self.pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        if recorded.is_ok() {
            self.start_resize(next, 0, next.sources().end - next.sources().start);
        }
        recorded.is_ok()
    }

    /// How many of the buckets that a resize empties, from the first one on, are empty of what has to move,
    /// durably: where recovery goes on (the paper's rehash_count).
    pub(super) fn cursor(&self) -> u64 {
        self.medium().load(self.cursor)
    }

    /// Sets the cursor back, durably, for a resize that is to begin.
    fn reset_cursor(&self) {
        if self.cursor() != 0 {
            self.medium().store(self.cursor, 0);
            self.medium().persist(self.cursor);
        }
    }

    /// Moves the cursor over the buckets that have been emptied. Without a flush: after a crash an earlier value
    /// does as well, and only takes longer.
    #[cold]
    fn advance_cursor(&self, geometry: Geometry, step: u64) {
        let Some(_advancing) = self.advancing.try_lock() else { return };
        let sources = geometry.sources();
        let before = self.cursor();
        let mut cursor = before;
        let is_drained = |bucket| self.is_drained(geometry, bucket);
        let end = sources.end.min(sources.start + before + CURSOR_STEPS_MAX * step);
        while sources.start + cursor + step <= end
            && (sources.start + cursor..sources.start + cursor + step).all(is_drained)
        {
            cursor += step;
        }
        // Another resize begins with a cursor of 0, under the same lock: that is not for this one to move.
        if cursor != before && self.geometry() == geometry {
            self.medium().store(self.cursor, cursor);
        }
    }
}

/// Buckets between two values of the cursor.
fn cursor_step(geometry: Geometry) -> u64 {
    let sources = geometry.sources();
    ((sources.end - sources.start) / 16).clamp(1, CURSOR_STEP_MAX)
}

/// Writes a geometry down.
fn write_roots(draft: &mut Draft, geometry: Geometry) {
    let roots = draft.engine_roots();
    roots[ROOT_LOG2] = geometry.log2().into();
    roots[ROOT_RESIZE] = geometry.resize() as u64;
    roots[ROOT_LOWEST] = geometry.lowest().into();
}
