//! What is there after a restart.

use crate::{belongs, options, value_of};
use firndex::{Cache, Durability, Options};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use workload::Random;

const CAPACITY: u64 = 2 << 20;
/// Tells a process of this executable which cache it is to fill.
const FILL: &str = "FIRNDEX_TEST_FILL_CACHE";

fn fill(cache: &Cache, seed: u64, puts: u64, mut after: impl FnMut(u64)) {
    let mut random = Random::new(seed);
    for _ in 0..puts {
        let key = random.below(30_000);
        match random.below(20) {
            0 => drop(cache.remove(key.to_le_bytes()).unwrap()),
            1 => cache.put(key.to_le_bytes(), value_of(key, 50_000)).unwrap(),
            _ => cache.put(key.to_le_bytes(), value_of(key, random.below(200) as usize)).unwrap(),
        }
        after(key);
    }
}

/// All that is found belongs to its key.
fn verify(cache: &Cache) -> u64 {
    let mut found = 0;
    for key in 0..30_000u64 {
        if let Some(value) = cache.get(key.to_le_bytes()).unwrap() {
            belongs(key, &value);
            found += 1;
        }
    }
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!(report.pairs, cache.len());
    found
}

#[test]
fn all_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    for durability in [Durability::Process, Durability::Periodic] {
        let path = directory.path().join(durability.name());
        let options = Options::new().durability(durability);
        let cache = options.create_cache(&path, CAPACITY).unwrap();
        fill(&cache, 1, 30_000, |_| ());
        let found = verify(&cache);
        cache.close().unwrap();
        let cache = options.open_cache(&path).unwrap();
        assert_eq!((verify(&cache), cache.len()), (found, found));
        fill(&cache, 2, 10_000, |_| ());
        verify(&cache);
        cache.clear().unwrap();
        assert_eq!((cache.len(), verify(&cache)), (0, 0));
    }
}

#[test]
fn look_ups_of_all_processes_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    for opening in 1..=3u64 {
        let cache = options().open_or_create_cache(&path, CAPACITY).unwrap();
        cache.put("a", "1").unwrap();
        assert!(cache.get("a").unwrap().is_some() && cache.get("b").unwrap().is_none());
        assert!(cache.get("a").unwrap().is_some());
        let stats = cache.stats().unwrap();
        assert_eq!((stats.hits, stats.misses), (2, 1));
        assert_eq!((stats.hits_ever, stats.misses_ever), (2 * opening, opening));
        cache.close().unwrap();
    }
}

/// Entered by the processes that the next test kills.
#[test]
fn fill_until_killed() {
    let Some(path) = std::env::var_os(FILL) else { return };
    let cache = options().open_or_create_cache(Path::new(&path), CAPACITY).unwrap();
    cache.put("before", "1").unwrap();
    cache.remove("gone").unwrap();
    println!("filling");
    fill(&cache, u64::from(std::process::id()), u64::MAX, |_| ());
}

#[test]
fn whatever_a_killed_process_has_left_was_put() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache");
    for kill in 0..6 {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "survive::fill_until_killed", "--nocapture"])
            .env(FILL, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("filling")));
        // How far it comes is left to chance; whatever it is, what follows holds.
        std::thread::sleep(std::time::Duration::from_millis(20 * kill));
        process.kill().unwrap();
        process.wait().unwrap();
        let cache = options().open_cache(&path).unwrap();
        verify(&cache);
        assert!(cache.get("gone").unwrap().is_none());
        cache.put("gone", "2").unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes <= CAPACITY + CAPACITY / 50);
        cache.close().unwrap();
    }
}
