//! The zipfian law: the k-th most popular of n has probability proportional to 1/k^theta.

use super::{check_records, zeta};
use crate::ParameterError;

/// When more records than this are new, their terms are not added one by one.
const MOST_TERMS_ADDED: u64 = 256;

/// Turns uniform numbers into zipfian ones, as YCSB does.
///
/// The method is that of Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly
/// Generating Billion-Record Synthetic Databases" (SIGMOD 1994): the two most popular ranks
/// exactly, the others by inverting a continuous approximation of the distribution. With it the
/// third most popular comes up to a fifth too often, the next ones less so, ranks from the sixth on within
/// a tenth of the law; the most popular *k* together are within 0.017 of their share for every *k*.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: u64,
    theta: f64,
    zeta: f64,
    below_third: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// The law over `count` ranks with skew `theta`: 0 is uniform, YCSB's is 0.99.
    pub fn new(count: u64, theta: f64) -> Result<Zipf, ParameterError> {
        check_records(count)?;
        // Not-a-number is in no range.
        if !(0.0..1.0).contains(&theta) {
            return Err(ParameterError::Skew { theta });
        }
        let mut zipf = Zipf {
            count,
            theta,
            zeta: zeta(count, theta),
            below_third: zeta(2, theta),
            alpha: 1.0 / (1.0 - theta),
            eta: 0.0,
        };
        zipf.set_eta();
        Ok(zipf)
    }

    /// The number of ranks.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The rank, 0 being the most popular, of a uniform number from 0 to below 1.
    #[inline]
    pub fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.below_third {
            return 1;
        }
        let share = (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        ((self.count as f64 * share) as u64).min(self.count - 1)
    }

    /// Probability under the law, not its approximation, of a rank from 0.
    pub fn probability(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-self.theta) / self.zeta
    }

    /// The law over `count` ranks, if these are more than now. A few more cost little: as in
    /// YCSB their terms are added to the sum.
    pub fn grow_to(&mut self, count: u64) {
        if count <= self.count {
            return;
        }
        if count - self.count <= MOST_TERMS_ADDED {
            let added = self.count + 1..=count;
            self.zeta += added.map(|k| (k as f64).powf(-self.theta)).sum::<f64>();
        } else {
            self.zeta = zeta(count, self.theta);
        }
        self.count = count;
        self.set_eta();
    }

    fn set_eta(&mut self) {
        // With one or two ranks the formula has the form 0/0, and its value is never used.
        if self.count > 2 {
            let rest = 1.0 - (2.0 / self.count as f64).powf(1.0 - self.theta);
            self.eta = rest / (1.0 - self.below_third / self.zeta);
        }
    }
}
