//! What is allowed of a cache, key by key. It may lose a value at any time, so absence is always right. A value that is
//! there must have been put, and no call may have ended it that had returned before: a removal, a put of another value,
//! a clearing, or the passing of its time.
//!
//! A look-up may show a put that has not returned. A crash then takes it back, and the former value may be there again.
//! So a look-up counts for a crash only if the put of what it found had returned.

use crate::history::{Action, Answer, CacheAction, Call, Key, Value};
use crate::subject::CacheSubject;
use std::collections::HashSet;

/// A value, and whether it ends when time passes.
type State = Option<(Value, bool)>;

/// The states in which `key`, which was in state `initial`, may be at the moment `at`, crashed or not. None at all: the
/// answers themselves cannot be explained. A cache that has room for all loses nothing that a returned call has put.
pub fn allowed(
    calls: &[Call],
    key: Key,
    initial: Option<Value>,
    at: u32,
    has_room: bool,
) -> HashSet<Option<Value>> {
    let returned_by = |call: &Call| call.ended.filter(|&(ended, _)| ended < at);
    let has_begun = |call: &&Call| call.key == key && call.began < at;
    let put_returned = |value: Value| {
        let mut puts = calls.iter().filter(|call| call.key == key);
        let is_put = |call: &Call| call.action == Action::Upsert(value);
        puts.find(|call| is_put(call)).is_none_or(|put| returned_by(put).is_some())
    };
    // What a look-up missed may come back, if who removed it had not returned.
    let all_returned = calls.iter().filter(has_begun).all(|call| returned_by(call).is_some());
    let counts = |call: &&Call| match (call.action, returned_by(call)) {
        (Action::Get, Some((_, Answer::Found(None)))) => has_room && all_returned,
        (Action::Get, Some((_, Answer::Found(Some(value))))) => put_returned(value),
        (Action::Get, _) | (_, Some((_, Answer::Full))) => false,
        (Action::OfCache(CacheAction::Touch { .. }), Some((_, Answer::Found(None)))) => false,
        _ => true,
    };
    let calls: Vec<&Call> = calls.iter().filter(has_begun).filter(counts).collect();
    assert!(calls.len() < 32, "too many calls on one key to judge");
    let required = (0..calls.len())
        .filter(|&index| returned_by(calls[index]).is_some())
        .fold(0u32, |mask, index| mask | 1 << index);
    let initial = initial.map(|value| (value, CacheSubject::ends(value)));
    let mut states = HashSet::new();
    let mut seen = HashSet::from([(0u32, initial)]);
    let mut open = vec![(0u32, initial)];
    while let Some((done, state)) = open.pop() {
        if done & required == required {
            states.insert(state.map(|(value, _)| value));
        }
        for (index, call) in calls.iter().enumerate().filter(|(index, _)| done & 1 << index == 0) {
            let comes_too_early = calls.iter().enumerate().any(|(other, before)| {
                let has_ended = returned_by(before).is_some_and(|(ended, _)| ended < call.began);
                done & 1 << other == 0 && has_ended
            });
            let is_explained = match returned_by(call) {
                Some((_, Answer::Found(found))) if call.action == Action::Get => {
                    state.map(|(value, _)| value) == found
                }
                _ => true,
            };
            if comes_too_early || !is_explained {
                continue;
            }
            let next = (done | 1 << index, after(call.action, state));
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    if !(has_room || states.is_empty()) {
        states.insert(None);
    }
    states
}

fn after(action: Action, state: State) -> State {
    match action {
        Action::Upsert(value) => Some((value, CacheSubject::ends(value))),
        Action::Remove | Action::OfCache(CacheAction::Clear) => None,
        Action::OfCache(CacheAction::Touch { ends }) => state.map(|(value, _)| (value, ends)),
        Action::OfCache(CacheAction::Pass) => state.filter(|(_, ends)| !ends),
        _ => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOUCH: Action = Action::OfCache(CacheAction::Touch { ends: false });
    const PASS: Action = Action::OfCache(CacheAction::Pass);
    const CLEAR: Action = Action::OfCache(CacheAction::Clear);

    fn call(action: Action, began: u32, ended: Option<(u32, Option<Value>)>) -> Call {
        let ended = ended.map(|(at, found)| (at, Answer::Found(found)));
        Call { thread: 0, key: 0, action, began, ended }
    }

    fn states(calls: &[Call], at: u32) -> Vec<Option<Value>> {
        states_of(calls, at, false)
    }

    fn states_of(calls: &[Call], at: u32, has_room: bool) -> Vec<Option<Value>> {
        let mut states: Vec<_> = allowed(calls, 0, None, at, has_room).into_iter().collect();
        states.sort();
        states
    }

    #[test]
    fn where_there_is_room_nothing_is_lost_that_was_returned() {
        let mut calls = vec![call(Action::Upsert(1), 0, Some((1, None)))];
        assert_eq!(states_of(&calls, 1, true), [None, Some(1)]);
        assert_eq!(states_of(&calls, 2, true), [Some(1)]);
        calls.push(call(Action::Get, 2, Some((3, None))));
        assert_eq!(states_of(&calls, 4, true), []);
        calls.push(call(Action::Remove, 2, None));
        assert_eq!(states_of(&calls, 4, true), [None, Some(1)]);
    }

    #[test]
    fn absence_is_always_right_and_a_former_value_never() {
        let mut calls = vec![
            call(Action::Upsert(1), 0, Some((1, None))),
            call(Action::Upsert(3), 2, Some((3, None))),
            call(Action::Get, 4, Some((5, None))),
            call(Action::Get, 6, Some((7, Some(3)))),
        ];
        assert_eq!(states(&calls, 9), [None, Some(3)]);
        calls.push(call(Action::Get, 8, Some((9, Some(1)))));
        assert_eq!(states(&calls, 10), []);
    }

    #[test]
    fn what_was_seen_before_its_put_returned_may_be_taken_back_by_a_crash() {
        let mut calls = vec![
            call(Action::Upsert(1), 0, Some((1, None))),
            call(Action::Upsert(3), 2, None),
            call(Action::Get, 3, Some((4, Some(3)))),
        ];
        assert_eq!(states(&calls, 5), [None, Some(1), Some(3)]);
        calls[1].ended = Some((5, Answer::Found(None)));
        assert_eq!(states(&calls, 6), [None, Some(3)]);
    }

    #[test]
    fn what_ended_does_not_come_back() {
        for end in [Action::Remove, CLEAR, PASS] {
            let calls =
                [call(Action::Upsert(5), 0, Some((1, None))), call(end, 2, Some((3, None)))];
            assert_eq!(states(&calls, 3), [None, Some(5)]);
            assert_eq!(states(&calls, 4), [None]);
        }
        let touched = [
            call(Action::Upsert(5), 0, Some((1, None))),
            call(TOUCH, 2, Some((3, Some(0)))),
            call(PASS, 4, Some((5, None))),
        ];
        assert_eq!(states(&touched, 9), [None, Some(5)]);
    }
}
