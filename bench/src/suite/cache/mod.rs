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
//!
//! [`workload::trace`] has the traces. Values of trace `expiry` live by the clock, so its requests are made at a fixed
//! pace.

pub mod claims;
mod memory;
mod pairs;
mod rates;
mod ratios;

use crate::cache::{Cache, Room};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use pairs::Pairs;
use workload::trace::PAIR_BYTES;

/// The suite's name.
pub(crate) const NAME: &str = "cache";
/// Keys that come again and again, by default.
pub(crate) const PAIRS: u64 = 500_000;

/// One round of one cache.
pub(crate) fn round<C: Cache>(
    name: &str,
    open: &impl Fn(Room) -> Result<C>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let pairs = Pairs::new(setting.seed);
    let trial = Trial { name, setting, pairs: &pairs };
    let mut rows = Vec::new();
    if setting.threads == 1 {
        // Before anything else leaves memory behind.
        rows.extend(trial.memory(open)?);
        rows.extend(trial.ratios(open)?);
    }
    rows.extend(trial.rates(open)?);
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
