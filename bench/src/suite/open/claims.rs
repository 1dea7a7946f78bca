//! Compares this suite's rows with the bars that it was set.

use crate::bar::Bar;
use crate::row::Row;

/// Most bytes of one put by command.
const COMMAND_PUT_BYTES: f64 = 1e6;
/// Most milliseconds of a put by command beyond the start of a process, and of a get.
const COMMAND_PUT_MS: f64 = 30.0;
const COMMAND_GET_MS: f64 = 10.0;
/// Most milliseconds until a first answer.
const FIRST_MS: f64 = 10.0;
/// The largest pool's figure in units of the smallest one's, at most.
const GROWTH: f64 = 2.0;
/// Bytes beside a pool: this part of it, and so much.
const BESIDE_PART: f64 = 1.05;
const BESIDE_BYTES: f64 = (64 << 20) as f64;
/// An opening after power loss, in units of the time that reading log and checkpoints takes, at most.
const TO_READING: f64 = 3.0;

/// The rows of one of firndex's contenders and one size of values.
struct Own<'a> {
    name: String,
    rows: Vec<&'a Row>,
}

impl Own<'_> {
    /// The figure of an operation at the smallest and at the largest size.
    fn ends(&self, op: &str, figure: impl Fn(&Row) -> Option<f64>) -> Option<(f64, f64)> {
        let mut rows: Vec<&&Row> = self.rows.iter().filter(|row| row.op == op).collect();
        rows.sort_by_key(|row| row.pairs);
        let figure = |row: Option<&&&Row>| row.and_then(|row| figure(row));
        figure(rows.first()).zip(figure(rows.last()))
    }

    fn has_sizes(&self) -> bool {
        self.rows.iter().any(|row| row.step > Some(0))
    }

    fn bars(&self, start_s: Option<f64>) -> Vec<Bar> {
        let Own { name, .. } = self;
        let mut all = Vec::new();
        let mut pair = |of: String, bound: f64, ends: Option<(f64, f64)>| {
            let (small, large) = ends.unzip();
            all.push(Bar::at_most(format!("{name}, {of}"), bound, large));
            if self.has_sizes() {
                // Nothing is written to a disk for files in /dev/shm.
                let small = small.filter(|small| *small > 0.0);
                let growth = large.zip(small).map(|(large, small)| large / small);
                let of = format!("{name}, {of}, to the smallest");
                all.push(Bar::at_most(of, GROWTH, growth));
            }
        };
        let took = |op: &str| self.ends(op, |row| Some(row.took_s? * 1e3));
        let beyond = |op: &str| self.ends(op, |row| Some((row.took_s? - start_s?) * 1e3));
        // Each may count too much, and neither too little.
        let wrote =
            |row: &Row| Some(row.written_bytes?.min(row.device_bytes.unwrap_or(f64::INFINITY)));
        let written = self.ends("command_put", wrote);
        pair("put by command, bytes".into(), COMMAND_PUT_BYTES, written);
        let beyond_put = beyond("command_put");
        pair("put by command, ms beyond a start".into(), COMMAND_PUT_MS, beyond_put);
        pair("get by command, ms beyond a start".into(), COMMAND_GET_MS, beyond("command_get"));
        for state in ["clean", "killed"] {
            for op in ["first_get", "first_put"] {
                let op = format!("{state}_{op}");
                let ends = took(&op);
                pair(format!("{op}, ms"), FIRST_MS, ends);
            }
        }
        let room =
            |row: &Row| Some(row.beside_bytes? / (row.pool_bytes? * BESIDE_PART + BESIDE_BYTES));
        let beside = self.ends("at_rest", room).map(|(_, large)| large);
        all.push(Bar::at_most(
            format!("{name}, beside the pool, in units of what may be"),
            1.0,
            beside,
        ));
        let read = self.ends("power_loss_first_get", |row| row.ratio).map(|(_, large)| large);
        all.push(Bar::at_most(
            format!("{name}, opening after power loss to reading"),
            TO_READING,
            read,
        ));
        all.into_iter().flatten().collect()
    }
}

/// All bars for which there are rows.
pub fn bars(rows: &[Row]) -> Vec<Bar> {
    let start_s = rows.iter().find(|row| row.op == "command_start").and_then(|row| row.took_s);
    let mut all: Vec<Own<'_>> = Vec::new();
    // Only firndex's pools tell what is beside them.
    let is_own = |row: &&Row| row.op == "at_rest" && row.pool_bytes.is_some();
    for at_rest in rows.iter().filter(is_own) {
        let bytes = at_rest.value_bytes.unwrap_or(0);
        let name = format!("{}, values of {bytes} bytes", at_rest.contender);
        let is_its = |row: &&Row| {
            row.contender == at_rest.contender && row.value_bytes == at_rest.value_bytes
        };
        if !all.iter().any(|own| own.name == name) {
            all.push(Own { name, rows: rows.iter().filter(is_its).collect() });
        }
    }
    all.iter().flat_map(|own| own.bars(start_s)).collect()
}
