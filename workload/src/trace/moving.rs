//! Traces in which other keys become popular.

use super::{PASSING, Popularity, Scale, Trace, alike};
use crate::{ParameterError, Random};

/// How often the ranks get other keys.
const SHIFTS: usize = 20;
/// Primes larger than the number of keys of any trace that is measured: keys next to each other in rank lie far apart.
const RANK_STEP: u64 = 2_147_483_647;
const SHIFT_STEP: u64 = 1_000_000_007;
/// Requests after which popularity moves on by one key.
const REQUESTS_PER_STEP: u64 = 30;
/// One request in so many is for a new key.
const NEW_KEYS: u64 = 10;

pub(super) fn shift(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, 1.0)?;
    let phase_len = (scale.requests / SHIFTS).max(1);
    let key = |number: usize| {
        let phase = (number / phase_len) as u64;
        (popularity.rank(random) * RANK_STEP + phase * SHIFT_STEP) % u64::from(scale.keys)
    };
    Ok(alike(scale, (0..).map(key)))
}

pub(super) fn drift(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, 0.9)?;
    let key = |number: u64| {
        (popularity.rank(random) + number / REQUESTS_PER_STEP) % u64::from(scale.keys)
    };
    Ok(alike(scale, (0..).map(key)))
}

pub(super) fn latest(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, 0.9)?;
    let mut newest = PASSING;
    let key = |_: u64| {
        if random.below(NEW_KEYS) == 0 {
            newest += 1;
            return newest;
        }
        newest - popularity.rank(random)
    };
    Ok(alike(scale, (0..).map(key)))
}
