//! The judge: what a pool may hold after the calls that returned and those that a kill cut off.

use std::collections::HashMap;

use super::calls::{Call, Deed, Key, Source};

/// Violations that are told one by one.
const TOLD_MAX: usize = 10;

/// How far a writer had got when it was killed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Calls that it had begun.
    pub(super) begun: u64,
    /// Of these, calls that had returned.
    pub(super) returned: u64,
}

/// What was found under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The value of the call with this number.
    Written(u64),
    /// What a counter counted.
    Count(u64),
    /// A value that no call writes.
    Foreign,
}

/// What a judgement came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Keys without the effect of a call that had returned.
    pub(super) lost: u64,
    /// Keys with a state that no call made.
    pub(super) invented: u64,
    /// Some of them in words.
    pub(super) told: Vec<String>,
}

impl Verdict {
    fn lost(&mut self, what: impl FnOnce() -> String) {
        self.lost += 1;
        self.tell("lost", what);
    }

    fn invented(&mut self, what: impl FnOnce() -> String) {
        self.invented += 1;
        self.tell("invented", what);
    }

    fn tell(&mut self, how: &str, what: impl FnOnce() -> String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(format!("{how}: {}", what()));
        }
    }
}

/// The states that the keys of one pool may be in.
pub(super) struct Ledger {
    source: Source,
    /// Calls of each writer that are entered.
    entered: Vec<u64>,
    /// Calls that had returned.
    acknowledged: u64,
    /// The numbers of the calls that may have written the key's value. `None` is absence, as is a missing entry.
    states: HashMap<Key, Vec<Option<u64>>>,
    /// The least and the most that each counter may have counted.
    counts: HashMap<Key, (u64, u64)>,
}

