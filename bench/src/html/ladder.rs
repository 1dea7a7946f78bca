//! Charts of one line per operation and contender, with figures from left to right: bars, and
//! latencies as marks.

use super::palette::Palette;
use super::rows::{CPU_SHARE_FAIR, ceiling_of_all, grouped, op, tip};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::text::{NOTHING, brief, or_nothing, plain, shorten, si, time};
use crate::row::Row;

const WIDTH: f64 = 620.0;
const NAMES_END: f64 = 214.0;
const CHART_START: f64 = 222.0;
const CHART_END: f64 = 506.0;
const FIRST_FIGURE_END: f64 = 566.0;
const LINE_HEIGHT: f64 = 14.0;
const BAR_HEIGHT: f64 = 9.0;
const GROUP_GAP: f64 = 9.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 18.0;
/// Characters of an operation that are shown.
const OP_MAX: usize = 22;
/// Characters of an operation and a contender that have room beside each other.
const LABELS_MAX: usize = 33;

/// What bars measure.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    /// What the axis says.
    pub(super) caption: &'static str,
    /// How long a bar is.
    pub(super) value: fn(&Row) -> Option<f64>,
    /// What it is held against: a thin mark.
    pub(super) mark: fn(&Row) -> Option<f64>,
    /// Writes its figures.
    pub(super) format: fn(f64) -> String,
    /// The second figure beside a bar, and its heading.
    pub(super) second: (&'static str, fn(&Row) -> Option<f64>),
}

/// Rates, beside their ceilings.
pub(super) const RATE: Measure = Measure {
    caption: "operations/s",
    value: |row| row.ops_per_s,
    mark: ceiling_of_all,
    format: si,
    second: ("ratio", |row| row.ratio),
};

/// Axis of bars that holds all of these rows.
pub(super) fn bar_scale(rows: &[&Row], measure: &Measure) -> Scale {
    let most = |row: &&Row| {
        let value = (measure.value)(row).unwrap_or(0.0);
        let whisker = value * (1.0 + row.spread.unwrap_or(0.0) / 2.0);
        whisker.max((measure.mark)(row).unwrap_or(0.0))
    };
    Scale::from_zero(rows.iter().map(most))
}

/// Bars, grouped by operation.
pub(super) fn bars(rows: &[&Row], measure: &Measure, scale: Scale, palette: &Palette) -> String {
    let rows: Vec<&Row> =
        rows.iter().copied().filter(|row| (measure.value)(row).is_some()).collect();
    let has_second = rows.iter().any(|row| (measure.second.1)(row).is_some());
    let second = if has_second { measure.second.0 } else { "" };
    let ladder = Ladder::new(&rows, scale);
    let headings = [measure.caption, second];
    ladder.draw(headings, measure.format, palette, |svg, row, middle, scale| {
        let Some(value) = (measure.value)(row) else { return };
        let class = palette.class(&row.contender);
        let (top, bottom) = (middle - BAR_HEIGHT / 2.0, middle + BAR_HEIGHT / 2.0);
        svg.bar(&format!("bar {class}"), (scale.place(0.0), top), (scale.place(value), bottom));
        if let Some(spread) = row.spread.filter(|spread| *spread > 0.0) {
            let (from, to) = (1.0 - spread / 2.0, 1.0 + spread / 2.0);
            let ends = [scale.place(value * from), scale.place(value * to)];
            svg.line("whisker", (ends[0], middle), (ends[1], middle));
            for end in ends {
                svg.line("whisker", (end, middle - 2.5), (end, middle + 2.5));
            }
        }
        if let Some(mark) = (measure.mark)(row) {
            let place = scale.place(mark);
            svg.line("mark", (place, middle - 7.0), (place, middle + 7.0));
        }
        let is_disturbed = row.cpu_share.is_some_and(|share| share < CPU_SHARE_FAIR);
        let star = if is_disturbed { "*" } else { "" };
        let first = (measure.format)(value) + star;
        figures(svg, middle, [first, or_second(has_second, (measure.second.1)(row))]);
    })
}

fn or_second(has_second: bool, value: Option<f64>) -> String {
    if has_second { or_nothing(value, plain) } else { String::new() }
}

/// Latencies of a row, by the classes of their marks.
fn latencies(row: &Row) -> impl Iterator<Item = (Mark, f64)> {
    let all = [
        (Mark::Median, row.p50_ns),
        (Mark::Percentile99, row.p99_ns),
        (Mark::Percentile9999, row.p9999_ns),
        (Mark::Most, row.max_ns),
    ];
    all.into_iter().filter_map(|(mark, value)| Some((mark, value?)))
}

#[derive(Clone, Copy)]
enum Mark {
    Median,
    Percentile99,
    Percentile9999,
    Most,
}

impl Mark {
    fn draw(self, svg: &mut Svg, class: &str, (x, y): (f64, f64)) {
        let class = &format!("point {class}");
        match self {
            Mark::Median => svg.dot(class, (x, y), 4.0),
            Mark::Percentile99 => svg.dot(&format!("{class} hollow"), (x, y), 3.2),
            Mark::Percentile9999 => {
                let diamond = [(x - 4.5, y), (x, y - 4.5), (x + 4.5, y), (x, y + 4.5)];
                svg.area(class, &diamond);
            }
            Mark::Most => svg.bar(class, (x - 1.2, y - 5.0), (x + 1.2, y + 5.0)),
        }
    }
}

