//! Brings a map into the state in which it is to be measured, off the clock.

use crate::crew;
use crate::keys::{Keys, Writer};
use crate::map::{Failure, Map};
use crate::setting::Setting;
use anyhow::{Result, ensure};
use std::ops::Range;

/// At most this many pairs are looked at again after the clock has stopped.
const CHECKS_MAX: u64 = 1 << 20;

/// Inserts the keys of these numbers.
pub fn fill<M: Map>(map: &M, keys: Keys, numbers: Range<u64>, threads: usize) -> Result<()> {
    let count = numbers.end - numbers.start;
    let (wrong, _) = crew::run(workload::Part::all(threads).collect(), |part| {
        let range = part.range(count);
        let keys = range.map(|number| keys.key(numbers.start + number));
        keys.filter(|&key| !map.insert(key, Writer::Insert.value(key))).count() as u64
    })?;
    crew::refuse_wrong("filling", wrong.into_iter().sum(), count)
}

/// Looks up a sample of the stored keys, which have kept their first values.
pub fn check<M: Map>(map: &M, keys: Keys) -> Result<()> {
    if let Some(facts) = map.facts() {
        let (found, expected) = (facts.pairs, keys.count());
        ensure!(found == expected, "the table holds {found} pairs instead of {expected}");
    }
    let step = keys.count().div_ceil(CHECKS_MAX).max(1) as usize;
    for number in (0..keys.count()).step_by(step) {
        let key = keys.key(number);
        let (found, expected) = (map.get(key), Some(Writer::Insert.value(key)));
        ensure!(found == expected, "key {key:#x} holds {found:?} instead of {expected:?}");
    }
    Ok(())
}

/// A result, with what the map knows about why answers were wrong.
pub fn explained<M: Map, T>(map: &M, setting: &Setting, result: Result<T>) -> Result<T> {
    match (result, map.failure()) {
        (Err(error), Some(failure)) => {
            let error = match (&failure, setting.load_factor) {
                (Failure::Full(_), Some(asked)) => error.context(format!(
                    "it was full before --load-factor {asked}: ask for less (suite load-factor \
                     tells how far it goes)"
                )),
                _ => error,
            };
            Err(error.context(failure))
        }
        (result, _) => result,
    }
}
