//! From a path to an engine on a medium.

use crate::any_engine::AnyEngine;
use crate::contents::Contents;
use crate::handle::{Handle, PoolHandle};
use crate::logging::{Beginning, Companions, next_durability};
use crate::{
    Durability, Engine, Error, Kind, Medium, Options, Result, Store, Table, shapes, word_types,
};
use engines::engine::Wanted;
use engines::{Inlined, Opened};
use index::hash::{HASH_ID, Hasher};
use index::{Fixed, Index, Records, Shape};
use pmem::file::{Access, Located, PoolFile};
use pmem::heap::{SEGMENT_LOG2_DEFAULT, SEGMENT_LOG2_SMALL};
use pmem::medium::{CacheFlush, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind, Superblock};
use pmem::{OpenError, Pool};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What may be at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Create,
    Open,
    OpenOrCreate,
}

impl Kind {
    pub(crate) fn of(kind: PoolKind) -> Kind {
        match kind {
            PoolKind::Table => Kind::Table,
            PoolKind::Store => Kind::Store,
        }
    }

    fn pool_kind(self) -> PoolKind {
        match self {
            Kind::Table => PoolKind::Table,
            Kind::Store => PoolKind::Store,
        }
    }
}

pub(crate) fn table<K: Fixed, V: Fixed>(
    options: &Options,
    path: &Path,
    mode: Mode,
) -> Result<Table<K, V>> {
    unless_beaten(mode, |mode| try_table(options, path, mode))
}

pub(crate) fn store(options: &Options, path: &Path, mode: Mode) -> Result<Store> {
    unless_beaten(mode, |mode| try_store(options, path, mode))
}

/// Opens or creates. Where either would do and another creates the pool meanwhile, what that one
/// has made is as good: then it is opened.
fn unless_beaten<T>(mode: Mode, open: impl Fn(Mode) -> Result<T>) -> Result<T> {
    match open(mode) {
        Err(Error::Open(OpenError::Exists { .. })) if mode == Mode::OpenOrCreate => {
            open(Mode::Open)
        }
        opened => opened,
    }
}

fn try_table<K: Fixed, V: Fixed>(
    options: &Options,
    path: &Path,
    mode: Mode,
) -> Result<Table<K, V>> {
    let started = Instant::now();
    let Found { pool, engine, mut file, companions, beginning } =
        open(options, path, mode, Contents::table::<K, V>())?;
    let pool = Arc::new(pool);
    let (mut index, handle) = file_parts(&file, table_parts(Arc::clone(&pool), engine, options))?;
    index.count_in(&handle, options.may_lack_pairs)?;
    let durable = companions.start(options, beginning, &pool, &mut file, &|| index.len())?;
    let renewals = index.take_renewals();
    let mut handle = Handle::new(handle, durable, Some(file), engine, renewals, started.elapsed());
    if options.survive_bus_errors {
        handle.watch();
    }
    handle.read()?;
    handle.keep_sums(options.keep_sums)?;
    index.compact_as_asked(options)?;
    Ok(Table::new(index, handle))
}

fn try_store(options: &Options, path: &Path, mode: Mode) -> Result<Store> {
    let started = Instant::now();
    let Found { pool, engine, mut file, companions, beginning } =
        open(options, path, mode, Contents::STORE)?;
    let pool = Arc::new(pool);
    let (mut records, handle) = file_parts(&file, store_parts(Arc::clone(&pool), engine, options))?;
    records.count_in(&handle, options.may_lack_pairs)?;
    let durable = companions.start(options, beginning, &pool, &mut file, &|| records.len())?;
    let renewals = records.take_renewals();
    let mut handle = Handle::new(handle, durable, Some(file), engine, renewals, started.elapsed());
    if options.survive_bus_errors {
        handle.watch();
    }
    handle.read()?;
    handle.keep_sums(options.keep_sums)?;
    records.compact_as_asked(options)?;
    Ok(Store::new(records, handle))
}

/// The opened parts of the pool in `file`. What makes a new one finds no room elsewhere.
fn file_parts<T>(file: &PoolFile, parts: Result<T>) -> Result<T> {
    if file.is_unnamed() { parts.map_err(Error::of_a_new_pool) } else { parts }
}

pub(crate) fn table_in_memory<K: Fixed, V: Fixed>(options: &Options) -> Result<Table<K, V>> {
    let started = Instant::now();
    let (pool, engine) = in_memory(options, Contents::table::<K, V>())?;
    let (mut index, handle) =
        table_parts(Arc::new(pool), engine, options).map_err(Error::of_a_new_pool)?;
    index.count_in(&handle, options.may_lack_pairs)?;
    index.compact_as_asked(options)?;
    let renewals = index.take_renewals();
    Ok(Table::new(index, Handle::new(handle, None, None, engine, renewals, started.elapsed())))
}

