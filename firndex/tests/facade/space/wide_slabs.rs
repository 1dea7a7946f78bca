//! Values that share slabs of several segments: they stay what they are while the heap is moved about, and whatever
//! becomes of the descriptors of these slabs.

use crate::superblocks::decode;
use crate::{effort, places};
use firndex::{Existing, Options, Orphans, Result, Salvage, Store};
use pmem::superblock::{Extent, HEAP, HEAP_WORDS};
use std::ops::Range;
use std::path::Path;
use workload::Random;

/// Slabs are wide only in heaps that have room for 64 of them: of 8 segments of 8 KiB here.
const STORED: u32 = 800;

/// Of 1.5 to 22 KiB. Those of up to 9 KiB fit slots of such slabs, the others take segments of their own.
fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 1_500 + key.wrapping_mul(2_654_435_761) as usize % 21_000]
}

fn make(path: &Path) {
    // The same pool each time.
    let store = Options::new().hash_seed(7).helpers(0).create_store(path).unwrap();
    for key in 0..STORED {
        store.put(key.to_le_bytes(), value(key)).unwrap();
    }
    // Every fifth one gives its slot back.
    for key in (0..STORED).step_by(5) {
        store.remove(key.to_le_bytes()).unwrap();
    }
    store.close().unwrap();
}

fn is_stored(key: u32) -> bool {
    !key.is_multiple_of(5)
}

/// Where the descriptors of a pool's heap are, table by table.
fn descriptors(bytes: &[u8]) -> Vec<Range<usize>> {
    let superblock = decode(bytes);
    let tables = superblock.extents.iter().filter(|extent| extent.owner == HEAP_WORDS);
    tables.map(|table| table.start.0 as usize..table.end() as usize).collect()
}

/// Keys whose answers are wrong, and the number of those that are errors.
fn wrong_answers(store: &Store) -> (Vec<u32>, u32) {
    let mut errors = 0;
    let is_wrong = |&key: &u32| match store.get(key.to_le_bytes()) {
        Ok(found) => found.as_deref() != is_stored(key).then(|| value(key)).as_deref(),
        Err(_) => {
            errors += 1;
            false
        }
    };
    let wrong = (0..STORED).filter(is_wrong).collect();
    (wrong, errors)
}

/// Opens a pool, and if `check` finds nothing, changes it in all ways. No value may become another one by that.
fn use_it(path: &Path) -> Result<bool> {
    let store: Store = Options::new().helpers(0).open_store(path)?;
    let is_sound = store.check()?.is_sound();
    let (wrong, errors) = wrong_answers(&store);
    if !is_sound {
        return Ok(false);
    }
    assert_eq!((wrong, errors), (vec![], 0), "check found nothing");
    for key in STORED..STORED + 200 {
        store.put(key.to_le_bytes(), value(key))?;
    }
    for key in STORED..STORED + 200 {
        assert!(store.get(key.to_le_bytes())?.as_deref() == Some(&value(key)[..]), "new key {key}");
        store.remove(key.to_le_bytes())?;
    }
    store.compact()?;
    assert_eq!(wrong_answers(&store), (vec![], 0), "after changes");
    assert!(store.check()?.is_sound(), "after changes");
    store.close()?;
    Ok(true)
}

/// Saves everything from a pool, and returns which of the keys it had are missing or wrong.
fn lost_by_salvage(pool: &Path, orphans: Orphans) -> Vec<u32> {
    let out = pool.with_extension("out");
    let salvage = Salvage::open(pool).unwrap();
    salvage.store(&out, Existing::Replace, &Options::new(), orphans).unwrap();
    let store = Store::open(&out).unwrap();
    let is_lost =
        |&key: &u32| store.get(key.to_le_bytes()).unwrap().as_deref() != Some(&value(key)[..]);
    (0..STORED).filter(|&key| is_stored(key)).filter(is_lost).collect()
}

#[test]
fn damaged_descriptors_lose_no_value() {
    let directory = places::in_ram();
    let pool = directory.path().join("pool");
    make(&pool);
    let bytes = std::fs::read(&pool).unwrap();
    let words: Vec<usize> = descriptors(&bytes).into_iter().flatten().step_by(8).collect();
    let first_of_slabs: Vec<usize> = words.iter().copied().filter(|&at| bytes[at] == 1).collect();
    assert!(first_of_slabs.len() > 20, "{} slabs", first_of_slabs.len());
    let is_of_index = |extent: &&Extent| ![HEAP, HEAP_WORDS].contains(&extent.owner);
    let index: Vec<Extent> = decode(&bytes).extents.iter().filter(is_of_index).copied().collect();
    let mut random = Random::new(1);
    let (mut sound, mut unsound, mut refused) = (0, 0, 0);
    for _ in 0..effort::of(60, 20) {
        let mut damaged = bytes.clone();
        let among = if random.below(4) == 0 { &words } else { &first_of_slabs };
        let at = among[random.below(among.len() as u64) as usize];
        // Kind, class, number of segments, incarnation.
        let byte = [0, 1, 1, 1, 2, 5][random.below(6) as usize];
        damaged[at + byte] = match random.below(3) {
            0 => random.below(4) as u8,
            1 => random.below(256) as u8,
            _ => damaged[at + byte] ^ 1 << random.below(8),
        };
        std::fs::write(&pool, &damaged).unwrap();
        match use_it(&pool) {
            Ok(true) => sound += 1,
            Ok(false) => unsound += 1,
            Err(_) => refused += 1,
        }
        std::fs::write(&pool, &damaged).unwrap();
        let place = format!("byte {byte} of {at:#x} is {}", damaged[at + byte]);
        assert_eq!(lost_by_salvage(&pool, Orphans::Leave), [], "{place}");
        // Without an index, items are found by what the descriptors say, or in spite of it.
        for extent in &index {
            damaged[extent.start.0 as usize..][..extent.bytes as usize].fill(0);
        }
        std::fs::write(&pool, &damaged).unwrap();
        assert_eq!(lost_by_salvage(&pool, Orphans::Copy), [], "{place}, and no index");
    }
    println!("{sound} sound, {unsound} unsound, {refused} refused");
    assert!(sound > 0 && unsound > 0 && refused > 0);
}
