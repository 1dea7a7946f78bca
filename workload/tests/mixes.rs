//! Mixes: shares, and outcomes that hold whatever the other threads do.

use std::collections::{HashMap, HashSet};
use workload::operations::{Caching, Kind, LONGEST_SCAN, Mix, MixStream, Operation, Ycsb};
use workload::ranks::Distribution;
use workload::{FIRST_ABSENT_RANK, ParameterError, Part, Scatter};

const SEED: u64 = 42;
const RECORDS: u64 = 10_000;

fn scatter() -> Scatter {
    Scatter::new(SEED)
}

fn stream(mix: &Mix, part: Part) -> MixStream {
    MixStream::new(mix, RECORDS, scatter(), SEED, part).unwrap()
}

fn loaded() -> HashSet<u64> {
    (0..RECORDS).map(|rank| scatter().key(rank)).collect()
}

fn shares(operations: &[Operation]) -> HashMap<Kind, f64> {
    let mut shares = HashMap::new();
    for operation in operations {
        *shares.entry(operation.kind()).or_insert(0.0) += 1.0 / operations.len() as f64;
    }
    shares
}

fn assert_shares(mix: &Mix, expected: &[(Kind, f64)]) {
    let operations: Vec<_> = stream(mix, Part::WHOLE).take(100_000).collect();
    let found = shares(&operations);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (kind, share) in expected {
        // Six standard deviations of a share of a half.
        assert!((found[kind] - share).abs() < 0.01, "{kind:?}: {} not {share}", found[kind]);
    }
}

/// Applies operations to a table as they come and checks that each finds what it promises.
fn apply(table: &mut HashSet<u64>, operation: Operation) {
    match operation {
        Operation::Read(key) | Operation::Update(key) | Operation::ReadModifyWrite(key) => {
            assert!(table.contains(&key), "{operation:?}");
        }
        Operation::ReadAbsent(key) => assert!(!table.contains(&key)),
        Operation::Insert(key) => assert!(table.insert(key), "inserted before"),
        Operation::Remove(key) => assert!(table.remove(&key), "not there to remove"),
        Operation::Scan { length, .. } => {
            assert!((1..=LONGEST_SCAN).contains(&length));
            assert!(operation.keys(scatter()).all(|key| table.contains(&key)), "{operation:?}");
        }
    }
}

#[test]
fn ycsb_has_its_shares() {
    use Kind::{Insert, Read, ReadModifyWrite, Scan, Update};
    assert_shares(&Mix::ycsb(Ycsb::A), &[(Read, 0.5), (Update, 0.5)]);
    assert_shares(&Mix::ycsb(Ycsb::B), &[(Read, 0.95), (Update, 0.05)]);
    assert_shares(&Mix::ycsb(Ycsb::C), &[(Read, 1.0)]);
    assert_shares(&Mix::ycsb(Ycsb::D), &[(Read, 0.95), (Insert, 0.05)]);
    assert_shares(&Mix::ycsb(Ycsb::E), &[(Scan, 0.95), (Insert, 0.05)]);
    assert_shares(&Mix::ycsb(Ycsb::F), &[(Read, 0.5), (ReadModifyWrite, 0.5)]);
}

#[test]
fn the_papers_readings_have_theirs() {
    use Kind::{Insert, Read};
    let iceberg = |workload| Mix::iceberg_ycsb(workload).unwrap();
    assert_shares(&iceberg(Ycsb::A), &[(Read, 0.5), (Insert, 0.5)]);
    assert_shares(&iceberg(Ycsb::B), &[(Read, 0.95), (Insert, 0.05)]);
    assert_shares(&iceberg(Ycsb::C), &[(Read, 1.0)]);
    assert!([Ycsb::D, Ycsb::E, Ycsb::F].iter().all(|&w| Mix::iceberg_ycsb(w).is_none()));
    let level = Mix::searches_and_inserts(0.9).unwrap();
    assert_shares(&level, &[(Read, 0.1), (Insert, 0.9)]);
}