pub(crate) fn store_in_memory(options: &Options) -> Result<Store> {
    let started = Instant::now();
    let (pool, engine) = in_memory(options, Contents::STORE)?;
    let (mut records, handle) =
        store_parts(Arc::new(pool), engine, options).map_err(Error::of_a_new_pool)?;
    records.count_in(&handle, options.may_lack_pairs)?;
    records.compact_as_asked(options)?;
    let renewals = records.take_renewals();
    Ok(Store::new(records, Handle::new(handle, None, None, engine, renewals, started.elapsed())))
}

pub(crate) type TableParts<K, V> = (AnyEngine<dyn Index<K, V>>, Arc<dyn PoolHandle>);
pub(crate) type StoreParts = (AnyEngine<dyn Records>, Arc<dyn PoolHandle>);

/// Where pairs are words, as those of all stores are, the hot path is compiled into its callers.
pub(crate) fn table_parts<K: Fixed, V: Fixed>(
    pool: Arc<Pool<Memory>>,
    engine: Engine,
    options: &Options,
) -> Result<TableParts<K, V>> {
    shapes::record::<K, V>(&pool, options)?;
    let same = Arc::clone(&pool);
    // Engines are not compiled anew for each type of 8 bytes.
    let index = if const { index::are_words::<K, V>() } {
        let opened = words(same, engine, options)?;
        AnyEngine::new(word_types::boxed(opened.engine), opened.inlined)
    } else {
        AnyEngine::new(engine.open_pairs(same, options.settings)?, Inlined::none())
    };
    Ok((index, pool))
}

/// Not generic: so the engines are compiled here, once, and not in every crate that opens a table.
fn words(
    pool: Arc<Pool<Memory>>,
    engine: Engine,
    options: &Options,
) -> std::result::Result<Opened<dyn Index<u64, u64>, Memory>, OpenError> {
    engine.open_words(pool, options.settings)
}

pub(crate) fn store_parts(
    pool: Arc<Pool<Memory>>,
    engine: Engine,
    options: &Options,
) -> Result<StoreParts> {
    let hasher = Hasher::new(pool.superblock().hash_seed);
    let opened = engine.open_bytes(Arc::clone(&pool), hasher, options.settings)?;
    Ok((AnyEngine::new(opened.engine, opened.inlined), pool))
}

/// A pool made for so many pairs has large segments: there, a partly empty one for each size class is little, and
/// values of up to 32 KiB share segments.
const LARGE_CAPACITY: u64 = 1 << 16;

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The identity of a new pool.
pub(crate) fn random_uuid() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}

pub(crate) fn spec(options: &Options, engine: Engine, contents: Contents) -> Spec {
    Spec {
        kind: contents.kind.pool_kind(),
        engine: engine.description().id,
        key_bytes: contents.key_bytes,
        value_bytes: contents.value_bytes,
        hash_id: HASH_ID,
        hash_seed: options.hash_seed.unwrap_or_else(random),
        uuid: random_uuid(),
        segment_log2: options.segment_log2.unwrap_or(match options.capacity {
            LARGE_CAPACITY.. => SEGMENT_LOG2_DEFAULT,
            _ => SEGMENT_LOG2_SMALL,
        }),
        engine_params: options.engine_params.unwrap_or_else(|| {
            engine.engine_params(&Wanted {
                sizes: contents.sizes(),
                pairs: options.capacity,
                resize_at: options.settings.resize_at,
                parameters: &options.parameters,
            })
        }),
    }
}

fn in_memory(options: &Options, contents: Contents) -> Result<(Pool<Memory>, Engine)> {
    options.check()?;
    let engine = contents.engine(options.engine, &options.parameters)?;
    let (spec, place) = (spec(options, engine, contents), Place::default());
    let flush = flush(options)?;
    let medium = Memory::dram(options.size_max(0))
        .map_err(|source| Error::Io { action: "reserving memory", source })?;
    let made = Pool::create(medium.flushed(flush), &spec, place);
    Ok((made.map_err(|error| Error::from(error).of_a_new_pool())?, engine))
}

/// What a flush is on media other than `dax`: nothing, or what [`Options::force_flushes`] asks for, the one that
/// `dax` would use.
fn flush(options: &Options) -> Result<CacheFlush> {
    if !options.force_flushes {
        return Ok(CacheFlush::Nothing);
    }
    CacheFlush::detect().ok_or(Error::Open(OpenError::Unsupported {
        missing: "the flush instruction that `Options::force_flushes` asks for",
    }))
}

