//! The heap and its epochs alone: one published offset per key, nothing else.

use super::store::{bytes_of, value_of};
use super::{Failed, PlantedFault, Refusal, Setup, Subject, place, spec};
use crate::history::{Action, Key, Value};
use pmem::epoch::Epochs;
use pmem::heap::Heap;
use pmem::medium::sim::Sim;
use pmem::superblock::PoolKind;
use pmem::sync::Mutex;
use pmem::{Medium, Offset, Pool};
use std::sync::Arc;

/// Items behind one word per key, the simplest table there could be.
pub struct HeapSubject {
    pool: Arc<Pool<Sim>>,
    heap: Heap<Sim>,
    epochs: Epochs,
    slots: Offset,
    /// Held by writers from before they change a slot until it is durable.
    writing: Mutex<()>,
}

const OWNER: u8 = 9;

impl HeapSubject {
    /// Its name on the command line.
    pub const NAME: &'static str = "heap";

    fn on(pool: Arc<Pool<Sim>>, setup: &Setup) -> Result<Self, Refusal> {
        let no_memory = |error: std::io::Error| Refusal::Wrong(error.to_string());
        if pool.extents_of(OWNER).is_empty() {
            let bytes = setup.keys.len() as u64 * 8;
            let taken = pool.extend(|draft| draft.take_extent(OWNER, 0, bytes));
            taken.map_err(|error| Refusal::Wrong(error.to_string()))?;
        }
        let slots = pool.extents_of(OWNER)[0].start;
        let subject = HeapSubject {
            heap: Heap::open(Arc::clone(&pool))?,
            epochs: Epochs::new().map_err(no_memory)?,
            slots,
            writing: Mutex::new(()),
            pool,
        };
        let sweep = subject.heap.sweep();
        for key in 0..setup.keys.len() as u64 {
            let item = subject.medium().load(slots.word(key));
            if item != 0 {
                sweep.mark(Offset(item)).map_err(|error| Refusal::Wrong(error.to_string()))?;
            }
        }
        sweep.finish();
        Ok(subject)
    }

    /// What a reader finds, durable.
    fn find(&self, setup: &Setup, key: Key) -> Result<Option<Value>, Failed> {
        let slot = self.slots.word(key.into());
        let (_, found) = self.read(setup, slot)?;
        if self.writing.try_lock().is_none() {
            // Perhaps not durable yet, and about to be reported.
            self.medium().persist(slot);
        }
        Ok(found)
    }

    fn read(&self, setup: &Setup, slot: Offset) -> Result<(u64, Option<Value>), Failed> {
        let guard = self.epochs.pin();
        let item = self.medium().load(slot);
        if item == 0 {
            return Ok((0, None));
        }
        let wrong = |what: String| Failed::Wrong(what);
        let found =
            self.heap.item(Offset(item), &guard).map_err(|error| wrong(error.to_string()))?;
        let value = value_of(setup, found.value).map_err(wrong)?;
        Ok((item, Some(value)))
    }
}

impl Subject for HeapSubject {
    const IS_ALWAYS_SAMPLED: bool = true;

    fn name(_setup: &Setup) -> String {
        HeapSubject::NAME.into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let spec = spec(setup, PoolKind::Store, 1, [0; 16]);
        HeapSubject::on(Arc::new(Pool::create(medium, &spec, place(0))?), setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        HeapSubject::on(Arc::new(Pool::open(medium, place(boot))?), setup)
    }

    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let slot = self.slots.word(key.into());
        if action == Action::Get {
            return self.find(setup, key);
        }
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let guard = self.epochs.pin();
        let key_bytes = setup.keys[usize::from(key)].to_le_bytes();
        let fresh = match action {
            Action::Insert(value)
            | Action::Update(value)
            | Action::Upsert(value)
            | Action::Exchange(_, Some(value)) => {
                let replaced = Some(self.medium().load(slot)).filter(|&at| at != 0).map(Offset);
                let bytes = bytes_of(setup, value);
                Some((self.heap.write_item(&key_bytes, &bytes, replaced)?, value))
            }
            _ => None,
        };
        self.medium().fence();
        let writing = self.writing.lock();
        let (before, found) = self.read(setup, slot)?;
        let next = action.apply(found);
        let is_published = fresh.is_some_and(|(_, value)| next == Some(value) && next != found);
        if is_published || (next.is_none() && found.is_some()) {
            let item = if is_published { fresh.map_or(0, |(at, _)| at.0) } else { 0 };
            self.medium().store_release(slot, item);
            self.medium().persist(slot);
        }
        drop(writing);
        if !is_published && let Some((at, _)) = fresh {
            self.heap.reclaim(at);
        }
        if next != found && before != 0 {
            match setup.fault {
                Some(PlantedFault::ReclaimAtOnce) => self.heap.reclaim(Offset(before)),
                _ => {
                    let reclaim = |at| self.heap.reclaim_pinned(Offset(at), &guard);
                    guard.retire(before, 1 << 20, reclaim);
                }
            }
        }
        drop(guard);
        self.epochs.collect(|at| self.heap.reclaim(Offset(at)));
        Ok(found)
    }

    fn wait_for_writers(&self) {
        self.pool.wait_for_writers();
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let mut pairs = Vec::new();
        for key in 0..setup.keys.len() as Key {
            match self.find(setup, key) {
                Ok(Some(value)) => pairs.push((key, value)),
                Ok(None) => {}
                Err(failed) => return Err(format!("{failed:?}")),
            }
        }
        Ok(pairs)
    }

    fn check(&self) -> Result<(), String> {
        let mut audit = self.heap.audit();
        let extent = self.pool.extents_of(OWNER)[0];
        for word in 0..extent.bytes / 8 {
            let item = self.medium().load(self.slots.word(word));
            if item != 0 {
                let guard = self.epochs.pin();
                let at = Offset(item);
                let found = self.heap.item(at, &guard).map_err(|error| error.to_string())?;
                if !found.is_sound() {
                    return Err(format!("the item at {at} does not fit its checksum"));
                }
                audit.mark(at, 16).map_err(|error| error.to_string())?;
            }
        }
        match audit.finish(&self.epochs.retired()) {
            (0, _) => Ok(()),
            (lost, _) => Err(format!("{lost} slots of the heap are lost")),
        }
    }
}
