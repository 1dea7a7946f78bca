//! Traces of requests to a cache: that each is what it says, and follows from its seed.

use std::collections::{HashMap, HashSet};
use workload::trace::{Kind, PAIR_BYTES, Popularity, Request, Scale, Trace};
use workload::{ParameterError, Random};

const SCALE: Scale = Scale { keys: 10_000, requests: 200_000, cache_percent: 5 };
/// Keys of a loop that is a fifth longer than this cache.
const LOOP_LEN: usize = 600;

fn trace(kind: Kind) -> Trace {
    Trace::new(kind, SCALE, 1).unwrap()
}

fn keys(kind: Kind) -> Vec<u64> {
    trace(kind).requests.iter().map(|request| request.key).collect()
}

fn counts(keys: &[u64]) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(*key).or_insert(0) += 1;
    }
    counts
}

fn most_frequent(keys: &[u64]) -> u64 {
    counts(keys).into_iter().max_by_key(|(_, count)| *count).unwrap().0
}

fn assert_share(found: usize, of: usize, expected: f64) {
    let share = found as f64 / of as f64;
    assert!((share - expected).abs() < 0.01, "{share} instead of {expected}");
}

/// Part of the requests for keys that are requested so many times.
fn requested(keys: &[u64], times: usize) -> usize {
    counts(keys).values().filter(|count| **count == times).count() * times
}

#[test]
fn a_trace_follows_from_its_seed() {
    for kind in Kind::ALL {
        let one = trace(kind);
        assert_eq!(one, trace(kind), "{kind:?}");
        assert_eq!(one.requests.len(), SCALE.requests, "{kind:?}");
        let is_random = kind != Kind::Loops;
        assert_eq!(one != Trace::new(kind, SCALE, 2).unwrap(), is_random, "{kind:?}");
    }
    let names: HashSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
}

#[test]
fn a_key_always_has_the_same_bytes_and_life() {
    for kind in Kind::ALL {
        let mut seen: HashMap<u64, Request> = HashMap::new();
        for request in trace(kind).requests {
            assert_eq!(*seen.entry(request.key).or_insert(request), request, "{kind:?}");
        }
        let is_alike = seen.values().all(|request| request.bytes == PAIR_BYTES);
        assert_eq!(is_alike, !matches!(kind, Kind::Sizes | Kind::LargeSizes), "{kind:?}");
        let is_endless = seen.values().all(|request| request.lives_ms == 0);
        assert_eq!(is_endless, kind != Kind::Expiry, "{kind:?}");
    }
}

#[test]
fn popularity_is_zipfian_for_every_skew() {
    let mut random = Random::new(1);
    for skew in [0.0, 0.6, 1.0, 1.2, 2.0] {
        let popularity = Popularity::new(1_000, skew).unwrap();
        let draws = 200_000;
        let drawn: Vec<u64> = (0..draws).map(|_| popularity.rank(&mut random)).collect();
        let counts = counts(&drawn);
        for rank in [0, 1, 2, 9, 99, 999] {
            let ratio = popularity.probability(rank) / popularity.probability(0);
            assert!((ratio * f64::from(rank + 1).powf(skew) - 1.0).abs() < 1e-6, "{skew}, {rank}");
            let expected = draws as f64 * popularity.probability(rank);
            let found = counts.get(&rank.into()).copied().unwrap_or(0) as f64;
            assert!((found - expected).abs() <= 5.0 * expected.sqrt() + 1.0, "{skew}, {rank}");
        }
    }
}

#[test]
fn a_shift_makes_other_keys_popular() {
    let keys = keys(Kind::Shift);
    let popular: HashSet<u64> = keys.chunks(keys.len() / 20).map(most_frequent).collect();
    assert_eq!(popular.len(), 20);
}

#[test]
fn a_drift_moves_popularity_by_a_key_each_30_requests() {
    let keys = keys(Kind::Drift);
    let at = |number: usize| {
        let moved = |at: usize| (keys[at] + 10_000 - (at as u64 / 30) % 10_000) % 10_000;
        let ranks: Vec<u64> = (number..number + 10_000).map(moved).collect();
        most_frequent(&ranks)
    };
    assert_eq!([at(0), at(90_000), at(180_000)], [0, 0, 0]);
}

#[test]
fn one_request_in_10_is_for_a_key_newer_than_all() {
    let keys = keys(Kind::Latest);
    let mut newest = 1 << 32;
    let is_new = |key: &&u64| {
        let is_new = **key > newest;
        newest = newest.max(**key);
        is_new
    };
    assert_share(keys.iter().filter(is_new).count(), keys.len(), 0.1);
}

