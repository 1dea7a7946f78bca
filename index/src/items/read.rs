//! Look-ups: what a slot leads to, seen from one key.

use super::{GROUP, Space};
use crate::error::ItemError;
use crate::hash::Hasher;
use crate::traits::Record;
use pmem::epoch::Guard;
use pmem::heap::{Corrupt, Item};
use pmem::sync::{Asymmetric, Numbered};
use pmem::{Medium, Offset};
use std::sync::Arc;

/// What a slot leads to, seen from one key.
pub(super) struct View<'a> {
    /// The key's item, if it is there.
    pub(super) found: Option<(Offset, Item<'a>)>,
    /// Items of other keys with the same hash.
    pub(super) others: Vec<Offset>,
}

impl<M: Medium> Space<M> {
    #[inline]
    pub(super) fn view<'a>(
        &'a self,
        slot: Option<u64>,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<View<'a>, Corrupt> {
        match slot {
            None => Ok(View { found: None, others: Vec::new() }),
            Some(slot) if slot & GROUP == 0 => {
                let at = Offset(slot);
                Ok(match self.heap.item_of_key(at, key, guard)? {
                    Some(item) => View { found: Some((at, item)), others: Vec::new() },
                    None => View { found: None, others: vec![at] },
                })
            }
            Some(slot) => self.view_group(Offset(slot & !GROUP), key, guard),
        }
    }

    #[cold]
    #[inline(never)]
    fn view_group<'a>(
        &'a self,
        group: Offset,
        key: &[u8],
        guard: &Guard<'a>,
    ) -> Result<View<'a>, Corrupt> {
        let mut view = View { found: None, others: Vec::new() };
        for at in self.heap.group(group, guard)? {
            match self.heap.item_of_key(at, key, guard)? {
                Some(item) => view.found = Some((at, item)),
                None => view.others.push(at),
            }
        }
        Ok(view)
    }
}

/// Look-ups in a store, for an engine that compiles them into its callers.
pub struct ItemReader<M: Medium> {
    pub(super) space: Arc<Space<M>>,
    pub(super) hasher: Hasher,
}

impl<M: Medium> ItemReader<M> {
    /// Begins a look-up: pins the thread, so that what the index then finds keeps its items. Also returns the hash to
    /// look up there.
    #[inline(always)]
    pub fn begin(&self, key: &[u8]) -> (Guard<'_>, u64) {
        (self.space.epochs.pin(), self.hasher.first_bytes(key))
    }

    /// The same, in fewer instructions.
    #[inline(always)]
    pub fn begin_here(
        &self,
        key: &[u8],
        thread: Numbered,
        asymmetric: Asymmetric,
    ) -> (Guard<'_>, u64) {
        (self.space.epochs.pin_here(thread, asymmetric), self.hasher.first_bytes(key))
    }

    /// The key's value, from what the index found since [`ItemReader::begin`]. `None`: that is not the key's item
    /// alone, or it is damaged. [`Records::get`](crate::Records::get) then knows more.
    #[inline(always)]
    pub fn end<'a>(
        &'a self,
        guard: Guard<'a>,
        key: &[u8],
        slot: Option<u64>,
    ) -> Option<Option<Record<'a>>> {
        let Some(slot) = slot else { return Some(None) };
        if slot & GROUP != 0 {
            return None;
        }
        match self.space.heap.item_of_key(Offset(slot), key, &guard) {
            Ok(Some(item)) => Some(Some(Record::new(item.value, guard))),
            Ok(None) | Err(_) => None,
        }
    }
}

impl<M: Medium> Space<M> {
    #[inline(always)]
    pub(super) fn get<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        search: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<Option<Record<'a>>, ItemError> {
        // Pinned before the search: until the guard is dropped, an offset that the search finds keeps its item.
        let guard = self.epochs.pin();
        let Some(slot) = search(hash) else { return Ok(None) };
        let found = if slot & GROUP == 0 {
            self.heap.item_of_key(Offset(slot), key, &guard)?
        } else {
            self.view_group(Offset(slot & !GROUP), key, &guard)?.found.map(|(_, item)| item)
        };
        Ok(found.map(|item| Record::new(item.value, guard)))
    }
}
