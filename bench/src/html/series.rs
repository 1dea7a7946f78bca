//! Charts of rows in series: over time, over the load factor, over the pairs stored.

use super::charts::{bars, curves, figure, figures};
use super::ladder::Measure;
use super::palette::Palette;
use super::plot::{self, Axis, Band, Interval, LEVEL_COLOURS, TimelineAxes};
use super::rows::{Place, ceiling_of_all, grouped, op, places};
use super::scale::Scale;
use super::svg::Svg;
use super::tables::Figure;
use super::text::{escape, plain, si, time};
use crate::row::Row;

/// A chart per contender and place; all of a medium on the same axes.
pub(super) fn timelines(series: &[&Row], all: &[&Row], palette: &Palette) -> String {
    let mut html = String::new();
    let media =
        grouped(series.iter().copied(), |row| (op(row), Place { threads: None, ..Place::of(row) }));
    for ((op, medium), rows) in media {
        let reference = |row: &Row| {
            let is_of_row = |other: &&&Row| {
                other.at_s.is_none()
                    && other.ceiling.is_some()
                    && other.contender == row.contender
                    && Place::of(other) == Place::of(row)
            };
            all.iter().find(is_of_row).and_then(|other| ceiling_of_all(other))
        };
        let floor_ns = |row: &Row| {
            let is_floor = |other: &&&Row| {
                other.op == "stall" && other.medium == row.medium && other.threads == row.threads
            };
            all.iter().find(is_floor).and_then(|other| other.max_ns)
        };
        let rates = rows.iter().flat_map(|row| [row.ops_per_s, reference(row)]).flatten();
        let latencies = rows.iter().flat_map(|row| [row.max_ns, floor_ns(row)]).flatten();
        let axes = TimelineAxes {
            time: Scale::from_zero(rows.iter().filter_map(|row| row.at_s)),
            rate: Scale::from_zero(rates),
            latency: Scale::log(latencies),
        };
        let picture = |((contender, place), rows): &((String, Place), Vec<&Row>)| {
            let mut intervals: Vec<Interval> =
                rows.iter().filter_map(|row| interval(row)).collect();
            intervals.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
            let title = format!("{contender}, {}", place.title());
            let marks = rows.first().map_or((None, None), |row| (reference(row), floor_ns(row)));
            let class = palette.class(contender);
            figure(&title, &plot::timeline(&title, &class, &axes, &intervals, marks))
        };
        let groups = grouped(rows.iter().copied(), |row| (row.contender.clone(), Place::of(row)));
        let pictures: Vec<String> = groups.iter().map(picture).collect();
        let what = (op != "timeline").then_some(op);
        let parts: Vec<String> = [Some("Over time".to_owned()), what, Some(medium.title())]
            .into_iter()
            .flatten()
            .collect();
        html += &figures(&parts.join(", "), "figures", &pictures);
    }
    html
}

fn interval(row: &Row) -> Option<Interval> {
    Some(Interval { at_s: row.at_s?, ops_per_s: row.ops_per_s?, max_ns: row.max_ns })
}

/// Rate and p99 over the load factor, what lies in each level, and where tables were full.
pub(super) fn load_factor(rows: &[&Row], palette: &Palette) -> String {
    const FULL: Measure = Measure {
        caption: "load factor",
        value: |row| row.load_factor,
        mark: |_| None,
        format: plain,
        second: ("", |_| None),
    };
    // Where a table refused a pair. Nothing else was measured there.
    let (full, rows): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| row.step.is_none() && row.load_factor.is_some());
    let mut html = palette.legend(&rows, "");
    for (place, rows) in places(&rows) {
        let factors = Scale::spanning(rows.iter().filter_map(|row| row.load_factor));
        let x = Axis { scale: factors, caption: "load factor", format: plain };
        let ops = grouped(rows.iter().copied(), op);
        let panels = |name: &str, figure_of: Figure, scale: Scale, format: fn(f64) -> String| {
            let y = Axis { scale, caption: "", format };
            let panel = |(op, rows): &(String, Vec<&Row>)| {
                let curves = curves(rows, palette, |row| Some((row.load_factor?, figure_of(row)?)));
                let title = format!("{op}: {name}");
                let picture = plot::curves(&title, [&x, &y], &curves, None);
                (!curves.is_empty()).then(|| figure(&title, &picture))
            };
            ops.iter().filter_map(panel).collect::<Vec<String>>()
        };
        let rates = Scale::from_zero(rows.iter().filter_map(|row| row.ops_per_s));
        let latencies = Scale::from_zero(rows.iter().filter_map(|row| row.p99_ns));
        html += &format!("<h3>{}</h3>\n", escape(&place.title()));
        let rate = panels("operations/s", |row| row.ops_per_s, rates, si);
        html += &figures("", "figures small", &rate);
        let p99 = panels("p99", |row| row.p99_ns, latencies, time);
        html += &figures("", "figures small", &p99);
        html += &levels(&rows, &x);
    }
    html + &bars(&full, &FULL, palette)
}

