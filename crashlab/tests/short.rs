//! Short random runs on every engine, the pool, the heap and the classic tables. The directed histories, which do
//! more, are run by the tests in `broken.rs`.

use crashlab::campaign::Campaign;
use crashlab::target::Target;
use engines::Engine;
use std::time::Duration;
use workload::effort;

fn campaign(target: Target, threads: usize, ops: usize, histories: u64) -> Campaign {
    let (time, seed, directed, sites, workers) = (None, 1, false, false, 2);
    let directed_one_in = 1;
    Campaign {
        target,
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
fn crash(target: Target) {
    let histories = target.effort().histories_in_tests / effort::of(1, 2);
    for (threads, seed) in [(2, 1), (3, 1 << 32)] {
        let campaign = Campaign { seed, ..campaign(target, threads, 3, histories) };
        let report = campaign.run(&|_| {});
        let violations: String = report.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations}");
        // With a line log there are images where an epoch is closed, and nowhere else.
        let images_min =
            if target == Target::Log { 2 * histories } else { 5_000 / effort::of(1, 2) };
        assert!(report.counters.images > images_min, "{:?}", report.counters);
        assert_eq!(report.counters.histories, histories);
    }
}

#[test]
fn the_pool_survives() {
    crash(Target::Pool);
}

#[test]
fn the_heap_survives() {
    crash(Target::Heap);
}

#[test]
fn the_classic_tables_survive() {
    crash(Target::Baselines);
}

#[test]
fn the_tables_for_threads_survive() {
    crash(Target::Threaded);
}

#[test]
fn what_a_line_log_leaves_survives() {
    crash(Target::Log);
}

#[test]
fn what_guests_see_survives() {
    crash(Target::Guests);
}

macro_rules! engines_survive {
    ($($engine:ident $module:ident,)+) => {
        $(mod $module {
            #[test]
            fn survives() {
                super::crash(super::Target::Engine(super::Engine::$engine));
            }
        })+
    };
}
engines::for_each_engine!(engines_survive);

#[test]
fn a_run_ends_in_time_and_repeats_itself() {
    let timed = Campaign { time: Some(Duration::ZERO), ..campaign(Target::Pool, 2, 3, u64::MAX) };
    timed.run(&|_| {});
    // One worker: which of several meets an image first is not determined.
    let once = || Campaign { workers: 1, ..campaign(Target::Pool, 2, 3, 50) }.run(&|_| {}).counters;
    assert_eq!(once(), once());
}
