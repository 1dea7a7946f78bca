//! foyer's hybrid cache: S3-FIFO in memory, and blocks of entries in a file.
//!
//! An entry takes whole pages of 4 KiB in the file, so it is given these, for as many pairs as the others hold, and
//! memory for a tenth of them. What is put is written to the file in the background: that is the policy with which a
//! killed process leaves most.

use anyhow::{Result, bail};
use bench::{Cache, Caching, Contender, End, Room};
use foyer::{
    BlockEngineConfig, DeviceBuilder, FileDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, PsyncIoEngineConfig, S3FifoConfig,
};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// What an entry's place in the file is a multiple of.
const PAGE_BYTES: usize = 4096;
/// Memory has room for this part of the pairs.
const MEMORY_PART: usize = 10;
/// The file is made of so many blocks, each of which is freed as a whole.
const BLOCKS: usize = 32;
/// Blocks that are being written or emptied, and hold nothing to be found.
const BLOCKS_BESIDE: usize = 3;
/// The largest entry of any trace has room in a block of this size.
const BLOCK_BYTES_MIN: usize = 64 << 10;
/// With less, the smallest blocks would have room for more pairs than the others hold.
const BYTES_MIN: u64 = 128 << 10;

struct Hybrid {
    cache: HybridCache<Vec<u8>, Vec<u8>>,
    /// Dropped after the cache.
    runtime: Runtime,
    _directory: Option<TempDir>,
}

impl Hybrid {
    fn open(directory: &Path, room: Room) -> Result<Hybrid> {
        let pairs = room.pairs.max(1);
        let pages = (room.bytes as usize).div_ceil(pairs).div_ceil(PAGE_BYTES);
        let file_bytes = pairs * pages * PAGE_BYTES;
        let block_bytes =
            file_bytes.div_ceil(BLOCKS).next_multiple_of(PAGE_BYTES).max(BLOCK_BYTES_MIN);
        let device = FileDeviceBuilder::new(directory.join("foyer"))
            .with_capacity(block_bytes * (BLOCKS + BLOCKS_BESIDE))
            .build()?;
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let builder = HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .memory((room.bytes as usize / MEMORY_PART).max(1))
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|key: &Vec<u8>, value: &Vec<u8>| key.len() + value.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device).with_block_size(block_bytes));
        let cache = runtime.block_on(builder.build())?;
        Ok(Hybrid { cache, runtime, _directory: None })
    }
}

impl Cache for Hybrid {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        // A miss in memory is looked for in the file by a task, which needs the runtime.
        let _entered = self.runtime.enter();
        let found = self.cache.get(key);
        let found = if found.need_await() {
            self.runtime.block_on(found)?
        } else {
            found.try_unwrap().ok()
        };
        Ok(found.map(|entry| is_right(entry.value())))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.cache.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn put_for(&self, _: &[u8], _: &[u8], _: Duration) -> Result<()> {
        bail!("its values live without end")
    }

    /// What the file takes says nothing, since it keeps its size: less than the pairs, so that no row has it.
    fn bytes(&self) -> Result<Option<u64>> {
        Ok(Some(0))
    }

    fn close(self) -> Result<()> {
        Ok(self.runtime.block_on(self.cache.close())?)
    }
}

pub(super) fn contender() -> Box<dyn Contender> {
    let make = |room: Room| {
        let directory = tempfile::tempdir()?;
        let mut hybrid = Hybrid::open(directory.path(), room)?;
        hybrid._directory = Some(directory);
        Ok(hybrid)
    };
    let cache = Caching::new("foyer-hybrid", env!("VERSION_FOYER"), make)
        .bounded_from(BYTES_MIN)
        .without_pace()
        .reopening(&[End::Killed], Hybrid::open);
    Box::new(cache)
}
