//! Level hashing as its paper has it, as a contender of every suite.

use super::table::open_to_double;
use crate::contender::Contender;
use crate::map::Map;
use crate::medium::Medium;
use crate::opener::Opener;
use crate::pool::{counted_memory, delayed_memory, flushed_memory};
use crate::setting::Setting;
use anyhow::Result;

/// Its name.
pub(crate) const LEVEL_PAPER: &str = "level-paper";

/// Without fingerprints in DRAM, and without overwriting values in place. It is measured if it is asked for by name.
pub fn as_in_paper() -> Box<dyn Contender> {
    Box::new(Opener {
        name: LEVEL_PAPER.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        threads_max: usize::MAX,
        engine: None,
        grows: true,
        is_by_name: true,
        lies_on: |medium, _| medium.is_in_memory(),
        open,
    })
}

fn open(setting: &Setting) -> Result<Box<dyn Map>> {
    let (map, _) = match setting.medium {
        Medium::Dram => open_to_double(flushed_memory(setting.flushes)?, setting, true)?,
        Medium::Count => open_to_double(counted_memory()?, setting, true)?,
        medium => open_to_double(delayed_memory(medium, setting.flushes)?, setting, true)?,
    };
    Ok(map)
}
