//! The two faces of an engine: [`Index`] for fixed-size pairs, [`Records`] for bytes.
//!
//! Both are object safe: the facade holds an engine behind one virtual call, and everything
//! below that call is statically dispatched.

use crate::change::Change;
use crate::error::{Error, ItemError};
use crate::report::{CheckReport, Occupancy, Shrunk};
use crate::unfinished::Unfinished;
use pmem::epoch::{Bytes, Guard};
use pmem::heap::{Compacted, HeapUse};
use pmem::sync::AtomicBool;
use pmem::view::View;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The result of a conditional write.
///
/// `Ok(())`: the expected state was found and replaced, durably if the medium is durable. `Err(found)`: nothing was
/// changed, since the state was `found`.
pub type Exchange<V> = Result<(), Option<V>>;

/// What was in a pool when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Slots with a pair; in a store, with the hash of one key or of several.
    pub slots: u64,
    /// Slots of a store that lead to a group of items.
    pub groups: u64,
}

impl Found {
    /// Whether so many pairs can be in these slots. A group has at least two.
    pub fn may_hold(self, pairs: u64) -> bool {
        match self.groups {
            0 => pairs == self.slots,
            groups => pairs >= self.slots + groups,
        }
    }
}

/// Who wants to know what was found.
pub type WhenBuilt = Box<dyn FnOnce(Found) + Send>;

/// What a helper thread does when it is idle.
pub trait Chore: Send + Sync {
    /// Whether there is anything left to do.
    fn is_due(&self) -> bool;

    /// Gets ready what [`Chore::run`] needs and takes long to get. Writes nothing, so the table may be at rest.
    fn prepare(&self) {}

    /// Does as much of it as is possible now.
    fn run(&self);
}

/// A concurrent map of fixed-size keys to fixed-size values.
///
/// Every method may be called from any number of threads. Each operation is linearizable, and on a durable medium
/// durably linearizable: once it returns, no crash takes back its effect, nor the value or absence that it reported.
/// Each change returns the value that it replaced or met. Every bit pattern is a legal key and a legal value.
///
/// A change fails only without space, with [`Error::Space`] (nothing was changed, and the table keeps working), or on a
/// damaged pool, with [`Error::Corrupt`]. The caller holds the pool's right to write ([`pmem::Pool::write`]) around
/// each change.
pub trait Index<K: Copy, V: Copy>: Send + Sync {
    /// The value of `key`. Takes no lock and never waits.
    fn get(&self, key: K) -> Option<V>;

    /// Stores the pair if `key` is absent. If it is present, its value stays, and is returned.
    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error>;

    /// Replaces the value if `key` is present. Returns the replaced value; `None` means that
    /// the key is absent and stays absent.
    fn update(&self, key: K, value: V) -> Result<Option<V>, Error>;

    /// Stores the pair, whether or not `key` is present. Returns the replaced value.
    fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error>;

    /// Removes `key`. Returns the removed value.
    fn remove(&self, key: K) -> Result<Option<V>, Error>;

    /// Changes the state of `key` from `expected` to `new` in one atomic step. `None` means absent, so insert-if-absent
    /// and remove-if are special cases. Values are compared by their bytes.
    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>, Error>;

    /// Replaces the state of `key` by what `decide` makes of it, in one step. Returns the state before. `decide` may be
    /// called several times; its last call is the one that took effect. It may be called under a lock of the table: it
    /// must neither use the table nor wait.
    #[inline]
    fn modify(&self, key: K, decide: impl Fn(Option<V>) -> Change<V>) -> Result<Option<V>, Error>
    where
        Self: Sized,
    {
        let mut found = self.get(key);
        loop {
            let new = match decide(found) {
                Change::Keep => return Ok(found),
                Change::Put(value) => Some(value),
                Change::Remove => None,
            };
            match self.compare_exchange(key, found, new)? {
                Ok(()) => return Ok(found),
                Err(other) => found = other,
            }
        }
    }

