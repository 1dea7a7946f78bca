//! Compares firndex's hit ratios with the best of the others, and with the bars that the suite was set.

use super::NAME;
use crate::bar::Bar;
use crate::row::Row;
use std::io::{self, Write};

/// The contender that the bars are about.
pub const OWN: &str = "firndex";
/// So many percentage points may be missing to the best of the others, on any trace.
const MISSING_MAX: f64 = 0.5;

/// One of firndex's hit ratios, compared with the best one of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside<'a> {
    /// The row of firndex.
    pub own: &'a Row,
    /// The row of the other with the highest ratio.
    pub other: &'a Row,
    /// How far firndex is ahead, in percentage points.
    pub ahead: f64,
}

/// All comparisons, in the order of the rows.
pub fn beside(rows: &[Row]) -> Vec<Beside<'_>> {
    let of_traces = |row: &&Row| row.suite == NAME && row.cache_percent.is_some();
    let own = rows.iter().filter(of_traces).filter(|row| row.contender == OWN);
    own.filter_map(|own| {
        let is_other = |row: &&Row| {
            row.contender != OWN && row.op == own.op && row.cache_percent == own.cache_percent
        };
        let ratio = |row: &Row| row.hit_ratio.unwrap_or(0.0);
        let others = rows.iter().filter(of_traces).filter(is_other);
        let other = others.max_by(|one, other| ratio(one).total_cmp(&ratio(other)))?;
        Some(Beside { own, other, ahead: 100.0 * (ratio(own) - ratio(other)) })
    })
    .collect()
}

/// The bars, if there is anybody to compare with.
pub fn bars(rows: &[Row]) -> Vec<Bar> {
    let ahead: Vec<f64> = beside(rows).iter().map(|beside| beside.ahead).collect();
    let worst = ahead.iter().copied().min_by(f64::total_cmp);
    let mean = worst.map(|_| ahead.iter().sum::<f64>() / ahead.len() as f64);
    let all = [
        Bar::at_least("hit ratio less the best other, points, worst trace", -MISSING_MAX, worst),
        Bar::at_least("hit ratio less the best other, points, mean of the traces", 0.0, mean),
    ];
    all.into_iter().flatten().collect()
}

/// Prints the comparisons and bars.
pub(crate) fn print(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    for Beside { own, other, ahead } in beside(rows) {
        let (trace, percent) = (&own.op, own.cache_percent.unwrap_or(0));
        let other = &other.contender;
        writeln!(out, "{trace}, cache of {percent} %: {OWN} {ahead:+.2} points to {other}")?;
    }
    Bar::print(&bars(rows), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contender: &str, op: &str, hit_ratio: f64) -> Row {
        let (hit_ratio, cache_percent) = (Some(hit_ratio), Some(5));
        Row { hit_ratio, cache_percent, ..Row::new(NAME, op, contender) }
    }

    #[test]
    fn the_best_of_the_others_counts_on_each_trace() {
        let rows = [
            row("one", "loops", 0.5),
            row("two", "loops", 0.25),
            row(OWN, "loops", 0.75),
            row("one", "scan", 0.5),
            row("two", "scan", 0.52),
            row(OWN, "scan", 0.51),
            row(OWN, "drift", 0.1),
        ];
        let beside = beside(&rows);
        let others: Vec<&str> = beside.iter().map(|beside| &*beside.other.contender).collect();
        assert_eq!(others, ["one", "two"]);
        let measured: Vec<f64> = bars(&rows).iter().map(|bar| bar.measured).collect();
        assert!((measured[0] + 1.0).abs() < 1e-9 && (measured[1] - 12.0).abs() < 1e-9);
        assert!(!bars(&rows)[0].holds && bars(&rows)[1].holds);
        assert!(bars(&rows[..2]).is_empty());
    }
}
