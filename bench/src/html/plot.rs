//! Charts with two axes: curves, areas, and a series over time.

use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::text::{brief, shorten, si, time};

const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
/// From the figures of the one axis to the first point, which would hide them.
const INSET: f64 = 7.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 34.0;

/// Size of the charts that stand in rows.
const SMALL: (f64, f64) = (300.0, 184.0);

/// An axis with what it says and how its figures are written.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) caption: &'static str,
    pub(super) format: fn(f64) -> String,
}

/// A contender's figures.
pub(super) struct Curve {
    /// Classes of its colour.
    pub(super) class: String,
    /// Points, each with what it tells when pointed at.
    pub(super) points: Vec<(f64, f64, String)>,
}

/// Places of a chart's figures, after its frame was drawn.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    /// Draws axes between `top` and `bottom`; figures below only if `has_x`.
    fn draw(svg: &mut Svg, width: f64, (top, bottom): (f64, f64), axes: [&Axis; 2]) -> Frame {
        let [x, y] = axes;
        let frame = Frame {
            x: x.scale.clone().drawn(LEFT + INSET, width - RIGHT),
            y: y.scale.clone().drawn(bottom, top),
        };
        let (left, right) = (LEFT, width - RIGHT);
        for tick in &frame.y.ticks {
            let place = frame.y.place(*tick);
            svg.line("grid", (left, place), (right, place));
            let text = brief(&(y.format)(*tick));
            svg.text("tick", (left - 5.0, place + 3.5), Anchor::End, &text);
        }
        for tick in &frame.x.ticks {
            let place = frame.x.place(*tick);
            svg.line("axis", (place, bottom), (place, bottom + 3.0));
            let text = brief(&(x.format)(*tick));
            svg.text("tick", (place, bottom + 14.0), Anchor::Middle, &text);
        }
        svg.line("axis", (left, bottom), (right, bottom));
        if !x.caption.is_empty() {
            let middle = left.midpoint(right);
            svg.text("caption", (middle, bottom + 28.0), Anchor::Middle, x.caption);
        }
        frame
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }
}

/// Curves with their points, and a line across at `reference`.
pub(super) fn curves(
    label: &str,
    [x, y]: [&Axis; 2],
    curves: &[Curve],
    reference: Option<f64>,
) -> String {
    let (width, height) = SMALL;
    let mut svg = Svg::new(width, height);
    let frame = Frame::draw(&mut svg, width, (TOP, height - BOTTOM), [x, y]);
    if let Some(reference) = reference {
        let place = frame.y.place(reference);
        svg.line("mark dashed", (LEFT, place), (width - RIGHT, place));
    }
    for curve in curves {
        let places: Vec<_> = curve.points.iter().map(|(x, y, _)| frame.at(*x, *y)).collect();
        svg.path(&format!("line {}", curve.class), &places);
        let is_dense = places.len() > 24;
        for (place, (_, _, tip)) in places.iter().zip(&curve.points) {
            svg.tipped(tip, |svg| {
                svg.dot("touch", *place, 7.0);
                let radius = if is_dense { 1.5 } else { 2.8 };
                svg.dot(&format!("point {}", curve.class), *place, radius);
            });
        }
    }
    svg.finish(label)
}

/// One band of [`stack`].
pub(super) struct Band {
    pub(super) name: String,
    /// Height at each x.
    pub(super) values: Vec<f64>,
}

