//! The bare disk: blocks written one by one, and files read.

use crate::latencies::Latencies;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a block; direct access has to be aligned to this.
const BLOCK_BYTES: usize = 4096;
/// Blocks of a file that is overwritten.
const BLOCKS: u64 = 4096;
/// How long to write blocks.
const DURATION: Duration = Duration::from_millis(500);
/// Bytes that a thread reads at once.
const READ_BYTES: usize = 1 << 20;

/// Memory that direct access can use.
struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        let bytes = vec![0; len + BLOCK_BYTES];
        let from = bytes.as_ptr().align_offset(BLOCK_BYTES);
        Aligned { bytes, from, len }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..][..self.len]
    }
}

/// Opens a file past the page cache, if the file system offers that.
fn open_direct(path: &Path, more: OFlags) -> Result<File> {
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags.bits() as i32).open(path)
    };
    open(OFlags::DIRECT | more)
        .or_else(|_| open(more))
        .with_context(|| format!("opening {}", path.display()))
}

/// The result of one way of writing blocks.
pub(super) struct Blocks {
    op: &'static str,
    pub(super) per_s: f64,
    latencies: Latencies,
}

impl Blocks {
    fn write(
        op: &'static str,
        blocks_max: u64,
        mut write: impl FnMut(u64, &[u8]) -> std::io::Result<()>,
    ) -> Result<Blocks> {
        let mut block = Aligned::new(BLOCK_BYTES);
        let mut latencies = Latencies::new()?;
        let started = Instant::now();
        let mut done = 0;
        while done < blocks_max && (done == 0 || started.elapsed() < DURATION) {
            block.get().fill(done as u8 | 1);
            let before = Instant::now();
            write(done, block.get()).with_context(|| format!("{op}: writing a block"))?;
            latencies.record(before.elapsed().as_nanos() as u64);
            done += 1;
        }
        Ok(Blocks { op, per_s: done as f64 / started.elapsed().as_secs_f64(), latencies })
    }

    pub(super) fn row(&self, setting: &Setting) -> Row {
        let row = Row { pairs: None, ..super::rows::row(setting, self.op, "machine") };
        self.latencies.on_disk(row.with_rate(self.per_s, None))
    }
}

/// One thread writes blocks of 4 KiB and waits until each is durable: at the end of a file, over blocks that were
/// written before, and over such blocks past the page cache.
pub(super) fn write_blocks(directory: &Path, blocks_max: u64) -> Result<[Blocks; 3]> {
    // With a unique name, as others may measure in this directory.
    let named = tempfile::Builder::new().prefix("blocks-").tempfile_in(directory);
    let named = named.with_context(|| format!("making a file in {}", directory.display()))?;
    let (path, file) = (named.path(), named.as_file());
    let at = |block: u64| block % BLOCKS * BLOCK_BYTES as u64;
    let appended = Blocks::write("append_sync", blocks_max, |block, bytes| {
        file.write_all_at(bytes, block * BLOCK_BYTES as u64)?;
        file.sync_data()
    })?;
    let zeros = vec![0; 1 << 20];
    for from in (0..BLOCKS * BLOCK_BYTES as u64).step_by(zeros.len()) {
        file.write_all_at(&zeros, from)?;
    }
    file.sync_all()?;
    let overwritten = Blocks::write("overwrite_sync", blocks_max, |block, bytes| {
        file.write_all_at(bytes, at(block))?;
        file.sync_data()
    })?;
    let direct = open_direct(path, OFlags::DSYNC)?;
    let past_cache = Blocks::write("overwrite_direct", blocks_max, |block, bytes| {
        direct.write_all_at(bytes, at(block))
    })?;
    Ok([appended, overwritten, past_cache])
}

/// Reads files with `threads` threads, past the page cache; returns bytes and seconds.
pub(crate) fn read_files(paths: &[PathBuf], threads: usize) -> Result<(u64, f64)> {
    let mut files = Vec::new();
    for path in paths {
        let bytes = fs::metadata(path)?.len();
        files.push((open_direct(path, OFlags::empty())?, bytes));
    }
    let chunks: Vec<(&File, u64)> = files
        .iter()
        .flat_map(|(file, bytes)| (0..*bytes).step_by(READ_BYTES).map(move |at| (file, at)))
        .collect();
    let next = AtomicU64::new(0);
    let (done, timing) = crate::crew::run(vec![(); threads], |()| -> Result<u64> {
        let mut chunk = Aligned::new(READ_BYTES);
        let mut read = 0;
        while let Some((file, at)) = chunks.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            read += file.read_at(chunk.get(), *at).context("reading a file")? as u64;
        }
        Ok(read)
    })?;
    let bytes = done.into_iter().sum::<Result<u64>>()?;
    Ok((bytes, timing.elapsed_s))
}