/// A pool that was found or made, before its engine is opened.
struct Found {
    pool: Pool<Memory>,
    engine: Engine,
    file: PoolFile,
    companions: Companions,
    beginning: Option<Beginning>,
}

fn open(options: &Options, path: &Path, mode: Mode, contents: Contents) -> Result<Found> {
    options.check()?;
    if mode == Mode::Create {
        let pool = Located::new(path)?;
        return create(options, &pool, contents, Companions::of(options, &pool)?);
    }
    let pool = &followed(path, mode)?;
    let companions = Companions::of(options, pool)?;
    let Some(Locked { file, superblock, .. }) = find(options, pool, mode, &companions)? else {
        return create(options, pool, contents, companions);
    };
    let engine = check_superblock(&superblock, options.engine, contents)?;
    superblock.check_state(&file.place())?;
    let (end, place) = (superblock.end, file.place());
    if options.read_only {
        // What could not be opened for writing is refused all the same.
        medium_for(options.medium, &file)?;
        let memory = watched(options, file.mapped(end, options.size_max(end))?)?;
        let pool = Pool::open_read_only(memory, place)?;
        return Ok(Found { pool, engine, file, companions, beginning: None });
    }
    let logged = superblock.logged();
    if options.log_directory.is_none() && logged.is_some_and(|logged| logged.is_elsewhere) {
        // Without a log it goes on only if that one is removed: it would bring back what the pool was.
        return Err(OpenError::LogElsewhere { path: path.into() }.into());
    }
    let (medium, beginning) = medium(options, &file, end, &companions, superblock.durability())?;
    let pool = Pool::open(medium, place)?;
    Ok(Found { pool, engine, file, companions, beginning })
}

/// Where the pool at `path` is. Its directory is held from now on.
fn followed(path: &Path, mode: Mode) -> Result<Located> {
    Ok(Located::followed(path).map_err(|error| match error {
        OpenError::NoDirectory { .. } if mode == Mode::Open => {
            OpenError::Missing { path: path.into() }
        }
        error => error,
    })?)
}

/// Makes the pool at `path` anew from its checkpoint and log, if its file does not count after power loss. Whether it
/// did so.
pub(crate) fn restore(options: &Options, path: &Path) -> Result<bool> {
    options.check()?;
    let pool = &followed(path, Mode::Open)?;
    let needs_none = |superblock: &Superblock| {
        let place = PoolFile::place_of(path);
        superblock.logged().is_none() || place.is_ok_and(|now| superblock.check_state(&now).is_ok())
    };
    if PoolFile::inspect_at(pool).is_ok_and(|superblock| needs_none(&superblock)) {
        return Ok(false);
    }
    let companions = Companions::of(options, pool)?;
    Ok(find(options, pool, Mode::Open, &companions)?.is_some_and(|found| found.is_restored))
}

/// A pool's file, locked.
struct Locked {
    file: PoolFile,
    superblock: Superblock,
    is_restored: bool,
}

/// The pool file, restored from checkpoint and log where it does not count; `None` if a pool has to be made.
fn find(
    options: &Options,
    pool: &Located,
    mode: Mode,
    companions: &Companions,
) -> Result<Option<Locked>> {
    let access = if options.read_only { Access::Read } else { Access::Write };
    let has_safe_copy = || companions.has_safe_copy();
    let restored = |former: Option<&PoolFile>, known: Option<&Superblock>| {
        if options.read_only {
            return Err(OpenError::NeedsRecovery.into());
        }
        let (file, superblock) = companions.restore(options, former, known)?;
        Ok(Some(Locked { file, superblock, is_restored: true }))
    };
    match PoolFile::open_at(pool, access) {
        Ok((file, superblock)) => {
            let state = superblock.check_state(&file.place());
            let Some(logged) = superblock.logged().filter(|_| state.is_err()) else {
                return Ok(Some(Locked { file, superblock, is_restored: false }));
            };
            if logged.is_elsewhere && options.log_directory.is_none() {
                return Err(OpenError::LogElsewhere { path: pool.path().into() }.into());
            }
            restored(Some(&file), Some(&superblock))
        }
        Err(OpenError::Missing { .. }) if has_safe_copy() => restored(None, None),
        Err(OpenError::Missing { .. }) if mode == Mode::OpenOrCreate && !options.read_only => {
            Ok(None)
        }
        Err(error @ (OpenError::Damaged { .. } | OpenError::Truncated { .. }))
            if has_safe_copy() && !options.read_only =>
        {
            restored(Some(&PoolFile::claim_at(pool, Access::Write)?), None)
                .map_err(|_| error.into())
        }
        Err(error @ OpenError::NotAPool { .. }) if has_safe_copy() && !options.read_only => {
            let file = PoolFile::claim_at(pool, Access::Write)?;
            if !file.is_blank()? {
                return Err(error.into());
            }
            restored(Some(&file), None)
        }
        Err(error) => Err(error.into()),
    }
}

