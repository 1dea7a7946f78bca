//! The arguments that say where a new pool is written from another one, and what is said of it.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use clap::Args;
use firndex::{Copied, Existing, OpenError};
use indicatif::HumanBytes;
use serde_json::json;

use crate::count::counted;
use crate::failure::Failure;
use crate::output;

/// Where a new pool is written.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The file to make
    out: PathBuf,
    /// If OUT is already a pool, replace it when the new one is complete
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Target {
    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    pub(super) fn existing(&self) -> Existing {
        if self.replace { Existing::Replace } else { Existing::Keep }
    }

    pub(super) fn wants_json(&self) -> bool {
        self.json
    }

    /// Why nothing was written, while `doing` that.
    pub(super) fn explain(&self, doing: String, error: firndex::Error) -> Error {
        let out = self.out.display();
        match error {
            firndex::Error::Open(OpenError::Exists { .. }) => {
                let hint = "choose another name, or replace it: --replace";
                Failure::new(format!("{out} exists already"), hint).into()
            }
            // One pool is open here: the one that is copied.
            firndex::Error::Open(OpenError::AlreadyOpen { .. }) => {
                let what = format!("POOL and OUT are the same file, {out}");
                Failure::new(what, "choose another name for OUT").into()
            }
            firndex::Error::Open(OpenError::NotAPool { found, .. }) if self.is_no_pool() => {
                let hint =
                    "--replace replaces pools only: choose another name, or remove that file";
                Failure::new(format!("{out} is not a firndex pool: {found}"), hint).into()
            }
            error => Error::new(error).context(doing),
        }
    }

    fn is_no_pool(&self) -> bool {
        let found = firndex::inspect(&self.out);
        matches!(found, Err(firndex::Error::Open(OpenError::NotAPool { .. })))
    }

    /// Says what was written.
    pub(super) fn say(&self, copied: &Copied) -> Result<()> {
        if self.json {
            return output::json(&json!({ "pairs": copied.pairs, "bytes": copied.bytes }));
        }
        output::talk(format_args!(
            "wrote {} to {} ({})",
            counted(copied.pairs, "pair"),
            self.out.display(),
            HumanBytes(copied.bytes)
        ));
        Ok(())
    }
}
