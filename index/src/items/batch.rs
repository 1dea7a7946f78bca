//! Batches: slots and items fetched together, new items fenced together.

use super::{GROUP, Items, Unpublished};
use crate::error::ItemError;
use crate::traits::{Index, Record, Records};
use pmem::{Medium, Offset, SpaceError};

/// Operations done together; as many as the index does.
const BATCH: usize = 32;

impl<I: Index<u64, u64>, M: Medium> Items<I, M> {
    pub(super) fn read_many<'a>(
        &'a self,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Record<'a>>>, ItemError> {
        let guard = self.space.epochs.pin();
        let mut records = Vec::with_capacity(keys.len());
        for keys in keys.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            let mut slots = [None; BATCH];
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = self.hasher.first_bytes(key);
            }
            let (hashes, slots) = (&hashes[..keys.len()], &mut slots[..keys.len()]);
            self.index.get_many(hashes, slots);
            for slot in slots.iter().flatten() {
                self.space.heap.prefetch(Offset(slot & !GROUP));
            }
            for (key, slot) in keys.iter().zip(slots) {
                let found = self.view(*slot, key, &guard)?.found;
                records.push(found.map(|(_, item)| Record::new(item.value, guard.clone())));
            }
        }
        Ok(records)
    }

    /// Gives each entry's key the value that `value_of` says, or removes it, in order; returns
    /// the values before.
    pub(super) fn change_many<'a, T>(
        &'a self,
        entries: &[T],
        key_of: impl Fn(&T) -> &[u8],
        value_of: impl Fn(&T) -> Option<&[u8]>,
    ) -> Result<Vec<Option<Record<'a>>>, ItemError> {
        let mut records = Vec::with_capacity(entries.len());
        for entries in entries.chunks(BATCH) {
            let from = records.len();
            records.extend((0..entries.len()).map(|_| None));
            let records = &mut records[from..];
            let done = self.change_batch(entries, records, &key_of, &value_of)?;
            for (index, entry) in entries.iter().enumerate() {
                if done & 1 << index == 0 {
                    let key = key_of(entry);
                    records[index] = match value_of(entry) {
                        Some(value) => self.upsert(key, value)?,
                        None => self.remove(key)?,
                    };
                }
            }
        }
        Ok(records)
    }

    /// Does what needs no second attempt; returns which entries that were. Entries whose hash
    /// stands earlier in the batch are left, so that the order of one key's changes is kept.
    fn change_batch<'a, T>(
        &'a self,
        entries: &[T],
        records: &mut [Option<Record<'a>>],
        key_of: &impl Fn(&T) -> &[u8],
        value_of: &impl Fn(&T) -> Option<&[u8]>,
    ) -> Result<u32, ItemError> {
        let guard = self.space.epochs.pin();
        let hashes: Vec<u64> =
            entries.iter().map(|entry| self.hasher.first_bytes(key_of(entry))).collect();
        let mut slots = vec![None; entries.len()];
        self.index.get_many(&hashes, &mut slots);
        for slot in slots.iter().flatten() {
            self.space.heap.prefetch(Offset(slot & !GROUP));
        }
        let mut indices = Vec::with_capacity(entries.len());
        let mut changes = Vec::with_capacity(entries.len());
        let mut fresh = Vec::with_capacity(entries.len());
        let mut found = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let (hash, slot) = (hashes[index], slots[index]);
            let is_plain = slot.is_none_or(|slot| slot & GROUP == 0);
            if !is_plain || hashes[..index].contains(&hash) {
                continue;
            }
            let view = self.view(slot, key_of(entry), &guard)?;
            if !view.others.is_empty() {
                continue;
            }
            let item = match value_of(entry) {
                Some(value) => match self.space.heap.write_item(key_of(entry), value, None) {
                    Ok(at) => Some(Unpublished::new(&self.space.heap, at)),
                    // Singly, it may find room among what was retired.
                    Err(SpaceError::Full { .. }) => continue,
                    Err(error) => return Err(error.into()),
                },
                None => None,
            };
            changes.push((hash, slot, item.as_ref().map(|item| item.at().0)));
            indices.push(index);
            fresh.push(item);
            found.push(view.found);
        }
        // One fence for all items of the batch, before any slot leads to one.
        self.space.heap.pool().medium().fence();
        // An entry that an error kept from being done leaves its state untouched: something else
        // than expected.
        let unlike = |&(_, expected, _): &(u64, Option<u64>, _)| match expected {
            None => Some(0),
            Some(_) => None,
        };
        let mut states: Vec<Option<u64>> = changes.iter().map(unlike).collect();
        let outcome = self.index.compare_exchange_many(&changes, &mut states);
        let mut done = 0;
        for ((index, (change, state)), (item, found)) in
            indices.into_iter().zip(changes.iter().zip(states)).zip(fresh.into_iter().zip(found))
        {
            if state != change.1 {
                continue;
            }
            item.into_iter().for_each(Unpublished::published);
            records[index] = found.map(|(_, item)| Record::new(item.value, guard.clone()));
            self.retire(change.1, found, &guard);
            done |= 1 << index;
        }
        outcome?;
        Ok(done)
    }
}
