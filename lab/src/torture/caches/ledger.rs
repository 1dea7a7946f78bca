//! What was promised of each key, in a mapped file: what the kernel keeps when the process is killed.
//!
//! A key belongs to one thread. Each of its puts and removals has a version, one more than the last. The thread notes
//! it before the call, and again when the call has returned.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use pmem::medium::{Mapped, Memory};
use pmem::{Medium, Offset};

use super::verdict::{Breach, Line, NEVER};
use crate::torture::progress::WRITERS_MAX;

/// Threads that use the cache.
const THREADS_MAX: u64 = WRITERS_MAX;
/// What different threads write is this far apart.
const LINE_BYTES: u64 = 64;
/// Where the lines of keys begin: behind the cache's own line and those of the threads.
const KEYS_AT: u64 = LINE_BYTES * (1 + THREADS_MAX);

/// Words of the cache's own line.
const CAPACITY: u64 = 0;
const CAPACITY_BEFORE: u64 = 1;
const CAPACITY_MOST: u64 = 2;

/// Words of a thread's line. Behind them, how often each promise was broken.
const CALLS: u64 = 0;
const FOUND: u64 = 1;
const BREACHES: u64 = 2;

/// Words of a key's line.
const ACKED: u64 = 0;
const ACKED_END: u64 = 1;
const BEGUN: u64 = 2;
const BEGUN_END: u64 = 3;
const CLEARED: u64 = 4;

/// The file, shared by the process that is killed and the one that judges.
pub(super) struct Ledger {
    medium: Mapped,
    keys: u64,
}

