//! Which records are asked for.
//!
//! [`RankStream`] makes any of the [`Distribution`]s; each is a type of its own as well.
//!
//! ```
//! use workload::ranks::{Distribution, RankStream, Ranks};
//! use workload::{Part, Scatter};
//!
//! let skewed = Distribution::Zipfian { theta: 0.99 };
//! let mut ranks = RankStream::new(skewed, 1_000_000, 42, Part::WHOLE)?;
//! let mut keys = vec![0; 10_000];
//! ranks.fill_keys(Scatter::new(42), &mut keys);
//!
//! keys.sort_unstable();
//! keys.dedup();
//! assert!(keys.len() < 6_000, "popular records come again and again");
//! # Ok::<(), workload::ParameterError>(())
//! ```

mod latest;
mod sequential;
mod shuffled;
mod stream;
mod uniform;
mod zeta;
mod zipf;
mod zipfian;

pub use latest::Latest;
pub use sequential::Sequential;
pub use shuffled::Shuffled;
pub use stream::{Distribution, RankStream, YCSB_THETA};
pub use uniform::Uniform;
pub use zeta::zeta;
pub use zipf::Zipf;
pub use zipfian::ScrambledZipfian;

use crate::{ParameterError, Scatter};

/// Most records a stream can be about. Leaves room for ranks of records inserted later.
pub const MOST_RECORDS: u64 = 1 << 48;

/// An endless stream of ranks.
pub trait Ranks {
    /// The next rank.
    fn next_rank(&mut self) -> u64;

    /// Fills `out` with the next ranks.
    fn fill(&mut self, out: &mut [u64]) {
        for rank in out {
            *rank = self.next_rank();
        }
    }

    /// Fills `out` with the keys of the next ranks.
    fn fill_keys(&mut self, scatter: Scatter, out: &mut [u64]) {
        self.fill(out);
        scatter.scatter(out);
    }
}

pub(crate) fn check_records(records: u64) -> Result<u64, ParameterError> {
    match records {
        1..=MOST_RECORDS => Ok(records),
        _ => Err(ParameterError::Records { records, limit: MOST_RECORDS }),
    }
}
