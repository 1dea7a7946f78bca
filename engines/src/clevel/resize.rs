//! Non-blocking resizing: levels are appended at the back, drained and dropped at the front.
//!
//! A shrink appends two smaller levels; the rest is the same.

use super::descriptor::{Kind, Operation, Own};
use super::layout::{
    Bucket, Context, LEVEL_MAX, LEVELS, LEVELS_MAX, LOG2_MAX, Level, SLOTS, Word, capacity,
    compare_and_swap, load,
};
use super::{Core, Retired};
use crate::kit::crowded::{Room, refuse_crowd};
use crate::kit::helper::Refused;
use index::Error;
use pmem::epoch::Guard;
use pmem::sync::{Ordering, thread_index};
use pmem::{Medium, Offset, SpaceError};

/// Buckets of the front level that an insertion drains, if there is no helper or it lags behind.
const BUCKETS_PER_INSERTION: u64 = 2;
/// Buckets that a thread which ends a resize drains under one guard.
const BUCKETS_AT_ONCE: u64 = 8;
/// A helper lags behind if there are more levels than this, or if the next level is near.
const LEVELS_WITH_HELPER: u32 = 4;
/// log2 of the insertions of a thread between its looks at the load factor, at most.
const LOOK_LOG2_MAX: u32 = 10;
/// Load factor from which on a helper prepares space for the next level.
const PREPARE_AT: f64 = 0.6;
/// A table shrinks only if it is then at most this full, as a part of where it grows.
const SHRINK_WITHIN: f64 = 0.9;

/// The thread that appends a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appender {
    /// There is no way on without one: waits while another thread takes it.
    InNeed,
    /// There is room yet: leaves it to another thread that is at it.
    Early,
}

/// Word of a level's progress: the next bucket to be drained.
const NEXT: usize = 0;
/// Word of a level's progress: all buckets before this one are drained.
const DRAINED: usize = 1;

