//! Backups and conversions: the pairs of an open pool in a new one.

use crate::draft::{Copied, Draft, Existing};
use crate::handle::Handle;
use crate::held::Held;
use crate::open::create::random_uuid;
use crate::options::Identity;
use crate::{Engine, Error, Options, Result, Store, Table};
use index::Fixed;
use pmem::Pool;
use pmem::durability::RestoreError;
use pmem::file::PoolFile;
use pmem::medium::Memory;
use pmem::superblock::Superblock;
use std::path::Path;

impl<K: Fixed, V: Fixed> Table<K, V> {
    /// Writes a clean pool at `out` with the table's pairs, while others use the table and without making them wait. It
    /// has the same engine, parameters and durability. It gets its name when it is complete and on the device. If
    /// anything fails before that, `out` stays as it was: absent, or the old file.
    ///
    /// If the table has a log ([`Durability`](crate::Durability)), the backup is the table at one moment during the
    /// call, and has everything that had returned before the call. No checkpoint is made until the backup has read the
    /// log, so the log grows meanwhile. Without a log the backup is consistent for each key: every key that is present
    /// throughout is in it, with a value that it had meanwhile. Its [`len`](crate::Pool::len) may then be a number that
    /// the table never had. [`Copied::is_of_one_moment`] tells which.
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
        backup(self, out.as_ref(), existing)
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
        copy(self, out.as_ref(), existing, &kept(&self.pool().handle, options)?)
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
        rewrite(self)
    }
}

impl Store {
    /// Writes a clean pool at `out` with the store's keys and values, while others use the store, as
    /// [`Table::backup`](crate::Table::backup) does.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, out) = (directory.path().join("notes.firn"), directory.path().join("monday.firn"));
    /// use firndex::{Existing, Store};
    ///
    /// let notes = Store::open_or_create(&path)?;
    /// notes.put("milk", "two bottles")?;
    /// notes.backup(&out, Existing::Keep)?;
    /// notes.remove("milk")?;
    /// assert_eq!(Store::open(&out)?.get("milk")?.as_deref(), Some(&b"two bottles"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, out: impl AsRef<Path>, existing: Existing) -> Result<Copied> {
        backup(self, out.as_ref(), existing)
    }

    /// Writes a new pool at `out` with the store's keys and values and the given `options`, as
    /// [`Table::convert`](crate::Table::convert) does.
    pub fn convert(
        &self,
        out: impl AsRef<Path>,
        existing: Existing,
        options: &Options,
    ) -> Result<Copied> {
        copy(self, out.as_ref(), existing, &kept(&self.pool().handle, options)?)
    }

    /// Writes the pairs into a new file, puts it in place of the store's, and closes the store; see
    /// [`Table::rewrite`](crate::Table::rewrite). `firndex compact` does this from the command line. [`Store::compact`]
    /// is another thing: it makes room inside the file of an open store.
    pub fn rewrite(self) -> Result<Option<Copied>> {
        rewrite(self)
    }
}

fn backup<T: Held>(held: &T, out: &Path, existing: Existing) -> Result<Copied> {
    let own = held.pool().handle.link().and_then(|link| link.own());
    if let Some(own) = own.and_then(|own| own.downcast_ref::<T>()) {
        return backup(own, out, existing);
    }
    let handle = &held.pool().handle;
    let options = like(handle)?;
    match at_one_moment(handle, &options, out, existing)? {
        Some((draft, pool)) => {
            let pairs = close(draft.open::<T>(pool, &options)?)?;
            Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: true })
        }
        None => copy(held, out, existing, &options),
    }
}

/// Copies pair by pair to a pool with these options. The copy has another seed: a scan follows the order of the
/// original's, so with the same one consecutive pairs would all go to the same few buckets.
fn copy<T: Held>(held: &T, out: &Path, existing: Existing, options: &Options) -> Result<Copied> {
    let draft = Draft::begin(options, out, existing)?;
    let pairs = fill(held, &draft, options)?;
    Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: false })
}

/// Puts the pairs into a new pool in the draft, and closes that; how many there are.
fn fill<T: Held>(held: &T, draft: &Draft, options: &Options) -> Result<u64> {
    let copy = draft.make::<T>(options)?;
    let filled = held.put_all_in(&copy).and_then(|()| close(copy));
    filled.map_err(Error::of_a_new_pool)
}

/// Closes a copy; how many pairs it has.
fn close<T: Held>(copy: T) -> Result<u64> {
    let pairs = copy.pool().len();
    copy.into_pool().into_handle().close()?;
    Ok(pairs)
}

