//! Single bits and whole words that are other than they were, anywhere in a closed cache.

use crate::{options, value_of};
use firndex::{Cache, Result};
use std::path::Path;
use std::time::Duration;
use workload::{Random, effort};

const CAPACITY: u64 = 256 << 10;
const KEYS: u64 = 1600;
const LONG: Duration = Duration::from_secs(36_000);

/// A few are larger than a segment.
fn bytes_of(key: u64) -> usize {
    if key % 400 == 7 { 12_000 } else { key as usize % 90 }
}

fn fill(cache: &Cache, keys: std::ops::Range<u64>) -> Result<()> {
    for key in keys {
        let value = value_of(key, bytes_of(key));
        match key % 3 {
            0 => cache.put_for(key.to_le_bytes(), value, LONG)?,
            _ => cache.put(key.to_le_bytes(), value)?,
        }
    }
    Ok(())
}

/// What each key has.
fn answers(cache: &Cache) -> Result<Vec<Option<Vec<u8>>>> {
    let keys = 0..2 * KEYS;
    keys.map(|key| Ok(cache.get(key.to_le_bytes())?.map(|found| found.to_vec()))).collect()
}

/// All that can be asked of a cache. Returns what keys have, and whether it is found to be sound.
fn use_all(path: &Path) -> Result<(Vec<Option<Vec<u8>>>, bool)> {
    let cache = options().open_or_create_cache(path, CAPACITY)?;
    let found = answers(&cache)?;
    let is_sound = cache.check()?.is_sound();
    cache.for_each(|_, _| true)?;
    cache.stats()?;
    for key in (0..KEYS).step_by(10) {
        cache.remove(key.to_le_bytes())?;
        cache.touch((key + 1).to_le_bytes(), LONG)?;
    }
    fill(&cache, 3 * KEYS..4 * KEYS)?;
    cache.check()?;
    cache.clear()?;
    fill(&cache, 0..KEYS / 4)?;
    cache.close()?;
    options().open_or_create_cache(path, 2 * CAPACITY)?.close()?;
    options().open_or_create_cache(path, CAPACITY)?.close()?;
    Ok((found, is_sound))
}

#[test]
fn a_damaged_cache_is_refused_or_used_and_check_finds_other_values() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, path) = (directory.path().join("whole"), directory.path().join("damaged"));
    let cache = options().create_cache(&whole, CAPACITY).unwrap();
    fill(&cache, 0..KEYS / 2).unwrap();
    cache.clear().unwrap();
    fill(&cache, 0..KEYS).unwrap();
    let before = answers(&cache).unwrap();
    cache.close().unwrap();
    let bytes = std::fs::read(&whole).unwrap();
    let (mut refused, mut found, mut harmless) = (0, 0, 0);
    let mut random = Random::new(77);
    for round in 0..effort::of(2000, 150) {
        let mut damaged = bytes.clone();
        // Half of them where segments begin, which have what the rest is read by.
        let at = match round % 2 {
            0 => random.below(bytes.len() as u64) as usize,
            _ => (random.below(bytes.len() as u64 / 4096) * 4096 + random.below(32)) as usize,
        };
        match round % 3 {
            0 => damaged[at] ^= 1 << random.below(8),
            1 => damaged[at] = random.below(256) as u8,
            _ => {
                let word = at / 8 * 8;
                damaged[word..word + 8].copy_from_slice(&random.word().to_le_bytes());
            }
        }
        std::fs::write(&path, &damaged).unwrap();
        let Ok((after, is_sound)) = use_all(&path) else {
            refused += 1;
            continue;
        };
        let is_other = |(one, other): (&Option<Vec<u8>>, &Option<Vec<u8>>)| {
            one.is_some() && other.is_some() && one != other
        };
        let has_others = before.iter().zip(&after).any(is_other);
        assert!(!(has_others && is_sound), "round {round}, at {at:#x}");
        if is_sound { harmless += 1 } else { found += 1 }
    }
    println!("{refused} refused, {found} found, {harmless} harmless");
    assert!(refused > 0 && found > 0 && harmless > 0, "{refused}, {found}, {harmless}");
}
