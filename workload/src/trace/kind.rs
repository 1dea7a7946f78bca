//! The traces.

use super::{Scale, Trace, looping, moving, passing, steady};
use crate::{ParameterError, Random};

/// What the requests of a trace have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Zipfian, skew 0.6.
    Zipf06,
    /// Zipfian, skew 0.8.
    Zipf08,
    /// Zipfian, skew 1.0.
    Zipf10,
    /// Zipfian, skew 1.2.
    Zipf12,
    /// Zipfian, skew 1.0; 20 times the ranks get other keys.
    Shift,
    /// Zipfian, skew 0.9; each 30 requests popularity moves on by a key.
    Drift,
    /// One request in 10 is for a new key, the others are zipfian by age.
    Latest,
    /// Three loops one after the other, twice: a fifth longer than a cache of 1, 5 and 20 %.
    Loops,
    /// A loop a fifth longer than the cache; one request in 50 is for another key.
    Loop,
    /// Such a loop, and as many zipfian requests between.
    LoopAndZipf,
    /// Zipfian, skew 0.9, and now and then a scan of keys that never come again: a quarter of all requests.
    Scan,
    /// Zipfian, skew 0.9; a third of the requests is for keys that never come again.
    Wonders,
    /// Zipfian, skew 0.9; a third of the requests is for keys that come three times within a short time, then never.
    Bursts,
    /// Zipfian, skew 0.9; sizes lognormal around 200 bytes.
    Sizes,
    /// Zipfian, skew 0.7; sizes lognormal around 200 bytes, with a heavier tail.
    LargeSizes,
    /// Zipfian, skew 0.9; values live lognormally around 100 ms.
    Expiry,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 16] = [
        Kind::Zipf06,
        Kind::Zipf08,
        Kind::Zipf10,
        Kind::Zipf12,
        Kind::Shift,
        Kind::Drift,
        Kind::Latest,
        Kind::Loops,
        Kind::Loop,
        Kind::LoopAndZipf,
        Kind::Scan,
        Kind::Wonders,
        Kind::Bursts,
        Kind::Sizes,
        Kind::LargeSizes,
        Kind::Expiry,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Zipf06 => "zipf-0.6",
            Kind::Zipf08 => "zipf-0.8",
            Kind::Zipf10 => "zipf-1.0",
            Kind::Zipf12 => "zipf-1.2",
            Kind::Shift => "shift",
            Kind::Drift => "drift",
            Kind::Latest => "latest",
            Kind::Loops => "loops",
            Kind::Loop => "loop",
            Kind::LoopAndZipf => "loop-and-zipf",
            Kind::Scan => "scan",
            Kind::Wonders => "wonders",
            Kind::Bursts => "bursts",
            Kind::Sizes => "sizes",
            Kind::LargeSizes => "large-sizes",
            Kind::Expiry => "expiry",
        }
    }

    /// Draws its requests.
    pub(super) fn draw(self, scale: Scale, random: &mut Random) -> Result<Trace, ParameterError> {
        match self {
            Kind::Zipf06 => steady::zipf(scale, 0.6, random),
            Kind::Zipf08 => steady::zipf(scale, 0.8, random),
            Kind::Zipf10 => steady::zipf(scale, 1.0, random),
            Kind::Zipf12 => steady::zipf(scale, 1.2, random),
            Kind::Shift => moving::shift(scale, random),
            Kind::Drift => moving::drift(scale, random),
            Kind::Latest => moving::latest(scale, random),
            Kind::Loops => Ok(looping::loops(scale)),
            Kind::Loop => Ok(looping::one(scale, random)),
            Kind::LoopAndZipf => looping::with_zipf(scale, random),
            Kind::Scan => passing::scan(scale, random),
            Kind::Wonders => passing::wonders(scale, random),
            Kind::Bursts => passing::bursts(scale, random),
            Kind::Sizes => steady::sizes(scale, 0.9, 1.0, random),
            Kind::LargeSizes => steady::sizes(scale, 0.7, 1.5, random),
            Kind::Expiry => steady::expiry(scale, random),
        }
    }
}
