//! The counts at which the writing process is killed.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A seed for a run that was given none: the standard library seeds its hashers from the system.
pub fn fresh_seed() -> u64 {
    // 32 bits, which are enough to tell runs apart and short enough to be typed again.
    RandomState::new().build_hasher().finish() >> 32
}

/// That many different numbers from 1 to `max`, in order; all of them if there are fewer.
pub(crate) fn distinct_up_to(max: u64, how_many: u64, seed: u64) -> Vec<u64> {
    // The stream of digests that a seed has: the package has a hash function, and needs no generator for a few draws.
    let mut words = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut below = |end: u64| {
        let mut word = [0; 8];
        words.fill(&mut word);
        ((u128::from(u64::from_le_bytes(word)) * u128::from(end)) >> 64) as u64
    };
    let mut drawn = BTreeSet::new();
    // Floyd's sampling: one draw a number, however close to all of them are wanted.
    for last in max.saturating_sub(how_many) + 1..=max {
        let number = 1 + below(last);
        if !drawn.insert(number) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::distinct_up_to;

    #[test]
    fn draws_are_distinct_in_range_in_order_and_repeatable() {
        for (max, wanted, expected) in [(100, 5, 5), (5, 5, 5), (3, 9, 3), (0, 3, 0), (9, 0, 0)] {
            for seed in 0..50 {
                let drawn = distinct_up_to(max, wanted, seed);
                assert_eq!(drawn.len(), expected, "{max} {wanted}");
                assert!(drawn.is_sorted_by(|a, b| a < b));
                assert!(drawn.iter().all(|number| (1..=max).contains(number)));
                assert_eq!(drawn, distinct_up_to(max, wanted, seed));
            }
        }
        assert_ne!(distinct_up_to(1 << 40, 3, 1), distinct_up_to(1 << 40, 3, 2));
    }
}
