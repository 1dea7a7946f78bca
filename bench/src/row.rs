//! The results of a run, row by row.

use pmem::medium::{Cost, MediaWrites};
use serde::Serialize;

/// One figure with what it belongs to. `None`, `null` in JSON: does not apply.
///
/// Costs (`lines_read` to `fences`) are means per operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// The suite that measured it.
    pub suite: &'static str,
    /// The operation; with the suffix `_durable` if flushes are real.
    pub op: String,
    /// Who did it: an engine under its command-line name (in suite `level` followed by its variant, as in
    /// `level-static`), a peer, or `machine` for ceilings.
    pub contender: String,
    /// The medium it lay on.
    pub medium: Option<String>,
    /// Threads at once.
    pub threads: Option<usize>,
    /// Keys per call.
    pub batch: Option<usize>,
    /// Pairs stored when the row's operation had been done.
    pub pairs: Option<u64>,
    /// Taken slots per slot at that time.
    pub load_factor: Option<f64>,
    /// Operations a second, all threads together; the median over the rounds.
    pub ops_per_s: Option<f64>,
    /// Largest less smallest of the rounds' `ops_per_s`, or of `took_s` where there is no rate, as a fraction of the
    /// median.
    pub spread: Option<f64>,
    /// The ceiling in operations a second and thread. For look-ups and unflushed changes it is half the random lines
    /// that a thread reads a second with 16 in flight, while as many threads read. For durable changes it is the
    /// persists that a thread does a second.
    pub ceiling: Option<f64>,
    /// `ops_per_s` per thread, in units of the ceiling; the median over the rounds. Suite `durable` defines it
    /// differently.
    pub ratio: Option<f64>,
    /// Part of the look-ups that found their key in a cache.
    pub hit_ratio: Option<f64>,
    /// The cache's bound in percent of the working set.
    pub cache_percent: Option<u32>,
    /// Bytes per pair beside those of its key and value.
    pub beside_bytes_per_pair: Option<f64>,
    /// Processor time per operation: of the whole process, or of the row's thread if others do something else.
    pub cpu_ns: Option<f64>,
    /// Processor time with a log, in units of that without a log.
    pub cpu_ratio: Option<f64>,
    /// Checkpoints made meanwhile.
    pub checkpoints: Option<f64>,
    /// What power loss leaves of the operations that have returned.
    pub promise: Option<&'static str>,
    /// Bytes of a value, if a suite has values of several sizes.
    pub value_bytes: Option<usize>,
    /// What SIGKILL leaves of the operations that have returned.
    pub after_kill: Option<&'static str>,
    /// Part of the pairs that survived SIGKILL, of those whose puts had returned.
    pub kept: Option<f64>,
    /// Mean latency: the time of all threads together per operation, by one clock for all.
    pub mean_ns: Option<f64>,
    /// How long one thing took as a whole, in seconds.
    pub took_s: Option<f64>,
    /// Median latency.
    pub p50_ns: Option<f64>,
    /// Latency that 1 operation in 100 exceeds.
    pub p99_ns: Option<f64>,
    /// Latency that 1 operation in 1,000 exceeds.
    pub p999_ns: Option<f64>,
    /// Latency that 1 operation in 10,000 exceeds.
    pub p9999_ns: Option<f64>,
    /// Longest latency.
    pub max_ns: Option<f64>,
    /// Processor time that no operation exceeded, except those near a page fault: what the longest can have taken by
    /// itself.
    pub own_max_ns: Option<f64>,
    /// How often threads waited for something, such as a lock.
    pub waits: Option<f64>,
    /// Lines of the pool loaded from.
    pub lines_read: Option<f64>,
    /// Lines of the pool stored to.
    pub lines_written: Option<f64>,
    /// Media blocks of 256 bytes written, after write combining.
    pub blocks_written: Option<f64>,
    /// Flushes.
    pub flushes: Option<f64>,
    /// Fences.
    pub fences: Option<f64>,
    /// Bytes the media write per byte of lines written back.
    pub write_amplification: Option<f64>,
    /// Part of the updates that wrote no log record.
    pub log_free: Option<f64>,
    /// Bytes that the kernel charged to a process.
    pub written_bytes: Option<f64>,
    /// Bytes that the device below the files wrote meanwhile, for whoever asked.
    pub device_bytes: Option<f64>,
    /// Bytes of a pool's file.
    pub pool_bytes: Option<f64>,
    /// Bytes of all files beside it.
    pub beside_bytes: Option<f64>,
    /// Bytes per pair, everything included.
    pub bytes_per_pair: Option<f64>,
    /// Writes, counted as the suite's paper counts them.
    pub writes: Option<f64>,
    /// Part of the slots that are in a stash.
    pub stashed: Option<f64>,
    /// The paper's figure for the row: writes, or bytes per pair.
    pub paper: Option<f64>,
    /// Part of the look-ups that read nothing in the pool.
    pub from_cache: Option<f64>,
    /// Part of the time that the threads had a processor. If it is well below 1, others used the machine.
    pub cpu_share: Option<f64>,
    /// Seconds from the beginning of the measurement, for rows of a series.
    pub at_s: Option<f64>,
    /// Which row of a series, from 0.
    pub step: Option<u32>,
    /// Expansions of the table so far, including the one that the row is about.
    pub expansions: Option<u32>,
    /// Pairs in each level.
    pub level_pairs: Option<Vec<u64>>,
}

