//! Moving items, to make room.

use super::{AnyItems, GROUP, Unpublished};
use crate::error::ItemError;
use pmem::heap::{Item, Mover};
use pmem::{Medium, Offset};

impl<M: Medium> Mover for AnyItems<M> {
    fn relocate(&self, at: Offset) -> bool {
        let guard = self.space.epochs.pin();
        // Otherwise it is a group, which goes when one of its items is moved, or damage, which `check` reports.
        let Ok(item) = self.space.heap.item(at, &guard) else { return true };
        let hash = self.hasher.first_bytes(item.key);
        while let Some(slot) = self.index.get(hash) {
            let Ok(Some(group)) = self.members(slot, at, &guard) else { return true };
            let Ok(is_done) = self.replace_by_copy(hash, slot, &group, (at, item), &guard) else {
                return false;
            };
            if is_done {
                return true;
            }
        }
        true
    }

    fn collect(&self) {
        self.space.reclaim_retired();
    }
}

impl<M: Medium> AnyItems<M> {
    /// What a slot leads to, if that includes `at`.
    fn members(
        &self,
        slot: u64,
        at: Offset,
        guard: &pmem::epoch::Guard<'_>,
    ) -> Result<Option<Vec<Offset>>, ItemError> {
        let members = match slot & GROUP {
            0 => vec![Offset(slot)],
            _ => self.space.heap.group(Offset(slot & !GROUP), guard)?,
        };
        Ok(members.contains(&at).then_some(members))
    }

    /// Makes the slot lead to a copy of one of its items, unless the slot was changed meanwhile. Returns whether it
    /// does. Fails for want of room.
    fn replace_by_copy(
        &self,
        hash: u64,
        slot: u64,
        members: &[Offset],
        (at, item): (Offset, Item<'_>),
        guard: &pmem::epoch::Guard<'_>,
    ) -> Result<bool, NoRoom> {
        let copy = self.space.heap.write_copy(&item).ok_or(NoRoom)?;
        let copy = Unpublished::new(&self.space.heap, copy);
        let moved = |member: &Offset| if *member == at { copy.at() } else { *member };
        let members: Vec<Offset> = members.iter().map(moved).collect();
        let group_before = (slot & GROUP != 0).then_some(Offset(slot & !GROUP));
        let (new_slot, group) = self.slot_for(&members, group_before).map_err(|_| NoRoom)?;
        // The copy must be durable before a slot leads to it.
        self.space.heap.pool().medium().fence();
        match self.index.compare_exchange(hash, Some(slot), new_slot) {
            Ok(Ok(())) => {
                group.into_iter().for_each(Unpublished::published);
                copy.published();
                self.retire(Some(slot), Some((at, item)), guard);
                Ok(true)
            }
            Ok(Err(_)) => Ok(false),
            Err(_) => Err(NoRoom),
        }
    }
}

/// There is no room for a copy.
struct NoRoom;
