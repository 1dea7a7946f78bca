//! Caches that several processes use.

use crate::owner::{CACHE_BYTES, Kind, Process, patient};
use firndex::{Cache, Durability, Engine, Error, Role};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};
use workload::Random;

fn owner(path: &Path, durability: Durability) -> Process {
    Process::owner(Kind::Cache, path, Engine::ALL[0], durability)
}

#[test]
fn a_cache_is_the_same_to_a_guest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = owner(&path, Durability::Process);
    let cache = patient().open_cache(&path).unwrap();
    assert_eq!(cache.role(), Role::Guest);
    let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut rng = Random::new(3);
    for _ in 0..2000 {
        let key = rng.below(100).to_string().into_bytes();
        let value = vec![rng.word() as u8; rng.below(300) as usize];
        match rng.below(5) {
            0 => assert_eq!(cache.remove(&key).unwrap(), model.remove(&key).is_some()),
            1 => {
                let found = cache.get(&key).unwrap().map(|found| found.to_vec());
                assert_eq!(found, model.get(&key).cloned());
            }
            2 => assert_eq!(cache.contains_key(&key).unwrap(), model.contains_key(&key)),
            _ => {
                cache.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
    }
    // More than goes through a lane at once.
    let pairs: Vec<(String, Vec<u8>)> =
        (0..3000).map(|number: u64| (number.to_string(), vec![number as u8; 200])).collect();
    cache.put_many(&pairs).unwrap();
    model.extend(pairs.iter().map(|(key, value)| (key.clone().into_bytes(), value.clone())));
    let keys: Vec<String> = (0..3500).map(|number: u64| number.to_string()).collect();
    for (key, found) in keys.iter().zip(cache.get_many(&keys).unwrap()) {
        assert_eq!(found.map(|found| found.to_vec()), model.get(key.as_bytes()).cloned());
    }
    assert_eq!(cache.len(), model.len() as u64);
    let found: HashMap<Vec<u8>, Vec<u8>> = cache.iter().collect::<Result<_, _>>().unwrap();
    assert!(found == model);
    let removed: Vec<&String> = keys.iter().step_by(2).collect();
    for (key, was_there) in removed.iter().zip(cache.remove_many(&removed).unwrap()) {
        assert_eq!(was_there, model.remove(key.as_bytes()).is_some());
    }
    let stats = cache.stats().unwrap();
    assert_eq!((stats.entries, stats.capacity_bytes), (model.len() as u64, CACHE_BYTES));
    assert!(stats.hits >= 3000 && stats.insertions >= 3000, "{stats:?}");
    let of_pool = firndex::Pool::stats(&cache).unwrap();
    assert_eq!((of_pool.role, of_pool.guests), (Role::Guest, 1));
    cache.close().unwrap();
    owner.close();
    let cache = Cache::open(&path).unwrap();
    assert_eq!(cache.role(), Role::Owner);
    let found: HashMap<Vec<u8>, Vec<u8>> = cache.iter().collect::<Result<_, _>>().unwrap();
    assert!(found == model && cache.check().unwrap().is_sound());
}

#[test]
fn ends_are_the_owners_and_refusals_come_through() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let _owner = owner(&path, Durability::Process);
    let cache = patient().open_cache(&path).unwrap();
    let hour = Duration::from_secs(3600);
    cache.put_for("for an hour", "1", hour).unwrap();
    cache.put_until("until then", "2", SystemTime::now() + hour).unwrap();
    cache.put_until("past", "3", SystemTime::UNIX_EPOCH).unwrap();
    cache.put("for ever", "4").unwrap();
    let left = |key: &str| cache.time_left(key).unwrap();
    for key in ["for an hour", "until then"] {
        let left = left(key).unwrap().unwrap();
        assert!(left <= hour && left > hour / 2, "{key}: {left:?}");
    }
    assert_eq!((left("past"), left("for ever")), (None, Some(None)));
    assert!(cache.get("past").unwrap().is_none());
    assert!(cache.touch("for ever", hour).unwrap() && !cache.touch("past", hour).unwrap());
    assert!(left("for ever").unwrap().is_some());
    assert!(cache.touch("for an hour", Duration::ZERO).unwrap());
    assert!(cache.get("for an hour").unwrap().is_none());

    let large = cache.put("large", vec![0; CACHE_BYTES as usize / 2]).unwrap_err();
    assert!(matches!(large, Error::TooLarge { .. }), "{large:?}");
    let batch = cache.put_many(&[("a", vec![0; 1]), ("b", vec![0; 3 << 20])]).unwrap_err();
    assert!(matches!(batch.error(), Error::TooLarge { .. }), "{batch:?}");
    assert_eq!((batch.done(), batch.failed()), (1, Some(1)));
    let long = cache.put(vec![0; 1 << 17], "").unwrap_err();
    assert!(matches!(long, Error::Limit(_)), "{long:?}");

    assert!(cache.insert_for("once", "1", hour).unwrap() && !cache.insert("once", "2").unwrap());
    assert!(!cache.replace_if("once", "2", "3").unwrap());
    assert!(cache.replace_if("once", "1", "3").unwrap() && left("once").unwrap().is_some());
    assert_eq!(cache.get("once").unwrap().as_deref(), Some(&b"3"[..]));
    assert!(!cache.replace_if("absent", "", "1").unwrap());

    let computed = cache.get_or_put_with("made", || Ok::<_, ()>(b"once".to_vec()));
    assert_eq!(&computed.unwrap().unwrap()[..], b"once");
    assert_eq!(cache.get("made").unwrap().as_deref(), Some(&b"once"[..]));
    cache.clear().unwrap();
    assert_eq!((cache.len(), cache.iter().count()), (0, 0));
}

/// The guest asks for another capacity, and durability is the owner's.
#[test]
fn a_guest_that_comes_to_own_a_cache_goes_on_with_its_capacity() {
    for durability in [Durability::Process, Durability::Commit] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let owner = owner(&path, durability);
        let cache = patient().guests(true).open_or_create_cache(&path, CACHE_BYTES / 4).unwrap();
        assert_eq!(cache.role(), Role::Guest);
        let pairs = |of: u64| (0..2000u64).map(move |key| (key.to_le_bytes(), [of as u8; 500]));
        cache.put_many(&pairs(1).collect::<Vec<_>>()).unwrap();
        let entries = cache.len();
        assert!(entries > 1000, "{entries}");
        owner.kill();
        // Changes that the owner had not begun are asked of this process.
        cache.put("after it", "done").unwrap();
        assert_eq!(cache.role(), Role::Owner);
        assert_eq!(cache.len(), entries + 1);
        assert_eq!(cache.stats().unwrap().capacity_bytes, CACHE_BYTES);
        // What is over is removed by it from now on.
        cache.put_for("soon over", "1", Duration::from_millis(1)).unwrap();
        while cache.stats().unwrap().expired == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for (key, value) in pairs(1) {
            let found = cache.get(key).unwrap();
            assert!(found.is_none_or(|found| found[..] == value));
        }
        assert!(cache.check().unwrap().is_sound());
        cache.close().unwrap();
    }
}
