//! Compares the rows of firndex's stores with those of others, and with the bars that the suite was set.

use super::rows::NAME;
use crate::bar::Bar;
use crate::row::Row;
use firndex::Engine;
use std::io::{self, Write};

/// Size of the values that the bars are about.
const BAR_BYTES: usize = 100;
/// The peer that the bars are about: LMDB without sync, 1,000 puts a transaction.
const BAR_PEER: &str = "lmdb-nosync";
/// Rows that are compared.
const OPS: [&str; 6] = ["load", "get", "get_many", "miss", "overwrite", "remove"];

/// One of firndex's rates, compared with that of the fastest peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside<'a> {
    /// The row of an engine.
    pub own: &'a Row,
    /// The row of the peer with the highest rate of the operation.
    pub peer: &'a Row,
    /// The engine's rate in units of the peer's.
    pub times: f64,
}

fn is_own(row: &Row) -> bool {
    row.contender.parse::<Engine>().is_ok()
}

/// All comparisons, in the order of the rows.
pub fn beside(rows: &[Row]) -> Vec<Beside<'_>> {
    let of_engines = rows.iter().filter(|row| is_own(row) && OPS.contains(&row.op.as_str()));
    of_engines
        .filter_map(|own| {
            let is_peer =
                |row: &&Row| !is_own(row) && row.op == own.op && row.value_bytes == own.value_bytes;
            let rate = |row: &Row| row.ops_per_s.unwrap_or(0.0);
            let peers = rows.iter().filter(is_peer);
            let peer = peers.max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
            Some(Beside { own, peer, times: rate(own) / rate(peer) })
        })
        .collect()
}

/// All bars for which there are rows, for the default engine.
pub fn bars(rows: &[Row]) -> Vec<Bar> {
    let rate = |contender: &str, op: &str| {
        let is_it = |row: &&Row| {
            row.suite == NAME
                && row.contender == contender
                && row.op == op
                && row.value_bytes == Some(BAR_BYTES)
        };
        rows.iter().find(is_it).and_then(|row| row.ops_per_s)
    };
    let own = |op: &str| rate(Engine::ALL[0].name(), op);
    let to_peer = |op: &str| Some(own(op)? / rate(BAR_PEER, op)?);
    let to_single = own("get_many").zip(own("get")).map(|(many, single)| many / single);
    let all = [
        Bar::at_least("load, values of 100 bytes, to lmdb-nosync", 8.0, to_peer("load")),
        Bar::at_least("get, the same", 6.0, to_peer("get")),
        Bar::at_least("miss, the same", 15.0, to_peer("miss")),
        Bar::at_least("overwrite, the same", 8.0, to_peer("overwrite")),
        Bar::at_least("get_many to get, values of 100 bytes", 2.5, to_single),
    ];
    all.into_iter().flatten().collect()
}

/// Prints the comparisons and bars.
pub(crate) fn print(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    for Beside { own, peer, times } in beside(rows) {
        let (op, engine, bytes) = (&own.op, &own.contender, own.value_bytes.unwrap_or(0));
        let peer = &peer.contender;
        writeln!(out, "{op}, values of {bytes} bytes: {engine} {times:.2} times {peer}")?;
    }
    Bar::print(&bars(rows), out)
}
