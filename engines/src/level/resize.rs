//! Resizing in place (sections 3.2 and 4.5, algorithms 5 and 6) while operations run.
//!
//! During a resize every insertion or removal also rehashes some interim buckets. There is no helper thread: a resize
//! must rehash a third of the buckets (or two thirds), and the table then has room for many times as many insertions.
//! So with a few buckets for each insertion a resize ends long before the next one.

use super::geometry::{Geometry, LEVELS_MAX, Resize};
use super::layout::{BUCKETS, BucketId, LEVEL_MAX, ROOT_LOWEST, ROOT_RESIZE, ROOT_TOP};
use super::{CHANGES, Core, NO_BASE};
use crate::Settings;
use crate::kit::buckets::{Buckets, Locked};
use crate::kit::change::Mutate;
use crate::kit::crowded::{Room, refuse_crowd};
use crate::kit::operations::Placed;
use crate::kit::progress::Copying;
use crate::kit::table::Upkeep;
use index::Fixed;
use pmem::pool::Draft;
use pmem::sync::{AtomicU64, Ordering, spin, thread_index};
use pmem::{Medium, SpaceError};

/// Interim buckets that an insertion or a removal rehashes.
const BUCKETS_PER_CHANGE: u64 = 2;
/// log2 of the insertions and removals of a thread between its looks at the load factor, at most.
const LOOK_LOG2_MAX: u32 = 10;
/// A table shrinks only if it is then at most this full, as a part of where it grows.
const SHRINK_WITHIN: f64 = 0.9;
/// Buckets that cannot be emptied are tried again this often before a resize is given up.
const ATTEMPTS: u32 = 3;

/// The geometry changed before anything was done: begin again.
pub(super) struct Stale;

impl<M: Medium, K: Fixed, V: Fixed> Core<M, K, V> {
    /// Counts changes of the calling thread, and does what they do besides.
    #[inline(always)]
    pub(super) fn look_after(&self, inserted: u64, removed: u64) {
        let changes = inserted + removed;
        let before = self.counts.add(thread_index(), CHANGES, changes).wrapping_sub(changes);
        let geometry = self.geometry();
        if geometry.resize() != Resize::No {
            self.rehash_next(changes * BUCKETS_PER_CHANGE);
        }
        let look_log2 = geometry.top().saturating_sub(3).min(LOOK_LOG2_MAX);
        if before.wrapping_add(changes) >> look_log2 != before >> look_log2 {
            self.look_around(geometry);
        }
    }

    #[cold]
    fn look_around(&self, geometry: Geometry) {
        self.compare_levels(geometry);
        if geometry.resize() != Resize::No {
            return;
        }
        let Settings { resize_at, shrink_at, .. } = self.settings;
        let (pairs, capacity) = (self.len() as f64, self.capacity(geometry) as f64);
        // Without space, the table keeps filling, and an operation that then finds no room reports it; or it stays as
        // large as it is.
        if resize_at <= 1.0 && pairs >= resize_at * capacity {
            let _ = self.begin_expansion(geometry);
        } else if pairs < shrink_at * capacity {
            let _ = self.begin_shrink(geometry);
        }
    }

    /// Finds out which level has more items, for dynamic search.
    pub(super) fn compare_levels(&self, geometry: Geometry) {
        if self.shape.design.dynamic_search {
            let [top, bottom] = [geometry.top(), geometry.bottom()].map(|level| self.len_of(level));
            self.published.set_bottom_first(bottom > top);
        }
    }

    /// Called when an item found no room under `geometry`. `Ok`: trying again makes sense.
    #[cold]
    pub(super) fn make_room(&self, geometry: Geometry) -> Result<(), SpaceError> {
        let full = || SpaceError::Full {
            needed_bytes: self
                .pool
                .superblock()
                .end
                .saturating_add(self.bucket.bytes << (geometry.top() + 1)),
            reason: "the buckets of a key are full, and `Options::resize_at` above 1 keeps the \
                     table from growing"
                .into(),
        };
        if geometry.resize() != Resize::No {
            // A resize whose keys crowd may never end: not every key of theirs is to go through all of it.
            self.refuse_crowd(geometry)?;
            self.finish_resize();
            if self.undrained(geometry) == Some(0) {
                // The thread that emptied the last bucket has not reported it yet.
                self.end_level(geometry);
            }
            if self.geometry() != geometry {
                return Ok(());
            }
        }
        if self.settings.resize_at > 1.0 {
            return Err(full());
        }
        self.refuse_crowd(geometry)?;
        self.begin_expansion(geometry)
    }

