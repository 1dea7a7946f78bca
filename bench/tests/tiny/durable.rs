//! Suite `durable`: what its rows say, and that wrong answers and broken promises are found.

use crate::stores::{Fault, with_other};
use crate::{by, is_positive, of, options, run, run_with};
use bench::choices::Part;
use bench::choices::Suite;
use bench::suite::durable::claims::bars;
use clap::ValueEnum;
use firndex::Engine;

#[test]
fn every_part_has_its_rows() {
    let rows = run(Suite::Durable, "");
    let own = |mode: &str| format!("{}-{mode}", Engine::ALL[0]);
    for op in ["append_sync", "overwrite_sync", "overwrite_direct"] {
        assert!(is_positive(by(&rows, "machine", op)[0].p999_ns), "{op}");
    }
    for mode in ["commit", "periodic"] {
        let threads = |op: &str| -> Vec<_> {
            let found = by(&rows, &own(mode), op);
            assert!(found.iter().all(|row| is_positive(row.ratio) && row.promise.is_some()));
            found.iter().map(|row| (row.threads.unwrap(), row.batch)).collect()
        };
        assert_eq!(threads("put"), [1, 2, 16, 64].map(|threads| (threads, None)));
        assert_eq!(threads("put_many"), [1, 2].map(|threads| (threads, Some(1000))));
    }
    for op in ["insert", "update", "update_many", "remove", "insert_many"] {
        let [without, with] = ["process", "periodic"].map(|mode| by(&rows, &own(mode), op)[0]);
        assert!(is_positive(without.cpu_ns) && without.cpu_ratio.is_none(), "{without:?}");
        assert!(is_positive(with.cpu_ratio) && is_positive(with.ratio), "{with:?}");
        assert_eq!(with.batch, op.ends_with("_many").then_some(32));
    }
    for op in ["get_beside_writer", "get_checkpointing"] {
        assert!(is_positive(by(&rows, &own("periodic"), op)[0].ratio), "{op}");
    }
    for op in ["update_checkpointing", "update_opened"] {
        assert!(is_positive(of(&rows, op)[0].max_ns), "{op}");
    }
    let written = by(&rows, &own("periodic"), "written")[0].bytes_per_pair.unwrap();
    // A record of two words has four.
    assert!(written > 32.0, "{written}");
    assert!(rows.iter().all(|row| row.medium.as_deref() == Some("disk")));
    // All but those that take peers.
    assert_eq!(bars(&rows).len(), 11);
}

#[test]
fn parts_are_chosen_and_pools_may_lie_elsewhere() {
    for part in Part::value_variants() {
        let name = part.to_possible_value().unwrap();
        let rows = run(Suite::Durable, &format!("--pools /dev/shm --parts {}", name.get_name()));
        let own = rows.iter().filter(|row| row.contender != "machine").count();
        let rows_of =
            [(Part::Puts, 12), (Part::Periodic, 10), (Part::LookUps, 4), (Part::Bytes, 9)];
        let expected = rows_of.iter().find(|(of, _)| of == part).map_or(2, |(_, rows)| *rows);
        assert_eq!(own, expected, "{part:?}");
    }
}

#[test]
fn other_authors_maps_are_held_against_the_mode_of_their_promise() {
    let mut rows =
        run_with(Suite::Durable, &options("--parts puts"), &with_other(Fault::None)).unwrap();
    let threads: Vec<_> =
        by(&rows, &format!("{:?}", Fault::None), "put").iter().map(|row| row.threads).collect();
    assert_eq!(threads, [Some(1), Some(2)]);
    // The bar names two of them.
    let is_held = |rows: &[_]| {
        bars(rows).iter().any(|bar| bar.of == "commit, batches, to the best of redb and LMDB")
    };
    assert!(!is_held(&rows));
    for row in rows.iter_mut().filter(|row| row.contender == format!("{:?}", Fault::None)) {
        row.contender = "redb".into();
    }
    assert!(is_held(&rows));
    let error = run_with(Suite::Durable, &options("--parts puts"), &with_other(Fault::ForgetsKeys))
        .unwrap_err();
    assert!(format!("{error:#}").contains("ForgetsKeys"), "{error:#}");
}
