//! Backups and conversions: what is in them, beside writers too, and what is left where they fail.

use crate::superblocks::decode;
use crate::{effort, places};
use firndex::{Durability, Engine, Error, Existing, OpenError, Options, Store, Table, inspect};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Pairs = BTreeMap<u64, u64>;
type Strings = BTreeMap<Vec<u8>, Vec<u8>>;

fn pairs_of(table: &Table) -> Pairs {
    table.iter().collect::<Result<_, _>>().unwrap()
}

fn strings_of(store: &Store) -> Strings {
    store.iter().collect::<Result<_, _>>().unwrap()
}

/// The table in a closed pool, which is sound and has its pairs on record.
fn closed_table(path: &Path) -> Pairs {
    assert!(inspect(path).unwrap().clean);
    let table = Options::new().read_only(true).open_table(path).unwrap();
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    pairs_of(&table)
}

fn closed_store(path: &Path) -> Strings {
    assert!(inspect(path).unwrap().clean);
    let store = Options::new().read_only(true).open_store(path).unwrap();
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    strings_of(&store)
}

fn some_strings() -> Strings {
    let small = |key: u32| (key.to_le_bytes().to_vec(), vec![key as u8; key as usize % 97]);
    let odd = [(vec![], vec![]), (b"large".to_vec(), vec![5; 3 << 20])];
    (0..3000).map(small).chain(odd).collect()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_what_the_pool_was_on_every_engine() {
    let directory = places::on_disk();
    for engine in effort::engines() {
        for durability in Durability::ALL {
            let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
            let options = Options::new().engine(engine).durability(*durability);
            let is_logged = *durability != Durability::Process;

            let table = options.create_table(&pool).unwrap();
            (0..3000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
            let copied = table.backup(&out, Existing::Keep).unwrap();
            assert_eq!((copied.pairs, copied.is_of_one_moment), (3000, is_logged));
            assert_eq!(copied.bytes, std::fs::metadata(&out).unwrap().len());
            table.put(1, 1).unwrap();
            table.close().unwrap();
            assert!(closed_table(&out).into_iter().eq((0..3000).map(|key| (key, !key))));
            let [of_pool, of_out] = [&pool, &out].map(|path| decode(&std::fs::read(path).unwrap()));
            assert_eq!(of_out.engine_params, of_pool.engine_params, "{engine}");
            assert_ne!(of_out.uuid, of_pool.uuid, "{engine}");
            assert_eq!((of_out.durability(), of_out.logged()), (Some(*durability), None));
            // It goes on as a pool of its own, with a log beside it if the other one had one.
            let again = Table::<u64, u64>::open(&out).unwrap();
            assert_eq!(again.put(5000, 7).unwrap(), None);
            assert_eq!(again.stats().unwrap().log.is_some(), is_logged);
            again.close().unwrap();
            remove_all(directory.path());

            let store = options.create_store(&pool).unwrap();
            some_strings().iter().for_each(|(key, value)| drop(store.put(key, value).unwrap()));
            assert!(store.put("gone", "soon").unwrap().is_none());
            assert!(store.remove("gone").unwrap().is_some());
            let copied = store.backup(&out, Existing::Keep).unwrap();
            assert_eq!((copied.pairs, copied.is_of_one_moment), (3002, is_logged));
            store.put("later", "not in it").unwrap();
            drop(store);
            assert!(closed_store(&out) == some_strings(), "{engine}");
            remove_all(directory.path());
        }
    }
}

/// A pool made for many pairs has large segments of values, and so have its copies.
#[test]
fn copies_have_segments_of_the_same_size() {
    let directory = places::in_ram();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let segment_log2 = |path: &Path| decode(&std::fs::read(path).unwrap()).segment_log2;
    let mut sizes = Vec::new();
    for capacity in [0, 100_000] {
        let options = Options::new().durability(Durability::Process).capacity(capacity);
        let store = options.create_store(&pool).unwrap();
        store.put("key", "value").unwrap();
        let size = segment_log2(&pool);
        store.backup(&out, Existing::Replace).unwrap();
        assert_eq!(segment_log2(&out), size, "{capacity}");
        store.convert(&out, Existing::Replace, &Options::new()).unwrap();
        assert_eq!(segment_log2(&out), size, "{capacity}");
        store.rewrite().unwrap();
        assert_eq!(segment_log2(&pool), size, "{capacity}");
        sizes.push(size);
        remove_all(directory.path());
    }
    assert!(sizes[0] < sizes[1], "{sizes:?}");
}

fn remove_all(directory: &Path) {
    for name in names_in(directory).iter().filter(|name| !name.ends_with(".safe")) {
        firndex::remove(directory.join(name)).unwrap();
    }
    assert_eq!(names_in(directory), [""; 0]);
}

#[test]
fn pools_in_memory_and_pools_that_are_only_read_are_backed_up() {
    let directory = places::in_ram();
    let [pool, out, again] = ["pool", "out", "again"].map(|name| directory.path().join(name));
    let table = Table::<u64, u64>::in_memory().unwrap();
    (0..500).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
    table.backup(&pool, Existing::Keep).unwrap();
    let before = std::fs::read(&pool).unwrap();
    let table = Options::new().read_only(true).open_table(&pool).unwrap();
    table.backup(&out, Existing::Keep).unwrap();
    drop(table);
    assert!(std::fs::read(&pool).unwrap() == before);
    assert_eq!(closed_table(&out).len(), 500);
    let sizes = Options::new().in_memory_table_of::<[u8; 16], u16>().unwrap();
    sizes.put([7; 16], 9).unwrap();
    sizes.backup(&again, Existing::Keep).unwrap();
    let sizes = Options::new().open_table_of::<[u8; 16], u16>(&again).unwrap();
    assert_eq!((sizes.get([7; 16]).unwrap(), sizes.len()), (Some(9), 1));
}

/// Keys that one writer counts up in turn, one after the other and then from the first on. At each moment they have one
/// value up to some key, and one less from there on.
const CHAIN: u64 = 400;

/// One writer counts up a chain of keys, and another lets the pool grow, until `look` has been called often enough. It
/// is told the rounds that were complete before.
fn beside_a_chain(count: impl Fn(u64, u64) + Sync, noise: impl Fn(u64) + Sync, look: impl Fn(u64)) {
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    /// Ends the writers, whatever `look` comes to.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            for round in 1.. {
                (0..CHAIN).for_each(|key| count(key, round));
                rounds.store(round, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        scope.spawn(|| {
            let numbers = 1 << 20..;
            numbers.take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(&noise);
        });
        for _ in 0..3 {
            let before = rounds.load(Ordering::SeqCst);
            while rounds.load(Ordering::SeqCst) < before + 2 {
                std::thread::yield_now();
            }
            look(rounds.load(Ordering::SeqCst));
        }
    });
}

/// Asserts that values of the chain are those of one moment, not before `rounds` rounds were complete.
#[track_caller]
fn assert_one_moment(values: &[u64], rounds: u64) {
    assert!(values.is_sorted_by(|earlier, later| earlier >= later), "{values:?}");
    let (first, last) = (values[0], values[values.len() - 1]);
    assert!(first - last <= 1 && last >= rounds, "{first} to {last} after {rounds}");
}

/// Checkpoints are made all the time, and the log goes on, while what they had is being read.
#[test]
fn a_backup_beside_writers_is_of_one_moment_where_there_is_a_log() {
    let directory = places::on_disk();
    let out = directory.path().join("out");
    for engine in effort::engines() {
        let options = Options::new().engine(engine).durability(Durability::Periodic);
        let options = options.checkpoint_at(1 << 20);
        let table = options.create_table(directory.path().join("table")).unwrap();
        (0..CHAIN).for_each(|key| assert_eq!(table.put(key, 0).unwrap(), None));
        let count = |key, round| assert_eq!(table.put(key, round).unwrap(), Some(round - 1));
        let noise = |number| assert!(table.put(number % (1 << 16) + CHAIN, number).is_ok());
        beside_a_chain(count, noise, |rounds| {
            let copied = table.backup(&out, Existing::Replace).unwrap();
            assert!(copied.is_of_one_moment, "{engine}");
            let backup = closed_table(&out);
            assert_eq!(backup.len() as u64, copied.pairs);
            let values: Vec<u64> = (0..CHAIN).map(|key| backup[&key]).collect();
            assert_one_moment(&values, rounds);
        });
        drop(table);

        let store = options.create_store(directory.path().join("store")).unwrap();
        let bytes = |number: u64| number.to_be_bytes();
        (0..CHAIN).for_each(|key| drop(store.put(bytes(key), bytes(0)).unwrap()));
        let count = |key, round| drop(store.put(bytes(key), bytes(round)).unwrap());
        let noise = |number: u64| {
            let value = vec![number as u8; number as usize % 700];
            drop(store.put(bytes(number % 5000 + CHAIN), value).unwrap());
        };
        beside_a_chain(count, noise, |rounds| {
            let copied = store.backup(&out, Existing::Replace).unwrap();
            assert!(copied.is_of_one_moment, "{engine}");
            let backup = closed_store(&out);
            let value = |key| u64::from_be_bytes(backup[&bytes(key)[..]][..].try_into().unwrap());
            let values: Vec<u64> = (0..CHAIN).map(value).collect();
            assert_one_moment(&values, rounds);
        });
        drop(store);
        remove_all(directory.path());
    }
}

#[test]
fn a_backup_beside_writers_has_every_key_that_stays_where_there_is_no_log() {
    let directory = places::in_ram();
    let out = directory.path().join("out");
    for engine in effort::engines() {
        let table = Options::new().engine(engine).in_memory_table().unwrap();
        (0..CHAIN).for_each(|key| assert_eq!(table.put(key, 0).unwrap(), None));
        let count = |key, round| assert_eq!(table.put(key, round).unwrap(), Some(round - 1));
        let noise = |number| {
            table.put(number, 1).unwrap();
            table.remove(number - 3000).unwrap();
        };
        beside_a_chain(count, noise, |rounds| {
            let copied = table.backup(&out, Existing::Replace).unwrap();
            assert!(!copied.is_of_one_moment);
            let backup = closed_table(&out);
            (0..CHAIN).for_each(|key| assert!(backup[&key] >= rounds, "{engine}: {key}"));
        });
    }
}

#[test]
fn every_engine_becomes_every_other() {
    let directory = places::in_ram();
    let out = directory.path().join("out");
    for &from in Engine::ALL {
        let table = Options::new().engine(from).in_memory_table().unwrap();
        (0..2000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        let store = Options::new().engine(from).in_memory_store().unwrap();
        some_strings().iter().for_each(|(key, value)| drop(store.put(key, value).unwrap()));
        for &to in Engine::ALL {
            let options = Options::new().engine(to).hash_seed(42);
            let copied = table.convert(&out, Existing::Replace, &options).unwrap();
            assert_eq!((copied.pairs, inspect(&out).unwrap().engine), (2000, to));
            assert_eq!(decode(&std::fs::read(&out).unwrap()).hash_seed, 42);
            assert!(closed_table(&out) == pairs_of(&table), "{from} to {to}");
            store.convert(&out, Existing::Replace, &options).unwrap();
            assert_eq!(inspect(&out).unwrap().engine, to);
            assert!(closed_store(&out) == some_strings(), "{from} to {to}");
        }
    }
}

#[test]
fn parameters_and_durability_are_those_that_are_asked_for() {
    let directory = places::on_disk();
    let out = directory.path().join("out");
    let table = Table::<u64, u64>::in_memory().unwrap();
    (0..2000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
    let options = Options::new().parameter("slots", 2).durability(Durability::Commit);
    table.convert(&out, Existing::Keep, &options).unwrap();
    let converted = Table::<u64, u64>::open(&out).unwrap();
    let stats = converted.stats().unwrap();
    assert_eq!((stats.capacity % 6, stats.durability), (0, Durability::Commit));
    assert!(stats.engine.description().parameters.iter().any(|one| one.name == "slots"));
    assert_eq!(pairs_of(&converted), pairs_of(&table));
}

/// What is left out is kept; what is asked for is not.
#[test]
fn a_conversion_keeps_engine_and_parameters() {
    let directory = places::in_ram();
    let out = directory.path().join("out");
    let parameters = || {
        let superblock = decode(&std::fs::read(&out).unwrap());
        let engine = Engine::from_id(superblock.engine).unwrap();
        (engine, engine.parameters_of(&superblock.engine_params))
    };
    for engine in effort::engines() {
        let known = engine.description().parameters;
        let most = |name: &str| {
            let parameter = known.iter().find(|one| one.name == name).unwrap();
            *(parameter.bounds)(firndex::PairSizes::WORDS).unwrap().end()
        };
        let with = |options: Options, name: &str, value| options.parameter(name, value);
        let options = known.iter().fold(Options::new().engine(engine), |options, one| {
            with(options, one.name, most(one.name))
        });
        let table = options.in_memory_table().unwrap();
        (0..2000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
        for asked in [Options::new(), Options::new().engine(engine)] {
            table.convert(&out, Existing::Replace, &asked).unwrap();
            let (kept, found) = parameters();
            assert_eq!(kept, engine);
            for parameter in known {
                assert_eq!(found.get(parameter.name), Some(most(parameter.name)), "{engine}");
            }
        }
        for changed in known {
            let asked = Options::new().parameter(changed.name, 1);
            table.convert(&out, Existing::Replace, &asked).unwrap();
            let (kept, found) = parameters();
            assert_eq!(kept, engine);
            for one in known {
                let expected = if one.name == changed.name { 1 } else { most(one.name) };
                assert_eq!(found.get(one.name), Some(expected), "{engine}: {}", one.name);
            }
        }
        assert!(closed_table(&out) == pairs_of(&table), "{engine}");
    }
}

#[test]
fn what_fails_leaves_what_was_there() {
    let directory = places::on_disk();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let store = Options::new().durability(Durability::Process).create_store(&pool).unwrap();
    some_strings().iter().for_each(|(key, value)| drop(store.put(key, value).unwrap()));

    // Not enough room, an engine that does not take it, a directory that is not there.
    let small = Options::new().max_bytes(1 << 20);
    let full = store.convert(&out, Existing::Keep, &small).unwrap_err();
    assert!(matches!(full, Error::PoolFull(_)), "{full}");
    let unknown = Options::new().parameter("shelves", 3);
    let refused = store.convert(&out, Existing::Keep, &unknown).unwrap_err();
    assert!(matches!(refused, Error::Parameter { .. }), "{refused}");
    let nowhere = store.backup(directory.path().join("no/such"), Existing::Keep).unwrap_err();
    assert!(matches!(nowhere, Error::Open(OpenError::NoDirectory { .. })), "{nowhere}");
    assert_eq!(names_in(directory.path()), ["pool"]);

    // A file that is there.
    std::fs::write(&out, "a letter").unwrap();
    let exists = store.backup(&out, Existing::Keep).unwrap_err();
    assert!(matches!(exists, Error::Open(OpenError::Exists { .. })), "{exists}");
    let foreign = store.backup(&out, Existing::Replace).unwrap_err();
    assert!(matches!(foreign, Error::Open(OpenError::NotAPool { .. })), "{foreign}");
    assert_eq!(std::fs::read(&out).unwrap(), b"a letter");
    std::fs::remove_file(&out).unwrap();

    // The pool itself, and one that is open.
    for path in [&pool, &out] {
        let other = (path == &out).then(|| Table::<u64, u64>::open_or_create(&out).unwrap());
        let held = store.backup(path, Existing::Replace).unwrap_err();
        assert!(matches!(held, Error::Open(OpenError::AlreadyOpen { .. })), "{held}");
        drop(other);
    }
    let before = std::fs::read(&out).unwrap();
    let full = store.convert(&out, Existing::Replace, &small).unwrap_err();
    assert!(matches!(full, Error::PoolFull(_)), "{full}");
    assert!(std::fs::read(&out).unwrap() == before, "what was there stays");

    // Companions that are left of another pool are not the new one's.
    std::fs::remove_file(&out).unwrap();
    let left = store.backup(&out, Existing::Keep).unwrap_err();
    assert!(matches!(left, Error::Open(OpenError::LeftLog { .. })), "{left}");
    assert!(!out.exists());
}

/// With it goes its log, which would bring it back.
#[test]
fn a_pool_that_is_replaced_is_gone_for_good() {
    let directory = places::on_disk();
    let out = directory.path().join("out");
    let old = Options::new().durability(Durability::Periodic).create_store(&out).unwrap();
    old.put("old", "pool").unwrap();
    old.close().unwrap();
    assert!(names_in(directory.path()).len() > 1);
    let table = Table::<u64, u64>::in_memory().unwrap();
    (0..100).for_each(|key| assert_eq!(table.put(key, key).unwrap(), None));
    table.backup(&out, Existing::Replace).unwrap();
    assert_eq!(names_in(directory.path()), ["out"]);
    let new = Options::new().durability(Durability::Periodic).open_table(&out).unwrap();
    assert_eq!(new.len(), 100);
}

/// A log whose checkpoint has been lost tells nothing, and the pairs are copied.
#[test]
fn a_backup_does_without_a_checkpoint() {
    let directory = places::on_disk();
    let [pool, out] = ["pool", "out"].map(|name| directory.path().join(name));
    let table = Options::new().durability(Durability::Periodic).create_table(&pool).unwrap();
    (0..3000).for_each(|key| assert_eq!(table.put(key, !key).unwrap(), None));
    std::fs::remove_file(places::checkpoint(&pool).unwrap()).unwrap();
    let copied = table.backup(&out, Existing::Keep).unwrap();
    assert_eq!((copied.pairs, copied.is_of_one_moment), (3000, false));
    assert_eq!(closed_table(&out).len(), 3000);
}