#[test]
fn loops_are_a_fifth_longer_than_the_caches() {
    let all = keys(Kind::Loops);
    let phase = all.len().div_ceil(6);
    for (number, len) in [120, 600, 2400, 120, 600, 2400].into_iter().enumerate() {
        let of_phase = &all[number * phase..all.len().min((number + 1) * phase)];
        assert_eq!(counts(of_phase).len(), len);
        assert!(of_phase.iter().zip(&of_phase[len..]).all(|(one, again)| one == again));
    }
    assert_eq!(counts(&all).len(), 120 + 600 + 2400);

    let looped: Vec<u64> = keys(Kind::Loop).into_iter().filter(|key| *key < 600).collect();
    assert!(looped.iter().zip(&looped[LOOP_LEN..]).all(|(one, again)| one == again));
    assert_share(looped.len(), SCALE.requests, 0.98);

    let looped: Vec<u64> =
        keys(Kind::LoopAndZipf).into_iter().filter(|key| *key >= 10_000).collect();
    assert!(looped.iter().zip(&looped[LOOP_LEN..]).all(|(one, again)| one == again));
    assert_share(looped.len(), SCALE.requests, 0.5);
}

#[test]
fn what_passes_never_comes_again() {
    let passing = |kind| -> Vec<u64> {
        keys(kind).into_iter().filter(|key| *key >= u64::from(SCALE.keys)).collect()
    };
    let scanned = passing(Kind::Scan);
    assert_eq!(requested(&scanned, 1), scanned.len());
    assert_share(scanned.len(), SCALE.requests, 0.25);

    let wonders = passing(Kind::Wonders);
    assert_eq!(requested(&wonders, 1), wonders.len());
    assert_share(wonders.len(), SCALE.requests, 1.0 / 3.0);

    let bursts = passing(Kind::Bursts);
    // The last ones are cut off by the trace's end.
    assert_share(requested(&bursts, 3), bursts.len(), 1.0);
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for (at, key) in keys(Kind::Bursts).into_iter().enumerate() {
        let first = *seen.entry(key).or_insert(at);
        // Of several that are due at once, one comes after the other.
        assert!(key < u64::from(SCALE.keys) || at - first < 3_000, "{}", at - first);
    }
}

#[test]
fn sizes_and_lives_are_lognormal() {
    let figures = |kind, figure: fn(&Request) -> f64| {
        let trace = trace(kind);
        let of_keys: HashMap<u64, Request> =
            trace.requests.iter().map(|request| (request.key, *request)).collect();
        let mut figures: Vec<f64> = of_keys.values().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let at = |share: f64| figures[(figures.len() as f64 * share) as usize];
        // The middle, and how far one standard deviation is above it.
        (at(0.5), (at(0.8413) / at(0.5)).ln())
    };
    let value = |request: &Request| f64::from(request.bytes) - 16.0;
    let cases = [
        (figures(Kind::Sizes, value), (200.0, 1.0)),
        (figures(Kind::LargeSizes, value), (200.0, 1.5)),
        (figures(Kind::Expiry, |request| f64::from(request.lives_ms)), (100.0, 1.0)),
    ];
    for ((median, spread), (expected_median, expected_spread)) in cases {
        assert!((median / expected_median - 1.0_f64).abs() < 0.1, "{median}");
        assert!((spread - expected_spread).abs() < 0.1, "{spread}");
    }
}

#[test]
fn the_working_set_is_what_comes_again() {
    assert_eq!(trace(Kind::Scan).set_bytes, 10_000 * u64::from(PAIR_BYTES));
    let sizes = trace(Kind::Sizes);
    let of_keys: HashMap<u64, u32> =
        sizes.requests.iter().map(|request| (request.key, request.bytes)).collect();
    let requested: u64 = of_keys.values().map(|&bytes| u64::from(bytes)).sum();
    assert!(requested <= sizes.set_bytes && requested > sizes.set_bytes * 9 / 10);
}

#[test]
fn scales_without_a_trace_are_refused() {
    let refusal = |scale| Trace::new(Kind::Zipf08, scale, 1).unwrap_err();
    let refusals = [
        refusal(Scale { keys: 999, ..SCALE }),
        refusal(Scale { keys: 1 << 29, ..SCALE }),
        refusal(Scale { cache_percent: 0, ..SCALE }),
        refusal(Scale { cache_percent: 101, ..SCALE }),
        Popularity::new(1_000, f64::NAN).unwrap_err(),
        Popularity::new(1_000, -0.1).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, ParameterError::OutOfRange { .. }), "{refusal}");
    }
}
