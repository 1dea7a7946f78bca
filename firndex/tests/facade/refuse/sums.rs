//! Sums of closed pool files: what changes afterwards is found, wherever it is.

use crate::places;
use crate::superblocks::{PREFERRED, decode, make_store_on, make_table_on};
use firndex::{Engine, Existing, Options, Store, Verified, verify};
use std::path::{Path, PathBuf};
use workload::Random;

/// Bits that are tried on each engine, for tables and for stores, unless `FIRNDEX_FLIPS` says how many.
const TRIES: u64 = 200;

fn tries() -> u64 {
    std::env::var("FIRNDEX_FLIPS").map_or(TRIES, |number| number.parse().expect("a number"))
}

fn sums_of(path: &Path) -> PathBuf {
    places::companions(path).join("sums")
}

fn is_sound(path: &Path) -> bool {
    matches!(verify(path).unwrap(), Verified::Sound { bytes } if bytes > 0)
}

fn is_unknown(path: &Path, why: &str) -> bool {
    let verified = verify(path).unwrap();
    matches!(&verified, Verified::Unknown { reason } if reason.contains(why))
        .then_some(())
        .ok_or_else(|| eprintln!("{verified:?}"))
        .is_ok()
}

/// Opens and closes a pool so that it has sums.
fn keep_sums(path: &Path, is_table: bool) {
    let options = Options::new().keep_sums(true);
    if is_table {
        options.open_table(path).unwrap().close().unwrap();
    } else {
        options.open_store(path).unwrap().close().unwrap();
    }
}

#[test]
fn every_flipped_bit_is_found() {
    for (&engine, is_table) in
        Engine::ALL.iter().flat_map(|engine| [(engine, true), (engine, false)])
    {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let make = if is_table { make_table_on } else { make_store_on };
        make(engine, &path);
        keep_sums(&path, is_table);
        assert!(is_sound(&path));
        let bytes = std::fs::read(&path).unwrap();
        let end = decode(&bytes).end;
        let mut random = Random::new(engine.description().id.into());
        for _ in 0..tries() {
            let (at, bit) = (random.below(end), random.below(8));
            let mut flipped = bytes.clone();
            flipped[at as usize] ^= 1 << bit;
            std::fs::write(&path, &flipped).unwrap();
            match verify(&path) {
                Ok(Verified::Damaged { damaged, damaged_bytes, .. }) => {
                    assert!(damaged_bytes <= 4096 && damaged.len() == 1, "{damaged:?}");
                    assert!(damaged[0].contains(&at), "{at:#x} is not in {damaged:?}");
                }
                found => panic!("{engine}: bit {bit} of {at:#x}: {found:?}"),
            }
        }
    }
}

#[test]
fn ranges_that_differ_are_joined_and_those_beyond_a_limit_counted() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_store_on(PREFERRED, &path);
    keep_sums(&path, false);
    let bytes = std::fs::read(&path).unwrap();
    let end = decode(&bytes).end as usize;
    let mut spoilt = bytes.clone();
    spoilt[3 * 4096..5 * 4096].iter_mut().for_each(|byte| *byte ^= 1);
    std::fs::write(&path, &spoilt).unwrap();
    let expected = Verified::Damaged {
        bytes: end as u64,
        damaged_bytes: 8192,
        damaged: vec![3 * 4096..5 * 4096; 1],
    };
    assert_eq!(verify(&path).unwrap(), expected);
    let mut spoilt = bytes;
    let blocks: Vec<usize> = (2..end / 4096).step_by(2).collect();
    blocks.iter().for_each(|block| spoilt[block * 4096] ^= 1);
    std::fs::write(&path, &spoilt).unwrap();
    let Verified::Damaged { damaged, damaged_bytes, .. } = verify(&path).unwrap() else {
        panic!("the file differs");
    };
    assert_eq!(damaged_bytes, blocks.len() as u64 * 4096);
    assert_eq!(damaged.len(), blocks.len().min(64));
}

#[test]
fn sums_hold_for_one_closing_and_the_pool_remembers_to_write_them() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let store = Options::new().create_store(&path).unwrap();
    store.put("a", "1").unwrap();
    store.close().unwrap();
    assert!(is_unknown(&path, "there is no"));
    keep_sums(&path, false);
    assert!(is_sound(&path));

    // Reading leaves them.
    let reader = Options::new().read_only(true).open_store(&path).unwrap();
    assert!(is_sound(&path));
    drop(reader);
    assert!(is_sound(&path));

    // A pool that is being written has none, and neither has a copy of it from then.
    let store = Store::open(&path).unwrap();
    store.put("b", "2").unwrap();
    let copy = directory.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    assert!(!sums_of(&path).exists());
    assert!(is_unknown(&copy, "not closed"));

    // Whoever drops it closes it, too.
    drop(store);
    assert!(is_sound(&path));

    Options::new().keep_sums(false).open_store(&path).unwrap().close().unwrap();
    assert!(is_unknown(&path, "there is no"));
    Store::open(&path).unwrap().close().unwrap();
    assert!(is_unknown(&path, "there is no"));
}

#[test]
fn sums_that_are_damaged_or_another_pools_say_nothing() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make_table_on(PREFERRED, &path);
    keep_sums(&path, true);
    let sums = std::fs::read(sums_of(&path)).unwrap();
    for at in (0..sums.len()).step_by(7).chain(0..80.min(sums.len())) {
        let mut flipped = sums.clone();
        flipped[at] ^= 4;
        std::fs::write(sums_of(&path), &flipped).unwrap();
        assert!(is_unknown(&path, "pool.safe/sums"), "{at}");
    }
    for len in [0, 8, 71, 72, sums.len() - 1] {
        std::fs::write(sums_of(&path), &sums[..len]).unwrap();
        assert!(is_unknown(&path, "pool.safe/sums"), "{len}");
    }
    let other = directory.path().join("other");
    make_table_on(PREFERRED, &other);
    keep_sums(&other, true);
    std::fs::copy(sums_of(&other), sums_of(&path)).unwrap();
    assert!(is_unknown(&path, "another pool"));
    std::fs::write(sums_of(&path), &sums).unwrap();
    assert!(is_sound(&path));
}

#[test]
fn sums_that_cannot_be_written_are_an_error_and_the_pool_is_closed() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let store = Options::new().keep_sums(true).create_store(&path).unwrap();
    store.put("a", "1").unwrap();
    std::fs::create_dir_all(sums_of(&path)).unwrap();
    let error = store.close().unwrap_err().to_string();
    assert!(error.contains("writing the pool's sums"), "{error}");
    assert!(!places::companions(&path).join("sums.new").exists());
    let store = Options::new().read_only(true).open_store(&path).unwrap();
    assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn copies_keep_sums() {
    let directory = places::in_ram();
    let [path, saved] = ["pool", "saved"].map(|name| directory.path().join(name));
    let store = Options::new().keep_sums(true).create_store(&path).unwrap();
    store.put("a", "1").unwrap();
    store.backup(&saved, Existing::Keep).unwrap();
    assert!(is_sound(&saved));
    store.rewrite().unwrap();
    assert!(is_sound(&path));
    Store::open(&path).unwrap().close().unwrap();
    assert!(is_sound(&path));
}