/// Pairs in each level over the load factor, a chart per contender.
fn levels(rows: &[&Row], x: &Axis) -> String {
    let told = rows.iter().copied().filter(|row| row.level_pairs.is_some());
    let mut count_max = 0;
    let mut pictures = Vec::new();
    for (contender, rows) in grouped(told, |row| row.contender.clone()) {
        // Every operation of a step sees the same levels: those of one operation are enough.
        let first_op = rows.first().map(|row| &row.op);
        let mut steps: Vec<(f64, &[u64])> = rows
            .iter()
            .filter(|row| Some(&row.op) == first_op)
            .filter_map(|row| Some((row.load_factor?, row.level_pairs.as_deref()?)))
            .collect();
        steps.sort_by(|one, other| one.0.total_cmp(&other.0));
        let count = steps.iter().map(|(_, levels)| levels.len()).max().unwrap_or(0);
        count_max = count_max.max(count);
        let band = |level: usize| {
            let pairs_of =
                |(_, levels): &(f64, &[u64])| levels.get(level).map_or(0.0, |pairs| *pairs as f64);
            let values = steps.iter().map(pairs_of).collect();
            Band { name: format!("level {}", level + 1), values }
        };
        let bands: Vec<Band> = (0..count).map(band).collect();
        let total = |(_, levels): &(f64, &[u64])| levels.iter().map(|&pairs| pairs as f64).sum();
        let y = Axis { scale: Scale::from_zero(steps.iter().map(total)), caption: "", format: si };
        let factors: Vec<f64> = steps.iter().map(|(factor, _)| *factor).collect();
        let title = format!("{contender}: pairs per level");
        let picture = plot::stack(&title, [x, &y], &factors, &bands);
        pictures
            .push(figure(&title, &(picture + &shares(steps.last().map(|(_, levels)| *levels)))));
    }
    let keys: String = (0..count_max.min(LEVEL_COLOURS))
        .map(|level| {
            let mut svg = Svg::new(14.0, 12.0);
            svg.bar(&format!("band level{level}"), (1.0, 1.0), (13.0, 11.0));
            format!("<span>{} level {}</span> ", svg.key(), level + 1)
        })
        .collect();
    match pictures.is_empty() {
        true => String::new(),
        false => {
            format!("<p class=\"legend\">{keys}</p>\n") + &figures("", "figures small", &pictures)
        }
    }
}

/// What part of the pairs lies in each level: the small ones cannot be seen in a chart.
fn shares(levels: Option<&[u64]>) -> String {
    let levels = levels.unwrap_or_default();
    let total: f64 = levels.iter().map(|&pairs| pairs as f64).sum();
    let share = |&pairs: &u64| format!("{} %", plain(100.0 * pairs as f64 / total.max(1.0)));
    let shares: Vec<String> = levels.iter().map(share).collect();
    format!("<p class=\"note\">in the end {}</p>\n", shares.join(", "))
}

/// Bytes of a pair of two words.
const PAIR_BYTES: f64 = 16.0;

/// Bytes per pair: bars of what was there in the end, curves where there are several steps.
pub(super) fn space(rows: &[&Row], palette: &Palette) -> String {
    const BYTES: Measure = Measure {
        caption: "bytes/pair",
        value: |row| row.bytes_per_pair,
        mark: |_| Some(PAIR_BYTES),
        format: plain,
        second: ("load factor", |row| row.load_factor),
    };
    let told = rows.iter().copied().filter(|row| row.bytes_per_pair.is_some());
    let (steps, mut last): (Vec<&Row>, Vec<&Row>) = told.partition(|row| row.step.is_some());
    let series =
        grouped(steps.iter().copied(), |row| (op(row), Place::of(row), row.contender.clone()));
    last.extend(series.iter().filter_map(|(_, rows)| rows.iter().max_by_key(|row| row.step)));
    let pairs = |row: &Row| row.pairs.map(|pairs| pairs as f64);
    let scale = Scale::from_zero(steps.iter().filter_map(|row| pairs(row)));
    let x = Axis { scale, caption: "pairs", format: si };
    let picture = |((op, place), rows): ((String, Place), Vec<&Row>)| {
        let bytes = rows.iter().filter_map(|row| row.bytes_per_pair);
        let scale = Scale::from_zero(bytes.chain([PAIR_BYTES]));
        let y = Axis { scale, caption: "", format: plain };
        let curves = curves(&rows, palette, |row| Some((pairs(row)?, row.bytes_per_pair?)));
        let title = format!("{op}, {}", place.title());
        figure(&title, &plot::curves(&title, [&x, &y], &curves, Some(PAIR_BYTES)))
    };
    let places = grouped(steps.iter().copied(), |row| (op(row), Place::of(row)));
    let pictures: Vec<String> = places.into_iter().map(picture).collect();
    bars(&last, &BYTES, palette) + &figures("While they fill", "figures small", &pictures)
}
