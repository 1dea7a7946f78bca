//! Byte strings.

use crate::any_engine::AnyEngine;
use crate::batch::Batch;
use crate::body::Body;
use crate::contents::Contents;
use crate::cursor::{Runs, place_of_bytes};
use crate::guests::Served;
use crate::held::Held;
use crate::iter::StoreIter;
use crate::pool::Pool;
use crate::shapes::Shapes;
use crate::{BatchError, Engine, Error, Options, Result};
use index::hash::Hasher;
use index::{Records, Unfinished};
use pmem::medium::Memory;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;

/// A concurrent, crash-safe map of byte strings to byte strings in a pool. Keys have up to 64 KiB, values up to 256
/// MiB.
///
/// The promises are those of [`Table`](crate::Table). Values are read in place, without a copy: while a [`Record`]
/// exists, its value stays in place.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("capitals.firn");
/// let store = firndex::Store::open_or_create(&path)?;
/// store.put("France", "Paris")?;
/// assert_eq!(store.get("France")?.as_deref(), Some(&b"Paris"[..]));
/// assert!(store.get("Atlantis")?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct Store {
    records: AnyEngine<dyn Records>,
    pool: Pool,
    runs: Runs<Box<[u8]>>,
}

/// A value in place, or the value that an operation replaced.
///
/// Hold it briefly. While a record is held, the space of values replaced since then is not reused, and no values are
/// moved together. So a thread that holds one for long can fill the pool; the error then says so. That is the price of
/// look-ups without locks or reference counts.
///
/// A forked child may drop inherited records, but must not read them: there they keep nothing in place.
pub struct Record<'a>(index::Record<'a>);

impl<'a> Record<'a> {
    pub(crate) fn new(record: index::Record<'a>) -> Self {
        Record(record)
    }

    pub(crate) fn into_inner(self) -> index::Record<'a> {
        self.0
    }
}

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[u8]> for Record<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Record<'_> {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

/// Most steps of a compaction: if writers leave gaps as fast, it would never end.
const COMPACTIONS_MAX: u32 = 1000;

/// Shows how many bytes there are, but not the bytes: they may be many, or secret.
impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What a batch of changes has found.
type Changes<'a> =
    std::result::Result<Vec<Option<index::Record<'a>>>, Unfinished<index::ItemError>>;

/// Copies of a key and its value.
type KeyAndValue = (Vec<u8>, Vec<u8>);

