//! Search, insertion, update and deletion, in the order of the slides.

use super::descriptor::{Kind, Operation, Own, Status};
use super::fingerprints::fingerprint_of;
use super::layout::{Bucket, Context, ITEMS_END, SLOTS, Word, exchange, load, tag};
use super::{Core, Retired};
use index::{Change, Error};
use pmem::epoch::{Guard, Retries};
use pmem::heap::{Corrupt, Item};
use pmem::{Medium, Offset, SpaceError};

/// How often an insertion that finds the pool full tries to get back what was retired, if helpers
/// that are in their turns may be holding it.
const INSERTIONS_WHEN_FULL: u32 = 20;

/// Of a key's slots in a table that is not resizing, the bits of those in the front level.
const FRONT_SLOTS: u32 = (1 << (2 * SLOTS)) - 1;

/// Where a key was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit<'a> {
    pub(super) slot: Offset,
    /// What leads to the item.
    pub(super) word: Word,
    pub(super) item: Item<'a>,
}

/// What a mutation makes of the value that it finds.
pub(super) type Decide<'d, 'v> = dyn Fn(Option<&[u8]>) -> Change<&'v [u8]> + 'd;

/// What a change came to.
pub(super) struct Changed<'a> {
    /// The item that was there before.
    pub(super) before: Option<Item<'a>>,
    /// Whether what was decided has been done; not so if it was to keep what is there.
    pub(super) is_done: bool,
}

/// An item that no slot leads to yet.
pub(super) struct Fresh {
    pub(super) at: Offset,
    bytes: u64,
}

/// The first slot of these buckets whose bit is set.
#[inline(always)]
pub(super) fn slot_of(buckets: &[Bucket], matching: u32) -> Offset {
    let index = matching.trailing_zeros() as usize;
    buckets[index / SLOTS].slot((index % SLOTS) as u64)
}

