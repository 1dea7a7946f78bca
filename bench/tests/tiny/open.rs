//! Suite `open`: what its rows say, and that wrong answers and broken promises are found.

use crate::stores::{Fault, with_other};
use crate::{by, is_positive, of, options, run, run_with};
use bench::Row;
use bench::choices::Suite;
use bench::suite::open::claims::bars;
use firndex::Engine;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn own(mode: &str) -> String {
    format!("{}-{mode}", Engine::ALL[0])
}

const TIMED: [&str; 10] = [
    "clean_first_get",
    "clean_first_put",
    "clean_put_synced",
    "clean_built",
    "killed_first_get",
    "killed_first_put",
    "killed_put_synced",
    "killed_built",
    "restarts_closed",
    "restarts_killed",
];

#[test]
fn every_state_kind_and_size_has_its_rows() {
    let options = options("--pairs 1k,4k --runs 2");
    let rows = run_with(Suite::Open, &options, &with_other(Fault::None)).unwrap();
    let is_of = |row: &&Row| (row.pairs.unwrap(), row.value_bytes.unwrap());
    for contender in [own("process"), own("periodic"), format!("{:?}", Fault::None)] {
        for op in TIMED {
            let found = by(&rows, &contender, op);
            let all: Vec<_> = found.iter().map(is_of).collect();
            assert_eq!(all, [(1000, 8), (1000, 100), (4000, 8), (4000, 100)], "{op}");
            assert!(found.iter().all(|row| is_positive(row.took_s) && row.spread.is_some()));
        }
        for row in by(&rows, &contender, "at_rest") {
            assert!(row.bytes_per_pair.unwrap() >= 16.0, "{row:?}");
        }
    }
    for op in ["clean_first_get", "clean_first_put", "restarts_killed"] {
        assert!(of(&rows, op).iter().all(|row| row.written_bytes.is_some()), "{op}");
    }
    for op in ["read_files", "power_loss_first_get", "power_loss_first_put", "power_loss_built"] {
        let found = of(&rows, op);
        assert_eq!(found.len(), 4, "{op}");
        assert!(found.iter().all(|row| row.contender == own("periodic")), "{op}");
    }
    let at_rest = by(&rows, &own("process"), "at_rest");
    assert!(at_rest.iter().all(|row| is_positive(row.pool_bytes) && row.beside_bytes == Some(0.0)));
    assert!(by(&rows, &own("periodic"), "at_rest").iter().all(|row| is_positive(row.beside_bytes)));
}

#[test]
fn what_is_chosen_is_measured_and_nothing_else() {
    let arguments =
        "--kinds store --durability process --states killed --restarts 0 --pools /dev/shm";
    let rows = run(Suite::Open, arguments);
    let ops: Vec<&str> = rows.iter().map(|row| row.op.as_str()).collect();
    let killed = ["killed_first_get", "killed_built", "killed_first_put", "killed_put_synced"];
    assert_eq!(ops, ["at_rest"].iter().chain(&killed).copied().collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.contender == own("process")));
    assert!(rows.iter().all(|row| row.value_bytes == Some(100)));
}

#[test]
fn commands_are_held_against_the_start_of_a_process() {
    let directory = tempfile::tempdir().unwrap();
    let command = directory.path().join("firndex");
    // It says what the last of the puts has put.
    fs::write(&command, "#!/bin/sh\n[ \"$1\" = get ] && echo 6\nexit 0\n").unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = options("--states clean --restarts 0 --kinds table --durability process");
    options.command = Some(command.clone());
    let rows = run_with(Suite::Open, &options, &bench::table::engines()).unwrap();
    assert!(is_positive(by(&rows, "machine", "command_start")[0].took_s));
    for op in ["command_put", "command_get"] {
        let row = by(&rows, &own("process"), op)[0];
        assert!(is_positive(row.took_s) && row.written_bytes.is_some(), "{row:?}");
    }
    fs::write(&command, "#!/bin/sh\necho 5\n").unwrap();
    let error = run_with(Suite::Open, &options, &bench::table::engines()).unwrap_err();
    assert!(format!("{error:#}").contains("instead of"), "{error:#}");
}

#[test]
fn wrong_answers_and_broken_promises_make_the_run_fail() {
    for fault in [Fault::SaysNothing, Fault::ChangesValues, Fault::LosesEverything] {
        let options = options(&format!("--restarts 0 --engines {fault:?}"));
        match run_with(Suite::Open, &options, &with_other(fault)) {
            Ok(_) => panic!("it was not seen that a store {fault:?}"),
            Err(error) => assert!(format!("{error:#}").contains(&format!("{fault:?}"))),
        }
    }
}

#[test]
fn bars_compare_the_largest_pool_with_the_smallest() {
    let row = |op: &str, pairs: u64, took_s: f64| Row {
        pairs: Some(pairs),
        step: Some(u32::from(pairs > 1)),
        value_bytes: Some(8),
        took_s: Some(took_s),
        ..Row::new("open", op, own("process"))
    };
    let at_rest = Row { pool_bytes: Some(1e9), beside_bytes: Some(2e9), ..row("at_rest", 1, 0.0) };
    let rows = [
        at_rest,
        Row::new("open", "command_start", "machine"),
        row("clean_first_get", 100, 0.012),
        row("clean_first_get", 1, 0.008),
    ];
    let bars = bars(&rows);
    let told: Vec<_> = bars.iter().map(|bar| ((bar.measured * 10.0).round(), bar.holds)).collect();
    assert_eq!(told, [(120.0, false), (15.0, true), (18.0, false)], "{bars:?}");
}
