//! Salvage: what is saved of damaged pools, what is told of the rest, and that nothing is invented.

use crate::engines::{Anatomy, load};
use crate::places;
use crate::superblocks::{
    PAIRS, change, decode, make_store_on, make_table_on, store_pairs, value_of,
};
use firndex::{
    Engine, Error, Existing, Kind, OpenError, Options, Orphans, Salvage, Salvaged, Store,
    SuperblockState, Table,
};
use std::collections::BTreeMap;
use std::path::Path;
use workload::Random;

type Strings = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where the superblocks end.
const SUPERBLOCKS: usize = 8192;

fn table(pool: &Path, out: &Path) -> firndex::Result<(Salvaged, BTreeMap<u64, u64>)> {
    let salvage = Salvage::open(pool)?;
    let saved = salvage.table_of::<u64, u64>(out, Existing::Replace, &Options::new())?;
    let table = Options::new().read_only(true).open_table(out)?;
    assert!(table.check()?.is_sound());
    Ok((saved, table.iter().collect::<Result<_, _>>()?))
}

fn store(pool: &Path, out: &Path, orphans: Orphans) -> firndex::Result<(Salvaged, Strings)> {
    let saved = Salvage::open(pool)?.store(out, Existing::Replace, &Options::new(), orphans)?;
    let store = Options::new().read_only(true).open_store(out)?;
    assert!(store.check()?.is_sound());
    Ok((saved, store.iter().collect::<Result<_, _>>()?))
}

fn stored() -> Strings {
    store_pairs().collect()
}

fn made(engine: Engine, path: &Path, make: impl Fn(Engine, &Path)) -> Vec<u8> {
    let path = path.with_extension("made");
    make(engine, &path);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

#[test]
fn of_a_sound_pool_everything_is_saved() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    for &engine in Engine::ALL {
        make_table_on(engine, &pool);
        let before = std::fs::read(&pool).unwrap();
        let (saved, pairs) = table(&pool, &out).unwrap();
        assert!(saved.is_complete() && saved.expected == Some(PAIRS), "{engine}: {saved:?}");
        assert!(pairs.into_iter().eq((0..PAIRS).map(|key| (key, value_of(key)))), "{engine}");
        assert!(std::fs::read(&pool).unwrap() == before, "it is only read");
        assert_eq!(firndex::inspect(&out).unwrap().engine, engine);
        std::fs::remove_file(&pool).unwrap();

        make_store_on(engine, &pool);
        for orphans in [Orphans::Leave, Orphans::Copy] {
            let (saved, pairs) = store(&pool, &out, orphans).unwrap();
            assert!(saved.is_complete() && saved.orphans == 0, "{engine}: {saved:?}");
            assert!(pairs == stored(), "{engine}");
        }
        std::fs::remove_file(&pool).unwrap();
    }
}

/// Other sizes are kept in other ways on the same engines, and one sort of key has a place of its own.
#[test]
fn pairs_of_all_sizes_are_saved() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    for &engine in Engine::ALL {
        let options = Options::new().engine(engine);
        if let Ok(odd) = options.create_table_of::<[u8; 13], u32>(&pool) {
            let key = |number: u32| -> [u8; 13] { std::array::from_fn(|at| (number >> at) as u8) };
            let keys: std::collections::BTreeSet<_> = (0..900).map(key).collect();
            keys.iter().for_each(|key| assert!(odd.put(*key, u32::from(key[0])).is_ok()));
            odd.close().unwrap();
            let salvage = Salvage::open(&pool).unwrap();
            assert_eq!((salvage.kind(), salvage.sizes()), (Some(Kind::Table), Some((13, 4))));
            let replace = Existing::Replace;
            let saved = salvage.table_of::<[u8; 13], u32>(&out, replace, &Options::new()).unwrap();
            assert!(saved.is_complete() && saved.pairs == keys.len() as u64, "{engine}: {saved:?}");
            let other = salvage.table_of::<u64, u64>(&out, replace, &Options::new()).unwrap_err();
            assert!(matches!(other, Error::Open(OpenError::Mismatch { .. })), "{other}");
            drop(salvage);
            std::fs::remove_file(&pool).unwrap();
        }
        let zero = options.create_table(&pool).unwrap();
        zero.put(0, 0).unwrap();
        zero.close().unwrap();
        let (saved, pairs) = table(&pool, &out).unwrap();
        assert!(saved.is_complete() && pairs == BTreeMap::from([(0, 0)]), "{engine}: {saved:?}");
        std::fs::remove_file(&pool).unwrap();
    }
}

