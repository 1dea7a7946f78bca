//! Durable linearizability, key by key.
//!
//! A crash at some moment is explained if there is an order of calls that respects real time and ends in the recovered
//! state. The order must contain the calls on the key that had returned by then, with their answers, and may contain
//! any of those under way. A call that was lost with its process may be in it, before what began after that. Keys are
//! independent, so each is judged alone.

use crate::history::{Action, Answer, Call, Key, Value};
use std::collections::HashSet;

/// The states in which a crash at the moment `at` may leave `key`, which was in state `initial`.
/// None at all: the answers themselves cannot be explained.
pub fn allowed(
    calls: &[Call],
    key: Key,
    initial: Option<Value>,
    at: u32,
) -> HashSet<Option<Value>> {
    let calls: Vec<&Call> =
        calls.iter().filter(|call| call.key == key && call.began < at).collect();
    assert!(calls.len() < 32, "too many calls on one key to judge");
    let returned_by = |call: &Call| call.ended.filter(|&(ended, _)| ended < at);
    let lost_by = |call: &Call| match returned_by(call) {
        Some((ended, Answer::Lost)) => Some(ended),
        _ => None,
    };
    let must = |call: &Call| returned_by(call).filter(|_| lost_by(call).is_none());
    let required = (0..calls.len())
        .filter(|&index| must(calls[index]).is_some())
        .fold(0u32, |mask, index| mask | 1 << index);
    let mut states = HashSet::new();
    let mut seen = HashSet::from([(0u32, initial)]);
    let mut open = vec![(0u32, initial)];
    while let Some((done, state)) = open.pop() {
        if done & required == required {
            states.insert(state);
        }
        for (index, call) in calls.iter().enumerate().filter(|(index, _)| done & 1 << index == 0) {
            // A call takes effect before every call that began after its end.
            // So does an entry of a batch, before a later entry that changes the same key.
            let is_entry_before = |other: usize, before: &Call| {
                other < index
                    && (before.thread, before.began) == (call.thread, call.began)
                    && before.action != Action::Get
            };
            let comes_too_early = calls.iter().enumerate().any(|(other, before)| {
                let has_ended = must(before).is_some_and(|(ended, _)| ended < call.began);
                done & 1 << other == 0 && (has_ended || is_entry_before(other, before))
            });
            let comes_too_late = lost_by(call).is_some_and(|lost| {
                let is_later =
                    |(index, later): (usize, &&Call)| done & 1 << index != 0 && later.began > lost;
                calls.iter().enumerate().any(is_later)
            });
            let next = match returned_by(call) {
                _ if comes_too_early || comes_too_late => continue,
                Some((_, Answer::Found(found))) if found != state => continue,
                Some((_, Answer::Full)) => state,
                _ => call.action.apply(state),
            };
            if seen.insert((done | 1 << index, next)) {
                open.push((done | 1 << index, next));
            }
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(action: Action, began: u32, ended: Option<(u32, Option<Value>)>) -> Call {
        let ended = ended.map(|(at, found)| (at, Answer::Found(found)));
        Call { thread: 0, key: 0, action, began, ended }
    }

    fn states(calls: &[Call], at: u32) -> Vec<Option<Value>> {
        let mut states: Vec<_> = allowed(calls, 0, None, at).into_iter().collect();
        states.sort();
        states
    }

    #[test]
    fn what_returned_holds_and_what_was_under_way_may() {
        let calls = [call(Action::Insert(1), 0, Some((1, None))), call(Action::Update(2), 2, None)];
        assert_eq!(states(&calls, 1), [None, Some(1)]);
        assert_eq!(states(&calls, 2), [Some(1)]);
        assert_eq!(states(&calls, 9), [Some(1), Some(2)]);
    }

    #[test]
    fn a_value_that_was_read_has_happened() {
        let calls = [call(Action::Insert(1), 0, None), call(Action::Get, 1, Some((2, Some(1))))];
        assert_eq!(states(&calls, 2), [None, Some(1)]);
        assert_eq!(states(&calls, 9), [Some(1)]);
    }

    #[test]
    fn answers_that_nothing_explains_allow_no_state() {
        let both_inserted = [
            call(Action::Insert(1), 0, Some((2, None))),
            call(Action::Insert(2), 1, Some((3, None))),
        ];
        assert_eq!(states(&both_inserted, 9), []);
        let old_after_new = [
            call(Action::Upsert(1), 0, Some((5, None))),
            call(Action::Get, 1, Some((2, Some(1)))),
            call(Action::Get, 3, Some((4, None))),
        ];
        assert_eq!(states(&old_after_new, 9), []);
    }

    #[test]
    fn entries_of_a_batch_take_effect_in_order() {
        let batch = |answers: [Option<u16>; 2]| {
            [
                call(Action::Upsert(1), 0, Some((1, answers[0]))),
                call(Action::Upsert(2), 0, Some((1, answers[1]))),
            ]
        };
        assert_eq!(states(&batch([None, Some(1)]), 9), [Some(2)]);
        assert_eq!(states(&batch([Some(2), None]), 9), []);
        // Cut, it has done some of it from its beginning on.
        assert_eq!(states(&batch([None, Some(1)]), 1), [None, Some(1), Some(2)]);
    }

    #[test]
    fn a_lost_call_has_happened_before_what_began_later_or_not_at_all() {
        let lost = Call { ended: Some((3, Answer::Lost)), ..call(Action::Insert(1), 0, None) };
        let get = |began, found| call(Action::Get, began, Some((began + 1, found)));
        assert_eq!(states(std::slice::from_ref(&lost), 9), [None, Some(1)]);
        assert_eq!(states(&[lost.clone(), get(1, None)], 9), [None, Some(1)]);
        assert_eq!(states(&[lost.clone(), get(4, None)], 9), [None]);
        assert_eq!(states(&[lost.clone(), get(4, Some(1))], 9), [Some(1)]);
        assert_eq!(states(&[lost, get(4, None), get(6, Some(1))], 9), []);
    }

    #[test]
    fn a_call_that_found_no_room_did_nothing() {
        let mut full = call(Action::Insert(1), 0, None);
        full.ended = Some((1, Answer::Full));
        assert_eq!(states(&[full], 9), [None]);
    }
}
