//! Streams of ranks: their distributions, parts and seeds.

use workload::ranks::{
    Distribution, Latest, RankStream, Ranks, ScrambledZipfian, Sequential, Shuffled, Uniform, Zipf,
    zeta,
};
use workload::{ParameterError, Part, Random, Scatter};

const ALL: [Distribution; 5] = [
    Distribution::Uniform,
    Distribution::Sequential,
    Distribution::Shuffled,
    Distribution::Zipfian { theta: 0.99 },
    Distribution::Latest { theta: 0.99 },
];

fn draw(ranks: &mut impl Ranks, count: usize) -> Vec<u64> {
    let mut drawn = vec![0; count];
    ranks.fill(&mut drawn);
    drawn
}

fn frequencies(drawn: &[u64], records: u64) -> Vec<u32> {
    let mut frequencies = vec![0; records as usize];
    for &rank in drawn {
        frequencies[rank as usize] += 1;
    }
    frequencies
}

/// Fails where a frequency is five standard deviations from what the probability makes likely.
fn assert_frequency(found: u32, draws: usize, probability: f64, what: &str) {
    let expected = draws as f64 * probability;
    let deviation = (expected * (1.0 - probability)).sqrt();
    assert!(
        (f64::from(found) - expected).abs() < 5.0 * deviation,
        "{what}: {found} instead of {expected:.0} ± {deviation:.0}"
    );
}

#[test]
fn uniform_ranks_are_all_as_frequent() {
    let (records, draws) = (1_000, 1_000_000);
    let drawn = draw(&mut Uniform::new(records, 1, Part::WHOLE).unwrap(), draws);
    // Chi-square with 999 degrees of freedom: mean 999, standard deviation 45.
    let expected = draws as f64 / records as f64;
    let chi: f64 = frequencies(&drawn, records)
        .iter()
        .map(|&found| (f64::from(found) - expected).powi(2) / expected)
        .sum();
    assert!((800.0..1_200.0).contains(&chi), "{chi}");
}

#[test]
fn sequential_parts_are_each_others_continuation() {
    let drawn: Vec<Vec<u64>> =
        Part::all(3).map(|part| draw(&mut Sequential::new(10, part).unwrap(), 5)).collect();
    assert_eq!(drawn, [[0, 1, 2, 0, 1], [3, 4, 5, 3, 4], [6, 7, 8, 9, 6]]);
    let none = Sequential::new(1, Part::new(0, 2).unwrap()).unwrap_err();
    assert_eq!(none, ParameterError::FewerThanParts { records: 1, parts: 2 });
}

#[test]
fn shuffled_parts_have_every_rank_once() {
    let records = 10_007;
    let mut drawn = Vec::new();
    for part in Part::all(3) {
        let range = part.range(records);
        let own = (range.end - range.start) as usize;
        drawn.extend(draw(&mut Shuffled::new(records, 1, part).unwrap(), own));
    }
    assert_ne!(drawn[..3], [0, 1, 2]);
    drawn.sort_unstable();
    assert!(drawn.iter().copied().eq(0..records));
}

#[test]
fn zeta_is_the_sum() {
    for theta in [0.0, 0.3, 0.5, 0.99, 0.999_999] {
        for count in [1, 2, 255, 256, 257, 258, 1_000, 300_000] {
            // The small terms first, so that their sum is not lost in the large ones.
            let summed: f64 = (1..=count).rev().map(|k| (k as f64).powf(-theta)).sum();
            let error = (zeta(count, theta) / summed - 1.0).abs();
            assert!(error < 1e-11, "zeta({count}, {theta}): off by {error:e}");
        }
    }
}

