//! Which bits of a hash mean what, and how uniform the results are.

use crate::iceberg::hash::{
    fingerprint, h0, level1_byte, level2_fingerprint_1, level2_fingerprint_2, spilled_bit,
    spilled_lane,
};
use index::fingerprint::Tables;
use index::hash::Hasher;
use std::collections::HashSet;

const SEEDS: [u64; 3] = [0, 0x0123_4567_89ab_cdef, u64::MAX];
const KEYS: u64 = 1 << 16;
static TABLES: Tables = Tables::for_slots(64);

#[test]
fn every_field_has_its_own_bits() {
    let first = 0x7f2a_c301_0203_0405;
    assert_eq!(h0(first), 0x01_0203_0405);
    assert_eq!(level1_byte(first), 0x7f);
    assert_eq!(level2_fingerprint_1(first), 0x2a);
    assert_eq!(level2_fingerprint_2(first), 0xc3);
    assert_eq!((spilled_lane(first), spilled_bit(first)), (3, 0x80 << 24));
}

#[test]
fn fingerprints_are_the_bytes_that_never_look_empty() {
    let legal: HashSet<u8> = (0..=255).filter(|byte| byte & 0x7f != 0).collect();
    let made: HashSet<u8> = (0..=255).map(fingerprint).collect();
    assert_eq!(made, legal);
    for byte in legal {
        assert_eq!(fingerprint(byte), byte, "only 0 and 128 need another value");
    }
    assert_ne!(fingerprint(0), fingerprint(128));
}

/// Typical keys: counters, multiples of a page, high bits only, dates in bit fields.
fn key_patterns() -> [fn(u64) -> u64; 4] {
    [|i| i, |i| i << 12, |i| i << 48, |i| (i / 372) << 32 | (i / 31 % 12) << 16 | (i % 31)]
}

/// How far the counts lie from uniform, in standard deviations of the statistic.
fn chi_square_deviations(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    let statistic: f64 =
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let freedom = (counts.len() - 1) as f64;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn blocks_of_level_1_fill_evenly() {
    for (pattern, key) in key_patterns().into_iter().enumerate() {
        for seed in SEEDS {
            let hasher = Hasher::new(seed);
            let mut counts = vec![[0; 1024]; 2];
            for i in 0..KEYS {
                let first = hasher.first_u64(key(i));
                // A table takes the low bits of h0, or scales h0 and so takes the high bits.
                for (counts, block) in counts.iter_mut().zip([h0(first) % 1024, h0(first) >> 26]) {
                    counts[block as usize] += 1;
                }
            }
            for (bits, counts) in counts.iter().enumerate() {
                let deviations = chi_square_deviations(counts);
                assert!(
                    deviations.abs() < 5.0,
                    "pattern {pattern} seed {seed:#x} bits {bits}: {deviations} deviations"
                );
            }
        }
    }
}

#[test]
fn two_keys_share_a_fingerprint_once_in_252() {
    for (pattern, key) in key_patterns().into_iter().enumerate() {
        let hasher = Hasher::new(SEEDS[1]);
        for print in [level2_fingerprint_1, level2_fingerprint_2] {
            let mut counts = [0_u64; 256];
            for i in 0..KEYS {
                counts[usize::from(print(hasher.first_u64(key(i))))] += 1;
            }
            let pairs = (KEYS * (KEYS - 1) / 2) as f64;
            let agreeing: u64 = counts.iter().map(|n| n * n.saturating_sub(1) / 2).sum();
            let one_in = pairs / agreeing as f64;
            assert!((251.0..253.0).contains(&one_in), "pattern {pattern}: one in {one_in}");
        }
    }
}

/// In a line that both prefer, or neither.
#[test]
fn two_keys_share_a_level_1_fingerprint_once_in_124() {
    for (pattern, key) in key_patterns().into_iter().enumerate() {
        let hasher = Hasher::new(SEEDS[1]);
        let mut counts = [0_u64; 256];
        for i in 0..KEYS {
            let sought = TABLES.sought(level1_byte(hasher.first_u64(key(i))), TABLES.near(0));
            counts[usize::from(sought.fingerprint_in(0))] += 1;
        }
        let pairs = (KEYS * (KEYS - 1) / 2) as f64;
        let agreeing: u64 = counts.iter().map(|n| n * n.saturating_sub(1) / 2).sum();
        let one_in = pairs / agreeing as f64;
        assert!((123.0..127.0).contains(&one_in), "pattern {pattern}: one in {one_in}");
    }
}
