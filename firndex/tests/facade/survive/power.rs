//! What survives power loss on a disk. The pool file is taken away, as if it had lain in memory: what counts then is
//! the checkpoint and the log.

use crate::places::{checkpoint, companions, contents, copy_companions, on_disk, segments};
use firndex::{Durability, Engine, Error, OpenError, Options, Store, Table};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A pool as power loss leaves it while a process has it open.
fn after_power_loss(path: &Path, work: impl FnOnce()) {
    work();
    std::fs::remove_file(path).unwrap();
}

fn options(durability: Durability) -> Options {
    Options::new().durability(durability)
}

#[test]
fn what_was_synced_is_there_without_the_pool_file() {
    for engine in Engine::ALL.iter().copied() {
        let (first, second) = (on_disk(), on_disk());
        let path = first.path().join("pool");
        let options = options(Durability::Periodic).engine(engine);
        let store = options.open_or_create_store(&path).unwrap();
        for round in 0..3u32 {
            for key in 0..2000u32 {
                store.put((key + 1000 * round).to_le_bytes(), [round as u8; 50]).unwrap();
            }
            store.remove((5 + 1000 * round).to_le_bytes()).unwrap();
            store.sync().unwrap();
        }
        copy_companions(&path, second.path());
        let restored = options.open_store(second.path().join("pool")).unwrap();
        assert_eq!(restored.len(), store.len(), "{engine}");
        let mut different = 0;
        store
            .for_each(|key, value| {
                different += usize::from(restored.get(key).unwrap().as_deref() != Some(value));
            })
            .unwrap();
        assert_eq!(different, 0, "{engine}");
        assert!(restored.check().unwrap().is_sound(), "{engine}: {:?}", restored.check());
        restored.put("on", "it goes").unwrap();
    }
}

/// As one that was closed is opened under such a limit.
#[test]
fn a_limit_below_a_pool_s_size_does_not_keep_it_from_being_restored() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let options = options(Durability::Commit).helpers(0);
    after_power_loss(&path, || {
        let store = options.open_or_create_store(&path).unwrap();
        (0..300_u32).for_each(|key| drop(store.put(key.to_le_bytes(), [7; 9000]).unwrap()));
    });
    let store = options.max_bytes(1 << 20).open_store(&path).unwrap();
    assert_eq!(store.len(), 300);
    assert!(store.check().unwrap().is_sound());
    // Until what it has is full.
    let refused = (300..3000_u32).find_map(|key| store.put(key.to_le_bytes(), [7; 9000]).err());
    assert!(matches!(refused, Some(Error::PoolFull(_))), "{refused:?}");
    store.remove(0_u32.to_le_bytes()).unwrap();
    store.put("b", [1; 8000]).unwrap();
}

#[test]
fn every_committed_change_is_there() {
    let (first, second) = (on_disk(), on_disk());
    let path = first.path().join("pool");
    let table = options(Durability::Commit).open_or_create_table(&path).unwrap();
    for key in 0..200u64 {
        table.put(key, key + 7).unwrap();
    }
    table.put_many(&[(1000, 1), (1001, 2)]).unwrap();
    table.remove(3).unwrap();
    copy_companions(&path, second.path());
    let restored = Options::new().open_table(second.path().join("pool")).unwrap();
    assert_eq!(restored.len(), 201);
    assert_eq!(restored.get(3).unwrap(), None);
    assert!((4..200).all(|key| restored.get(key).unwrap() == Some(key + 7)));
    assert_eq!(restored.stats().unwrap().durability, Durability::Commit);
}

#[test]
fn a_closed_pool_needs_no_log() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let table = <Table>::open_or_create(&path).unwrap();
    table.put(1, 2).unwrap();
    table.close().unwrap();
    std::fs::remove_dir_all(companions(&path)).unwrap();
    assert_eq!(<Table>::open(&path).unwrap().get(1).unwrap(), Some(2));
}

