//! Pairs of words that are changed under a lock, as the engines of words do it: the number of a change is drawn early,
//! and who meets the lock makes durable what it reports.
//!
//! All pairs share a stripe of the log, and one lock. A writer draws a number, stores both words, and persists the pair
//! under that number. A reader that meets the lock persists the pair as an observer does. Engines do the same between
//! much else. So this finds the shortest histories in which it matters whose number is larger, and whose copy is newer.

use super::{Failed, Refusal, Setup, Subject, place, spec};
use crate::history::{Action, Key, Value};
use pmem::medium::sim::Sim;
use pmem::superblock::PoolKind;
use pmem::sync::Mutex;
use pmem::{Medium, Offset, Pool, WORD};

const OWNER: u8 = 9;
const PAIR_BYTES: u64 = 2 * WORD;

/// A value, or none, as a word.
fn word_of(state: Option<Value>) -> u64 {
    state.map_or(0, |value| u64::from(value) + 1)
}

fn state_of(word: u64) -> Option<Value> {
    word.checked_sub(1).map(|value| value as Value)
}

/// A register per key.
pub struct LockedSubject {
    pool: Pool<Sim>,
    first: Offset,
    /// Held by writers.
    writing: Mutex<()>,
}

impl LockedSubject {
    fn on(pool: Pool<Sim>, setup: &Setup) -> Result<Self, Refusal> {
        if pool.extents_of(OWNER).is_empty() {
            let bytes = setup.keys.len() as u64 * PAIR_BYTES;
            let taken = pool.extend(|draft| draft.take_extent(OWNER, 0, bytes));
            taken.map_err(|error| Refusal::Wrong(error.to_string()))?;
        }
        let first = pool.extents_of(OWNER)[0].start;
        Ok(LockedSubject { pool, first, writing: Mutex::new(()) })
    }

    fn pair(&self, key: Key) -> Offset {
        self.first.add(u64::from(key) * PAIR_BYTES)
    }

    fn read(&self, key: Key) -> Option<Value> {
        state_of(self.medium().load(self.pair(key)))
    }

    /// Reads a pair, and makes it durable if a writer may not have done so yet.
    fn observe(&self, key: Key) -> Option<Value> {
        let found = self.read(key);
        if self.is_locked() {
            self.medium().persist_observed(self.pair(key), || self.is_locked());
        }
        found
    }

    fn is_locked(&self) -> bool {
        self.writing.try_lock().is_none()
    }
}

impl Subject for LockedSubject {
    fn name(_setup: &Setup) -> String {
        "locked".into()
    }

    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal> {
        let spec = spec(setup, PoolKind::Table, 1, [0; 16]);
        LockedSubject::on(Pool::create(medium, &spec, place(0))?, setup)
    }

    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal> {
        LockedSubject::on(Pool::open(medium, place(boot))?, setup)
    }

    fn call(&self, _setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed> {
        let (medium, pair) = (self.medium(), self.pair(key));
        if action == Action::Get {
            return Ok(self.observe(key));
        }
        let _write = self.pool.write().map_err(|error| Failed::Wrong(error.to_string()))?;
        let _writing = self.writing.lock();
        let sequence = medium.sequence(pair);
        let found = self.read(key);
        let next = action.apply(found);
        if next != found {
            let word = word_of(next);
            medium.store_pair(pair, word, word);
            medium.persist_pair(pair, sequence);
        }
        Ok(found)
    }

    fn wait_for_writers(&self) {
        self.pool.wait_for_writers();
    }

    fn medium(&self) -> &Sim {
        self.pool.medium()
    }

    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String> {
        let keys = 0..setup.keys.len() as Key;
        Ok(keys.filter_map(|key| self.observe(key).map(|value| (key, value))).collect())
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
