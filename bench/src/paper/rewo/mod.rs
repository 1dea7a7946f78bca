//! The Rewo-Hash paper's own measurements: [`engines::rewo`] beside the other engines and the tables with which the
//! paper compares it, on anonymous memory and on medium `optane`, which is a model of Optane modules
//! ([`pmem::medium::Latency::OPTANE`]).
//!
//! `rewo-c8` is Rewo-Hash with a cached table of an eighth of the table in the pool, as in the paper; `rewo-c4`,
//! `rewo-c2` and `rewo-c1` have a larger one, `rewo-c0` has none. `level-paper` is Level hashing without fingerprints
//! in DRAM. `pfht-paper-unlogged` and `path-unlogged` insert and delete without a log, as the paper's do. Keys and
//! values are words.
//!
//! Without flushes:
//!
//! * `get_hit_zipf`, `get_hit_uniform`, `get_miss` (figures 10 and 11, table 5): mean and percentiles of a search at
//!   load factors 0.2 to 0.8. Contender `rewo-full` has every pair in its cached table.
//! * `open`, `refill` (section 3.7): opening a table again, and filling its cached table.
//! * On medium `count`, `insert`, `update`, `remove`, `get_hit`, `get_miss`, `double`: lines, blocks, flushes and
//!   fences; `served` (table 2): the part of zipfian searches that a cached table answers.
//! * `full`: the load factor at which a table refuses a pair, by how many items an insertion may move.
//!
//! With flushes:
//!
//! * `insert`, `update`, `remove` (figure 12, table 6) at load factors 0.2 and 0.8.
//! * `ycsb_a`, `ycsb_b`, `ycsb_c` (figures 13 and 15).
//! * `cached_a_zipf` to `cached_c_uniform` (figure 14): the same by the size of the cached table, on `optane`.
//! * `double` (figure 16a): doubling a table at a load factor of 0.8; `during_reads`, `during_updates` (figure 16b):
//!   operations of another thread meanwhile.

mod bands;
mod claims;
mod counted;
mod doubling;
mod entrant;
mod full;
mod recovery;
mod search;
mod served;
mod writes;
mod ycsb;

use super::{Paper, Part, Scene, costs};
use crate::medium::Medium;
use crate::pool::{delayed_memory, flushed_memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use entrant::lineup;
use firndex::Engine;

/// Its rows are of this suite.
const NAME: &str = Engine::Rewo.name();

/// The paper.
pub const PAPER: Paper = Paper {
    name: NAME,
    title: "A Read-Efficient and Write-Optimized Hash Table for Intel Optane DC Persistent Memory",
    by: "Li, Huang",
    pairs: 40_000_000,
    ops: 40_000_000,
    figures: 16,
    tables: 6,
    explaining: &[
        "figure 1", "figure 4", "figure 5", "figure 6", "figure 7", "figure 8", "figure 9",
        "table 1", "table 3", "table 4",
    ],
    how: "Pairs of words; medium `optane` is a model of six Optane modules. `rewo-c8` has a cached table of an eighth, \
          `rewo-c0` none, `rewo-c1` one as large as the table. `level-paper` is Level hashing without our fingerprints \
          in DRAM. PFHT and path hashing insert and delete without a log, as the paper's do.",
    parts: &[
        Part { places: &["figure 10", "figure 11", "table 5"], run: searches },
        Part { places: &["figure 12", "table 6"], run: changes },
        Part { places: &["figure 13"], run: one_thread },
        Part { places: &["figure 14"], run: by_cache_size },
        Part { places: &["figure 15"], run: all_threads },
        Part { places: &["figure 16"], run: doublings },
        Part {
            places: &[
                "figure 10",
                "figure 11",
                "figure 12",
                "section 3.4",
                "section 5.1",
                "section 5.2",
            ],
            run: counts,
        },
        Part { places: &["section 3.7"], run: recoveries },
        Part { places: &["table 2"], run: served },
    ],
    claims: claims::claims,
};

const MEDIA: [Medium; 2] = [Medium::Dram, Medium::Optane];

/// On both media, with real flushes or without, with so many threads.
fn on_both(
    scene: &Scene,
    flushes: bool,
    threads: usize,
    rows: fn(&Scene, &Setting) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for medium in MEDIA {
        (scene.tell)(&format!("{NAME}, {medium}, {threads} threads"));
        let setting = Setting { threads, ..scene.on(medium, flushes) };
        all.extend(rows(scene, &setting)?);
    }
    Ok(all)
}

fn searches(scene: &Scene) -> Result<Vec<Row>> {
    on_both(scene, false, 1, search::rows)
}

fn changes(scene: &Scene) -> Result<Vec<Row>> {
    on_both(scene, true, 1, writes::rows)
}

fn one_thread(scene: &Scene) -> Result<Vec<Row>> {
    on_both(scene, true, 1, ycsb::beside_others)
}

/// With one thread it is figure 13.
fn all_threads(scene: &Scene) -> Result<Vec<Row>> {
    on_both(scene, true, scene.threads_max.max(2), ycsb::beside_others)
}

fn by_cache_size(scene: &Scene) -> Result<Vec<Row>> {
    ycsb::by_cache_size(scene, &scene.on(Medium::Optane, true))
}

fn doublings(scene: &Scene) -> Result<Vec<Row>> {
    doubling::rows(scene, &scene.on(Medium::Optane, true))
}

fn counts(scene: &Scene) -> Result<Vec<Row>> {
    let mut rows = counted::rows(&scene.setting)?;
    rows.extend(full::rows(&scene.setting)?);
    let setting = scene.counting();
    let entrants = lineup(1).into_iter().map(|kind| kind.entrant(scene, &setting));
    rows.extend(costs::rows(NAME, entrants.collect::<Result<_>>()?, &setting)?);
    Ok(rows)
}

fn recoveries(scene: &Scene) -> Result<Vec<Row>> {
    let mut rows = recovery::rows(&scene.setting, &|| flushed_memory(false))?;
    let setting = scene.on(Medium::Optane, false);
    rows.extend(recovery::rows(&setting, &|| delayed_memory(Medium::Optane, false))?);
    Ok(rows)
}

fn served(scene: &Scene) -> Result<Vec<Row>> {
    served::rows(&scene.setting)
}
