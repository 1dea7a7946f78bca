//! The Level hashing paper's own measurements, with its design decisions switched on and off, and beside the tables
//! with which it compares.
//!
//! Of [`engines::level`] itself, on anonymous memory:
//!
//! * `get_hit`, `get_miss` of `level-static` and `level-dynamic` (figure 5): searches in the order of the levels and in
//!   the fuller level first, while a table grows through six expansions; on medium `count` the lines that they read.
//! * `full` (figure 2): the load factor at which a table refuses a pair, with decisions D1 to D4 switched on one after
//!   the other. `maximum` (figure 10): the same of other tables.
//! * `expansion` (figure 4): the load factors at which a table that grows only when it is full expands for the first to
//!   the sixth time, with and without movements from the bottom level to the top one.
//! * `expand_in_place`, `expand_full_rehash` (figure 15a): doubling a table at a load factor of 0.85;
//!   `shrink_in_place`, `shrink_full_rehash` (figure 15b): halving it at 0.3.
//! * `update_durable` (figure 12): updates that use an empty slot if there is one (`level-log-free`), that always write
//!   a log entry (`level-logged`), and of words, in place (`level-in-place`).
//! * `update_log_free` (figure 8b): for how many updates there is an empty slot, counted.
//!
//! Of `level-paper`, which has no fingerprints in DRAM, beside cuckoo hashing, PFHT and path hashing without a log:
//!
//! * `insert`, `update`, `get_hit`, `get_miss`, `remove` (figures 11 to 14) on `dram` and at the paper's latencies.
//! * `mix_10`, `mix_50`, `mix_90` (figure 16): searches with so many percent insertions; `concurrent_10` and so on
//!   (figure 17): the same with several threads, beside libcuckoo if other authors' maps are there.

mod claims;
mod contender;
mod expansion;
mod full;
mod latencies;
mod maxima;
mod mixes;
mod search;
mod shares;
mod table;
mod updates;

use super::{Paper, Part, Scene, costs};
use crate::pool::{flushed_memory, memory};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

pub(crate) use contender::LEVEL_PAPER;
pub use contender::as_in_paper;
pub(crate) use table::open_to_double;

/// The engine that the paper is about.
pub(crate) const ENGINE: Engine = Engine::Level;
/// Its rows are of this suite.
const NAME: &str = ENGINE.name();

/// Cuckoo hashing, PFHT and path hashing without a log.
const BCH: &str = "cuckoo-2-4-unlogged";
const PFHT: &str = "pfht-paper-4-unlogged";
/// Slots of a bucket of PFHT (section 5.2.1).
const PFHT_SLOTS: u64 = 4;
const PATH: &str = "path-unlogged";
/// What figures 11 to 16 compare.
const LINEUP: [&str; 4] = [LEVEL_PAPER, BCH, PFHT, PATH];

/// The paper.
pub const PAPER: Paper = Paper {
    name: NAME,
    title: "Level Hashing: A High-performance and Flexible-resizing Persistent Hashing Index Structure",
    by: "Zuo, Hua, Wu; ACM Transactions on Storage 15(2)",
    pairs: 100_000_000,
    ops: 100_000_000,
    figures: 17,
    tables: 1,
    explaining: &["figure 1", "figure 3", "figure 6", "figure 7", "figure 9", "table 1"],
    how: "Pairs of words (16 and 15 bytes in figures 8b and 12). `level-paper` has no fingerprints in DRAM, which our \
          engine has. Cuckoo hashing, PFHT and path hashing write without a log, as the paper's do. They have \
          the same slots. On slow media tables are a third of the size.",
    parts: &[
        Part { places: &["figure 2", "figure 4"], run: |scene| full::rows(NAME, &scene.setting) },
        Part { places: &["figure 5"], run: searches },
        Part { places: &["figure 8"], run: |scene| shares::rows(NAME, &scene.setting) },
        Part { places: &["figure 10"], run: |scene| maxima::rows(&scene.setting) },
        Part {
            places: &["figure 11", "figure 12", "figure 13", "figure 14"],
            run: latencies::rows,
        },
        Part { places: &["figure 12"], run: updates_of_own },
        Part {
            places: &["figure 11", "figure 12", "figure 13", "figure 14", "figure 16"],
            run: counts,
        },
        Part { places: &["figure 15"], run: expansions },
        Part { places: &["figure 16"], run: mixes::rows },
        Part { places: &["figure 17"], run: mixes::concurrent },
    ],
    claims: claims::claims,
};

fn searches(scene: &Scene) -> Result<Vec<Row>> {
    (scene.tell)("level, figure 5");
    let mut rows = search::timed(NAME, &scene.setting)?;
    rows.extend(search::counted(NAME, &scene.setting)?);
    Ok(rows)
}

fn updates_of_own(scene: &Scene) -> Result<Vec<Row>> {
    (scene.tell)("level, figure 12");
    updates::rows(NAME, &Setting { flushes: true, ..scene.setting.clone() })
}

/// What figures 11 to 16 follow from.
fn counts(scene: &Scene) -> Result<Vec<Row>> {
    let setting = scene.counting();
    costs::rows(NAME, latencies::lineup(scene, &setting, &LINEUP)?, &setting)
}

fn expansions(scene: &Scene) -> Result<Vec<Row>> {
    (scene.tell)("level, figure 15");
    let mut rows = expansion::rows(NAME, &scene.setting, memory)?;
    let setting = Setting { flushes: true, ..scene.setting.clone() };
    rows.extend(expansion::rows(NAME, &setting, || flushed_memory(true))?);
    Ok(rows)
}
