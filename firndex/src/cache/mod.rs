//! A cache: byte strings within a bound.

mod clock;
mod flights;
mod held;
mod iter;
mod operations;

pub use engines::cache::CacheStats;
pub use iter::CacheIter;
pub(crate) use operations::{CacheOperations, Demand, End, Entries, Owned};

use crate::any_engine::AnyEngine;
use crate::pool::Pool;
use crate::store::Record;
use crate::{BatchError, Error, Options, Result};
use flights::{Arrival, Flights, Part};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A cache of byte strings in a pool: it never takes more than its capacity, what is seldom asked for makes room, and
/// all of it is there after a restart, a kill -9 included.
///
/// A put makes room before it writes, and does not fail for lack of it. Entries may end at some time; from that
/// millisecond on they are not returned. What survives which failure is as for a [`Store`](crate::Store): whatever is
/// returned was put for that key, and nothing comes back that was removed, replaced, or over. Unlike a store's, an
/// entry may be gone at any time, since it made room.
///
/// What stays is decided by what it earns: the cache measures how often entries of the same history were asked for
/// afterwards, for the bytes that they take. A scan or a loop over more than there is room for does not push out what
/// is popular. A large entry stays only if it is asked for as often as all the small ones that would have its place.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("pages.firn");
/// use std::time::Duration;
///
/// let pages = firndex::Cache::open_or_create(&path, 64 << 20)?;
/// pages.put("/about", "We are…")?;
/// pages.put_for("/news", "Today…", Duration::from_secs(60))?;
/// assert_eq!(pages.get("/about")?.as_deref(), Some("We are…".as_bytes()));
///
/// let page = pages.get_or_put_with("/team", || Ok::<_, ()>(b"Ada, Grace".to_vec()))?.unwrap();
/// assert_eq!(&page[..], b"Ada, Grace");
/// # Ok(())
/// # }
/// ```
pub struct Cache {
    operations: AnyEngine<dyn CacheOperations>,
    /// The engine, if this process opened the pool as its owner: behind no virtual call.
    owned: Option<Arc<Owned>>,
    pool: Pool,
    flights: Flights,
}

impl Cache {
    /// Opens the cache at `path`, or creates it: [`Options::open_or_create_cache`].
    pub fn open_or_create(path: impl AsRef<Path>, capacity_bytes: u64) -> Result<Self> {
        Options::new().open_or_create_cache(path, capacity_bytes)
    }

