//! Segments that are emptied while another thread has slots of them on their way through its magazine.

use super::tests::Table;
use super::*;
use crate::heap::tests::SMALL_SEGMENT_LOG2;
use crate::sync::AtomicU64;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How far both threads have come.
#[derive(Default)]
struct Steps(AtomicU64);

const LOOKED: u64 = 1;
const MARKED: u64 = 2;
const ADDED: u64 = 3;
const ADVANCED: u64 = 4;
const TAKEN: u64 = 5;
const OVER: u64 = 6;

impl Steps {
    fn reach(&self, step: u64) {
        self.0.fetch_max(step, Ordering::SeqCst);
    }

    fn wait(&self, step: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.0.load(Ordering::SeqCst) < step {
            assert!(Instant::now() < until, "step {step} was never reached");
            std::thread::yield_now();
        }
    }
}

/// Yields one slot, and ends only after the segments are marked.
#[derive(Clone)]
struct Slow<'a> {
    at: Option<Offset>,
    steps: &'a Steps,
    /// The first pass only prefetches.
    ends: &'a AtomicU64,
}

impl Iterator for Slow<'_> {
    type Item = Offset;

    fn next(&mut self) -> Option<Offset> {
        let at = self.at.take();
        if at.is_none() && self.ends.fetch_add(1, Ordering::SeqCst) > 0 {
            // By now the caller has looked at the slot's segment.
            self.steps.reach(LOOKED);
            self.steps.wait(MARKED);
        }
        at
    }
}

/// Empties segments, but after they are marked waits until the other thread has come far enough.
struct Hook<'a> {
    table: &'a Table,
    steps: &'a Steps,
    last: u64,
    relocated: Mutex<Vec<Offset>>,
}

impl Mover for Hook<'_> {
    fn relocate(&self, at: Offset) -> bool {
        self.relocated.lock().unwrap().push(at);
        self.table.relocate(at)
    }

    fn collect(&self) {
        self.steps.reach(MARKED);
        self.steps.wait(ADDED);
        self.table.collect();
        self.steps.reach(ADVANCED);
        self.steps.wait(self.last);
    }
}

/// A table with few items in its segments and fewest in one of them; and an item of that one, which leaves the table.
fn with_a_sparse_segment() -> (Table, Offset) {
    let table = Table::new(1 << 20, SMALL_SEGMENT_LOG2);
    (0..90).for_each(|_| assert!(table.add(100).is_some()));
    let segment_of = |at: Offset| at.0 >> SMALL_SEGMENT_LOG2;
    let places: Vec<Offset> = table.slots.lock().unwrap().iter().map(|at| at.unwrap()).collect();
    let sparse = segment_of(places[45]);
    let is_kept = |index: usize| {
        let of_segment = |at: &&Offset| segment_of(**at) == segment_of(places[index]);
        let nth = places[..index].iter().filter(of_segment).count();
        nth < if segment_of(places[index]) == sparse { 2 } else { 10 }
    };
    table.remove_unless(is_kept);
    let leaves = (0..90).find(|&index| segment_of(places[index]) == sparse && is_kept(index));
    let at = table.slots.lock().unwrap()[leaves.unwrap()].take().unwrap();
    (table, at)
}

/// Frees the slot without having seen that its segment is to be emptied.
fn free_late(table: &Table, at: Offset, steps: &Steps) {
    let guard = table.epochs.pin();
    table.heap.reclaim_many(Slow { at: Some(at), steps, ends: &AtomicU64::new(0) }, &guard);
    drop(guard);
    steps.reach(ADDED);
}

#[test]
fn a_slot_that_is_kept_after_the_mark_is_taken_back() {
    let (table, at) = with_a_sparse_segment();
    let steps = Steps::default();
    let hook = Hook { table: &table, steps: &steps, last: ADVANCED, relocated: Mutex::default() };
    let compacted = std::thread::scope(|scope| {
        let (table, steps) = (&table, &steps);
        scope.spawn(move || free_late(table, at, steps));
        steps.wait(LOOKED);
        table.heap.compact(&table.epochs, &hook)
    });
    assert!(compacted.freed_bytes > 0 && !compacted.is_held, "{compacted:?}");
    assert!(table.heap.magazines.slots(&table.heap.classes_used()).is_empty());
    table.assert_sound();
}

#[test]
fn a_slot_that_was_taken_before_it_could_be_taken_back_is_not_looked_at() {
    let (table, at) = with_a_sparse_segment();
    let steps = Steps::default();
    let hook = Hook { table: &table, steps: &steps, last: TAKEN, relocated: Mutex::default() };
    let compacted = std::thread::scope(|scope| {
        let (table, steps) = (&table, &steps);
        scope.spawn(move || {
            free_late(table, at, steps);
            steps.wait(ADVANCED);
            let guard = table.epochs.pin();
            // While it is pinned, it may be writing the item.
            let taken = table.heap.write_item(&[0; 8], &[0; 100], None).unwrap();
            assert_eq!(taken, at);
            steps.reach(TAKEN);
            steps.wait(OVER);
            table.heap.reclaim(taken);
            drop(guard);
        });
        steps.wait(LOOKED);
        let compacted = table.heap.compact(&table.epochs, &hook);
        steps.reach(OVER);
        compacted
    });
    assert!(compacted.is_held, "{compacted:?}");
    assert_eq!(*hook.relocated.lock().unwrap(), []);
    table.assert_sound();
}