impl<M: Medium> Core<M> {
    /// Lock-free search. What is answered is durable.
    #[inline(always)]
    pub(super) fn search<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        match self.search_at_rest(hash, key, guard) {
            Some(found) => Ok(found),
            None => self.search_anyhow(hash, key, guard),
        }
    }

    /// The search of a table at rest that meets nothing but durable items; `None` if it meets anything
    /// else, or finds nothing and an item may have moved. In line, with few instructions and none that
    /// waits for a guess: so the misses of one search overlap with those of the next.
    #[inline(always)]
    pub(super) fn search_at_rest<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Option<Option<Hit<'a>>> {
        let context = self.context();
        let (buckets, matching) = self.matching_at_rest(context, hash)?;
        let mut rest = matching;
        while rest != 0 {
            let slot = slot_of(&buckets, rest);
            rest &= rest - 1;
            let word = load(self.medium(), slot);
            if word.is_clean_item_of(hash) {
                if let Some(item) = self.heap.item_of_key(word.at(), key, guard).ok()? {
                    return Some(Some(Hit { slot, word, item }));
                }
            } else if word.has_tag(tag(hash)) {
                return None;
            }
        }
        // From a slot of the front level the key's item may have left after the fingerprints of the back
        // level were read.
        (matching & FRONT_SLOTS == 0 && self.context() == context).then_some(None)
    }

    /// Redone if nothing was found and a level has been appended meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn search_anyhow<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        loop {
            let context = self.context();
            let mut is_removal_seen = false;
            if let Some(hit) = self.probe(context, hash, key, guard, &mut is_removal_seen)? {
                if hit.word.is_dirty() {
                    self.make_durable(hit.slot, hit.word.clean());
                }
                return Ok(Some(hit));
            }
            if is_removal_seen {
                self.medium().fence();
            }
            // Levels dropped have been drained before.
            if self.context().back() == context.back() {
                return Ok(None);
            }
        }
    }

    /// The buckets of a key in a table that is not resizing, those of the front level first, and a bit
    /// for each of their slots that may lead to it; of all of them together, since in which one it is
    /// cannot be predicted.
    #[inline(always)]
    pub(super) fn matching_at_rest(
        &self,
        context: Context,
        hash: u64,
    ) -> Option<([Bucket; 4], u32)> {
        let [front, back] = context.at_rest()?.map(|level| self.levels.get(level).candidates(hash));
        // While the fingerprints are on their way. Those of the other level, which has a third of the
        // keys, would cost all searches more than they save it.
        back.into_iter().for_each(|bucket| self.medium().prefetch(bucket.at()));
        let matching = self.fingerprints.matching([front, back], fingerprint_of(tag(hash)));
        Some(([front[0], front[1], back[0], back[1]], matching))
    }

    /// Looks once at every candidate bucket of these levels for the key, from front to back. Flushes
    /// lines in which a key of this tag may have been removed, and says that there were some.
    pub(super) fn probe<'a>(
        &'a self,
        context: Context,
        hash: u64,
        key: &[u8],
        guard: &Guard<'a>,
        is_removal_seen: &mut bool,
    ) -> Result<Option<Hit<'a>>, Corrupt> {
        // One level after the other, as items move.
        for level in context.levels() {
            let buckets = self.levels.get(level).candidates(hash);
            let mut matching = self.fingerprints.matching([buckets], fingerprint_of(tag(hash)));
            while matching != 0 {
                let slot = slot_of(&buckets, matching);
                matching &= matching - 1;
                let word = load(self.medium(), slot);
                if !word.has_tag(tag(hash)) {
                    continue;
                }
                if word.is_item() {
                    if let Some(item) = self.heap.item_of_key(word.at(), key, guard)? {
                        return Ok(Some(Hit { slot, word, item }));
                    }
                } else if word.is_gone() {
                    self.medium().flush(slot);
                    *is_removal_seen = true;
                }
            }
        }
        Ok(None)
    }

    /// Makes sure that what was read in a slot survives, before anybody is told of it.
    #[cold]
    pub(super) fn make_durable(&self, slot: Offset, word: Word) {
        if !self.pool.is_read_only() {
            self.medium().persist(slot);
            self.clear_dirty(slot, word);
        }
    }

    /// Replaces the value of `key` by what `decide` makes of it, in one step.
    pub(super) fn change<'a, 'v>(
        &'a self,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
    ) -> Result<(Changed<'a>, Guard<'a>), Error> {
        self.change_by(None, hash, key, decide)
    }

    /// As [`Core::change`], perhaps with the item written and durable that it may put.
    pub(super) fn change_by<'a, 'v>(
        &'a self,
        fresh: Option<Fresh>,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
    ) -> Result<(Changed<'a>, Guard<'a>), Error> {
        let mut fresh = fresh;
        let mut retries = Retries::default();
        loop {
            let mut needs_no_more = false;
            let changed = self.try_change(fresh.take(), hash, key, decide, &mut needs_no_more);
            if !matches!(changed, Err(Error::Space(SpaceError::Full { .. }))) {
                return changed;
            }
            // Space that was retired may be enough. No guard of this call is left to hold it, nor is a
            // helper's, if it can be kept from its turns.
            let held = self.signal.try_hold();
            let more_may_come = self.reclaim_retired();
            let waits_for_helper = held.is_none() && retries.tries() < INSERTIONS_WHEN_FULL;
            drop(held);
            if !retries.go_on(needs_no_more || waits_for_helper, more_may_come) {
                return changed;
            }
        }
    }

    fn try_change<'a, 'v>(
        &'a self,
        mut fresh: Option<Fresh>,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
        needs_no_more: &mut bool,
    ) -> Result<(Changed<'a>, Guard<'a>), Error> {
        let guard = self.epochs.pin();
        let changed = self.change_pinned(hash, key, decide, &mut fresh, needs_no_more, &guard);
        if let Some(Fresh { at, bytes }) = fresh {
            // A helper may still look at it.
            self.retire(&guard, Retired::Item(at, bytes));
        }
        if matches!(&changed, Ok((_, true))) {
            self.after_insertion(&guard);
        }
        Ok((changed?.0, guard))
    }

    /// Also returns whether the key was inserted. What is left in `fresh` is not wanted; `needs_no_more`
    /// says whether the change needs no more space than what it replaces has.
    fn change_pinned<'a, 'v>(
        &'a self,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
        fresh: &mut Option<Fresh>,
        needs_no_more: &mut bool,
        guard: &Guard<'a>,
    ) -> Result<(Changed<'a>, bool), Error> {
        loop {
            let found = self.search(hash, key, guard)?;
            let before = found.map(|hit| hit.item);
            let change = decide(before.map(|item| item.value));
            let new = match change {
                Change::Keep => return Ok((Changed { before, is_done: false }, false)),
                Change::Remove => None,
                Change::Put(value) => {
                    let fits = |item| self.heap.fits_in_place_of(key, value, item);
                    *needs_no_more = found.is_some_and(|hit| fits(hit.word.at()));
                    let replaced = found.map(|hit| hit.word.at());
                    Some(Word::item(hash, self.write(fresh, key, value, replaced)?))
                }
            };
            let is_done = match (found, new) {
                (None, None) => true,
                (Some(hit), new) => self.swap(hash, hit, new, guard),
                (None, Some(new)) => self.insert(hash, new, guard)?,
            };
            if !is_done {
                continue;
            }
            if new.is_some() {
                *fresh = None;
            }
            if let Some(hit) = found {
                let bytes = (hit.item.key.len() + hit.item.value.len()) as u64;
                self.retire(guard, Retired::Item(hit.word.at(), bytes));
            }
            self.count(i64::from(new.is_some()) - i64::from(found.is_some()));
            return Ok((Changed { before, is_done: true }, found.is_none() && new.is_some()));
        }
    }

    /// The item of this change, written and durable.
    fn write(
        &self,
        fresh: &mut Option<Fresh>,
        key: &[u8],
        value: &[u8],
        replaced: Option<Offset>,
    ) -> Result<Offset, SpaceError> {
        if let Some(fresh) = fresh {
            return Ok(fresh.at);
        }
        let Fresh { at, .. } = *fresh.insert(self.write_unfenced(key, value, replaced)?);
        // Before any slot or descriptor names it.
        self.medium().fence();
        Ok(at)
    }

    /// Writes an item, durable after the thread's next fence, perhaps in place of another one.
    pub(super) fn write_unfenced(
        &self,
        key: &[u8],
        value: &[u8],
        replaced: Option<Offset>,
    ) -> Result<Fresh, SpaceError> {
        let at = self.heap.write_item(key, value, replaced)?;
        if at.0 >= ITEMS_END {
            self.heap.reclaim(at);
            return Err(SpaceError::Full {
                needed_bytes: at.0,
                reason: format!("slots lead to items below {ITEMS_END} bytes only"),
            });
        }
        Ok(Fresh { at, bytes: (key.len() + value.len()) as u64 })
    }

    /// Replaces what was found, or removes it. Whether it was still there.
    fn swap(&self, hash: u64, hit: Hit<'_>, new: Option<Word>, guard: &Guard<'_>) -> bool {
        let own = self.descriptors.own();
        let operation = Operation {
            reference: own.next_reference(),
            kind: if new.is_some() { Kind::Swap } else { Kind::Remove },
            hash,
            old: hit.word.clean(),
            new: new.unwrap_or(Word::EMPTY),
            slot: hit.slot,
            claim: Offset(0),
        };
        self.perform(&own, &operation, guard) == Some(Status::Done)
    }

    /// Context-aware insertion of a key that was not found. Whether it was still absent.
    fn insert(&self, hash: u64, new: Word, guard: &Guard<'_>) -> Result<bool, Error> {
        let context = self.context();
        let own = self.descriptors.own();
        let reference = own.next_reference();
        let claim_word = Own::claim_word(reference, new);
        let Some(claim) = self.claim(context.open(), hash, claim_word) else {
            drop(own);
            self.make_room(context, hash, guard)?;
            return Ok(false);
        };
        let operation = Operation {
            reference,
            kind: Kind::Insert,
            hash,
            old: Word::EMPTY,
            new,
            slot: Offset(0),
            claim,
        };
        Ok(self.perform(&own, &operation, guard) == Some(Status::Done))
    }

    /// Claims an empty slot for an item by `word`: in the first of these levels that has one, of its
    /// two buckets there in the one with more room.
    pub(super) fn claim(
        &self,
        levels: impl IntoIterator<Item = u32>,
        hash: u64,
        word: Word,
    ) -> Option<Offset> {
        let is_empty = |bucket: Bucket| {
            let words = self.medium().load_line(bucket.at()).into_iter().enumerate();
            words
                .fold(0, |empty, (slot, word)| empty | u32::from(Word(word) == Word::EMPTY) << slot)
        };
        for level in levels {
            let mut buckets =
                self.levels.get(level).candidates(hash).map(|bucket| (is_empty(bucket), bucket));
            if buckets[1].0.count_ones() > buckets[0].0.count_ones() {
                buckets.swap(0, 1);
            }
            for (mut empty, bucket) in buckets {
                while empty != 0 {
                    let slot = bucket.slot(empty.trailing_zeros().into());
                    empty &= empty - 1;
                    if exchange(self.medium(), slot, Word::EMPTY, word) {
                        self.fingerprints.set(slot, tag(hash));
                        return Some(slot);
                    }
                }
            }
        }
        None
    }
}