#[test]
fn a_superblock_is_not_needed_whole() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    for &engine in Engine::ALL {
        let of_table = made(engine, &pool, make_table_on);
        let of_store = made(engine, &pool, make_store_on);
        // Bits flipped in both copies: in the seed of the first and in the checksum of the second.
        let strike = |bytes: &[u8]| {
            let mut struck = bytes.to_vec();
            struck[14 * 8] ^= 1;
            struck[4096 + 3 * 8] ^= 1;
            std::fs::write(&pool, struck).unwrap();
            assert!(firndex::inspect(&pool).is_err());
        };
        strike(&of_table);
        let (saved, pairs) = table(&pool, &out).unwrap();
        assert_eq!((saved.superblock, saved.is_complete()), (SuperblockState::Damaged, false));
        assert_eq!(pairs.len() as u64, PAIRS, "{engine}: {saved:?}");
        strike(&of_store);
        let (saved, pairs) = store(&pool, &out, Orphans::Leave).unwrap();
        assert_eq!(saved.superblock, SuperblockState::Damaged);
        assert!(pairs == stored(), "{engine}: {saved:?}");

        // Nothing left of them.
        let mut lost = of_store.clone();
        lost[..SUPERBLOCKS].fill(0xff);
        std::fs::write(&pool, lost).unwrap();
        let (saved, pairs) = store(&pool, &out, Orphans::Leave).unwrap();
        assert_eq!(saved.superblock, SuperblockState::Lost);
        assert!(pairs == stored(), "{engine}: {saved:?}");
        let mut lost = of_table.clone();
        lost[..SUPERBLOCKS].fill(0xff);
        std::fs::write(&pool, lost).unwrap();
        let refused = table(&pool, &out).unwrap_err();
        assert!(matches!(refused, Error::Open(OpenError::Damaged { .. })), "{refused}");
    }
    std::fs::write(&pool, vec![7; 100_000]).unwrap();
    std::fs::remove_file(&out).unwrap();
    let refused = store(&pool, &out, Orphans::Copy).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::NotAPool { .. })), "{refused}");
    assert!(!out.exists());
}

/// Keys whose items are damaged are missing and reported; all others are there.
#[test]
fn damaged_items_are_left_out_and_told() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let is_of = |bytes: &[u8], number: u32| bytes.starts_with(&[number as u8; 90]);
    for &engine in Engine::ALL {
        let mut bytes = made(engine, &pool, make_store_on);
        // Values of 90 bytes or more are found by what they are.
        for number in [91, 94, 190] {
            let at = (SUPERBLOCKS..bytes.len()).find(|&at| is_of(&bytes[at..], number)).unwrap();
            bytes[at] ^= 0x10;
        }
        std::fs::write(&pool, &bytes).unwrap();
        let (saved, pairs) = store(&pool, &out, Orphans::Copy).unwrap();
        assert_eq!((saved.unreadable, saved.misplaced), (3, 0), "{engine}: {saved:?}");
        assert_eq!((saved.findings.len(), saved.is_complete()), (3, false));
        assert_eq!(saved.expected, Some(saved.pairs + 3));
        let mut expected = stored();
        [91u32, 94, 190].iter().for_each(|key| drop(expected.remove(&key.to_le_bytes()[..])));
        assert!(pairs == expected, "{engine}");
    }
}

