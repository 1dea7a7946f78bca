//! Suite `values`: what its rows say, and that wrong answers and broken promises are found.

use crate::stores::{FAULTS, Fault, with_other};
use crate::{by, engines, has_rate, is_positive, of, options, run, run_with};
use bench::Row;
use bench::choices::Suite;
use bench::suite::values::claims::{bars, beside};
use firndex::Engine;

const OPS: [&str; 5] = ["load", "get", "miss", "overwrite", "remove"];

#[test]
fn every_size_has_its_rows() {
    let options = options("--value-bytes 1,100,5000 --batch 7");
    let rows = run_with(Suite::Values, &options, &with_other(Fault::None)).unwrap();
    let own = Engine::ALL[0].name();
    let other = format!("{:?}", Fault::None);
    for contender in [own, &other] {
        let sizes = |op: &str| -> Vec<_> {
            by(&rows, contender, op).iter().map(|row| row.value_bytes.unwrap()).collect()
        };
        for op in OPS {
            assert_eq!(sizes(op), [1, 100, 5000], "{op}");
            assert!(by(&rows, contender, op).into_iter().all(has_rate), "{op}");
        }
        for op in ["open_after_kill", "first_get"] {
            assert_eq!(sizes(op), [1, 100, 5000], "{op}");
            assert!(by(&rows, contender, op).iter().all(|row| is_positive(row.took_s)), "{op}");
        }
        for row in by(&rows, contender, "open_after_kill") {
            assert_eq!((row.kept, row.after_kill), (Some(1.0), Some("every put")));
        }
        for row in by(&rows, contender, "on_disk") {
            let least = 16 + row.value_bytes.unwrap();
            assert!(row.bytes_per_pair.unwrap() >= least as f64, "{row:?}");
        }
        assert_eq!(by(&rows, contender, "load")[0].pairs, Some(4000));
        assert_eq!(by(&rows, contender, "remove")[0].pairs, Some(2000));
    }
    let many = of(&rows, "get_many");
    assert!(many.iter().all(|row| row.contender == own && row.batch == Some(7)));
    assert!(rows.iter().all(|row| row.suite == "values" && row.threads == Some(1)));
}

#[test]
fn rates_are_held_against_the_fastest_peer_and_the_bars() {
    let row = |contender: &str, op: &str, rate: f64| Row {
        value_bytes: Some(100),
        ..Row::new("values", op, contender).with_rate(rate, None)
    };
    let own = Engine::ALL[0].name();
    let rows = [
        row(own, "get", 12.0),
        row(own, "get_many", 24.0),
        row("lmdb-nosync", "get", 2.0),
        row("slow", "get", 1.0),
        Row { value_bytes: Some(8), ..row("other", "get", 100.0) },
    ];
    let beside = beside(&rows);
    assert_eq!(beside.len(), 1, "nobody else has batches: {beside:?}");
    assert_eq!((beside[0].times, &*beside[0].peer.contender), (6.0, "lmdb-nosync"));
    let bars = bars(&rows);
    let told: Vec<_> = bars.iter().map(|bar| (bar.measured, bar.holds)).collect();
    assert_eq!(told, [(6.0, true), (2.0, false)], "{bars:?}");
}

#[test]
fn suite_store_ends_with_it_and_all_engines_may_be_named() {
    let all: Vec<&str> = engines().collect();
    let arguments = format!("--threads 1 --flushes none --engines {}", all.join(","));
    let rows = run(Suite::Store, &format!("{arguments} --value-bytes 100"));
    for engine in engines() {
        assert!(by(&rows, engine, "load").iter().all(|row| row.suite == "values"));
    }
    let with_peers = run(Suite::Store, "--peers --value-bytes 100");
    assert!(with_peers.iter().all(|row| row.suite == "values"));
    assert!(with_peers.iter().all(|row| row.contender == Engine::ALL[0].name()));
}

#[test]
fn stores_have_no_more_bytes_than_a_run_can_bear() {
    assert_eq!(bench::suite::values::pairs(5_000_000, 100), 5_000_000);
    assert!(bench::suite::values::pairs(5_000_000, 10_000) < 110_000);
}

#[test]
fn wrong_answers_and_broken_promises_make_the_run_fail() {
    for fault in FAULTS {
        let options = options(&format!("--value-bytes 20 --engines {fault:?}"));
        match run_with(Suite::Values, &options, &with_other(fault)) {
            Ok(_) => panic!("it was not seen that a store {fault:?}"),
            Err(error) => assert!(format!("{error:#}").contains(&format!("{fault:?}"))),
        }
    }
}

/// What is measured, and may be what is started once more.
pub(crate) fn all() -> Vec<Box<dyn bench::Contender>> {
    let mut contenders = with_other(Fault::None);
    contenders.extend(FAULTS.map(crate::stores::other));
    contenders.extend(crate::cache::all());
    contenders
}