    /// An error if the table has so many slots for its pairs that a key without room is no reason to double. With one
    /// choice for each key, as experiments have it, keys crowd by themselves.
    pub(super) fn refuse_crowd(&self, geometry: Geometry) -> Result<(), SpaceError> {
        let design = self.shape.design;
        if design.two_hashes && design.two_levels && design.movement {
            let room = Room { of_bucket: self.shape.slots, has_way_out: true };
            refuse_crowd(self.len(), self.capacity(geometry), room)
        } else {
            Ok(())
        }
    }

    /// Puts a new top level on the table. `Ok` also if another thread is at it.
    pub(super) fn begin_expansion(&self, geometry: Geometry) -> Result<(), SpaceError> {
        let top = geometry.top() + 1;
        if top - geometry.lowest() >= LEVELS_MAX {
            let (pairs, slots) = (self.len(), self.capacity(geometry));
            return Err(SpaceError::Crowded { pairs, slots });
        }
        self.begin(geometry, geometry.next(top, geometry.lowest(), Resize::Expand)).map(|_| ())
    }

    /// Puts a new bottom level under the table, unless it is as small as it may get; whether it
    /// has begun to shrink.
    pub(super) fn begin_shrink(&self, geometry: Geometry) -> Result<bool, SpaceError> {
        if geometry.resize() != Resize::No || geometry.top() <= self.shape.initial_log2 {
            return Ok(false);
        }
        // Else it would grow again at once, or find no room for everything and turn back.
        let fill = self.len() as f64 / (self.capacity(geometry) / 2) as f64;
        if fill >= self.settings.resize_at.min(1.0) * SHRINK_WITHIN {
            return Ok(false);
        }
        let top = geometry.top() - 1;
        self.begin(geometry, geometry.next(top, top - 1, Resize::Shrink))
    }

    /// Takes the level that `next` has and `geometry` had not, and publishes `next`. Whether it did:
    /// another thread may be at something else.
    fn begin(&self, geometry: Geometry, next: Geometry) -> Result<bool, SpaceError> {
        let Some(_beginning) = self.beginning.try_lock() else { return Ok(false) };
        if self.geometry() != geometry {
            return Ok(false);
        }
        let top = next.top();
        let new_level = if next.resize() == Resize::Expand { top } else { next.bottom() };
        if top > LEVEL_MAX || 2usize << new_level > self.marks.len().min(self.words.len()) {
            // What the new extent would end at, about.
            let needed_bytes = self.pool.superblock().end.saturating_add(self.bucket.bytes << top);
            return Err(self.pool.no_room_for("a larger table", needed_bytes));
        }
        let is_there = self.bases[new_level as usize].load(Ordering::Acquire) != NO_BASE;
        let extent = self.pool.extend(|draft| {
            write_roots(draft, next);
            // A level that was there before is as it was left: empty.
            if is_there {
                return Ok(None);
            }
            draft.take_extent(BUCKETS, new_level as u8, self.bucket.bytes << new_level).map(Some)
        })?;
        if let Some(extent) = extent {
            let base = self.bucket.base(new_level, extent.start);
            self.bases[new_level as usize].store(base, Ordering::Release);
            self.words.advise(1 << new_level..2 << new_level, false);
        }
        self.start_rehash(next, 1 << next.interim().unwrap_or(0));
        self.resizes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Whether a resize is under way.
    pub(super) fn is_resizing(&self) -> bool {
        self.geometry().resize() != Resize::No
    }

    /// Interim buckets that have not been drained, if this geometry is still the one counted for.
    pub(super) fn undrained(&self, geometry: Geometry) -> Option<u64> {
        self.progress.undrained(geometry.generation())
    }

    /// Publishes a geometry with `undrained` interim buckets to be emptied.
    pub(super) fn start_rehash(&self, next: Geometry, undrained: u64) {
        self.progress.start(next.generation(), 0, undrained);
        self.published.publish(next);
    }

    /// Rehashes the next `count` interim buckets.
    fn rehash_next(&self, count: u64) {
        for _ in 0..count {
            let geometry = self.geometry();
            let Some(interim) = geometry.interim() else { return };
            // In circles: a bucket may have been left out, or belong to a thread that stalled.
            let next = self.progress.take_next() & ((1 << interim) - 1);
            let _ = self.drain(geometry, BucketId::new(interim, next));
        }
    }

    /// Ends a resize that is under way, in the calling thread, if that can be done.
    pub(super) fn finish_resize(&self) {
        let mut turn = 0;
        for _ in 0..ATTEMPTS {
            loop {
                let geometry = self.geometry();
                let Some(interim) = geometry.interim() else { return };
                let drained = (0..1 << interim)
                    .try_for_each(|index| self.drain(geometry, BucketId::new(interim, index)));
                if drained.is_ok() {
                    break;
                }
            }
            // All were visited; the thread that emptied the last one is about to say so.
            spin(&mut turn);
        }
    }

    fn mark_of(&self, bucket: BucketId) -> &AtomicU64 {
        self.marks.get(bucket.word as usize)
    }

    /// Marks an interim bucket as emptied in this resize.
    pub(super) fn mark_drained(&self, geometry: Geometry, bucket: BucketId) {
        self.mark_of(bucket).store(geometry.generation(), Ordering::Release);
    }

    /// Rehashes the items of an interim bucket.
    pub(super) fn drain(&self, geometry: Geometry, bucket: BucketId) -> Result<(), Stale> {
        let mark = self.mark_of(bucket);
        let is_drained = || mark.load(Ordering::Acquire) == geometry.generation();
        if is_drained() {
            return Ok(());
        }
        let _locked = Locked::wait(self.state(bucket));
        if self.geometry() != geometry {
            return Err(Stale);
        }
        if is_drained() {
            return Ok(());
        }
        match self.copy_out(geometry, bucket) {
            Placed::Done => {}
            // Nobody ends this resize while one of its buckets is not empty; only a shrink that
            // finds no room can have been turned.
            Placed::Stale => return Err(Stale),
            // It stays where it is found as well, and is tried again.
            Placed::Busy => return Ok(()),
            Placed::NoRoom => {
                if geometry.resize() == Resize::Shrink && self.turn_to_expansion(geometry) {
                    return Err(Stale);
                }
                return Ok(());
            }
        }
        debug_assert_eq!(self.tokens(self.at(bucket)), 0);
        self.mark_drained(geometry, bucket);
        // Not if another resize has begun since: it visits this bucket again.
        if self.progress.end_bucket(geometry.generation()) {
            self.end_level(geometry);
        }
        Ok(())
    }

    /// Inserts the items of a locked interim bucket into the other levels, and then deletes them
    /// here.
    fn copy_out(&self, geometry: Geometry, bucket: BucketId) -> Placed {
        let _copying = self.copying(geometry);
        self.copy_out_of(geometry, bucket, self.used(bucket))
    }

    /// Announces that items are about to be copied under this geometry, if it is one of a shrink.
    /// Each copy looks at the geometry after this.
    pub(super) fn copying(&self, geometry: Geometry) -> Option<Copying<'_>> {
        (geometry.resize() == Resize::Shrink).then(|| self.progress.begin_copying())
    }