/// Bands on top of each other over the same places.
pub(super) fn stack(label: &str, [x, y]: [&Axis; 2], over: &[f64], bands: &[Band]) -> String {
    let (width, height) = SMALL;
    let mut svg = Svg::new(width, height);
    let frame = Frame::draw(&mut svg, width, (TOP, height - BOTTOM), [x, y]);
    let mut floor = vec![0.0; over.len()];
    for (index, band) in bands.iter().enumerate() {
        let roof: Vec<f64> = floor.iter().zip(&band.values).map(|(low, add)| low + add).collect();
        let edge = |heights: &[f64]| -> Vec<(f64, f64)> {
            over.iter().zip(heights).map(|(x, y)| frame.at(*x, *y)).collect()
        };
        let mut outline = edge(&roof);
        outline.extend(edge(&floor).into_iter().rev());
        let last = band.values.last().copied().unwrap_or(0.0);
        svg.tipped(&format!("{}: {} pairs at the end", band.name, si(last)), |svg| {
            svg.area(&format!("band level{}", index % LEVEL_COLOURS), &outline);
        });
        floor = roof;
    }
    svg.finish(label)
}

/// Colours of levels in the page's style.
pub(super) const LEVEL_COLOURS: usize = 6;

/// One interval of [`timeline`].
pub(super) struct Interval {
    pub(super) at_s: f64,
    pub(super) ops_per_s: f64,
    pub(super) max_ns: Option<f64>,
}

/// Axes that several timelines share.
pub(super) struct TimelineAxes {
    pub(super) time: Scale,
    pub(super) rate: Scale,
    pub(super) latency: Scale,
}

/// Rates over time above, the longest latency of each interval below. `reference`: a rate to hold
/// it against; `floor_ns`: a latency that the machine alone reaches.
pub(super) fn timeline(
    label: &str,
    class: &str,
    axes: &TimelineAxes,
    intervals: &[Interval],
    (reference, floor_ns): (Option<f64>, Option<f64>),
) -> String {
    let (width, height) = (620.0, 330.0);
    let mut svg = Svg::new(width, height);
    let seconds = |caption| Axis { scale: axes.time.clone(), caption, format: si };
    let rate = Axis { scale: axes.rate.clone(), caption: "", format: si };
    let latency = Axis { scale: axes.latency.clone(), caption: "", format: time };
    svg.text("caption", (LEFT, 12.0), Anchor::Start, "operations/s");
    let frame = Frame::draw(&mut svg, width, (20.0, 150.0), [&seconds(""), &rate]);
    let ((left, right), (_, bottom)) = (frame.x.ends(), frame.y.ends());
    let places: Vec<_> =
        intervals.iter().map(|interval| frame.at(interval.at_s, interval.ops_per_s)).collect();
    if let [first, .., last] = places[..] {
        let mut outline = places.clone();
        outline.extend([(last.0, bottom), (first.0, bottom)]);
        svg.area(&format!("wash {class}"), &outline);
    }
    svg.path(&format!("line {class}"), &places);
    if let [only] = places[..] {
        svg.dot(&format!("point {class}"), only, 2.2);
    }
    if let Some(reference) = reference {
        let place = frame.y.place(reference);
        svg.line("mark dashed", (left, place), (right, place));
        svg.text("caption", (right, place - 4.0), Anchor::End, "sized in advance");
    }
    svg.text("caption", (LEFT, 186.0), Anchor::Start, "longest latency of an interval");
    let bottom = height - BOTTOM;
    let frame = Frame::draw(&mut svg, width, (194.0, bottom), [&seconds("seconds"), &latency]);
    if let Some(floor_ns) = floor_ns {
        let place = frame.y.place(floor_ns);
        svg.line("mark dashed", (left, place), (right, place));
        svg.text("caption", (right, place - 4.0), Anchor::End, "longest stall of idle threads");
    }
    for interval in intervals {
        let Some(max_ns) = interval.max_ns else { continue };
        let at = frame.at(interval.at_s, max_ns);
        let tip = format!(
            "{:.2} s: {} operations/s, longest {}",
            interval.at_s,
            si(interval.ops_per_s),
            time(max_ns)
        );
        svg.tipped(&tip, |svg| {
            svg.line(&format!("line thin {class}"), (at.0, bottom), at);
            svg.dot(&format!("point {class}"), at, 2.2);
        });
    }
    svg.finish(&shorten(label, 200))
}
