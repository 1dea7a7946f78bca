//! Batches: slots and items fetched together, new items fenced together.

use super::{AnyItems, GROUP, Unpublished};
use crate::bounds::check_pairs;
use crate::change::Change;
use crate::error::ItemError;
use crate::traits::Record;
use crate::unfinished::Unfinished;
use pmem::heap::Draft;
use pmem::{Medium, Offset, SpaceError};

/// Operations done together; as many as the index does.
const BATCH: usize = 32;

/// Why a chunk was not finished.
struct Undone {
    error: ItemError,
    /// The entry that failed.
    failed: usize,
    /// Those that took effect.
    done: u32,
}

/// What an entry of a batch does with its key.
#[derive(Clone, Copy)]
pub(super) enum Entry<'a> {
    Put(&'a [u8]),
    Insert(&'a [u8]),
    Update(&'a [u8]),
    Remove,
}

impl<'a> Entry<'a> {
    /// Whether a key that is present, or absent, stays as it is.
    fn keeps(self, is_present: bool) -> bool {
        match self {
            Entry::Put(_) | Entry::Remove => false,
            Entry::Insert(_) => is_present,
            Entry::Update(_) => !is_present,
        }
    }

    /// What becomes of a key's state.
    fn change(self, found: Option<&[u8]>) -> Change<&'a [u8]> {
        match self {
            Entry::Put(value) => Change::Put(value),
            Entry::Insert(value) => Change::if_absent(found, value),
            Entry::Update(value) => Change::if_present(found, value),
            Entry::Remove => Change::Remove,
        }
    }

    /// The value that it has for its key.
    fn value(self) -> Option<&'a [u8]> {
        match self {
            Entry::Put(value) | Entry::Insert(value) | Entry::Update(value) => Some(value),
            Entry::Remove => None,
        }
    }
}

/// The key of the entry with a number, and what is done with it.
type EntryOf<'f, 'e> = &'f dyn Fn(usize) -> (&'e [u8], Entry<'e>);

