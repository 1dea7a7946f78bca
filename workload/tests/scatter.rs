//! Keys: one to one, spread, the same for ever.

use workload::{FIRST_ABSENT_RANK, Part, Permutation, Random, Scatter};

#[test]
fn the_generator_is_splitmix64() {
    // The sequence that Vigna's reference implementation gives for this seed.
    let mut random = Random::new(1_234_567);
    let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
    let expected =
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!(words, expected);
}

#[test]
fn keys_have_one_rank_each() {
    let mut random = Random::new(1);
    for seed in 0..50 {
        let scatter = Scatter::new(seed);
        for rank in (0..100).chain((0..1_000).map(|_| random.word())).chain([u64::MAX]) {
            assert_eq!(scatter.rank(scatter.key(rank)), rank);
            assert_eq!(scatter.key(scatter.rank(rank)), rank);
        }
    }
}

#[test]
fn keys_stay_the_same() {
    let keys: Vec<u64> = [0, 1, 1 << 27].map(|rank| Scatter::new(42).key(rank)).into();
    assert_eq!(keys, KEYS_OF_SEED_42);
}

#[test]
fn seeds_have_different_keys() {
    let keys = |seed| (0..1_000).map(move |rank| Scatter::new(seed).key(rank));
    let mut both: Vec<u64> = keys(1).chain(keys(2)).collect();
    both.sort_unstable();
    both.dedup();
    assert_eq!(both.len(), 2_000);
}

#[test]
fn neighbouring_ranks_have_unrelated_keys() {
    // Half of the 64 bits differ, up to chance: 32 ± 0.04 over 10,000 ranks.
    let scatter = Scatter::new(7);
    let differing: u32 =
        (0..10_000).map(|rank| (scatter.key(rank) ^ scatter.key(rank + 1)).count_ones()).sum();
    assert!((318_000..322_000).contains(&differing), "{differing}");
}

#[test]
fn absent_keys_are_not_those_of_records() {
    let scatter = Scatter::new(3);
    let mut random = Random::new(4);
    for word in (0..10_000).map(|_| random.word()).chain([0, 1, u64::MAX]) {
        assert!(scatter.rank(scatter.absent_key(word)) >= FIRST_ABSENT_RANK);
    }
}

#[test]
fn permutations_are_one_to_one() {
    for count in (1..=300).chain([1_023, 1_024, 1_025, 50_000]) {
        for seed in 0..3 {
            let order = Permutation::new(count, seed);
            let mut seen = vec![false; count as usize];
            for number in 0..count {
                let image = order.apply(number) as usize;
                assert!(!seen[image], "count {count}, seed {seed}: {image} twice");
                seen[image] = true;
            }
        }
    }
}

#[test]
fn permutations_move_numbers_anywhere() {
    // Where neighbours land: which of 16 × 16 squares a pair of images falls into, by the
    // chi-square statistic with 255 degrees of freedom (mean 255, standard deviation 23).
    for count in [4_096, 100_000, 1 << 20] {
        let order = Permutation::new(count, 5);
        let mut hits = [0u32; 256];
        let pairs = count - 1;
        for number in 0..pairs {
            let row = order.apply(number) * 16 / count;
            let column = order.apply(number + 1) * 16 / count;
            hits[(row * 16 + column) as usize] += 1;
        }
        let expected = pairs as f64 / 256.0;
        let chi: f64 = hits.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 400.0, "count {count}: {chi}");
    }
}

#[test]
fn parts_divide_without_rest() {
    for (total, of) in [(0, 1), (10, 3), (7, 7), (3, 7), (u64::MAX, 64)] {
        let ranges: Vec<_> = Part::all(of).map(|part| part.range(total)).collect();
        assert_eq!(ranges[0].start, 0);
        assert_eq!(ranges[of - 1].end, total);
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        let sizes = ranges.iter().map(|range| range.end - range.start);
        assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
    }
    assert!(Part::new(2, 2).is_err() && Part::new(0, 0).is_err() && Part::new(1, 2).is_ok());
}

/// Computed apart from this crate.
const KEYS_OF_SEED_42: [u64; 3] =
    [9_997_813_037_473_042_549, 10_302_213_798_149_499_822, 14_297_658_565_564_520_212];