#[test]
fn checkpoints_replace_the_log_beside_writers() {
    let (first, second) = (on_disk(), on_disk());
    let path = first.path().join("pool");
    let options = options(Durability::Periodic).checkpoint_at(1 << 20);
    let table = options.open_or_create_table(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let table = &table;
            scope.spawn(move || {
                for key in 0..200_000u64 {
                    table.put(key * 2 + thread, key).unwrap();
                }
            });
        }
    });
    table.sync().unwrap();
    let log = || table.log().unwrap().unwrap();
    // One is made beside the writers, or soon after; the last one is waited for.
    while log().checkpoints < 2 || log().log_bytes >= log().checkpoint_bytes.max(1 << 20) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // A copy that is made amid a checkpoint may be refused.
    let restored = loop {
        let copy = second.path().join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        std::fs::create_dir(&copy).unwrap();
        copy_companions(&path, &copy);
        match options.open_table(copy.join("pool")) {
            Ok(restored) => break restored,
            Err(Error::Open(OpenError::NotRestored { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(restored.len(), 400_000);
    assert!((0..400_000).all(|key| restored.get(key).unwrap() == Some(key / 2)));
}

#[test]
fn a_pool_that_was_restored_goes_on_and_is_restored_again() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    for round in 0..5u64 {
        let table = options(Durability::Periodic).open_or_create_table(&path).unwrap();
        assert_eq!(table.len(), round);
        after_power_loss(&path, || {
            table.put(round, round).unwrap();
            table.sync().unwrap();
        });
        drop(table);
        // Closing has written to a file that nobody can find any more.
        assert!(!path.exists());
    }
}

#[test]
fn a_pool_in_memory_has_its_log_on_a_disk() {
    let disk = on_disk();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = memory.path().join("pool");
    let options = options(Durability::Periodic).log_directory(disk.path());
    let store = options.open_or_create_store(&path).unwrap();
    store.put("a", "b").unwrap();
    store.sync().unwrap();
    let (other_disk, other_memory) = (on_disk(), tempfile::tempdir_in("/dev/shm").unwrap());
    copy_companions(&disk.path().join("pool"), other_disk.path());
    let options = options.log_directory(other_disk.path());
    let store = options.open_store(other_memory.path().join("pool")).unwrap();
    assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"b"[..]));
}

#[test]
fn durability_can_be_changed() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let safe = directory.path().join("pool.safe");
    for (durability, is_logged) in [
        (Durability::Process, false),
        (Durability::Periodic, true),
        (Durability::Commit, true),
        (Durability::Process, false),
    ] {
        let table = options(durability).open_or_create_table(&path).unwrap();
        table.put(durability as u64, 1).unwrap();
        assert_eq!(table.stats().unwrap().durability, durability);
        assert_eq!(safe.exists(), is_logged, "{durability:?}");
        assert_eq!(matches!(table.commit(), Err(Error::NotLogged)), !is_logged);
        table.close().unwrap();
        // What it had is kept if nobody asks for something else.
        let table = Options::new().open_table(&path).unwrap();
        assert_eq!(table.stats().unwrap().durability, durability);
        table.close().unwrap();
    }
}

#[test]
fn a_new_pool_does_not_write_over_another_one_s_log() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let table = <Table>::open_or_create(&path).unwrap();
    table.put(1, 1).unwrap();
    table.close().unwrap();
    std::fs::remove_file(&path).unwrap();
    let refused = Options::new().create_table(&path).unwrap_err();
    assert!(refused.to_string().contains("pool.safe"), "{refused}");
    // Opening brings it back.
    assert_eq!(<Table>::open(&path).unwrap().get(1).unwrap(), Some(1));
}

#[test]
fn a_store_is_sound_when_it_is_restored_amid_everything() {
    let (first, second) = (on_disk(), on_disk());
    let path = first.path().join("pool");
    let store = Store::open_or_create(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..30_000u32 {
                    let key = [(round % 5000).to_le_bytes(), thread.to_le_bytes()].concat();
                    store.put(&key, vec![round as u8; (round % 300) as usize]).unwrap();
                    if round % 3 == 0 {
                        store.remove(&key).unwrap();
                    }
                }
            });
        }
        let mut restored = 0;
        // One that is made when the writers have ended is whole at the latest.
        while restored < 5 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let copy = second.path().join("copy");
            let _ = std::fs::remove_dir_all(&copy);
            std::fs::create_dir(&copy).unwrap();
            // Amid writes. A copy takes its time, so now and then a later frame is in it, and an earlier one is not:
            // that no power loss leaves, and it is refused.
            copy_companions(&path, &copy);
            let Ok(store) = Options::new().open_store(copy.join("pool")) else { continue };
            assert!(store.check().unwrap().is_sound(), "{:?}", store.check());
            restored += 1;
        }
    });
}

