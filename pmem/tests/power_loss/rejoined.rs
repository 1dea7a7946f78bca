//! Logs of killed processes that go on: what is written for that, and what is found on the device meanwhile.

use crate::crash::{Choice, Crash};
use crate::damage::forge;
use crate::disk::Handle;
use crate::history::{Plan, RESTLESS, Run, Step};
use crate::pool::Words;
use pmem::durability::SafeCopy;
use pmem::durability::disk::Disk;
use std::sync::Arc;

use Step::*;

const PAGE: u64 = 4096;

fn plan(segment_bytes: u64) -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 64,
        seed: 1,
    }
}

/// A process with a checkpoint and so many epochs behind it, whose last operations are not in the log.
fn killed(segment_bytes: u64, epochs: usize) -> Arc<Run> {
    let run = Run::begin(&plan(segment_bytes), None, 0);
    for step in [Keep, Operate, Flush] {
        run.take(step).unwrap();
    }
    for _ in 0..epochs {
        run.take(Operate).unwrap();
        run.sync().unwrap();
        run.take(Provide).unwrap();
    }
    run.take(Operate).unwrap();
    run
}

fn demand_right(run: &Run) {
    let verdict = run.end().0;
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

#[test]
fn a_log_catches_up_with_a_killed_process_and_no_image_is_written() {
    for epochs in 0..12 {
        let next = killed(16 << 10, epochs).next_process();
        next.catch_up_quietly().unwrap();
        let usage = next.steps().unwrap().usage();
        assert_eq!(usage.checkpoints, 0, "after {epochs} epochs");
        // The empty epoch, what differs, and the frame that ends it.
        assert!(usage.written_bytes <= 4 * PAGE, "after {epochs} epochs: {usage:?}");
        let durable = next.steps().unwrap().durable_up_to();
        assert!(durable > 0);
        next.take(Operate).unwrap();
        next.sync().unwrap();
        demand_right(&next);
    }
}

/// Each is killed before it has caught up, at a place of its own, and leaves frames that end no epoch.
#[test]
fn processes_that_are_killed_before_they_have_caught_up_leave_what_was_durable() {
    for epochs in 0..6 {
        let mut run = killed(128 << 10, epochs);
        for turn in 0..6 {
            run = run.next_process();
            // The log begins with what is appended now; two frames and more of it.
            for _ in 0..turn {
                run.take(Operate).unwrap();
                run.take(Flush).unwrap();
            }
            assert_eq!(run.steps().unwrap().durable_up_to(), 0);
        }
        let last = run.next_process();
        last.catch_up_quietly().unwrap();
        assert_eq!(last.steps().unwrap().usage().checkpoints, 0);
        last.sync().unwrap();
        demand_right(&last);
    }
}

/// What is damaged must not become a base, and a log that cannot be read must not go on.
#[test]
fn a_damaged_image_or_log_is_replaced_by_a_copy() {
    for damaged in ["checkpoint.0", "log.1"] {
        let run = killed(16 << 10, 1);
        let next = run.next_process();
        next.disk.damage(damaged, PAGE as usize + 72);
        next.disk.observe(None);
        next.take(Keep).unwrap();
        assert_eq!(next.steps().unwrap().usage().checkpoints, 1, "with a damaged {damaged}");
        next.take(Operate).unwrap();
        next.sync().unwrap();
        let disk = Crash::of_killed(&next.disk.state());
        let safe = pmem::durability::SafeCopy::find(Arc::new(disk)).unwrap().unwrap();
        let words = crate::pool::Words::new();
        safe.restore(&words, &|_, _| ()).unwrap();
        assert_eq!(words.get(), next.fenced(), "with a damaged {damaged}");
    }
}

/// A restoration takes what was logged meanwhile as one epoch, in whatever order it lies.
#[test]
fn what_operations_log_while_the_log_catches_up_is_not_taken_back() {
    for epochs in 0..4 {
        let next = killed(8 << 10, epochs).next_process();
        for _ in 0..5 {
            next.take(Operate).unwrap();
            next.take(Flush).unwrap();
            next.take(Provide).unwrap();
        }
        // Beside the comparison, operations go on.
        next.take(Keep).unwrap();
        assert_eq!(next.steps().unwrap().usage().checkpoints, 0);
        next.sync().unwrap();
        next.take(Merge).unwrap();
        next.sync().unwrap();
        demand_right(&next);
    }
}

/// What a process has written that was killed before it had caught up lies behind the log of the next one, which merges
/// all of that.
#[test]
fn frames_of_a_killed_process_behind_a_merged_log_are_no_damage() {
    for frames in 1..5 {
        let killed = killed(64 << 10, 1).next_process();
        for _ in 0..frames {
            killed.take(OperateLargely).unwrap();
            killed.flush().unwrap();
        }
        let next = killed.next_process();
        next.catch_up_quietly().unwrap();
        assert!(next.merge().unwrap());
        demand_right(&next);
        let disk = Crash::of(&next.disk.state()).disk(&Choice::new());
        let safe = SafeCopy::find(Arc::new(disk)).unwrap().unwrap();
        safe.restore(&Words::new(), &|_, _| ()).unwrap();
    }
}

/// A header may lie, and its checksums fit.
#[test]
fn a_log_does_not_go_on_where_nobody_looks_for_it() {
    for place in [0, 1, 4095, (64 << 10) + PAGE] {
        let run = killed(64 << 10, 1);
        run.sync().unwrap();
        assert!(run.merge().unwrap());
        let disk = Handle(Arc::clone(&run.disk));
        for name in ["checkpoint.0", "checkpoint.1"] {
            let file = disk.open(name).unwrap();
            let mut page = vec![0; PAGE as usize];
            file.read_at(&mut page, 0).unwrap();
            if page.starts_with(b"FIRNSAFE") {
                [15, 19].into_iter().for_each(|sum| forge(&mut page, sum, 7, place));
                file.write_at(&page, 0).unwrap();
                file.sync().unwrap();
            }
        }
        let next = run.next_process();
        next.catch_up_quietly().unwrap();
        next.take(Operate).unwrap();
        next.sync().unwrap();
        demand_right(&next);
    }
}
