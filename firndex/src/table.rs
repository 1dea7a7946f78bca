//! Fixed-size keys and values.

use crate::any_engine::AnyEngine;
use crate::body::Body;
use crate::contents::Contents;
use crate::cursor::{Runs, place_of};
use crate::guests::Served;
use crate::held::Held;
use crate::iter::Iter;
use crate::pool::Pool;
use crate::shapes::{self, Shapes};
use crate::word_types::{self, of_word};
use crate::{Engine, Error, Options, Result};
use engines::{Inlined, Opened};
use index::{Exchange, Fixed, Index, is_same_state};
use pmem::heap::Corrupt;
use pmem::medium::Memory;
use pmem::{Offset, OpenError};
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;

mod batches;
mod here;
mod singles;

use here::Here;

/// Pairs that are put into a copy in one call: enough for the new pool to overlap its cache misses.
const BATCH_PAIRS: usize = 1024;

/// A concurrent, crash-safe map of fixed-size keys to fixed-size values in a pool.
///
/// Share it by reference (or in an `Arc`) between any number of threads. Operations are linearizable. Once an operation
/// returns, its effect and its answer survive the death of the process; on [`Medium::Dax`](crate::Medium::Dax) also
/// power loss. On [`Medium::Mapped`](crate::Medium::Mapped) [`Options::durability`] chooses what survives power loss.
/// Every bit pattern is a legal key and value.
///
/// A change fails with [`Error::PoolFull`](crate::Error::PoolFull) if there is no space, and the table stays as it was.
/// Dropping a table closes it and ignores errors; [`Table::close`] reports them. What does not concern single pairs,
/// such as [`len`](Pool::len), [`stats`](Pool::stats), [`check`](Pool::check), [`sync`](Pool::sync) and
/// [`shrink`](Pool::shrink), it has from [`Pool`].
///
/// Keys and values are numbers, `bool`, `char`, and arrays, tuples and structs of these ([`Fixed`]), of any size that
/// an engine takes. A table in a file refuses types of another [shape](Fixed::shape) than those that it was made with.
/// `Table` without parameters is `Table<u64, u64>`.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("squares.firn");
/// let table = firndex::Table::<u64, u64>::open_or_create(&path)?;
/// table.put(12, 144)?;
/// assert_eq!(table.get(12)?, Some(144));
/// drop(table);
///
/// let table = firndex::Table::<u64, u64>::open(&path)?;
/// assert_eq!(table.remove(12)?, Some(144));
/// # Ok(())
/// # }
/// ```
pub struct Table<K: Fixed = u64, V: Fixed = u64> {
    index: AnyEngine<dyn Index<K, V>>,
    pool: Pool,
    runs: Runs<K>,
}

