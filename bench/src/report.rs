//! Rows for the terminal and for programs.

use crate::bar::Bar;
use crate::machine::Machine;
use crate::row::Row;
use crate::suite::{cache, durable, open, values};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;

/// A column: its title, and what it says of a row.
type Column = (&'static str, fn(&Row) -> String);

/// All columns that a table may have. A suite's table leaves out those that none of its rows has.
const COLUMNS: &[Column] = &[
    ("op", |row| row.op.clone()),
    ("step", |row| count(row.step.map(u64::from))),
    ("exp.", |row| count(row.expansions.map(u64::from))),
    ("contender", |row| row.contender.clone()),
    ("medium", |row| row.medium.clone().unwrap_or_default()),
    ("thr", |row| count(row.threads.map(|threads| threads as u64))),
    ("value", |row| count(row.value_bytes.map(|bytes| bytes as u64))),
    ("cache", |row| percents(row.cache_percent.map(|percent| f64::from(percent) / 100.0))),
    ("hits", |row| hits(row.hit_ratio)),
    ("batch", |row| count(row.batch.map(|batch| batch as u64))),
    ("pairs", |row| count(row.pairs)),
    ("fill", |row| number(row.load_factor, 3)),
    ("M ops/s", |row| rate(row.ops_per_s)),
    ("spread", spread),
    ("ratio", |row| number(row.ratio, 2)),
    ("CPU", |row| time(row.cpu_ns)),
    ("CPU ratio", |row| number(row.cpu_ratio, 2)),
    ("checkpoints", |row| number(row.checkpoints, 0)),
    ("on CPU", |row| percents(row.cpu_share.filter(|share| *share < CPU_SHARE_EXPECTED))),
    ("mean", |row| time(row.mean_ns)),
    ("took", |row| time(row.took_s.map(|took_s| took_s * 1e9))),
    ("p50", |row| time(row.p50_ns)),
    ("p99", |row| time(row.p99_ns)),
    ("p99.9", |row| time(row.p999_ns)),
    ("p99.99", |row| time(row.p9999_ns)),
    ("max", |row| time(row.max_ns)),
    ("own max", |row| time(row.own_max_ns)),
    ("waits", |row| number(row.waits, 0)),
    ("lines read", |row| number(row.lines_read, 2)),
    ("written", |row| number(row.lines_written, 2)),
    ("blocks", |row| number(row.blocks_written, 2)),
    ("flushes", |row| number(row.flushes, 2)),
    ("fences", |row| number(row.fences, 2)),
    ("amplif.", |row| number(row.write_amplification, 2)),
    ("log-free", |row| percents(row.log_free)),
    ("charged", |row| bytes(row.written_bytes)),
    ("device", |row| bytes(row.device_bytes)),
    ("pool", |row| bytes(row.pool_bytes)),
    ("beside", |row| bytes(row.beside_bytes)),
    ("bytes/pair", |row| number(row.bytes_per_pair, 2)),
    ("beside pair", |row| number(row.beside_bytes_per_pair, 1)),
    ("writes", |row| number(row.writes, 2)),
    ("stashed", |row| number(row.stashed, 4)),
    ("cached", |row| percents(row.from_cache)),
    ("paper", |row| number(row.paper, 2)),
    ("kept", |row| part(row.kept)),
    ("after kill -9", |row| row.after_kill.unwrap_or_default().to_owned()),
    ("after power loss", |row| row.promise.unwrap_or_default().to_owned()),
    ("pairs in levels", |row| levels(row.level_pairs.as_deref())),
];
/// If threads had a processor for less of the time than this, others held them up. Only then is the share worth a
/// column.
const CPU_SHARE_EXPECTED: f64 = 0.9;
/// Columns that are aligned to the left.
const TEXTS: [&str; 4] = ["op", "contender", "medium", "after kill -9"];

/// Prints a table for each suite to `out`.
pub fn text(out: &mut dyn Write, machine: &Machine, rows: &[Row]) -> Result<()> {
    for (name, fact) in machine.lines() {
        writeln!(out, "{name}: {fact}")?;
    }
    for rows_of_suite in rows.chunk_by(|one, next| one.suite == next.suite) {
        let suite = rows_of_suite[0].suite;
        writeln!(out, "\n{suite}")?;
        // A series in time is for charts.
        let (series, rows): (Vec<&Row>, Vec<&Row>) =
            rows_of_suite.iter().partition(|row| row.at_s.is_some());
        table(out, &rows)?;
        if !series.is_empty() {
            writeln!(out, "and {} rows of a timeline (--json, --html)", series.len())?;
        }
        if suite == durable::NAME {
            Bar::print(&durable::claims::bars(rows_of_suite), out)?;
        }
        if suite == open::NAME {
            Bar::print(&open::claims::bars(rows_of_suite), out)?;
        }
        if suite == cache::NAME {
            cache::claims::print(rows_of_suite, out)?;
        }
        if suite == values::NAME {
            values::claims::print(rows_of_suite, out)?;
        }
    }
    Ok(())
}

fn table(out: &mut dyn Write, rows: &[&Row]) -> Result<()> {
    let columns = COLUMNS.iter().filter_map(|(title, cell)| {
        let cells: Vec<String> = rows.iter().map(|row| cell(row)).collect();
        let width = cells.iter().map(String::len).max().filter(|width| *width > 0)?;
        Some((*title, cells, width.max(title.len())))
    });
    let columns: Vec<_> = columns.collect();
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells = columns.iter().enumerate().map(|(index, (title, _, width))| {
            if TEXTS.contains(title) {
                format!("{:<width$}", cell(index))
            } else {
                format!("{:>width$}", cell(index))
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    writeln!(out, "{}", line(&|column| columns[column].0.to_owned()).trim_end())?;
    for row in 0..rows.len() {
        writeln!(out, "{}", line(&|column| columns[column].1[row].clone()).trim_end())?;
    }
    Ok(())
}

fn number(value: Option<f64>, digits: usize) -> String {
    finite(value).map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn percents(part: Option<f64>) -> String {
    finite(part).map_or_else(String::new, |part| format!("{:.0}%", part * 100.0))
}

/// Percents in which caches differ.
fn hits(part: Option<f64>) -> String {
    finite(part).map_or_else(String::new, |part| format!("{:.2}%", part * 100.0))
}

/// A dash if there is a rate, and only of one round.
fn spread(row: &Row) -> String {
    match row.spread {
        None if row.ops_per_s.is_some() => "-".into(),
        spread => percents(spread),
    }
}

/// A part in percent, rounded down: if a millionth is missing, it is not 100 %.
fn part(part: Option<f64>) -> String {
    match finite(part) {
        Some(part) if part < 1.0 => format!("{:.2}%", (part * 1e4).floor() / 100.0),
        part => percents(part),
    }
}

/// Millions a second, or thousands for a disk.
fn rate(ops_per_s: Option<f64>) -> String {
    let is_of_a_disk = ops_per_s.is_some_and(|rate| rate < 1e5);
    number(ops_per_s.map(|rate| rate / 1e6), if is_of_a_disk { 4 } else { 2 })
}

/// A time in the unit that suits it.
fn time(ns: Option<f64>) -> String {
    match finite(ns) {
        None => String::new(),
        Some(ns) if ns < 1e4 => format!("{ns:.0}ns"),
        Some(ns) if ns < 1e7 => format!("{:.1}us", ns / 1e3),
        Some(ns) => format!("{:.1}ms", ns / 1e6),
    }
}

/// Bytes in the unit that suits them.
fn bytes(bytes: Option<f64>) -> String {
    match finite(bytes) {
        None => String::new(),
        Some(bytes) if bytes < 1e4 => format!("{bytes:.0}B"),
        Some(bytes) if bytes < 1e6 => format!("{:.1}kB", bytes / 1e3),
        Some(bytes) => format!("{:.1}MB", bytes / 1e6),
    }
}

fn levels(pairs: Option<&[u64]>) -> String {
    let pairs = pairs.unwrap_or_default();
    pairs.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_what_their_rows_have_and_fit_a_terminal() {
        let growing = Row {
            medium: Some("mapped".into()),
            threads: Some(2),
            pairs: Some(114_000_000),
            load_factor: Some(0.85),
            spread: Some(0.07),
            ..Row::new("resize", "insert_growing_latency_durable", "someone")
        };
        let growing = growing.with_rate(123_456_789.0, Some(61e6));
        let timed = Row {
            p50_ns: Some(9_999.0),
            p99_ns: Some(999_940.0),
            p9999_ns: Some(9_999_000.0),
            max_ns: Some(123_456_789.0),
            ..growing.clone()
        };
        let series = Row { at_s: Some(0.05), step: Some(1), ..Row::new("resize", "timeline", "x") };
        assert_eq!([1.0, 0.999_999, 0.0].map(|kept| part(Some(kept))), ["100%", "99.99%", "0.00%"]);
        assert_eq!(spread(&growing), "7%");
        assert_eq!(spread(&Row { spread: None, ..growing.clone() }), "-");
        assert_eq!(spread(&Row::new("space", "grown", "someone")), "");
        let space = Row { bytes_per_pair: Some(22.125), ..Row::new("space", "grown", "someone") };
        let mut text = Vec::new();
        let rows = [growing, timed, series, space];
        let machine = Machine::look(Path::new("/"));
        super::text(&mut text, &machine, &rows).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (_, tables) = text.split_once("\n\n").unwrap();
        assert!(tables.lines().all(|line| line.len() <= 120), "{tables}");
        let lines: Vec<&str> = tables.lines().collect();
        assert!(lines[1].ends_with("p99.99     max") && !lines[1].contains("CPU"), "{tables}");
        assert!(lines[2].ends_with("123.46     7%  1.01"), "{tables}");
        assert!(lines[3].ends_with("9999ns 999.9us 9999.0us 123.5ms"), "{tables}");
        assert_eq!(lines[4], "and 1 rows of a timeline (--json, --html)");
        assert_eq!(
            &lines[6..],
            ["space", "op    contender bytes/pair", "grown someone        22.12"]
        );
    }
}
