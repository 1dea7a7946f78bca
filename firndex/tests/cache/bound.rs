//! What a cache takes, and what it refuses.

use crate::{belongs, options, value_of};
use firndex::{Cache, Error, Gone, Kind, OpenError, Options, Store};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use workload::Random;

const CAPACITY: u64 = 8 << 20;

#[test]
fn a_file_has_never_more_bytes_than_its_capacity_whatever_is_put() {
    let directory = tempfile::tempdir().unwrap();
    for (capacity, bytes_max) in [(256 << 10, 60), (CAPACITY, 300), (CAPACITY, 1_500_000)] {
        let path = directory.path().join(bytes_max.to_string());
        let cache = options().create_cache(&path, capacity).unwrap();
        let mut random = Random::new(bytes_max);
        for step in 0..3000u64 {
            let key = random.below(5000);
            match cache.get(key.to_le_bytes()).unwrap() {
                Some(found) => belongs(key, &found),
                None => {
                    // Sizes of all magnitudes.
                    let bytes = bytes_max >> random.below(12);
                    cache.put(key.to_le_bytes(), value_of(key, bytes as usize)).unwrap();
                }
            }
            if step % 100 == 0 {
                let found = std::fs::metadata(&path).unwrap().len();
                assert!(found <= capacity + capacity / 50, "{found} of {capacity}");
            }
        }
        let report = cache.check().unwrap();
        assert!(report.is_sound() && report.pairs > 0, "{:#?}", report.findings);
        assert_eq!(report.pairs, cache.len());
        cache.close().unwrap();
        let found = std::fs::metadata(&path).unwrap().len();
        assert!(found <= capacity + capacity / 50, "{found} of {capacity}");
    }
}

#[test]
fn an_entry_of_a_quarter_fits_and_a_larger_one_is_refused() {
    let cache = Cache::in_memory(CAPACITY).unwrap();
    let quarter = CAPACITY as usize / 4;
    (0..20_000u64).for_each(|key| cache.put(key.to_le_bytes(), [1; 300]).unwrap());
    cache.put("large", vec![7; quarter - (64 << 10)]).unwrap();
    assert_eq!(cache.get("large").unwrap().unwrap().len(), quarter - (64 << 10));
    let refused = cache.put("too large", vec![7; quarter + 1]).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused:?}");
    assert!(refused.to_string().contains("more than a quarter of the cache"), "{refused}");
    let refused = cache.put([0; (64 << 10) + 1], "").unwrap_err();
    assert!(matches!(refused, Error::Limit(_)), "{refused:?}");
    assert!(cache.get("too large").unwrap().is_none());
    let stats = cache.stats().unwrap();
    assert_eq!(stats.refused, 2);
    assert!(stats.evictions > 0 && stats.pool_bytes <= stats.capacity_bytes);
}

#[test]
fn a_capacity_may_change_from_one_opening_to_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let put_all = |cache: &Cache| {
        (0..40_000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 300)).unwrap());
    };
    let blocks_bytes = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let cache = options().create_cache(&path, CAPACITY).unwrap();
    put_all(&cache);
    let before = cache.len();
    cache.close().unwrap();

    let cache = options().open_or_create_cache(&path, CAPACITY / 4).unwrap();
    assert!(cache.len() > before / 8 && cache.len() < before / 3, "{} of {before}", cache.len());
    cache
        .for_each(|key, found| {
            belongs(u64::from_le_bytes(key.try_into().unwrap()), found);
            true
        })
        .unwrap();
    put_all(&cache);
    assert!(cache.check().unwrap().is_sound());
    let found = blocks_bytes();
    assert!(found <= CAPACITY / 4 + CAPACITY / 50, "{found}");
    cache.close().unwrap();

    // It is what it was set to last.
    let cache = options().open_cache(&path).unwrap();
    assert_eq!(cache.stats().unwrap().capacity_bytes, CAPACITY / 4);
    cache.close().unwrap();
    let cache = options().open_or_create_cache(&path, 2 * CAPACITY).unwrap();
    put_all(&cache);
    assert!(cache.len() > before, "{} and {before}", cache.len());
    assert!(cache.check().unwrap().is_sound());
}

