//! Every instruction set finds exactly the lanes that the definition names.

use index::fingerprint::{
    DISPLACED, EMPTY, FLAG, FLAG_LANES_OF_LINE, GROUP_LANES, Isa, Sought, Tables, empty_line,
    empty_word, has_flag, lane_masks_for, lanes, match_line, match_two_words, match_upper_halves,
    match_word, scan_line, set_lane,
};
use pmem::sync::{AtomicU64, Ordering};
use proptest::prelude::*;

/// Flag lanes of the words that are matched here.
const FLAG_LANES: usize = 2;

static TABLES: Tables = Tables::for_slots(64);

/// What is sought for a byte of hash whose key prefers the group with this first lane.
fn sought_of(byte: u8, near: usize) -> Sought<'static> {
    let group = TABLES.near((near / GROUP_LANES * 64) as u64);
    assert_eq!(group.lane(), near);
    TABLES.sought(byte, group)
}

#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

impl Line {
    fn of(bytes: [u8; 64]) -> Line {
        let words = bytes.as_chunks().0;
        Line(std::array::from_fn(|i| AtomicU64::new(u64::from_le_bytes(words[i]))))
    }

    fn set(&self, lane: usize, byte: u8) {
        let word = &self.0[lane / 8];
        let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
        bytes[lane % 8] = byte;
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

fn holds(byte: u8, fingerprint: u8, is_flag_lane: bool) -> bool {
    if is_flag_lane { byte & !FLAG == fingerprint & !FLAG } else { byte == fingerprint }
}

/// The definition, lane by lane.
fn expected(bytes: &[u8], flag_lanes: usize, fingerprint: u8) -> u64 {
    let matches = bytes
        .iter()
        .enumerate()
        .map(|(lane, &byte)| u64::from(holds(byte, fingerprint, lane < flag_lanes)) << lane);
    matches.sum()
}

#[test]
fn detection_takes_something_available() {
    let available = Isa::available();
    assert!(available.contains(&Isa::detect()));
    assert!(available.contains(&Isa::Portable));
    if cfg!(target_arch = "x86_64") {
        assert!(available.contains(&Isa::Sse2));
    }
    if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
        assert_eq!(Isa::detect(), Isa::Neon);
    }
}

/// The lanes in which this is the fingerprint that is sought, by the definition.
fn expected_for(bytes: &[u8], sought: Sought<'_>) -> u64 {
    let is_match = |(lane, &byte): (usize, &u8)| {
        u64::from(holds(byte, sought.fingerprint_in(lane), lane < FLAG_LANES_OF_LINE)) << lane
    };
    bytes.iter().enumerate().map(is_match).sum()
}

/// Every fingerprint and every group in which it can be sought.
fn all_sought() -> impl Iterator<Item = Sought<'static>> {
    (0..=u8::MAX)
        .flat_map(|byte| (0..64).step_by(GROUP_LANES).map(move |near| sought_of(byte, near)))
}

#[test]
fn fingerprints_of_a_group_and_of_displaced_entries_differ_and_never_look_empty() {
    for sought in all_sought() {
        for lane in 0..64 {
            let print = sought.fingerprint_in(lane);
            assert_ne!(print & !FLAG, EMPTY, "{sought:?} in lane {lane}");
        }
    }
    for byte in 0..=u8::MAX {
        let sought = sought_of(byte, 8);
        let displaced: Vec<usize> =
            (0..64).filter(|&lane| sought.fingerprint_in(lane) & DISPLACED != 0).collect();
        let elsewhere: Vec<usize> = (0..8).chain(12..64).collect();
        assert_eq!(displaced, elsewhere, "{byte}");
        // Seven bits of the hash tell fingerprints apart, but for two that would look empty.
        let print = sought.fingerprint_in(8);
        let expected = if byte & 0x7e == 0 { byte & FLAG | 2 } else { byte & !DISPLACED };
        assert_eq!(print, expected);
    }
}

#[test]
fn groups_are_those_that_have_slots() {
    for slots in [4, 32, 64] {
        let tables = Tables::for_slots(slots);
        for group in 0..16 {
            // Other bits of the hash do not count.
            let near = tables.near(group << 6 | 0xffff_fc3f);
            assert_eq!(near.lane(), group as usize * GROUP_LANES % slots);
            assert_eq!(near.slot_byte(), 16 * near.lane());
        }
    }
}

/// Every lane, every byte in it, every fingerprint, sought in the first group and in the last; the other lanes miss by
/// one bit.
#[test]
fn every_byte_in_every_lane_of_a_line() {
    for isa in Isa::available() {
        for sought in (0..=u8::MAX).flat_map(|byte| [0, 60].map(|near| sought_of(byte, near))) {
            for changed in [DISPLACED, 0x40] {
                let around: [u8; 64] =
                    std::array::from_fn(|lane| sought.fingerprint_in(lane) ^ changed);
                let line = Line::of(around);
                for (lane, before) in around.into_iter().enumerate() {
                    let print = sought.fingerprint_in(lane);
                    for byte in 0..=255 {
                        line.set(lane, byte);
                        let is_match = holds(byte, print, lane < FLAG_LANES_OF_LINE);
                        assert_eq!(
                            match_line(isa, &line.0, sought),
                            u64::from(is_match) << lane,
                            "{isa:?} {sought:?} lane {lane} byte {byte} changed by {changed}"
                        );
                    }
                    line.set(lane, before);
                }
            }
        }
    }
}

