//! Any distribution behind one type.

use super::{Latest, Ranks, ScrambledZipfian, Sequential, Shuffled, Uniform};
use crate::{ParameterError, Part};

/// The skew that YCSB and the papers use.
pub const YCSB_THETA: f64 = 0.99;

/// How requests are spread over the records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// [`Uniform`]
    Uniform,
    /// [`Sequential`]
    Sequential,
    /// [`Shuffled`]
    Shuffled,
    /// [`ScrambledZipfian`]
    Zipfian {
        /// The skew, from 0 to below 1.
        theta: f64,
    },
    /// [`Latest`]
    Latest {
        /// The skew, from 0 to below 1.
        theta: f64,
    },
}

/// Ranks of any [`Distribution`].
#[derive(Debug, Clone)]
pub enum RankStream {
    /// See [`Uniform`].
    Uniform(Uniform),
    /// See [`Sequential`].
    Sequential(Sequential),
    /// See [`Shuffled`].
    Shuffled(Shuffled),
    /// See [`ScrambledZipfian`].
    Zipfian(ScrambledZipfian),
    /// See [`Latest`].
    Latest(Latest),
}

impl RankStream {
    /// This part's stream of ranks below `records`.
    pub fn new(
        distribution: Distribution,
        records: u64,
        seed: u64,
        part: Part,
    ) -> Result<RankStream, ParameterError> {
        Ok(match distribution {
            Distribution::Uniform => RankStream::Uniform(Uniform::new(records, seed, part)?),
            Distribution::Sequential => RankStream::Sequential(Sequential::new(records, part)?),
            Distribution::Shuffled => RankStream::Shuffled(Shuffled::new(records, seed, part)?),
            Distribution::Zipfian { theta } => {
                RankStream::Zipfian(ScrambledZipfian::new(records, theta, seed, part)?)
            }
            Distribution::Latest { theta } => {
                RankStream::Latest(Latest::new(records, theta, seed, part)?)
            }
        })
    }

    /// Lets the uniform and the latest stream take in records up to `records`. The others keep
    /// to the records they began with: what is popular, or comes next, is already settled.
    pub fn grow_to(&mut self, records: u64) {
        match self {
            RankStream::Uniform(ranks) => ranks.grow_to(records),
            RankStream::Latest(ranks) => ranks.grow_to(records),
            RankStream::Sequential(_) | RankStream::Shuffled(_) | RankStream::Zipfian(_) => {}
        }
    }
}

impl Ranks for RankStream {
    #[inline]
    fn next_rank(&mut self) -> u64 {
        match self {
            RankStream::Uniform(ranks) => ranks.next_rank(),
            RankStream::Sequential(ranks) => ranks.next_rank(),
            RankStream::Shuffled(ranks) => ranks.next_rank(),
            RankStream::Zipfian(ranks) => ranks.next_rank(),
            RankStream::Latest(ranks) => ranks.next_rank(),
        }
    }

    // The loops are in the arms, so that the choice is made once.
    fn fill(&mut self, out: &mut [u64]) {
        match self {
            RankStream::Uniform(ranks) => ranks.fill(out),
            RankStream::Sequential(ranks) => ranks.fill(out),
            RankStream::Shuffled(ranks) => ranks.fill(out),
            RankStream::Zipfian(ranks) => ranks.fill(out),
            RankStream::Latest(ranks) => ranks.fill(out),
        }
    }
}
