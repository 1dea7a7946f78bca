//! The log merged into the checkpoint that it continues.

use crate::crash::{Choice, Crash, CrashedDisk};
use crate::disk::Fault;
use crate::history::{Plan, RESTLESS, Run, Step, Verdict};
use crate::pool::Words;
use pmem::durability::{RestoreError, SafeCopy};
use std::sync::Arc;

use Step::*;

const PAGE: usize = 4096;
/// Pages of the pool.
const PAGES: usize = 2;
/// Operations behind which those that follow change the first page alone, whatever the values before were.
const TO_FIRST_PAGE: usize = 8;

fn plan() -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes: 16 << 10,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 64,
        seed: 1,
    }
}

/// A pool with a checkpoint in `checkpoint.1`, and a log behind it that changes both pages.
fn begun() -> Arc<Run> {
    let run = Run::begin(&plan(), None, 0);
    for step in [Operate, Checkpoint, Operate, Checkpoint, OperateLargely, Operate, Flush] {
        run.take(step).unwrap();
    }
    (0..TO_FIRST_PAGE).for_each(|_| run.take(Operate).unwrap());
    run.sync().unwrap();
    run
}

/// Has one call fail, after so many others, or all from then on.
fn fail(run: &Run, after: u64, calls: u64) {
    let mut state = run.disk.state();
    let from = state.calls + after;
    state.fault = Some(Fault { from, calls, is_full: false });
}

fn calls_of_a_merge() -> u64 {
    let run = begun();
    let before = run.disk.state().calls;
    assert!(run.merge().unwrap());
    let calls = run.disk.state().calls;
    run.take(Keep).unwrap();
    demand(run.end().0);
    calls - before
}