fn rewrite<T: Held>(mut held: T) -> Result<Option<Copied>> {
    let Some((draft, options)) = successor(&held.pool().handle)? else {
        return close(held).map(|_| None);
    };
    // What a guest changed behind the copying would be lost.
    held.pool_mut().serve_no_more();
    let pairs = fill(&held, &draft, &options)?;
    let mut handle = held.into_pool().into_handle();
    let former = handle.take_file();
    handle.close()?;
    draft.succeed(former, pairs).map(Some)
}

/// The permissions of the pool's file, if it has one. A copy is as private.
fn mode_of(handle: &Handle) -> Result<Option<u32>> {
    if let Some(link) = handle.link() {
        return Ok(Some(link.mode()));
    }
    Ok(handle.file().map(PoolFile::ownership).transpose()?.map(|found| found.mode()))
}

/// The options of a copy like the pool of `handle`.
fn like(handle: &Handle) -> Result<Options> {
    let superblock = handle.superblock()?;
    let options = Options {
        engine: Engine::from_id(superblock.engine),
        engine_params: Some(superblock.engine_params),
        segment_log2: Some(superblock.segment_log2),
        durability: superblock.durability(),
        keep_sums: Some(superblock.keeps_sums()),
        mode: mode_of(handle)?,
        shapes: Some(handle.shapes()),
        ..Options::default()
    };
    // Another thread would take a processor from the writers to the original.
    Ok(options.helpers(0))
}

/// `asked`, and what that leaves out as in the pool of `handle`: engine, parameters, durability and sums. Parameters
/// that its engine does not have choose another one, as they do for a new pool.
fn kept(handle: &Handle, asked: &Options) -> Result<Options> {
    let superblock = handle.superblock()?;
    let mut options = asked.clone();
    options.durability = asked.durability.or(superblock.durability());
    options.shapes = Some(handle.shapes());
    options.keep_sums = asked.keep_sums.or(Some(superblock.keeps_sums()));
    options.mode = mode_of(handle)?;
    if asked.capacity == 0 {
        options.segment_log2 = Some(superblock.segment_log2);
    }
    if let Some(engine) = Engine::from_id(superblock.engine)
        && asked.engine.is_none_or(|asked| asked == engine)
    {
        let mut parameters = engine.parameters_of(&superblock.engine_params);
        asked.parameters.iter().for_each(|(name, value)| parameters.set(name, value));
        let has = |name| engine.description().parameters.iter().any(|one| one.name == name);
        if parameters.iter().all(|(name, _)| has(name)) {
            options.engine = Some(engine);
            options.parameters = parameters;
        }
    }
    Ok(options)
}

/// The pool of `handle` at one moment, from its checkpoint and log, while others write. `None` if it has no usable log.
fn at_one_moment(
    handle: &Handle,
    options: &Options,
    out: &Path,
    existing: Existing,
) -> Result<Option<(Draft, Pool<Memory>)>> {
    let read = handle.hold(|safe| -> Result<Option<(Draft, Memory)>> {
        let draft = Draft::begin(options, out, existing)?;
        let medium = draft.medium(options, 0)?;
        match safe.restore(&medium, &|_, _| {}) {
            Ok(_) => Ok(Some((draft, medium))),
            Err(RestoreError::Space(error)) => Err(error.of_a_new_pool().into()),
            // A backup is never needed more than where the checkpoint is damaged: the pairs can still be copied.
            Err(_) => Ok(None),
        }
    });
    let Some((draft, medium)) = read.unwrap_or(Ok(None))? else { return Ok(None) };
    Pool::adopt_copy(&medium, draft.place(), random_uuid())?;
    let pool = Pool::open(medium, draft.place())?;
    Ok(Some((draft, pool)))
}

/// A new file for the pool of `handle`, and what the new pool is made with; `None` if it has no file.
fn successor(handle: &Handle) -> Result<Option<(Draft, Options)>> {
    handle.demand_owner(
        "`rewrite`",
        "it replaces the pool's file: end that process, and call it here",
    )?;
    // Refused where nothing may be written.
    drop(handle.write()?);
    let superblock = handle.superblock()?;
    let Superblock { uuid, incarnation, .. } = superblock;
    let identity = Some(Identity { uuid, incarnation, logged: superblock.logged() });
    let options = Options { identity, ..like(handle)? };
    Ok(handle.file().map(Draft::over).transpose()?.map(|draft| (draft, options)))
}
