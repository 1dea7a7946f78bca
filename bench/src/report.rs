//! Rows for the terminal and for programs.

use crate::machine::Machine;
use crate::row::Row;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Prints a table to `out`.
pub fn text(out: &mut dyn Write, machine: &Machine, rows: &[Row]) -> Result<()> {
    for (name, fact) in machine.lines() {
        writeln!(out, "{name}: {fact}")?;
    }
    let header = format!(
        "{:<11} {:<22} {:<10} {:<8} {:>7} {:>6} {:>11} {:>6} {:>9} {:>7} {:>6}",
        "suite",
        "op",
        "contender",
        "medium",
        "threads",
        "batch",
        "pairs",
        "fill",
        "M ops/s",
        "spread",
        "ratio"
    );
    writeln!(out, "\n{}", header.trim_end())?;
    for row in rows {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let line = format!(
            "{:<11} {:<22} {:<10} {:<8} {:>7} {:>6} {:>11} {:>6} {:>9} {:>7} {:>6}{}",
            row.suite,
            row.op,
            row.contender,
            row.medium.as_deref().unwrap_or(""),
            count(row.threads.map(|threads| threads as u64)),
            count(row.batch.map(|batch| batch as u64)),
            count(row.pairs),
            number(row.load_factor, 3),
            number(row.ops_per_s.map(|rate| rate / 1e6), 2),
            number(row.spread.map(|spread| spread * 100.0), 0)
                + if row.spread.is_some() { "%" } else { "" },
            number(row.ratio, 2),
            further(row),
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What only some rows have.
fn further(row: &Row) -> String {
    let fields = [
        ("p50", row.p50_ns, " ns"),
        ("p99", row.p99_ns, " ns"),
        ("p99.99", row.p9999_ns, " ns"),
        ("max", row.max_ns, " ns"),
    ];
    let said = fields
        .iter()
        .filter_map(|(name, value, unit)| value.map(|value| format!("  {name} {value:.0}{unit}")));
    said.collect()
}

/// Writes one array: a row of suite `machine` with the machine's facts, then all rows.
pub fn json(path: &Path, machine: &Machine, rows: &[Row]) -> Result<()> {
    let mut first = serde_json::to_value(Row::new("machine", "facts", "machine"))?;
    first["machine"] = json!(machine);
    let mut array = vec![first];
    for row in rows {
        array.push(serde_json::to_value(row)?);
    }
    let mut text = serde_json::to_string_pretty(&Value::Array(array))?;
    text.push('\n');
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