/// A bit of a key flips: nearly always it then is a key that could not be there. Items tell it by their checksums.
#[test]
fn keys_that_cannot_be_where_they_are_are_left_out() {
    const BIT: u64 = 1 << 40;
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let mut engines = 0;
    for &engine in Engine::ALL {
        let made = Options::new().engine(engine).create_table(&pool).unwrap();
        (0..PAIRS).for_each(|key| assert_eq!(made.put(key, value_of(key)).unwrap(), None));
        made.close().unwrap();
        let mut bytes = std::fs::read(&pool).unwrap();
        let places = Anatomy::of(&decode(&bytes), &bytes).keys;
        let (mut flipped, end) = (0, bytes.len());
        for at in places.into_iter().filter(|at| at + 16 <= end) {
            let key = load(&bytes, at);
            let value = load(&bytes, at + 8);
            if (1..PAIRS).contains(&key) && value == value_of(key) && key.is_multiple_of(5) {
                bytes[at..at + 8].copy_from_slice(&(key | BIT).to_le_bytes());
                flipped += 1;
            }
        }
        std::fs::write(&pool, &bytes).unwrap();
        let (saved, pairs) = table(&pool, &out).unwrap();
        let wrong = pairs.range(BIT..).count() as u64;
        // Slots that are not in use may hold keys as well.
        assert!(saved.misplaced + wrong <= flipped, "{engine}: {flipped}, {saved:?}");
        assert!(flipped == 0 || saved.misplaced > flipped / 2, "{engine}: {flipped}, {saved:?}");
        assert!(wrong <= flipped / 4, "{engine}: {wrong} of {flipped}");
        assert_eq!(saved.pairs, PAIRS - saved.misplaced, "{engine}");
        engines += u32::from(flipped > 100);
        std::fs::remove_file(&pool).unwrap();
    }
    assert!(engines >= 4, "{engines}");
}

#[test]
fn what_was_removed_comes_back_only_if_asked_for() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    for &engine in Engine::ALL {
        make_store_on(engine, &pool);
        let before = Store::open(&pool).unwrap();
        for key in 50u32..60 {
            assert!(before.remove(key.to_le_bytes()).unwrap().is_some());
        }
        before.put(7u32.to_le_bytes(), "newer").unwrap();
        before.close().unwrap();
        let (saved, pairs) = store(&pool, &out, Orphans::Leave).unwrap();
        assert!(saved.is_complete(), "{engine}: {saved:?}");
        assert_eq!((pairs.len() as u64, saved.pairs), (291, 291), "{engine}");
        assert_eq!(pairs[&7u32.to_le_bytes()[..]], b"newer", "what slots lead to is preferred");
        assert!(saved.orphans > 0);
        let (saved, pairs) = store(&pool, &out, Orphans::Copy).unwrap();
        assert_eq!(pairs.len() as u64, 291 + saved.orphans, "{engine}: {saved:?}");
        assert_eq!(pairs[&7u32.to_le_bytes()[..]], b"newer");
        std::fs::remove_file(&pool).unwrap();
    }
}

/// A pool after power loss, one that was cut off, and a checkpoint.
#[test]
fn what_is_refused_is_saved() {
    let (in_ram, on_disk) = (places::in_ram(), places::on_disk());
    let [pool, out] = ["pool", "out"].map(|name| in_ram.path().join(name));
    for &engine in Engine::ALL {
        let mut bytes = made(engine, &pool, make_table_on);
        change(&mut bytes, |superblock| {
            superblock.advance(false, None);
            superblock.place.boot_id = [4, 4];
        });
        std::fs::write(&pool, &bytes).unwrap();
        assert!(Table::<u64, u64>::open(&pool).is_err());
        let (saved, pairs) = table(&pool, &out).unwrap();
        // All of them, but the pool itself cannot tell.
        assert!(!saved.closed && !saved.is_complete(), "{engine}: {saved:?}");
        assert_eq!((pairs.len() as u64, saved.misplaced, saved.unread_bytes), (PAIRS, 0, 0));

        let end = decode(&bytes).end as usize;
        std::fs::write(&pool, &bytes[..end / 2]).unwrap();
        let (saved, pairs) = table(&pool, &out).unwrap();
        assert!(saved.unread_bytes > 0 && !saved.is_complete(), "{engine}: {saved:?}");
        assert!(pairs.iter().all(|(&key, &value)| value == value_of(key)), "{engine}");
        let logged = Options::new().engine(engine).durability(firndex::Durability::Periodic);
        let pool = on_disk.path().join(engine.name());
        let written = logged.create_store(&pool).unwrap();
        stored().iter().for_each(|(key, value)| drop(written.put(key, value).unwrap()));
        written.close().unwrap();
        // It has every pair.
        places::with_a_new_checkpoint(&logged, &pool).close().unwrap();
        let (saved, pairs) = store(&pool.with_extension("safe"), &out, Orphans::Leave).unwrap();
        assert!(pairs == stored(), "{engine}: {saved:?}");
        assert!(!saved.closed && !saved.is_complete(), "{engine}: {saved:?}");
    }
}

