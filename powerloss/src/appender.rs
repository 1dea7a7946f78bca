//! The control experiment: a file that grows by blocks, each made durable by `fdatasync` before it is acknowledged.
//! Of this it is known that it holds; and that it does not, if the acknowledgement comes first.

use crate::notes::Notes;
use anyhow::{Context, Result, ensure};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK_BYTES: usize = 4096;
const FILE: &str = "blocks";
/// More would be much to copy for each image.
const BLOCKS_MAX: u64 = 4096;

/// What every word of a block says.
fn block(number: u64) -> Vec<u8> {
    let words = (0..BLOCK_BYTES as u64 / 8).map(|word| workload::mix(number << 16 | word));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Appends blocks until it is killed. `is_hasty`: acknowledges a block before it is durable.
pub(crate) fn write(directory: &Path, notes: &Notes, is_hasty: bool) -> Result<()> {
    let path = directory.join(FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    for number in notes.acknowledged(0)?..BLOCKS_MAX {
        file.write_all_at(&block(number), number * BLOCK_BYTES as u64)?;
        if is_hasty {
            notes.acknowledge(0, number + 1)?;
        }
        file.sync_data()?;
        if !is_hasty {
            notes.acknowledge(0, number + 1)?;
        }
    }
    Ok(())
}

/// What is wrong with the file.
pub(crate) fn judge(directory: &Path, notes: &Notes) -> Result<()> {
    let acknowledged = notes.acknowledged(0)?;
    if acknowledged == 0 {
        return Ok(());
    }
    let bytes = fs::read(directory.join(FILE)).with_context(|| {
        format!("{acknowledged} blocks were acknowledged, but not one is there")
    })?;
    for number in 0..acknowledged {
        ensure!(
            bytes.chunks_exact(BLOCK_BYTES).nth(number as usize) == Some(&block(number)),
            "block {number} is not as it was written, but {acknowledged} were acknowledged"
        );
    }
    Ok(())
}