impl Ledger {
    /// Of a new pool.
    pub(super) fn new(source: Source, writers: usize) -> Ledger {
        Ledger {
            source,
            entered: vec![0; writers],
            acknowledged: 0,
            states: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Enters what the writers did until they were killed. The last call of each may have taken effect in part, or not
    /// at all; what a writer does in its next life comes after it.
    pub(super) fn enter(&mut self, marks: &[Mark]) {
        for (writer, mark) in marks.iter().enumerate() {
            for number in self.entered[writer]..mark.begun {
                let call = self.source.call(writer as u64, number);
                let has_returned = number < mark.returned;
                self.acknowledged += u64::from(has_returned);
                call.keys.iter().for_each(|key| self.enter_key(&call, *key, has_returned));
            }
            self.entered[writer] = mark.begun.max(self.entered[writer]);
        }
    }

    fn enter_key(&mut self, call: &Call, key: Key, has_returned: bool) {
        if call.deed == Deed::Add {
            let (least, most) = self.counts.entry(key).or_default();
            *least += u64::from(has_returned);
            *most += 1;
            return;
        }
        let states = self.states.entry(key).or_insert_with(|| vec![None]);
        let mut after: Vec<_> = states.iter().map(|state| call.after(*state)).collect();
        if !has_returned {
            after.extend_from_slice(states);
        }
        after.sort_unstable();
        after.dedup();
        *states = after;
    }

    /// Judges what the pool holds. What was found is what the keys have from then on.
    pub(super) fn judge(&mut self, found: &HashMap<Key, Found>) -> Verdict {
        let mut verdict = Verdict::default();
        for (key, found) in found {
            let is_known = self.states.contains_key(key) || self.counts.contains_key(key);
            if !is_known {
                verdict.invented(|| format!("{key:x?} holds {found:?}, and no call wrote to it"));
            }
        }
        for (key, (least, most)) in &mut self.counts {
            let count = match found.get(key) {
                None => 0,
                Some(Found::Count(count)) => *count,
                Some(_) => {
                    verdict.invented(|| format!("{key:x?} is no counter any more"));
                    continue;
                }
            };
            let said = || format!("{key:x?} counts {count}, expected {least} to {most}");
            if count < *least {
                verdict.lost(said);
            } else if count > *most {
                verdict.invented(said);
            }
            (*least, *most) = (count, count);
        }
        for (key, states) in &mut self.states {
            let state = match found.get(key) {
                None => None,
                Some(Found::Written(number)) => Some(*number),
                Some(Found::Count(_) | Found::Foreign) => {
                    verdict.invented(|| format!("{key:x?} holds a value that no call wrote"));
                    continue;
                }
            };
            if !states.contains(&state) {
                let said = || format!("{key:x?} is of call {state:?}, expected one of {states:?}");
                // A value of an earlier call, or of none: the call after it was taken back.
                let is_of_the_past = state.is_none_or(|number| {
                    let writer = (key.0 >> 32) as usize;
                    let begun = self.entered.get(writer).is_some_and(|begun| number < *begun);
                    begun && self.source.call(writer as u64, number).keys.contains(key)
                });
                if is_of_the_past {
                    verdict.lost(said);
                } else {
                    verdict.invented(said);
                }
            }
            *states = vec![state];
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source { seed: 3 };

    /// A ledger of one writer that was killed in its last call, and a pool that has all calls.
    fn killed_in(last: u64) -> (Ledger, HashMap<Key, Found>) {
        let mut ledger = Ledger::new(SOURCE, 1);
        ledger.enter(&[Mark { begun: last + 1, returned: last }]);
        let mut pool = HashMap::new();
        (0..=last).for_each(|number| perform(&mut pool, &SOURCE.call(0, number)));
        (ledger, pool)
    }

    fn perform(pool: &mut HashMap<Key, Found>, call: &Call) {
        for key in &call.keys {
            let before = pool.remove(key);
            let after = match (call.deed, before) {
                (Deed::Add, Some(Found::Count(count))) => Some(Found::Count(count + 1)),
                (Deed::Add, _) => Some(Found::Count(1)),
                (_, Some(Found::Written(number))) => call.after(Some(number)).map(Found::Written),
                _ => call.after(None).map(Found::Written),
            };
            after.map(|found| pool.insert(*key, found));
        }
    }

    /// The last call that does this with a single key, which a call before it puts and no call after it names.
    fn last_of(deed: Deed, end: u64) -> Call {
        let call = |number| SOURCE.call(0, number);
        let is_wanted = |found: &Call| {
            let names = |number: u64| call(number).keys.contains(&found.keys[0]);
            let is_last = !(found.number + 1..=end).any(names);
            let mut puts = (0..found.number).filter(|number| call(*number).deed == Deed::Put);
            found.deed == deed
                && found.keys.len() == 1
                && is_last
                && (deed == Deed::Add || puts.any(names))
        };
        (0..end).rev().map(call).find(is_wanted).expect("there is one")
    }

    fn batch_after(number: u64) -> Call {
        let mut calls = (number..).map(|number| SOURCE.call(0, number));
        calls.find(|call| call.keys.len() > 1 && call.deed == Deed::Put).expect("there is one")
    }

    #[test]
    fn every_call_that_returned_is_demanded_and_the_one_cut_off_may_have_happened_in_part() {
        let batch = batch_after(4000);
        for done in 0..=batch.keys.len() {
            let (mut ledger, _) = killed_in(batch.number);
            let mut pool = HashMap::new();
            (0..batch.number).for_each(|number| perform(&mut pool, &SOURCE.call(0, number)));
            perform(&mut pool, &Call { keys: batch.keys[..done].to_vec(), ..batch.clone() });
            assert_eq!(ledger.judge(&pool), Verdict::default(), "{done} keys of the batch");
            assert_eq!(ledger.acknowledged(), batch.number);
            // From now on the pool has what was found.
            assert_eq!(ledger.judge(&pool), Verdict::default());
            perform(&mut pool, &batch);
            let late = ledger.judge(&pool);
            assert_eq!(late.lost + late.invented, (batch.keys.len() - done) as u64);
        }
    }

    #[test]
    fn calls_cut_off_in_two_lives_may_each_have_happened() {
        let first = last_of(Deed::Put, 5000).number;
        let last = first + 100;
        for skipped in [None, Some(first), Some(last)] {
            let mut ledger = Ledger::new(SOURCE, 1);
            ledger.enter(&[Mark { begun: first + 1, returned: first }]);
            ledger.enter(&[Mark { begun: last + 1, returned: last }]);
            let mut pool = HashMap::new();
            let done = (0..=last).filter(|number| Some(*number) != skipped);
            done.for_each(|number| perform(&mut pool, &SOURCE.call(0, number)));
            assert_eq!(ledger.judge(&pool), Verdict::default());
            assert_eq!(ledger.acknowledged(), last - 1);
        }
    }

    #[track_caller]
    fn demand(spoil: impl FnOnce(&mut HashMap<Key, Found>), lost: u64, invented: u64) {
        let (mut ledger, mut pool) = killed_in(5000);
        spoil(&mut pool);
        let verdict = ledger.judge(&pool);
        assert_eq!((verdict.lost, verdict.invented), (lost, invented), "{:?}", verdict.told);
        assert_eq!(verdict.told.len() as u64, lost + invented);
    }

    #[test]
    fn each_kind_of_violation_is_noticed() {
        demand(|_| {}, 0, 0);
        let put = last_of(Deed::Put, 5000);
        let removal = last_of(Deed::Remove, 5000);
        let addition = last_of(Deed::Add, 5000);
        let counts = |pool: &HashMap<Key, Found>| match pool[&addition.keys[0]] {
            Found::Count(count) => count,
            _ => unreachable!("it is a counter"),
        };
        // A pair is gone; a pair is back; a counter has lost a call, or has one too many.
        demand(|pool| assert!(pool.remove(&put.keys[0]).is_some()), 1, 0);
        let back = |pool: &mut HashMap<_, _>| {
            let writes =
                |call: &Call| call.keys.contains(&removal.keys[0]) && call.deed != Deed::Remove;
            let wrote = (0..removal.number).map(|number| SOURCE.call(0, number)).find(writes);
            let number = wrote.expect("the key was written before").number;
            assert_eq!(pool.insert(removal.keys[0], Found::Written(number)), None);
        };
        demand(back, 1, 0);
        demand(
            |pool| {
                pool.insert(addition.keys[0], Found::Count(counts(pool) - 1));
            },
            1,
            0,
        );
        demand(
            |pool| {
                pool.insert(addition.keys[0], Found::Count(counts(pool) + 1));
            },
            0,
            1,
        );
        demand(
            |pool| {
                pool.remove(&addition.keys[0]);
            },
            1,
            0,
        );
        // A value that no call wrote, one of a call of another key, one of the future, a key of nobody.
        demand(
            |pool| {
                pool.insert(put.keys[0], Found::Foreign);
            },
            0,
            1,
        );
        demand(
            |pool| {
                pool.insert(put.keys[0], Found::Written(removal.number));
            },
            0,
            1,
        );
        demand(
            |pool| {
                pool.insert(put.keys[0], Found::Written(1 << 40));
            },
            0,
            1,
        );
        demand(
            |pool| {
                pool.insert(Key(77 << 32), Found::Written(1));
            },
            0,
            1,
        );
        demand(
            |pool| {
                pool.insert(addition.keys[0], Found::Foreign);
            },
            0,
            1,
        );
    }
}
