//! Rows, sorted for charts.

use super::text::{self, percent, plain, si, time};
use crate::row::Row;

/// A processor's share below which a row is marked.
pub(super) const CPU_SHARE_FAIR: f64 = 0.9;

/// Rows of one key together, keys in the order of their first rows.
pub(super) fn grouped<'a, K: PartialEq>(
    rows: impl IntoIterator<Item = &'a Row>,
    key: impl Fn(&Row) -> K,
) -> Vec<(K, Vec<&'a Row>)> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

/// What rows of one chart share. Durable operations are far slower: they get charts of their own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) medium: Option<String>,
    pub(super) threads: Option<usize>,
    pub(super) is_durable: bool,
}

impl Place {
    pub(super) fn of(row: &Row) -> Place {
        Place {
            medium: row.medium.clone(),
            threads: row.threads,
            is_durable: row.op.ends_with(DURABLE),
        }
    }

    /// As a chart's title.
    pub(super) fn title(&self) -> String {
        let threads = self.threads.map(text::threads);
        let durable = self.is_durable.then(|| "durable: flushes are real".to_owned());
        let parts: Vec<String> =
            [self.medium.clone(), threads, durable].into_iter().flatten().collect();
        if parts.is_empty() { "all".into() } else { parts.join(", ") }
    }
}

const DURABLE: &str = "_durable";

/// Groups of rows that belong in one chart, those that are not durable first.
pub(super) fn places<'a>(rows: &[&'a Row]) -> Vec<(Place, Vec<&'a Row>)> {
    let mut places = grouped(rows.iter().copied(), Place::of);
    places.sort_by_key(|(place, _)| place.is_durable);
    places
}

/// The operation as a chart of one [`Place`] calls it, with the keys per call if there are many.
pub(super) fn op(row: &Row) -> String {
    let op = row.op.strip_suffix(DURABLE).unwrap_or(&row.op);
    match row.batch {
        Some(batch) if batch > 1 => format!("{op} ×{batch}"),
        _ => op.to_owned(),
    }
}

/// The ceiling of all the row's threads together.
pub(super) fn ceiling_of_all(row: &Row) -> Option<f64> {
    row.ceiling.map(|ceiling| ceiling * row.threads.unwrap_or(1) as f64)
}

/// Everything a row says, for those who point at it.
pub(super) fn tip(row: &Row) -> String {
    let place = Place::of(row).title();
    let mut said = vec![format!("{}: {}, {place}", row.contender, op(row))];
    let mut say = |name: &str, value: Option<f64>, format: fn(f64) -> String| {
        said.extend(value.map(|value| format!("{name} {}", format(value))));
    };
    say("operations/s", row.ops_per_s, si);
    say("spread", row.spread, percent);
    say("ceiling of a thread", row.ceiling, si);
    say("ratio", row.ratio, plain);
    say("mean", row.mean_ns, time);
    say("took", row.took_s.map(|took_s| took_s * 1e9), time);
    say("p50", row.p50_ns, time);
    say("p99", row.p99_ns, time);
    say("p99.99", row.p9999_ns, time);
    say("max", row.max_ns, time);
    say("bytes per pair", row.bytes_per_pair, plain);
    say("part without a record", row.log_free, percent);
    say("expansions", row.expansions.map(f64::from), plain);
    say("pairs", row.pairs.map(|pairs| pairs as f64), si);
    say("load factor", row.load_factor, plain);
    say("processor's share", row.cpu_share, percent);
    said.join("; ")
}

/// The row, with figures that are no numbers left out.
pub(super) fn finite(row: &Row) -> Row {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    Row {
        load_factor: finite(row.load_factor),
        ops_per_s: finite(row.ops_per_s),
        spread: finite(row.spread),
        ceiling: finite(row.ceiling),
        ratio: finite(row.ratio),
        mean_ns: finite(row.mean_ns),
        took_s: finite(row.took_s),
        p50_ns: finite(row.p50_ns),
        p99_ns: finite(row.p99_ns),
        p9999_ns: finite(row.p9999_ns),
        max_ns: finite(row.max_ns),
        lines_read: finite(row.lines_read),
        lines_written: finite(row.lines_written),
        blocks_written: finite(row.blocks_written),
        flushes: finite(row.flushes),
        fences: finite(row.fences),
        write_amplification: finite(row.write_amplification),
        log_free: finite(row.log_free),
        bytes_per_pair: finite(row.bytes_per_pair),
        cpu_share: finite(row.cpu_share),
        at_s: finite(row.at_s),
        ..row.clone()
    }
}
