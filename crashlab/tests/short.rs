//! Short random runs on every engine, the pool and the heap. The directed histories, which do
//! more, are run by the tests in `broken.rs`.

use crashlab::campaign::Campaign;
use crashlab::engine::Engine;
use crashlab::execution::prepare;
use crashlab::machine::alone;
use crashlab::setups;
use crashlab::subject::{LongKey, LongValue, Pairs, PairsSubject, Setup};
use engines::clevel::ClevelTable;
use engines::iceberg::Iceberg;
use engines::level::LevelHashing;
use index::Fixed;
use pmem::medium::sim::Sim;
use std::time::Duration;

fn campaign(engine: Engine, threads: usize, ops: usize, histories: u64) -> Campaign {
    let (time, seed, directed, sites, workers) = (None, 1, false, false, 2);
    let directed_one_in = 1;
    Campaign {
        engine,
        threads,
        ops,
        histories,
        time,
        seed,
        directed,
        directed_one_in,
        sites,
        workers,
    }
}

/// Random histories of two and of three threads.
fn crash(engine: Engine, histories: u64) {
    for (threads, seed) in [(2, 1), (3, 1 << 32)] {
        let campaign = Campaign { seed, ..campaign(engine, threads, 3, histories) };
        let report = campaign.run(&|_| {});
        let violations: String = report.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations}");
        assert!(report.counters.images > 5_000, "{:?}", report.counters);
        assert_eq!(report.counters.histories, histories);
    }
}

#[test]
fn the_pool_survives() {
    crash(Engine::Pool, 400);
}

#[test]
fn the_heap_survives() {
    crash(Engine::Heap, 400);
}

#[test]
fn iceberg_survives() {
    crash(Engine::Iceberg, 600);
}

#[test]
fn level_survives() {
    crash(Engine::Level, 300);
}

#[test]
fn clevel_survives() {
    crash(Engine::Clevel, 100);
}

#[test]
fn a_run_ends_in_time_and_repeats_itself() {
    let timed = Campaign { time: Some(Duration::ZERO), ..campaign(Engine::Pool, 2, 3, u64::MAX) };
    timed.run(&|_| {});
    // One worker: which of several meets an image first is not determined.
    let once = || Campaign { workers: 1, ..campaign(Engine::Pool, 2, 3, 50) }.run(&|_| {}).counters;
    assert_eq!(once(), once());
}

/// What is in each level when the histories of a setup begin, and whether a resize is under way.
type Boundary = (&'static str, [u64; 3], bool);

fn boundary<K: Fixed, V: Fixed, E: Pairs<K, V>>(setup: &Setup) -> Boundary {
    let table = prepare::<PairsSubject<E, K, V>>(setup, 1).unwrap();
    let occupancy = alone(1, None, || table.occupancy());
    let pairs = [0, 1, 2].map(|level| occupancy.levels[level].pairs);
    (setup.name, pairs, occupancy.resizing)
}

/// The boundaries are where their names say.
#[test]
fn setups_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("key 0", [2, 0, 0], false),
        ("the last free slot of a block", [31, 0, 0], false),
        ("level 1 is full", [32, 0, 0], false),
        ("one free slot in level 2", [32, 3, 0], false),
        ("level 2 is full", [32, 4, 0], false),
        ("level 3 is full", [32, 4, 1], false),
        ("the next insertion doubles the table", [30, 0, 0], false),
        ("two blocks of each level are to be moved", [62, 0, 0], true),
        ("a table that doubles with keys in level 2", [32, 1, 0], false),
        ("a table that doubles with keys in level 3", [32, 2, 1], false),
        ("keys that part when the table doubles", [64, 0, 0], false),
        ("keys with a choice in level 2", [64, 0, 0], false),
        ("blocks of both levels are to be moved", [64, 1, 0], true),
    ];
    let setups = setups::iceberg();
    let found = setups.iter().map(boundary::<u64, u64, Iceberg<Sim>>);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Top, bottom and interim level.
#[test]
fn setups_of_level_hashing_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("the last free slot of a bucket is in two lines", [3, 0, 0], false),
        ("the last free slot is in another line", [4, 0, 0], false),
        ("the top bucket is full", [2, 0, 0], false),
        ("an item of the top level can be moved", [2, 1, 0], false),
        ("an item of the top level can be moved into another line", [11, 4, 0], false),
        ("an item of the bottom level can be moved", [3, 1, 0], false),
        ("an item can be moved from the bottom level to the top level", [1, 1, 0], false),
        ("movements do not help", [1, 1, 0], false),
        ("log-free updates into another line", [3, 0, 0], false),
        ("recorded updates", [3, 0, 0], false),
        ("updates of full buckets", [0, 0, 0], false),
        ("the next insertion expands", [2, 2, 0], false),
        ("an expansion is under way", [0, 3, 2], true),
        ("an expansion of several buckets is under way", [0, 2, 2], true),
        ("an expansion cannot end before the next", [1, 1, 1], true),
        ("a table that can shrink", [1, 2, 0], false),
        ("a table that grows back", [2, 1, 0], false),
        ("keys in buckets of their own", [0, 0, 0], false),
        ("an empty table of long pairs", [0, 0, 0], false),
        ("the last free slot of a long pair is in another line", [2, 0, 0], false),
        ("log-free updates of long pairs into another line", [1, 0, 0], false),
        ("the top bucket of long pairs is full", [2, 0, 0], false),
        ("recorded updates of long pairs", [0, 0, 0], false),
        ("updates of full buckets of long pairs", [0, 0, 0], false),
        ("a long pair of the top level can be moved", [2, 1, 0], false),
        ("the next insertion of a long pair expands", [2, 2, 0], false),
        ("a table of long pairs that can shrink", [1, 2, 0], false),
    ];
    let (words, long) = (setups::level(), setups::level_long());
    let of_words = words.iter().map(boundary::<u64, u64, LevelHashing<Sim>>);
    let of_long = long.iter().map(boundary::<LongKey, LongValue, LevelHashing<Sim, _, _>>);
    let found: Vec<Boundary> = of_words.chain(of_long).collect();
    assert_eq!(found, expected);
}

/// From the front level to the back.
#[test]
fn setups_of_clevel_hashing_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("one empty slot", [7, 8, 0], false),
        ("the next insertion appends a level", [8, 8, 0], false),
        ("no empty slot and no growth", [8, 8, 0], false),
        ("the second insertion is one too many", [2, 16, 0], false),
        ("no space for a level", [8, 8, 0], false),
        ("a level is being drained", [1, 16, 8], true),
        ("the next insertion makes room", [8, 15, 0], false),
        ("a table that can shrink", [1, 3, 0], false),
    ];
    let setups = setups::clevel();
    let found: Vec<Boundary> = setups.iter().map(boundary::<u64, u64, ClevelTable<Sim>>).collect();
    assert_eq!(found, expected);
}
