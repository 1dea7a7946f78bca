//! Traces with keys that come and never come again, between zipfian requests.

use super::{PASSING, Popularity, Scale, Trace, alike};
use crate::{ParameterError, Random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter;

const SKEW: f64 = 0.9;
/// A scan has a 25th of the number of keys. Three times as many zipfian requests come before it.
const SCANS: u32 = 25;
const REQUESTS_PER_SCANNED: u64 = 3;
/// One request in so many is for a key that never comes again.
const WONDERS: u64 = 3;
/// One request in so many begins a burst, among those at which no repeat is due.
const BURSTS: u64 = 7;
/// After the first request for a key of a burst there are so many more, at random times within so many requests.
const BURST_REPEATS: usize = 2;
const BURST_LEN: u64 = 2_000;
/// Requests until the first repeat, at least.
const BURST_GAP: u64 = 20;

pub(super) fn scan(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, SKEW)?;
    let scan_len = u64::from(scale.keys / SCANS);
    let turn_len = scan_len * (REQUESTS_PER_SCANNED + 1);
    let mut passing = PASSING;
    let key = |number: u64| {
        if number % turn_len < scan_len * REQUESTS_PER_SCANNED {
            return popularity.rank(random);
        }
        passing += 1;
        passing
    };
    Ok(alike(scale, (0..).map(key)))
}

pub(super) fn wonders(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, SKEW)?;
    let mut passing = PASSING;
    let key = || {
        if random.below(WONDERS) > 0 {
            return popularity.rank(random);
        }
        passing += 1;
        passing
    };
    Ok(alike(scale, iter::repeat_with(key)))
}

pub(super) fn bursts(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, SKEW)?;
    let mut passing = PASSING;
    // The earliest first.
    let mut repeats: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let key = |number: u64| {
        if let Some(&Reverse((due, key))) = repeats.peek()
            && due <= number
        {
            repeats.pop();
            return key;
        }
        if random.below(BURSTS) > 0 {
            return popularity.rank(random);
        }
        passing += 1;
        let repeat = |_| Reverse((number + BURST_GAP + random.below(BURST_LEN), passing));
        repeats.extend((0..BURST_REPEATS).map(repeat));
        passing
    };
    Ok(alike(scale, (0..).map(key)))
}
