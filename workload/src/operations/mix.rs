//! Kinds of operations and their shares.

use super::Kind;
use crate::ParameterError;
use crate::ranks::Distribution;

/// The most records a scan asks for, as in YCSB's workload E.
pub const LONGEST_SCAN: u16 = 100;

/// What a [`MixStream`](super::MixStream) is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    pub(crate) plan: Plan,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// Insert each record once.
    Load,
    /// Remove each record once.
    Clear,
    /// Draw each operation.
    Draw { requests: Distribution, choice: Choice },
}

impl Mix {
    /// Operations drawn independently, each kind with probability in proportion to its share.
    /// `requests` says which of the present records are read, updated and scanned.
    ///
    /// ```
    /// use workload::operations::{Kind, Mix};
    /// use workload::ranks::Distribution;
    ///
    /// let shares = [(Kind::Read, 80.0), (Kind::ReadAbsent, 15.0), (Kind::Insert, 5.0)];
    /// let mix = Mix::new(Distribution::Uniform, &shares)?;
    /// # Ok::<(), workload::ParameterError>(())
    /// ```
    pub fn new(requests: Distribution, shares: &[(Kind, f64)]) -> Result<Mix, ParameterError> {
        if shares.iter().any(|&(kind, share)| kind == Kind::Remove && share > 0.0) {
            return Err(ParameterError::RemovalsInMix);
        }
        Ok(Mix { plan: Plan::Draw { requests, choice: Choice::new(shares)? } })
    }

    /// Insertions of every record, each by one part, and no more.
    pub fn load() -> Mix {
        Mix { plan: Plan::Load }
    }

    /// Look-ups, a share of `misses`, from 0 to 1, of them for absent keys.
    pub fn reads(misses: f64, requests: Distribution) -> Result<Mix, ParameterError> {
        if !(0.0..=1.0).contains(&misses) {
            let expected = "from 0 to 1";
            return Err(ParameterError::OutOfRange {
                what: "the share of misses",
                given: misses,
                expected,
            });
        }
        Mix::new(requests, &[(Kind::Read, 1.0 - misses), (Kind::ReadAbsent, misses)])
    }

    /// Updates of records that are present.
    pub fn updates(requests: Distribution) -> Result<Mix, ParameterError> {
        Mix::new(requests, &[(Kind::Update, 1.0)])
    }

    /// Insertions of new records without end.
    pub fn inserts() -> Mix {
        Mix::drawn(Distribution::Uniform, &[(Kind::Insert, 1)])
    }

    /// Removals of every record in random order, each by one part, and no more.
    pub fn removes() -> Mix {
        Mix { plan: Plan::Clear }
    }

    /// A mix known to be sound.
    pub(crate) fn drawn(requests: Distribution, percents: &[(Kind, u8)]) -> Mix {
        Mix { plan: Plan::Draw { requests, choice: Choice::of_percents(percents) } }
    }
}

/// A weighted choice among kinds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// Each kind with the first word past those that choose it; the last takes what is left.
    bounds: Vec<(Kind, u64)>,
    last: Kind,
}

impl Choice {
    fn new(shares: &[(Kind, f64)]) -> Result<Choice, ParameterError> {
        for &(_, share) in shares {
            if !(0.0..=f64::from(u32::MAX)).contains(&share) {
                let expected = "at least 0 and no more than 2^32";
                return Err(ParameterError::OutOfRange {
                    what: "the share of a kind",
                    given: share,
                    expected,
                });
            }
        }
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut bounds = Vec::new();
        let mut below = 0.0;
        for &(kind, share) in shares.iter().filter(|(_, share)| *share > 0.0) {
            below += share;
            // The conversion saturates: a bound of 2^64 becomes the last word.
            bounds.push((kind, (below / total * 2f64.powi(64)) as u64));
        }
        match bounds.pop() {
            Some((last, _)) => Ok(Choice { bounds, last }),
            None => Err(ParameterError::EmptyMix),
        }
    }

    fn of_percents(percents: &[(Kind, u8)]) -> Choice {
        let mut below = 0;
        let mut bounds = Vec::new();
        for &(kind, percent) in percents {
            below += u128::from(percent);
            bounds.push((kind, ((below << 64) / 100).min(u128::from(u64::MAX)) as u64));
        }
        let last = bounds.pop().map_or(Kind::Read, |(kind, _)| kind);
        Choice { bounds, last }
    }

    #[inline]
    pub(crate) fn kind(&self, word: u64) -> Kind {
        self.bounds.iter().find(|(_, bound)| word < *bound).map_or(self.last, |(kind, _)| *kind)
    }

    /// Whether some operation needs a record that is there from the beginning.
    pub(crate) fn needs_records(&self) -> bool {
        let kinds = self.bounds.iter().map(|(kind, _)| *kind).chain([self.last]);
        kinds.into_iter().any(|kind| !matches!(kind, Kind::Insert | Kind::ReadAbsent))
    }
}
