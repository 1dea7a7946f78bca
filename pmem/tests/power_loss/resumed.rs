//! A log that goes on in the next process: only from its very end, and only if all of it is there.

use crate::crash::{Choice, Crash};
use crate::disk::SimulatedDisk;
use crate::history::{Plan, RESTLESS, Run, Step};
use pmem::durability::LogEnd;
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

/// A pool with a checkpoint and a log behind it, and where its log ended when it was closed.
fn closed(segment_bytes: u64, epochs: usize) -> (Arc<Run>, LogEnd) {
    let run = Run::begin(&plan(segment_bytes), None, 0);
    [Operate, Checkpoint].into_iter().for_each(|step| run.take(step).unwrap());
    for _ in 0..epochs {
        run.take(Operate).unwrap();
        run.sync().unwrap();
    }
    let end = run.close().unwrap();
    (run, end)
}

/// Names of the log's segments.
fn segments(run: &Run) -> Vec<String> {
    let state = run.disk.state();
    let names = state.names.iter().filter(|(_, leads_to)| leads_to.is_there());
    let is_segment = |name: &&String| name.starts_with("log.") && *name != "log.reserve";
    names.map(|(name, _)| name).filter(is_segment).cloned().collect()
}

#[test]
fn a_process_writes_on_where_the_last_one_ended() {
    for epochs in 0..12 {
        let (run, end) = closed(16 << 10, epochs);
        let next = run.next_process();
        assert!(next.resume(end).unwrap(), "after {epochs} epochs");
        let [before, usage] = [&run, &next].map(|run| run.steps().unwrap().usage());
        assert_eq!((usage.checkpoints, usage.written_bytes), (0, 0));
        assert_eq!(usage.checkpoint_bytes, before.checkpoint_bytes);
        // With the first pages of segments, and what was left at their ends.
        let most = before.log_bytes + 2 * PAGE * segments(&next).len() as u64;
        assert!((before.log_bytes..=most).contains(&usage.log_bytes), "{usage:?}, {before:?}");
        next.take(Operate).unwrap();
        next.sync().unwrap();
        let verdict = next.end().0;
        assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    }
}

/// However often a pool is opened and closed, its log is bounded.
#[test]
fn a_log_that_goes_on_gives_its_segments_back_at_the_next_checkpoint() {
    let (mut run, mut end) = closed(8 << 10, 1);
    for opening in 0..20 {
        let next = run.next_process();
        assert!(next.resume(end).unwrap());
        next.take(Operate).unwrap();
        next.sync().unwrap();
        next.take(Keep).unwrap();
        if opening % 5 == 4 {
            next.take(Checkpoint).unwrap();
            next.take(Keep).unwrap();
            assert!(segments(&next).len() <= 3, "{:?}", segments(&next));
        }
        end = next.close().unwrap();
        run = next;
    }
    let verdict = run.end().0;
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// A pool that was put back while its log went on: that log holds what this pool never had.
#[test]
fn a_log_that_another_process_has_gone_on_with_does_not_go_on_from_there() {
    // Its next frame lies behind the end in the same segment, or begins the next one.
    for epochs in 0..6 {
        let (run, end) = closed(16 << 10, epochs);
        let next = run.next_process();
        assert!(next.resume(end).unwrap());
        next.take(Operate).unwrap();
        next.sync().unwrap();
        let later = next.close().unwrap();
        assert_ne!(end, later);
        let old = next.next_process();
        assert!(!old.resume(end).unwrap(), "{epochs}: {end:?} though {later:?} follows");
        assert!(old.resume(later).unwrap());
    }
}

/// Two copies of a pool with its companions, and each goes on alone. Their logs look alike.
#[test]
fn a_log_of_another_copy_does_not_go_on() {
    let (run, end) = closed(16 << 10, 1);
    let ends = [(); 2].map(|()| {
        let copy = run.next_process();
        assert!(copy.resume(end).unwrap());
        copy.take(Operate).unwrap();
        copy.sync().unwrap();
        (copy.close().unwrap(), copy)
    });
    let [(one, first), (other, _)] = ends;
    assert_eq!((one.segment, one.page), (other.segment, other.page));
    assert!(!first.next_process().resume(other).unwrap());
    assert!(first.next_process().resume(one).unwrap());
}

/// What is asked for with the name of a file missing, cut, or from another time.
#[test]
fn a_log_that_is_not_all_there_does_not_go_on() {
    let (run, end) = closed(8 << 10, 6);
    assert!(end.segment >= 3, "{end:?}");
    let state = run.disk.state().clone();
    let files = Crash::of(&state).disk(&Choice::new()).files;
    let goes_on = |files: Vec<(String, Vec<u8>)>, end: LogEnd| {
        let run = Run::begin(&plan(8 << 10), None, 0);
        run.disk.observe(None);
        let state = SimulatedDisk::of(512, files).state().clone();
        *run.disk.state() = state;
        // A place that is not asked for must not be an error either.
        run.resume_on_its_own(end).unwrap()
    };
    let all: Vec<(String, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
    assert!(goes_on(all.clone(), end));
    let last = format!("log.{}", end.segment);
    for (index, (name, bytes)) in all.iter().enumerate() {
        let is_needed = name.starts_with("checkpoint") && bytes.starts_with(b"FIRNSAFE")
            || name
                .strip_prefix("log.")
                .and_then(|number| number.parse().ok())
                .is_some_and(|number: u64| number <= end.segment);
        let mut without = all.clone();
        without.remove(index);
        assert_eq!(goes_on(without, end), !is_needed, "without {name}");
        let mut damaged = all.clone();
        if !damaged[index].1.is_empty() {
            damaged[index].1[40] ^= 1;
        }
        assert!(!is_needed || !goes_on(damaged, end), "with a damaged {name}");
    }
    for longer in [-4096_isize, -1, 1, 4096, 1 << 20] {
        let mut resized = all.clone();
        let bytes = &mut resized.iter_mut().find(|(name, _)| *name == last).unwrap().1;
        bytes.resize(bytes.len().strict_add_signed(longer), 0);
        assert!(!goes_on(resized, end), "with a last segment that is {longer} bytes longer");
    }
    let mut damaged = all.clone();
    let bytes = &mut damaged.iter_mut().find(|(name, _)| *name == last).unwrap().1;
    bytes[(end.page * PAGE) as usize + 32] ^= 1;
    assert!(!goes_on(damaged, end), "with a damaged last frame");
    for (segment, page) in [
        (end.segment, 0),
        (end.segment, end.page + 1),
        (end.segment, end.page.wrapping_sub(1)),
        (end.segment, 1 << 19),
        (end.segment + 1, 1),
        (end.segment - 1, 1),
        (0, 1),
        (1 << 43, 1),
    ] {
        assert!(
            !goes_on(all.clone(), LogEnd { segment, page, ..end }),
            "from page {page} of {segment}"
        );
    }
}