/// As a process leaves it that is killed when the smaller capacity counts, and nothing was given back yet.
#[test]
fn space_that_was_not_given_back_is_given_back_at_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let cache = options().create_cache(&path, CAPACITY).unwrap();
    (0..40_000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 300)).unwrap());
    cache.close().unwrap();
    options().open_or_create_cache(&path, CAPACITY / 4).unwrap().close().unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let beyond = CAPACITY / 2..file.metadata().unwrap().len();
    file.write_all_at(&vec![0; (beyond.end - beyond.start) as usize], beyond.start).unwrap();
    drop(file);
    let space = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(space() > CAPACITY / 2, "{}", space());

    let cache = options().open_or_create_cache(&path, CAPACITY / 4).unwrap();
    assert!(space() <= CAPACITY / 4 + CAPACITY / 50, "{}", space());
    assert!(!cache.is_empty() && cache.check().unwrap().is_sound());
}

/// As a process leaves it that is killed when it had prepared to grow.
#[test]
fn space_that_was_prepared_is_given_back_by_a_smaller_cache() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let cache = options().create_cache(&path, CAPACITY).unwrap();
    (0..1000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 900)).unwrap());
    cache.close().unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let end = file.metadata().unwrap().len();
    file.write_all_at(&vec![0; 3 << 20], end).unwrap();
    drop(file);
    let cache = options().open_or_create_cache(&path, CAPACITY / 4).unwrap();
    let space = std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(space <= CAPACITY / 4 + CAPACITY / 50, "{space}");
    assert_eq!(cache.len(), 1000);
    (0..9000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 900)).unwrap());
    assert!(cache.check().unwrap().is_sound());
}

#[test]
fn a_cache_that_is_given_very_little_takes_a_share_of_what_it_was_made_with() {
    let directory = tempfile::tempdir().unwrap();
    for capacity in [16 << 20, (32 << 20) - 1, 32 << 20, 300 << 20] {
        let path = directory.path().join(capacity.to_string());
        options().create_cache(&path, capacity).unwrap().close().unwrap();
        let cache = options().open_or_create_cache(&path, 256 << 10).unwrap();
        (0..capacity / 5000).for_each(|key| {
            cache.put(key.to_le_bytes(), value_of(key, 900)).unwrap();
        });
        let space = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(space <= capacity / 25, "{space} of {capacity}");
    }
}

#[test]
fn a_cache_that_is_opened_without_a_capacity_stays_within_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    options().create_cache(&path, CAPACITY).unwrap().close().unwrap();
    let cache = options().open_cache(&path).unwrap();
    (0..40_000u64).for_each(|key| {
        cache.put(key.to_le_bytes(), value_of(key, 300)).unwrap();
        if key % 50 == 0 {
            let found = std::fs::metadata(&path).unwrap().len();
            assert!(found <= CAPACITY + CAPACITY / 50, "{found}");
        }
    });
    assert!(cache.stats().unwrap().evictions > 0);
}