fn demand(verdict: Verdict) {
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

fn restored(disk: CrashedDisk) -> Result<Vec<u64>, RestoreError> {
    let words = Words::new();
    let found = SafeCopy::find(Arc::new(disk))?;
    found.expect("a checkpoint").restore(&words, &|_, _| ()).map(|_| words.get())
}

/// What is durable.
fn durable(run: &Run) -> CrashedDisk {
    let state = run.disk.state().clone();
    Crash::of(&state).disk(&Choice::new())
}

fn flip(disk: &CrashedDisk, name: &str, at: usize) -> CrashedDisk {
    let mut disk = disk.clone();
    let (_, bytes) = disk.files.iter_mut().find(|(found, _)| found == name).unwrap();
    Arc::make_mut(bytes)[at] ^= 16;
    disk
}

#[test]
fn a_merge_writes_the_pages_that_changed() {
    let run = begun();
    assert!(run.merge().unwrap());
    let written = |run: &Run| {
        let usage = run.steps().unwrap().usage();
        usage.written_bytes - usage.log_bytes
    };
    let mut written_by_one_page = 0;
    for _ in 0..2 * TO_FIRST_PAGE {
        run.take(Operate).unwrap();
        run.sync().unwrap();
        // The log counts from the merge on.
        let before = written(&run) + run.steps().unwrap().usage().log_bytes;
        assert!(run.merge().unwrap());
        let pages = (written(&run) - before) as usize / PAGE;
        // The sums, and a header three times: here, there, and there again as room.
        assert!((5..=4 + PAGES).contains(&pages), "{pages}");
        written_by_one_page += usize::from(pages == 5);
    }
    assert_eq!(written_by_one_page, TO_FIRST_PAGE);
    demand(run.end().0);
}

/// The log is dropped up to where it was merged.
#[test]
fn a_log_that_is_merged_stays_short() {
    let run = begun();
    for _ in 0..40 {
        run.take(OperateLargely).unwrap();
        run.sync().unwrap();
        assert!(run.merge().unwrap());
        let segments = run.disk.state().files().keys().filter(|it| it.starts_with("log.")).count();
        assert!(segments <= 4, "{segments}");
    }
    demand(run.end().0);
}

/// Whatever fails, another checkpoint can be made, and power may be lost at any moment until then.
#[test]
fn every_call_of_a_merge_may_fail() {
    let mut failed = 0;
    for call in 0..calls_of_a_merge() {
        for calls in [1, 2, 5] {
            let run = begun();
            fail(&run, call, calls);
            failed += u64::from(run.merge().is_err());
            run.disk.state().fault = None;
            // Nothing has changed since.
            if call % 2 == 0 {
                run.checkpoint_quietly().unwrap();
                run.checkpoint_quietly().unwrap();
            }
            for step in [Operate, Flush, Merge, OperateLargely, Flush, Checkpoint, Operate, Flush] {
                run.take(step).unwrap();
            }
            run.sync().unwrap();
            assert!(run.merge().unwrap(), "the next ones are merged again");
            demand(run.end().0);
        }
    }
    assert!(failed > 15, "{failed}");
}

/// The kernel says once that it has dropped a page, which reads as if it were there. It was written by the merge, and
/// is the same when the next checkpoint but one is written over it.
#[test]
fn what_a_failed_merge_has_dropped_is_written_again() {
    for call in 0..calls_of_a_merge() {
        let run = begun();
        fail(&run, call, 1);
        let _ = run.merge();
        run.disk.state().fault = None;
        run.checkpoint_quietly().unwrap();
        run.checkpoint_quietly().unwrap();
        demand(run.end().0);
    }
}

/// Kills a process at each call of a merge, and has others go on from what that leaves.
fn demand_a_base_after_kills(begun: impl Fn() -> Arc<Run>, calls: u64) {
    for call in 0..=calls {
        for next in [&[Keep][..], &[Checkpoint], &[Merge, Operate, Checkpoint, Merge]] {
            let run = begun();
            let killed_from = run.disk.state().calls + call;
            run.disk.state().killed_from = Some(killed_from);
            let _ = run.merge();
            let process = run.next_process();
            for &step in next {
                process.take(step).unwrap();
            }
            process.take(Operate).unwrap();
            process.take(Keep).unwrap();
            process.sync().unwrap();
            demand(process.end().0);
        }
    }
}

#[test]
fn who_is_killed_amid_a_merge_leaves_a_base_to_the_next_process() {
    demand_a_base_after_kills(begun, calls_of_a_merge());
}

/// A pool that was closed, and opened again without space for a second checkpoint, with a log that changes it.
fn resting() -> Arc<Run> {
    let run = Run::begin(&Plan { rest: 0, ..plan() }, None, 0);
    run.take(Keep).unwrap();
    run.take(Operate).unwrap();
    run.sync().unwrap();
    let end = run.close().unwrap();
    let next = run.next_process();
    assert!(next.resume(end).unwrap());
    next.take(OperateLargely).unwrap();
    next.sync().unwrap();
    next
}

/// The only header that counts is then in a file of one page.
#[test]
fn who_is_killed_amid_a_merge_of_a_pool_at_rest_leaves_a_base() {
    let run = resting();
    let before = run.disk.state().calls;
    assert!(run.merge().unwrap());
    let calls = run.disk.state().calls - before;
    assert!(calls > 8, "{calls}");
    demand_a_base_after_kills(resting, calls);
}

/// What is damaged in a base that is being merged is found: by the sums that it has in the end.
#[test]
fn a_damaged_bit_amid_a_merge_is_told() {
    let (mut told, mut amid) = (0, 0);
    for call in 0..calls_of_a_merge() {
        let run = begun();
        fail(&run, call, u64::MAX);
        let _ = run.merge();
        let disk = durable(&run);
        let whole = restored(disk.clone()).unwrap();
        // The header that names the epoch is in the other place.
        amid += usize::from(
            disk.files.iter().filter(|(_, it)| it.starts_with(b"FIRNSAFE")).count() == 2,
        );
        for at in (PAGE..(1 + PAGES) * PAGE).step_by(264) {
            match restored(flip(&disk, "checkpoint.1", at)) {
                Ok(found) => assert_eq!(found, whole, "byte {at} at call {call}"),
                Err(RestoreError::Damaged { .. }) => told += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(amid > 3 && told > 100, "{amid}, {told}");
}

/// A merge must not give damage a sum that fits.
#[test]
fn what_was_damaged_before_a_merge_is_told_after_it() {
    let mut told = 0;
    for at in (PAGE..(1 + PAGES) * PAGE).step_by(120) {
        let run = begun();
        run.disk.observe(None);
        run.disk.damage("checkpoint.1", at);
        assert!(run.merge().unwrap());
        let found = restored(durable(&run));
        match found {
            Ok(found) => assert_eq!(found, run.fenced(), "byte {at}"),
            Err(RestoreError::Damaged { .. }) => told += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(told > 30, "{told}");
}

/// Its log is read, and so is its image.
#[test]
fn nothing_is_merged_beneath_a_backup() {
    let run = begun();
    let steps = Arc::clone(run.steps().unwrap());
    let before = steps.usage().checkpoints;
    let fenced = run.fenced();
    let held = steps.hold(|safe| {
        (0..3).for_each(|_| steps.keep().unwrap());
        let words = Words::new();
        safe.restore(&words, &|_, _| ()).unwrap();
        words.get()
    });
    assert_eq!(held.unwrap(), fenced);
    assert_eq!(steps.usage().checkpoints, before);
}
