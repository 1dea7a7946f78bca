//! Mostly what came last.

use super::{Ranks, Zipf};
use crate::random::{Purpose, Random};
use crate::{ParameterError, Part};

/// Ranks with zipfian popularity, the newest record the most popular.
#[derive(Debug, Clone)]
pub struct Latest {
    law: Zipf,
    random: Random,
}

impl Latest {
    /// Ranks below `records`, with a skew `theta` from 0 to below 1.
    pub fn new(records: u64, theta: f64, seed: u64, part: Part) -> Result<Latest, ParameterError> {
        Ok(Latest {
            law: Zipf::new(records, theta)?,
            random: Random::of_part(seed, Purpose::Ranks, part),
        })
    }

    /// From now on ranks below `records`, if these are more.
    pub fn grow_to(&mut self, records: u64) {
        self.law.grow_to(records);
    }
}

impl Ranks for Latest {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        self.law.count() - 1 - self.law.rank(self.random.unit())
    }
}
