//! Caches of byte strings that are bounded in bytes.
//!
//! Keys have 16 bytes, values 100 where nothing else is said. The bound is on bytes of keys and values. Each value is
//! compared while the clock runs.
//!
//! | row | what |
//! |---|---|
//! | name of a trace | part of the requests that were hits, one thread; a miss is followed by a put. Caches of 1, 5 and 20 % of the trace's working set. The first fifth of the requests warms up |
//! | `get_hit` | keys that are there, in an order of no pattern |
//! | `put_evict` | fresh keys into a full cache |
//! | `get_or_put` | trace `zipf-1.0` with a cache of 20 %, in all threads |
//! | `memory` | what a full cache takes per pair, beside the key and the value |
//! | `restart` | time until a cache that a process has warmed up with `zipf-1.0`, and that was killed, is open again and has answered; its pairs, and the part of them that was kept |
//! | `before_kill`, `after_kill` | part of the 10,000 requests before that and after it that were hits |
//! | `restart_closed`, `before_close`, `after_close` | the same if the process has closed the cache |
//!
//! [`workload::trace`] has the traces. Values of trace `expiry` live by the clock, so its requests are made at a fixed
//! pace.
//!
//! firndex's store is here for `get_hit` alone: with it the cache's look-ups are compared. A cache behind a socket is
//! too slow for that pace, and one whose bound is coarse has hit ratios with larger caches alone.

mod asking;
pub mod claims;
mod memory;
mod pairs;
mod rates;
mod ratios;
mod restart;

pub(crate) use restart::{restarts, warm};

use crate::cache::{Cache, Room};
use crate::choices::CachePart;
use crate::measured::{Measured, Rows};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use pairs::Pairs;
use workload::trace::{Kind, PAIR_BYTES, Scale, Trace};

/// The suite's name.
pub(crate) const NAME: &str = "cache";
/// Keys that come again and again, by default.
pub(crate) const PAIRS: u64 = 500_000;
/// The cache of `get_or_put` and `restart`, in percent of the working set.
const CACHE_PERCENT: u32 = 20;

/// One round of one cache, but for what its restarts leave.
pub(crate) fn round<C: Cache>(
    name: &str,
    make: &impl Fn(Room) -> Result<C>,
    measured: &Measured,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let pairs = Pairs::new(setting.seed);
    let trial = Trial { name, setting, pairs: &pairs };
    let mut rows = Vec::new();
    let has = |part| setting.cache_parts.has(part);
    let is_alone = setting.threads == 1 && measured.rows == Rows::All;
    // Before anything else leaves memory behind.
    if is_alone && has(CachePart::Memory) {
        rows.extend(trial.memory(make)?);
    }
    if is_alone && has(CachePart::Ratios) {
        rows.extend(trial.ratios(make, measured)?);
    }
    if measured.rows != Rows::Restarts && has(CachePart::Rates) {
        rows.push(trial.get_hit(make)?);
    }
    if measured.rows == Rows::All && has(CachePart::Rates) {
        rows.extend([trial.put_evict(make)?, trial.get_or_put(make)?]);
    }
    Ok(rows)
}

/// A cache on trial.
struct Trial<'a> {
    name: &'a str,
    setting: &'a Setting,
    pairs: &'a Pairs,
}

impl Trial<'_> {
    fn row(&self, op: &str) -> Row {
        self.setting.row(NAME, op, self.name)
    }
}

/// Room for so many pairs that are all alike.
fn room_for(pairs: u64) -> Room {
    Room { bytes: pairs * u64::from(PAIR_BYTES), pairs: pairs as usize }
}

/// Pairs of a cache of so many percent of the working set.
fn cached(pairs: u64, percent: u32) -> u64 {
    (pairs * u64::from(percent) / 100).max(1)
}

/// Numbers of the keys that trace `zipf-1.0` asks for.
fn zipf(pairs: u64, requests: u64, seed: u64) -> Result<Vec<u64>> {
    let keys = u32::try_from(pairs).context("so many keys have no trace")?;
    let scale = Scale { keys, requests: usize::try_from(requests)?, cache_percent: CACHE_PERCENT };
    let trace = Trace::new(Kind::Zipf10, scale, seed)?;
    Ok(trace.requests.iter().map(|request| request.key).collect())
}
