//! How processes end, and what the others make of it.

use crate::owner::{Kind, Process, patient};
use firndex::{Durability, Engine, Error, Options, Role, Store, Table};
use std::path::Path;
use std::time::Duration;

const IN_MEMORY: &str = "/dev/shm";

#[test]
fn the_owner_is_killed_and_a_guest_takes_its_place() {
    for &engine in Engine::ALL {
        let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Words, &path, engine, Durability::Process);
        let table: Table<u64, u64> = patient().open_table(&path).unwrap();
        for key in 0..2000 {
            table.put(key, key * key).unwrap();
        }
        owner.kill();
        // Whatever comes first.
        match engine.name().len() % 3 {
            0 => assert_eq!(table.get(3).unwrap(), Some(9)),
            1 => assert_eq!(table.put(3, 9).unwrap(), Some(9)),
            _ => assert_eq!(table.len(), 2000),
        }
        assert_eq!(table.role(), Role::Owner);
        for key in 0..2000 {
            assert_eq!(table.get(key).unwrap(), Some(key * key));
        }
        assert_eq!(table.remove(5).unwrap(), Some(25));
        assert_eq!(table.stats().unwrap().incarnation, 2);
        assert_eq!(table.iter().count(), 1999);
        // It lets others in.
        let (other, role) = Process::start(Kind::Words, &path, engine, Durability::Process);
        assert_eq!(role, "guest");
        other.close();
        table.close().unwrap();
        let table = Table::<u64, u64>::open(&path).unwrap();
        assert_eq!(table.len(), 1999);
        assert!(table.check().unwrap().is_sound());
    }
}

#[test]
fn of_several_guests_one_becomes_the_owner_and_the_others_find_it() {
    let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
    let path = directory.path().join("pool");
    let engine = Engine::ALL[0];
    let mut owner = Process::owner(Kind::Store, &path, engine, Durability::Process);
    let stores: Vec<Store> =
        (0..4).map(|_| patient().never_own(true).open_store(&path).unwrap()).collect();
    for turn in 0..5u64 {
        let (next, role) = Process::start(Kind::Store, &path, engine, Durability::Process);
        assert_eq!(role, "guest");
        owner.kill();
        // It has not noticed yet: whoever may own the pool does so with its next call.
        let heir = patient().guests(true).open_store(&path).unwrap();
        assert_eq!(heir.role(), Role::Owner, "turn {turn}");
        std::thread::scope(|scope| {
            for (number, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    let key = format!("{turn} {number}");
                    assert!(store.put(&key, key.repeat(100)).unwrap().is_none());
                    assert_eq!(store.role(), Role::Guest);
                });
            }
        });
        assert_eq!(heir.len(), (turn + 1) * stores.len() as u64);
        heir.close().unwrap();
        next.close();
        owner = Process::owner(Kind::Store, &path, engine, Durability::Process);
        for store in &stores {
            for (old, number) in (0..=turn).flat_map(|old| (0..4).map(move |n| (old, n))) {
                let key = format!("{old} {number}");
                assert_eq!(store.get(&key).unwrap().as_deref(), Some(key.repeat(100).as_bytes()));
            }
        }
    }
}

/// What a guest has mapped of owners that have ended would be tens of gigabytes of addresses for each.
#[test]
fn a_guest_gives_back_the_addresses_of_owners_that_have_ended() {
    let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
    // In a process of its own, where nobody else maps anything.
    let status = crate::owner::role("outlive", &directory.path().join("pool")).status().unwrap();
    assert!(status.success());
}

/// A guest of more owners than anybody would count.
pub(crate) fn outlive(path: &Path) {
    let start = || Process::owner(Kind::Words, path, Engine::ALL[0], Durability::Process);
    let mut owner = start();
    let table: Table<u64, u64> = patient().never_own(true).open_table(path).unwrap();
    let alone = mapped_bytes();
    for turn in 0..20 {
        assert_eq!(table.put(turn, turn).unwrap(), None);
        assert_eq!(table.get(turn).unwrap(), Some(turn));
        owner.kill();
        owner = start();
        // The next owner is found by now, and what was mapped of the former one is not any more.
        assert_eq!(table.get(turn).unwrap(), Some(turn));
        let mapped = mapped_bytes();
        assert!(mapped < alone + (1 << 30), "{mapped} bytes after turn {turn}, {alone} before");
    }
    owner.close();
}