#[test]
fn single_purpose_mixes_have_one_kind() {
    assert_shares(&Mix::inserts(), &[(Kind::Insert, 1.0)]);
    assert_shares(&Mix::updates(Distribution::Uniform).unwrap(), &[(Kind::Update, 1.0)]);
    for misses in [0.05, 0.5] {
        let mix = Mix::reads(misses, Distribution::Uniform).unwrap();
        assert_shares(&mix, &[(Kind::Read, 1.0 - misses), (Kind::ReadAbsent, misses)]);
    }
    let only = |misses| Mix::reads(misses, Distribution::Uniform).unwrap();
    assert_shares(&only(0.0), &[(Kind::Read, 1.0)]);
    assert_shares(&only(1.0), &[(Kind::ReadAbsent, 1.0)]);
}

#[test]
fn shares_need_not_sum_to_one() {
    let shares = [(Kind::Read, 3.0), (Kind::ReadAbsent, 0.0), (Kind::Update, 1.0)];
    let mix = Mix::new(Distribution::Uniform, &shares).unwrap();
    assert_shares(&mix, &[(Kind::Read, 0.75), (Kind::Update, 0.25)]);
}

#[test]
fn outcomes_hold_beside_other_parts() {
    let parts = 3;
    let mixes = [
        Mix::ycsb(Ycsb::A),
        Mix::ycsb(Ycsb::D),
        Mix::ycsb(Ycsb::E),
        Mix::ycsb(Ycsb::F),
        Mix::iceberg_ycsb(Ycsb::A).unwrap(),
        Mix::searches_and_inserts(0.5).unwrap(),
        Mix::reads(0.3, Distribution::Latest { theta: 0.5 }).unwrap(),
    ];
    for mix in &mixes {
        // One part runs alone first: what it reads must not rest on the others' insertions. They
        // then must not collide with its own.
        let mut table = loaded();
        for part in Part::all(parts) {
            stream(mix, part).take(20_000).for_each(|operation| apply(&mut table, operation));
        }
    }
}

#[test]
fn what_was_inserted_is_read() {
    for mix in [Mix::ycsb(Ycsb::D), Mix::iceberg_ycsb(Ycsb::A).unwrap()] {
        let reads_of_new = stream(&mix, Part::new(1, 2).unwrap())
            .take(20_000)
            .filter(|op| matches!(op, Operation::Read(key) if scatter().rank(*key) >= RECORDS))
            .count();
        assert!(reads_of_new > 1_000, "{reads_of_new}");
    }
}

#[test]
fn loading_and_clearing_take_each_record_once() {
    for parts in [1, 3] {
        let mut table = HashSet::new();
        for part in Part::all(parts) {
            stream(&Mix::load(), part).for_each(|operation| apply(&mut table, operation));
        }
        assert_eq!(table, loaded());
        let mut removed = Vec::new();
        for part in Part::all(parts) {
            for operation in stream(&Mix::removes(), part) {
                removed.extend(operation.keys(scatter()));
                apply(&mut table, operation);
            }
        }
        assert!(table.is_empty());
        let in_order = removed.windows(2).filter(|w| scatter().rank(w[0]) < scatter().rank(w[1]));
        assert!((4_500..5_500).contains(&in_order.count()), "as good as shuffled");
    }
}

#[test]
fn parts_without_records_end_at_once() {
    for mix in [Mix::load(), Mix::removes()] {
        let operations =
            Part::all(4).flat_map(|part| MixStream::new(&mix, 2, scatter(), SEED, part).unwrap());
        assert_eq!(operations.count(), 2);
    }
}

#[test]
fn misses_are_absent_for_certain() {
    let misses = Mix::reads(1.0, Distribution::Uniform).unwrap();
    let mut keys = HashSet::new();
    for operation in stream(&misses, Part::WHOLE).take(10_000) {
        for key in operation.keys(scatter()) {
            assert!(scatter().rank(key) >= FIRST_ABSENT_RANK);
            keys.insert(key);
        }
    }
    assert_eq!(keys.len(), 10_000, "all different");
}

#[test]
fn scans_have_all_lengths_and_successive_records() {
    let mut found = HashSet::new();
    for operation in stream(&Mix::ycsb(Ycsb::E), Part::WHOLE).take(20_000) {
        if let Operation::Scan { first, length } = operation {
            found.insert(length);
            let ranks = operation.keys(scatter()).map(|key| scatter().rank(key));
            assert!(ranks.eq(first..first + u64::from(length)));
        }
    }
    assert_eq!(found.len(), usize::from(LONGEST_SCAN));
}