fn wrap(record: Option<index::Record<'_>>) -> Option<Record<'_>> {
    record.map(Record)
}

/// The bytes of a batch's keys. The caller's `as_ref` runs here, before the right to write is taken.
fn bytes_of<Q: AsRef<[u8]>>(keys: &[Q]) -> Vec<&[u8]> {
    keys.iter().map(AsRef::as_ref).collect()
}

impl Store {
    /// Opens the store at `path`, which must exist, with default options: [`Options::open_store`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_store(path)
    }

    /// Opens the store at `path`, or creates it if there is no file: [`Options::open_or_create_store`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_or_create_store(path)
    }

    /// Creates a store at `path`, where no file may exist: [`Options::create_store`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().create_store(path)
    }

    /// A store in anonymous memory, which ends with the process.
    pub fn in_memory() -> Result<Self> {
        Options::new().in_memory_store()
    }

    /// The value of `key`, in place. Takes no lock and never waits. It fails as [`Table::get`](crate::Table::get) does,
    /// and with [`Error::Corrupt`] if the pool is damaged where the value would be.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Record<'_>>> {
        let key = key.as_ref();
        if let Some(found) = self.records.get_leased(key) {
            return Ok(wrap(found));
        }
        if self.pool.handle.is_disturbed() {
            return self.get_disturbed(key);
        }
        match self.records.get_here(key) {
            Some(found) => Ok(wrap(found)),
            None => self.get_by_call(key),
        }
    }

    /// Behind a call, an error does not take the results of the hot path through memory.
    #[inline(never)]
    fn get_by_call(&self, key: &[u8]) -> Result<Option<Record<'_>>> {
        Ok(wrap(self.records.get(key)?))
    }

    #[cold]
    #[inline(never)]
    fn get_disturbed(&self, key: &[u8]) -> Result<Option<Record<'_>>> {
        self.pool.handle.look(|| Ok(wrap(self.records.get(key)?)))
    }

    /// Stores the pair, whether or not `key` is present. Returns the replaced value.
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Record<'_>>> {
        // The caller's code runs first: a sync waits for threads with the right to write.
        let (key, value) = (key.as_ref(), value.as_ref());
        self.pool.handle.mutate(move || Ok(wrap(self.records.upsert(key, value)?)))
    }

    /// Stores the pair if `key` is absent. If it is present, its value stays, and is returned.
    pub fn insert(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Record<'_>>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.pool.handle.mutate(move || Ok(wrap(self.records.insert(key, value)?)))
    }

    /// Replaces the value if `key` is present, and returns the replaced value. If `key` is absent, does nothing and
    /// returns `None`.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Record<'_>>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.pool.handle.mutate(move || Ok(wrap(self.records.update(key, value)?)))
    }

    /// Removes `key` and returns its value.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Record<'_>>> {
        let key = key.as_ref();
        self.pool.handle.mutate(move || Ok(wrap(self.records.remove(key)?)))
    }

    /// Changes the state of `key` from `expected` to `new` in one atomic step. `None` means absent, on either side.
    /// Returns `Ok(Err(found))`, and changes nothing, if the state was `found` and not `expected`.
    /// [`Store::replace_if`] and [`Store::remove_if`] also take `&str`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put("lock", "free")?;
    /// assert!(store.compare_exchange("lock", Some(b"free"), Some(b"mine"))?.is_ok());
    /// let found = store.compare_exchange("lock", Some(b"free"), None)?.unwrap_err();
    /// assert_eq!(found.as_deref(), Some(&b"mine"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Record<'_>>>> {
        let key = key.as_ref();
        self.pool
            .handle
            .mutate(|| Ok(self.records.compare_exchange(key, expected, new)?.map_err(wrap)))
    }

    /// Passes the state of `key` to `change` and stores the result, in one atomic step. Returns the former state.
    /// `None` means absent, on either side. `change` runs outside every lock and may use this store. It may run several
    /// times; its last call is the one that took effect.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let log = firndex::Store::in_memory()?;
    /// for line in ["one\n", "two\n"] {
    ///     log.modify("today", |text| Some([text.unwrap_or_default(), line.as_bytes()].concat()))?;
    /// }
    /// assert_eq!(log.get("today")?.as_deref(), Some(&b"one\ntwo\n"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Record<'_>>> {
        let key = key.as_ref();
        let mut before = self.get(key)?;
        let mut may_retry = true;
        loop {
            let after = change(before.as_deref());
            match self.compare_exchange(key, before.as_deref(), after.as_deref()) {
                Ok(Ok(())) => return Ok(before),
                Ok(Err(found)) => before = found,
                Err(Error::PoolFull(_)) if before.is_some() && may_retry => {
                    // The record held here may be what keeps the needed space.
                    drop(before.take());
                    may_retry = false;
                    let write = self.pool.handle.write()?;
                    self.records.make_room(key, after.as_deref().unwrap_or_default());
                    drop(write);
                    before = self.get(key)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// [`Store::get`] for each key, with overlapped cache misses. The batch is not atomic, and its look-ups run
    /// concurrently. So if another thread changes a key meanwhile, a batch with that key twice may see two states, in
    /// any order.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put_many(&[("France", "Paris"), ("Italy", "Rome")])?;
    /// let found = store.get_many(&["Italy", "Atlantis"])?;
    /// assert_eq!(found[0].as_deref(), Some(&b"Rome"[..]));
    /// assert!(found[1].is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many<Q: AsRef<[u8]>>(&self, keys: &[Q]) -> Result<Vec<Option<Record<'_>>>> {
        self.pool
            .handle
            .look(|| Ok(self.records.get_many(&bytes_of(keys))?.into_iter().map(wrap).collect()))
    }

    /// [`Store::put`] for each pair, in order, with shared fences. Returns the replaced values. A [`BatchError`] tells
    /// which pairs were stored before it. If a key or value is too long, none is.
    pub fn put_many<Q: AsRef<[u8]>, T: AsRef<[u8]>>(
        &self,
        pairs: &[(Q, T)],
    ) -> std::result::Result<Vec<Option<Record<'_>>>, BatchError> {
        self.change_pairs(pairs, |records, pairs| records.upsert_many(pairs))
    }

    /// [`Store::insert`] for each pair, in order, with shared fences. Returns the values that were there before, and
    /// stay. Errors are as in [`Store::put_many`].
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.insert_many(&[("France", "Paris"), ("Italy", "Rome")])?;
    /// let before = store.insert_many(&[("Italy", "Milan"), ("Spain", "Madrid")])?;
    /// assert_eq!(before[0].as_deref(), Some(&b"Rome"[..]));
    /// assert!(before[1].is_none());
    /// drop(before);
    /// store.update_many(&[("Spain", "Toledo"), ("Atlantis", "?")])?;
    /// assert_eq!(store.get("Spain")?.as_deref(), Some(&b"Toledo"[..]));
    /// assert!(store.get("Atlantis")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many<Q: AsRef<[u8]>, T: AsRef<[u8]>>(
        &self,
        pairs: &[(Q, T)],
    ) -> std::result::Result<Vec<Option<Record<'_>>>, BatchError> {
        self.change_pairs(pairs, |records, pairs| records.insert_many(pairs))
    }

    /// [`Store::update`] for each pair, in order, with shared fences. Returns the replaced values; keys without one
    /// stay absent. Errors are as in [`Store::put_many`].
    pub fn update_many<Q: AsRef<[u8]>, T: AsRef<[u8]>>(
        &self,
        pairs: &[(Q, T)],
    ) -> std::result::Result<Vec<Option<Record<'_>>>, BatchError> {
        self.change_pairs(pairs, |records, pairs| records.update_many(pairs))
    }

    fn change_pairs<'a, Q: AsRef<[u8]>, T: AsRef<[u8]>>(
        &'a self,
        pairs: &[(Q, T)],
        change: impl FnOnce(&'a dyn Records, &[(&[u8], &[u8])]) -> Changes<'a>,
    ) -> std::result::Result<Vec<Option<Record<'a>>>, BatchError> {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        let found =
            self.pool.handle.mutate_batch(pairs.len(), || change(&*self.records, &pairs))?;
        Ok(found.into_iter().map(wrap).collect())
    }

    /// [`Store::remove`] for each key, in order, with shared fences. Returns the removed values. A [`BatchError`] tells
    /// which keys were removed before it.
    pub fn remove_many<Q: AsRef<[u8]>>(
        &self,
        keys: &[Q],
    ) -> std::result::Result<Vec<Option<Record<'_>>>, BatchError> {
        let keys = bytes_of(keys);
        let removed =
            self.pool.handle.mutate_batch(keys.len(), || self.records.remove_many(&keys))?;
        Ok(removed.into_iter().map(wrap).collect())
    }

    /// Calls `visit` for every key and value, in no order, with the promises of
    /// [`Table::for_each`](crate::Table::for_each). During each call of `visit` the space of replaced and removed items
    /// is not reused; on a lock-free engine, not until the scan ends.
    ///
    /// It verifies each item, as all scans do, and so whatever copies by one. At an item that does not fit its checksum
    /// it ends with [`Error::Corrupt`]; [`Salvage`](crate::Salvage) copies out the others.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.pool.handle.look(|| Ok(self.records.for_each(&mut visit)?))
    }

    /// [`Store::for_each`] that ends with the first pair for which `visit` returns `Break`, and returns that.
    pub fn try_for_each<B>(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        self.pool.handle.look(|| {
            let mut scan = self.records.scan();
            while let Some((key, value)) = scan.next()? {
                if let ControlFlow::Break(what) = visit(key, value) {
                    return Ok(ControlFlow::Break(what));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Copies of the keys and values, in no order, with the promises of [`Table::for_each`](crate::Table::for_each).
    /// The iterator ends after an error. Use it up or drop it: until then, the space of replaced and removed items may
    /// not be reused.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put("France", "Paris")?;
    /// for pair in &store {
    ///     let (country, capital) = pair?;
    ///     assert_eq!((&country[..], &capital[..]), (&b"France"[..], &b"Paris"[..]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> StoreIter<'_> {
        StoreIter::new(&*self.records, &self.pool.handle)
    }

    /// About `count` keys and values from a cursor on, and the cursor for the next call. Promises and price are those
    /// of [`Table::scan`](crate::Table::scan).
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// store.put("France", "Paris")?;
    /// let (pairs, next) = store.scan(0, 10)?;
    /// assert_eq!(pairs, [(b"France".to_vec(), b"Paris".to_vec())]);
    /// assert_eq!(next, 0, "that was all");
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self, cursor: u64, count: usize) -> Result<(Vec<KeyAndValue>, u64)> {
        self.pool.handle.read()?;
        let (keys, next) = self.runs.keys(cursor, count, self.records.len(), |run| {
            self.for_each(|key, _| run.add(place_of_bytes(key), key.len(), || key.into()))
        })?;
        let mut pairs = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(value) = self.get(&key)? {
                let value = value.to_vec();
                pairs.push((key.into_vec(), value));
            }
        }
        Ok((pairs, next))
    }

    /// Moves values together inside the file, while other operations go on. Then the free space between them serves
    /// values of any size. Returns how many bytes became free for that. A change that finds no room does as much of
    /// this as it needs. Nothing moves while an older [`Record`] is held: the call waits a moment, and then leaves the
    /// rest in place.
    ///
    /// The file keeps its size, and the store stays open. To make the file smaller, use [`Store::rewrite`], which is
    /// `firndex compact` on the command line. The two share only the name.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let store = firndex::Store::in_memory()?;
    /// for key in 0..10_000u32 {
    ///     store.put(key.to_le_bytes(), [1; 100])?;
    /// }
    /// for key in (0..10_000u32).filter(|key| key % 10 != 0) {
    ///     store.remove(key.to_le_bytes())?;
    /// }
    /// assert!(store.compact()? > 500_000);
    /// assert_eq!(store.len(), 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact(&self) -> Result<u64> {
        let mut freed_bytes = 0;
        for _ in 0..COMPACTIONS_MAX {
            // In steps: a sync waits for threads with the right to write.
            let step = self.pool.handle.mutate_many(|| Ok(self.records.compact().freed_bytes))?;
            freed_bytes += step;
            if step == 0 {
                break;
            }
        }
        Ok(freed_bytes)
    }

    /// The operations of the engine.
    pub(crate) fn records(&self) -> &AnyEngine<dyn Records> {
        &self.records
    }

    /// Writes everything to the device, and marks the pool as closed. In a guest, see
    /// [`Options::guests`](crate::Options::guests), it only ends this process's use of the pool.
    pub fn close(self) -> Result<()> {
        self.into_pool().into_handle().close()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Deref for Store {
    type Target = Pool;

    #[inline(always)]
    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl Held for Store {
    type Operations = dyn Records;

    fn contents() -> Contents {
        Contents::STORE
    }

    fn shapes() -> Shapes {
        Shapes::default()
    }

    fn engine(
        pool: Arc<pmem::Pool<Memory>>,
        engine: Engine,
        options: &Options,
    ) -> Result<AnyEngine<dyn Records>> {
        let hasher = Hasher::new(pool.superblock().hash_seed);
        let opened = engine.open_bytes(pool, hasher, options.engine_settings())?;
        Ok(AnyEngine::new(opened.engine, opened.inlined))
    }

    fn body(engine: &AnyEngine<dyn Records>) -> Arc<dyn Body> {
        Arc::new(engine.shared())
    }

    fn new(records: AnyEngine<dyn Records>, pool: Pool) -> Self {
        Store { records, pool, runs: Runs::default() }
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn into_pool(self) -> Pool {
        self.pool
    }

    fn served(&self) -> Option<Arc<dyn Served>> {
        Some(Arc::new(self.records.shared()))
    }

    fn put_all_in(&self, copy: &Self) -> Result<()> {
        let mut batch = Batch::default();
        let put = |batch: &mut Batch| -> Result<()> {
            copy.put_many(&batch.pairs())?;
            batch.clear();
            Ok(())
        };
        let visited = self.try_for_each(|key, value| {
            batch.add(key, value);
            match batch.is_full().then(|| put(&mut batch)) {
                Some(Err(error)) => ControlFlow::Break(error),
                _ => ControlFlow::Continue(()),
            }
        })?;
        match visited {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => put(&mut batch),
        }
    }
}

impl<'a> IntoIterator for &'a Store {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = StoreIter<'a>;

    fn into_iter(self) -> StoreIter<'a> {
        self.iter()
    }
}
