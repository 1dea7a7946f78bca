//! Insertion, update and deletion, in the order of the slides.

use super::descriptor::{Kind, Operation, Own, Status};
use super::layout::{Bucket, ITEMS_END, Word, compare_and_swap, tag};
use super::search::Hit;
use super::{Core, Retired};
use index::{Change, Error};
use pmem::epoch::{Guard, Retries};
use pmem::heap::{Compacted, Corrupt, Item, Wanted};
use pmem::{Medium, Offset, SpaceError};

/// How often an insertion that finds the pool full tries to get back what was retired, if helpers
/// that are in their turns may be holding it.
const INSERTIONS_WHEN_FULL: u32 = 20;

/// Times that a change has room made for it, which others may take before it does.
const ROOM_ROUNDS_MAX: u32 = 8;

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

impl<M: Medium> Core<M> {
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
    #[inline(never)]
    pub(super) fn change_by<'a, 'v>(
        &'a self,
        fresh: Option<Fresh>,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
    ) -> Result<(Changed<'a>, Guard<'a>), Error> {
        let mut fresh = fresh;
        let mut retries = Retries::default();
        let mut rounds = 0;
        loop {
            let mut wanted = Wanted::default();
            let changed = self.try_change(fresh.take(), hash, key, decide, &mut wanted);
            let Err(Error::Space(full @ SpaceError::Full { .. })) = changed else { return changed };
            // Space that was retired may be enough, or space between items. No guard of this call is left to
            // hold it, nor is a helper's, if it can be kept from its turns.
            let held = self.signal.try_hold();
            let more_may_come = self.reclaim_retired();
            let mut room = Compacted::default();
            if retries.tries() > 0 && rounds < ROOM_ROUNDS_MAX {
                rounds += 1;
                room = self.heap.make_room(&wanted, &self.epochs, self);
            }
            let waits_for_helper = held.is_none() && retries.tries() < INSERTIONS_WHEN_FULL;
            drop(held);
            if !room.has_room
                && !retries.go_on(wanted.fits_in_place || waits_for_helper, more_may_come)
            {
                return Err(self.heap.say_why(full, &wanted, room, &self.epochs).into());
            }
        }
    }

    fn try_change<'a, 'v>(
        &'a self,
        mut fresh: Option<Fresh>,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
        wanted: &mut Wanted,
    ) -> Result<(Changed<'a>, Guard<'a>), Error> {
        let guard = self.epochs.pin();
        let changed = self.change_pinned(hash, key, decide, &mut fresh, wanted, &guard);
        if let Some(Fresh { at, bytes }) = fresh {
            // A helper may still look at it.
            self.retire(&guard, Retired::Item(at, bytes));
        }
        if matches!(&changed, Ok((_, true))) {
            self.after_insertion(&guard);
        }
        Ok((changed?.0, guard))
    }

    /// Also returns whether the key was inserted. What is left in `fresh` has no use any more; `wanted` says what
    /// space it found no room for.
    fn change_pinned<'a, 'v>(
        &'a self,
        hash: u64,
        key: &[u8],
        decide: &Decide<'_, 'v>,
        fresh: &mut Option<Fresh>,
        wanted: &mut Wanted,
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
                    let replaced = found.map(|hit| hit.word.at());
                    *wanted = self.heap.wanted_for(key, value, replaced);
                    let item = self.write(fresh, key, value, replaced)?;
                    wanted.item_bytes = None;
                    Some(Word::item(hash, item))
                }
            };
            let is_done = match (found, new) {
                (None, None) => true,
                (Some(hit), new) => self.update_or_delete(hash, hit, new, guard),
                (None, Some(new)) => self.insert(hash, new, guard)?,
            };
            if !is_done {
                self.refuse_vanished()?;
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

    /// An error if pages of the pool have vanished. Items then look like others, and what is tried again until it
    /// succeeds may never succeed.
    pub(super) fn refuse_vanished(&self) -> Result<(), Corrupt> {
        if !self.medium().has_failed() {
            return Ok(());
        }
        Err(Corrupt { at: Offset(0), found: "pages of the pool have vanished".into() })
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
        self.heap.ask_for_growth(|| self.signal.ask_to_prepare());
        if at.0 >= ITEMS_END {
            self.heap.reclaim(at);
            return Err(SpaceError::Full {
                needed_bytes: at.0,
                reason: format!("slots lead to items below {ITEMS_END} bytes only"),
            });
        }
        Ok(Fresh { at, bytes: (key.len() + value.len()) as u64 })
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
            let [first, second] = self.levels.get(level).candidates(hash);
            let mut buckets = [(is_empty(first), first), (is_empty(second), second)];
            if buckets[1].0.count_ones() > buckets[0].0.count_ones() {
                buckets.swap(0, 1);
            }
            for (mut empty, bucket) in buckets {
                while empty != 0 {
                    let slot = bucket.slot(empty.trailing_zeros().into());
                    empty &= empty - 1;
                    if compare_and_swap(self.medium(), slot, Word::EMPTY, word) {
                        self.fingerprints.set(slot, tag(hash));
                        return Some(slot);
                    }
                }
            }
        }
        None
    }

    /// Replaces what was found, or deletes it if there is nothing `new`. Whether it was still there.
    pub(super) fn update_or_delete(
        &self,
        hash: u64,
        hit: Hit<'_>,
        new: Option<Word>,
        guard: &Guard<'_>,
    ) -> bool {
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
}
