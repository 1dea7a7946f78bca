//! The hashing that pools depend on: golden values, the meaning of the bits, and their quality.

use index::hash::{Hasher, h1, h2};

/// Seeds of [`INTEGERS`] and of [`BYTES`].
const SEEDS: [u64; 3] = [0, 0x0123_4567_89ab_cdef, u64::MAX];

/// Seed, key, first output, second output. All golden values were computed by a separate program
/// written from the published algorithm; a mismatch means that no existing pool can be read.
#[rustfmt::skip]
const INTEGERS: [(u64, u64, u64, u64); 12] = [
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0xb9f1_9b82_b66a_8fcc, 0xd4c7_a409_bd6d_4f05),
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0001, 0xd8e2_855f_3dbd_ae37, 0x170e_ddd9_0681_16c3),
    (0x0000_0000_0000_0000, 0x0807_0605_0403_0201, 0xb2ff_f0a7_9c1c_cc42, 0x905c_81cf_341d_0c71),
    (0x0000_0000_0000_0000, 0xffff_ffff_ffff_ffff, 0x4345_5d2f_dbd2_69b2, 0xcfcf_fcba_5246_b004),
    (0x0123_4567_89ab_cdef, 0x0000_0000_0000_0000, 0x7048_a956_c5ba_068c, 0x6370_0bf4_5644_a1cd),
    (0x0123_4567_89ab_cdef, 0x0000_0000_0000_0001, 0x89f3_e767_6927_033b, 0xfd54_8d75_1233_471c),
    (0x0123_4567_89ab_cdef, 0x0807_0605_0403_0201, 0x3fba_ccc6_12c3_31ec, 0x0b2b_46c1_ecfb_8e27),
    (0x0123_4567_89ab_cdef, 0xffff_ffff_ffff_ffff, 0x7eca_9c80_52ca_ecd2, 0x3df0_0084_6fd2_ab3e),
    (0xffff_ffff_ffff_ffff, 0x0000_0000_0000_0000, 0x9ebf_ed76_ea48_4251, 0x4075_02b4_ae4e_7331),
    (0xffff_ffff_ffff_ffff, 0x0000_0000_0000_0001, 0xdbf8_c45b_6602_5dd9, 0x4adb_589e_5459_470f),
    (0xffff_ffff_ffff_ffff, 0x0807_0605_0403_0201, 0x5518_a521_b0c0_610d, 0x4a13_ea80_1218_d5f2),
    (0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0x40c4_49fe_d440_a353, 0x0fc2_2417_6c6e_4d01),
];

/// Length of the key, whose byte *i* is 7 *i* + length modulo 256; first output for each seed.
#[rustfmt::skip]
const BYTES: [(usize, [u64; 3]); 14] = [
    (0, [0x880c_2674_d4e1_03b9, 0x2767_04fb_72ae_58b8, 0x754b_af8f_778c_a25b]),
    (1, [0x5007_1af8_b1db_afed, 0x1540_c519_74f0_98b9, 0xc1a6_3fa6_f77f_8d7a]),
    (3, [0x3468_71d7_6715_26fe, 0xaeb3_f9af_369c_fded, 0x9f65_72ee_601b_aabc]),
    (4, [0x50d8_cc8b_a243_54aa, 0x13be_3225_2da2_f8db, 0xbb51_1046_529e_09cb]),
    (7, [0x8612_e6b7_0d7d_6e66, 0x727c_621e_bff6_8e1e, 0x8deb_f467_0e14_4088]),
    (8, [0xb8a8_e483_bb53_73bd, 0x68ad_2cbc_71cf_81b1, 0xead1_c595_7b22_f8df]),
    (9, [0x295a_912c_33b2_1ea3, 0x5172_ea4f_add4_0d0e, 0xffd6_9394_36b3_c0d0]),
    (16, [0x088e_864a_4dab_06c8, 0x0ffb_ff96_0c7c_aac4, 0x02b4_b1fe_8743_c64d]),
    (17, [0x8f47_fe62_a799_059a, 0xc26b_7206_3852_986e, 0x3be2_aa94_c73c_deee]),
    (64, [0xa60d_d0db_2d4b_de6e, 0x5195_9edd_9c10_98c1, 0x613b_8f58_4127_8db8]),
    (112, [0x9343_e80c_722c_2017, 0xb7f7_9c77_ae4f_7842, 0x169f_0cac_259b_9b74]),
    (113, [0x6296_ebf9_5024_48a0, 0xa7c6_d634_2052_8d64, 0x4eac_1fe9_a17e_1ea5]),
    (225, [0x7273_61ec_aeea_f0fb, 0x2445_177a_84c1_5d78, 0xd58b_df98_39c7_5281]),
    (1000, [0x763a_864b_ee83_9ad5, 0x841d_4850_0870_eb64, 0xfa67_2a4c_6d4c_f640]),
];