/// What an entry of a batch puts.
enum New<'a, M: Medium> {
    /// The entry removes its key.
    Nothing,
    Draft(Draft<'a, M>),
    Item(Unpublished<'a, M>),
}

impl<M: Medium> AnyItems<M> {
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
            self.prefetch_items(keys.iter().copied(), slots);
            for (key, slot) in keys.iter().zip(slots) {
                let found = self.space.view(*slot, key, &guard)?.found;
                records.push(found.map(|(_, item)| {
                    item.prefetch_value();
                    Record::new(item.value, guard.clone())
                }));
            }
        }
        Ok(records)
    }

    /// Prefetches what slots lead to.
    fn prefetch_items<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, slots: &[Option<u64>]) {
        for (key, slot) in keys.zip(slots) {
            if let Some(slot) = slot {
                self.space.heap.prefetch(Offset(slot & !GROUP), key.len());
            }
        }
    }

    /// [`Items::change_many`] for pairs, with each of which it does the same.
    pub(super) fn change_pairs<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
        entry_of: for<'v> fn(&'v [u8]) -> Entry<'v>,
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        check_pairs(pairs)?;
        self.change_many(pairs.len(), &|index| {
            let (key, value) = pairs[index];
            (key, entry_of(value))
        })
    }

    /// Does with `count` keys what `entry_of` says, in order; returns the values before.
    pub(super) fn change_many<'a, 'e>(
        &'a self,
        count: usize,
        entry_of: EntryOf<'_, 'e>,
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>> {
        let mut records = Vec::with_capacity(count);
        records.resize_with(count, || None);
        for (chunk, records) in records.chunks_mut(BATCH).enumerate() {
            let from = chunk * BATCH;
            let entry_of = |index: usize| entry_of(from + index);
            let unfinished =
                |Undone { error, failed, done }| Unfinished::in_chunk(from, done, failed, error);
            let done = match self.is_swept() {
                true => self.change_batch(records, &entry_of).map_err(unfinished)?,
                false => 0,
            };
            for (index, record) in records.iter_mut().enumerate() {
                if done & 1 << index == 0 {
                    let (key, entry) = entry_of(index);
                    let changed = self.change(key, &|found| entry.change(found));
                    let changed = changed.map_err(|error| {
                        let done = done | ((1 << index) - 1);
                        unfinished(Undone { error, failed: index, done })
                    })?;
                    *record = changed.0;
                }
            }
        }
        Ok(records)
    }

    /// Does what needs no second attempt; returns which entries it has done. It leaves entries whose hash occurs
    /// earlier in the batch, so that the changes of one key keep their order.
    fn change_batch<'a, 'e>(
        &'a self,
        records: &mut [Option<Record<'a>>],
        entry_of: EntryOf<'_, 'e>,
    ) -> Result<u32, Undone> {
        // An entry that keeps its key as it is has done so.
        let mut done = 0;
        let guard = self.space.epochs.pin();
        let entries: Vec<_> = (0..records.len()).map(entry_of).collect();
        let hashes: Vec<u64> =
            entries.iter().map(|(key, _)| self.hasher.first_bytes(key)).collect();
        let mut slots = vec![None; entries.len()];
        self.index.get_many(&hashes, &mut slots);
        self.prefetch_items(entries.iter().map(|(key, _)| *key), &slots);
        let mut indices = Vec::with_capacity(entries.len());
        let mut news = Vec::with_capacity(entries.len());
        let mut found = Vec::with_capacity(entries.len());
        for (index, &(key, wanted)) in entries.iter().enumerate() {
            let (hash, slot) = (hashes[index], slots[index]);
            let is_plain = slot.is_none_or(|slot| slot & GROUP == 0);
            if !is_plain || hashes[..index].contains(&hash) {
                continue;
            }
            let view = self.space.view(slot, key, &guard);
            let view = view.map_err(|error| Undone { error: error.into(), failed: index, done })?;
            if !view.others.is_empty() {
                continue;
            }
            if wanted.keeps(view.found.is_some()) {
                records[index] = view.found.map(|(_, item)| Record::new(item.value, guard.clone()));
                done |= 1 << index;
                continue;
            }
            let new = self.new_item(key, wanted.value());
            let new = new.map_err(|error| Undone { error, failed: index, done })?;
            let Some(new) = new else { continue };
            news.push(new);
            indices.push(index);
            found.push(view.found);
        }
        let mut changes = Vec::with_capacity(indices.len());
        let mut fresh = Vec::with_capacity(indices.len());
        for (&index, new) in indices.iter().zip(news) {
            let item = match new {
                New::Nothing => None,
                New::Draft(draft) => Some(Unpublished::new(&self.space.heap, draft.write())),
                New::Item(item) => Some(item),
            };
            changes.push((hashes[index], slots[index], item.as_ref().map(|item| item.at().0)));
            fresh.push(item);
        }
        // One fence for all items of the batch, before any slot leads to one.
        self.space.heap.pool().medium().fence();
        // If an error keeps an entry from being done, its state stays as initialized here: unlike the expected one.
        let unlike = |&(_, expected, _): &(u64, Option<u64>, _)| match expected {
            None => Some(0),
            Some(_) => None,
        };
        let mut states: Vec<Option<u64>> = changes.iter().map(unlike).collect();
        let outcome = self.index.compare_exchange_many(&changes, &mut states);
        for ((&index, (change, state)), (item, found)) in
            indices.iter().zip(changes.iter().zip(states)).zip(fresh.into_iter().zip(found))
        {
            if state != change.1 {
                continue;
            }
            item.into_iter().for_each(Unpublished::published);
            records[index] = found.map(|(_, item)| Record::new(item.value, guard.clone()));
            self.retire(change.1, found, &guard);
            done |= 1 << index;
        }
        self.look_after_heap();
        match outcome {
            Ok(()) => Ok(done),
            Err(Unfinished { error, failed, .. }) => {
                Err(Undone { error: error.into(), failed: indices[failed], done })
            }
        }
    }

    /// What to put for this value. `None`: a change of this key alone may find room in what was retired.
    fn new_item<'a>(
        &'a self,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    ) -> Result<Option<New<'a, M>>, ItemError> {
        let Some(value) = value else { return Ok(Some(New::Nothing)) };
        let heap = &self.space.heap;
        if let Some(draft) = heap.draft(key, value) {
            return Ok(Some(New::Draft(draft)));
        }
        match heap.write_item(key, value, None) {
            Ok(at) => Ok(Some(New::Item(Unpublished::new(heap, at)))),
            Err(SpaceError::Full { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