#[test]
fn of_an_empty_pool_nothing_is_missing() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    Store::create(&pool).unwrap().close().unwrap();
    let (saved, pairs) = store(&pool, &out, Orphans::Leave).unwrap();
    assert!(saved.is_complete() && pairs.is_empty(), "{saved:?}");
    let cut_off = Store::open(&pool).unwrap();
    cut_off.put("a", "b").unwrap();
    cut_off.remove("a").unwrap();
    std::fs::copy(&pool, directory.path().join("copy")).unwrap();
    let (saved, _) = store(&directory.path().join("copy"), &out, Orphans::Leave).unwrap();
    assert!(saved.pairs == 0 && !saved.is_complete(), "{saved:?}");
}

#[test]
fn a_pool_that_is_written_is_not_read() {
    let directory = places::in_ram();
    let pool = directory.path().join("pool");
    let missing = Salvage::open(&pool).unwrap_err();
    assert!(matches!(missing, Error::Open(OpenError::Missing { .. })), "{missing}");
    let held = Table::<u64, u64>::open_or_create(&pool).unwrap();
    let refused = Salvage::open(&pool).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::AlreadyOpen { .. })), "{refused}");
    drop(held);
    let refused = Salvage::open(&pool).unwrap();
    let refused = refused.store(&pool, Existing::Keep, &Options::new(), Orphans::Leave);
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::Mismatch { .. })), "{refused}");
}

/// Whatever is in the file: no panic, no hang, and nothing in a store that the file never held.
#[test]
fn nothing_is_invented_of_whatever_is_left() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let mut random = Random::new(11);
    for &engine in Engine::ALL {
        let (of_table, of_store) =
            (made(engine, &pool, make_table_on), made(engine, &pool, make_store_on));
        // Without its superblock, a table whose pairs are items is saved as a store of them.
        let pair = |key: u64| (key.to_le_bytes().to_vec(), value_of(key).to_le_bytes().to_vec());
        let (in_table, in_store) = ((0..PAIRS).map(pair).collect(), stored());
        for round in 0..12 {
            for (whole, held) in [(&of_table, &in_table), (&of_store, &in_store)] {
                let mut bytes = whole.clone();
                let words = bytes.len() as u64 / 8;
                for _ in 0..1 << (round % 12) {
                    let first = if round % 3 == 0 { 0 } else { SUPERBLOCKS as u64 / 8 };
                    let at = 8 * (first + random.below(words - first)) as usize;
                    let from = 8 * random.below(words) as usize;
                    match random.below(3) {
                        0 => bytes.copy_within(from..from + 8, at),
                        1 => bytes[at] ^= 1 << random.below(8),
                        _ => bytes[at..at + 8].copy_from_slice(&random.word().to_le_bytes()),
                    }
                }
                std::fs::write(&pool, &bytes).unwrap();
                let orphans = if round % 2 == 0 { Orphans::Copy } else { Orphans::Leave };
                if let Ok((_, pairs)) = store(&pool, &out, orphans) {
                    let mut others =
                        pairs.iter().filter(|&(key, value)| held.get(key) != Some(value));
                    assert_eq!(others.next(), None, "{engine}, round {round}");
                }
                let _ = table(&pool, &out);
            }
        }
    }
}
