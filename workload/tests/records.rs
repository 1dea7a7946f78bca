//! Records: bytes that tell whose they are, sizes as asked.

use std::collections::HashSet;
use workload::records::{
    Items, Mismatch, ValueSizes, check_value, digest, fill_key, fill_value, pair,
};
use workload::{ParameterError, Random, Scatter};

fn value(key: u64, version: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill_value(key, version, &mut bytes);
    bytes
}

#[test]
fn values_of_every_length_are_recognized() {
    for length in (1..100).chain([4_096, 65_537]) {
        for version in [0, 1, 255] {
            assert_eq!(check_value(7, &value(7, version, length)), Ok(version), "{length} bytes");
        }
    }
    assert_eq!(check_value(7, &[]), Ok(0));
}

#[test]
fn every_changed_byte_is_found() {
    for length in [8, 15, 16, 17, 100] {
        let whole = value(7, 3, length);
        for offset in 0..length {
            let mut torn = whole.clone();
            torn[offset] ^= 0x10;
            let Err(Mismatch::Contents { key: 7, offset: found, .. }) = check_value(7, &torn)
            else {
                panic!("byte {offset} of {length} went unnoticed");
            };
            // A changed version makes all that follows wrong.
            assert!(found == offset || offset == 0 && found > 0);
        }
    }
}

#[test]
fn values_mixed_from_two_versions_are_found() {
    for length in [8, 15, 64, 4_096] {
        for seam in 1..length.min(64) {
            let mut torn = value(7, 3, length);
            torn[seam..].copy_from_slice(&value(7, 4, length)[seam..]);
            // A single random byte is the same in both once in 256 times.
            if length - seam >= 8 {
                assert!(check_value(7, &torn).is_err(), "{length} bytes, seam {seam}");
            }
        }
    }
}

#[test]
fn pairs_belong_to_one_key() {
    let scatter = Scatter::new(1);
    for rank in 0..10_000 {
        let (key, other) = (scatter.key(rank), scatter.key(rank + 1));
        for version in [0, 200] {
            assert_eq!(pair::check(key, pair::value(key, version)), Ok(version));
            assert!(pair::check(other, pair::value(key, version)).is_err());
            assert_eq!(pair::check_long(key, &pair::long_value(key, version)), Ok(version));
            assert!(pair::check_long(other, &pair::long_value(key, version)).is_err());
        }
    }
}

#[test]
fn byte_keys_differ_in_all_their_parts() {
    let long: Vec<_> = (0..10_000).map(pair::long_key).collect();
    assert_eq!(long.iter().collect::<HashSet<_>>().len(), 10_000);
    let derived = long.iter().map(|bytes| &bytes[8..]);
    assert_eq!(derived.collect::<HashSet<_>>().len(), 10_000);
    let mut short = [0; 3];
    fill_key(0x0403_0201, &mut short);
    assert_eq!(short, [1, 2, 3]);
}

#[test]
fn contents_stay_the_same() {
    assert_eq!(value(7, 3, 11), VALUE_OF_KEY_7);
    assert_eq!(pair::long_key(7), LONG_KEY_7);
    assert_eq!(digest(b"user:7 and more"), DIGEST);
}

#[test]
fn digests_tell_strings_apart() {
    let mut strings: Vec<Vec<u8>> = (0..40).map(|length| vec![0; length]).collect();
    for at in 0..40 {
        let mut string = vec![0; 40];
        string[at] = 1;
        strings.push(string);
    }
    let digests: HashSet<u64> = strings.iter().map(|string| digest(string)).collect();
    assert_eq!(digests.len(), strings.len());
}

