//! Compares firndex's hit ratios with the best of the others, its look-ups with those of its store, and what a restart
//! leaves with what there was: and all of it with the bars that the suite was set.

use super::NAME;
use crate::bar::Bar;
use crate::own_cache::{CACHE, STORE};
use crate::row::Row;
use std::io::{self, Write};

/// The contender that the bars are about.
pub const OWN: &str = CACHE;
/// Least rate of its look-ups in units of the store's.
const TO_STORE_MIN: f64 = 0.9;
/// Most milliseconds of an opening after SIGKILL, of about this many pairs or more.
const OPENING_MS_MAX: f64 = 60.0;
const OPENING_PAIRS: u64 = 900_000;
/// Least hit ratio after SIGKILL in units of that before.
const WARMTH_MIN: f64 = 0.99;
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
    all.into_iter().flatten().chain(to_store(rows)).chain(after_kill(rows)).collect()
}

fn of<'a>(rows: &'a [Row], contender: &str, op: &str) -> impl Iterator<Item = &'a Row> {
    let is_it = move |row: &&Row| (&*row.contender, &*row.op) == (contender, op);
    rows.iter().filter(|row| row.suite == NAME).filter(is_it)
}

/// Look-ups beside the store's, with each number of threads.
fn to_store(rows: &[Row]) -> Vec<Bar> {
    let bar = |own: &Row| {
        let store = of(rows, STORE, "get_hit").find(|row| row.threads == own.threads)?;
        let name = format!("get_hit to that of the store, {} threads", own.threads.unwrap_or(1));
        let ratio = own.ops_per_s.zip(store.ops_per_s).map(|(own, store)| own / store);
        Bar::at_least(name, TO_STORE_MIN, ratio)
    };
    of(rows, OWN, "get_hit").filter_map(bar).collect()
}

fn after_kill(rows: &[Row]) -> Vec<Bar> {
    let first = |op: &str| of(rows, OWN, op).next();
    let restart = first("restart").filter(|row| row.pairs.unwrap_or(0) >= OPENING_PAIRS);
    let opening_ms = restart.and_then(|row| row.took_s).map(|took_s| took_s * 1e3);
    let hits = |op: &str| first(op).and_then(|row| row.hit_ratio);
    let warmth = hits("after_kill").zip(hits("before_kill")).map(|(after, before)| after / before);
    let all = [
        Bar::at_most("opening after SIGKILL, 1 M pairs, ms", OPENING_MS_MAX, opening_ms),
        Bar::at_least("hit ratio after SIGKILL to that before", WARMTH_MIN, warmth),
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
    #[test]
    fn look_ups_are_compared_with_the_stores_and_hits_with_those_before_a_kill() {
        let plain = |contender: &str, op: &str| Row {
            threads: Some(1),
            pairs: Some(1_000_000),
            ..Row::new(NAME, op, contender)
        };
        let hits = |contender: &str, op: &str, ratio| Row {
            hit_ratio: Some(ratio),
            ..plain(contender, op)
        };
        let rows = [
            plain(OWN, "get_hit").with_rate(9.5, None),
            Row { threads: Some(2), ..plain(OWN, "get_hit") }.with_rate(9.5, None),
            plain(STORE, "get_hit").with_rate(10.0, None),
            Row { took_s: Some(0.061), ..plain(OWN, "restart") },
            hits(OWN, "before_kill", 0.8),
            hits("other", "after_kill", 0.1),
            hits(OWN, "after_kill", 0.796),
        ];
        let told: Vec<(f64, bool)> =
            bars(&rows).iter().map(|bar| (bar.measured, bar.holds)).collect();
        let expected = [(0.95, true), (61.0, false), (0.995, true)];
        assert_eq!(told.len(), expected.len());
        for ((measured, holds), (expected, expected_holds)) in told.iter().zip(expected) {
            assert!((measured - expected).abs() < 1e-9 && *holds == expected_holds, "{told:?}");
        }
        // Fewer pairs are opened sooner, and prove nothing.
        let few = [Row { pairs: Some(200_000), ..rows[3].clone() }];
        assert!(bars(&few).is_empty());
    }
}
