//! Where pools are put: in memory for speed, on a disk where the file system matters.

use std::path::{Path, PathBuf};
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

/// The directory of a pool's log, checkpoint and sums.
pub(crate) fn companions(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".safe");
    name.into()
}

/// The file of the pool's only checkpoint, if it has one.
pub(crate) fn checkpoint(pool: &Path) -> Option<PathBuf> {
    let files = ["checkpoint.0", "checkpoint.1"].map(|name| companions(pool).join(name));
    let holds_one =
        |path: &PathBuf| std::fs::read(path).is_ok_and(|it| it.starts_with(b"FIRNSAFE"));
    files.into_iter().find(holds_one)
}

/// The segments of a pool's log, by number.
pub(crate) fn segments(pool: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(companions(pool)).into_iter().flatten().flatten();
    let numbered = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name.strip_prefix("log.")?.parse().ok()?, entry.path()))
    };
    let mut segments: Vec<_> = entries.filter_map(numbered).collect();
    segments.sort();
    segments
}

/// Copies what there is of a pool, but not its file: what counts after power loss. Anew, if a checkpoint was made
/// meanwhile: power loss comes at one moment.
pub(crate) fn copy_companions(from: &Path, to: &Path) {
    let copy = to.join(companions(from).file_name().unwrap());
    let checkpoints = || {
        let first = |name| {
            std::fs::read(companions(from).join(name))
                .map(|mut it| it.drain(..it.len().min(4096)).collect())
        };
        ["checkpoint.0", "checkpoint.1"].map(|name| first(name).unwrap_or_else(|_| Vec::new()))
    };
    loop {
        std::fs::create_dir(&copy).unwrap();
        let before = checkpoints();
        for entry in std::fs::read_dir(companions(from)).unwrap() {
            let entry = entry.unwrap();
            match std::fs::copy(entry.path(), copy.join(entry.file_name())) {
                // A segment that a checkpoint has made needless.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{copied:?}"),
            }
        }
        if checkpoints() == before {
            return;
        }
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

/// Every file below a directory, and what is in it.
pub(crate) fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            // Else it is a segment that nobody needs any more.
            files.push((path, bytes));
        }
    }
    files.sort();
    files
}

/// Names in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}
