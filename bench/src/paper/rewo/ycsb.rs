//! Figures 13, 14 and 15: YCSB C, B and A at a load factor of 0.6.
//!
//! A table is loaded and then goes through the workloads. The first slice of each is off the clock; for the others it
//! takes turns with the other tables. All slices have the same popular keys, but other requests.

use super::NAME;
use super::entrant::{CCEH, EIGHTH, Kind, UNCACHED, WHOLE, lineup};
use super::search::WARM_UPS_PER_PAIR;
use crate::filling::explained;
use crate::paper::Scene;
use crate::paper::lineup::Entrant;
use crate::paper::mixed::parts;
use crate::paper::turns::{OPS_PART, Turns};
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::ycsb::{Phases, mix_of};
use anyhow::{Context, Result};
use engines::rewo::Cached;
use workload::Part;
use workload::operations::{Mix, Ycsb};
use workload::ranks::Distribution;

/// Load factor to which tables are loaded.
const LOAD_FACTOR: f64 = 0.6;
/// Slices of a workload. The first is off the clock.
const SLICES: usize = 5;
/// Workloads in order; the one that only reads comes first.
const WORKLOADS: [(&str, Ycsb); 3] = [("c", Ycsb::C), ("b", Ycsb::B), ("a", Ycsb::A)];

/// Figures 13 and 15: beside the other engines.
pub(super) fn beside_others(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let zipf = Distribution::Zipfian { theta: setting.skew };
    rows("ycsb", "", &lineup(setting.threads), zipf, scene, setting)
}

/// Figure 14: by the size of the cached table.
pub(super) fn by_cache_size(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let [quarter, half] = [2, 1].map(|log2| Kind::Rewo(Cached::SmallerLog2(log2)));
    let kinds = [UNCACHED, EIGHTH, quarter, half, WHOLE, Kind::Beside(CCEH)];
    let zipf = Distribution::Zipfian { theta: setting.skew };
    let mut all = rows("cached", "_zipf", &kinds, zipf, scene, setting)?;
    all.extend(rows("cached", "_uniform", &kinds, Distribution::Uniform, scene, setting)?);
    Ok(all)
}

fn rows(
    prefix: &str,
    suffix: &str,
    kinds: &[Kind],
    law: Distribution,
    scene: &Scene,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut entrants: Vec<Entrant> =
        kinds.iter().map(|&kind| kind.entrant(scene, setting)).collect::<Result<_>>()?;
    entrants.iter_mut().for_each(|entrant| entrant.pairs = entrant.pairs_at(LOAD_FACTOR));
    let settings: Vec<Setting> = entrants
        .iter()
        .map(|entrant| Setting { pairs: entrant.pairs, ..setting.clone() })
        .collect();
    let mut phases: Vec<Phases<_>> = entrants
        .iter()
        .zip(&settings)
        .map(|(entrant, setting)| Phases::new(&entrant.map, setting))
        .collect();
    let run = |phases: &mut Phases<_>, op: &str, mix: &Mix, parts: Vec<(Part, u64)>| {
        let done = phases.run(op, mix, setting.seed, parts);
        explained(phases.map, setting, done)
    };
    for (phases, setting) in phases.iter_mut().zip(&settings) {
        run(phases, "load", &Mix::load(), parts(0, 1, setting.pairs, setting.threads))?;
    }
    let ops = (setting.ops / OPS_PART / SLICES as u64).max(setting.threads as u64);
    let mut rows = Vec::new();
    for (workload_number, (letter, workload)) in WORKLOADS.into_iter().enumerate() {
        let op = format!("{prefix}_{letter}{suffix}");
        let mix = mix_of(workload, law, law)?;
        if workload_number == 0 {
            // A cached table drops what the loading left in it as slowly as unpopular pairs come by.
            for (which, entrant) in entrants.iter().enumerate().filter(|(_, one)| one.is_cached()) {
                let ops = entrant.pairs * WARM_UPS_PER_PAIR;
                run(&mut phases[which], "warm_up", &mix, parts(0, 1, ops, setting.threads))?;
            }
        }
        let mut turns = vec![Turns::default(); entrants.len()];
        for slice in 0..SLICES {
            for turn in 0..entrants.len() {
                let which = (slice + turn) % entrants.len();
                let drawn = workload_number * SLICES + slice;
                let parts = parts(drawn, SLICES * WORKLOADS.len(), ops, setting.threads);
                let done = run(&mut phases[which], &op, &mix, parts)
                    .with_context(|| entrants[which].name.clone())?;
                if slice > 0 {
                    turns[which].add(done.count, done.timing);
                }
            }
        }
        let rows_of = entrants.iter().zip(&turns);
        rows.extend(rows_of.map(|(entrant, turns)| turns.on(entrant.row(NAME, &op, 0, setting))));
    }
    Ok(rows)
}