#[test]
fn what_is_sought_is_found_in_every_group() {
    for isa in Isa::available() {
        for sought in all_sought() {
            let line = Line::of(std::array::from_fn(|lane| sought.fingerprint_in(lane)));
            assert_eq!(match_line(isa, &line.0, sought), u64::MAX, "{isa:?} {sought:?}");
            assert_eq!(scan_line(isa, &line.0, sought), (u64::MAX, 0), "{isa:?} {sought:?}");
        }
    }
}

#[test]
fn every_byte_in_every_lane_among_empty_ones() {
    for isa in Isa::available() {
        let line = Line::of([EMPTY; 64]);
        for lane in 0..64 {
            for byte in 0..=255 {
                line.set(lane, byte);
                let is_empty = holds(byte, EMPTY, lane < FLAG_LANES_OF_LINE);
                let expected = !(u64::from(!is_empty) << lane);
                assert_eq!(empty_line(isa, &line.0), expected, "{isa:?} lane {lane} byte {byte}");
            }
            line.set(lane, EMPTY);
        }
    }
}

#[test]
fn flags_hide_no_fingerprint_and_make_none() {
    for isa in Isa::available() {
        let line = Line::of([EMPTY; 64]);
        for lane in 0..FLAG_LANES_OF_LINE {
            line.set(lane, FLAG);
        }
        assert_eq!(empty_line(isa, &line.0), u64::MAX, "{isa:?}: a flag is not a fingerprint");
        // Sought elsewhere than in the first group: lanes hold it with DISPLACED.
        let sought = |byte| sought_of(byte, 60);
        let past_flags = FLAG_LANES_OF_LINE;
        line.set(0, FLAG | 3);
        line.set(1, 3);
        line.set(2, 127);
        line.set(past_flags, FLAG | 3);
        line.set(62, 2);
        line.set(63, 3);
        assert_eq!(match_line(isa, &line.0, sought(2)), 1 << 62 | 0b0011, "{isa:?}");
        assert_eq!(match_line(isa, &line.0, sought(130)), 1 << past_flags | 0b0011, "{isa:?}");
        assert_eq!(match_line(isa, &line.0, sought(126)), 0b0100, "{isa:?}");
        assert_eq!(match_line(isa, &line.0, sought(254)), 0b0100, "{isa:?}");
    }
}

#[test]
fn a_fingerprint_is_set_in_its_lane_alone_and_beside_its_flag() {
    for before in [EMPTY, FLAG, 0x55, 0xff] {
        for fingerprint in [EMPTY, 1, 127, 129, 255] {
            for lane in 0..64 {
                let line = Line::of([before; 64]);
                set_lane(&line.0, lane, fingerprint);
                let kept_bits = if lane < FLAG_LANES_OF_LINE { FLAG } else { 0 };
                let after = Line::of([before; 64]);
                after.set(lane, before & kept_bits | fingerprint & !kept_bits);
                let words =
                    |line: &Line| line.0.each_ref().map(|word| word.load(Ordering::Relaxed));
                assert_eq!(
                    words(&line),
                    words(&after),
                    "{fingerprint} over {before} in lane {lane}"
                );
            }
        }
    }
}

#[test]
fn a_flag_is_that_of_its_lane() {
    for lane in 0..8 {
        let line = Line::of([!FLAG; 64]);
        assert!(!has_flag(&line.0, lane));
        line.set(lane, FLAG);
        assert!((0..8).all(|other| has_flag(&line.0, other) == (other == lane)), "lane {lane}");
    }
}

/// A lane must not disturb its neighbours: all pairs of bytes in all pairs of adjacent lanes.
#[test]
fn every_pair_of_bytes_in_adjacent_lanes_of_a_word() {
    for fingerprint in [EMPTY, 1, 2, 127, 129, 130, 254, 255] {
        for lane in 0..7 {
            for pair in 0..=u16::MAX {
                let mut bytes = [fingerprint ^ 1; 8];
                bytes[lane..lane + 2].copy_from_slice(&pair.to_le_bytes());
                let word = u64::from_le_bytes(bytes);
                let expected = expected(&bytes, FLAG_LANES, fingerprint) as u8;
                assert_eq!(
                    match_word::<FLAG_LANES>(word, fingerprint),
                    expected,
                    "{bytes:?} {fingerprint}"
                );
            }
        }
    }
}

