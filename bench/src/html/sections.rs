//! What is drawn of each suite.

use super::charts::{bars, percentiles, rates};
use super::ladder::{Measure, RATE};
use super::level::level;
use super::palette::Palette;
use super::rows::grouped;
use super::series::{load_factor, space, timelines};
use super::tables::{self, Figure};
use crate::row::Row;

/// A suite's part of the page.
pub(super) struct Section {
    /// Name of its place in the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) body: String,
}

/// How a suite is drawn.
struct Look {
    suite: &'static str,
    title: &'static str,
    note: &'static str,
    draw: fn(&[&Row], &Palette) -> String,
}

/// In the order of the page.
const LOOKS: [Look; 11] = [
    Look {
        suite: "ceilings",
        title: "What this machine allows",
        note: "Random lines of 64 bytes, a second and thread, in memory as large as the tables.",
        draw: |rows, _| tables::ceilings(rows),
    },
    Look {
        suite: "micro",
        title: "One operation at a time",
        note: "Tables sized in advance; uniform keys. ×32: so many keys per call.",
        draw: rates,
    },
    Look {
        suite: "store",
        title: "One operation at a time, on stores",
        note: "Byte strings to byte strings, keys and values of 8 bytes; uniform keys.",
        draw: rates,
    },
    Look { suite: "ycsb", title: "YCSB", note: "Mixed operations on skewed keys.", draw: rates },
    Look {
        suite: "latency",
        title: "Latency",
        note: "Every operation timed by itself, the clock included; on a logarithmic axis.",
        draw: generic,
    },
    Look {
        suite: "load-factor",
        title: "As the table fills",
        note: "One table that may not grow, filled in steps.",
        draw: load_factor,
    },
    Look {
        suite: "resize",
        title: "While the table grows",
        note: "Here the ceiling is the rate of the same insertions into a table sized in advance.",
        draw: generic,
    },
    Look {
        suite: "recovery",
        title: "Opening again",
        note: "Pairs of a pool divided by the time that it took to open it.",
        draw: |rows, palette| drawn(rows, &Measure { caption: "pairs/s", ..RATE }, palette),
    },
    Look {
        suite: "space",
        title: "Space",
        note: "Bytes per pair, everything counted: pool and helpers in memory. The mark is the \
               pair itself, 16 bytes.",
        draw: space,
    },
    Look {
        suite: "writes",
        title: "Lines, flushes and fences per operation",
        note: "Counted, not timed. Write amplification: bytes that the media write, in blocks of \
               256, per byte of lines written back.",
        draw: |rows, _| tables::gauges(rows, &COSTS),
    },
    Look {
        suite: "level",
        title: "Level hashing: the paper's own figures",
        note: "The engine itself, its design decisions switched on and off.",
        draw: level,
    },
];

const COSTS: [(&str, Figure); 6] = [
    ("lines read", |row| row.lines_read),
    ("lines written", |row| row.lines_written),
    ("blocks written", |row| row.blocks_written),
    ("flushes", |row| row.flushes),
    ("fences", |row| row.fences),
    ("write amplification", |row| row.write_amplification),
];

/// Parts of all suites that have rows; suites that nothing is known about come last.
pub(super) fn sections(rows: &[Row], palette: &Palette) -> Vec<Section> {
    let mut suites = grouped(rows, |row| row.suite);
    let rank = |suite: &str| LOOKS.iter().position(|look| look.suite == suite);
    suites.sort_by_key(|(suite, _)| rank(suite).unwrap_or(LOOKS.len()));
    let section = |(number, (suite, rows)): (usize, (&str, Vec<&Row>))| {
        let look = rank(suite).map(|rank| &LOOKS[rank]);
        let (title, note, draw) = match look {
            Some(look) => (look.title.to_owned(), look.note, look.draw),
            None => (suite.to_owned(), "", generic as fn(&[&Row], &Palette) -> String),
        };
        let note =
            if note.is_empty() { note.into() } else { format!("<p class=\"note\">{note}</p>\n") };
        Section { id: format!("suite{number}"), title, body: note + &draw(&rows, palette) }
    };
    suites.into_iter().enumerate().map(section).collect()
}

fn generic(rows: &[&Row], palette: &Palette) -> String {
    drawn(rows, &RATE, palette)
}

/// Whatever rows have: rates, space, latencies, series over time, and costs.
fn drawn(rows: &[&Row], rate: &Measure, palette: &Palette) -> String {
    let (series, single): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| row.at_s.is_some());
    let has_latency = |row: &Row| row.p50_ns.is_some() || row.p9999_ns.is_some();
    let (timed, others): (Vec<&Row>, Vec<&Row>) =
        single.into_iter().partition(|row| has_latency(row));
    let has_cost = |row: &&Row| COSTS.iter().any(|(_, cost)| cost(row).is_some());
    let costs: Vec<&Row> = others.iter().copied().filter(has_cost).collect();
    let table = if costs.is_empty() { String::new() } else { tables::gauges(&costs, &COSTS) };
    let without_space: Vec<&Row> =
        others.iter().copied().filter(|row| row.bytes_per_pair.is_none()).collect();
    [
        bars(&without_space, rate, palette),
        space(&others, palette),
        percentiles(&timed, palette),
        timelines(&series, rows, palette),
        table,
    ]
    .concat()
}
