//! Every record once, in no order.

use super::{Ranks, Sequential};
use crate::random::{Purpose, derive};
use crate::{ParameterError, Part, Permutation};

/// All ranks once in a random order, then again in the same order. The parts of one seed have no
/// rank in common: what one thread removes no other does.
#[derive(Debug, Clone)]
pub struct Shuffled {
    order: Permutation,
    positions: Sequential,
}

impl Shuffled {
    /// This part of the ranks below `records`; at least as many as there are parts.
    pub fn new(records: u64, seed: u64, part: Part) -> Result<Shuffled, ParameterError> {
        Ok(Shuffled {
            positions: Sequential::new(records, part)?,
            // Not the order of popularity of a zipfian stream of this seed.
            order: Permutation::new(records, derive(seed, Purpose::Ranks)),
        })
    }
}

impl Ranks for Shuffled {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        self.order.apply(self.positions.next_rank())
    }
}
