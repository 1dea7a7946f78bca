//! Requests to a cache: which key is asked for, how large its value is, how long it lives.
//!
//! A program asks the cache for each key in turn, and puts the value when it is absent. What differs from trace to
//! trace is when a key comes again. [`Kind`] lists the traces. The hard cases are among them: loops and scans, which a
//! cache that keeps the latest keys answers badly, and popularity that moves, which one that keeps the most frequent
//! keys does.
//!
//! ```
//! use workload::trace::{Kind, Scale, Trace};
//!
//! let scale = Scale { keys: 10_000, requests: 50_000, cache_percent: 5 };
//! let trace = Trace::new(Kind::Scan, scale, 42)?;
//!
//! assert_eq!(trace.requests.len(), 50_000);
//! // A cache of 5 % of the keys that come again.
//! let capacity = trace.set_bytes / 20;
//! assert_eq!(capacity, 500 * u64::from(trace.requests[0].bytes));
//! # Ok::<(), workload::ParameterError>(())
//! ```

mod kind;
mod looping;
mod moving;
mod passing;
mod popularity;
mod steady;

pub use kind::Kind;
pub use popularity::Popularity;

use crate::random::{Purpose, Random};
use crate::{ParameterError, Part};

/// Bytes of a pair in traces whose pairs are all alike: a key of 16, a value of 100.
pub const PAIR_BYTES: u32 = 116;
/// Fewer keys would leave the smallest cache with nothing to decide.
const KEYS_MIN: u32 = 1_000;
/// Most keys, so that they and all that come only once can be numbered with 32 bits.
const KEYS_MAX: u32 = 1 << 28;
/// From here on: numbers of keys that are not among those that come again and again.
const PASSING: u64 = 1 << 32;

/// How large a trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Keys that come again and again.
    pub keys: u32,
    /// Requests.
    pub requests: usize,
    /// The cache's part of these keys, in percent. Loops are made a little longer than the cache.
    pub cache_percent: u32,
}

impl Scale {
    /// Keys that the cache holds if all pairs are alike.
    fn cached(self) -> u64 {
        u64::from(self.keys) * u64::from(self.cache_percent) / 100
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of the key.
    pub key: u64,
    /// Bytes of key and value together. A key has the same at each request.
    pub bytes: u32,
    /// How long a value that is put now lives, in milliseconds; 0: without end.
    pub lives_ms: u32,
}

/// The requests of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In their order.
    pub requests: Vec<Request>,
    /// Bytes of all pairs that come again and again: the working set.
    pub set_bytes: u64,
}

impl Trace {
    /// The trace of this kind. Everything random follows from the seed.
    pub fn new(kind: Kind, scale: Scale, seed: u64) -> Result<Trace, ParameterError> {
        check_keys(scale.keys)?;
        if !(1..=100).contains(&scale.cache_percent) {
            return Err(ParameterError::OutOfRange {
                what: "the cache's percentage of the keys",
                given: scale.cache_percent.into(),
                expected: "from 1 to 100",
            });
        }
        let mut random = Random::of_part(seed, Purpose::Traces, Part::WHOLE);
        kind.draw(scale, &mut random)
    }
}

fn check_keys(keys: u32) -> Result<(), ParameterError> {
    if (KEYS_MIN..=KEYS_MAX).contains(&keys) {
        return Ok(());
    }
    let expected = "from 1,000 to 2^28";
    Err(ParameterError::OutOfRange { what: "the number of keys", given: keys.into(), expected })
}

/// A trace of keys whose pairs are all alike and live without end.
fn alike(scale: Scale, keys: impl Iterator<Item = u64>) -> Trace {
    let request = |key| Request { key, bytes: PAIR_BYTES, lives_ms: 0 };
    let requests = keys.take(scale.requests).map(request).collect();
    Trace { requests, set_bytes: u64::from(scale.keys) * u64::from(PAIR_BYTES) }
}