impl Row {
    /// A row of this suite, operation and contender, with everything else open.
    pub fn new(suite: &'static str, op: impl Into<String>, contender: impl Into<String>) -> Row {
        Row { suite, op: op.into(), contender: contender.into(), ..Row::default() }
    }

    /// Whether `other` measures the same thing in another round.
    pub fn is_of(&self, other: &Row) -> bool {
        self.suite == other.suite
            && self.op == other.op
            && self.contender == other.contender
            && self.medium == other.medium
            && self.threads == other.threads
            && self.batch == other.batch
            && self.step == other.step
            && self.value_bytes == other.value_bytes
            && self.cache_percent == other.cache_percent
    }

    /// Sets the cost of each of `ops` operations. `media` is what the media wrote for all of them.
    #[must_use]
    pub fn with_costs(self, ops: u64, cost: Cost, media: MediaWrites) -> Row {
        let mean = |count: u64| Some(count as f64 / ops.max(1) as f64);
        Row {
            lines_read: mean(cost.lines_read),
            lines_written: mean(cost.lines_written),
            blocks_written: mean(media.block_writes),
            flushes: mean(cost.flushes),
            fences: mean(cost.fences),
            write_amplification: (media.line_write_backs > 0).then(|| media.amplification()),
            ..self
        }
    }

    /// Sets the rate, and its ratio to a ceiling per thread.
    #[must_use]
    pub fn with_rate(mut self, ops_per_s: f64, ceiling: Option<f64>) -> Row {
        self.ops_per_s = Some(ops_per_s);
        self.ceiling = ceiling;
        let per_thread = ops_per_s / self.threads.unwrap_or(1) as f64;
        self.ratio = ceiling.map(|ceiling| per_thread / ceiling);
        self
    }
}

