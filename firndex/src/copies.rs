//! Backups and conversions: the pairs of an open pool in a new one.

use crate::draft::{Draft, Existing};
use crate::handle::Handle;
use crate::open::random_uuid;
use crate::{Engine, Error, Options, Result, Store, Table};
use index::Fixed;
use pmem::Pool;
use pmem::durability::RestoreError;
use pmem::file::PoolFile;
use pmem::medium::Memory;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Pairs stored in one call: enough for the new pool to overlap its cache misses.
const BATCH_PAIRS: usize = 1024;
/// Most bytes of keys and values that are collected before they are stored, except for a single larger pair.
const BATCH_BYTES: usize = 1 << 20;

/// The result of writing a pool from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Pairs that it holds.
    pub pairs: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Whether it shows the other pool at one moment. If not, it is consistent for each key.
    pub is_of_one_moment: bool,
}

/// The permissions of the pool's file, if it has one. A copy is as private.
fn mode_of(handle: &Handle) -> Result<Option<u32>> {
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
) -> Result<Option<(Draft, Arc<Pool<Memory>>)>> {
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
    Ok(Some((draft, Arc::new(pool))))
}

pub(crate) fn backup_table<K: Fixed, V: Fixed>(
    table: &Table<K, V>,
    handle: &Handle,
    out: &Path,
    existing: Existing,
) -> Result<Copied> {
    let options = like(handle)?;
    match at_one_moment(handle, &options, out, existing)? {
        Some((draft, pool)) => {
            let copy: Table<K, V> = draft.table_in(pool, &options)?;
            let pairs = copy.len();
            copy.close()?;
            Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: true })
        }
        None => copy_table(table, out, existing, &options),
    }
}

pub(crate) fn backup_store(
    store: &Store,
    handle: &Handle,
    out: &Path,
    existing: Existing,
) -> Result<Copied> {
    let options = like(handle)?;
    match at_one_moment(handle, &options, out, existing)? {
        Some((draft, pool)) => {
            let copy = draft.store_in(pool, &options)?;
            let pairs = copy.len();
            copy.close()?;
            Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: true })
        }
        None => copy_store(store, out, existing, &options),
    }
}

/// Copies a table pair by pair to a pool with these options.
pub(crate) fn convert_table<K: Fixed, V: Fixed>(
    table: &Table<K, V>,
    handle: &Handle,
    out: &Path,
    existing: Existing,
    asked: &Options,
) -> Result<Copied> {
    copy_table(table, out, existing, &kept(handle, asked)?)
}

/// As [`convert_table`].
pub(crate) fn convert_store(
    store: &Store,
    handle: &Handle,
    out: &Path,
    existing: Existing,
    asked: &Options,
) -> Result<Copied> {
    copy_store(store, out, existing, &kept(handle, asked)?)
}

/// Copies a table pair by pair. The copy has another seed. A scan follows the order of the original's seed, so with the
/// same one consecutive pairs would all go to the same few buckets.
fn copy_table<K: Fixed, V: Fixed>(
    table: &Table<K, V>,
    out: &Path,
    existing: Existing,
    options: &Options,
) -> Result<Copied> {
    let draft = Draft::begin(options, out, existing)?;
    let pairs = fill_table(table, draft.table(options)?)?;
    Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: false })
}

/// Puts the pairs of a table into a new one, and closes that; how many there are.
pub(crate) fn fill_table<K: Fixed, V: Fixed>(
    table: &Table<K, V>,
    copy: Table<K, V>,
) -> Result<u64> {
    put_all_of_table(table, copy).map_err(Error::of_a_new_pool)
}

fn put_all_of_table<K: Fixed, V: Fixed>(table: &Table<K, V>, copy: Table<K, V>) -> Result<u64> {
    let mut replaced = vec![None; BATCH_PAIRS];
    let mut batch: Vec<(K, V)> = Vec::with_capacity(BATCH_PAIRS);
    for pair in table {
        batch.push(pair?);
        if batch.len() == BATCH_PAIRS {
            copy.put_many_into(&batch, &mut replaced)?;
            batch.clear();
        }
    }
    copy.put_many_into(&batch, &mut replaced)?;
    let pairs = copy.len();
    copy.close()?;
    Ok(pairs)
}

/// As [`copy_table`].
fn copy_store(store: &Store, out: &Path, existing: Existing, options: &Options) -> Result<Copied> {
    let draft = Draft::begin(options, out, existing)?;
    let pairs = fill_store(store, draft.store(options)?)?;
    Ok(Copied { pairs, bytes: draft.publish()?, is_of_one_moment: false })
}

/// As [`fill_table`].
pub(crate) fn fill_store(store: &Store, copy: Store) -> Result<u64> {
    put_all_of_store(store, copy).map_err(Error::of_a_new_pool)
}

fn put_all_of_store(store: &Store, copy: Store) -> Result<u64> {
    let mut batch = Batch::default();
    let visited = store.try_for_each(|key, value| {
        batch.add(key, value);
        match batch.is_full().then(|| batch.store_in(&copy)) {
            Some(Err(error)) => ControlFlow::Break(error),
            _ => ControlFlow::Continue(()),
        }
    })?;
    if let ControlFlow::Break(error) = visited {
        return Err(error);
    }
    batch.store_in(&copy)?;
    let pairs = copy.len();
    copy.close()?;
    Ok(pairs)
}

/// A new file for the pool of `handle`, and what the new pool is made with; `None` if it has no file.
pub(crate) fn successor(handle: &Handle) -> Result<Option<(Draft, Options)>> {
    // Refused where nothing may be written.
    drop(handle.write()?);
    let superblock = handle.superblock()?;
    let identity = Some((superblock.uuid, superblock.logged()));
    let options = Options { identity, ..like(handle)? };
    Ok(handle.file().map(Draft::over).transpose()?.map(|draft| (draft, options)))
}

/// Keys and values in a row.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Lengths of each key and its value.
    lengths: Vec<(usize, usize)>,
}

impl Batch {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.lengths.push((key.len(), value.len()));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lengths.len() >= BATCH_PAIRS || self.bytes.len() >= BATCH_BYTES
    }

    /// Stores all of it, and is empty then.
    pub(crate) fn store_in(&mut self, store: &Store) -> Result<()> {
        let mut rest = &self.bytes[..];
        let pairs: Vec<(&[u8], &[u8])> = self
            .lengths
            .iter()
            .map(|&(key_bytes, value_bytes)| {
                let (pair, behind) = rest.split_at(key_bytes + value_bytes);
                rest = behind;
                pair.split_at(key_bytes)
            })
            .collect();
        store.put_many(&pairs)?;
        self.bytes.clear();
        self.lengths.clear();
        Ok(())
    }
}
