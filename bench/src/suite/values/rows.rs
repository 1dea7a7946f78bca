//! What the parts of the suite share: its rows, lists of pairs, and a place for files.

use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

/// The suite's name.
pub(crate) const NAME: &str = "values";
/// Pairs of a list, which may become a transaction.
const LIST: u64 = 1000;

/// A new directory, which is removed with this.
pub(super) fn files_in(directory: &Path) -> Result<TempDir> {
    tempfile::tempdir_in(directory).with_context(|| format!("files in {}", directory.display()))
}

/// The places of `count` pairs, list by list.
pub(super) fn lists(count: u64) -> impl Iterator<Item = Range<u64>> {
    (0..count).step_by(LIST as usize).map(move |from| from..count.min(from + LIST))
}

/// A row of this suite.
pub(super) fn row(setting: &Setting, op: &str, contender: &str) -> Row {
    Row {
        medium: Some("files".to_owned()),
        value_bytes: Some(setting.value_bytes),
        ..setting.row(NAME, op, contender)
    }
}