#[test]
fn a_useless_cache_is_replaced_if_that_is_asked_for_and_its_capacity_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let cache = options().create_cache(&path, CAPACITY).unwrap();
    (0..10_000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 300)).unwrap());
    cache.close().unwrap();
    let damaged = std::fs::File::options().write(true).open(&path).unwrap();
    damaged.set_len(100_000).unwrap();
    drop(damaged);
    let resetting = options().reset_if_refused(true);
    for refused in [options().open_or_create_cache(&path, CAPACITY), resetting.open_cache(&path)] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Open(OpenError::Truncated { .. })), "{refused:?}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_000);
    let cache = resetting.open_or_create_cache(&path, CAPACITY).unwrap();
    assert!(cache.was_reset().is_some());
    assert!(cache.is_empty());
    cache.put("a", "1").unwrap();
    cache.close().unwrap();
    let cache = resetting.open_or_create_cache(&path, CAPACITY).unwrap();
    assert!(cache.was_reset().is_none());
    assert_eq!(cache.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn who_asked_is_told_of_every_entry_that_makes_room() {
    let (count, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let told = (Arc::clone(&count), Arc::clone(&bytes));
    let cache = Options::new()
        .on_evict(move |key, value, gone| {
            assert_eq!(gone, Gone::Evicted);
            belongs(u64::from_le_bytes(key.try_into().unwrap()), value);
            told.0.fetch_add(1, Ordering::Relaxed);
            told.1.fetch_add(value.len() as u64, Ordering::Relaxed);
        })
        .in_memory_cache(1 << 20)
        .unwrap();
    (0..20_000u64).for_each(|key| cache.put(key.to_le_bytes(), value_of(key, 100)).unwrap());
    let stats = cache.stats().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), stats.evictions);
    assert_eq!(stats.entries + stats.evictions, 20_000);
    assert_eq!(bytes.load(Ordering::Relaxed), stats.evictions * 108);
}

#[test]
fn a_held_record_keeps_its_bytes_and_puts_say_what_is_in_the_way() {
    let cache = Cache::in_memory(256 << 10).unwrap();
    cache.put("held", "as it was").unwrap();
    let held = cache.get("held").unwrap().unwrap();
    let refused = (0..100_000u64).find_map(|key| cache.put(key.to_le_bytes(), [1; 100]).err());
    let refused = refused.unwrap();
    assert!(
        matches!(refused, Error::CacheHeld) && refused.to_string().contains("`Record`s"),
        "{refused}"
    );
    assert_eq!(&held[..], b"as it was");
    drop(held);
    cache.put("again", "1").unwrap();
}

#[test]
fn a_cache_is_told_from_stores_and_too_small_a_one_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let [cache, store] = ["cache", "store"].map(|name| directory.path().join(name));
    options().create_cache(&cache, 1 << 20).unwrap().close().unwrap();
    Store::create(&store).unwrap().close().unwrap();
    assert_eq!(firndex::inspect(&cache).unwrap().kind, Kind::Cache);
    let refused = Store::open(&cache).unwrap_err();
    assert!(refused.to_string().contains("open it as a `Cache`"), "{refused}");
    let refused = Cache::open(&store).unwrap_err();
    assert!(refused.to_string().contains("open it as a `Store`"), "{refused}");
    let refused = Cache::in_memory(1000).unwrap_err();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused:?}");
    let missing = Cache::open(directory.path().join("none")).unwrap_err();
    assert!(matches!(missing, Error::Open(OpenError::Missing { .. })), "{missing:?}");
    let again = options().create_cache(&cache, 1 << 20).unwrap_err();
    assert!(matches!(again, Error::Open(OpenError::Exists { .. })), "{again:?}");
    let first = options().open_cache(&cache).unwrap();
    let busy = options().open_cache(&cache).unwrap_err();
    assert!(matches!(busy, Error::Open(OpenError::AlreadyOpen { .. })), "{busy:?}");
    first.close().unwrap();
}

#[test]
fn threads_find_what_was_put_for_their_keys() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..30_000 {
                    let key = random.below(8000);
                    match cache.get(key.to_le_bytes()).unwrap() {
                        Some(found) => belongs(key, &found),
                        None if key.is_multiple_of(97) => {
                            cache.put(key.to_le_bytes(), value_of(key, 20_000)).unwrap();
                        }
                        None => cache.put(key.to_le_bytes(), value_of(key, 100)).unwrap(),
                    }
                    if key.is_multiple_of(50) {
                        cache.remove(key.to_le_bytes()).unwrap();
                    }
                }
            });
        }
    });
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}
