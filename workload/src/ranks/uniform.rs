//! Every record as often as every other.

use super::{Ranks, check_records};
use crate::random::{Purpose, Random};
use crate::{ParameterError, Part};

/// Ranks drawn independently and uniformly.
#[derive(Debug, Clone)]
pub struct Uniform {
    records: u64,
    random: Random,
}

impl Uniform {
    /// Ranks below `records`.
    pub fn new(records: u64, seed: u64, part: Part) -> Result<Uniform, ParameterError> {
        Ok(Uniform {
            records: check_records(records)?,
            random: Random::of_part(seed, Purpose::Ranks, part),
        })
    }

    /// From now on ranks below `records`, if these are more.
    #[inline]
    pub fn grow_to(&mut self, records: u64) {
        self.records = self.records.max(records);
    }
}

impl Ranks for Uniform {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        self.random.below(self.records)
    }
}