/// One row for each thing measured: the median of its rounds in every field. Warm-ups come last.
pub fn merge(rounds: Vec<Row>) -> Vec<Row> {
    let mut groups: Vec<Vec<Row>> = Vec::new();
    for row in rounds {
        match groups.iter_mut().find(|group| group[0].is_of(&row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let mut rows: Vec<Row> = groups.iter().map(|group| median_of(group)).collect();
    // What only prepares is not what a reader looks for first.
    rows.sort_by_key(|row| row.op.starts_with(WARM_UP));
    rows
}

/// Begins the names of operations that warm a map up.
const WARM_UP: &str = "warm_up";

fn median_of(group: &[Row]) -> Row {
    let median_by = |field: fn(&Row) -> Option<f64>| {
        let mut values: Vec<f64> = group.iter().filter_map(field).collect();
        median(&mut values)
    };
    let ops_per_s = median_by(|row| row.ops_per_s);
    let figures: Vec<f64> = group.iter().filter_map(|row| row.ops_per_s.or(row.took_s)).collect();
    let (least, most) = figures
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(least, most), &one| (least.min(one), most.max(one)));
    Row {
        ops_per_s,
        // One round has none.
        spread: ops_per_s
            .or(median_by(|row| row.took_s))
            .filter(|median| *median > 0.0 && figures.len() > 1)
            .map(|median| (most - least) / median),
        load_factor: median_by(|row| row.load_factor),
        ceiling: median_by(|row| row.ceiling),
        ratio: median_by(|row| row.ratio),
        hit_ratio: median_by(|row| row.hit_ratio),
        beside_bytes_per_pair: median_by(|row| row.beside_bytes_per_pair),
        cpu_ns: median_by(|row| row.cpu_ns),
        cpu_ratio: median_by(|row| row.cpu_ratio),
        checkpoints: median_by(|row| row.checkpoints),
        kept: median_by(|row| row.kept),
        mean_ns: median_by(|row| row.mean_ns),
        took_s: median_by(|row| row.took_s),
        p50_ns: median_by(|row| row.p50_ns),
        p99_ns: median_by(|row| row.p99_ns),
        p999_ns: median_by(|row| row.p999_ns),
        p9999_ns: median_by(|row| row.p9999_ns),
        max_ns: median_by(|row| row.max_ns),
        own_max_ns: median_by(|row| row.own_max_ns),
        waits: median_by(|row| row.waits),
        lines_read: median_by(|row| row.lines_read),
        lines_written: median_by(|row| row.lines_written),
        blocks_written: median_by(|row| row.blocks_written),
        flushes: median_by(|row| row.flushes),
        fences: median_by(|row| row.fences),
        write_amplification: median_by(|row| row.write_amplification),
        log_free: median_by(|row| row.log_free),
        written_bytes: median_by(|row| row.written_bytes),
        device_bytes: median_by(|row| row.device_bytes),
        pool_bytes: median_by(|row| row.pool_bytes),
        beside_bytes: median_by(|row| row.beside_bytes),
        bytes_per_pair: median_by(|row| row.bytes_per_pair),
        writes: median_by(|row| row.writes),
        stashed: median_by(|row| row.stashed),
        from_cache: median_by(|row| row.from_cache),
        cpu_share: median_by(|row| row.cpu_share),
        at_s: median_by(|row| row.at_s),
        ..group[0].clone()
    }
}

/// The middle value, or the mean of the two; `None` if there are no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_one_thing_become_their_median() {
        let rate = |op: &str, rate: f64| Row {
            threads: Some(2),
            ..Row::new("micro", op, "someone").with_rate(rate, None)
        };
        let ratio = Row { threads: Some(2), ..Row::new("micro", "get_hit", "someone") };
        assert_eq!(ratio.with_rate(10.0, Some(4.0)).ratio, Some(1.25));
        let rounds = vec![
            rate("insert", 10.0),
            rate("get_hit", 5.0),
            rate("insert", 40.0),
            rate("get_hit", 7.0),
            rate("insert", 20.0),
        ];
        let merged = merge(rounds);
        assert_eq!(merged.len(), 2);
        assert_eq!((merged[0].ops_per_s, merged[0].spread), (Some(20.0), Some(1.5)));
        assert_eq!(merged[1].ops_per_s, Some(6.0));
    }

    #[test]
    fn one_round_has_no_spread_and_warm_ups_come_last() {
        let row = |op: &str| Row::new("micro", op, "someone").with_rate(7.0, None);
        let merged =
            merge(vec![row("warm_up"), row("insert"), row("warm_up_durable"), row("get_hit")]);
        let ops: Vec<&str> = merged.iter().map(|row| row.op.as_str()).collect();
        assert_eq!(ops, ["insert", "get_hit", "warm_up", "warm_up_durable"]);
        assert!(merged.iter().all(|row| row.spread.is_none()));
    }
}
