//! Scans of all items.

use super::{GROUP, Space};
use crate::error::ItemError;
use crate::traits::{Index, KeyValue, RecordScan, Scan};
use pmem::epoch::Guard;
use pmem::{Medium, Offset};

/// A scan that has read so many slots is taken for one of everything.
const MANY_SLOTS: usize = 4096;

/// A scan of the slots, a few at a time, and of the items to which they lead.
pub(super) struct ItemScan<'a, M: Medium> {
    space: &'a Space<M>,
    slots: Box<dyn Scan<u64, u64> + 'a>,
    is_over: bool,
    /// How many slots were read.
    slots_read: usize,
    /// Slots that were read, and members of a group to which one of them led.
    read: Vec<(u64, u64)>,
    members: Vec<Offset>,
    /// Pinned before the slots in `read` were read. Before a later pin, their items could have been reclaimed.
    guard: Option<Guard<'a>>,
}

impl<'a, M: Medium> ItemScan<'a, M> {
    pub(super) fn new(index: &'a (impl Index<u64, u64> + ?Sized), space: &'a Space<M>) -> Self {
        let slots = index.scan();
        ItemScan {
            space,
            slots,
            is_over: false,
            slots_read: 0,
            read: Vec::new(),
            members: Vec::new(),
            guard: None,
        }
    }

    /// Reads more slots; returns whether there are any.
    fn read_slots(&mut self) -> Result<bool, ItemError> {
        while self.read.is_empty() && !self.is_over {
            // A new pin, so that a long scan does not keep everything that is replaced meanwhile.
            self.guard = None;
            self.guard = Some(self.space.epochs.pin());
            self.is_over = !self.slots.take_some(&mut self.read)?;
        }
        let before = self.slots_read;
        self.slots_read += self.read.len();
        if before < MANY_SLOTS && self.slots_read >= MANY_SLOTS {
            let medium = self.space.heap.pool().medium();
            medium.read_ahead(0..medium.size());
        }
        for (_, slot) in &self.read {
            self.space.heap.prefetch(Offset(slot & !GROUP), 0);
        }
        Ok(!self.read.is_empty())
    }
}

impl<M: Medium> RecordScan for ItemScan<'_, M> {
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, ItemError> {
        loop {
            if self.read.is_empty() && self.members.is_empty() && !self.read_slots()? {
                self.guard = None;
                return Ok(None);
            }
            let Some(guard) = &self.guard else { return Ok(None) };
            if let Some(at) = self.members.pop() {
                let item = self.space.heap.sound_item(at, guard)?;
                return Ok(Some((item.key, item.value)));
            }
            let Some((_, slot)) = self.read.pop() else { continue };
            let at = Offset(slot & !GROUP);
            match slot & GROUP {
                0 => self.members.push(at),
                _ => self.members = self.space.heap.group(at, guard)?,
            }
        }
    }
}
