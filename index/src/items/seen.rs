//! Look-ups of a guest in a store: a slot as [`Sight`] finds it, and a copy of the item that it leads to.

use super::{GROUP, Lead, lead_of};
use crate::hash::Hasher;
use crate::sight::Sight;
use pmem::heap::{Seen, prefetch_item, prefetch_value, seen};
use pmem::view::Look;
use pmem::{Medium, Offset, Pool};
use std::sync::Arc;

/// Keys looked up together; as many as the owner does.
const BATCH: usize = 32;

/// A value that a guest has copied, or that there is none.
pub type Copied = Option<Box<[u8]>>;

/// A store as a guest sees it.
pub struct SeenItems<S, M: Medium> {
    sight: S,
    pool: Arc<Pool<M>>,
    hasher: Hasher,
}

impl<S: Sight, M: Medium> SeenItems<S, M> {
    /// The items of `pool`, which was opened beside its owner, whose slots `sight` finds.
    pub fn new(sight: S, pool: Arc<Pool<M>>, hasher: Hasher) -> Self {
        SeenItems { sight, pool, hasher }
    }

    /// What finds the slots: all there is of a table.
    #[inline(always)]
    pub fn sight(&self) -> &S {
        &self.sight
    }

    /// The key's value. `None`: the owner is to be asked.
    #[inline(always)]
    pub fn get(&self, key: &[u8]) -> Option<Copied> {
        let look = self.sight.look_at_items()?;
        let slot = self.sight.search(look, self.hasher.first_bytes(key))?;
        self.copy(look, slot, key).filter(|_| self.sight.are_items_as(look))
    }

    /// The values of several keys. An entry that is `None`: the owner is to be asked.
    pub fn get_many(&self, keys: &[&[u8]]) -> Vec<Option<Copied>> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(BATCH) {
            match self.get_chunk(keys) {
                Some(copied) => all.extend(copied),
                None => all.resize(all.len() + keys.len(), None),
            }
        }
        all
    }

    fn get_chunk(&self, keys: &[&[u8]]) -> Option<Vec<Option<Copied>>> {
        let look = self.sight.look_at_items()?;
        let (mut hashes, mut slots) = ([0; BATCH], [None; BATCH]);
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = self.hasher.first_bytes(key);
        }
        let slots = &mut slots[..keys.len()];
        self.sight.search_many(look, &hashes[..keys.len()], slots);
        for (key, slot) in keys.iter().zip(&*slots) {
            if let Some(Some(slot)) = slot {
                prefetch_item(self.pool.medium(), Offset(slot & !GROUP), key.len());
            }
        }
        for (key, slot) in keys.iter().zip(&*slots) {
            if let Some(Some(slot)) = slot {
                prefetch_value(self.pool.medium(), Offset(slot & !GROUP), key.len());
            }
        }
        let copies = keys.iter().zip(slots).map(|(key, slot)| self.copy(look, (*slot)?, key));
        let copies: Vec<_> = copies.collect();
        self.sight.are_items_as(look).then_some(copies)
    }

    /// What is there of the key, by the value of its slot.
    #[inline(always)]
    fn copy(&self, look: Look, slot: Option<u64>, key: &[u8]) -> Option<Copied> {
        let Some(slot) = slot else { return Some(None) };
        // Of a group the owner knows how to read it.
        let Lead::Item(at) = lead_of(slot) else { return None };
        match seen(self.pool.medium(), at, key, || self.sight.are_items_as(look)) {
            Seen::Value(value) => Some(Some(value)),
            Seen::OtherKey => Some(None),
            Seen::Nothing => None,
        }
    }
}

impl<S, M: Medium> std::fmt::Debug for SeenItems<S, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeenItems").finish_non_exhaustive()
    }
}