    /// Removes `key` if its value is `expected`.
    fn remove_if(&self, key: K, expected: V) -> Result<Exchange<V>, Error> {
        self.compare_exchange(key, Some(expected), None)
    }

    /// Hints that `key` is about to be looked up or changed: what that reads first comes into the caches meanwhile.
    fn prefetch(&self, _key: K) {}

    /// `get` for each key, with overlapped cache misses. `out` must be as long as `keys`; entry *i* answers key *i*.
    /// The batch is not atomic, and its look-ups run concurrently: if another thread changes a key, two entries for it
    /// may see two states in any order.
    fn get_many(&self, keys: &[K], out: &mut [Option<V>]);

    /// `insert` for each pair in order, with shared fences. `out[i]` is the result of `insert` for pair *i*. The error
    /// tells which pairs took effect, each of them whole; the others leave their `out` untouched.
    fn insert_many(&self, pairs: &[(K, V)], out: &mut [Option<V>])
    -> Result<(), Unfinished<Error>>;

    /// `update` for each pair in order; as [`Index::insert_many`].
    fn update_many(&self, pairs: &[(K, V)], out: &mut [Option<V>])
    -> Result<(), Unfinished<Error>>;

    /// `upsert` for each pair in order; as [`Index::insert_many`].
    fn upsert_many(&self, pairs: &[(K, V)], out: &mut [Option<V>])
    -> Result<(), Unfinished<Error>>;

    /// `remove` for each key in order; as [`Index::insert_many`].
    fn remove_many(&self, keys: &[K], out: &mut [Option<V>]) -> Result<(), Unfinished<Error>>;

    /// `compare_exchange` for each `(key, expected, new)` in order, with shared fences. `out[i]` is the state that was
    /// found; entry *i* took effect if that has the bytes of its `expected`. Errors are as in [`Index::insert_many`].
    fn compare_exchange_many(
        &self,
        changes: &[(K, Option<V>, Option<V>)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>>;

    /// Begins a scan. Others may write meanwhile. Every key that is present throughout is met exactly once, with a
    /// value that it had meanwhile. A key that is inserted or removed meanwhile may be met or not; one that is removed
    /// and inserted again may be met twice. During a scan the engine may refuse to shrink.
    fn scan(&self) -> Box<dyn Scan<K, V> + '_>;

    /// Calls `visit` for every pair of a [scan](Index::scan), holding no lock: `visit` may use the table. Ends with the
    /// scan's first error.
    fn for_each(&self, visit: &mut dyn FnMut(K, V)) -> Result<(), Error> {
        let mut scan = self.scan();
        let mut pairs = Vec::new();
        let mut is_over = false;
        while !is_over {
            is_over = !scan.take_some(&mut pairs)?;
            pairs.drain(..).for_each(|(key, value)| visit(key, value));
        }
        Ok(())
    }

    /// [`Index::for_each`] on this many threads, with the same promise, unless `visit` says that it is enough. Skips
    /// pairs that cannot be read.
    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(K, V) -> ControlFlow<()> + Sync));

    /// Number of pairs. Exact when nothing writes.
    fn len(&self) -> u64;

    /// Whether the table holds no pair.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full the table and each of its levels is.
    fn occupancy(&self) -> Occupancy;

    /// Space of the items, if the engine keeps its pairs in items.
    fn heap_use(&self) -> HeapUse {
        HeapUse::default()
    }

    /// Empties segments of the heap by moving items, if the engine keeps its pairs in items; as
    /// [`Records::compact`].
    fn compact(&self) -> Compacted {
        Compacted::default()
    }

    /// Gives free space of the heap back to the system, if the engine keeps its pairs in items; as
    /// [`Records::give_back`].
    fn give_back(&self) -> u64 {
        0
    }

    /// Verifies every invariant of the table. Exact when nothing writes.
    fn check(&self) -> CheckReport;

    /// Completes a resize that is under way, in the calling thread. Takes the right to write itself if there is
    /// anything to complete.
    fn settle(&self);

