//! The Rewo-Hash paper's own measurements: [`engines::rewo`] beside the other engines, on anonymous memory and on
//! medium `optane`, which is a model of Optane modules ([`pmem::medium::Latency::OPTANE`]).
//!
//! `rewo-c8` is Rewo-Hash with a cached table of an eighth of the table in the pool, as in the paper; `rewo-c4`,
//! `rewo-c2` and `rewo-c1` have a larger one, `rewo-c0` has none. `level-paper` is the table with which the paper
//! compares, without fingerprints in DRAM. Keys and values are words.
//!
//! Without flushes:
//!
//! * `get_hit_zipf`, `get_hit_uniform`, `get_miss` (figures 10 and 11, table 5): mean and percentiles of a search at
//!   load factors 0.2 to 0.8. Contender `rewo-full` has every pair in its cached table.
//! * `open`, `refill` (section 3.7): opening a table again, and filling its cached table.
//! * On medium `count`, `insert`, `update`, `remove`, `get_hit`, `get_miss`, `double`: lines, blocks, flushes and
//!   fences.
//! * `full`: the load factor at which a table refuses a pair, by how many items an insertion may move.
//!
//! With flushes:
//!
//! * `insert`, `update`, `remove` (figure 12, table 6) at load factors 0.2 and 0.8.
//! * `ycsb_a`, `ycsb_b`, `ycsb_c` (figures 13 and 15).
//! * `cached_a_zipf` to `cached_c_uniform` (figure 14): the same by the size of the cached table, on `optane`.
//! * `double` (figure 16a): doubling a table at a load factor of 0.8; `during_reads`, `during_updates` (figure 16b):
//!   operations of another thread meanwhile.
//!
//! Contenders take turns with slices of the same operations. Searches, changes, YCSB and `open` use as many threads
//! as are asked for; the rest is measured in the round with one thread only.

mod bands;
mod compare;
mod counted;
mod doubling;
mod entrant;
mod full;
mod recovery;
mod search;
mod writes;
mod ycsb;

use super::paper::Paper;
use crate::choices::Suite;
use crate::medium::Medium;
use crate::pool::{delayed_memory, flushed_memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

/// The suite.
pub const PAPER: Paper = Paper {
    suite: Suite::Rewo,
    name: Engine::Rewo.name(),
    // Seven tables at once, one of which has a cached table of the same size, and the keys that warm these up.
    bytes_per_pair: 300,
    media: &[Medium::Dram, Medium::Optane],
    pairs: None,
    round,
    claims: |_| Vec::new(),
};

fn round(_: &str, setting: &Setting) -> Result<Vec<Row>> {
    if setting.medium == Medium::Optane {
        return on_medium(setting, &|| delayed_memory(setting.medium, setting.flushes));
    }
    let mut rows = on_medium(setting, &|| flushed_memory(setting.flushes))?;
    if setting.threads == 1 && !setting.flushes {
        rows.extend(counted::rows(setting)?);
        rows.extend(full::rows(setting)?);
    }
    Ok(rows)
}

/// What is measured on both media.
fn on_medium<M: pmem::Medium>(
    setting: &Setting,
    memory: &dyn Fn() -> Result<M>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if setting.flushes {
        rows.extend(writes::rows(setting, memory)?);
        rows.extend(ycsb::beside_others(setting, memory)?);
        if setting.threads == 1 {
            if setting.medium == Medium::Optane {
                rows.extend(ycsb::by_cache_size(setting, memory)?);
            }
            rows.extend(doubling::rows(setting, memory)?);
        }
    } else {
        rows.extend(search::rows(setting, memory)?);
        rows.extend(recovery::rows(setting, memory)?);
    }
    Ok(rows)
}
