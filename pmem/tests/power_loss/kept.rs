//! A checkpoint leaves pages alone that its file has already, from the one before the last.

use crate::disk::Fault;
use crate::history::{Plan, RESTLESS, Run, Step};
use std::sync::Arc;

use Step::*;

/// Operations that change both pages, whatever the values before were.
const CHANGE_ALL: usize = 9;

/// A pool whose two places have checkpoints behind them, with a log.
fn begun() -> Arc<Run> {
    let plan = Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes: 64 << 10,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 64,
        seed: 1,
    };
    let run = Run::begin(&plan, None, 0);
    for _ in 0..2 {
        run.take(Operate).unwrap();
        run.take(Checkpoint).unwrap();
    }
    run
}

fn written(run: &Run) -> u64 {
    let usage = run.steps().unwrap().usage();
    usage.written_bytes - usage.log_bytes
}

/// Bytes that a checkpoint writes when nothing has changed since the one before the last, and when all has.
#[test]
fn a_checkpoint_writes_what_has_changed() {
    let run = begun();
    let quietly = || {
        let before = written(&run);
        run.checkpoint_quietly().unwrap();
        // The log counts from the checkpoint on.
        written(&run) - before
    };
    let all = (quietly(), quietly());
    let none = (quietly(), quietly());
    assert!(none.0 + 4096 <= all.0 && none.1 + 4096 <= all.1, "{all:?}, {none:?}");
    (0..CHANGE_ALL).for_each(|_| run.take(Operate).unwrap());
    run.sync().unwrap();
    assert!(quietly() >= none.0 + 8192);
    let verdict = run.end().0;
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// The kernel says once that it has dropped a page, which reads as if it were there.
#[test]
fn what_a_failed_sync_has_dropped_is_written_again() {
    let mut failed = 0;
    for call in 0.. {
        let run = begun();
        (0..CHANGE_ALL).for_each(|_| run.take(Operate).unwrap());
        run.sync().unwrap();
        let from = run.disk.state().calls + call;
        run.disk.state().fault = Some(Fault { from, calls: 1, is_full: false });
        let made = run.checkpoint_quietly();
        let was_met = run.disk.state().calls > from;
        run.disk.state().fault = None;
        failed += u64::from(made.is_err());
        // Nothing has changed since. If the log was met, it begins anew.
        if run.checkpoint_quietly().is_err() {
            run.take(Keep).unwrap();
        }
        let verdict = run.end().0;
        assert!(verdict.violations.is_empty(), "call {call}: {:#?}", verdict.violations);
        if !was_met {
            break;
        }
    }
    assert!(failed > 4, "{failed}");
}