#[test]
fn zeta_agrees_with_ycsb() {
    // The constant in YCSB's source for its ten billion items.
    assert!((zeta(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-6);
}

#[test]
fn popular_records_are_as_frequent_as_the_law_says() {
    let (records, draws) = (100_000, 2_000_000);
    for theta in [0.5, 0.9, 0.99] {
        let law = Zipf::new(records, theta).unwrap();
        let mut ranks = ScrambledZipfian::new(records, theta, 1, Part::WHOLE).unwrap();
        let found = frequencies(&draw(&mut ranks, draws), records);
        let of = |popularity| found[ranks.rank_of(popularity) as usize];
        for popularity in [0, 1] {
            let what = format!("theta {theta}, popularity {popularity}");
            assert_frequency(of(popularity), draws, law.probability(popularity), &what);
        }
        for top in [10, 100, 1_000, 10_000] {
            let requests: u32 = (0..top).map(of).sum();
            let share = f64::from(requests) / draws as f64;
            let expected: f64 = (0..top).map(|popularity| law.probability(popularity)).sum();
            assert!(
                (share - expected).abs() < 0.03,
                "theta {theta}, top {top}: {share} {expected}"
            );
        }
    }
}

#[test]
fn the_approximation_is_as_close_as_promised() {
    for records in [1_000, 100_000, 1 << 27] {
        for theta in [0.5, 0.9, 0.99] {
            let law = Zipf::new(records, theta).unwrap();
            let mut expected_below = 0.0;
            for popularity in 0..1_000 {
                let expected = law.probability(popularity);
                let below = first_unit_of(&law, popularity);
                let ratio = (first_unit_of(&law, popularity + 1) - below) / expected;
                let promised = match popularity {
                    0 | 1 => 0.999_999..1.000_001,
                    2..5 => 1.0..1.21,
                    _ => 0.96..1.09,
                };
                let what = format!("{records} records, theta {theta}, popularity {popularity}");
                assert!(promised.contains(&ratio), "{what}: {ratio}");
                assert!((below - expected_below).abs() < 0.017, "{what}: {below}");
                expected_below += expected;
            }
        }
    }
}

/// The smallest number that the law maps to `popularity` or beyond, by bisection.
fn first_unit_of(law: &Zipf, popularity: u64) -> f64 {
    let (mut below, mut beyond) = (0.0, 1.0);
    for _ in 0..52 {
        let middle = (below + beyond) / 2.0;
        if law.rank(middle) < popularity {
            below = middle;
        } else {
            beyond = middle;
        }
    }
    beyond * f64::from(popularity > 0)
}

#[test]
fn without_skew_the_law_is_uniform() {
    let law = Zipf::new(1_000, 0.0).unwrap();
    for number in 0..1_000 {
        assert_eq!(law.rank((number as f64 + 0.5) / 1_000.0), number);
    }
}

#[test]
fn the_law_holds_at_its_ends() {
    for records in [1, 2, 3, 4, 1 << 27, 1 << 48] {
        for theta in [0.0, 0.5, 0.99, 0.999_999] {
            let law = Zipf::new(records, theta).unwrap();
            assert_eq!(law.rank(0.0), 0);
            let last = law.rank(1.0 - f64::EPSILON / 2.0);
            assert!(last < records && last >= records / 2, "{records}, {theta}: {last}");
        }
    }
}

#[test]
fn a_law_that_grew_is_the_law_of_its_size() {
    let mut grown = Zipf::new(1, 0.99).unwrap();
    for count in (1..500).chain([1_000, 1_001, 50_000]) {
        grown.grow_to(count);
        let fresh = Zipf::new(count, 0.99).unwrap();
        assert_eq!(grown.count(), fresh.count());
        assert!((grown.probability(0) / fresh.probability(0) - 1.0).abs() < 1e-10);
        for unit in [0.1, 0.5, 0.9, 0.999] {
            assert!(grown.rank(unit).abs_diff(fresh.rank(unit)) <= 1, "{count} at {unit}");
        }
    }
    grown.grow_to(10);
    assert_eq!(grown.count(), 50_000, "it never shrinks");
}

#[test]
fn the_latest_record_is_the_most_popular() {
    let (records, draws) = (10_000, 500_000);
    let law = Zipf::new(records, 0.99).unwrap();
    let mut ranks = Latest::new(records, 0.99, 1, Part::WHOLE).unwrap();
    let found = frequencies(&draw(&mut ranks, draws), records);
    assert_frequency(found[9_999], draws, law.probability(0), "the newest");
    assert_frequency(found[9_998], draws, law.probability(1), "the second newest");

    ranks.grow_to(20_000);
    let found = frequencies(&draw(&mut ranks, draws), 20_000);
    let newest = Zipf::new(20_000, 0.99).unwrap().probability(0);
    assert_frequency(found[19_999], draws, newest, "the newest after growth");
}

#[test]
fn parts_share_what_is_popular_and_not_the_draws() {
    let (records, draws) = (1_000_000, 100_000);
    let drawn: Vec<Vec<u64>> = Part::all(2)
        .map(|part| draw(&mut ScrambledZipfian::new(records, 0.99, 1, part).unwrap(), draws))
        .collect();
    assert_ne!(drawn[0], drawn[1]);
    let most_frequent = |drawn: &[u64]| {
        let found = frequencies(drawn, records);
        (0..records).max_by_key(|&rank| found[rank as usize])
    };
    assert_eq!(most_frequent(&drawn[0]), most_frequent(&drawn[1]));
}

#[test]
fn seeds_replay() {
    let stream = |distribution, seed, part| {
        let mut ranks = RankStream::new(distribution, 1 << 20, seed, part).unwrap();
        draw(&mut ranks, 1_000)
    };
    let second = Part::new(1, 4).unwrap();
    for distribution in ALL {
        assert_eq!(stream(distribution, 1, second), stream(distribution, 1, second));
        if distribution != Distribution::Sequential {
            assert_ne!(stream(distribution, 1, second), stream(distribution, 2, second));
        }
    }
}

#[test]
fn streams_stay_the_same() {
    let first = |distribution| {
        let mut ranks = RankStream::new(distribution, 1_000_000, 42, Part::WHOLE).unwrap();
        <[u64; 4]>::try_from(draw(&mut ranks, 4)).unwrap()
    };
    assert_eq!(ALL.map(first), FIRST_OF_SEED_42);
}

#[test]
fn filling_is_drawing_one_by_one() {
    let scatter = Scatter::new(9);
    for distribution in ALL {
        let mut filled = RankStream::new(distribution, 1_000, 1, Part::WHOLE).unwrap();
        let mut drawn = filled.clone();
        let mut keys = vec![0; 100];
        filled.fill_keys(scatter, &mut keys);
        assert!(keys.iter().all(|&key| key == scatter.key(drawn.next_rank())));
    }
}

#[test]
fn impossible_parameters_are_refused() {
    for theta in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(Zipf::new(10, theta), Err(ParameterError::Skew { .. })), "{theta}");
    }
    for records in [0, u64::MAX] {
        for distribution in ALL {
            let refused = RankStream::new(distribution, records, 1, Part::WHOLE);
            assert!(matches!(refused, Err(ParameterError::Records { .. })));
        }
    }
}

#[test]
fn the_stream_is_the_law_of_random_numbers() {
    // Spread evenly, numbers give every rank its share: no rank is left out at the seams
    // between the exact ranks and the approximated ones.
    let law = Zipf::new(100, 0.99).unwrap();
    let mut random = Random::new(1);
    let mut found = [0u32; 100];
    for _ in 0..200_000 {
        found[law.rank(random.unit()) as usize] += 1;
    }
    assert!(found.iter().all(|&frequency| frequency > 0));
}

/// Computed apart from this crate, the zeta of the zipfian ones term by term.
const FIRST_OF_SEED_42: [[u64; 4]; 5] = [
    [820_546, 122_211, 113_237, 565_355],
    [0, 1, 2, 3],
    [445_885, 662_211, 414_920, 831_144],
    [218_870, 795_300, 795_300, 969_715],
    [915_938, 999_997, 999_997, 997_771],
];
