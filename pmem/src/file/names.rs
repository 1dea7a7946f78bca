//! Files and their names.

use crate::error::OpenError;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { action, path: path.clone(), source }
}

pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether `name` is the file's.
pub(super) fn names(name: &Path, file: &File) -> bool {
    are_same(name.symlink_metadata(), file)
}

/// Whether who opens `path` gets the file.
pub(super) fn leads_to(path: &Path, file: &File) -> bool {
    are_same(path.metadata(), file)
}

fn are_same(named: io::Result<Metadata>, file: &File) -> bool {
    let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
    match (named, file.metadata()) {
        (Ok(named), Ok(opened)) => id(named) == id(opened),
        _ => false,
    }
}
