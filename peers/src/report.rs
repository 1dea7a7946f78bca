//! Medians, as a table for people and as rows for programs.

use crate::worker::{CEILING, Job, Outcome, Rate};
use peers::CONTENDERS;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What was measured of one operation of one contender.
struct Row {
    op: String,
    contender: String,
    threads: usize,
    batch: usize,
    ops_per_s: Vec<f64>,
    cpu_share: Vec<f64>,
    bytes_per_pair: Vec<f64>,
    huge_pages: Vec<f64>,
}

pub(crate) struct Report {
    machine: String,
    pairs: u64,
    ops: u64,
    rows: Vec<Row>,
}

/// Share of a map's memory on large pages below which its rows do not compare.
const HUGE_PAGES_MIN: f64 = 0.9;

/// The middle one; of an even number the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    (sorted[(sorted.len() - 1) / 2] + sorted[upper]) / 2.0
}

/// Largest minus smallest, as a part of the median.
fn spread(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::MIN, f64::max);
    let smallest = values.iter().copied().fold(f64::MAX, f64::min);
    (largest - smallest) / median(values)
}

impl Report {
    pub(crate) fn new(machine: String, pairs: u64, ops: u64) -> Self {
        Report { machine, pairs, ops, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, contender: &str, job: &Job, outcome: &Outcome) {
        for Rate { op, ops_per_s, cpu_share } in &outcome.rates {
            let same = |row: &&mut Row| {
                (&row.op, row.contender.as_str(), row.threads, row.batch)
                    == (op, contender, job.threads, job.batch)
            };
            let row = match self.rows.iter_mut().find(same) {
                Some(row) => row,
                None => {
                    self.rows.push(Row {
                        op: op.clone(),
                        contender: contender.to_owned(),
                        threads: job.threads,
                        batch: job.batch,
                        ops_per_s: Vec::new(),
                        cpu_share: Vec::new(),
                        bytes_per_pair: Vec::new(),
                        huge_pages: Vec::new(),
                    });
                    let last = self.rows.len() - 1;
                    &mut self.rows[last]
                }
            };
            row.ops_per_s.push(*ops_per_s);
            row.cpu_share.extend(cpu_share);
            row.bytes_per_pair.push(outcome.bytes_per_pair);
            row.huge_pages.push(outcome.huge_pages);
        }
    }

    /// Lines per second that independent reads reach with so many threads.
    fn lines_per_s(&self, threads: usize) -> Option<f64> {
        let is_it = |row: &&Row| {
            row.contender == CEILING && row.op == "read_line" && row.threads == threads
        };
        self.rows.iter().find(is_it).map(|row| median(&row.ops_per_s))
    }

    pub(crate) fn rows(&self) -> Vec<Value> {
        let row = |row: &Row| {
            let ops_per_s = median(&row.ops_per_s);
            let version = CONTENDERS.iter().find(|c| c.name == row.contender).map(|c| c.version);
            json!({
                "suite": "peers",
                "op": row.op,
                "contender": row.contender,
                "version": version,
                "medium": "dram",
                "threads": row.threads,
                "batch": row.batch,
                "pairs": self.pairs,
                "ops": self.ops,
                "ops_per_s": ops_per_s.round(),
                "spread": spread(&row.ops_per_s),
                "cpu_share": (!row.cpu_share.is_empty()).then(|| median(&row.cpu_share)),
                "runs": row.ops_per_s.len(),
                "lines_ratio": self.lines_per_s(row.threads).map(|lines| ops_per_s / lines),
                "bytes_per_pair": median(&row.bytes_per_pair),
                "huge_pages": median(&row.huge_pages),
                "machine": self.machine,
            })
        };
        self.rows.iter().map(row).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut names = vec![CEILING];
        names.extend(CONTENDERS.iter().map(|contender| contender.name));
        names.retain(|name| self.rows.iter().any(|row| row.contender == *name));
        let mut tables: BTreeMap<usize, Vec<(&str, usize)>> = BTreeMap::new();
        for row in &self.rows {
            let ops = tables.entry(row.threads).or_default();
            if !ops.contains(&(row.op.as_str(), row.batch)) {
                ops.push((&row.op, row.batch));
            }
        }
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            for (place, cell) in cells.enumerate() {
                // Writing to a string cannot fail.
                let _ = if place == 0 {
                    write!(text, "{cell:<20}")
                } else {
                    write!(text, "{cell:>17}")
                };
            }
            text.push('\n');
        };
        for (threads, ops) in &mut tables {
            ops.sort_by_key(|(op, batch)| (*batch, !op.starts_with("read_line")));
            line(&mut std::iter::once(String::new()));
            let heading = format!(
                "{} pairs, {threads} {}: million operations a second, all threads together \
                 (spread of the rounds)",
                self.pairs,
                if *threads == 1 { "thread" } else { "threads" }
            );
            line(&mut std::iter::once(heading));
            let heads = names.iter().map(|name| (*name).to_owned());
            line(&mut std::iter::once(String::new()).chain(heads));
            let of = |name: &str| {
                self.rows.iter().find(|row| row.contender == name && row.threads == *threads)
            };
            for (op, batch) in ops.iter() {
                let label = if *batch == 1 { (*op).to_owned() } else { format!("{op} /{batch}") };
                let cells = names.iter().map(|name| {
                    let is_it = |row: &&Row| {
                        (row.op.as_str(), row.contender.as_str(), row.threads, row.batch)
                            == (op, name, *threads, *batch)
                    };
                    self.rows.iter().find(is_it).map_or_else(String::new, |row| {
                        let millions = median(&row.ops_per_s) / 1e6;
                        format!("{millions:.2} ({:.0} %)", spread(&row.ops_per_s) * 100.0)
                    })
                });
                line(&mut std::iter::once(label).chain(cells));
            }
            let shares = names.iter().map(|name| {
                let least = self.rows.iter().filter(|row| row.contender == *name);
                let least = least.filter(|row| row.threads == *threads);
                let least =
                    least.flat_map(|row| row.cpu_share.iter().copied()).min_by(f64::total_cmp);
                least.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0))
            });
            line(&mut std::iter::once("on a cpu, at least".to_owned()).chain(shares));
            let bytes = names.iter().map(|name| {
                of(name)
                    .map_or_else(String::new, |row| format!("{:.1}", median(&row.bytes_per_pair)))
            });
            line(&mut std::iter::once("bytes a pair".to_owned()).chain(bytes));
            let pages = names.iter().map(|name| {
                of(name).map_or_else(String::new, |row| {
                    let share = median(&row.huge_pages);
                    let mark = if share < HUGE_PAGES_MIN { "!" } else { "" };
                    format!("{:.0} %{mark}", share * 100.0)
                })
            });
            line(&mut std::iter::once("on 2 MiB pages".to_owned()).chain(pages));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_the_median_and_the_spread_of_their_runs() {
        let job = Job { pairs: 10, ops: 5, threads: 2, batch: 1, seed: 0 };
        let mut report = Report::new("a machine".into(), 10, 5);
        for rate in [1e6, 4e6, 2e6] {
            for (contender, op) in [(CEILING, "read_line"), ("firndex", "get_hit")] {
                let rates = vec![Rate { op: op.into(), ops_per_s: rate, cpu_share: None }];
                let outcome = Outcome { rates, bytes_per_pair: 20.0, huge_pages: 1.0 };
                report.add(contender, &job, &outcome);
            }
        }
        let rows = report.rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1]["ops_per_s"], 2e6);
        assert_eq!(rows[1]["spread"], 1.5);
        assert_eq!(rows[1]["lines_ratio"], 1.0);
        assert!(report.table().contains("2.00 (150 %)"), "{}", report.table());
    }
}
