//! Figures 4 and 5, tables 2 and 5: tables that begin small and grow.

use super::NAME;
use crate::filling::explained;
use crate::keys::{Keys, Writer};
use crate::latencies::{self, Latencies};
use crate::paper::Scene;
use crate::paper::lineup::Entrant;
use crate::paper::mixed::load_and_run;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result};
use quanta::Clock;
use workload::operations::{Mix, Ycsb};

/// Tables begin with room for this part of what is loaded, so they resize twice.
const BEGIN_PART: u64 = 4;
/// Operations of each workload, in units of what is loaded: of the paper's 2, 20 and 1. B takes a tenth.
const WORKLOADS: [(&str, Ycsb, u64); 3] = [("a", Ycsb::A, 2), ("b", Ycsb::B, 2), ("c", Ycsb::C, 1)];
/// Slices of insertions and searches by turns.
const SLICES: usize = 16;

fn begin(scene: &Scene, name: &str, setting: &Setting) -> Result<Option<Entrant>> {
    let small = Setting { capacity: setting.pairs / BEGIN_PART, grows: true, ..setting.clone() };
    if !scene.has(name, &small) {
        return Ok(None);
    }
    let map = scene.open(name, &small)?;
    Entrant::new(name, (map, None), Some(setting.pairs), setting.seed).map(Some)
}

pub(super) fn ycsb(scene: &Scene, setting: &Setting, names: &[&str]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (letter, workload, times) in WORKLOADS {
        (scene.tell)(&format!("{NAME}, {}, YCSB {letter}", setting.medium));
        let mix = Mix::iceberg_ycsb(workload).context("a workload that the paper leaves out")?;
        for name in names {
            let Some(mut entrant) = begin(scene, name, setting)? else { continue };
            let ops = setting.pairs * times;
            let [load, run] =
                load_and_run(NAME, &mut entrant, (letter, &mix), setting.pairs, ops, setting)?;
            if workload == Ycsb::A {
                let level_pairs = entrant.map.facts().map(|facts| facts.level_pairs);
                rows.push(Row { op: load.op.replacen("load_a", "load", 1), ..load });
                rows.push(Row { level_pairs, ..run });
            } else {
                rows.push(run);
            }
        }
    }
    Ok(rows)
}

/// Half of the pairs are there; the others are inserted, and as many looked up, all on the clock.
pub(super) fn latencies(scene: &Scene, setting: &Setting, names: &[&str]) -> Result<Vec<Row>> {
    let clock = Clock::new();
    let mut rows = Vec::new();
    for name in names {
        (scene.tell)(&format!("{NAME}, {}, latencies of {name}", setting.medium));
        let Some(mut entrant) = begin(scene, name, setting)? else { continue };
        let half = setting.pairs / 2;
        entrant.fill(half, setting)?;
        let order = Keys::new(setting.seed, half.max(1)).order(1);
        let [mut inserts, mut gets] = [Latencies::new()?, Latencies::new()?];
        for slice in 0..SLICES as u64 {
            let numbers = half * slice / SLICES as u64..half * (slice + 1) / SLICES as u64;
            let map = &*entrant.map;
            let new: Vec<u64> =
                numbers.clone().map(|number| entrant.keys.key(half + number)).collect();
            let old: Vec<u64> =
                numbers.map(|number| entrant.keys.key(order.apply(number))).collect();
            let inserted =
                latencies::measure::<1>("a_insert", &new, setting.threads, &clock, |key| {
                    map.insert(key, Writer::Insert.value(key))
                });
            let (inserted, _) = explained(&entrant.map, setting, inserted)?;
            inserts.merge(&inserted)?;
            let found = latencies::measure::<1>("a_get", &old, setting.threads, &clock, |key| {
                map.get(key) == Some(Writer::Insert.value(key))
            });
            let (found, _) = explained(&entrant.map, setting, found)?;
            gets.merge(&found)?;
        }
        entrant.pairs = 2 * half;
        rows.push(inserts.on(entrant.row(NAME, "a_insert", 0, setting)));
        rows.push(gets.on(entrant.row(NAME, "a_get", 0, setting)));
    }
    Ok(rows)
}