/// With default options. Name the types, or let the stored values determine them. A table that gets only integer
/// literals is a `Table<i32, i32>`, as with `HashMap`.
impl<K: Fixed, V: Fixed> Table<K, V> {
    /// Opens the table at `path`, which must exist: [`Options::open_table_of`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_table_of(path)
    }

    /// Opens the table at `path`, or creates it if there is no file: [`Options::open_or_create_table_of`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_or_create_table_of(path)
    }

    /// Creates a table at `path`, where no file may exist: [`Options::create_table_of`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().create_table_of(path)
    }

    /// A table in anonymous memory, which ends with the process: [`Options::in_memory_table_of`].
    pub fn in_memory() -> Result<Self> {
        Options::new().in_memory_table_of()
    }
}

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// The value of `key`. Takes no lock and never waits. It fails where `None` could be wrong: in a forked child, with
    /// [`Error::Forked`](crate::Error::Forked), and after a part of the file has vanished, with
    /// [`Error::Vanished`](crate::Error::Vanished).
    ///
    /// That is why the result is no bare `Option`. What another program has done to the file is no reason to panic, and
    /// a lost pool must not pass for one without the key.
    #[inline(always)]
    pub fn get(&self, key: K) -> Result<Option<V>> {
        if let Some(found) = self.index.get_here(key) {
            return Ok(found);
        }
        if self.pool.handle.is_disturbed() {
            return self.get_disturbed(key);
        }
        Ok(self.index.get(key))
    }

    /// Stores the pair, whether or not `key` is present. Returns the replaced value.
    #[inline(always)]
    pub fn put(&self, key: K, value: V) -> Result<Option<V>> {
        if let Some(Here { hot, thread, write }) = self.here()
            && let Some(found) = hot.upsert(key.word(0), value.word(0), thread)
        {
            drop(write);
            return Ok(found.map(of_word));
        }
        self.change(move |index| index.upsert(key, value))
    }

    /// Stores the pair if `key` is absent. If it is present, its value stays, and is returned.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// assert_eq!(table.insert(1, 10)?, None);
    /// assert_eq!(table.insert(1, 11)?, Some(10));
    /// assert_eq!(table.get(1)?, Some(10));
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>> {
        if let Some(Here { hot, thread, write }) = self.here()
            && let Some(found) = hot.insert(key.word(0), value.word(0), thread)
        {
            drop(write);
            return Ok(found.map(of_word));
        }
        self.change(move |index| index.insert(key, value))
    }

    /// Replaces the value if `key` is present, and returns the replaced value. If `key` is absent, does nothing and
    /// returns `None`.
    #[inline(always)]
    pub fn update(&self, key: K, value: V) -> Result<Option<V>> {
        if let Some(Here { hot, thread, write }) = self.here()
            && let Some(found) = hot.update(key.word(0), value.word(0), thread)
        {
            drop(write);
            return Ok(found.map(of_word));
        }
        self.change(move |index| index.update(key, value))
    }

    /// Removes `key` and returns its value.
    #[inline(always)]
    pub fn remove(&self, key: K) -> Result<Option<V>> {
        if let Some(Here { hot, thread, write }) = self.here()
            && let Some(found) = hot.remove(key.word(0), thread)
        {
            drop(write);
            return Ok(found.map(of_word));
        }
        self.change(move |index| index.remove(key))
    }

    /// Changes the state of `key` from `expected` to `new` in one atomic step. `None` means absent, on either side.
    /// Returns `Ok(Err(found))`, and changes nothing, if the state was `found` and not `expected`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put(1, 10)?;
    /// assert_eq!(table.compare_exchange(1, Some(10), Some(20))?, Ok(()));
    /// assert_eq!(table.compare_exchange(1, Some(10), None)?, Err(Some(20)));
    /// assert_eq!(table.compare_exchange(1, Some(20), None)?, Ok(()));
    /// assert_eq!(table.get(1)?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>> {
        let changed =
            self.pool.handle.mutate(|| Ok(self.index.compare_exchange(key, expected, new)?))?;
        if let Err(found) = changed
            && is_same_state(found, expected)
        {
            return Err(none_of_its_type::<V>());
        }
        Ok(changed)
    }

    /// Passes the state of `key` to `change` and stores the result, in one atomic step. Returns the former state.
    /// `None` means absent, on either side. `change` runs outside every lock and may use this table. It may run several
    /// times; its last call is the one that took effect.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let visits = firndex::Table::<u64, u64>::in_memory()?;
    /// for _ in 0..3 {
    ///     visits.modify(7, |count| Some(count.unwrap_or(0) + 1))?;
    /// }
    /// assert_eq!(visits.get(7)?, Some(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn modify(
        &self,
        key: K,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let mut before = self.get(key)?;
        loop {
            match self.compare_exchange(key, before, change(before))? {
                Ok(()) => return Ok(before),
                Err(found) => before = found,
            }
        }
    }

    /// Calls `visit` for every pair, in no order. `visit` may use the table.
    ///
    /// Other threads may write meanwhile, and the table may grow or shrink. Every key that is present throughout is
    /// visited exactly once, with a value that it had during the call. A key that is inserted or removed meanwhile may
    /// be visited or not. One that is removed and inserted again may be visited twice.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let stock = firndex::Table::<u64, u64>::in_memory()?;
    /// stock.put_many(&[(1, 10), (2, 20)])?;
    /// let mut sum = 0;
    /// stock.for_each(|_, count| sum += count)?;
    /// assert_eq!(sum, 30);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(K, V)) -> Result<()> {
        self.pool.handle.look_at_all(|| Ok(self.index.for_each(&mut visit)?))
    }

    /// [`Table::for_each`] that ends with the first pair for which `visit` returns `Break`, and returns that.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// use std::ops::ControlFlow;
    ///
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put_many(&[(1, 10), (2, 20), (3, 30)])?;
    /// let large = table.try_for_each(|key, value| match value {
    ///     25.. => ControlFlow::Break(key),
    ///     _ => ControlFlow::Continue(()),
    /// })?;
    /// assert_eq!(large, ControlFlow::Break(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_for_each<B>(
        &self,
        mut visit: impl FnMut(K, V) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        for pair in self {
            let (key, value) = pair?;
            if let ControlFlow::Break(what) = visit(key, value) {
                return Ok(ControlFlow::Break(what));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The pairs, in no order, with the promises of [`Table::for_each`]. The iterator reads the table piece by piece,
    /// so you may keep it or drop it at any time. On some engines the table does not shrink until it is dropped. It
    /// fails as [`Table::get`] does, and then ends.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put_many(&[(1, 10), (2, 20)])?;
    /// let mut pairs = table.iter().collect::<firndex::Result<Vec<_>>>()?;
    /// pairs.sort();
    /// assert_eq!(pairs, [(1, 10), (2, 20)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(&*self.index, &self.pool.handle)
    }

    /// About `count` pairs from a cursor on, and the cursor for the next call. A scan begins with cursor 0, and is over
    /// when 0 is returned.
    ///
    /// Between the calls of a scan the table may change, grow, shrink, and be closed and opened again.
    ///
    /// * A key that is present from the first call to the last is returned exactly once, with a value that it
    ///   had during the call that returned it.
    /// * A key that is inserted or removed meanwhile is returned once or not at all. No key is returned twice.
    /// * A call may return more or fewer pairs than `count`, even none. Only the cursor tells whether the scan is over.
    /// * Every number is a legal cursor; one that no call returned begins at some place. A scan holds no resources, so
    ///   you need not end it.
    ///
    /// The price: no engine keeps its keys in the order of the cursors. Some calls of a scan, about one for each 64th
    /// of the table or for each 16 MiB of keys, read the whole table with [`Table::iter`]. The calls after them are
    /// served from memory. This holds for up to 8 scans at once. With more scans, or if you reopen the table for each
    /// call, every call may read the table. [`Table::for_each`] and [`Table::iter`] read it once.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// (0..1000).try_for_each(|key| table.put(key, 2 * key).map(drop))?;
    /// let (mut sum, mut cursor) = (0, 0);
    /// loop {
    ///     let (pairs, next) = table.scan(cursor, 100)?;
    ///     sum += pairs.iter().map(|(_, value)| value).sum::<u64>();
    ///     cursor = next;
    ///     if cursor == 0 {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(sum, 999_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self, cursor: u64, count: usize) -> Result<(Vec<(K, V)>, u64)> {
        self.pool.handle.read()?;
        let (keys, next) = self.runs.keys(cursor, count, self.index.len(), |run| {
            self.iter().try_for_each(|pair| -> Result<()> {
                let (key, _) = pair?;
                run.add(place_of(key), 0, || key);
                Ok(())
            })
        })?;
        let values = self.get_many(&keys)?;
        let pairs = keys.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?)));
        Ok((pairs.collect(), next))
    }

    /// The operations of the engine.
    pub(crate) fn index(&self) -> &AnyEngine<dyn Index<K, V>> {
        &self.index
    }

    /// Writes everything to the device, and marks the pool as closed. In a guest, see
    /// [`Options::guests`](crate::Options::guests), it only ends this process's use of the pool.
    pub fn close(self) -> Result<()> {
        self.into_pool().into_handle().close()
    }
}