impl<M: Medium> Core<M> {
    /// Counts an insertion of this thread; does what insertions do besides.
    pub(super) fn after_insertion(&self, guard: &Guard<'_>) {
        let sum = self.count_insertion(thread_index());
        let context = self.context();
        if context.is_resizing()
            && (!self.signal.has_helper()
                || context.len() > LEVELS_WITH_HELPER
                || self.is_helper_late.load(Ordering::Relaxed))
        {
            // What finds no room is tried again by the insertions that follow.
            let _ = self.drain_some(BUCKETS_PER_INSERTION, guard);
        }
        let log2 = self.levels.get(context.back()).log2();
        let look_log2 = log2.saturating_sub(3).min(LOOK_LOG2_MAX);
        if sum & ((1 << look_log2) - 1) == 0 {
            self.look_around(context);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_around(&self, context: Context) {
        // In a pool that is full then, a level that is not drained would be lost for new keys.
        let is_late = context.is_resizing() && self.fill(context) >= PREPARE_AT;
        self.is_helper_late.store(is_late, Ordering::Relaxed);
        if !self.signal.has_helper() {
            self.grow_early(context, Appender::Early);
        } else if self.wanted_bytes(context).is_some() {
            self.signal.ask_to_prepare();
        }
    }

    /// Slots that are taken, as a part of those of the last two levels.
    fn fill(&self, context: Context) -> f64 {
        self.len() as f64 / capacity(self.levels.get(context.back()).log2()) as f64
    }

    /// Whether the next level is to be appended before an insertion finds no room.
    fn is_to_grow(&self, context: Context) -> bool {
        let resize_at = self.settings.resize_at;
        resize_at <= 1.0 && !context.is_resizing() && self.fill(context) >= resize_at
    }

    fn grow_early(&self, context: Context, appender: Appender) {
        if self.is_to_grow(context) {
            // Without space, the table keeps filling. An operation that then finds no room reports it. If another
            // thread is at it, which takes long for a large level, there is room still.
            let log2 = self.levels.get(context.back()).log2();
            let _ = self.append(context, &[log2 + 1], appender);
        }
    }

    /// Bytes that items and the next level will want soon; `None` if all that is at hand, and nothing
    /// is to be appended either.
    fn wanted_bytes(&self, context: Context) -> Option<u64> {
        let items = if self.heap.is_short() { self.heap.next_growth_bytes() } else { 0 };
        let level = self.wanted_level(context).map_or(0, Level::bytes);
        (items + level > 0 || self.is_to_grow(context)).then_some(items + level)
    }

    /// log2 of the buckets of a level that will be wanted soon, unless it is ready.
    fn wanted_level(&self, context: Context) -> Option<u32> {
        let log2 = self.levels.get(context.back()).log2() + 1;
        let is_near = self.settings.resize_at <= 1.0 && self.fill(context) >= PREPARE_AT;
        let ready =
            self.free_levels.load(Ordering::Acquire) & self.ready_levels.load(Ordering::Acquire);
        let is_ready = (1..=LEVEL_MAX)
            .any(|level| ready & 1 << level != 0 && self.levels.get(level).log2() == log2);
        (is_near && !is_ready).then_some(log2)
    }

    /// Has memory touched for what will be wanted: the page faults that a writer would meet take
    /// milliseconds.
    pub(super) fn prepare(&self) {
        let wanted = {
            let _turn = self.signal.turn();
            let _guard = self.epochs.pin();
            self.wanted_bytes(self.context())
        };
        if let Some(bytes) = wanted {
            // If it is refused, the operation that needs it gets the refusal again, with the reason.
            let _ = self.pool.prepare(bytes);
        }
    }

    /// Takes space for items and the next level before anybody waits for it, and appends the level
    /// if it is time. Pinned for moments only: in a full pool others wait for what is retired.
    pub(super) fn take_space(&self) -> Result<(), Refused> {
        let pinned = || (self.epochs.pin(), self.context());
        if self.wanted_bytes(pinned().1).is_none() && !self.heap.is_growth_asked_for() {
            return Ok(());
        }
        let _write = self.pool.write().map_err(|_| Refused)?;
        self.heap.grow_ahead().map_err(|_| Refused)?;
        let wanted = self.wanted_level(pinned().1);
        if let Some(log2) = wanted {
            let _taking = self.taking.lock();
            let level = self.take_level(log2, true).map_err(|_| Refused)?;
            self.ready_levels.fetch_or(1 << level, Ordering::AcqRel);
            self.free_levels.fetch_or(1 << level, Ordering::AcqRel);
        }
        let (_guard, context) = pinned();
        self.grow_early(context, Appender::InNeed);
        Ok(())
    }

    /// Called when the insertion of a key with this hash found no room under `context`. `Ok`: trying
    /// again makes sense.
    #[cold]
    pub(super) fn make_room(
        &self,
        context: Context,
        hash: u64,
        guard: &Guard<'_>,
    ) -> Result<(), Error> {
        if self.shift_one(context, hash, guard) {
            return Ok(());
        }
        while context.len() == LEVELS_MAX && self.context() == context {
            // There may be another level only when there is one less.
            self.drain_some(BUCKETS_AT_ONCE, guard)?;
        }
        if self.settings.resize_at > 1.0 && self.context() == context {
            let log2 = self.levels.get(context.back()).log2();
            return Err(SpaceError::Full {
                needed_bytes: self.pool.superblock().end.saturating_add(Level::bytes(log2 + 1)),
                reason:
                    "the buckets of a key are full, and `Options::resize_at` above 1 keeps the \
                         table from growing"
                        .into(),
            }
            .into());
        }
        Ok(self.grow_for_crowd(context)?)
    }

    /// As [`Core::grow`], for a key that finds no room: unless the table has far more slots than pairs already.
    fn grow_for_crowd(&self, context: Context) -> Result<(), SpaceError> {
        let slots = capacity(self.levels.get(context.back()).log2());
        refuse_crowd(self.len(), slots, Room { of_bucket: SLOTS as u32, has_way_out: true })?;
        self.grow(context)
    }

    /// Appends a level of twice the size of the back one, if no other thread has done it.
    pub(super) fn grow(&self, context: Context) -> Result<(), SpaceError> {
        self.append(context, &[self.levels.get(context.back()).log2() + 1], Appender::InNeed)
    }

    /// Appends levels of `1 << log2` buckets each to `context`, all in one step. `Ok` also if the
    /// context is another one by now, or another thread is about to make it so.
    pub(super) fn append(
        &self,
        context: Context,
        log2s: &[u32],
        appender: Appender,
    ) -> Result<(), SpaceError> {
        // Extents are taken under the pool's lock in any case. Under this one, until they are in the
        // context, threads in need together take one and not several.
        let taking = match appender {
            Appender::InNeed => Some(self.taking.lock()),
            Appender::Early => self.taking.try_lock(),
        };
        if taking.is_none() || self.context() != context {
            return Ok(());
        }
        let mut taken = Vec::new();
        let appended = log2s.iter().try_fold(context, |context_so_far, &log2| {
            if context_so_far.len() == LEVELS_MAX {
                let slots = capacity(self.levels.get(context_so_far.back()).log2());
                return Err(SpaceError::Crowded { pairs: self.len(), slots });
            }
            let level = self.take_level(log2, false)?;
            taken.push(level);
            Ok(context_so_far.pushed(level))
        });
        let is_appended =
            appended.as_ref().is_ok_and(|&after| self.replace_context(context, after));
        if is_appended {
            self.resizes.fetch_add(1, Ordering::Relaxed);
            self.signal.wake();
        } else {
            // Nobody has known of them.
            taken.into_iter().for_each(|level| self.reclaim_level(level));
        }
        appended.map(|_| ())
    }

    /// Publishes another context, durably. Whether `before` was still the one.
    fn replace_context(&self, before: Context, after: Context) -> bool {
        let is_replaced =
            self.medium().compare_exchange(self.control, before.word(), after.dirty_word()).is_ok();
        // Persists it, as its next reader would do.
        self.context();
        is_replaced
    }

    /// The context, durable. The caller is pinned, so that the word does not come back meanwhile.
    #[inline(always)]
    pub(super) fn context(&self) -> Context {
        let word = self.medium().load(self.control);
        if Context::is_dirty_word(word) {
            self.persist_context(word)
        } else {
            Context::of_word(word)
        }
    }

    #[cold]
    fn persist_context(&self, word: u64) -> Context {
        let context = Context::of_word(word);
        if !self.pool.is_read_only() {
            self.medium().persist(self.control);
            // Fails if another thread has done it, or the context has changed, which only happens
            // to a durable one.
            let _ = self.medium().compare_exchange(self.control, word, context.word());
        }
        context
    }

    /// An empty level of `1 << log2` buckets that is in no context: one made ready, a retired one, or a
    /// new extent, its memory in the sidecar touched if `populate`. The caller holds the lock for that.
    fn take_level(&self, log2: u32, populate: bool) -> Result<u32, SpaceError> {
        let full = |reason: &str| SpaceError::Full {
            needed_bytes: Level::bytes(log2),
            reason: reason.into(),
        };
        if log2 > LOG2_MAX {
            return Err(full("a level has at most 2^32 buckets"));
        }
        let free = self.free_levels.load(Ordering::Acquire);
        let is_free = |&level: &u32| free & 1 << level != 0;
        let kept =
            (1..=LEVEL_MAX).filter(is_free).find(|&level| self.levels.get(level).log2() == log2);
        let level = match kept {
            Some(level) => {
                self.free_levels.fetch_and(!(1 << level), Ordering::AcqRel);
                let ready = self.ready_levels.fetch_and(!(1 << level), Ordering::AcqRel);
                if ready & 1 << level == 0 {
                    self.empty_level(level);
                }
                level
            }
            None => {
                let unused = (1..=LEVEL_MAX).find(|&level| !self.levels.has(level));
                let level = unused.ok_or_else(|| full("it has had too many levels"))?;
                let new = self.pool.extend(|draft| {
                    let bytes = Level::bytes(log2);
                    let base = draft.take_extent(LEVELS, level as u8, bytes)?.start;
                    let new = Level::new(base, log2);
                    if self.fingerprints.can_hold(new) {
                        Ok(new)
                    } else {
                        Err(self.pool.no_room_for("its fingerprints", new.end().0))
                    }
                })?;
                self.fingerprints.advise(new, populate);
                self.levels.set(level, new);
                level
            }
        };
        let progress = &self.progress.get(level as usize).0;
        progress[NEXT].store(0, Ordering::Relaxed);
        progress[DRAINED].store(0, Ordering::Release);
        Ok(level)
    }

    /// Takes out what was left in a level that served before. Nobody knows it any more, and what a
    /// crash brings back are marks, which recovery takes off.
    fn empty_level(&self, level: u32) {
        let medium = self.medium();
        let level = self.levels.get(level);
        let slots = level.slots();
        for slot in slots.filter(|&slot| load(medium, slot) != Word::EMPTY) {
            medium.store(slot, Word::EMPTY.0);
        }
    }

    /// Drains some buckets of the front level, if the table is resizing.
    #[inline(never)]
    pub(super) fn drain_some(&self, buckets: u64, guard: &Guard<'_>) -> Result<(), Error> {
        let context = self.context();
        if !context.is_resizing() {
            return Ok(());
        }
        let front = self.levels.get(context.front());
        let progress = &self.progress.get(context.front() as usize).0;
        let end = front.buckets();
        let mine = if progress[NEXT].load(Ordering::Relaxed) < end {
            progress[NEXT].fetch_add(buckets, Ordering::Relaxed)
        } else {
            end
        };
        for index in mine..(mine + buckets).min(end) {
            self.drain_bucket(front.bucket(index), guard)?;
        }
        // What others have taken and not drained yet, or never will, is drained again from here.
        let mut drained = progress[DRAINED].load(Ordering::Acquire);
        let is_handed_out = progress[NEXT].load(Ordering::Relaxed) >= end;
        for _ in 0..2 * buckets {
            if drained == end {
                break;
            }
            let bucket = front.bucket(drained);
            if !self.is_drained(bucket) {
                if !is_handed_out {
                    break;
                }
                self.drain_bucket(bucket, guard)?;
            }
            let found = progress[DRAINED].compare_exchange(
                drained,
                drained + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            drained = found.map_or_else(|found| found, |_| drained + 1);
        }
        if drained == end && self.replace_context(context, context.without_front()) {
            self.retire(guard, Retired::Level(context.front()));
        }
        Ok(())
    }

    /// Says that the first buckets of a level are drained: found so by recovery.
    pub(super) fn skip_drained(&self, level: u32, buckets: u64) {
        let progress = &self.progress.get(level as usize).0;
        progress[NEXT].store(buckets, Ordering::Relaxed);
        progress[DRAINED].store(buckets, Ordering::Release);
    }

    /// Whether nothing is in a bucket and nothing ever will be.
    fn is_drained(&self, bucket: Bucket) -> bool {
        bucket.slots().all(|slot| load(self.medium(), slot) == Word::FROZEN)
    }

    /// Freezes every slot of a bucket, its items moved.
    fn drain_bucket(&self, bucket: Bucket, guard: &Guard<'_>) -> Result<(), Error> {
        for slot in bucket.slots() {
            loop {
                self.refuse_vanished()?;
                let word = load(self.medium(), slot);
                if word == Word::FROZEN {
                    break;
                }
                if word == Word::EMPTY || word.is_pending() {
                    // A claim that is killed is made anew elsewhere.
                    compare_and_swap(self.medium(), slot, word, Word::FROZEN);
                    continue;
                }
                let item = self.heap.item(word.at(), guard)?;
                let hash = self.hash(item.key);
                if word.is_item() {
                    self.move_item(slot, word.clean(), hash, guard)?;
                } else {
                    self.help_with(hash, guard);
                }
            }
        }
        Ok(())
    }

    /// Moves an item out of the front level, unless it changes meanwhile.
    fn move_item(
        &self,
        slot: Offset,
        word: Word,
        hash: u64,
        guard: &Guard<'_>,
    ) -> Result<(), Error> {
        let context = self.context();
        if self.take_to(context.open(), Kind::Move, slot, word, hash, guard)
            || self.shift_one(context, hash, guard)
        {
            return Ok(());
        }
        // Also in a table that may not grow by itself: a shrink that does not fit would otherwise
        // have taken the room for further keys and never end.
        Ok(self.grow_for_crowd(context)?)
    }

    /// Makes room for a key with this hash, which found none under `context`: moves one item from its
    /// buckets in the second last level to the last one. Whether one was movable.
    fn shift_one(&self, context: Context, hash: u64, guard: &Guard<'_>) -> bool {
        let [back, front] = context.open();
        for slot in self.levels.get(front).candidates(hash).into_iter().flat_map(Bucket::slots) {
            let word = load(self.medium(), slot);
            if !word.is_item() {
                continue;
            }
            // An unreadable item stays where it is. A look-up for it reports that.
            let Ok(item) = self.heap.item(word.at(), guard) else { continue };
            if self.take_to([back], Kind::Shift, slot, word.clean(), self.hash(item.key), guard) {
                return true;
            }
        }
        false
    }

    /// Takes an item out of its slot, to one in these levels. Whether there was room. Without effect
    /// even so, the slot has changed, or the room was in a level that is drained by now.
    fn take_to(
        &self,
        levels: impl IntoIterator<Item = u32>,
        kind: Kind,
        slot: Offset,
        word: Word,
        hash: u64,
        guard: &Guard<'_>,
    ) -> bool {
        let own = self.descriptors.own();
        let reference = own.next_reference();
        let claim = self.claim(levels, hash, Own::claim_word(reference, word));
        if let Some(claim) = claim {
            let operation = Operation { reference, kind, hash, old: word, new: word, slot, claim };
            self.perform(&own, &operation, guard);
        }
        claim.is_some()
    }

    pub(super) fn is_resizing(&self) -> bool {
        let _guard = self.epochs.pin();
        self.context().is_resizing()
    }

    /// Drains until the table is not resizing, in the calling thread.
    pub(super) fn finish_resize(&self) -> Result<(), Error> {
        loop {
            // A new guard each time: a long drain holds nothing back.
            let guard = self.epochs.pin();
            if !self.context().is_resizing() {
                return Ok(());
            }
            self.refuse_vanished()?;
            self.drain_some(BUCKETS_AT_ONCE, &guard)?;
        }
    }

    /// Frees dropped levels that nobody can know any more. Few things are retired by a resize alone, so nothing else
    /// might come by for long. The caller is not pinned.
    pub(super) fn collect_levels(&self) {
        self.reclaim_retired();
    }

    /// Ends a resize that is under way. What cannot be moved, a later opening moves.
    #[inline(never)]
    pub(super) fn settle(&self) {
        if self.is_resizing()
            && let Ok(_write) = self.pool.write()
        {
            let _ = self.finish_resize();
        }
        if self.epochs.is_overdue()
            && let Ok(_write) = self.pool.write()
        {
            self.reclaim_retired();
        }
        // A helper in its turn may be about to write, though nothing is left to be drained.
        self.signal.rest();
    }

    /// Appends levels of half the sizes, unless the table is too full or as small as it was made.
    /// The log2 of the buckets of the back level before, if it did.
    pub(super) fn begin_shrink(&self) -> Result<Option<u32>, SpaceError> {
        let _guard = self.epochs.pin();
        let context = self.context();
        let log2 = self.levels.get(context.back()).log2();
        if context.is_resizing() || log2 <= self.shape.initial_log2 {
            return Ok(None);
        }
        let fill = self.len() as f64 / capacity(log2 - 1) as f64;
        if fill >= self.settings.resize_at.min(1.0) * SHRINK_WITHIN {
            return Ok(None);
        }
        if !self.has_numbers_for_shrink(context, log2 - 2) {
            return Err(SpaceError::Full {
                needed_bytes: Level::bytes(log2 - 1),
                reason:
                    "the numbers of levels that are left are kept for its growth; those dropped \
                         come back when no reader holds on to them"
                        .into(),
            });
        }
        self.append(context, &[log2 - 2, log2 - 1], Appender::InNeed)?;
        Ok((self.context() != context).then_some(log2))
    }

    /// Whether levels of all sizes from `1 << log2` buckets on could be appended even if none of those
    /// dropped ever came free, or none of them is waited for.
    ///
    /// A number is taken for the life of the pool. Growth alone takes one for each size. After a
    /// shrink it takes further ones for the same sizes, as long as a reader holds on to levels that
    /// were dropped: so many shrinks beside one reader would leave a table that can never grow again.
    fn has_numbers_for_shrink(&self, context: Context, log2: u32) -> bool {
        let free = self.free_levels.load(Ordering::Acquire);
        let is_free = |level: u32| free & 1 << level != 0;
        let is_in_use = |level: u32| context.levels().any(|other| other == level);
        let (taken, unused): (Vec<u32>, Vec<u32>) =
            (1..=LEVEL_MAX).partition(|&level| self.levels.has(level));
        let has_free = |log2: u32| {
            taken.iter().any(|&level| is_free(level) && self.levels.get(level).log2() == log2)
        };
        taken.iter().all(|&level| is_free(level) || is_in_use(level))
            || (log2..=LOG2_MAX).filter(|&log2| !has_free(log2)).count() <= unused.len()
    }

    /// Bytes that levels take which no context names.
    pub(super) fn unused_bytes(&self, context: Context) -> u64 {
        let is_in_use = |level: u32| context.levels().any(|other| other == level);
        let kept = self.pool.extents_of(LEVELS).into_iter();
        kept.filter(|extent| !is_in_use(extent.index.into())).map(|extent| extent.bytes).sum()
    }
}
