//! Is there an order in which these operations could have happened?
//!
//! Threads record what they called and what it returned. For each key, the search of Wing and Gong (with Lowe's memory
//! of states already seen) looks for an order that explains it. Time is what the threads can prove to each other:
//! before an operation, a thread notes how many operations each other thread had finished. No shared clock is written,
//! so recording puts no barrier into what is observed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

/// Most threads of a history.
pub(crate) const THREADS_MAX: usize = 4;

/// An operation on one key. Every operation reports the state that it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    Insert(u64),
    Update(u64),
    Upsert(u64),
    Remove,
    /// Expected and new state.
    Exchange(Option<u64>, Option<u64>),
}

impl Call {
    /// The state after the operation.
    pub(crate) fn apply(self, state: Option<u64>) -> Option<u64> {
        match (self, state) {
            (Call::Get, _) => state,
            (Call::Insert(new), None) => Some(new),
            (Call::Insert(_), Some(_)) => state,
            (Call::Update(new), Some(_)) => Some(new),
            (Call::Update(_), None) => None,
            (Call::Upsert(new), _) => Some(new),
            (Call::Remove, _) => None,
            (Call::Exchange(expected, new), _) if state == expected => new,
            (Call::Exchange(..), _) => state,
        }
    }
}

/// An operation that has returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) call: Call,
    /// The state that it found.
    pub(crate) found: Option<u64>,
    /// Number of operations that its thread had finished before.
    pub(crate) number: u32,
    /// Number of operations that each thread had finished when it began.
    pub(crate) after: [u32; THREADS_MAX],
}

#[repr(align(128))]
#[derive(Default)]
struct Finished(AtomicU32);

/// How many operations each thread has finished.
#[derive(Default)]
pub(crate) struct Clock([Finished; THREADS_MAX]);

impl Clock {
    /// The operations that the caller knows to be finished by now.
    pub(crate) fn now(&self) -> [u32; THREADS_MAX] {
        std::array::from_fn(|thread| self.0[thread].0.load(Ordering::Acquire))
    }

    /// Marks the thread's operations up to and including this one as finished.
    pub(crate) fn finish(&self, thread: usize, number: u32) {
        self.0[thread].0.store(number + 1, Ordering::Release);
    }
}

/// What one thread did, by key.
#[derive(Default)]
pub(crate) struct History(HashMap<u64, Vec<Event>>);

impl History {
    pub(crate) fn record(&mut self, key: u64, event: Event) {
        self.0.entry(key).or_default().push(event);
    }

    /// Asserts that some order of the operations explains what the threads recorded, key by key, from the states
    /// `before` to the states `after`.
    pub(crate) fn assert_linearizable(
        threads: &[History],
        before: impl Fn(u64) -> Option<u64>,
        after: impl Fn(u64) -> Option<u64>,
    ) {
        let keys: HashSet<u64> =
            threads.iter().flat_map(|thread| thread.0.keys().copied()).collect();
        for key in keys {
            let parts: Vec<&[Event]> =
                threads.iter().map(|thread| thread.0.get(&key).map_or(&[][..], |x| x)).collect();
            if let Err(reached) = explain(&parts, before(key), after(key)) {
                panic!(
                    "no order explains what happened to key {key:#x}, which ended as {:x?}; the \
                     longest explanation ends here:\n{}",
                    after(key),
                    neighbourhood(&parts, reached)
                );
            }
        }
    }
}

type Positions = [usize; THREADS_MAX];

/// `Err`: the furthest positions for which there is an order.
fn explain(threads: &[&[Event]], before: Option<u64>, after: Option<u64>) -> Result<(), Positions> {
    let start: Positions = [0; THREADS_MAX];
    let mut pending = vec![(start, before)];
    let mut seen = HashSet::from([(start, before)]);
    let mut furthest = start;
    while let Some((positions, state)) = pending.pop() {
        if positions.iter().sum::<usize>() > furthest.iter().sum() {
            furthest = positions;
        }
        if threads.iter().zip(positions).all(|(events, position)| events.len() == position) {
            if state == after {
                return Ok(());
            }
            continue;
        }
        let mut steps = (0..threads.len())
            .filter_map(|thread| step(threads, positions, state, thread))
            .collect::<Vec<_>>();
        // An operation that fits here and changes nothing can be taken first: any order that explains the rest with it
        // later also explains the rest with it here.
        if let Some(&harmless) = steps.iter().find(|(_, next)| *next == state) {
            steps = vec![harmless];
        }
        pending.extend(steps.into_iter().filter(|&step| seen.insert(step)));
    }
    Err(furthest)
}