/// The companions of a synced table, without its file.
fn lost_pool() -> (tempfile::TempDir, std::path::PathBuf) {
    let (first, second) = (on_disk(), on_disk());
    let path = first.path().join("pool");
    let table = options(Durability::Periodic).open_or_create_table(&path).unwrap();
    for key in 0..1000u64 {
        table.put(key, key).unwrap();
    }
    table.sync().unwrap();
    copy_companions(&path, second.path());
    let path = second.path().join("pool");
    (second, path)
}

/// Opening and creating are refused, with these words, and nothing is changed.
fn refused(path: &Path, words: &[&str]) {
    let before = contents(path.parent().unwrap());
    for result in [
        Options::new().open_table(path),
        Options::new().open_or_create_table(path),
        Options::new().create_table(path),
    ] {
        let message = result.unwrap_err().to_string();
        let is_told = words.iter().any(|word| message.contains(word));
        assert!(is_told || message.contains("open it instead"), "{message}");
        assert!(message.contains("pool.safe") || message.contains("POOL.safe"), "{message}");
    }
    assert!(contents(path.parent().unwrap()) == before, "something was changed");
}

#[test]
fn damaged_missing_and_newer_companions_are_told_and_left_alone() {
    let (_directory, path) = lost_pool();
    let safe = checkpoint(&path).unwrap();
    let whole = std::fs::read(&safe).unwrap();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&safe, bytes).unwrap();
    };
    with(|bytes| bytes[0] ^= 1);
    refused(&path, &["does not begin with a checkpoint's magic number"]);
    with(|bytes| bytes[50] ^= 1);
    refused(&path, &["its header's checksum is wrong"]);
    with(|bytes| bytes.truncate(5000));
    refused(&path, &["it has 5000 bytes, expected"]);
    with(|bytes| bytes.truncate(500));
    refused(&path, &["it has only 500 bytes"]);
    with(|_| ());
    let logs: Vec<_> = segments(&path).into_iter().map(|segment| segment.1).collect();
    let kept: Vec<_> = logs.iter().map(|path| std::fs::read(path).unwrap()).collect();
    logs.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let message = Options::new().open_table(&path).unwrap_err().to_string();
    assert!(message.contains("missing") && message.contains("pool.safe/log."), "{message}");
    assert!(!path.exists());
    // Put together again, it is whole.
    logs.iter().zip(kept).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    assert_eq!(Options::new().open_table(&path).unwrap().len(), 1000);
}

#[test]
fn a_pool_has_one_log_whatever_link_it_is_opened_by() {
    let (first, second) = (on_disk(), on_disk());
    let (path, link) = (first.path().join("pool"), second.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for (key, opened) in [(1, &path), (2, &link), (3, &path), (4, &link)] {
        let table = <Table>::open_or_create(opened).unwrap();
        table.put(key, key).unwrap();
        table.sync().unwrap();
        drop(table);
        assert_eq!(std::fs::read_dir(second.path()).unwrap().count(), 1);
    }
    // As after power loss, in the directory of the pool and by either name.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(<Table>::open(&link).unwrap().len(), 4);
    assert!(path.is_file() && link.is_symlink());
}

/// Without its log the pool would change, and the log bring back later what it was.
#[test]
fn a_log_in_another_directory_is_named_even_to_end_it() {
    let (own, other) = (on_disk(), on_disk());
    let path = own.path().join("pool");
    let with_log = options(Durability::Periodic).log_directory(other.path());
    with_log.open_or_create_table(&path).unwrap().close().unwrap();
    let refused = options(Durability::Process).open_table(&path).unwrap_err();
    assert!(matches!(refused, Error::Open(pmem::OpenError::LogElsewhere { .. })), "{refused}");
    let without_log = with_log.durability(Durability::Process);
    without_log.open_table(&path).unwrap().close().unwrap();
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
    <Table>::open(&path).unwrap().close().unwrap();
}

/// Two that open a pool that has to be restored: one of them does it, and the other is told that it is in use.
#[test]
fn one_of_two_openers_restores() {
    for _ in 0..5 {
        let (_directory, path) = lost_pool();
        let open = || Options::new().open_table(&path);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (tables, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        let refused: Vec<_> = refused.into_iter().filter_map(Result::err).collect();
        let tables: Vec<_> = tables.into_iter().filter_map(Result::ok).collect();
        assert_eq!(tables.len(), 1, "{refused:?}");
        tables[0].put(5000, 1).unwrap();
        tables[0].sync().unwrap();
        assert_eq!(tables[0].len(), 1001);
    }
}

/// The permissions of all files of a pool.
fn modes(directory: &Path) -> Vec<(String, u32)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mode = |entry: &std::fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o777;
    entries.map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry))).collect()
}

