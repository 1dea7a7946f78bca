//! Traces that ask for the same keys in the same order, over and over.

use super::{PASSING, Popularity, Scale, Trace, alike};
use crate::{ParameterError, Random};
use std::iter;

/// Lengths of the loops, in thousandths of all keys: a fifth longer than caches of 1, 5 and 20 %.
const LOOPS: [u64; 3] = [12, 60, 240];
/// How often the loops come, one after the other.
const TURNS: usize = 2;
/// One request in so many is for another key.
const OTHERS: u64 = 50;

/// A loop that is a fifth longer than the cache.
fn loop_len(scale: Scale) -> u64 {
    (scale.cached() * 6 / 5).max(2)
}

pub(super) fn loops(scale: Scale) -> Trace {
    let phase_len = scale.requests.div_ceil(TURNS * LOOPS.len()) as u64;
    let phase = |permille: u64| {
        // Loops share no keys: each begins where the shorter ones have ended.
        let begin: u64 = LOOPS.iter().filter(|shorter| **shorter < permille).sum();
        let [begin, len] = [begin, permille].map(|part| u64::from(scale.keys) * part / 1000);
        (0..phase_len).map(move |number| begin + number % len)
    };
    let turn = || LOOPS.into_iter().flat_map(phase);
    alike(scale, iter::repeat_with(turn).flatten())
}

pub(super) fn one(scale: Scale, random: &mut Random) -> Trace {
    let len = loop_len(scale);
    let others = u64::from(scale.keys).saturating_sub(len).max(1);
    let mut at = 0;
    let key = || {
        if random.below(OTHERS) == 0 {
            return len + random.below(others);
        }
        at += 1;
        at % len
    };
    alike(scale, iter::repeat_with(key))
}

pub(super) fn with_zipf(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, 0.9)?;
    let len = loop_len(scale);
    let mut at = 0;
    let key = || {
        if random.below(2) == 0 {
            return popularity.rank(random);
        }
        at += 1;
        PASSING + at % len
    };
    Ok(alike(scale, iter::repeat_with(key)))
}
