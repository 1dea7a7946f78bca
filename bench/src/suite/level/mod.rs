//! The Level hashing paper's own measurements, on [`engines::level`] itself and anonymous memory, with
//! its design decisions switched on and off.
//!
//! * `get_hit`, `get_miss` (figure 5): searches in the order of the levels (`level-static`) and the
//!   fuller level first (`level-dynamic`) as a table grows through six expansions; on medium `count`
//!   the lines that they read.
//! * `full` (figure 2): the load factor at which a table refuses a pair, with decisions D1 to D4
//!   switched on one after the other. `expansion` (figure 4): the load factors at which one that grows
//!   only when it is full expands for the first to the sixth time, with and without movements from
//!   the bottom level to the top one.
//! * `expand_in_place`, `expand_full_rehash` (figure 15a): doubling a table at a load factor of 0.85.
//! * `update_durable` (figure 12): updates that use an empty slot if there is one (`level-log-free`),
//!   that always write a log entry (`level-logged`), and of words, in place (`level-in-place`).
//!   `update_log_free` (figure 8b): for how many of them there is an empty slot, counted.
//!
//! Searches and updates are made by as many threads as are asked for, everything else by one, and
//! in the round with one thread only.

mod bytes;
mod expansion;
mod full;
mod search;
mod shares;
mod table;
mod updates;

use crate::contender::Setting;
use crate::crew::Timing;
use crate::direct::memory;
use crate::row::Row;
use anyhow::{Context, Result};
use pmem::medium::{CacheFlush, Memory};

/// Bytes that all tables of the largest measurement take at once per pair, about: three of buckets
/// of 32 bytes a slot.
pub const BYTES_PER_PAIR: u64 = 120;
/// Load factor at which the paper's tables are expanded, where they do not wait to be full.
const EXPAND_AT: f64 = 0.85;
/// Operations of a point of a series, as a part of the run's.
const OPS_PART: u64 = 16;

/// One round of all that goes with the setting's flushes and threads.
pub fn round(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    let is_alone = setting.threads == 1;
    let mut rows = Vec::new();
    if setting.flushes {
        rows.extend(updates::rows(name, setting)?);
        if is_alone {
            rows.extend(expansion::rows(name, setting, flushed_memory)?);
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

/// Anonymous memory with flushes as on dax.
fn flushed_memory() -> Result<Memory<CacheFlush>> {
    let flush = CacheFlush::detect().context("this machine has no flush instruction")?;
    Ok(memory()?.flushed(flush))
}

/// Slices of operations that several contenders took turns with, added up.
#[derive(Debug, Clone, Copy, Default)]
struct Turns {
    ops: u64,
    elapsed_s: f64,
    /// Time that a thread had a processor, of the time in slices for which that is told.
    on_cpu_s: f64,
    told_s: f64,
}

impl Turns {
    fn add(&mut self, ops: usize, timing: Timing) {
        self.ops += ops as u64;
        self.elapsed_s += timing.elapsed_s;
        if let Some(share) = timing.cpu_share {
            self.on_cpu_s += share * timing.elapsed_s;
            self.told_s += timing.elapsed_s;
        }
    }

    /// The row with rate and mean latency.
    fn on(&self, row: Row) -> Row {
        let threads = row.threads.unwrap_or(1) as f64;
        let row = Row {
            mean_ns: Some(self.elapsed_s * threads * 1e9 / self.ops as f64),
            cpu_share: (self.told_s > 0.0).then(|| self.on_cpu_s / self.told_s),
            ..row
        };
        row.with_rate(self.ops as f64 / self.elapsed_s, None)
    }
}