/// They hold what the pool does. No one gets to read it there who may not read it in the pool.
#[test]
fn companions_have_the_pool_s_permissions_and_so_has_what_is_restored() {
    for mode in [0o600, 0o640] {
        let directory = on_disk();
        let path = directory.path().join("pool");
        let options = options(Durability::Periodic).checkpoint_at(1 << 18);
        options.create_table(&path).unwrap().close().unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for _ in 0..2 {
            let table = options.open_table(&path).unwrap();
            let checkpoints = || table.log().unwrap().unwrap().checkpoints;
            let mut key = 0;
            // Into several segments, and beyond a checkpoint, so that all are of this opening.
            while checkpoints() < 3 {
                table.put(key % 5000, key).unwrap();
                key += 1;
            }
            table.sync().unwrap();
            drop(table);
            let found = modes(&companions(&path));
            assert!(found.len() > 2, "{found:?}");
            assert!(found.iter().all(|(_, found)| *found == mode), "{mode:o}: {found:?}");
            let of_directory = mode | (mode & 0o444) >> 2;
            assert!(modes(directory.path()).contains(&("pool.safe".to_owned(), of_directory)));
            // The second time it is restored.
            std::fs::remove_file(&path).unwrap();
            options.open_table(&path).unwrap().close().unwrap();
            assert!(modes(directory.path()).contains(&("pool".to_owned(), mode)));
        }
    }
}

/// A pool and its companions; and the pool's file alone, used elsewhere since, without them.
fn used_without_its_companions(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("pool");
    let elsewhere = on_disk();
    let moved = elsewhere.path().join("pool");
    let options = options(Durability::Periodic);
    let table = options.open_or_create_table(&path).unwrap();
    table.put(1, 1).unwrap();
    table.close().unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let table = options.open_table(&moved).unwrap();
    table.put(2, 2).unwrap();
    table.close().unwrap();
    std::fs::rename(&moved, &path).unwrap();
    path
}

#[test]
fn companions_from_another_time_are_replaced_before_anything_is_written() {
    let (first, second) = (on_disk(), on_disk());
    let path = used_without_its_companions(first.path());
    let table = options(Durability::Periodic).open_table(&path).unwrap();
    // At once: what power loss leads back to is not what was there before the pool was moved.
    copy_companions(&path, second.path());
    let restored = options(Durability::Periodic).open_table(second.path().join("pool")).unwrap();
    assert_eq!(restored.len(), 2);
    assert_eq!(restored.get(2).unwrap(), Some(2));
    drop(table);
}

#[test]
fn a_pool_that_needs_its_companions_refuses_those_of_another_time() {
    let (first, second, third) = (on_disk(), on_disk(), on_disk());
    let path = used_without_its_companions(first.path());
    copy_companions(&path, second.path());
    let table = options(Durability::Periodic).open_table(&path).unwrap();
    table.put(3, 3).unwrap();
    table.sync().unwrap();
    // As it is amid its use, beside what was left of the time before.
    let bad = second.path().join("pool");
    std::fs::copy(&path, &bad).unwrap();
    let refused = options(Durability::Periodic).open_table(&bad).unwrap_err();
    assert!(matches!(refused, Error::Open(OpenError::NotRestored { .. })), "{refused}");
    let says = refused.to_string();
    let both = [format!("{}", bad.display()), format!("{}.safe", bad.display())];
    assert!(says.contains("was not closed") && says.contains("from another time"), "{says}");
    assert!(both.iter().all(|way| says.contains(&format!("Salvage::open({way})"))), "{says}");
    // What the message says leads on.
    std::fs::remove_file(&bad).unwrap();
    let former = options(Durability::Periodic).open_table(&bad).unwrap();
    assert_eq!((former.len(), former.get(1).unwrap()), (1, Some(1)));
    // Beside its own companions it is restored.
    let good = third.path().join("pool");
    copy_companions(&path, third.path());
    std::fs::copy(&path, &good).unwrap();
    let restored = options(Durability::Periodic).open_table(&good).unwrap();
    assert_eq!(restored.len(), 3);
}