/// Addresses that this process uses.
fn mapped_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bytes = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(address(end)? - address(start)?)
    };
    maps.lines().filter_map(bytes).sum()
}

#[test]
fn a_guest_is_killed_and_nobody_notices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = Options::new().guests(true).durability(Durability::Process);
    let own: Table<u64, u64> = options.create_table(&path).unwrap();
    own.put(1, 10).unwrap();
    for turn in 0..5 {
        let (guest, role) = Process::start(Kind::Words, &path, Engine::ALL[0], Durability::Process);
        assert_eq!(role, "guest");
        let number = own.stats().unwrap().guests;
        // Guests that have been killed are seen to have gone a moment later.
        assert!(number >= 1, "{turn}");
        guest.kill();
        assert_eq!(own.put(1, 10).unwrap(), Some(10));
    }
    while own.stats().unwrap().guests > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    own.close().unwrap();
}

/// Look-ups that need no owner go on; the owner of a table on another engine is asked for each.
#[test]
fn a_stopped_owner_stops_changes_and_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let engine = Engine::ALL[0];
    let owner = Process::owner(Kind::Store, &path, engine, Durability::Process);
    let store = Options::new().patience(Duration::from_millis(200)).open_store(&path).unwrap();
    owner.signal(libc::SIGSTOP);
    let stopped = loop {
        // It may still have been at work when the signal was sent.
        match store.put("a", "1") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    match &stopped {
        Error::Silent { process, waited } => {
            assert_eq!(*process, owner.number());
            assert!(*waited >= Duration::from_millis(200));
        }
        other => panic!("{other:?}"),
    }
    assert!(stopped.to_string().contains("kill -CONT"), "{stopped}");
    // Another thread, and one more time.
    std::thread::scope(|scope| {
        let failed = scope.spawn(|| store.remove("a").unwrap_err().to_string());
        assert!(failed.join().unwrap().contains("not answered"));
    });
    assert!(matches!(store.put("b", "2"), Err(Error::Silent { .. })));
    let opened = Options::new().patience(Duration::from_millis(50)).open_store(&path);
    assert!(matches!(opened, Err(Error::Silent { .. })), "{opened:?}");
    assert_eq!(store.role(), Role::Guest);
    // Far more calls than a guest has lanes.
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| assert!(store.put("a", "2").is_err()));
            }
        });
    }
    owner.signal(libc::SIGCONT);
    // The handle goes on as soon as the owner does.
    while store.put("c", "3").is_err() {}
    assert_eq!(store.get("c").unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_forked_child_uses_no_handle_of_its_parent_and_hides_no_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let engine = Engine::ALL[0];
    let owner = Process::owner(Kind::Store, &path, engine, Durability::Process);
    let store = patient().open_store(&path).unwrap();
    store.put("a", "1").unwrap();
    // SAFETY: the child runs what is below, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(store.get("a"), Err(Error::Forked))
            && matches!(store.put("a", "2"), Err(Error::Forked))
            && matches!(store.sync(), Err(Error::Forked));
        // SAFETY: ends the child; no destructor of the parent's runs twice.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) }
    }
    let mut status = -1;
    // SAFETY: `status` outlives the call, and the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    owner.close();
}

/// Scans, copies and checks, each as the first thing that is done after the owner's end.
#[test]
fn whatever_comes_first_after_the_owners_end_succeeds() {
    type First = fn(&Store, &std::path::Path);
    let firsts: [First; 7] = [
        |store, _| assert_eq!(store.iter().count(), 300),
        |store, _| {
            let mut pairs = 0;
            store.for_each(|_, _| pairs += 1).unwrap();
            assert_eq!(pairs, 300);
        },
        |store, _| assert!(!store.scan(0, 10).unwrap().0.is_empty()),
        |store, directory| {
            let copied = store.backup(directory.join("copy"), firndex::Existing::Keep).unwrap();
            assert_eq!(copied.pairs, 300);
        },
        |store, _| assert_eq!(store.stats().unwrap().pairs, 300),
        |store, _| store.sync().unwrap(),
        |store, _| assert_eq!(store.get_many(&["key 1", "key 2"]).unwrap().len(), 2),
    ];
    for first in firsts {
        let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
        let path = directory.path().join("pool");
        let owner = Process::owner(Kind::Store, &path, Engine::ALL[0], Durability::Process);
        let store = patient().open_store(&path).unwrap();
        for key in 0..300 {
            store.put(format!("key {key}"), [1; 100]).unwrap();
        }
        // A scan that was under way is cut off, and says so.
        let mut cut = store.iter();
        cut.next().unwrap().unwrap();
        owner.kill();
        first(&store, directory.path());
        let rest: Vec<_> = cut.collect();
        assert!(
            rest.iter().all(Result::is_ok) || matches!(rest.last(), Some(Err(Error::Interrupted)))
        );
        store.put("another", "1").unwrap();
        assert_eq!(store.role(), Role::Owner);
        assert!(store.check().unwrap().is_sound());
        store.close().unwrap();
        assert_eq!(Store::open(&path).unwrap().len(), 301);
    }
}

