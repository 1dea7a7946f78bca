use super::*;

pub(super) fn sample() -> Superblock {
    Superblock {
        sequence: 9,
        features_compatible: 0,
        features_read_only: 0,
        features_incompatible: 0,
        uuid: 1 << 100 | 5,
        incarnation: 3,
        kind: PoolKind::Store,
        engine: 1,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: 1,
        hash_seed: 77,
        clean: false,
        medium: MediumKind::Mapped,
        place: Place { boot_id: [1, 2], inode: 3, file_system: 4 },
        end: SUPERBLOCK_BYTES + LINE + 128,
        segment_log2: 16,
        typed_roots: [(1, 2); TYPED_ROOTS],
        engine_params: [6; ENGINE_PARAMS],
        engine_roots: [7; ENGINE_ROOTS],
        extents: vec![
            Extent { owner: 1, index: 0, start: Offset(SUPERBLOCK_BYTES), bytes: LINE },
            Extent { owner: HEAP, index: 2, start: Offset(SUPERBLOCK_BYTES + LINE), bytes: 128 },
        ],
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let words = sample().encode();
    assert_eq!(Superblock::choose([Some(&words), Some(&words)]).unwrap(), (sample(), None));
}

#[test]
fn the_newer_valid_copy_counts() {
    let older = sample().encode();
    let newer = Superblock { sequence: 10, incarnation: 4, ..sample() }.encode();
    for (copies, outdated) in [([&older, &newer], 0), ([&newer, &older], 1)] {
        let (chosen, repair) = Superblock::choose(copies.map(|copy| Some(&**copy))).unwrap();
        assert_eq!((chosen.incarnation, repair), (4, Some(outdated)));
    }
}

#[test]
fn any_flipped_bit_of_one_copy_is_noticed_and_the_other_counts() {
    let good = sample().encode();
    for bit in 0..COPY_WORDS * 64 {
        let mut bad = good.clone();
        bad[bit / 64] ^= 1 << (bit % 64);
        let (chosen, repair) = Superblock::choose([Some(&bad), Some(&good)]).unwrap();
        assert_eq!((chosen, repair), (sample(), Some(0)), "bit {bit}");
        assert!(Superblock::choose([Some(&bad), Some(&bad)]).is_err(), "bit {bit}");
    }
}

#[test]
fn overlapping_or_outlying_extents_are_refused() {
    for (start, bytes) in [(SUPERBLOCK_BYTES, 65), (0, 64), (SUPERBLOCK_BYTES + 128, 1 << 40)] {
        let mut superblock = sample();
        superblock.extents[0].start = Offset(start);
        superblock.extents[0].bytes = bytes;
        let words = superblock.encode();
        let error = Superblock::choose([Some(&words), Some(&words)]).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

#[test]
fn other_formats_are_told_apart() {
    let with = |index: usize, word: u64| {
        let mut words = sample().encode();
        words[index] = word;
        words[CHECKSUM_WORD] = checksum(&words);
        Superblock::choose([Some(&words), Some(&words)]).unwrap_err()
    };
    for other in [VERSION - 1, VERSION + 1] {
        let message = with(1, halves(other, SUPERBLOCK_BYTES as u32)).to_string();
        assert!(message.contains(&format!("format version is {other:#x}")), "{message}");
    }
    assert!(with(7, 4).to_string().contains("required features is 0x4"));
    assert!(with(2, BYTE_ORDER.swap_bytes()).to_string().contains("byte order"));
    assert!(matches!(with(0, 5), OpenError::NotAPool { .. }));
}

#[test]
fn a_dirty_pool_is_trusted_only_where_its_memory_was_kept() {
    let here = sample().place;
    let rebooted = Place { boot_id: [8, 8], ..here };
    let copied = Place { inode: 99, ..here };
    let dax = Superblock { medium: MediumKind::Dax, ..sample() };
    let clean = Superblock { clean: true, ..sample() };
    assert!(sample().check_state(&here).is_ok());
    assert!(sample().check_state(&rebooted).is_err());
    assert!(sample().check_state(&copied).is_err());
    assert!(dax.check_state(&rebooted).is_ok());
    assert!(dax.check_state(&copied).is_err());
    assert!(clean.check_state(&rebooted).is_ok() && clean.check_state(&copied).is_ok());
    let unknown = Place { boot_id: [0, 0], ..here };
    let since_unknown = Superblock { place: unknown, ..sample() };
    assert!(since_unknown.check_state(&unknown).is_err(), "an unknown boot proves nothing");
}
