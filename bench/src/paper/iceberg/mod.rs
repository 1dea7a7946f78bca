//! The IcebergHT paper's own measurements: [`engines::iceberg`] beside Dash-EH and CLHT in the model of persistent
//! memory, and beside CLHT, and libcuckoo and TBB if other authors' maps were asked for, in DRAM.
//!
//! * `insert`, `get_hit`, `get_miss`, `remove` (figures 1, 3 and 5): a table is filled from empty to 0.95 of its slots,
//!   then searched, then emptied to a half. `space` (table 3): its bytes then.
//! * `load`, `a`, `b`, `c` (figures 4 and 5): YCSB as the paper reads it, on tables that begin with room for a quarter.
//! * `a_insert`, `a_get` (tables 2 and 5): latencies of insertions and searches by turns while tables grow.
//! * `fill` (figure 6): insertions and bytes at rising load factors.
//! * `levels`, `levels_loaded` (table 4), `insert` of `64-8` and so on (table 6): pairs by level, and speed by the
//!   sizes of blocks.
//! * `open` (section 6): reading a table again. Counts of lines (section 6), on medium `count`.

mod claims;
mod grown;
mod recovery;
mod sized;
mod yards;

use super::{Paper, Part, Scene, costs};
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use firndex::Engine;

const ENGINE: Engine = Engine::Iceberg;
/// Its rows are of this suite.
const NAME: &str = ENGINE.name();
const DASH: &str = "dash-eh";
const CLHT: &str = "clht";
const LIBCUCKOO: &str = "libcuckoo";
const TBB: &str = "tbb";
/// What is compared on persistent memory, and in DRAM.
const ON_PMEM: [&str; 3] = [NAME, DASH, CLHT];
const IN_DRAM: [&str; 4] = [NAME, CLHT, LIBCUCKOO, TBB];

/// The load factor of most measurements.
const LOAD_FACTOR: f64 = 0.95;

/// The paper.
pub const PAPER: Paper = Paper {
    name: NAME,
    title: "IcebergHT: High Performance Hash Tables Through Stability and Low Associativity",
    by: "Pandey, Bender, Conway, Farach-Colton, Kuszmaul, Tagliavini, Johnson; SIGMOD 2023",
    pairs: 1 << 26,
    ops: 1 << 26,
    figures: 6,
    tables: 6,
    explaining: &["figure 2", "table 1"],
    how: "Pairs of words. Persistent memory is medium `optane`, a model of six Optane modules. The paper has 16 threads; \
          here there are as many as processors. All tables are sized for the pairs that fill IcebergHT to 0.95; CLHT \
          rounds its buckets up, and is emptier. Workload B has a tenth of the paper's operations.",
    parts: &[
        Part { places: &["figure 1", "figure 3", "table 3"], run: on_pmem },
        Part { places: &["figure 4"], run: ycsb_on_pmem },
        Part { places: &["table 2"], run: latencies_on_pmem },
        Part { places: &["figure 5"], run: in_dram },
        Part { places: &["table 5"], run: latencies_in_dram },
        Part { places: &["figure 6"], run: sized::filled },
        Part { places: &["table 4", "table 6"], run: yards::rows },
        Part { places: &["section 6", "section 9"], run: counts },
    ],
    claims: claims::claims,
};

fn all_threads(scene: &Scene, medium: Medium, flushes: bool) -> Setting {
    Setting { threads: scene.threads_max.max(2), ..scene.on(medium, flushes) }
}

fn on_pmem(scene: &Scene) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for threads in scene.threads() {
        let setting = Setting { threads, ..scene.on(Medium::Optane, true) };
        rows.extend(sized::rows(scene, &setting, &ON_PMEM)?);
    }
    Ok(rows)
}

fn ycsb_on_pmem(scene: &Scene) -> Result<Vec<Row>> {
    grown::ycsb(scene, &all_threads(scene, Medium::Optane, true), &ON_PMEM)
}

fn latencies_on_pmem(scene: &Scene) -> Result<Vec<Row>> {
    grown::latencies(scene, &all_threads(scene, Medium::Optane, true), &ON_PMEM)
}

fn in_dram(scene: &Scene) -> Result<Vec<Row>> {
    let setting = all_threads(scene, Medium::Dram, false);
    let mut rows = sized::rows(scene, &setting, &IN_DRAM)?;
    rows.extend(grown::ycsb(scene, &setting, &IN_DRAM)?);
    Ok(rows)
}

fn latencies_in_dram(scene: &Scene) -> Result<Vec<Row>> {
    grown::latencies(scene, &all_threads(scene, Medium::Dram, false), &IN_DRAM)
}

fn counts(scene: &Scene) -> Result<Vec<Row>> {
    let setting = scene.counting();
    let entrants = scene.lineup(&ON_PMEM, &setting, setting.pairs)?;
    let mut rows = costs::rows(NAME, entrants, &setting)?;
    rows.extend(recovery::rows(scene)?);
    Ok(rows)
}
