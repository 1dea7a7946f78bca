//! Fixed-size keys and values.

use crate::any_engine::AnyEngine;
use crate::copies;
use crate::cursor::{Runs, place_of};
use crate::handle::{Handle, Ticket};
use crate::iter::Iter;
use crate::word_types::of_word;
use crate::{Copied, Error, Existing, Options, Result, Stats};
use index::{CheckReport, Exchange, Fixed, Index, Shrunk, is_same_state};
use pmem::Offset;
use pmem::durability::LogUse;
use pmem::heap::Corrupt;
use std::ops::ControlFlow;
use std::path::Path;

mod batches;
mod singles;

use singles::Here;

/// A concurrent, crash-safe map of fixed-size keys to fixed-size values in a pool.
///
/// Share it by reference (or in an `Arc`) between any number of threads. Operations are linearizable. Once an operation
/// returns, its effect and its answer survive the death of the process; on [`Medium::Dax`](crate::Medium::Dax) also
/// power loss. On [`Medium::Mapped`](crate::Medium::Mapped) [`Options::durability`] chooses what survives power loss.
/// Every bit pattern is a legal key and value.
///
/// A change fails with [`Error::PoolFull`](crate::Error::PoolFull) if there is no space, and the table stays as it was.
/// Dropping a table closes it and ignores errors; [`Table::close`] reports them.
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
    pub(crate) handle: Handle,
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
    pub(crate) fn new(index: AnyEngine<dyn Index<K, V>>, handle: Handle) -> Self {
        Table { index, handle, runs: Runs::default() }
    }

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
        if self.handle.is_disturbed() {
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
            self.handle.mutate(|| Ok(self.index.compare_exchange(key, expected, new)?))?;
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
        self.handle.look(|| Ok(self.index.for_each(&mut visit)?))
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
        Iter::new(&*self.index, &self.handle)
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
        self.handle.read()?;
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

    /// Number of pairs. It is exact when nothing writes; otherwise each change under way may be counted or not. It adds
    /// up per-thread counts and reads no pair. In a forked child it is about the number at the fork.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether the table is empty; as exact as [`Table::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Figures of the pool: size, load factor, memory, log.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put(1, 10)?;
    /// let stats = table.stats()?;
    /// assert_eq!(stats.pairs, 1);
    /// assert!(stats.load_factor < 0.85 && stats.pool_bytes > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        let index = &self.index;
        self.handle.look(|| {
            let (occupancy, heap) = (index.occupancy(), index.heap_use());
            Ok(self.handle.stats(self.len(), occupancy, heap, index.scan_time()))
        })
    }

    /// Verifies every pair and every invariant. If the pool is open read-only, it also verifies that the number of
    /// pairs is the one recorded when the pool was closed. Exact when nothing writes.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put(1, 10)?;
    /// let report = table.check()?;
    /// assert!(report.is_sound(), "{:#?}", report.findings);
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<CheckReport> {
        self.handle.look_at_file()?;
        self.handle.look(|| Ok(self.handle.checked(self.index.check(), self.len())))
    }

    /// Halves the table's index while other operations go on, in the calling thread, by rehashing a part of it or all.
    /// Returns `false` if the index has its first size, or is too full. Freed space stays with the pool for later
    /// growth; [`Table::rewrite`] makes the file smaller. [`Error::PoolFull`](crate::Error::PoolFull) means that there
    /// is no room for smaller levels, which some engines take before they give up the larger ones; the table stays as
    /// it was. Some engines do not begin to shrink while somebody [iterates](Table::iter), and return `false`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::in_memory()?;
    /// table.extend((0..10_000).map(|key| (key, key)))?;
    /// let slots_before = table.stats()?.capacity;
    /// table.retain(|key, _| key < 10)?;
    /// while table.shrink()? {}
    /// assert!(table.stats()?.capacity < slots_before / 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shrink(&self) -> Result<bool> {
        self.handle.mutate_many(|| Ok(self.index.shrink()? == Shrunk::Halved))
    }

    /// Writes a clean pool at `out` with the table's pairs, while others use the table and without making them wait. It
    /// has the same engine, parameters and durability. It gets its name when it is complete and on the device. If
    /// anything fails before that, `out` stays as it was: absent, or the old file.
    ///
    /// If the table has a log ([`Durability`](crate::Durability)), the backup is the table at one moment during the
    /// call, and has everything that had returned before the call. No checkpoint is made until the backup has read the
    /// log, so the log grows meanwhile. Without a log the backup is consistent for each key: every key that is present
    /// throughout is in it, with a value that it had meanwhile. Its [`Table::len`] may then be a number that the table
    /// never had. [`Copied::is_of_one_moment`] tells which.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, out) = (directory.path().join("ports.firn"), directory.path().join("monday.firn"));
    /// use firndex::{Existing, Options};
    ///
    /// let ports = Options::new().create_table(&path)?;
    /// ports.put(22, 1)?;
    /// assert_eq!(ports.backup(&out, Existing::Keep)?.pairs, 1);
    /// ports.remove(22)?;
    /// assert_eq!(Options::new().open_table(&out)?.get(22)?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, out: impl AsRef<Path>, existing: Existing) -> Result<Copied> {
        copies::backup_table(self, &self.handle, out.as_ref(), existing)
    }

    /// Writes a new pool at `out` with the table's pairs and the given `options`: another engine, other parameters,
    /// another durability. Engine, parameters, durability and sums that you leave out are this pool's. A parameter that
    /// its engine does not have chooses another engine, as for a new pool. The seed is a new one. The result is
    /// consistent for each key, even if the table has a log. Everything else is as in [`Table::backup`].
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let out = directory.path().join("narrow.firn");
    /// use firndex::{Existing, Options, Table};
    ///
    /// let table = Table::<u64, u64>::in_memory()?;
    /// table.put_many(&[(1, 10), (2, 20)])?;
    /// table.convert(&out, Existing::Keep, &Options::new().parameter("slots", 8))?;
    /// assert_eq!(Options::new().open_table(&out)?.get(2)?, Some(20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn convert(
        &self,
        out: impl AsRef<Path>,
        existing: Existing,
        options: &Options,
    ) -> Result<Copied> {
        copies::convert_table(self, &self.handle, out.as_ref(), existing, options)
    }

    /// Makes everything that has returned so far survive power loss. With a log (see [`Durability`](crate::Durability))
    /// this takes one write to the disk and stops nobody. Without a log, on [`Medium::Mapped`](crate::Medium::Mapped),
    /// it lasts until the next change, and writers wait while the last changes go to the device.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("ports.firn");
    /// let ports = firndex::Table::<u64, u64>::create(&path)?;
    /// ports.put(22, 1)?;
    /// ports.sync()?; // from here on this survives power loss
    /// # ports.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.handle.read()?;
        if !self.handle.is_logged() {
            self.index.settle();
        }
        self.handle.sync(&|| self.index.len())
    }

    /// Figures of the pool's log, if it has one. This is [`Stats::log`](crate::Stats::log) without the cost of counting
    /// the other figures.
    pub fn log(&self) -> Result<Option<LogUse>> {
        self.handle.log()
    }

    /// A ticket for everything that this thread has done or seen so far. It survives power loss as soon as
    /// [`Table::durable_up_to`] has reached the ticket. Made for servers that answer their clients in groups.
    ///
    /// Fails with [`Error::NotLogged`](crate::Error::NotLogged) if the table has no log to wait for: with durability
    /// `process`, opened read-only, or in memory. On [`Medium::Dax`](crate::Medium::Dax) everything that returned is
    /// durable, so no ticket waits.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts.firn");
    /// use firndex::{Durability, Options};
    ///
    /// let accounts = Options::new().durability(Durability::Periodic).open_or_create_table(&path)?;
    /// accounts.put(1, 100)?;
    /// accounts.put(2, 50)?;
    /// let ticket = accounts.ticket()?;
    /// accounts.wait_durable(ticket)?; // one write to the disk for both
    /// assert!(accounts.durable_up_to()? >= ticket);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ticket(&self) -> Result<Ticket> {
        self.handle.ticket()
    }

    /// The latest ticket up to which everything survives power loss. It fails as [`Table::ticket`] does.
    pub fn durable_up_to(&self) -> Result<Ticket> {
        self.handle.durable_up_to()
    }

    /// Waits until everything up to `ticket` survives power loss. Writes it, if no other thread does.
    pub fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.handle.wait_durable(ticket)
    }

    /// Waits until everything that this thread has done or seen so far survives power loss. It fails as
    /// [`Table::ticket`] does.
    pub fn commit(&self) -> Result<()> {
        self.handle.commit()
    }

    /// Writes the pairs into a new file, no larger than they need, puts it in place of the pool's file, and closes the
    /// table. So space that removed pairs have left goes back to the file system, on every engine. The disk must have
    /// room for both files. The index has its first size again. `firndex compact` does this from the command line.
    ///
    /// A crash or an error leaves the old file or the new one, whole. A table in memory has no file: it is only closed,
    /// and the result is `None`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("ports.firn");
    /// use firndex::Table;
    ///
    /// let ports = Table::<u64, u64>::create(&path)?;
    /// for port in 0..100_000 {
    ///     ports.put(port, 1)?;
    /// }
    /// ports.retain(|port, _| port < 1000)?;
    /// let before = std::fs::metadata(&path).unwrap().len();
    /// assert_eq!(ports.rewrite()?.map(|copied| copied.pairs), Some(1000));
    /// assert!(std::fs::metadata(&path).unwrap().len() < before / 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rewrite(self) -> Result<Option<Copied>> {
        let Some((draft, options)) = copies::successor(&self.handle)? else {
            return self.close().map(|()| None);
        };
        let pairs = copies::fill_table(&self, draft.table(&options)?)?;
        let Table { index, mut handle, .. } = self;
        drop(index);
        let former = handle.take_file();
        handle.close()?;
        draft.succeed(former, pairs).map(Some)
    }

    /// Why the pool was refused and made anew when it was opened, if it was: [`Options::reset_if_refused`].
    pub fn was_reset(&self) -> Option<&Error> {
        self.handle.reset()
    }

    /// Writes everything to the device, and marks the pool as closed.
    pub fn close(self) -> Result<()> {
        let Table { index, handle, .. } = self;
        drop(index);
        handle.close()
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