    /// Opens the cache at `path`, which must exist, with the capacity that it had: [`Options::open_cache`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_cache(path)
    }

    /// A cache in anonymous memory, which ends with the process.
    pub fn in_memory(capacity_bytes: u64) -> Result<Self> {
        Options::new().in_memory_cache(capacity_bytes)
    }

    /// The value of `key`, in place. Takes no lock and never waits. A guest asks the pool's owner, and gets a copy.
    ///
    /// Drop the [`Record`] soon: as long as it is held, no space is used again that is freed meanwhile, and puts
    /// at last fail with [`Error::CacheHeld`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Record<'_>>> {
        let key = key.as_ref();
        match &self.owned {
            Some(owned) if !self.pool.handle.is_disturbed() => Ok(owned.get(key).map(Record::new)),
            _ => self.pool.handle.look(|| self.operations.get(key)),
        }
    }

    /// [`Cache::get`] for each key. A guest asks for many of them at once.
    pub fn get_many<Q: AsRef<[u8]>>(&self, keys: &[Q]) -> Result<Vec<Option<Record<'_>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.pool.handle.look(|| self.operations.get_many(&keys))
    }

    /// Whether `key` is there. This is no hit.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.peek(key.as_ref())?.is_some())
    }

    pub(crate) fn peek(&self, key: &[u8]) -> Result<Option<Record<'_>>> {
        self.pool.handle.look(|| self.operations.peek(key))
    }

    /// Stores the pair, whether or not `key` is there, without an end. The calling thread holds no [`Record`]: room
    /// could not be made of what it keeps.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_to(key.as_ref(), value.as_ref(), End::Never)
    }

    /// [`Cache::put`] for each pair, in order. A [`BatchError`] tells which pairs were put before it.
    pub fn put_many<Q: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(Q, V)],
    ) -> std::result::Result<(), BatchError> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        self.pool.handle.mutate_batch(pairs.len(), || self.operations.put_many(&pairs))
    }

    /// Stores the pair for a time. After that it is there no more. The time is measured in milliseconds, and goes on
    /// while no process has the cache open, and while the machine sleeps.
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        self.put_to(key.as_ref(), value.as_ref(), End::after(time))
    }

    /// Stores the pair up to a moment. A moment in the past only removes what there was.
    ///
    /// The moment is one of the wall clock. If that is set forward meanwhile, the entry ends by it, and does not come
    /// back when it is set back.
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        end: SystemTime,
    ) -> Result<()> {
        self.put_to(key.as_ref(), value.as_ref(), End::AtMs(ms_of(end)))
    }

    pub(crate) fn put_to(&self, key: &[u8], value: &[u8], end: End) -> Result<()> {
        self.pool.handle.mutate(|| self.operations.put(key, value, end))
    }

    /// Stores the pair if `key` is not there; whether it was stored. Of several threads or processes that do this at
    /// once, one succeeds.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let cache = firndex::Cache::in_memory(1 << 20)?;
    /// assert!(cache.insert("job 7", "worker 1")?);
    /// assert!(!cache.insert("job 7", "worker 2")?);
    /// assert_eq!(cache.get("job 7")?.as_deref(), Some(&b"worker 1"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if(key.as_ref(), value.as_ref(), End::Never, Demand::Absent)
    }

    /// As [`Cache::insert`], for a time, as [`Cache::put_for`] does.
    pub fn insert_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<bool> {
        self.put_if(key.as_ref(), value.as_ref(), End::after(time), Demand::Absent)
    }

    /// Replaces the value of `key` if it is `expected`; whether it was. The new value ends when that would have ended.
    /// So a counter loses nothing, whoever else counts:
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let cache = firndex::Cache::in_memory(1 << 20)?;
    /// cache.put("visits", "9")?;
    /// loop {
    ///     let Some(found) = cache.get("visits")?.map(|found| found.to_vec()) else { break };
    ///     let visits: u64 = String::from_utf8_lossy(&found).parse().unwrap_or(0);
    ///     if cache.replace_if("visits", &found, (visits + 1).to_string())? {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(cache.get("visits")?.as_deref(), Some(&b"10"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace_if(
        &self,
        key: impl AsRef<[u8]>,
        expected: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let demand = Demand::Value(expected.as_ref());
        self.put_if(key.as_ref(), new.as_ref(), End::Never, demand)
    }

    pub(crate) fn put_if(
        &self,
        key: &[u8],
        value: &[u8],
        end: End,
        demand: Demand<'_>,
    ) -> Result<bool> {
        self.pool.handle.mutate(|| self.operations.put_if(key, value, end, demand))
    }

    /// Lets the entry of `key` end after this time from now on, if it is there. Returns whether it is.
    pub fn touch(&self, key: impl AsRef<[u8]>, time: Duration) -> Result<bool> {
        self.touch_to(key.as_ref(), End::after(time))
    }

    pub(crate) fn touch_to(&self, key: &[u8], end: End) -> Result<bool> {
        self.pool.handle.mutate(|| self.operations.touch(key, end))
    }

    /// How long the entry of `key` will still be there: `None` if it is not, `Some(None)` without an end.
    pub fn time_left(&self, key: impl AsRef<[u8]>) -> Result<Option<Option<Duration>>> {
        let key = key.as_ref();
        self.pool.handle.look(|| self.operations.time_left(key))
    }

    /// Removes `key`. Returns whether it was there.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.pool.handle.mutate(|| self.operations.remove(key))
    }

    /// [`Cache::remove`] for each key, in order. A guest asks for many of them at once. A [`BatchError`] tells which
    /// keys were removed before it.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let cache = firndex::Cache::in_memory(1 << 20)?;
    /// cache.put("a", "1")?;
    /// assert_eq!(cache.remove_many(&["a", "b"])?, [true, false]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many<Q: AsRef<[u8]>>(
        &self,
        keys: &[Q],
    ) -> std::result::Result<Vec<bool>, BatchError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.pool.handle.mutate_batch(keys.len(), || self.operations.remove_many(&keys))
    }

    /// Removes everything, in a time that does not depend on how much there is.
    pub fn clear(&self) -> Result<()> {
        self.pool.handle.mutate_many(|| self.operations.clear())
    }

    /// The value of `key`; if it is not there, what `compute` returns, which is then put. While one thread computes the
    /// value of a key, others that want it wait, and get the same. If that fails, or panics, one of those that wait
    /// tries: an error is returned to its own caller alone, and not kept.
    ///
    /// The outer error is the cache's, the inner one that of `compute`. A value that is not put, since it is too large
    /// or the pool's owner ended in the middle, is returned all the same. `compute` may use the cache, but not ask for
    /// the value of the same key in this way: it would wait for itself.
    pub fn get_or_put_with<E>(
        &self,
        key: impl AsRef<[u8]>,
        compute: impl FnOnce() -> std::result::Result<Vec<u8>, E>,
    ) -> Result<std::result::Result<Arc<[u8]>, E>> {
        let key = key.as_ref();
        loop {
            if let Some(found) = self.get(key)? {
                return Ok(Ok(found[..].into()));
            }
            match self.flights.join(key) {
                Part::Wait(flight) => {
                    if let Some(value) = flight.wait() {
                        return Ok(Ok(value));
                    }
                }
                Part::Compute(computing) => {
                    if let Some(found) = self.put_since(key)? {
                        return Ok(Ok(found));
                    }
                    let value: Arc<[u8]> = match compute() {
                        Ok(value) => value.into(),
                        Err(error) => return Ok(Err(error)),
                    };
                    self.put_computed(key, &value)?;
                    computing.end(Arc::clone(&value));
                    return Ok(Ok(value));
                }
            }
        }
    }

    /// [`Cache::get_or_put_with`], for asynchronous programs: who waits blocks no thread. If the future of the one that
    /// computes is dropped, another one goes on.
    pub async fn get_or_put_with_async<E, F>(
        &self,
        key: impl AsRef<[u8]>,
        compute: impl FnOnce() -> F,
    ) -> Result<std::result::Result<Arc<[u8]>, E>>
    where
        F: Future<Output = std::result::Result<Vec<u8>, E>>,
    {
        let key = key.as_ref();
        loop {
            if let Some(found) = self.copy_of(key)? {
                return Ok(Ok(found));
            }
            match self.flights.join(key) {
                Part::Wait(flight) => {
                    if let Some(value) = Arrival(flight).await {
                        return Ok(Ok(value));
                    }
                }
                Part::Compute(computing) => {
                    if let Some(found) = self.put_since(key)? {
                        return Ok(Ok(found));
                    }
                    let value: Arc<[u8]> = match compute().await {
                        Ok(value) => value.into(),
                        Err(error) => return Ok(Err(error)),
                    };
                    self.put_computed(key, &value)?;
                    computing.end(Arc::clone(&value));
                    return Ok(Ok(value));
                }
            }
        }
    }

    /// A record may not be held while a future waits.
    fn copy_of(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>> {
        Ok(self.get(key)?.map(|found| found[..].into()))
    }

    /// What somebody else has computed before this thread joined, and put by now. The look-up before it is counted.
    fn put_since(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>> {
        Ok(self.peek(key)?.map(|found| found[..].into()))
    }

    fn put_computed(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.put(key, value) {
            // Of the second nobody knows whether it is there; the value is as good.
            Err(Error::TooLarge { .. } | Error::Interrupted) => Ok(()),
            put => put,
        }
    }

    /// Calls `visit` with each key and value, until it returns `false`. This is no hit. `visit` may change the cache.
    /// An entry that is there throughout is met; one that is moved meanwhile perhaps twice.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        for entry in self {
            let (key, value) = entry?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn entries(&self) -> Box<dyn Entries + '_> {
        self.operations.entries()
    }

    pub(crate) fn checked(&self) -> index::CheckReport {
        self.operations.check()
    }

    /// All keys and values, as [`Cache::for_each`] meets them.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let cache = firndex::Cache::in_memory(1 << 20)?;
    /// cache.put("a", "1")?;
    /// for entry in cache.iter() {
    ///     let (key, value) = entry?;
    ///     assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"1"[..]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> CacheIter<'_> {
        CacheIter::new(self)
    }

    /// Figures of the cache.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let cache = firndex::Cache::in_memory(1 << 20)?;
    /// cache.put("a", "1")?;
    /// let before = cache.stats()?;
    /// cache.get("a")?;
    /// cache.get("b")?;
    /// let since = cache.stats()? - before;
    /// assert_eq!((since.hits, since.misses, since.hit_ratio()), (1, 1, 0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Result<CacheStats> {
        self.pool.handle.look(|| self.operations.stats())
    }

    /// Closes the cache. Dropping it does the same, and tells no error.
    pub fn close(self) -> Result<()> {
        let Cache { operations, owned, pool, .. } = self;
        drop((operations, owned));
        pool.into_handle().close()
    }
}

/// Milliseconds since 1970; at least 1, since 0 stands for no end.
fn ms_of(moment: SystemTime) -> u64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// What can be asked of any pool: whether it is sound, what survives power loss, the log.
impl Deref for Cache {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("entries", &self.pool.len()).finish_non_exhaustive()
    }
}
