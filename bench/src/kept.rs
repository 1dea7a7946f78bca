//! Files that suite `open` keeps from round to round.

use crate::choices::{Kind, Logging};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// What is opened: a table or a store, and if it is one of firndex's pools, whether it has a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    pub(crate) logging: Option<Logging>,
}

/// Whose files they are: a contender's name, its form, and the number of pairs.
pub(crate) type Owner = (String, Form, u64);

/// The files of one contender.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) directory: TempDir,
    /// Where its pool is, if not there.
    pub(crate) pools: Option<TempDir>,
    /// How many pairs have been put again since all were there.
    pub(crate) changed: u64,
}

impl Files {
    /// In new directories.
    pub(crate) fn new(directory: &Path, pools: Option<&Path>) -> Result<Files> {
        let below = |directory: &Path| {
            tempfile::tempdir_in(directory)
                .with_context(|| format!("files in {}", directory.display()))
        };
        let pools = pools.map(below).transpose()?;
        Ok(Files { directory: below(directory)?, pools, changed: 0 })
    }
}

/// The files of all contenders, which are removed with this.
#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<Owner, Files>>);

impl Kept {
    pub(crate) fn files(&self) -> MutexGuard<'_, HashMap<Owner, Files>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