#[test]
fn two_handles_of_one_process_go_on_together() {
    let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
    let path = directory.path().join("pool");
    let owner = Process::owner(Kind::Words, &path, Engine::ALL[0], Durability::Process);
    let [one, other]: [Table<u64, u64>; 2] =
        [(), ()].map(|()| patient().open_table(&path).unwrap());
    one.put(1, 10).unwrap();
    owner.kill();
    assert_eq!(one.put(2, 20).unwrap(), None);
    assert_eq!(other.get(2).unwrap(), Some(20));
    assert_eq!(other.put(1, 11).unwrap(), Some(10));
    assert_eq!((one.role(), other.role()), (Role::Owner, Role::Guest));
    // One more is a guest of the first.
    let third: Table<u64, u64> = patient().open_table(&path).unwrap();
    assert_eq!((third.role(), third.get(1).unwrap()), (Role::Guest, Some(11)));
    drop(third);
    one.close().unwrap();
    assert_eq!(other.get(1).unwrap(), Some(11));
    assert_eq!(other.role(), Role::Owner);
}

/// Guests change the store while its owner copies it into another file, and carry on with that one.
#[test]
fn what_guests_are_told_survives_a_rewrite() {
    let directory = tempfile::tempdir_in(IN_MEMORY).unwrap();
    let path = directory.path().join("pool");
    for round in 0..3u64 {
        let own = patient().guests(true).open_or_create_store(&path).unwrap();
        for key in 0..2000 {
            own.put(format!("{round} {key}"), [2; 300]).unwrap();
        }
        let mut adder = crate::owner::putter(&path, round);
        let mut said = std::io::BufReader::new(adder.said());
        let mut acknowledged = 0;
        let mut line = String::new();
        // It is at work.
        while acknowledged < 20 {
            line.clear();
            std::io::BufRead::read_line(&mut said, &mut line).unwrap();
            acknowledged += u64::from(line.starts_with("put "));
        }
        own.rewrite().unwrap();
        let rest: Vec<String> = std::io::BufRead::lines(&mut said).map(Result::unwrap).collect();
        assert!(adder.has_succeeded());
        acknowledged += rest.iter().filter(|line| line.starts_with("put ")).count() as u64;
        assert_eq!(acknowledged, crate::owner::PUTS);
        let store = patient().open_store(&path).unwrap();
        for key in 0..crate::owner::PUTS {
            assert!(store.contains_key(format!("of the guest {round} {key}")).unwrap(), "{key}");
        }
        assert!(store.check().unwrap().is_sound());
        store.close().unwrap();
    }
}

/// All open the same path at once, and nobody was there before.
#[test]
fn processes_that_are_started_together_all_come_through() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let roles: Vec<(Process, String)> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        Process::start(Kind::Store, &path, Engine::ALL[0], Durability::Periodic)
                    })
                })
                .collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let owners = roles.iter().filter(|(_, role)| role == "owner").count();
        assert_eq!(owners, 1);
        roles.into_iter().for_each(|(process, _)| process.close());
    }
}

#[test]
fn threads_that_open_one_path_at_once_all_come_through() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let tables: Vec<Table<u64, u64>> = std::thread::scope(|scope| {
        let open = || patient().guests(true).open_or_create_table(&path).unwrap();
        let opening: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        opening.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(tables.iter().filter(|table| table.role() == Role::Owner).count(), 1);
    for (key, table) in (0..).zip(&tables) {
        table.put(key, key).unwrap();
    }
    assert_eq!(tables[0].len(), 4);
    // Whoever is closed first, the others go on.
    for (left, table) in tables.into_iter().enumerate() {
        assert_eq!(table.get(3).unwrap(), Some(3), "{left}");
        table.close().unwrap();
    }
    assert!(firndex::inspect(&path).unwrap().clean);
}