/// How the marks of [`percentiles`] look.
pub(super) fn percentiles_legend() -> String {
    let marks = [
        (Mark::Median, "p50"),
        (Mark::Percentile99, "p99"),
        (Mark::Percentile9999, "p99.99"),
        (Mark::Most, "max"),
    ];
    let keys = marks.map(|(mark, name)| {
        let mut svg = Svg::new(14.0, 12.0);
        mark.draw(&mut svg, "machine", (7.0, 6.0));
        format!("<span>{} {name}</span> ", svg.key())
    });
    keys.concat()
}

/// Axis of latencies that holds all of these rows.
pub(super) fn latency_scale(rows: &[&Row]) -> Scale {
    Scale::log(rows.iter().flat_map(|row| latencies(row).map(|(_, value)| value)))
}

/// Median, high percentiles and longest latency, grouped by operation.
pub(super) fn percentiles(rows: &[&Row], scale: Scale, palette: &Palette) -> String {
    let rows: Vec<&Row> =
        rows.iter().copied().filter(|row| latencies(row).next().is_some()).collect();
    let ladder = Ladder::new(&rows, scale);
    ladder.draw(["p50", "p99.99"], time, palette, |svg, row, middle, scale| {
        let class = palette.class(&row.contender);
        let marks: Vec<(Mark, f64)> =
            latencies(row).map(|(mark, value)| (mark, scale.place(value))).collect();
        if let [(_, first), .., (_, last)] = marks[..] {
            svg.line(&format!("line thin {class}"), (first, middle), (last, middle));
        }
        // The median last: it is what others must not hide.
        for (mark, place) in marks.into_iter().rev() {
            mark.draw(svg, &class, (place, middle));
        }
        let figure = |value| or_nothing(value, time);
        figures(svg, middle, [figure(row.p50_ns), figure(row.p9999_ns)]);
    })
}

fn figures(svg: &mut Svg, middle: f64, [first, second]: [String; 2]) {
    svg.text("figure", (FIRST_FIGURE_END, middle + 3.5), Anchor::End, &first);
    let class = if second == NOTHING { "figure faint" } else { "figure" };
    svg.text(class, (WIDTH, middle + 3.5), Anchor::End, &second);
}

/// The frame of such a chart.
struct Ladder<'a> {
    groups: Vec<(String, Vec<&'a Row>)>,
    scale: Scale,
}

impl<'a> Ladder<'a> {
    fn new(rows: &[&'a Row], scale: Scale) -> Ladder<'a> {
        let groups = grouped(rows.iter().copied(), op);
        Ladder { groups, scale: scale.drawn(CHART_START, CHART_END) }
    }

    /// Draws the frame, and each row with `draw`, which is told the middle of the row's line.
    fn draw(
        self,
        headings: [&str; 2],
        format: fn(f64) -> String,
        palette: &Palette,
        draw: impl Fn(&mut Svg, &Row, f64, &Scale),
    ) -> String {
        let lines: usize = self.groups.iter().map(|(_, rows)| rows.len()).sum();
        let body = lines as f64 * LINE_HEIGHT + self.groups.len() as f64 * GROUP_GAP;
        let mut svg = Svg::new(WIDTH, TOP + body + BOTTOM);
        for tick in &self.scale.ticks {
            let place = self.scale.place(*tick);
            svg.line("grid", (place, TOP), (place, TOP + body));
            let text = brief(&format(*tick));
            svg.text("tick", (place, TOP + body + 13.0), Anchor::Middle, &text);
        }
        svg.text("tick", (FIRST_FIGURE_END, TOP - 9.0), Anchor::End, headings[0]);
        svg.text("tick", (WIDTH, TOP - 9.0), Anchor::End, headings[1]);
        let mut top = TOP;
        for (op, rows) in &self.groups {
            svg.line("divider", (0.0, top), (WIDTH, top));
            top += GROUP_GAP / 2.0;
            for (index, row) in rows.iter().enumerate() {
                let middle = top + LINE_HEIGHT / 2.0;
                svg.tipped(&tip(row), |svg| {
                    svg.bar("touch", (0.0, top), (WIDTH, top + LINE_HEIGHT));
                    if index == 0 {
                        svg.text("op", (0.0, middle + 4.0), Anchor::Start, &shorten(op, OP_MAX));
                    }
                    let class = format!("name {}", palette.class(&row.contender));
                    let at = (NAMES_END, middle + 3.5);
                    let op_characters = if index == 0 { op.chars().count().min(OP_MAX) } else { 0 };
                    let name = shorten(&row.contender, LABELS_MAX - op_characters);
                    svg.text(&class, at, Anchor::End, &name);
                    draw(svg, row, middle, &self.scale);
                });
                top += LINE_HEIGHT;
            }
            top += GROUP_GAP / 2.0;
        }
        let ops: Vec<&str> = self.groups.iter().map(|(op, _)| op.as_str()).collect();
        svg.finish(&format!("{}: {}", headings.join(" and "), ops.join(", ")))
    }
}