#[test]
fn items_check_contents_and_length() {
    let items = Items::new(20, ValueSizes::uniform(1, 300).unwrap()).unwrap();
    let (mut key, mut bytes) = (Vec::new(), Vec::new());
    let mut lengths = HashSet::new();
    for number in 0..1_000 {
        items.key(number, &mut key);
        assert_eq!(key.len(), 20);
        items.value(number, 9, &mut bytes);
        assert_eq!(bytes.len(), items.value_bytes(number, 9));
        assert_eq!(items.check(number, &bytes), Ok(9));
        lengths.insert(bytes.len());
        let mut extended = vec![0; bytes.len() + 1];
        fill_value(number, 9, &mut extended);
        let refused = items.check(number, &extended);
        assert!(matches!(refused, Err(Mismatch::Length { .. })), "{refused:?}");
    }
    assert!(lengths.len() > 250);
    let versions: HashSet<usize> = (0..100).map(|v| items.value_bytes(5, v)).collect();
    assert!(versions.len() > 50, "updates change the size");
}

fn sizes(sizes: &ValueSizes, draws: usize) -> Vec<usize> {
    let mut random = Random::new(1);
    (0..draws).map(|_| sizes.size(random.word())).collect()
}

#[test]
fn uniform_sizes_are_uniform() {
    assert!(sizes(&ValueSizes::fixed(100).unwrap(), 100).iter().all(|&size| size == 100));
    let mut found = [0u32; 10];
    for size in sizes(&ValueSizes::uniform(5, 14).unwrap(), 100_000) {
        found[size - 5] += 1;
    }
    assert!(found.iter().all(|frequency| (9_500..10_500).contains(frequency)), "{found:?}");
}

#[test]
fn size_classes_follow_the_law() {
    // Classes 16..32, 32..64, 64..128, 128..=200 in proportion 1 : 1/2 : 1/3 : 1/4.
    let law = ValueSizes::zipf_classes(16, 200, 1.0).unwrap();
    let drawn = sizes(&law, 100_000);
    let share = |range: std::ops::RangeInclusive<usize>| {
        drawn.iter().filter(|size| range.contains(size)).count() as f64 / 100_000.0
    };
    for (class, (range, weight)) in
        [(16..=31, 1.0), (32..=63, 1.0 / 2.0), (64..=127, 1.0 / 3.0), (128..=200, 1.0 / 4.0)]
            .into_iter()
            .enumerate()
    {
        let expected = weight / (25.0 / 12.0);
        let found = share(range);
        assert!((found - expected).abs() < 0.01, "class {class}: {found}, not {expected}");
    }
    // Within a class the halves are alike.
    assert!((share(16..=23) - share(24..=31)).abs() < 0.01);
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&16), Some(&200)));
    assert_eq!((law.size(0), law.largest()), (16, 200));
}

#[test]
fn sizes_hold_at_their_ends() {
    for (min, max) in [(1, 1), (1, 2), (3, 3), (1, 1 << 40), (usize::MAX, usize::MAX)] {
        for theta in [0.0, 1.0, 4.0] {
            let law = ValueSizes::zipf_classes(min, max, theta).unwrap();
            assert_eq!((law.size(0), law.size(u64::MAX)), (min, max), "{min} to {max}");
            assert_eq!(law.largest(), max);
        }
    }
    for (min, max) in [(0, 0), (0, 5), (5, 4)] {
        let refused = ValueSizes::uniform(min, max).unwrap_err();
        assert_eq!(refused, ParameterError::Sizes { min, max, least: 1 });
        assert!(ValueSizes::zipf_classes(min, max, 1.0).is_err());
    }
    assert!(ValueSizes::zipf_classes(1, 2, f64::NAN).is_err());
    assert!(ValueSizes::zipf_classes(1, 2, 4.1).is_err());
    assert!(Items::new(7, ValueSizes::fixed(1).unwrap()).is_err());
}

// Computed apart from this crate.
const VALUE_OF_KEY_7: [u8; 11] = [3, 0, 95, 224, 123, 250, 137, 36, 98, 211, 172];
const LONG_KEY_7: [u8; 16] = [7, 0, 0, 0, 0, 0, 0, 0, 13, 181, 114, 227, 6, 242, 226, 171];
const DIGEST: u64 = 2_670_245_505_362_402_277;