impl<K: Fixed, V: Fixed> Deref for Table<K, V> {
    type Target = Pool;

    #[inline(always)]
    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl<K: Fixed, V: Fixed> Held for Table<K, V> {
    type Operations = dyn Index<K, V>;

    fn contents() -> Contents {
        Contents::table::<K, V>()
    }

    fn shapes() -> Shapes {
        Shapes::of::<K, V>()
    }

    /// Where pairs are words, the hot path is compiled into its callers.
    fn engine(
        pool: Arc<pmem::Pool<Memory>>,
        engine: Engine,
        options: &Options,
    ) -> Result<AnyEngine<dyn Index<K, V>>> {
        shapes::record::<K, V>(&pool, options.shapes.as_ref(), options.identity.is_some())?;
        // Engines are not compiled anew for each type of 8 bytes.
        Ok(if const { index::are_words::<K, V>() } {
            let opened = words(pool, engine, options)?;
            AnyEngine::new(word_types::boxed(opened.engine), opened.inlined)
        } else {
            AnyEngine::new(engine.open_pairs(pool, options.engine_settings())?, Inlined::none())
        })
    }

    fn body(engine: &AnyEngine<dyn Index<K, V>>) -> Arc<dyn Body> {
        Arc::new(engine.shared())
    }

    fn new(index: AnyEngine<dyn Index<K, V>>, pool: Pool) -> Self {
        Table { index, pool, runs: Runs::default() }
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
        Some(Arc::new(self.index.shared()))
    }

    fn put_all_in(&self, copy: &Self) -> Result<()> {
        let mut replaced = vec![None; BATCH_PAIRS];
        let mut batch: Vec<(K, V)> = Vec::with_capacity(BATCH_PAIRS);
        for pair in self {
            batch.push(pair?);
            if batch.len() == BATCH_PAIRS {
                copy.put_many_into(&batch, &mut replaced)?;
                batch.clear();
            }
        }
        Ok(copy.put_many_into(&batch, &mut replaced)?)
    }
}

/// Not generic: so the engines are compiled here, once, and not in every crate that opens a table.
fn words(
    pool: Arc<pmem::Pool<Memory>>,
    engine: Engine,
    options: &Options,
) -> std::result::Result<Opened<dyn Index<u64, u64>, Memory>, OpenError> {
    engine.open_words(pool, options.engine_settings())
}

impl<'a, K: Fixed, V: Fixed> IntoIterator for &'a Table<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// The stored bytes differ from those of the value that they are read as: another type wrote them, or they are damaged.
/// Who exchanges what was found would try for ever.
#[cold]
fn none_of_its_type<V>() -> Error {
    let found = format!("a value has bytes that no `{}` has", std::any::type_name::<V>());
    Error::Corrupt(Corrupt { at: Offset(0), found })
}

impl<K: Fixed, V: Fixed> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("len", &self.len()).finish_non_exhaustive()
    }
}
