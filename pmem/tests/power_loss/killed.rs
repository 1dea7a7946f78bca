//! Processes that are killed at any call of the disk, while power stays: the next one finds what they have done,
//! whether it is durable or not. Then power is lost.

use crate::crash::Random;
use crate::disk::State;
use crate::history::{Plan, RESTLESS, Run, Step, Verdict};
use crate::pool::CHECKPOINT_BYTES;
use std::sync::Arc;

use Step::*;

/// Half of the smaller one is full when it begins: the next is made at once.
const SEGMENTS_BYTES: [u64; 2] = [8 << 10, 16 << 10];
/// Segments that a directory has, at most, beside the log since the last checkpoint.
const SEGMENTS_BESIDE: u64 = 4;
/// Processes that are killed in a row at the same call.
const ROUNDS: u64 = 6;
/// Nothing that is small is left again and again, either.
const FILES_MAX: usize = 16;

const FIRST: [Step; 9] =
    [Keep, Operate, Flush, OperateLargely, Flush, Checkpoint, OperateLargely, Flush, Keep];
const NEXT: [Step; 5] = [Keep, Operate, Flush, Checkpoint, Keep];

fn plan(segment_bytes: u64, images_per_call: usize) -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 4096,
        segment_bytes,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call,
        seed: 1,
    }
}

/// Takes steps until the process is dead. The most bytes that its log had between two of them.
fn take_until_killed(run: &Arc<Run>, steps: &[Step], killed_from: u64) -> u64 {
    run.disk.state().killed_from = Some(killed_from);
    let mut most = 0;
    for &step in steps {
        most = most.max(log_bytes(&run.disk.state()));
        let taken = run.take(step);
        if run.disk.state().is_killed() {
            break;
        }
        taken.unwrap_or_else(|error| panic!("{step:?} of a process that lives: {error}"));
    }
    most
}

/// How many calls the steps take.
fn calls_of(run: &Arc<Run>, steps: &[Step]) -> u64 {
    take_until_killed(run, steps, u64::MAX);
    run.disk.state().calls
}

/// Goes on, and ends: what was synced is there.
fn end(run: &Arc<Run>) -> Verdict {
    for step in [Keep, Operate, Flush, OperateLargely, Flush, Keep] {
        run.take(step).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    run.sync().unwrap();
    run.end().0
}

#[test]
fn whoever_is_killed_when_leaves_what_was_durable() {
    let mut random = Random(1);
    let mut verdict = Verdict::default();
    let calls = calls_of(&Run::begin(&plan(16 << 10, 1), None, 0), &FIRST);
    for first in 0..calls {
        for _ in 0..2 {
            let run = Run::begin(&plan(16 << 10, 4), None, 0);
            take_until_killed(&run, &FIRST, first);
            let second = run.next_process();
            take_until_killed(&second, &NEXT, random.below(80) as u64);
            let third = second.next_process();
            take_until_killed(&third, &NEXT, random.below(80) as u64);
            verdict.add(end(&third.next_process()));
        }
    }
    println!("{calls} calls, {} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * 8..][..8].try_into().unwrap())
}

/// Bytes of the segments from the last checkpoint on.
fn log_bytes(state: &State) -> u64 {
    let checkpoints = ["checkpoint.0", "checkpoint.1"].map(|name| state.content(name));
    let whole = checkpoints.iter().flatten().filter(|bytes| bytes.starts_with(b"FIRNSAFE"));
    let Some(checkpoint) = whole.max_by_key(|bytes| word(bytes, 14)) else { return 0 };
    let is_needed = |name: &str| {
        let number: Option<u64> = name.strip_prefix("log.").and_then(|number| number.parse().ok());
        let bytes = state.content(name).unwrap();
        number.is_some_and(|number| {
            number >= word(checkpoint, 6)
                && bytes.len() > 4096
                && bytes[32..48] == checkpoint[32..48]
                && word(&bytes, 6) == number
        })
    };
    state.files().into_iter().filter(|(name, _)| is_needed(name)).map(|(_, bytes)| bytes).sum()
}

/// Fails if the directory is larger than it may be after a process whose log has had so many bytes.
fn demand_bound(state: &State, segment_bytes: u64, log_bytes_most: u64, found: &str) {
    let log_bytes = log_bytes(state).max(log_bytes_most);
    let allowed = 2 * CHECKPOINT_BYTES + log_bytes + SEGMENTS_BESIDE * segment_bytes;
    let files = state.files();
    let used: u64 = files.values().sum();
    assert!(used <= allowed, "{found}: {used} bytes, {allowed} allowed: {files:?}");
    assert!(files.len() <= FILES_MAX, "{found}: {files:?}");
}

/// Kills a process, and the one that opens the pool after it, again and again at the same call or the one behind it.
fn demand_bound_in_loops(segment_bytes: u64, begun: &Arc<Run>) {
    let calls = calls_of(&begun.next_process(), &NEXT);
    for call in 0..calls {
        let mut run = begun.next_process();
        for round in 0..ROUNDS {
            let most = take_until_killed(&run, &NEXT, call + round % 2);
            let found = format!("killed at call {call} of {calls}, round {round}");
            demand_bound(&run.disk.state(), segment_bytes, most, &found);
            run = run.next_process();
        }
        let verdict = end(&run);
        assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    }
}

#[test]
fn a_crash_loop_leaves_no_more_than_it_may() {
    for segment_bytes in SEGMENTS_BYTES {
        let plan = plan(segment_bytes, 1);
        demand_bound_in_loops(segment_bytes, &Run::begin(&plan, None, 0));
        let former = Run::begin(&plan, None, 0);
        take_until_killed(&former, &FIRST, u64::MAX);
        demand_bound_in_loops(segment_bytes, &former);
    }
}
