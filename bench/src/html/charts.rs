//! Charts that several suites share: bars and percentiles per place, curves over threads.

use super::ladder::{self, Measure, RATE};
use super::palette::Palette;
use super::plot::{self, Axis, Curve};
use super::rows::{Place, grouped, op, places, tip};
use super::scale::Scale;
use super::svg::Svg;
use super::text::{escape, si};
use crate::row::Row;

pub(super) fn figure(caption: &str, picture: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>\n{picture}</figure>\n", escape(caption))
}

/// `figures` under a heading; nothing without figures.
pub(super) fn figures(heading: &str, class: &str, figures: &[String]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let heading =
        if heading.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(heading)) };
    format!("{heading}<div class=\"{class}\">\n{}</div>\n", figures.concat())
}

fn ceiling_legend(rows: &[&Row]) -> String {
    let has_ceiling = rows.iter().any(|row| row.ceiling.is_some());
    let has_spread = rows.iter().any(|row| row.spread.is_some_and(|spread| spread > 0.0));
    let mut legend = String::new();
    if has_ceiling {
        let mut svg = Svg::new(14.0, 12.0);
        svg.line("mark", (7.0, 0.0), (7.0, 12.0));
        legend += &format!("<span>{} ceiling of all threads</span> ", svg.key());
    }
    if has_spread {
        let mut svg = Svg::new(14.0, 12.0);
        svg.line("whisker", (1.0, 6.0), (13.0, 6.0));
        svg.line("whisker", (1.0, 3.0), (1.0, 9.0));
        svg.line("whisker", (13.0, 3.0), (13.0, 9.0));
        legend += &format!("<span>{} spread of the rounds</span> ", svg.key());
    }
    legend
}

/// Bars per place, and curves over threads.
pub(super) fn rates(rows: &[&Row], palette: &Palette) -> String {
    bars(rows, &RATE, palette) + &over_threads(rows, palette)
}

/// Bars, an axis for each place: where the ceiling grows with the threads it stays in place, and
/// bars of several charts compare by their ratios.
pub(super) fn bars(rows: &[&Row], measure: &Measure, palette: &Palette) -> String {
    let rows: Vec<&Row> =
        rows.iter().copied().filter(|row| (measure.value)(row).is_some()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let picture = |(place, group): &(Place, Vec<&Row>)| {
        let scale = ladder::bar_scale(group, measure);
        figure(&place.title(), &ladder::bars(group, measure, scale, palette))
    };
    let pictures: Vec<String> = places(&rows).iter().map(picture).collect();
    palette.legend(&rows, &ceiling_legend(&rows)) + &figures("", "figures", &pictures)
}

/// A small chart per operation, if there are several numbers of threads.
fn over_threads(rows: &[&Row], palette: &Palette) -> String {
    let mut html = String::new();
    let media = grouped(rows.iter().copied().filter(|row| row.ops_per_s.is_some()), |row| Place {
        threads: None,
        ..Place::of(row)
    });
    for (place, rows) in media {
        let counts: Vec<f64> =
            rows.iter().filter_map(|row| row.threads.map(|count| count as f64)).collect();
        if grouped(rows.iter().copied(), |row| row.threads).len() < 2 {
            continue;
        }
        let x = Axis { scale: Scale::at_values(&counts), caption: "threads", format: si };
        let pictures: Vec<String> = grouped(rows, op)
            .into_iter()
            .map(|(op, rows)| {
                let scale = Scale::from_zero(rows.iter().filter_map(|row| row.ops_per_s));
                let y = Axis { scale, caption: "", format: si };
                let curves =
                    curves(&rows, palette, |row| Some((row.threads? as f64, row.ops_per_s?)));
                figure(&op, &plot::curves(&format!("{op} over threads"), [&x, &y], &curves, None))
            })
            .collect();
        let heading = format!("Operations a second over threads: {}", place.title());
        html += &figures(&heading, "figures small", &pictures);
    }
    html
}

pub(super) fn curves(
    rows: &[&Row],
    palette: &Palette,
    point: impl Fn(&Row) -> Option<(f64, f64)>,
) -> Vec<Curve> {
    let curve = |(contender, rows): (String, Vec<&Row>)| {
        let mut points: Vec<(f64, f64, String)> =
            rows.iter().filter_map(|row| point(row).map(|(x, y)| (x, y, tip(row)))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Curve { class: palette.class(&contender), points }
    };
    let contenders = grouped(rows.iter().copied(), |row| row.contender.clone());
    contenders.into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

pub(super) fn percentiles(rows: &[&Row], palette: &Palette) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let legend = palette.legend(rows, &ladder::percentiles_legend());
    let scale = ladder::latency_scale(rows);
    let pictures: Vec<String> = places(rows)
        .into_iter()
        .map(|(place, rows)| {
            figure(&place.title(), &ladder::percentiles(&rows, scale.clone(), palette))
        })
        .collect();
    legend + &figures("", "figures", &pictures)
}