#[test]
fn the_cache_hits_as_asked_and_keeps_its_size() {
    for (hit_share, parts) in [(0.90, 1), (0.95, 3), (0.999_99, 2), (1.0, 1)] {
        let mut table = loaded();
        for part in Part::all(parts) {
            let cache = Caching::new(RECORDS, hit_share, scatter(), SEED, part).unwrap();
            let (mut hits, mut misses) = (0.0, 0.0);
            let mut others = 0;
            for operation in cache.take(100_000) {
                match operation.kind() {
                    Kind::Read => hits += 1.0,
                    Kind::ReadAbsent => misses += 1.0,
                    _ => others += 1,
                }
                apply(&mut table, operation);
            }
            assert!(others <= 2 * misses as usize);
            let found = hits / (hits + misses);
            assert!((found - hit_share).abs() < 0.01, "{found} instead of {hit_share}");
        }
        assert!(table.len().abs_diff(RECORDS as usize) <= parts);
    }
}

#[test]
fn a_miss_evicts_before_it_inserts() {
    let cache = Caching::new(1_000, 0.5, scatter(), SEED, Part::WHOLE).unwrap();
    let operations: Vec<_> = cache.take(1_000).collect();
    let misses = operations.windows(3).filter(|three| three[0].kind() == Kind::ReadAbsent);
    for three in misses {
        let [Operation::ReadAbsent(missed), Operation::Remove(_), inserted] = three else {
            panic!("{three:?}");
        };
        assert_eq!(*inserted, Operation::Insert(*missed));
    }
}

#[test]
fn evicted_records_come_back() {
    let cache = Caching::new(1_000, 0.9, scatter(), SEED, Part::WHOLE).unwrap();
    let mut evicted = HashSet::new();
    let mut returned = 0;
    for operation in cache.take(20_000) {
        match operation {
            Operation::Remove(key) => drop(evicted.insert(key)),
            Operation::Insert(key) => returned += usize::from(evicted.contains(&key)),
            _ => {}
        }
    }
    assert!(returned > 1_000, "{returned}");
}

#[test]
fn seeds_replay() {
    let mix = |seed| MixStream::new(&Mix::ycsb(Ycsb::D), 1_000, scatter(), seed, Part::WHOLE);
    let cache = |seed| Caching::new(1_000, 0.9, scatter(), seed, Part::WHOLE);
    let of_mix = |seed| mix(seed).unwrap().take(1_000).collect::<Vec<_>>();
    let of_cache = |seed| cache(seed).unwrap().take(1_000).collect::<Vec<_>>();
    assert_eq!(of_mix(1), of_mix(1));
    assert_ne!(of_mix(1), of_mix(2));
    assert_eq!(of_cache(1), of_cache(1));
    assert_ne!(of_cache(1), of_cache(2));
}

#[test]
fn operations_are_two_words() {
    // A thread's operations lie in memory beside the table under test.
    assert_eq!(size_of::<Operation>(), 16);
}

#[test]
fn impossible_mixes_are_refused() {
    let uniform = Distribution::Uniform;
    let refused = |shares: &[(Kind, f64)]| Mix::new(uniform, shares).unwrap_err();
    assert_eq!(refused(&[]), ParameterError::EmptyMix);
    assert_eq!(refused(&[(Kind::Read, 0.0)]), ParameterError::EmptyMix);
    assert_eq!(refused(&[(Kind::Read, 1.0), (Kind::Remove, 1.0)]), ParameterError::RemovalsInMix);
    for share in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(refused(&[(Kind::Read, share)]), ParameterError::OutOfRange { .. }));
        assert!(Mix::reads(share, uniform).is_err());
        assert!(Mix::searches_and_inserts(share).is_err());
        assert!(Caching::new(10, share, scatter(), SEED, Part::WHOLE).is_err());
    }
    let empty = |mix: &Mix| MixStream::new(mix, 0, scatter(), SEED, Part::WHOLE);
    assert!(empty(&Mix::ycsb(Ycsb::A)).is_err(), "nothing to read");
    assert_eq!(empty(&Mix::inserts()).unwrap().take(10).count(), 10);
    assert!(Caching::new(1, 0.9, scatter(), SEED, Part::new(0, 2).unwrap()).is_err());
    assert!(Caching::new(1 << 40, 0.9, scatter(), SEED, Part::WHOLE).is_err());
}
