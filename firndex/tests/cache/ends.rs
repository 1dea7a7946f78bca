//! Entries that end.

use crate::options;
use firndex::{Cache, Gone};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn an_entry_is_not_returned_once_its_time_is_over() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    let end = SystemTime::now() + Duration::from_millis(50);
    cache.put_until("a", "1", end).unwrap();
    loop {
        let found = cache.get("a").unwrap().is_some();
        // Asked for before the end, it may be there or not: its millisecond may have begun.
        if !found {
            break;
        }
        assert!(
            SystemTime::now() <= end + Duration::from_millis(1)
                || cache.get("a").unwrap().is_none()
        );
        std::thread::yield_now();
    }
    assert!(SystemTime::now() >= end - Duration::from_millis(1));
    cache.put_until("b", "1", SystemTime::UNIX_EPOCH).unwrap();
    assert!(cache.get("b").unwrap().is_none() && !cache.contains_key("b").unwrap());
}

#[test]
fn what_is_over_leaves_by_itself() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    (0..1000u64).for_each(|key| {
        cache.put_for(key.to_le_bytes(), [0; 100], Duration::from_millis(1)).unwrap();
    });
    cache.put_for("stays", "1", LONG).unwrap();
    while cache.len() > 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stats = cache.stats().unwrap();
    assert_eq!((stats.expired, stats.evictions, stats.entries), (1000, 0, 1));
    assert!(cache.get("stays").unwrap().is_some());
}

#[test]
fn what_an_opening_found_leaves_by_itself_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let gone = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&gone);
    let options = options().on_evict(move |_, _, cause| {
        assert_eq!(cause, Gone::Expired);
        told.fetch_add(1, Ordering::Relaxed);
    });
    let cache = options.create_cache(&path, 1 << 20).unwrap();
    for key in 0..1000u64 {
        cache.put_for(key.to_le_bytes(), [0; 100], Duration::from_millis(400)).unwrap();
    }
    cache.put_for("stays", "1", LONG).unwrap();
    cache.close().unwrap();
    let cache = options.open_cache(&path).unwrap();
    // Nothing is asked of the cache meanwhile: its figures would have it count what it has.
    while gone.load(Ordering::Relaxed) < 1000 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_touch_sets_the_end_anew() {
    let cache = Cache::in_memory(1 << 20).unwrap();
    cache.put_for("a", "1", LONG).unwrap();
    cache.put("b", "2").unwrap();
    assert_eq!(cache.time_left("b").unwrap(), Some(None));
    assert!(cache.time_left("a").unwrap().unwrap().unwrap() <= LONG);
    assert!(cache.touch("b", LONG).unwrap() && !cache.touch("c", LONG).unwrap());
    assert!(cache.time_left("b").unwrap().unwrap().is_some());
    assert!(cache.touch("a", Duration::ZERO).unwrap());
    assert!(cache.get("a").unwrap().is_none());
    assert_eq!(cache.time_left("a").unwrap(), None);
    // A value that is put anew has an end of its own.
    cache.put("b", "3").unwrap();
    assert_eq!(cache.time_left("b").unwrap(), Some(None));
}

#[test]
fn an_end_outlives_the_process_that_set_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    let cache = options().create_cache(&path, 1 << 20).unwrap();
    cache.put_for("soon", "1", Duration::from_millis(1)).unwrap();
    cache.put_for("late", "2", LONG).unwrap();
    cache.put("never", "3").unwrap();
    cache.close().unwrap();
    let until = SystemTime::now() + Duration::from_millis(5);
    while SystemTime::now() < until {
        std::thread::yield_now();
    }
    let cache = options().open_cache(&path).unwrap();
    assert!(cache.get("soon").unwrap().is_none());
    assert!(cache.time_left("late").unwrap().unwrap().unwrap() <= LONG);
    assert_eq!(cache.time_left("never").unwrap(), Some(None));
}