fn create(
    options: &Options,
    pool: &Located,
    contents: Contents,
    companions: Companions,
) -> Result<Found> {
    let engine = contents.engine(options.engine, &options.parameters)?;
    let spec = spec(options, engine, contents);
    let file = PoolFile::create_at(pool)?;
    let (medium, beginning) = medium(options, &file, 0, &companions, None)?;
    companions.refuse_others(beginning.is_some())?;
    let pool = Pool::create(medium, &spec, file.place());
    let pool = pool.map_err(|error| Error::from(error).of_a_new_pool())?;
    Ok(Found { pool, engine, file, companions, beginning })
}

/// The file's first `bytes`, for writing, as the medium that is asked for, and its log if it has one.
fn medium(
    options: &Options,
    file: &PoolFile,
    bytes: u64,
    companions: &Companions,
    recorded: Option<Durability>,
) -> Result<(Memory, Option<Beginning>)> {
    if medium_for(options.medium, file)? == Medium::Dax {
        return Ok((watched(options, file.dax(bytes, options.size_max(bytes))?)?, None));
    }
    let flush = flush(options)?;
    let beginning = companions.begin(companions.durability(options, file, recorded))?;
    if beginning.is_some() && !file.is_unnamed() {
        // Before anything is changed.
        file.ownership()?.demand(file.path())?;
    }
    let memory = watched(options, file.mapped(bytes, options.size_max(bytes))?)?;
    let memory = match &beginning {
        Some(beginning) => memory.logged(Arc::clone(&beginning.log)),
        None => memory.flushed(flush),
    };
    Ok((memory, beginning))
}

/// The memory, watched if the options ask for it.
fn watched(options: &Options, memory: Memory) -> Result<Memory> {
    if !options.survive_bus_errors {
        return Ok(memory);
    }
    memory.watched().map_err(|source| Error::Io { action: "watching for bus errors", source })
}

/// The medium to use for a file: `Mapped` or `Dax`.
pub(crate) fn medium_for(asked: Medium, file: &PoolFile) -> Result<Medium> {
    match asked {
        Medium::Mapped | Medium::Dax => Ok(asked),
        Medium::Auto => Ok(match file.probe_dax() {
            Ok(_) => Medium::Dax,
            Err(_) => Medium::Mapped,
        }),
        Medium::Dram => Err(mismatch(
            "medium",
            asked,
            "auto, mapped or dax for a pool in a file",
            "use `Options::in_memory_table` or `in_memory_store` for a pool without a file",
        )),
    }
}

fn mismatch(
    field: &'static str,
    found: impl ToString,
    expected: impl ToString,
    advice: &'static str,
) -> Error {
    let (found, expected) = (found.to_string(), expected.to_string());
    Error::Open(OpenError::Mismatch { field, found, expected, advice })
}

/// Whether the pool is one of `asked` and of what `contents` says; its engine.
pub(crate) fn check_superblock(
    superblock: &Superblock,
    asked: Option<Engine>,
    contents: Contents,
) -> Result<Engine> {
    const OTHER_BUILD: &str = "open it with the firndex version that made it";
    let found = Contents::of(superblock);
    if found.kind != contents.kind {
        let advice = match found.kind {
            Kind::Table => "open it as a `Table`",
            Kind::Store => "open it as a `Store`",
        };
        return Err(mismatch("kind", found.kind, contents.kind, advice));
    }
    let Some(engine) = Engine::from_id(superblock.engine) else {
        let found = format!("number {}", superblock.engine);
        return Err(mismatch("engine", found, Engine::names(|_| true), OTHER_BUILD));
    };
    if let Some(asked) = asked
        && asked != engine
    {
        return Err(mismatch("engine", engine, asked, "ask for the engine it was made with"));
    }
    if superblock.hash_id != HASH_ID {
        return Err(mismatch("hash function", superblock.hash_id, HASH_ID, OTHER_BUILD));
    }
    for (field, found, expected) in [
        ("key size", found.key_bytes, contents.key_bytes),
        ("value size", found.value_bytes, contents.value_bytes),
    ] {
        if found != expected {
            let (found, expected) = (format!("{found} bytes"), format!("{expected} bytes"));
            let advice = "open it with types of the sizes it was made with";
            return Err(mismatch(field, found, expected, advice));
        }
    }
    if !engine.may_hold(found.sizes()) {
        let sizes = format!("{} and {} bytes", found.key_bytes, found.value_bytes);
        let expected = format!("{}, which is what {engine} takes", engine.description().pair_sizes);
        return Err(mismatch("pair of key and value size", sizes, expected, OTHER_BUILD));
    }
    Ok(engine)
}

