//! Disks with little room: a pool whose checkpoint fits goes on for ever, and keeps what it promised.

use crate::history::{Plan, RESTLESS, Run, Step, Verdict};
use crate::pool::CHECKPOINT_BYTES;
use pmem::durability::LogError;
use std::sync::Arc;

use Step::*;

/// Many times what a checkpoint appends.
const SEGMENT_BYTES: u64 = 64 << 10;
/// The least that a pool takes: its checkpoints, a segment, and the reserve.
const LEAST_BYTES: u64 = 2 * CHECKPOINT_BYTES + 2 * SEGMENT_BYTES;
/// Looks of the keeper that are enough to give a pool room.
const KEEPS_MAX: usize = 3;

fn plan(capacity: u64, images_per_call: usize) -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 4096,
        segment_bytes: SEGMENT_BYTES,
        fault: None,
        capacity: Some(capacity),
        rest: RESTLESS,
        images_per_call,
        seed: 1,
    }
}

/// Has a change survive, as one does who waits for it. The keeper looks when the log asks for it.
fn change(run: &Arc<Run>, step: Step) -> Result<(), LogError> {
    let mut tried = run.take(step).and_then(|()| run.sync());
    for _ in 0..KEEPS_MAX {
        if tried.is_ok() || run.disk.state().is_killed() {
            break;
        }
        let _ = run.take(Keep);
        tried = run.take(step).and_then(|()| run.sync());
    }
    tried
}

fn changes(number: usize) -> impl Iterator<Item = Step> {
    (0..number).map(|nth| if nth % 3 == 2 { OperateLargely } else { Operate })
}

