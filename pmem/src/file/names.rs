//! Paths of files, and errors that name them.

use crate::error::OpenError;
use std::io;
use std::path::Path;

pub(super) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| OpenError::Io { action, path: path.clone(), source }
}

pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
