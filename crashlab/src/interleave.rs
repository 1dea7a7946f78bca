//! Schedules of one program: all with a few changes of thread, or all that can matter. A program that only adds keys
//! may need no more resizes than with its threads one after another.
//!
//! Two accesses *conflict* if they touch one word and one of them writes it. If a thread's next access conflicts with
//! no later access of another thread, it makes no difference whether that thread runs before the access or after it. So
//! [`Points::Shared`] changes threads only just before
//!
//! * an access that conflicts with one that another thread makes later on,
//! * a read-modify-write: its word is shared, though the other thread may touch it only if it comes first,
//! * the first access of a call: another call that has returned by then must be seen,
//! * a fence, if the thread has written something that another one touches: before the fence that is not durable.
//!
//! A thread that is suspended before an access waits until that matters: the other thread goes on at least up to an
//! access that conflicts with the waiting one. This is a partial-order reduction without the bookkeeping that would
//! make it exact. Conflicts are taken from the run in which the thread goes on to its end, so a conflict that only
//! another order of the same changes shows is missed. Stores that become visible late are left to searches at every
//! access, since no access marks the moment when one becomes visible.

use crate::history::{Action, Key, Op, Program};
use crate::lab::Lab;
use crate::machine::{Access, CALL, Schedule, Slice};
use crate::report::Failure;
use crate::subject::Subject;
use pmem::sync::simulated::Touch;
use std::collections::HashMap;
use std::fmt;
use workload::Random;

/// Where threads switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// Before every access.
    Every,
    /// Before those at which it can matter.
    Shared,
    /// The same, but a suspended thread waits for nothing, so that a third thread comes first.
    Met,
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Points::Every => "anywhere",
            Points::Shared => "at shared words",
            Points::Met => "at shared words, waiting for nobody",
        })
    }
}

fn writes(touch: Touch) -> bool {
    matches!(touch, Touch::Writes | Touch::Modifies)
}

/// Which words the threads of a run touch, from some access on.
#[derive(Default)]
struct Touched {
    /// By address: threads that read it, threads that write it, a bit each.
    words: HashMap<usize, (u8, u8)>,
}

impl Touched {
    fn new<'a>(accesses: impl Iterator<Item = &'a Access>) -> Touched {
        let mut touched = Touched::default();
        for &Access { thread, at, touch } in accesses {
            let (reads, writes_to) = touched.words.entry(at).or_default();
            match touch {
                Touch::Reads => *reads |= 1 << thread,
                Touch::Writes | Touch::Modifies => *writes_to |= 1 << thread,
                Touch::Flushes | Touch::Fences => {}
            }
        }
        touched
    }

    /// Whether another thread makes an access that conflicts with this one.
    fn conflicts(&self, access: &Access) -> bool {
        let Some(&(reads, writes_to)) = self.words.get(&access.at) else { return false };
        let others = !(1u8 << access.thread);
        match access.touch {
            Touch::Reads => writes_to & others != 0,
            Touch::Writes | Touch::Modifies => (reads | writes_to) & others != 0,
            Touch::Flushes | Touch::Fences => false,
        }
    }
}

/// For each access of `thread`, whether to change threads just before it can matter.
fn points(trace: &[Access], thread: usize, from: usize) -> Vec<bool> {
    let start = trace
        .iter()
        .enumerate()
        .filter(|(_, access)| access.thread == thread)
        .nth(from)
        .map_or(trace.len(), |(index, _)| index);
    let touched = Touched::new(trace[start..].iter());
    let mut is_written = false;
    let mine = trace.iter().filter(|access| access.thread == thread);
    mine.map(|access| {
        let conflicts = access.at != CALL && touched.conflicts(access);
        let is_point = match access.touch {
            _ if access.at == CALL || conflicts => true,
            Touch::Fences => std::mem::take(&mut is_written),
            Touch::Modifies => true,
            _ => false,
        };
        is_written |= conflicts && writes(access.touch);
        is_point
    })
    .collect()
}

/// Whether it matters to a thread that waits before `waiting` that another one has made these accesses.
fn matters(waiting: &Access, made: &[&Access]) -> bool {
    match waiting.touch {
        // A call that ended.
        _ if waiting.at == CALL => made.iter().skip(1).any(|access| access.at == CALL),
        // What it has stored is not durable, or not visible, while it waits.
        Touch::Fences => true,
        _ => made.iter().any(|access| {
            access.at == waiting.at && (writes(access.touch) || writes(waiting.touch))
        }),
    }
}

/// Explores every schedule in which the first `first` threads run to their ends, and the others switch at `points`, at
/// most `changes` times, before each of them ends.
pub fn interleave<S: Subject>(
    lab: &mut Lab<S>,
    program: &Program,
    first: usize,
    changes: usize,
    points: Points,
) -> Result<(), Failure> {
    let in_order = |thread: usize| {
        let all = (0..first).chain([thread]).chain(first..program.len());
        let slices = all.map(|thread| Slice { thread, accesses: u64::MAX }).collect();
        Schedule { slices, delays: false }
    };
    let in_order: Vec<Schedule> = (first..program.len()).map(in_order).collect();
    if only_adds(program, lab.setup().resize_at) {
        lab.bound_resizes(program, &in_order)?;
    }
    let delays: &[bool] = match points {
        Points::Every => &[false, true],
        Points::Shared | Points::Met => &[false],
    };
    for &delays in delays {
        let slices = (0..first).map(|thread| Slice { thread, accesses: u64::MAX }).collect();
        let mut schedule = Schedule { slices, delays };
        deepen(lab, &Search { program, first, points }, changes, &mut schedule, None)?;
    }
    Ok(())
}

