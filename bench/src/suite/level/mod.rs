//! The Level hashing paper's own measurements, on [`engines::level`] itself and anonymous memory, with its design
//! decisions switched on and off.
//!
//! * `get_hit`, `get_miss` (figure 5): searches in the order of the levels (`level-static`) and in the fuller level
//!   first (`level-dynamic`), while a table grows through six expansions; on medium `count` the lines that they read.
//! * `full` (figure 2): the load factor at which a table refuses a pair, with decisions D1 to D4 switched on one after
//!   the other.
//! * `expansion` (figure 4): the load factors at which a table that grows only when it is full expands for the first to
//!   the sixth time, with and without movements from the bottom level to the top one.
//! * `expand_in_place`, `expand_full_rehash` (figure 15a): doubling a table at a load factor of 0.85.
//! * `update_durable` (figure 12): updates that use an empty slot if there is one (`level-log-free`), that always write
//!   a log entry (`level-logged`), and of words, in place (`level-in-place`).
//! * `update_log_free` (figure 8b): for how many updates there is an empty slot, counted.
//!
//! Searches and updates use as many threads as are asked for. Everything else uses one thread, and runs only in the
//! round with one thread.

mod expansion;
mod full;
mod search;
mod shares;
mod table;
mod updates;

use super::paper::Paper;
use crate::choices::Suite;
use crate::medium::Medium;
use crate::pool::{flushed_memory, memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

pub(crate) use table::open_to_double;

/// The engine that the paper is about.
pub(crate) const ENGINE: Engine = Engine::Level;

/// The suite.
pub const PAPER: Paper = Paper {
    suite: Suite::Level,
    name: ENGINE.name(),
    // Three tables with buckets of 32 bytes a slot.
    bytes_per_pair: 120,
    media: &[Medium::Dram],
    pairs: None,
    round,
    claims: |_| Vec::new(),
};

fn round(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let is_alone = setting.threads == 1;
    let mut rows = Vec::new();
    if setting.flushes {
        rows.extend(updates::rows(name, setting)?);
        if is_alone {
            rows.extend(expansion::rows(name, setting, || flushed_memory(true))?);
        }
        return Ok(rows);
    }
    rows.extend(search::timed(name, setting)?);
    if is_alone {
        rows.extend(search::counted(name, setting)?);
        rows.extend(full::rows(name, setting)?);
        rows.extend(expansion::rows(name, setting, memory)?);
        rows.extend(shares::rows(name, setting)?);
    }
    Ok(rows)
}
