//! Look-ups of guests by themselves, in what the owner shows.

use crate::owner::{CHURNED_KEYS, Helper, Kind, Process, adder, churned, churner, patient};
use firndex::{Durability, Engine, Options, Role, Store, Table};
use std::time::Duration;

const ENGINE: Engine = Engine::ALL[0];

/// Nobody answers, so whoever asked would fail.
#[test]
fn a_stopped_owner_does_not_stop_look_ups() {
    let directory = tempfile::tempdir().unwrap();
    let [tables, stores] = ["table", "store"].map(|name| directory.path().join(name));
    let process = Durability::Process;
    let owners = [
        Process::owner(Kind::Words, &tables, ENGINE, process),
        Process::owner(Kind::Store, &stores, ENGINE, process),
    ];
    let hasty = || Options::new().patience(Duration::from_millis(100));
    let table: Table<u64, u64> = hasty().open_table(&tables).unwrap();
    let store = hasty().open_store(&stores).unwrap();
    for key in 1..500u64 {
        table.put(key, key * key).unwrap();
        store.put(key.to_string(), key.to_string().repeat(key as usize)).unwrap();
    }
    owners.iter().for_each(|owner| owner.signal(libc::SIGSTOP));
    for _ in 0..3 {
        for key in 1..500u64 {
            assert_eq!(table.get(key).unwrap(), Some(key * key));
            assert_eq!(table.get(key + 1000).unwrap(), None);
            let value = store.get(key.to_string()).unwrap();
            assert_eq!(value.as_deref(), Some(key.to_string().repeat(key as usize).as_bytes()));
            assert!(store.get((key + 1000).to_string()).unwrap().is_none());
        }
        let keys: Vec<u64> = (400..600).collect();
        let expected = keys.iter().map(|&key| (key < 500).then_some(key * key));
        assert!(table.get_many(&keys).unwrap().into_iter().eq(expected));
        let keys: Vec<String> = keys.iter().map(u64::to_string).collect();
        for (key, found) in (400..600u64).zip(store.get_many(&keys).unwrap()) {
            assert_eq!(found.is_some(), key < 500, "{key}");
        }
    }
    assert!(table.put(1, 1).is_err() && store.remove("1").is_err());
    owners.iter().for_each(|owner| owner.signal(libc::SIGCONT));
    while table.put(1, 1).is_err() {}
    assert_eq!(table.get(1).unwrap(), Some(1));
}

/// The next owner changes the file that the former one showed.
#[test]
fn what_a_former_owner_showed_is_not_believed() {
    for is_killed in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Store, &path, ENGINE, Durability::Process);
        let store = patient().never_own(true).open_store(&path).unwrap();
        for turn in 0..5 {
            for key in 0..200 {
                store.put(key.to_string(), turn.to_string()).unwrap();
            }
        }
        assert_eq!(store.get("7").unwrap().as_deref(), Some(&b"4"[..]));
        if is_killed {
            owner.kill()
        } else {
            owner.close()
        }
        let heir = patient().guests(true).open_store(&path).unwrap();
        assert_eq!(heir.role(), Role::Owner);
        for key in 0..200 {
            // No call of this guest has told it yet.
            heir.put(key.to_string(), "5").unwrap();
            assert_eq!(store.get(key.to_string()).unwrap().as_deref(), Some(&b"5"[..]));
            heir.remove(key.to_string()).unwrap();
            assert!(store.get(key.to_string()).unwrap().is_none());
        }
        heir.close().unwrap();
    }
}

#[test]
fn counters_do_not_run_backwards_for_who_only_looks() {
    const COUNTERS: u64 = 50;
    const TIMES: u64 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Words, &path, ENGINE, Durability::Process);
    let table: Table<u64, u64> = patient().never_own(true).open_table(&path).unwrap();
    let mut adders = [adder(&path, COUNTERS, TIMES), adder(&path, COUNTERS, TIMES)];
    let counters: Vec<u64> = (0..COUNTERS).collect();
    let mut seen = vec![0; counters.len()];
    let mut is_over = false;
    while !is_over {
        // The last look comes after all of them have ended.
        is_over = adders.iter_mut().all(Helper::has_ended);
        let many = table.get_many(&counters).unwrap();
        for (&counter, (seen, many)) in counters.iter().zip(seen.iter_mut().zip(many)) {
            let many = many.unwrap_or(0);
            let one = table.get(counter).unwrap().unwrap_or(0);
            assert!(*seen <= many && many <= one, "{counter}: {seen}, {many}, {one}");
            *seen = one;
        }
    }
    assert!(adders.iter_mut().all(Helper::has_succeeded));
    let all = crate::owner::ADDER_THREADS * 2 * TIMES;
    assert_eq!(seen.iter().sum::<u64>(), all);
    drop(owner);
}

/// Space is used again as soon as may be, by items of other keys, while this guest copies what was there.
#[test]
fn no_value_is_seen_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Store, &path, ENGINE, Durability::Process);
    let store: Store = patient().never_own(true).open_store(&path).unwrap();
    let mut churners = [churner(&path), churner(&path)];
    let keys: Vec<String> = (0..CHURNED_KEYS).map(|key| key.to_string()).collect();
    let mut is_over = false;
    while !is_over {
        is_over = churners.iter_mut().all(Helper::has_ended);
        for (key, found) in keys.iter().zip(store.get_many(&keys).unwrap()) {
            for found in [found, store.get(key).unwrap()].into_iter().flatten() {
                assert_eq!(&*found, churned(key, found[0]), "{key}");
            }
        }
    }
    assert!(churners.iter_mut().all(Helper::has_succeeded));
    drop(owner);
}
