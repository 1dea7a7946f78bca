//! Making a pool, in a file that has no name yet or in anonymous memory.

use super::memory::{flush, medium};
use super::ready::Ready;
use crate::companions::Companions;
use crate::contents::Contents;
use crate::{Engine, Error, Options, Result};
use engines::engine::Wanted;
use index::hash::HASH_ID;
use pmem::Pool;
use pmem::file::PoolFile;
use pmem::heap::{SEGMENT_LOG2_DEFAULT, SEGMENT_LOG2_SMALL};
use pmem::medium::Memory;
use pmem::pool::Spec;
use pmem::superblock::Place;
use std::hash::{BuildHasher, RandomState};

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

/// A pool in a new file.
pub(super) fn in_file(
    options: &Options,
    companions: Companions,
    contents: Contents,
) -> Result<Ready> {
    let engine = contents.engine(options.engine, &options.parameters)?;
    let spec = spec(options, engine, contents);
    let file = PoolFile::create_at(companions.pool())?;
    let (medium, beginning) = medium(options, &file, 0, &companions, None)?;
    companions.refuse_others(beginning.is_some())?;
    let pool = create(medium, &spec, file.place())?;
    Ok(Ready::in_file(pool, engine, file, companions, beginning))
}

/// A pool in anonymous memory.
pub(super) fn in_memory(options: &Options, contents: Contents) -> Result<Ready> {
    options.check()?;
    let engine = contents.engine(options.engine, &options.parameters)?;
    let (spec, place) = (spec(options, engine, contents), Place::default());
    let flush = flush(options)?;
    let medium = Memory::dram(options.size_max(0))
        .map_err(|source| Error::Io { action: "reserving memory", source })?;
    Ok(Ready::without_a_file(create(medium.flushed(flush), &spec, place)?, engine))
}

pub(crate) fn create(medium: Memory, spec: &Spec, place: Place) -> Result<Pool<Memory>> {
    Pool::create(medium, spec, place).map_err(|error| Error::from(error).of_a_new_pool())
}