    /// Gives the table's helper threads something to do when they are idle. Does nothing if it has none.
    fn set_chore(&self, _chore: Weak<dyn Chore>) {}

    /// Wakes them for it, since it has become due. Returns whether there are any.
    fn wake_for_chore(&self) -> bool {
        false
    }

    /// Halves the table while other operations run, in the calling thread, unless it is too full or has its first size.
    /// Freed space stays with the pool.
    fn shrink(&self) -> Result<Shrunk, Error>;

    /// How long opening took to rebuild the sidecar from the pool.
    fn scan_time(&self) -> Duration;

    /// Whether the sidecar is whole. If not, it is being completed while operations run: what needs all of it, as an
    /// exact count after a crash does, then waits.
    fn is_built(&self) -> bool {
        true
    }

    /// Calls `then` when the sidecar has been completed, or at once if that is done, with what was in the pool when it
    /// was opened. It may be called by any thread that uses the table, and must not wait. Does nothing where an opening
    /// completes it.
    fn when_built(&self, _then: WhenBuilt) {}

    /// What guests look keys up in by themselves, if the engine lets them.
    fn view(&self) -> Option<Arc<View>> {
        None
    }

    /// From now on the table has a helper, which takes the rounds of [`Index::help`]. Does nothing if the engine has
    /// none.
    #[cfg(feature = "simulated")]
    fn expect_help(&self) {}

    /// Does what a helper does in one round, in the calling thread.
    #[cfg(feature = "simulated")]
    fn help(&self) {}
}

/// A scan of an [`Index`] under way. It may be dropped at any time.
pub trait Scan<K, V> {
    /// Adds the next few pairs to `pairs`, perhaps none. Returns whether the scan goes on. Holds no lock afterwards.
    /// Fails if a pair cannot be read or does not fit its checksum.
    fn take_some(&mut self, pairs: &mut Vec<(K, V)>) -> Result<bool, Error>;
}

/// A key and its value, in place.
pub type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// A scan of [`Records`] under way. It may be dropped at any time. Until then the space of replaced and removed items
/// may not be reused, so do not keep one for long.
pub trait RecordScan {
    /// The next key and value; `None` at the end, and after that. After an error the results are unspecified.
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, ItemError>;
}

/// Bytes found by an operation of [`Records`], borrowed from the pool.
///
/// The guard keeps them in place. Hold it briefly: while any guard is held, no replaced item's space is reused.
#[derive(Debug)]
pub struct Record<'a>(Bytes<'a>);

impl<'a> Record<'a> {
    /// Ties `bytes`, which must have been found under `pinned`, to that guard.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], pinned: Guard<'a>) -> Self {
        Record(Bytes::pinned(bytes, pinned))
    }

    /// A copy of what is in another process's pool.
    #[inline(always)]
    pub fn copied(bytes: Box<[u8]>) -> Self {
        Record(Bytes::own(bytes))
    }

    /// The value's bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// A copy of them. What was copied already is not copied again.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

/// The result of a conditional write on [`Records`], as [`Exchange`].
pub type RecordExchange<'a> = Result<(), Option<Record<'a>>>;