#[test]
fn integers_hash_to_their_golden_values() {
    for (seed, key, first, second) in INTEGERS {
        let hasher = Hasher::new(seed);
        assert_eq!(hasher.first_u64(key), first, "seed {seed:#x} key {key:#x}");
        assert_eq!(hasher.second_u64(key), second, "seed {seed:#x} key {key:#x}");
        assert_eq!(hasher.first_bytes(&key.to_le_bytes()), first);
    }
}

#[test]
fn bytes_hash_to_their_golden_values() {
    for (len, golden) in BYTES {
        let key: Vec<u8> = (0..len).map(|i| (7 * i + len) as u8).collect();
        for (seed, first) in SEEDS.into_iter().zip(golden) {
            assert_eq!(Hasher::new(seed).first_bytes(&key), first, "seed {seed:#x} length {len}");
        }
    }
}

#[test]
fn a_cut_keeps_the_low_bits_of_byte_keys_only() {
    let whole = Hasher::new(5);
    for bits in [0, 1, 8, 63, 64, 65, u32::MAX] {
        let cut = Hasher::with_bits(5, bits);
        let kept = (0..bits.min(64)).fold(0, |mask, bit| mask | 1 << bit);
        for key in 0..1000_u64 {
            let bytes = key.to_be_bytes();
            assert_eq!(cut.first_bytes(&bytes), whole.first_bytes(&bytes) & kept);
            assert_eq!(cut.first_u64(key), whole.first_u64(key));
            assert_eq!(cut.second_u64(key), whole.second_u64(key));
        }
    }
}

#[test]
fn each_choice_has_its_own_bits() {
    let second = 0xfedc_ba98_7654_3210;
    assert_eq!(h1(second), 0x7654_3210);
    assert_eq!(h2(second), 0xfedc_ba98);
}

/// Keys as people have them: counters, multiples of a page, high bits only, dates in bit fields.
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

const KEYS: u64 = 1 << 16;

#[test]
fn buckets_fill_evenly() {
    for (pattern, key) in key_patterns().into_iter().enumerate() {
        for seed in SEEDS {
            let hasher = Hasher::new(seed);
            let mut counts = vec![[0; 1024]; 2];
            for i in 0..KEYS {
                let second = hasher.second_u64(key(i));
                let buckets = [h1(second) % 1024, h2(second) % 1024];
                for (counts, bucket) in counts.iter_mut().zip(buckets) {
                    counts[bucket as usize] += 1;
                }
            }
            for (choice, counts) in counts.iter().enumerate() {
                let deviations = chi_square_deviations(counts);
                assert!(
                    deviations.abs() < 5.0,
                    "pattern {pattern} seed {seed:#x} choice {choice}: {deviations} deviations"
                );
            }
        }
    }
}

/// Whatever engines take from different bits of the two outputs is independent if no four bits of the 128 say
/// anything about another four.
#[test]
fn no_four_bits_depend_on_another_four() {
    for (pattern, key) in key_patterns().into_iter().enumerate() {
        let hasher = Hasher::new(SEEDS[1]);
        let outputs: Vec<[u8; 32]> = (0..KEYS)
            .map(|i| {
                let first = u128::from(hasher.first_u64(key(i)));
                let both = u128::from(hasher.second_u64(key(i))) << 64 | first;
                std::array::from_fn(|nibble| (both >> (4 * nibble)) as u8 & 15)
            })
            .collect();
        for left in 0..32 {
            for right in 0..left {
                let mut counts = [0; 256];
                for output in &outputs {
                    counts[usize::from(output[left] << 4 | output[right])] += 1;
                }
                let deviations = chi_square_deviations(&counts);
                assert!(
                    deviations.abs() < 6.0,
                    "pattern {pattern} nibbles {left} and {right}: {deviations} deviations"
                );
            }
        }
    }
}