/// What a pool's superblock (its first 8 KiB) says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolInfo {
    /// What the pool holds.
    pub kind: Kind,
    /// The engine it is built on.
    pub engine: Engine,
    /// Bytes of a table's keys; 0 in a store.
    pub key_bytes: u32,
    /// Bytes of a table's values; 0 in a store.
    pub value_bytes: u32,
    /// What a table's keys consist of, if it records that: tables of earlier versions do not, nor those of types
    /// without a [shape](crate::Fixed::shape).
    pub key_shape: Option<Shape>,
    /// The same of its values.
    pub value_shape: Option<Shape>,
    /// Whether it was closed and not opened for writing since.
    pub clean: bool,
    /// What survives power loss while it is open: the durability that its last opening had or, if it was closed, that
    /// its next one has unless it asks for another.
    pub durability: Durability,
    /// Whether sums of its file are written when it is closed: [`Options::keep_sums`](crate::Options::keep_sums).
    pub keeps_sums: bool,
    /// Number of times it was opened for writing.
    pub incarnation: u64,
    /// Its random identity.
    pub uuid: u128,
    /// Bytes that its content spans.
    pub bytes: u64,
}

/// Reads the superblock of the pool at `path`, of any kind, without a lock and without changing anything. If another
/// process writes to the pool, the answer may be outdated at once.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("ports.firn");
/// use firndex::{Kind, Table};
///
/// Table::<u64, u32>::create(&path)?.close()?;
/// let info = firndex::inspect(&path)?;
/// assert_eq!((info.kind, info.key_bytes, info.value_bytes), (Kind::Table, 8, 4));
/// assert!(info.clean);
/// # Ok(())
/// # }
/// ```
pub fn inspect(path: impl AsRef<Path>) -> Result<PoolInfo> {
    let path = path.as_ref();
    let superblock = PoolFile::inspect(path)?;
    let found = Contents::of(&superblock);
    let contents = match found.kind {
        Kind::Table => found,
        Kind::Store => Contents::STORE,
    };
    let engine = check_superblock(&superblock, None, contents)?;
    let shapes = shapes::Shapes::in_file(&superblock, path);
    Ok(PoolInfo {
        kind: found.kind,
        engine,
        key_bytes: found.key_bytes,
        value_bytes: found.value_bytes,
        key_shape: shapes.key,
        value_shape: shapes.value,
        clean: superblock.clean,
        durability: next_durability(&superblock, || PoolFile::is_in_memory_at(path)),
        keeps_sums: superblock.keeps_sums(),
        incarnation: superblock.incarnation,
        uuid: superblock.uuid,
        bytes: superblock.end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::Medium as _;
    use pmem::medium::MediumKind;

    /// Whether flushes cost anything, and the medium that the pool takes itself for.
    fn flushes(pool: &Pool<Memory>) -> (bool, MediumKind) {
        let medium = pool.medium();
        (medium.cache_flush() != CacheFlush::Nothing, medium.kind())
    }

    #[test]
    fn flushes_are_forced_where_asked_and_change_no_medium() {
        let directory = tempfile::tempdir().unwrap();
        let can_flush = CacheFlush::detect().is_some();
        for force in [false, true].into_iter().filter(|force| can_flush || !force) {
            let options = Options::new()
                .medium(Medium::Mapped)
                .durability(Durability::Process)
                .force_flushes(force);
            let words = Contents::table::<u64, u64>();
            for contents in [words, Contents::STORE, Contents::table::<u16, u64>()] {
                let (pool, _) = in_memory(&options, contents).unwrap();
                assert_eq!(flushes(&pool), (force, MediumKind::Dram));
            }
            let path = directory.path().join(force.to_string());
            let open = |options: &Options, mode| {
                let Found { pool, mut file, .. } = open(options, &path, mode, words).unwrap();
                file.publish().unwrap();
                let found = flushes(&pool);
                if !options.read_only {
                    pool.close().unwrap();
                }
                found
            };
            for mode in [Mode::Create, Mode::Open] {
                assert_eq!(open(&options, mode), (force, MediumKind::Mapped), "{mode:?}");
            }
            let read_only = options.clone().read_only(true);
            assert_eq!(open(&read_only, Mode::Open), (false, MediumKind::Mapped));
        }
    }
}