    /// Called by the thread that emptied the last bucket of the interim level.
    pub(super) fn end_level(&self, geometry: Geometry) {
        // Against another expansion, which keeps what is interim now.
        let _beginning = self.beginning.lock();
        if self.geometry() != geometry {
            return;
        }
        if geometry.resize() == Resize::Expand {
            // Was it a shrink, somebody may be between copies and deletion of items of what is the
            // top level again: when no resize is on record, recovery does not look there. Whoever
            // that is waits for nobody, since the geometry has changed.
            let mut turn = 0;
            while self.progress.is_copying() {
                spin(&mut turn);
            }
        }
        let (top, bottom) = (geometry.top(), geometry.bottom());
        let lowest = match geometry.resize() {
            Resize::Expand => geometry.lowest() + 1,
            _ => bottom,
        };
        let resize = if lowest == bottom { Resize::No } else { Resize::Expand };
        let next = geometry.next(top, lowest, resize);
        // What cannot be recorded, the next opening finds out.
        let _ = self.pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        self.start_rehash(next, next.interim().map_or(0, |interim| 1 << interim));
        self.compare_levels(next);
    }

    /// A shrink that finds no room for an item becomes an expansion: its three levels are those
    /// of one. (The paper says that this does not happen.) Whether the geometry has changed.
    pub(super) fn turn_to_expansion(&self, geometry: Geometry) -> bool {
        let _beginning = self.beginning.lock();
        if self.geometry() != geometry {
            return true;
        }
        let next = geometry.next(geometry.top() + 1, geometry.bottom(), Resize::Expand);
        let recorded = self.pool.extend(|draft| {
            write_roots(draft, next);
            Ok(())
        });
        if recorded.is_ok() {
            self.start_rehash(next, 1 << next.interim().unwrap_or(0));
        }
        recorded.is_ok()
    }
}

/// Writes a geometry down.
pub(super) fn write_roots(draft: &mut Draft, geometry: Geometry) {
    let roots = draft.engine_roots();
    roots[ROOT_TOP] = geometry.top().into();
    roots[ROOT_RESIZE] = geometry.resize() as u64;
    roots[ROOT_LOWEST] = geometry.lowest().into();
}
