//! The figures of the Level hashing paper.

use super::charts::{bars, curves, figure, figures};
use super::ladder::Measure;
use super::palette::Palette;
use super::plot::{self, Axis};
use super::rows::{grouped, op, places};
use super::scale::Scale;
use super::tables::Figure;
use super::text::{plain, si, time};
use crate::row::Row;

const FULL: Measure = Measure {
    caption: "load factor",
    value: |row| row.load_factor,
    mark: |_| None,
    format: plain,
    second: ("pairs", |row| row.pairs.map(|pairs| pairs as f64)),
};

const TOOK: Measure = Measure {
    caption: "time",
    value: |row| row.took_s.map(|took_s| took_s * 1e9),
    // As long as it took at the rate that is its ceiling.
    mark: |row| Some(row.pairs? as f64 * 1e9 / row.ceiling?),
    format: time,
    second: ("ratio", |row| row.ratio),
};

const PAIRS: Figure = |row| row.pairs.map(|pairs| pairs as f64);
const EXPANSIONS: Figure = |row| row.expansions.map(f64::from);
const LOAD_FACTOR: Figure = |row| row.load_factor;

/// What a chart has from left to right.
struct Across {
    caption: &'static str,
    figure: Figure,
    scale: fn(&[f64]) -> Scale,
    format: fn(f64) -> String,
}

/// ... and what it has upwards.
struct Upwards {
    figure: Figure,
    scale: fn(&[f64]) -> Scale,
    format: fn(f64) -> String,
}

fn from_zero(values: &[f64]) -> Scale {
    Scale::from_zero(values.iter().copied())
}

fn spanning(values: &[f64]) -> Scale {
    Scale::spanning(values.iter().copied())
}

/// Each doubling of the table is as wide as the next.
const OVER_PAIRS: Across = Across {
    caption: "pairs",
    figure: PAIRS,
    scale: |values| Scale::log(values.iter().copied()),
    format: si,
};
const OVER_EXPANSIONS: Across =
    Across { caption: "expansion", figure: EXPANSIONS, scale: Scale::at_values, format: plain };
const OVER_LOAD_FACTOR: Across =
    Across { caption: "load factor", figure: LOAD_FACTOR, scale: spanning, format: plain };

/// A group of charts for each figure that has rows.
pub(super) fn level(rows: &[&Row], palette: &Palette) -> String {
    let of = |ops: &[&str]| -> Vec<&Row> {
        rows.iter().copied().filter(|row| ops.contains(&op(row).as_str())).collect()
    };
    let told = |ops: &[&str], value: Figure| -> Vec<&Row> {
        of(ops).into_iter().filter(|row| value(row).is_some()).collect()
    };
    let mean = Upwards { figure: |row| row.mean_ns, scale: from_zero, format: time };
    let log_free = Upwards { figure: |row| row.log_free, scale: from_zero, format: plain };
    let lines = Upwards { figure: |row| row.lines_read, scale: from_zero, format: plain };
    // They differ by hundredths.
    let load_factor = Upwards { figure: LOAD_FACTOR, scale: spanning, format: plain };
    let searches = told(&["get_hit", "get_miss"], mean.figure);
    let counted = told(&["get_hit", "get_miss"], lines.figure);
    [
        charts("Mean latency of a search over growth", &searches, &OVER_PAIRS, &mean, palette),
        charts("Lines read by a search over growth", &counted, &OVER_PAIRS, &lines, palette),
        headed("Where a table is full", bars(&of(&["full"]), &FULL, palette)),
        charts(
            "Load factor at each expansion",
            &of(&["expansion"]),
            &OVER_EXPANSIONS,
            &load_factor,
            palette,
        ),
        headed(
            "Doubling a table",
            bars(&of(&["expand_in_place", "expand_full_rehash"]), &TOOK, palette),
        ),
        charts("Mean latency of an update", &of(&["update"]), &OVER_LOAD_FACTOR, &mean, palette),
        charts(
            "Part of the updates that need no record",
            &of(&["update_log_free"]),
            &OVER_LOAD_FACTOR,
            &log_free,
            palette,
        ),
    ]
    .concat()
}

fn headed(heading: &str, body: String) -> String {
    if body.is_empty() { body } else { format!("<h3>{heading}</h3>\n{body}") }
}

/// A chart for each operation and place, a curve for each contender.
fn charts(
    heading: &str,
    rows: &[&Row],
    across: &Across,
    upwards: &Upwards,
    palette: &Palette,
) -> String {
    let mut pictures = Vec::new();
    for (place, rows) in places(rows) {
        for (op, rows) in grouped(rows.iter().copied(), op) {
            let xs: Vec<f64> = rows.iter().filter_map(|row| (across.figure)(row)).collect();
            let x =
                Axis { scale: (across.scale)(&xs), caption: across.caption, format: across.format };
            let ys: Vec<f64> = rows.iter().filter_map(|row| (upwards.figure)(row)).collect();
            let y = Axis { scale: (upwards.scale)(&ys), caption: "", format: upwards.format };
            let point = |row: &Row| Some(((across.figure)(row)?, (upwards.figure)(row)?));
            let curves = curves(&rows, palette, point);
            if !curves.is_empty() {
                let title = format!("{op}, {}", place.title());
                pictures.push(figure(&title, &plot::curves(&title, [&x, &y], &curves, None)));
            }
        }
    }
    match pictures.is_empty() {
        true => String::new(),
        false => {
            headed(heading, palette.legend(rows, "")) + &figures("", "figures small", &pictures)
        }
    }
}