/// Where the next operation of `thread` leads, if it can come next.
fn step(
    threads: &[&[Event]],
    positions: Positions,
    state: Option<u64>,
    thread: usize,
) -> Option<(Positions, Option<u64>)> {
    let event = threads[thread].get(positions[thread])?;
    // An operation that had returned before this one began comes before it.
    let overtakes =
        threads.iter().zip(positions).zip(event.after).any(|((others, position), finished)| {
            others.get(position).is_some_and(|other| other.number < finished)
        });
    let mut next = positions;
    next[thread] += 1;
    (event.found == state && !overtakes).then(|| (next, event.call.apply(state)))
}

fn neighbourhood(threads: &[&[Event]], reached: Positions) -> String {
    let mut text = String::new();
    for (thread, events) in threads.iter().enumerate() {
        let from = reached[thread].saturating_sub(3);
        for (index, event) in events.iter().enumerate().skip(from).take(7) {
            let mark = if index == reached[thread] { "->" } else { "  " };
            text += &format!("thread {thread} {mark} {event:x?}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(call: Call, found: Option<u64>, number: u32, after: [u32; 4]) -> Event {
        Event { call, found, number, after }
    }

    fn explained(threads: &[&[Event]], after: Option<u64>) -> bool {
        explain(threads, None, after).is_ok()
    }

    #[test]
    fn overlapping_operations_may_take_either_order() {
        let insert = [event(Call::Insert(1), None, 0, [0; 4])];
        let upsert = [event(Call::Upsert(2), Some(1), 0, [0; 4])];
        assert!(explained(&[&insert, &upsert], Some(2)));
        assert!(explained(&[&upsert, &insert], Some(2)));
        assert!(!explained(&[&insert, &upsert], Some(1)));
    }

    #[test]
    fn a_stale_read_is_noticed() {
        let insert = [event(Call::Insert(1), None, 0, [0; 4])];
        let beside = [event(Call::Get, None, 0, [0; 4])];
        let later = [event(Call::Get, None, 0, [1, 0, 0, 0])];
        assert!(explained(&[&insert, &beside], Some(1)));
        assert!(!explained(&[&insert, &later], Some(1)));
    }

    #[test]
    fn values_from_nowhere_and_lost_writes_are_noticed() {
        let invented = [event(Call::Get, Some(9), 0, [0; 4])];
        assert!(!explained(&[&invented], None));
        let one = [event(Call::Insert(1), None, 0, [0; 4])];
        let two = [event(Call::Insert(2), None, 0, [0; 4])];
        assert!(!explained(&[&one, &two], Some(1)), "both inserts cannot have met an absence");
        assert!(!explained(&[&one], None), "an insert that returned is lost");
    }

    #[test]
    fn reads_do_not_go_back() {
        let writes = [
            event(Call::Insert(1), None, 0, [0; 4]),
            event(Call::Update(2), Some(1), 1, [1, 0, 0, 0]),
        ];
        let reads =
            [event(Call::Get, Some(2), 0, [0; 4]), event(Call::Get, Some(1), 1, [0, 1, 0, 0])];
        assert!(!explained(&[&writes, &reads], Some(2)));
        let forward = [reads[1], Event { number: 2, ..reads[0] }];
        assert!(explained(&[&writes, &forward], Some(2)));
    }

    #[test]
    fn an_exchange_is_one_step() {
        let start = [event(Call::Insert(0), None, 0, [0; 4])];
        let one = [event(Call::Exchange(Some(0), Some(1)), Some(0), 0, [1, 0, 0, 0])];
        let two = [event(Call::Exchange(Some(0), Some(2)), Some(0), 0, [1, 0, 0, 0])];
        assert!(explained(&[&start, &one], Some(1)));
        assert!(!explained(&[&start, &one, &two], Some(2)));
    }
}