impl Ledger {
    /// Opens it; makes it first if there is none.
    pub(super) fn open(path: &Path, keys: u64) -> Result<Ledger> {
        let map = || -> Result<Mapped> {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            let bytes = (KEYS_AT + keys * LINE_BYTES).next_multiple_of(4096);
            let found = file.metadata()?.len();
            let medium = Memory::mapped(file, found, bytes, true)?;
            medium.grow(bytes)?;
            Ok(medium)
        };
        let medium = map().with_context(|| format!("mapping {}", path.display()))?;
        Ok(Ledger { medium, keys })
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    pub(super) fn line(&self, key: u64) -> Line {
        let load = |word| self.medium.load(of_key(key, word));
        Line {
            acked: load(ACKED),
            acked_end: load(ACKED_END),
            begun: load(BEGUN),
            begun_end: load(BEGUN_END),
            cleared: load(CLEARED),
        }
    }

    /// A put or a removal begins; its version. A value of it would be over at `end`.
    pub(super) fn begin(&self, key: u64, end: u64) -> u64 {
        let version = self.medium.load(of_key(key, BEGUN)) + 1;
        // The version before may be there, too, if its call was cut off. It has another end.
        self.set(key, BEGUN_END, NEVER);
        self.set(key, BEGUN, version);
        self.set(key, BEGUN_END, end);
        version
    }

    /// The call with this version has returned, and its value is over at `end` at the latest.
    pub(super) fn acknowledge(&self, key: u64, version: u64, end: u64) {
        // A reader that sees the version sees its end.
        self.set(key, ACKED_END, end);
        self.set(key, ACKED, version);
    }

    /// Whatever of the key is there ends at `acked` or at `begun`, by its version.
    pub(super) fn set_ends(&self, key: u64, acked: u64, begun: u64) {
        self.set(key, ACKED_END, acked);
        self.set(key, BEGUN_END, begun);
    }

    /// Versions up to this one were cleared.
    pub(super) fn clear(&self, key: u64, version: u64) {
        let at = of_key(key, CLEARED);
        let mut before = self.medium.load(at);
        while before < version {
            match self.medium.compare_exchange(at, before, version) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }

    /// A key was found to have this version: no older one comes back. Nobody uses the cache meanwhile.
    pub(super) fn settle(&self, key: u64, version: u64) {
        let line = self.line(key);
        if version > line.acked {
            self.acknowledge(key, version, line.end_of(version));
        }
    }

    fn set(&self, key: u64, word: u64, value: u64) {
        self.medium.store_release(of_key(key, word), value);
    }

    /// An opening begins that gives the cache this capacity. Until it is done the file may have either.
    pub(super) fn begin_opening(&self, capacity: u64) {
        let most = self.medium.load(own(CAPACITY_MOST)).max(capacity);
        let before = self.capacities().into_iter().max().unwrap_or_default();
        self.medium.store_release(own(CAPACITY_MOST), most);
        self.medium.store_release(own(CAPACITY_BEFORE), before);
        self.medium.store_release(own(CAPACITY), capacity);
    }

    pub(super) fn end_opening(&self) {
        self.medium.store_release(own(CAPACITY_BEFORE), 0);
    }

    /// The capacities that the cache may have.
    pub(super) fn capacities(&self) -> [u64; 2] {
        [CAPACITY, CAPACITY_BEFORE].map(|word| self.medium.load(own(word)))
    }

    /// The largest that it ever had. The file keeps its length.
    pub(super) fn capacity_most(&self) -> u64 {
        self.medium.load(own(CAPACITY_MOST))
    }

    pub(super) fn count_call(&self, thread: u64) {
        self.count(thread, CALLS);
    }

    pub(super) fn count_found(&self, thread: u64) {
        self.count(thread, FOUND);
    }

    pub(super) fn count_breach(&self, thread: u64, breach: Breach) {
        self.count(thread, BREACHES + breach as u64);
    }

    fn count(&self, thread: u64, word: u64) {
        let at = of_thread(thread, word);
        self.medium.store(at, self.medium.load(at) + 1);
    }

    fn counted(&self, word: u64) -> u64 {
        (0..THREADS_MAX).map(|thread| self.medium.load(of_thread(thread, word))).sum()
    }

    /// Calls of all threads that have returned.
    pub(super) fn calls(&self) -> u64 {
        self.counted(CALLS)
    }

    /// Of these, look-ups that have found something.
    pub(super) fn found(&self) -> u64 {
        self.counted(FOUND)
    }

    /// How often the threads saw each promise broken.
    pub(super) fn breaches(&self) -> [u64; Breach::COUNT] {
        std::array::from_fn(|breach| self.counted(BREACHES + breach as u64))
    }
}

fn own(word: u64) -> Offset {
    Offset(0).word(word)
}

fn of_thread(thread: u64, word: u64) -> Offset {
    Offset(LINE_BYTES * (1 + thread)).word(word)
}

fn of_key(key: u64, word: u64) -> Offset {
    Offset(KEYS_AT + LINE_BYTES * key).word(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_counts_survive_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger");
        {
            let ledger = Ledger::open(&path, 9).unwrap();
            assert_eq!(ledger.begin(8, 500), 1);
            ledger.acknowledge(8, 1, 501);
            assert_eq!(ledger.begin(8, NEVER), 2);
            ledger.clear(8, 1);
            ledger.clear(8, 0);
            ledger.count_call(THREADS_MAX - 1);
            ledger.count_call(0);
            ledger.count_found(0);
            ledger.count_breach(3, Breach::Large);
            ledger.begin_opening(100);
            ledger.begin_opening(40);
        }
        let ledger = Ledger::open(&path, 9).unwrap();
        let line = Line { acked: 1, acked_end: 501, begun: 2, begun_end: NEVER, cleared: 1 };
        assert_eq!(ledger.line(8), line);
        assert_eq!(ledger.line(7), Line::default());
        assert_eq!((ledger.calls(), ledger.found()), (2, 1));
        let mut breaches = [0; Breach::COUNT];
        breaches[Breach::Large as usize] = 1;
        assert_eq!(ledger.breaches(), breaches);
        // An opening that was cut off may have changed the capacity, or not.
        assert_eq!((ledger.capacities(), ledger.capacity_most()), ([40, 100], 100));
        ledger.end_opening();
        assert_eq!(ledger.capacities(), [40, 0]);
    }
}
