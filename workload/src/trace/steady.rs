//! Traces in which a key is as popular at the end as at the beginning.

use super::{PAIR_BYTES, Popularity, Request, Scale, Trace, alike};
use crate::{ParameterError, Random};
use std::f64::consts::TAU;
use std::iter;

/// Bytes of a key, and of a value if half of the values are smaller.
const KEY_BYTES: f64 = 16.0;
const MEDIAN_BYTES: f64 = 200.0;
/// No value is larger, so that each fits into a small cache.
const BYTES_MAX: f64 = 20_000.0;
/// Half of the values live shorter.
const MEDIAN_MS: f64 = 100.0;
/// No value lives longer.
const MS_MAX: f64 = 10_000.0;

pub(super) fn zipf(scale: Scale, skew: f64, random: &mut Random) -> Result<Trace, ParameterError> {
    let popularity = Popularity::new(scale.keys, skew)?;
    Ok(alike(scale, iter::repeat_with(|| popularity.rank(random))))
}

/// Sizes of pairs, e^(`spread`) times larger or smaller at one standard deviation.
pub(super) fn sizes(
    scale: Scale,
    skew: f64,
    spread: f64,
    random: &mut Random,
) -> Result<Trace, ParameterError> {
    let bytes = |random: &mut Random| {
        (KEY_BYTES + MEDIAN_BYTES * lognormal(spread, random)).min(BYTES_MAX) as u32
    };
    let bytes: Vec<u32> = (0..scale.keys).map(|_| bytes(random)).collect();
    let popularity = Popularity::new(scale.keys, skew)?;
    let request = |_| {
        let key = popularity.rank(random);
        Request { key, bytes: bytes[key as usize], lives_ms: 0 }
    };
    let requests = (0..scale.requests).map(request).collect();
    Ok(Trace { requests, set_bytes: bytes.iter().map(|&bytes| u64::from(bytes)).sum() })
}

/// A key's values all live equally long.
pub(super) fn expiry(scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
    let lives_ms =
        |random: &mut Random| (MEDIAN_MS * lognormal(1.0, random)).clamp(1.0, MS_MAX) as u32;
    let lives_ms: Vec<u32> = (0..scale.keys).map(|_| lives_ms(random)).collect();
    let mut trace = zipf(scale, 0.9, random)?;
    for request in &mut trace.requests {
        debug_assert_eq!(request.bytes, PAIR_BYTES);
        request.lives_ms = lives_ms[request.key as usize];
    }
    Ok(trace)
}

/// A number whose logarithm is normal around 0 (Box and Muller's method).
fn lognormal(spread: f64, random: &mut Random) -> f64 {
    // 1 less a number below 1 is not 0.
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    (spread * radius * (TAU * random.unit()).cos()).exp()
}
