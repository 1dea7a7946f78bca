//! Stores of byte strings in files, by the size of their values: firndex's, and other embedded databases.
//!
//! Keys have 16 bytes. One thread does everything. Rows of one size:
//!
//! | row | what |
//! |---|---|
//! | `load` | fresh keys, into a store that was not told how many will come |
//! | `get`, `miss` | keys that are there, in an order of no pattern, and keys that are not; each looked up by itself |
//! | `get_many` | keys that are there, several with one call, where the store has such a call |
//! | `overwrite`, `remove` | keys that are there, in other orders; half of the pairs are removed |
//! | `open_after_kill` | another process has loaded the pairs and was ended by SIGKILL: opening, and which part of the pairs is there |
//! | `first_get` | the first look-up after that |
//! | `on_disk` | what the files take after the kill, before they are opened |
//!
//! Changes come in lists of 1,000 pairs, as a transaction or a batch if a store has them. firndex gets each pair in a
//! separate call. The clock runs during calls only: keys and values are made between them. Answers are compared while
//! it runs.

pub mod claims;
mod kill;
mod rows;
mod trial;

pub(crate) use kill::load;
pub(crate) use rows::NAME;

use crate::contender::Contender;
use crate::contents::{Contents, KEY_BYTES};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use rows::files_in;
use trial::Trial;

/// Pairs by default.
pub(crate) const PAIRS: u64 = 500_000;
/// Most bytes of all keys and values of a store, so that a run of large values ends, too.
const BYTES_MAX: u64 = 640 << 20;
/// The pairs to store if `asked` pairs were asked for.
pub fn pairs(asked: u64, value_bytes: usize) -> u64 {
    asked.min(BYTES_MAX / (KEY_BYTES + value_bytes) as u64)
}

/// One round of one contender with values of one size.
pub(crate) fn round(contender: &dyn Contender, setting: &Setting) -> Result<Vec<Row>> {
    let Some(after_kill) = contender.after_kill() else { return Ok(Vec::new()) };
    let contents = Contents::new(setting.seed, setting.pairs, setting.value_bytes);
    let directory = files_in(&setting.directory)?;
    let store = contender.open_store(directory.path(), setting.seed)?;
    let mut rows = Trial::new(&*store, &contents, contender.name(), setting).run()?;
    // Removes the files of this store before those of the next are made.
    drop(store);
    drop(directory);
    rows.extend(kill::rows(contender, after_kill, &contents, setting)?);
    Ok(rows)
}
