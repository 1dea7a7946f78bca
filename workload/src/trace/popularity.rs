//! Zipfian ranks of any skew, drawn exactly.

use crate::{ParameterError, Random};

/// Parts of the unit interval whose first rank is known in advance.
const PARTS: usize = 1 << 16;

/// The zipfian law as a table of cumulated probabilities.
///
/// [`Zipf`](crate::ranks::Zipf) needs no table, but knows no skew of 1 or more, at which caches are measured, too.
#[derive(Debug, Clone)]
pub struct Popularity {
    cumulated: Vec<f64>,
    first_ranks: Vec<u32>,
}

impl Popularity {
    /// The law over `count` ranks: rank *k*, from 0, has a probability proportional to 1 / (k + 1)^skew.
    pub fn new(count: u32, skew: f64) -> Result<Popularity, ParameterError> {
        // Not-a-number is in no range.
        if !(0.0..=4.0).contains(&skew) {
            let expected = "from 0 (uniform) to 4";
            return Err(ParameterError::OutOfRange { what: "the skew", given: skew, expected });
        }
        super::check_keys(count)?;
        let mut sum = 0.0;
        let add = |number: u32| {
            sum += f64::from(number).powf(-skew);
            sum
        };
        let mut cumulated: Vec<f64> = (1..=count).map(add).collect();
        cumulated.iter_mut().for_each(|share| *share /= sum);
        let mut rank = 0;
        let first_of = |part: usize| {
            while rank + 1 < count && cumulated[rank as usize] < part as f64 / PARTS as f64 {
                rank += 1;
            }
            rank
        };
        let first_ranks = (0..=PARTS).map(first_of).collect();
        Ok(Popularity { cumulated, first_ranks })
    }

    /// A rank, 0 being the most popular.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let part = (unit * PARTS as f64) as usize;
        let [first, last] = [part, part + 1].map(|part| self.first_ranks[part] as usize);
        let within = self.cumulated[first..=last].partition_point(|share| *share < unit);
        (first + within).min(last) as u64
    }

    /// The probability of a rank.
    pub fn probability(&self, rank: u32) -> f64 {
        let rank = rank as usize;
        let below = if rank == 0 { 0.0 } else { self.cumulated[rank - 1] };
        self.cumulated[rank] - below
    }
}