/// Whether the table is never fuller than at the end. (Two threads that insert one key may both have a place for it
/// until one of them gives way.) Nor may it be halved and grow by load: how often it does depends on what comes first.
fn only_adds(program: &Program, resize_at: f64) -> bool {
    let mut added: Vec<(Key, usize)> = Vec::new();
    for (thread, op) in
        (0..).zip(program).flat_map(|(thread, ops)| ops.iter().map(move |op| (thread, op)))
    {
        if matches!(op, Op::Sync) || matches!(op, Op::Shrink) && resize_at < 1.0 {
            return false;
        }
        for (key, action) in op.calls() {
            match action {
                Action::Get => {}
                Action::Remove | Action::Exchange(..) | Action::OfCache(_) => return false,
                _ => added.push((key, thread)),
            }
        }
    }
    added
        .iter()
        .all(|&(key, thread)| added.iter().all(|&other| other.0 != key || other.1 == thread))
}

/// What stays the same throughout a search.
struct Search<'a> {
    program: &'a Program,
    first: usize,
    points: Points,
}

/// `waiting`: the thread that was put aside last, and how many accesses it had made. (Addresses are those
/// of one run: the access before which it waits is looked up in the trace at hand.)
fn deepen<S: Subject>(
    lab: &mut Lab<S>,
    search: &Search<'_>,
    changes: usize,
    schedule: &mut Schedule,
    waiting: Option<(usize, usize)>,
) -> Result<(), Failure> {
    let Search { program, first, .. } = *search;
    let last = schedule.slices.last().map(|slice| slice.thread);
    for thread in (first..program.len()).filter(|&thread| Some(thread) != last) {
        // The thread runs to its end first: that also tells which accesses it makes.
        schedule.slices.push(Slice { thread, accesses: u64::MAX });
        let slices = schedule.slices.iter();
        let mine = slices.filter(|slice| slice.thread == thread && slice.accesses != u64::MAX);
        let before = mine.map(|slice| slice.accesses).sum::<u64>() as usize;
        // Up to this slice it is what was run to its end before.
        let is_first = schedule.slices.len() <= first + 1;
        let trace = if is_first {
            lab.explore_traced(program, schedule)?
        } else {
            lab.explore_last_slice(program, schedule)?
        };
        if changes > 0 {
            let mine: Vec<&Access> =
                trace.iter().filter(|access| access.thread == thread).collect();
            let is_point = points(&trace, thread, before);
            let waiting = waiting.and_then(|(thread, made)| {
                trace.iter().filter(|access| access.thread == thread).nth(made)
            });
            for count in 1..mine.len().saturating_sub(before) {
                let next = before + count;
                let made = &mine[before..next];
                let can_matter = match search.points {
                    Points::Every => true,
                    Points::Shared => {
                        is_point[next] && waiting.is_none_or(|waiting| matters(waiting, made))
                    }
                    Points::Met => is_point[next],
                };
                if can_matter {
                    let index = schedule.slices.len() - 1;
                    schedule.slices[index].accesses = count as u64;
                    deepen(lab, search, changes - 1, schedule, Some((thread, next)))?;
                }
            }
        }
        schedule.slices.pop();
    }
    Ok(())
}

/// A schedule that changes threads a few times, each time where it can matter.
pub fn random_points<S: Subject>(
    lab: &mut Lab<S>,
    program: &Program,
    random: &mut Random,
) -> Schedule {
    let delays = random.index(3) == 0;
    let threads = program.len();
    let first = random.index(threads);
    let start = Schedule { slices: vec![Slice { thread: first, accesses: u64::MAX }], delays };
    let trace = lab.trace(program, &start);
    let choices = (0..threads).map(|thread| {
        let is_point = points(&trace, thread, 0).into_iter().enumerate();
        is_point.filter(|&(index, is_point)| is_point && index > 0).map(|(index, _)| index)
    });
    let choices: Vec<Vec<usize>> = choices.map(Iterator::collect).collect();
    let mut done = vec![0; threads];
    let mut slices = Vec::new();
    let mut thread = first;
    for _ in 0..1 + random.index(4) {
        let left: Vec<usize> =
            choices[thread].iter().copied().filter(|&index| index > done[thread]).collect();
        if !left.is_empty() {
            let next = *random.of(&left);
            slices.push(Slice { thread, accesses: (next - done[thread]) as u64 });
            done[thread] = next;
        }
        thread = (thread + 1 + random.index(threads - 1)) % threads;
    }
    slices.push(Slice { thread, accesses: u64::MAX });
    Schedule { slices, delays }
}
