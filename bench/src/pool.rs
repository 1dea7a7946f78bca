//! Makes pools: through the facade that users have, and on media that only a laboratory needs.

use crate::map::{Facts, Failure};
use crate::medium::Medium;
use crate::setting::Setting;
use anyhow::{Context, Result, bail};
use firndex::{Engine, Error, Options, Stats};
use index::hash::HASH_ID;
use pmem::Pool;
use pmem::heap::SEGMENT_LOG2_DEFAULT;
use pmem::medium::{CacheFlush, Count, Delay, Dram, Either, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Load factor at which a table grows that must not grow.
pub(crate) const NEVER: f64 = 2.0;

/// Options of a table for this setting.
pub(crate) fn options(engine: Engine, setting: &Setting) -> Options {
    let options = Options::new()
        .engine(engine)
        .capacity(setting.capacity)
        .hash_seed(setting.seed)
        .force_flushes(setting.flushes);
    if setting.grows { options } else { options.resize_at(NEVER) }
}

/// A new pool on `dram` or `mapped` through the facade. It is made by `in_file` in a new directory, which is removed
/// with the handle, or by `in_memory`.
pub(crate) fn through_facade<T>(
    engine: Engine,
    setting: &Setting,
    in_file: impl FnOnce(&Options, &Path) -> firndex::Result<T>,
    in_memory: impl FnOnce(&Options) -> firndex::Result<T>,
) -> Result<(T, Option<TempDir>)> {
    let options = options(engine, setting);
    match setting.medium {
        Medium::Mapped => {
            let directory = tempfile::tempdir_in(&setting.directory)
                .with_context(|| format!("a pool in {}", setting.directory.display()))?;
            let options = options.medium(firndex::Medium::Mapped);
            Ok((in_file(&options, &directory.path().join("bench.firn"))?, Some(directory)))
        }
        Medium::Dram => Ok((in_memory(&options)?, None)),
        medium => bail!("the facade has no medium {medium}"),
    }
}

/// Why a facade's operation failed.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::PoolFull(_) => Failure::Full(error.to_string()),
        _ => Failure::Other(error.to_string()),
    }
}

/// What a pool knows about itself.
pub(crate) fn facts(stats: &Stats) -> Facts {
    Facts {
        pairs: stats.pairs,
        capacity: stats.capacity,
        load_factor: stats.load_factor,
        resizes: stats.resizes,
        bytes: stats.pool_bytes + stats.sidecar_bytes,
        level_pairs: stats.levels.iter().map(|level| level.pairs).collect(),
    }
}

/// Anonymous memory for a pool.
pub(crate) fn memory() -> Result<Dram> {
    Memory::dram(u64::MAX).context("reserving memory")
}

/// Anonymous memory with flushes as on dax, or with none.
pub(crate) fn flushed_memory(flushes: bool) -> Result<Memory> {
    let flush = if flushes {
        CacheFlush::detect().context("this machine has no flush instruction")?
    } else {
        CacheFlush::Nothing
    };
    Ok(memory()?.flushed(flush))
}

/// Anonymous memory that adds latencies, or counts. It is one type, since engines are compiled for each type of medium.
pub(crate) type Laboratory = Either<Delay<Memory>, Count<Dram>>;

/// Anonymous memory that counts what is done to it.
pub(crate) fn counted_memory() -> Result<Laboratory> {
    Ok(Either::Other(Count::new(memory()?)))
}

/// Anonymous memory behind the latencies of a medium. Those of write-backs apply only if flushes are real.
pub(crate) fn delayed_memory(medium: Medium, flushes: bool) -> Result<Laboratory> {
    let Some(mut latency) = medium.latency() else { bail!("medium {medium} has no latencies") };
    if !flushes {
        latency.write_back_ns = 0;
        latency.blocks.iter_mut().for_each(|blocks| blocks.write_busy_ns = 0);
    }
    // A latency of write-backs stands for a whole flush; without one, a flush costs what DRAM's does.
    let flushes_too = flushes && medium == Medium::Optane;
    Ok(Either::One(Delay::new(flushed_memory(flushes_too)?, latency)))
}

/// A new pool on `medium`, without the facade, for a table of keys and values of these sizes. `engine` is the engine's
/// number and its parameters. Everything random follows from `seed`.
pub(crate) fn without_facade<M: pmem::Medium>(
    medium: M,
    engine: (u32, [u64; 16]),
    pair_bytes: (usize, usize),
    seed: u64,
) -> Result<Arc<Pool<M>>> {
    let spec = Spec {
        kind: PoolKind::Table,
        engine: engine.0,
        key_bytes: u32::try_from(pair_bytes.0)?,
        value_bytes: u32::try_from(pair_bytes.1)?,
        hash_id: HASH_ID,
        hash_seed: seed,
        uuid: u128::from(seed),
        segment_log2: SEGMENT_LOG2_DEFAULT,
        engine_params: engine.1,
    };
    Ok(Arc::new(Pool::create(medium, &spec, Place::default())?))
}