#[test]
fn a_pool_whose_checkpoint_fits_goes_on_for_ever() {
    let mut verdict = Verdict::default();
    for segments_more in 0..4 {
        for keeps_each_time in [false, true] {
            let run = Run::begin(&plan(LEAST_BYTES + segments_more * SEGMENT_BYTES, 8), None, 0);
            run.take(Keep).unwrap();
            for (nth, step) in changes(150).enumerate() {
                change(&run, step).unwrap_or_else(|error| {
                    panic!("{segments_more} segments more, change {nth}: {error}")
                });
                if keeps_each_time {
                    let _ = run.take(Keep);
                }
            }
            verdict.add(run.end().0);
        }
    }
    println!("{} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// Where the pool would come to an end later, it does not begin.
#[test]
fn a_pool_that_does_not_fit_is_refused_when_it_is_opened() {
    for missing in (4096..=LEAST_BYTES).step_by(4096) {
        let run = Run::begin(&plan(LEAST_BYTES - missing, 1), None, 0);
        let refused = run.take(Keep).unwrap_err();
        assert!(matches!(refused, LogError::Full { .. }), "{missing} bytes are missing: {refused}");
        run.disk.state().capacity = Some(LEAST_BYTES);
        run.take(Keep).unwrap();
        changes(8).for_each(|step| change(&run, step).unwrap());
    }
}

#[test]
fn a_killed_process_leaves_room_for_the_next_one() {
    let mut verdict = Verdict::default();
    for segments_more in 0..3 {
        let plan = plan(LEAST_BYTES + segments_more * SEGMENT_BYTES, 2);
        let take_all = |run: &Arc<Run>, number| {
            let mut taken = run.take(Keep);
            for step in changes(number) {
                if run.disk.state().is_killed() {
                    return;
                }
                // What is refused at first is taken when there is room.
                taken = change(run, step);
            }
            if !run.disk.state().is_killed() {
                taken.unwrap();
            }
        };
        let whole = Run::begin(&plan, None, 0);
        take_all(&whole, 9);
        let calls = whole.disk.state().calls;
        for call in 0..calls {
            let run = Run::begin(&plan, None, 0);
            run.disk.state().killed_from = Some(call);
            take_all(&run, 9);
            let next = run.next_process();
            next.disk.state().killed_from = Some(call % 61);
            take_all(&next, 4);
            let last = next.next_process();
            let _ = last.take(Keep);
            for step in changes(6) {
                change(&last, step).unwrap_or_else(|error| {
                    panic!("{segments_more} segments more, killed at call {call}: {error}")
                });
            }
            verdict.add(last.end().0);
        }
    }
    println!("{} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

#[test]
fn power_loss_leaves_room_for_the_next_process() {
    let mut verdict = Verdict::default();
    for segments_more in 0..3 {
        let plan = plan(LEAST_BYTES + segments_more * SEGMENT_BYTES, 2);
        let run = Run::begin(&plan, None, 60);
        let _ = run.take(Keep);
        changes(40).for_each(|step| change(&run, step).unwrap());
        let (found, left) = run.end();
        verdict.add(found);
        for (nth, left) in left.iter().enumerate() {
            let next = Run::begin(&plan, Some(left), 0);
            let _ = next.take(Keep);
            for step in changes(8) {
                change(&next, step)
                    .unwrap_or_else(|error| panic!("{segments_more} more, disk {nth}: {error}"));
            }
            verdict.add(next.end().0);
        }
    }
    println!("{} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// A closed pool gives its second place back, and others fill the disk meanwhile. The pool goes on with the one that it
/// has, for ever, from one opening to the next. It has two again as soon as there is room.
#[test]
fn a_pool_whose_disk_was_filled_while_it_was_closed_goes_on() {
    let mut verdict = Verdict::default();
    let mut with_another_segment = 0;
    for changes_before in 0..12 {
        let plan = Plan { rest: 0, capacity: None, ..plan(0, 8) };
        let mut run = Run::begin(&plan, None, 0);
        run.take(Keep).unwrap();
        changes(changes_before).for_each(|step| change(&run, step).unwrap());
        for opening in 0..4 {
            let end = run.close().unwrap();
            let used = run.disk.state().used_bytes();
            let limit = CHECKPOINT_BYTES + 4096 + 2 * SEGMENT_BYTES;
            // The log's last frame may begin another one.
            assert!(used <= limit + SEGMENT_BYTES, "{used} bytes at rest, {limit} expected");
            with_another_segment += usize::from(used > limit);
            let next = run.next_process();
            next.disk.state().capacity = Some(used);
            assert!(next.resume(end).unwrap(), "{changes_before} before, opening {opening}");
            for (nth, step) in changes(60).enumerate() {
                change(&next, step).unwrap_or_else(|error| {
                    panic!("{changes_before} before, opening {opening}, change {nth}: {error}")
                });
                // As soon as half of a segment is full.
                next.take(Keep).unwrap();
            }
            verdict.add(run.end().0);
            run = next;
        }
        run.disk.state().capacity = None;
        // Growth asks for room as well, and so does each opening.
        run.take(Checkpoint).unwrap();
        assert!(run.disk.state().used_bytes() >= 2 * CHECKPOINT_BYTES);
        verdict.add(run.end().0);
    }
    assert!(with_another_segment < 6, "{with_another_segment}");
    println!("{} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// The same, and each process is killed. What it has stored and not logged is found and logged, in the room that there
/// is.
#[test]
fn a_process_that_is_killed_on_a_disk_that_was_filled_leaves_a_pool_that_goes_on() {
    let mut verdict = Verdict::default();
    for changes_before in 0..24 {
        let plan = Plan { rest: 0, capacity: None, segment_bytes: 16 << 10, ..plan(0, 8) };
        let run = Run::begin(&plan, None, 0);
        run.take(Keep).unwrap();
        changes(changes_before).for_each(|step| change(&run, step).unwrap());
        let end = run.close().unwrap();
        let used = run.disk.state().used_bytes();
        let mut next = run.next_process();
        next.disk.state().capacity = Some(used);
        assert!(next.resume(end).unwrap(), "{changes_before} before");
        for round in 0..4 {
            for step in changes(changes_before + 7 * round) {
                change(&next, step).unwrap_or_else(|error| {
                    panic!("{changes_before} before, round {round}: {error}")
                });
                // As soon as half of a segment is full.
                next.take(Keep).unwrap();
            }
            (0..1 + round).for_each(|_| next.take(OperateLargely).unwrap());
            next = next.next_process();
            next.disk.state().capacity = Some(used);
            next.take(Keep).unwrap_or_else(|error| {
                panic!("{changes_before} before, killed in round {round}: {error}")
            });
            change(&next, Operate).unwrap();
        }
        verdict.add(next.end().0);
    }
    println!("{} images", verdict.images);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// An opening for one change takes no room, and gives none back. One that stays does.
#[test]
fn the_second_place_is_taken_by_who_stays() {
    let mut verdict = Verdict::default();
    // The log's last frame may begin another segment.
    let at_rest = CHECKPOINT_BYTES + 4096 + 3 * SEGMENT_BYTES;
    for changes_before in 0..6 {
        let plan = Plan { rest: 0, capacity: None, ..plan(0, 8) };
        let mut run = Run::begin(&plan, None, 0);
        run.take(Keep).unwrap();
        changes(changes_before).for_each(|step| change(&run, step).unwrap());
        for opening in 0..4 {
            let end = run.close().unwrap();
            let next = run.next_process();
            let used = next.disk.state().used_bytes();
            assert!(used <= at_rest, "{changes_before} before, opening {opening}: {used} bytes");
            assert!(next.resume(end).unwrap(), "{changes_before} before, opening {opening}");
            change(&next, Operate).unwrap();
            // A segment may have been needed.
            let more = next.disk.state().used_bytes() - used;
            assert_eq!(more % SEGMENT_BYTES, 0, "{changes_before} before, opening {opening}");
            if opening % 2 == 1 {
                next.take(Keep).unwrap();
                let more = next.disk.state().used_bytes() - used;
                assert_eq!(more % SEGMENT_BYTES, CHECKPOINT_BYTES - 4096, "opening {opening}");
            }
            verdict.add(run.end().0);
            run = next;
        }
        verdict.add(run.end().0);
    }
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}