#[test]
fn two_words() {
    for fingerprint in [0, 1, 2, 127, 128, 254, 255] {
        for lane in 0..16 {
            for byte in 0..=u8::MAX {
                let mut bytes = [[fingerprint ^ 1; 8]; 2];
                bytes[lane / 8][lane % 8] = byte;
                let words = bytes.map(u64::from_le_bytes);
                let expected = u32::from(byte == fingerprint) << lane;
                assert_eq!(match_two_words(words, fingerprint), expected, "{bytes:?}");
            }
        }
        let full = [u64::from_ne_bytes([fingerprint; 8]); 2];
        assert_eq!(match_two_words(full, fingerprint), 0xffff);
    }
}

#[test]
fn upper_halves_of_four_words() {
    for isa in Isa::available() {
        for fingerprint in [1, 2, 127, 128, 254, 255] {
            for lane in 0..16 {
                for byte in 0..=u8::MAX {
                    // Below, the fingerprint is everywhere and does not count.
                    let mut bytes = [[fingerprint; 8]; 4];
                    for word in &mut bytes {
                        word[4..].fill(fingerprint ^ 1);
                    }
                    bytes[lane / 4][4 + lane % 4] = byte;
                    let words = bytes.map(u64::from_le_bytes);
                    let expected = u32::from(byte == fingerprint) << lane;
                    let found = match_upper_halves(isa, &words, fingerprint);
                    assert_eq!(found, expected, "{isa:?} {bytes:?} {fingerprint}");
                }
            }
            let full = [u64::from_ne_bytes([fingerprint; 8]); 4];
            assert_eq!(match_upper_halves(isa, &full, fingerprint), 0xffff, "{isa:?}");
        }
    }
}

#[test]
fn empty_lanes_of_a_word() {
    assert_eq!(empty_word::<FLAG_LANES>(0), 0b1111_1111);
    assert_eq!(empty_word::<FLAG_LANES>(0x8080), 0b1111_1111);
    assert_eq!(empty_word::<FLAG_LANES>(0x80_8080), 0b1111_1011);
    assert_eq!(empty_word::<FLAG_LANES>(0x0100_0000_0000_0181), 0b0111_1100);
    assert_eq!(empty_word::<FLAG_LANES>(u64::MAX), 0);
}

#[test]
fn lanes_come_lowest_first() {
    assert_eq!(lanes(0).next(), None);
    assert_eq!(lanes(1 << 63 | 0b1010).collect::<Vec<_>>(), [1, 3, 63]);
    assert_eq!(lanes(u64::MAX).count(), 64);
}

#[test]
fn masks_have_a_bit_for_each_slot() {
    for slots in 0..=64 {
        assert_eq!(lane_masks_for(slots).count_ones() as usize, slots);
        assert_eq!(lane_masks_for(slots).trailing_ones() as usize, slots);
    }
    assert_eq!(lane_masks_for(usize::MAX), u64::MAX);
}

/// Bytes that often hold the fingerprint, or miss it by one bit.
fn byte_near(fingerprint: u8) -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => Just(fingerprint),
        2 => Just(fingerprint ^ FLAG),
        1 => Just(EMPTY),
        1 => (0..8_u32).prop_map(move |bit| fingerprint ^ 1 << bit),
        1 => any::<u8>(),
    ]
}

fn fingerprint_and<const LANES: usize>() -> impl Strategy<Value = (u8, [u8; LANES])> {
    let edges = prop::sample::select(vec![EMPTY, 1, 127, 129, 255]);
    prop_oneof![edges, any::<u8>()].prop_flat_map(|fingerprint| {
        let bytes = prop::collection::vec(byte_near(fingerprint), LANES);
        (Just(fingerprint), bytes.prop_map(|bytes| std::array::from_fn(|lane| bytes[lane])))
    })
}

proptest! {
    #[test]
    fn any_line((fingerprint, bytes) in fingerprint_and::<64>(), group in 0..16_usize) {
        let line = Line::of(bytes);
        let sought = sought_of(fingerprint, GROUP_LANES * group);
        for isa in Isa::available() {
            let matches = expected_for(&bytes, sought);
            prop_assert_eq!(match_line(isa, &line.0, sought), matches, "{:?}", isa);
            let empty = expected(&bytes, FLAG_LANES_OF_LINE, EMPTY);
            prop_assert_eq!(empty_line(isa, &line.0), empty, "{:?}", isa);
            prop_assert_eq!(scan_line(isa, &line.0, sought), (matches, empty), "{:?}", isa);
        }
    }

    #[test]
    fn any_word((fingerprint, bytes) in fingerprint_and::<8>()) {
        let word = u64::from_le_bytes(bytes);
        let matches = expected(&bytes, FLAG_LANES, fingerprint) as u8;
        prop_assert_eq!(match_word::<FLAG_LANES>(word, fingerprint), matches);
        prop_assert_eq!(empty_word::<FLAG_LANES>(word), expected(&bytes, FLAG_LANES, EMPTY) as u8);
    }
}
