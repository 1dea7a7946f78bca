//! Rows as tables.

use super::rows::{grouped, op};
use super::text::{NOTHING, escape, or_nothing, percent, plain, si, time};
use crate::row::Row;

/// A figure of a row, or none.
pub(super) type Figure = fn(&Row) -> Option<f64>;

fn table(head: &[(String, bool)], body: &[Vec<String>]) -> String {
    let class = |is_word: bool| if is_word { " class=\"word\"" } else { "" };
    let head_cells: String = head
        .iter()
        .map(|(name, is_word)| format!("<th{}>{}</th>", class(*is_word), escape(name)))
        .collect();
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(head);
        let cells: String = cells
            .map(|(cell, (_, is_word))| format!("<td{}>{cell}</td>", class(*is_word)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let lines: String = body.iter().map(line).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head_cells}</tr></thead>\n\
         <tbody>\n{lines}</tbody></table></div>\n"
    )
}

/// What the machine allows, a line per medium and number of threads.
pub(super) fn ceilings(rows: &[&Row]) -> String {
    let ops = grouped(rows.iter().copied(), |row| row.op.clone());
    let places = grouped(rows.iter().copied(), |row| (row.medium.clone(), row.threads));
    let mut head: Vec<(String, bool)> = vec![("medium".into(), true), ("threads".into(), false)];
    head.extend(ops.iter().map(|(op, _)| (described(op).to_owned(), false)));
    let cell = |row: &Row| match row.ops_per_s {
        Some(rate) => {
            let per_thread = rate / row.threads.unwrap_or(1).max(1) as f64;
            let spread = row.spread.filter(|spread| *spread > 0.0);
            let spread = spread.map(|spread| format!(" ± {}", percent(spread / 2.0)));
            format!("{}/s{}", si(per_thread), spread.unwrap_or_default())
        }
        None => match (row.p9999_ns, row.max_ns) {
            (Some(p9999_ns), Some(max_ns)) => format!("{}, max {}", time(p9999_ns), time(max_ns)),
            (one, other) => or_nothing(one.or(other), time),
        },
    };
    let line = |((medium, threads), rows): &((Option<String>, Option<usize>), Vec<&Row>)| {
        let threads = threads.map_or_else(|| NOTHING.into(), |threads| threads.to_string());
        let mut cells = vec![escape(medium.as_deref().unwrap_or(NOTHING)), threads];
        cells.extend(ops.iter().map(|(op, _)| {
            let row = rows.iter().find(|row| row.op == *op);
            row.map_or_else(|| NOTHING.into(), |row| escape(&cell(row)))
        }));
        cells
    };
    table(&head, &places.iter().map(line).collect::<Vec<_>>())
}

fn described(op: &str) -> &str {
    match op {
        "read_line_1" => "lines read, one at a time",
        "read_line_16" => "lines read, 16 under way",
        "bare_get" => "bare look-ups",
        "bare_insert" => "bare insertions",
        "store_line" => "lines stored to",
        "persist_line" => "lines persisted",
        "stall" => "stall of an idle loop, p99.99",
        other => other,
    }
}

/// Costs with a gauge in each cell, all cells of a column on one scale.
pub(super) fn gauges(rows: &[&Row], columns: &[(&str, Figure)]) -> String {
    let is_used = |figure: Figure| rows.iter().any(|row| figure(row).is_some());
    let columns: Vec<(&str, Figure, f64)> = columns
        .iter()
        .filter(|(_, figure)| is_used(*figure))
        .map(|(name, figure)| {
            let most = rows.iter().filter_map(|row| figure(row)).fold(0.0, f64::max);
            (*name, *figure, most)
        })
        .collect();
    let mut head: Vec<(String, bool)> =
        ["operation", "contender", "medium"].map(|name| (name.to_owned(), true)).into();
    head.push(("load factor".into(), false));
    head.extend(columns.iter().map(|(name, ..)| ((*name).to_owned(), false)));
    let line = |name: String, row: &Row| {
        let medium = row.medium.as_deref().unwrap_or(NOTHING);
        let mut cells = vec![escape(&name), escape(&row.contender), escape(medium)];
        cells.push(or_nothing(row.load_factor, plain));
        cells.extend(columns.iter().map(|(_, figure, most)| {
            or_nothing(figure(row), |value| {
                let part = if *most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
                let width = (part * 48.0).round();
                format!("<span class=\"gauge\" style=\"width:{width}px\"></span>{}", plain(value))
            })
        }));
        cells
    };
    let mut lines = Vec::new();
    for (op, rows) in grouped(rows.iter().copied(), op) {
        // Said once: contenders of one operation stand below each other.
        let names = std::iter::once(op).chain(std::iter::repeat(String::new()));
        lines.extend(names.zip(rows).map(|(name, row)| line(name, row)));
    }
    table(&head, &lines)
}

/// All rows with all their fields; fields that no row has are left out.
pub(super) fn everything(rows: &[Row]) -> String {
    type Cell = fn(&Row) -> Option<String>;
    let columns: [(&str, bool, Cell); 31] = [
        ("suite", true, |row| Some(row.suite.to_owned())),
        ("op", true, |row| Some(row.op.clone())),
        ("contender", true, |row| Some(row.contender.clone())),
        ("medium", true, |row| row.medium.clone()),
        ("threads", false, |row| row.threads.map(|count| count.to_string())),
        ("batch", false, |row| row.batch.map(|count| count.to_string())),
        ("pairs", false, |row| row.pairs.map(|count| count.to_string())),
        ("load factor", false, |row| row.load_factor.map(plain)),
        ("step", false, |row| row.step.map(|step| step.to_string())),
        ("at s", false, |row| row.at_s.map(plain)),
        ("ops/s", false, |row| row.ops_per_s.map(si)),
        ("spread", false, |row| row.spread.map(percent)),
        ("ceiling/s", false, |row| row.ceiling.map(si)),
        ("ratio", false, |row| row.ratio.map(plain)),
        ("mean", false, |row| row.mean_ns.map(time)),
        ("took", false, |row| row.took_s.map(|took_s| time(took_s * 1e9))),
        ("p50", false, |row| row.p50_ns.map(time)),
        ("p99", false, |row| row.p99_ns.map(time)),
        ("p99.99", false, |row| row.p9999_ns.map(time)),
        ("max", false, |row| row.max_ns.map(time)),
        ("lines read", false, |row| row.lines_read.map(plain)),
        ("lines written", false, |row| row.lines_written.map(plain)),
        ("blocks written", false, |row| row.blocks_written.map(plain)),
        ("flushes", false, |row| row.flushes.map(plain)),
        ("fences", false, |row| row.fences.map(plain)),
        ("write amplification", false, |row| row.write_amplification.map(plain)),
        ("log-free", false, |row| row.log_free.map(percent)),
        ("expansions", false, |row| row.expansions.map(|count| count.to_string())),
        ("bytes/pair", false, |row| row.bytes_per_pair.map(plain)),
        ("cpu share", false, |row| row.cpu_share.map(percent)),
        ("pairs per level", true, |row| row.level_pairs.as_deref().map(listed)),
    ];
    let used: Vec<_> =
        columns.iter().filter(|(.., cell)| rows.iter().any(|row| cell(row).is_some())).collect();
    let head: Vec<_> =
        used.iter().map(|(name, is_word, _)| ((*name).to_owned(), *is_word)).collect();
    let line = |row: &Row| -> Vec<String> {
        used.iter().map(|(.., cell)| escape(&cell(row).unwrap_or_default())).collect()
    };
    table(&head, &rows.iter().map(line).collect::<Vec<_>>())
}

fn listed(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
