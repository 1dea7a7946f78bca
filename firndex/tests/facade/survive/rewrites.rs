//! Pools that are written anew in their place.

use crate::effort;
use crate::places::{in_ram, on_disk};
use firndex::{Durability, Error, OpenError, Options, Store, Table};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PAIRS: u64 = 300_000;

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn a_rewritten_table_is_as_small_as_what_it_holds() {
    let directory = in_ram();
    for engine in effort::engines() {
        let path = directory.path().join(engine.name());
        let options = Options::new().engine(engine);
        let table = options.create_table(&path).unwrap();
        let pairs: Vec<(u64, u64)> = (0..PAIRS).map(|key| (key, key + 5)).collect();
        table.put_many(&pairs).unwrap();
        table.retain(|key, _| key % 20 == 7).unwrap();
        let before = bytes_of(&path);
        let uuid = firndex::inspect(&path).unwrap().uuid;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let copied = table.rewrite().unwrap().unwrap();
        assert_eq!((copied.pairs, copied.bytes), (PAIRS / 20, bytes_of(&path)), "{engine}");
        assert!(copied.bytes * 100 <= before * 15, "{engine}: {} of {before}", copied.bytes);
        let found = firndex::inspect(&path).unwrap();
        assert_eq!((found.clean, found.uuid, found.engine), (true, uuid, engine));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let table = options.open_table(&path).unwrap();
        assert!(table.check().unwrap().is_sound());
        let expected = |key| (key % 20 == 7).then_some(key + 5);
        assert!((0..PAIRS).all(|key| table.get(key).unwrap() == expected(key)), "{engine}");
        table.put(0, 1).unwrap();
        table.close().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{engine}");
    }
}

#[test]
fn a_rewritten_store_goes_on_with_its_log() {
    let (first, second) = (on_disk(), on_disk());
    for (log_directory, name) in [(None, "beside"), (Some(second.path()), "elsewhere")] {
        let path = first.path().join(name);
        let mut options = Options::new().durability(Durability::Periodic);
        if let Some(directory) = log_directory {
            options = options.log_directory(directory);
        }
        let store = options.create_store(&path).unwrap();
        for key in 0..1000u32 {
            store.put(key.to_le_bytes(), [key as u8; 100]).unwrap();
        }
        store.retain(|key, _| key[0] == 3).unwrap();
        let pairs = store.len();
        assert_eq!(store.rewrite().unwrap().unwrap().pairs, pairs);
        if log_directory.is_some() {
            // It still knows that its log is elsewhere.
            let refused = Options::new().open_store(&path).unwrap_err();
            assert!(matches!(refused, Error::Open(OpenError::LogElsewhere { .. })), "{refused}");
        }
        let mut options = Options::new();
        if let Some(directory) = log_directory {
            options = options.log_directory(directory);
        }
        let store = options.open_store(&path).unwrap();
        assert_eq!(store.stats().unwrap().durability, Durability::Periodic);
        store.put("more", "of it").unwrap();
        store.sync().unwrap();
        // As power loss leaves a pool in memory.
        std::fs::remove_file(&path).unwrap();
        drop(store);
        let restored = options.open_store(&path).unwrap();
        assert_eq!(restored.len(), pairs + 1, "{name}");
        assert_eq!(restored.get(3u32.to_le_bytes()).unwrap().as_deref(), Some(&[3; 100][..]));
        assert!(restored.check().unwrap().is_sound());
    }
}

#[test]
fn a_rewriting_that_fails_leaves_the_pool() {
    let directory = in_ram();
    let path = directory.path().join("pool");
    let table = Table::<u64, u64>::create(&path).unwrap();
    table.put_many(&(0..1000).map(|key| (key, key)).collect::<Vec<_>>()).unwrap();
    table.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let reader = Options::new().read_only(true).open_table(&path).unwrap();
    assert!(matches!(reader.rewrite(), Err(Error::ReadOnly)));
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(Store::in_memory().unwrap().rewrite().unwrap().is_none());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
