//! What IcebergHT costs by suite `writes`, and how far it fills.

use crate::{by, of, run};
use bench::Row;
use bench::choices::Suite;

const NAME: &str = "iceberg";

/// Fingerprints are in the sidecar, the pair in one line, and batches share fences.
#[test]
fn lines_and_fences() {
    let rows = run(Suite::Writes, "");
    let figure = |op, figure: fn(&Row) -> Option<f64>| figure(by(&rows, NAME, op)[0]).unwrap();
    let lines_read = |op| figure(op, |row| row.lines_read);
    assert!(lines_read("get_hit") >= 0.9 && lines_read("get_miss") < 1.0);
    let fences = |op| figure(op, |row| row.fences);
    let (single, batch) = (fences("insert"), fences("insert_many"));
    assert!(batch < single / 4.0, "batches share fences: {batch} beside {single}");
}

#[test]
fn it_takes_as_much_as_is_asked_for() {
    let rows = run(Suite::LoadFactor, "--pairs 20k --threads 1");
    assert!(of(&rows, "full").iter().all(|row| row.contender != NAME));
}
