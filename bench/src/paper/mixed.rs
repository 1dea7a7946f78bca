//! Mixed workloads: tables that take turns, or one after another.

use super::lineup::Entrant;
use crate::filling::explained;
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::ycsb::Phases;
use anyhow::{Context, Result};
use workload::Part;
use workload::operations::Mix;

/// A part for each thread, and how many of a slice's operations it does. Each of `of` slices draws from separate parts.
pub(crate) fn parts(slice: usize, of: usize, ops: u64, threads: usize) -> Vec<(Part, u64)> {
    let share = |part: Part| {
        let range = part.range(ops);
        range.end - range.start
    };
    let drawn = Part::all(threads * of).skip(slice * threads);
    drawn.zip(Part::all(threads).map(share)).collect()
}

/// Loads a table with `loaded` pairs, and does `ops` operations of a mix on it. Rows: `load`, if it is to be told, and
/// the mix under its name.
pub(crate) fn load_and_run(
    paper: &'static str,
    entrant: &mut Entrant,
    (op, mix): (&str, &Mix),
    loaded: u64,
    ops: u64,
    setting: &Setting,
) -> Result<[Row; 2]> {
    let setting = Setting { pairs: loaded, ..setting.clone() };
    let threads = setting.threads;
    let mut phases: Phases<Box<dyn Map>> = Phases::new(&entrant.map, &setting);
    let mut times = Vec::new();
    for (name, mix, count) in [("load", &Mix::load(), loaded), (op, mix, ops)] {
        let done = phases.run(name, mix, setting.seed, parts(0, 1, count, threads));
        let done = explained(&entrant.map, &setting, done).with_context(|| entrant.name.clone())?;
        times.push((done.count, done.timing, phases.pairs()));
    }
    let row = |op: &str, (count, timing, pairs): &(usize, crate::crew::Timing, u64)| {
        entrant.pairs = *pairs;
        let row = Row { cpu_share: timing.cpu_share, ..entrant.row(paper, op, 0, &setting) };
        let row = Row { took_s: Some(timing.elapsed_s), ..row };
        row.with_rate(*count as f64 / timing.elapsed_s, None)
    };
    let mut row = row;
    let load = row(&format!("load_{op}"), &times[0]);
    let run = row(op, &times[1]);
    Ok([load, run])
}
