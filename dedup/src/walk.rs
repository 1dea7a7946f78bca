//! Finding the files to chunk.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use crate::audience::{Audience, Note, Stage};

/// A regular file below the directory that is walked.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Relative to that directory.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub struct Walk {
    /// In the order of their paths.
    pub files: Vec<Found>,
    /// Their sizes together.
    pub bytes: u64,
    /// Whether the limit left files out.
    pub cut: bool,
}

/// A file or directory by identity, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity of what is at `path`.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&std::fs::metadata(path)?))
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Identity { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Lists the regular files below `dir`, sorted, up to `bytes_max` of them, leaving out what is
/// `excluded`, directories named `target`, and anything named `.git`. Symbolic links are not
/// followed. What cannot be read is told and left out.
pub fn walk(dir: &Path, bytes_max: u64, excluded: &[Identity], audience: &dyn Audience) -> Walk {
    let progress = audience.begin(Stage::Walk, None);
    let wanted = |entry: &DirEntry| {
        if entry.depth() == 0 {
            return true;
        }
        let name = entry.file_name();
        let skipped = name == OsStr::new(".git")
            || (name == OsStr::new("target") && entry.file_type().is_dir());
        !skipped && !is_excluded(entry, excluded)
    };
    let mut walk = Walk::default();
    let entries = WalkDir::new(dir).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(wanted) {
        let (entry, metadata) = match entry.and_then(|entry| Ok((entry.metadata()?, entry))) {
            Ok((metadata, entry)) => (entry, metadata),
            Err(error) => {
                audience.tell(Note::Skipped { path: None, why: &error });
                continue;
            }
        };
        if !metadata.is_file() {
            continue;
        }
        if walk.bytes.saturating_add(metadata.len()) > bytes_max {
            walk.cut = true;
            // One large file among the first must not leave nothing, and a whole disk is not
            // searched for the small files that would fit.
            if walk.bytes > bytes_max / 2 {
                break;
            }
            continue;
        }
        let path = entry.path();
        walk.files.push(Found {
            path: path.strip_prefix(dir).unwrap_or(path).to_owned(),
            bytes: metadata.len(),
        });
        walk.bytes += metadata.len();
        progress.advance(1);
    }
    walk
}

/// Asks for the metadata only where the inode already fits: most files are no candidates.
fn is_excluded(entry: &DirEntry, excluded: &[Identity]) -> bool {
    use walkdir::DirEntryExt;
    excluded.iter().any(|identity| identity.inode == entry.ino())
        && entry.metadata().is_ok_and(|metadata| excluded.contains(&Identity::from(&metadata)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::audience::Nobody;

    fn paths(walk: &Walk) -> Vec<&str> {
        walk.files.iter().filter_map(|found| found.path.to_str()).collect()
    }

    #[test]
    fn takes_regular_files_only_and_leaves_out_what_it_must() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("target");
        for sub in [".git", "target", "src/target", "src/deep", "private"] {
            fs::create_dir_all(root.join(sub)).unwrap();
            fs::write(root.join(sub).join("file"), b"1234").unwrap();
        }
        fs::write(root.join("src/.git"), b"gitdir: elsewhere").unwrap();
        fs::write(root.join("pool.firn"), b"pool").unwrap();
        fs::write(root.join("a"), b"12").unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::os::unix::fs::symlink("src", root.join("loop")).unwrap();
        let excluded = ["pool.firn", "private"].map(|name| Identity::of(&root.join(name)).unwrap());

        let all = walk(&root, u64::MAX, &excluded, &Nobody);
        assert_eq!(paths(&all), ["a", "src/deep/file"]);
        assert_eq!((all.bytes, all.cut), (6, false));

        fs::write(root.join("b"), b"too large").unwrap();
        let some = walk(&root, 6, &excluded, &Nobody);
        assert_eq!(paths(&some), ["a", "src/deep/file"]);
        assert!(some.cut);
        let some = walk(&root, 3, &excluded, &Nobody);
        assert_eq!(paths(&some), ["a"]);
        assert!(some.cut);
    }
}
