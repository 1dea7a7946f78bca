//! Changes of single keys by one step of the index, if that is enough.
//!
//! The new item is written first, unless a look at the index says that it will not be put. Where it is put in any case,
//! such a look fetches the item that it may replace; nothing is decided by it. Then the index decides in one step, from
//! what the slot leads to, whether the slot leads to the new item from now on. In every other case nothing was done,
//! and [`Items::change`] starts over: several keys with one hash, no space at hand, a large item, damage.

use super::{GROUP, Items, Unpublished};
use crate::change::Change;
use crate::traits::{Index, Record};
use pmem::epoch::Guard;
use pmem::heap::Item;
use pmem::{Medium, Offset};
use std::cell::Cell;

/// When a pair is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum If {
    Always,
    Absent,
    Present,
}

/// What a change has found under its key's hash.
#[derive(Clone, Copy)]
enum Found<'a> {
    Nothing,
    /// The key's item, alone.
    Item(Offset, Item<'a>),
    /// Anything else.
    Other,
}

impl<I: Index<u64, u64>, M: Medium> Items<I, M> {
    /// Stores the pair if the key is as `when` says; returns the value before. `None`: nothing was done.
    pub(super) fn put_at_hand(
        &self,
        key: &[u8],
        value: &[u8],
        when: If,
    ) -> Option<Option<Record<'_>>> {
        // Pinned before space is taken: a thread that empties segments waits for pins, and then assumes that everything
        // that is not free is a whole item.
        let guard = self.space.epochs.pin();
        let hash = self.hasher.first_bytes(key);
        match when {
            // Fetches what the index reads first, while space is found and written.
            If::Always => self.index.prefetch(hash),
            // Before space is taken, which would be in vain if the key is not as `when` says.
            If::Absent if self.index.get(hash).is_some() => return None,
            If::Absent => {}
            If::Present => match self.index.get(hash) {
                Some(slot) => self.space.heap.prefetch(Offset(slot & !GROUP), key.len()),
                None => return Some(None),
            },
        }
        let draft = self.space.heap.draft(key, value)?;
        if when == If::Always
            && let Some(slot) = self.index.get(hash)
        {
            // Fetches the item that is to be replaced while the new one is written.
            self.space.heap.prefetch(Offset(slot & !GROUP), key.len());
        }
        let at = draft.write();
        let fresh = Unpublished::new(&self.space.heap, at);
        // What was written must be durable before a slot leads to it.
        self.space.heap.pool().medium().fence();
        let (before, is_published) = self.change_plain(key, hash, Some((at, when)), guard)?;
        if is_published {
            fresh.published();
        }
        self.look_after_heap();
        Some(before)
    }

    /// Removes the key; returns the value before. `None`: nothing was done.
    pub(super) fn remove_plain(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        let guard = self.space.epochs.pin();
        let removed = self.change_plain(key, self.hasher.first_bytes(key), None, guard)?;
        Some(removed.0)
    }

    /// Makes the slot of `key` lead to `new` if the condition in `new` holds and the slot leads to nothing or to the
    /// key's item alone. Returns the value before, and whether the slot was changed.
    #[inline(always)]
    fn change_plain<'a>(
        &'a self,
        key: &[u8],
        hash: u64,
        new: Option<(Offset, If)>,
        guard: Guard<'a>,
    ) -> Option<(Option<Record<'a>>, bool)> {
        let mut found = Cell::new(Found::Other);
        let changed = self.index.modify(hash, |slot| {
            // The slot's item stays where it is: this thread was pinned before it read the slot.
            found.set(match slot {
                None => Found::Nothing,
                Some(slot) if slot & GROUP == 0 => {
                    match self.space.heap.item_of_key(Offset(slot), key, &guard) {
                        Ok(Some(item)) => Found::Item(Offset(slot), item),
                        Ok(None) | Err(_) => Found::Other,
                    }
                }
                Some(_) => Found::Other,
            });
            match (found.get(), new) {
                (Found::Other, _)
                | (Found::Nothing, None | Some((_, If::Present)))
                | (Found::Item(..), Some((_, If::Absent))) => Change::Keep,
                (_, Some((at, _))) => Change::Put(at.0),
                (Found::Item(..), None) => Change::Remove,
            }
        });
        if changed.is_err() {
            return None;
        }
        let when = new.map(|(_, when)| when);
        // By reference: a copy in wide words would wait until the narrow stores of the closure have left the processor.
        match found.get_mut() {
            Found::Other => None,
            Found::Nothing => Some((None, when != Some(If::Present))),
            Found::Item(_, item) if when == Some(If::Absent) => {
                Some((Some(Record::new(item.value, guard)), false))
            }
            Found::Item(at, item) => {
                self.retire_item(*at, item, &guard);
                Some((Some(Record::new(item.value, guard)), true))
            }
        }
    }
}
