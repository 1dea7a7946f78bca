//! Compares this suite's rows with the bars that it was set.

use crate::bar::Bar;
use crate::row::Row;

struct Rows<'a>(&'a [Row]);

impl Rows<'_> {
    fn find(
        &self,
        op: &str,
        mode: &str,
        threads: usize,
        figure: impl Fn(&Row) -> Option<f64>,
    ) -> Option<f64> {
        let is_it = |row: &&Row| {
            row.op == op && row.contender.ends_with(mode) && row.threads == Some(threads)
        };
        self.0.iter().filter(is_it).find_map(figure)
    }

    /// The rate of batches in units of that of the best B-tree with the same promise.
    fn beside_b_trees(&self, mode: &str) -> Option<f64> {
        let own = self.find("put_many", mode, 1, |row| row.ops_per_s)?;
        let promise = |row: &&Row| row.contender.ends_with(mode);
        let promise = self.0.iter().filter(promise).find_map(|row| row.promise)?;
        let is_peer = |row: &&Row| {
            row.op == "put_many"
                && row.promise == Some(promise)
                && ["redb", "lmdb"].contains(&row.contender.as_str())
        };
        let best = self.0.iter().filter(is_peer).filter_map(|row| row.ops_per_s);
        best.reduce(f64::max).map(|best| own / best)
    }
}

/// All bars for which there are rows.
pub fn bars(rows: &[Row]) -> Vec<Bar> {
    let rows = &Rows(rows);
    let cpu = |op| rows.find(op, "-periodic", 1, |row| row.cpu_ratio);
    let ratio = |op, mode, threads| rows.find(op, mode, threads, |row| row.ratio);
    let longest = rows.find("update_checkpointing", "-periodic", 1, |row| row.max_ns);
    let block = rows.find("overwrite_direct", "machine", 1, |row| row.p999_ns);
    let beyond_ms = longest.zip(block).map(|(longest, block)| (longest - block) / 1e6);
    let written = rows.find("written", "-periodic", 1, |row| row.bytes_per_pair);
    let all = [
        Bar::at_most("update, processor time with a log to without", 1.15, cpu("update")),
        Bar::at_most("remove, the same", 1.15, cpu("remove")),
        Bar::at_most("update_many, the same", 1.15, cpu("update_many")),
        Bar::at_most("insert_many, the same", 1.15, cpu("insert_many")),
        Bar::at_most("insert, the same", 1.4, cpu("insert")),
        Bar::at_least("commit, 1 thread, in blocks written", 0.75, ratio("put", "-commit", 1)),
        Bar::at_least("commit, 64 threads, in blocks written", 9.0, ratio("put", "-commit", 64)),
        Bar::at_least(
            "commit, batches, to the best of redb and LMDB",
            20.0,
            rows.beside_b_trees("-commit"),
        ),
        Bar::at_least("look-ups while logging", 0.95, ratio("get_beside_writer", "-periodic", 1)),
        Bar::at_least(
            "look-ups while checkpointing",
            0.8,
            ratio("get_checkpointing", "-periodic", 1),
        ),
        Bar::at_most("longest update beyond the disk's p99.9, ms", 10.0, beyond_ms),
        Bar::at_most("bytes written per put", 120.0, written),
    ];
    all.into_iter().flatten().collect()
}
