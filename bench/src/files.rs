//! Files below a directory: which there are, and what they take.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a block as `stat` counts them.
const BLOCK_BYTES: u64 = 512;

/// All files below a directory.
pub(crate) fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files.append(&mut files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// What a file takes.
pub(crate) fn bytes_of(file: &Path) -> io::Result<u64> {
    Ok(fs::metadata(file)?.blocks() * BLOCK_BYTES)
}

/// What the files below a directory take.
pub(crate) fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    files_below(directory)?.iter().map(|file| bytes_of(file)).sum()
}
