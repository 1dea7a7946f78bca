//! Figures 16 and 17: searches and insertions in five proportions, of which three are repeated.
//!
//! A table that is loaded to a load factor of 0.4 gets half as many operations as it has slots. Its searches are
//! zipfian. Figure 17 has several threads, and libcuckoo, if other authors' maps were asked for.

use super::latencies::lineup;
use super::{LINEUP, NAME};
use crate::medium::Medium;
use crate::paper::Scene;
use crate::paper::level::contender::LEVEL_PAPER;
use crate::paper::mixed::load_and_run;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::Result;
use workload::operations::Mix;

/// Percentages of insertions.
pub(super) const INSERTIONS: [u32; 3] = [10, 50, 90];
const LOADED: f64 = 0.4;
const OPS: f64 = 0.5;
/// Tables are this part of those of other figures: each operation is counted once, not in a series.
const PAIRS_PART: u64 = 2;

/// The map with which figure 17 compares.
pub(super) const LIBCUCKOO: &str = "libcuckoo";

/// Figure 16.
pub(super) fn rows(scene: &Scene) -> Result<Vec<Row>> {
    let slow = Medium::Delay { read_ns: 200, write_back_ns: 600 };
    let mut rows = Vec::new();
    for (medium, flushes) in [(Medium::Dram, false), (slow, true)] {
        rows.extend(mixes(scene, &scene.on(medium, flushes), "mix", &LINEUP)?);
    }
    Ok(rows)
}

/// Figure 17.
pub(super) fn concurrent(scene: &Scene) -> Result<Vec<Row>> {
    let setting = Setting { threads: scene.threads_max.max(2), ..scene.setting.clone() };
    mixes(scene, &setting, "concurrent", &[LEVEL_PAPER, super::ENGINE.name(), LIBCUCKOO])
}

fn mixes(scene: &Scene, setting: &Setting, prefix: &str, names: &[&str]) -> Result<Vec<Row>> {
    let setting = Setting { pairs: (setting.pairs / PAIRS_PART).max(1), ..setting.clone() };
    let mut rows = Vec::new();
    for percent in INSERTIONS {
        (scene.tell)(&format!("{NAME}, {}, {percent} % insertions", setting.medium));
        let mix = Mix::searches_and_inserts(f64::from(percent) / 100.0)?;
        let op = format!("{prefix}_{percent}");
        for mut entrant in lineup(scene, &setting, names)? {
            let part = |part: f64| (entrant.capacity as f64 * part) as u64;
            let (loaded, ops) = (part(LOADED).max(1), part(OPS).max(1));
            let [_, row] = load_and_run(NAME, &mut entrant, (&op, &mix), loaded, ops, &setting)?;
            rows.push(row);
        }
    }
    Ok(rows)
}
