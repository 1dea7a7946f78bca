//! Files that stay from round to round.

use super::order::Form;
use crate::setting::Setting;
use crate::suite::values::files_in;
use anyhow::Result;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Whose files they are: a contender's name, its form, and the number of pairs.
pub(super) type Owner = (String, Form, u64);

/// The files of one contender.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) directory: TempDir,
    /// Where its pool is, if not there.
    pub(super) pools: Option<TempDir>,
    /// How many pairs have been put again since all were there.
    pub(super) changed: u64,
}

impl Files {
    pub(super) fn new(setting: &Setting) -> Result<Files> {
        let pools = setting.openings.pools.as_deref().map(files_in).transpose()?;
        Ok(Files { directory: files_in(&setting.directory)?, pools, changed: 0 })
    }
}

/// The files of all contenders, which are removed with this.
#[derive(Debug, Default)]
pub struct Kept(Mutex<HashMap<Owner, Files>>);

impl Kept {
    pub(super) fn files(&self) -> MutexGuard<'_, HashMap<Owner, Files>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
