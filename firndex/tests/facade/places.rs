//! Where pools are put: in memory for speed, on a disk where the file system matters.

use std::path::Path;
use tempfile::TempDir;

/// A directory in memory where there is such a file system.
pub(crate) fn in_ram() -> TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory).unwrap() } else { on_disk() }
}

/// A directory on whatever holds temporary files.
pub(crate) fn on_disk() -> TempDir {
    tempfile::tempdir().unwrap()
}