/// A concurrent map of byte strings to byte strings. Same promises as [`Index`].
pub trait Records: Send + Sync {
    /// The value of `key`, in place. Takes no lock and never waits.
    fn get(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError>;

    /// Stores the pair if `key` is absent. If it is present, its value stays, and is returned.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError>;

    /// Replaces the value if `key` is present; returns the replaced value.
    fn update(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError>;

    /// Stores the pair, whether or not `key` is present. Returns the replaced value.
    fn upsert(&self, key: &[u8], value: &[u8]) -> Result<Option<Record<'_>>, ItemError>;

    /// Removes `key`; returns the removed value.
    fn remove(&self, key: &[u8]) -> Result<Option<Record<'_>>, ItemError>;

    /// Changes the state of `key` from `expected` to `new` in one atomic step. `None` means absent.
    fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<RecordExchange<'_>, ItemError>;

    /// `get` for each key, with overlapped cache misses, as [`Index::get_many`].
    fn get_many<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Record<'a>>>, ItemError>;

    /// `upsert` for each pair in order. The error tells which pairs are stored, each of them whole.
    fn upsert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>>;

    /// `insert` for each pair in order; as [`Records::upsert_many`].
    fn insert_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>>;

    /// `update` for each pair in order; as [`Records::upsert_many`].
    fn update_many<'a>(
        &'a self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>>;

    /// `remove` for each key in order; as [`Records::upsert_many`].
    fn remove_many<'a>(
        &'a self,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Record<'a>>>, Unfinished<ItemError>>;

    /// Begins a scan, with the promises of [`Index::scan`].
    fn scan(&self) -> Box<dyn RecordScan + '_>;

    /// Calls `visit` for every key and value of a [scan](Records::scan); `visit` may use the store.
    fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), ItemError> {
        let mut scan = self.scan();
        while let Some((key, value)) = scan.next()? {
            visit(key, value);
        }
        Ok(())
    }

    /// Number of pairs. Exact when nothing writes.
    fn len(&self) -> u64;

    /// Whether the store holds no pair.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How full the underlying table is.
    fn occupancy(&self) -> Occupancy;

    /// Space of the items.
    fn heap_use(&self) -> HeapUse;

    /// Verifies table, items and heap. Exact when nothing writes.
    fn check(&self) -> CheckReport;

    /// Frees replaced and removed items that no [`Record`] shows any more, and makes room for an item that replaces
    /// another, if possible. The caller has the right to write, and holds no [`Record`].
    fn make_room(&self, key: &[u8], value: &[u8]);

    /// Moves some items together while other operations run, in the calling thread, so that the free space between them
    /// serves items of any size. If this frees nothing, nothing is left to move. The caller has the right to write, and
    /// holds no [`Record`].
    fn compact(&self) -> Compacted;

    /// Gives some free space of the heap back to the system; returns how many bytes. If none, nothing is left to be
    /// given back: the heap keeps a part of it for what comes next. The caller has the right to write.
    fn give_back(&self) -> u64;

    /// Completes a resize that is under way; as [`Index::settle`].
    fn settle(&self);

    /// Halves the underlying table; as [`Index::shrink`].
    fn shrink(&self) -> Result<Shrunk, Error>;

    /// How long opening took to rebuild the sidecar; as [`Index::scan_time`].
    fn scan_time(&self) -> Duration;

    /// Leaves it to the caller to find, beside changes, what space is free: to call [`Records::sweep`]. Until then
    /// changes do without what they cannot know, and wait where that is not enough. Otherwise the first change finds
    /// it. Returns whether there is anything to find.
    fn take_sweep_over(&self) -> bool {
        false
    }

    /// Finds what space is free. Ends soon if it `is_stopped`, for a pool that is about to be closed; after that, only
    /// [`Records::len`] and [`Records::prepare_close`] may be called.
    fn sweep(&self, _is_stopped: &AtomicBool) {}

    /// Records what space is free, for the next opening. The last call before the pool is closed.
    fn prepare_close(&self) {}

    /// As [`Index::is_built`].
    fn is_built(&self) -> bool {
        true
    }

    /// As [`Index::when_built`].
    fn when_built(&self, _then: WhenBuilt) {}

    /// As [`Index::view`].
    fn view(&self) -> Option<Arc<View>> {
        None
    }

    /// From now on the store has a helper, which takes the rounds of [`Records::help`]. Does nothing if the engine has
    /// none.
    #[cfg(feature = "simulated")]
    fn expect_help(&self) {}

    /// Whether all free slots were there that the last close has recorded.
    #[cfg(feature = "simulated")]
    fn has_found_free_slots(&self) -> bool {
        true
    }

    /// Does what a helper does in one round, in the calling thread.
    #[cfg(feature = "simulated")]
    fn help(&self) {}
}
