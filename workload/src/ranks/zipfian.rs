//! A few records most of the time, wherever they are.

use super::{Ranks, Zipf};
use crate::random::{Purpose, Random};
use crate::{ParameterError, Part, Permutation};

/// Ranks with zipfian popularity, the popular ones spread over all records.
///
/// Spread, since popular records that were loaded one after the other would lie side by side.
/// YCSB spreads by a hash modulo the number of records, which leaves a third of the records
/// without a request and gives others the requests of several; a permutation keeps the law. The
/// order of popularity is the seed's, so all parts share their popular records.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    law: Zipf,
    order: Permutation,
    random: Random,
}

impl ScrambledZipfian {
    /// Ranks below `records`, with a skew `theta` from 0 to below 1.
    pub fn new(
        records: u64,
        theta: f64,
        seed: u64,
        part: Part,
    ) -> Result<ScrambledZipfian, ParameterError> {
        Ok(ScrambledZipfian {
            law: Zipf::new(records, theta)?,
            order: Permutation::new(records, seed),
            random: Random::of_part(seed, Purpose::Ranks, part),
        })
    }

    /// The rank of the record that is requested most but for `popularity` others.
    pub fn rank_of(&self, popularity: u64) -> u64 {
        self.order.apply(popularity)
    }
}

impl Ranks for ScrambledZipfian {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        let popularity = self.law.rank(self.random.unit());
        self.order.apply(popularity)
    }
}
