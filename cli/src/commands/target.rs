//! The arguments that say where a new pool is written from another one, and what is said of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use firndex::{Copied, Existing};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

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

    /// Says what was written.
    pub(super) fn say(&self, copied: &Copied) -> Result<()> {
        if self.json {
            return output::json(&json!({ "pairs": copied.pairs, "bytes": copied.bytes }));
        }
        output::talk(format_args!(
            "wrote {} pairs to {} ({})",
            HumanCount(copied.pairs),
            self.out.display(),
            HumanBytes(copied.bytes)
        ));
        Ok(())
    }
}
