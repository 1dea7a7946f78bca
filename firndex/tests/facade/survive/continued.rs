//! A pool that was closed goes on with its log: opening it makes no checkpoint, and power loss leads back to the old
//! checkpoint, with everything that several processes have logged behind it.

use crate::places::{companions, contents, copy_companions, on_disk};
use firndex::{Durability, Engine, LogUse, Options, Store, Table};
use std::collections::BTreeMap;
use std::path::Path;

fn options() -> Options {
    Options::new().durability(Durability::Periodic)
}

fn fill(table: &Table<u64, u64>, keys: u64) {
    for key in 0..keys {
        table.put(key, key).unwrap();
    }
}

fn log_of(pool: &firndex::Pool) -> LogUse {
    pool.log().unwrap().unwrap()
}

/// What is restored from a pool's companions, as power loss would leave them now.
fn restored(path: &Path) -> Store {
    let elsewhere = on_disk();
    copy_companions(path, elsewhere.path());
    let store = Store::open(elsewhere.path().join(path.file_name().unwrap())).unwrap();
    assert!(store.check().unwrap().is_sound(), "{:?}", store.check());
    // It stays open in a directory that has no name any more.
    drop(elsewhere);
    store
}

fn pairs(store: &Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    store.for_each(|key, value| drop(pairs.insert(key.to_vec(), value.to_vec()))).unwrap();
    pairs
}

#[test]
fn power_loss_leads_through_the_logs_of_all_processes() {
    for &engine in Engine::ALL {
        let directory = on_disk();
        let path = directory.path().join("pool");
        options().engine(engine).create_store(&path).unwrap().close().unwrap();
        let mut checkpoints = Vec::new();
        for opening in 0..6_u32 {
            let store = Store::open(&path).unwrap();
            // In each, the table grows, values are replaced and removed, and space is taken again.
            for key in 0..700 {
                store.put((key + 500 * opening).to_le_bytes(), [opening as u8; 90]).unwrap();
            }
            for key in 0..100 {
                store.remove((key + 500 * opening).to_le_bytes()).unwrap();
            }
            store.sync().unwrap();
            assert_eq!(pairs(&restored(&path)), pairs(&store), "{engine}, opening {opening}");
            checkpoints.push(log_of(&store).checkpoints);
            if opening % 2 == 0 {
                store.close().unwrap();
            }
        }
        // A new pool's is made while it is written; the log behind it goes on until it is as large as 16 pools.
        let made: u64 = checkpoints.iter().sum();
        assert!(made <= 2, "{engine}: {checkpoints:?}");
    }
}

#[test]
fn an_opening_and_its_change_write_no_more_than_a_few_pages() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let table = options().capacity(400_000).create_table(&path).unwrap();
    fill(&table, 100_000);
    table.close().unwrap();
    for (opening, durability) in
        [Durability::Periodic, Durability::Commit, Durability::Periodic].into_iter().enumerate()
    {
        let options = Options::new().durability(durability);
        let table = options.open_table(&path).unwrap();
        table.put(opening as u64, 7).unwrap();
        table.sync().unwrap();
        let log = log_of(&table);
        assert!(log.checkpoints == 0 && log.written_bytes < 64 << 10, "{durability}: {log:?}");
        assert!(log.checkpoint_bytes > 0 && log.durable_until.is_some(), "{log:?}");
        assert_eq!(table.stats().unwrap().durability, durability);
        table.close().unwrap();
    }
    // Who reads it changes nothing of that.
    assert_eq!(options().read_only(true).open_table(&path).unwrap().len(), 100_000);
    let table = Table::<u64, u64>::open(&path).unwrap();
    assert_eq!((log_of(&table).checkpoints, table.get(1).unwrap()), (0, Some(7)));
}

/// The log of a pool that was changed without it does not fit any more. That of one that was moved back in time, or of
/// another copy, takes the pool for the truth, as if its process had been killed.
#[test]
fn a_log_that_does_not_end_with_the_pool_leads_to_it_again() {
    let directory = on_disk();
    let path = directory.path().join("pool");
    let has_gone_on = |change: &dyn Fn()| {
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(companions(&path));
        let table = options().create_table(&path).unwrap();
        fill(&table, 1000);
        table.close().unwrap();
        change();
        let table = options().open_table(&path).unwrap();
        table.put(1, 77).unwrap();
        // Waits for a checkpoint, if there is none.
        table.sync().unwrap();
        let made = log_of(&table).checkpoints;
        // Whatever it goes back to, power loss keeps what this process has synced.
        let elsewhere = on_disk();
        let expected: BTreeMap<u64, u64> = table.iter().map(Result::unwrap).collect();
        copy_companions(&path, elsewhere.path());
        let restored = Table::open(elsewhere.path().join("pool")).unwrap();
        assert_eq!(restored.iter().map(Result::unwrap).collect::<BTreeMap<u64, u64>>(), expected);
        made == 0
    };
    assert!(has_gone_on(&|| ()));
    let put_at = |path: &Path, options: Options| {
        let table = options.open_table(path).unwrap();
        table.put(2, 88).unwrap();
        table.close().unwrap();
    };
    let put = |options| put_at(&path, options);
    assert!(!has_gone_on(&|| put(Options::new().durability(Durability::Process))));
    assert!(has_gone_on(&|| put(options())));
    assert!(has_gone_on(&|| {
        let old = std::fs::read(&path).unwrap();
        put(options());
        std::fs::write(&path, old).unwrap();
    }));
    assert!(has_gone_on(&|| {
        let old = contents(&companions(&path));
        put(options());
        std::fs::remove_dir_all(companions(&path)).unwrap();
        std::fs::create_dir(companions(&path)).unwrap();
        old.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }));
    assert!(!has_gone_on(&|| std::fs::remove_dir_all(companions(&path)).unwrap()));
    // Two copies have gone on from the same end, and one has the other's companions now.
    assert!(has_gone_on(&|| {
        let elsewhere = on_disk();
        let copy = elsewhere.path().join("pool");
        std::fs::copy(&path, &copy).unwrap();
        copy_companions(&path, elsewhere.path());
        [&*path, &*copy].into_iter().for_each(|path| put_at(path, options()));
        std::fs::remove_dir_all(companions(&path)).unwrap();
        copy_companions(&copy, directory.path());
    }));
}
