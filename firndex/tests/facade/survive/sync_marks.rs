//! When a pool is marked clean, and that the mark is true whenever it is there: while it stands,
//! no byte changes.

use crate::places;
use crate::superblocks::decode;
use firndex::{Durability, Engine, Options, Store, inspect};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn is_clean(path: &Path) -> bool {
    inspect(path).unwrap().clean
}

#[test]
fn closing_and_dropping_clean_and_opening_dirties() {
    let directory = places::on_disk();
    let path = directory.path().join("pool");
    // With a log a new pool is clean until it is written, and a sync says nothing of it.
    let options = Options::new().durability(Durability::Process);
    let store = options.open_or_create_store(&path).unwrap();
    assert!(!is_clean(&path));
    store.put("key", "value").unwrap();
    store.close().unwrap();
    assert!(is_clean(&path));
    let opened = inspect(&path).unwrap().incarnation;
    let store = options.open_store(&path).unwrap();
    assert!(!is_clean(&path));
    assert_eq!(inspect(&path).unwrap().incarnation, opened + 1);
    drop(store);
    assert!(is_clean(&path));
}

#[test]
fn sync_cleans_until_the_next_write() {
    for &engine in Engine::ALL {
        let directory = places::on_disk();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine).durability(Durability::Process);
        let store = options.create_store(&path).unwrap();
        let put = |store: &Store| drop(store.put("key", "value").unwrap());
        let writes: [&dyn Fn(&Store); 8] = [
            &put,
            &|store| drop(store.insert("new", "value").unwrap()),
            &|store| drop(store.update("key", "other").unwrap()),
            &|store| drop(store.remove("new").unwrap()),
            &|store| drop(store.compare_exchange("key", Some(b"other"), Some(b"third")).unwrap()),
            &|store| drop(store.modify("key", |_| Some(b"fourth".to_vec())).unwrap()),
            &|store| drop(store.put_many(&[(b"a", b"1"), (b"b", b"2")]).unwrap()),
            &|store| drop(store.remove_many(&[b"a"]).unwrap()),
        ];
        for write in writes {
            store.sync().unwrap();
            assert!(is_clean(&path));
            let _ = store.get("key").unwrap();
            let _ = store.get_many(&[b"key"]).unwrap();
            assert!(store.check().unwrap().is_sound());
            store.sync().unwrap();
            assert!(is_clean(&path), "reading dirtied the pool");
            write(&store);
            assert!(!is_clean(&path));
        }
        drop(store);

        let path = directory.path().join("table");
        let table = options.create_table(&path).unwrap();
        // Over several resizes: what the helper has left to do, sync does.
        for key in 0..20_000 {
            table.put(key, key).unwrap();
            if key % 1999 == 0 {
                table.sync().unwrap();
                assert!(is_clean(&path));
                assert!(!table.stats().unwrap().resizing);
            }
        }
        assert!(!is_clean(&path));
    }
}

#[test]
fn a_synced_image_of_an_open_pool_is_a_pool() {
    let directory = places::in_ram();
    let (path, copy) = (directory.path().join("pool"), directory.path().join("copy"));
    let store = Store::open_or_create(&path).unwrap();
    for round in 0..5u8 {
        for key in 0..200u8 {
            store.put([key], vec![round; 100]).unwrap();
        }
        store.sync().unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let image = Options::new().read_only(true).open_store(&copy).unwrap();
        assert!(image.check().unwrap().is_sound());
        assert!((0..200u8).all(|key| image.get([key]).unwrap().unwrap() == vec![round; 100]));
    }
}

const WRITERS: u64 = 2;
const KEYS: u64 = 16;

/// By which writers let a mark stand from time to time: after a burst they wait for a sync and then for
/// a look of the observer's. Each does so by itself, so marks also fall while they are looked at.
#[derive(Default)]
struct Pace {
    syncs: AtomicU64,
    /// Number of syncs at the beginning of the last look.
    looked_after: AtomicU64,
    is_over: AtomicBool,
}

impl Pace {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Called by a writer: returns when what it has written was synced and looked at.
    fn pause(&self) {
        // One may be under way that does not have it.
        let enough = self.syncs.load(Ordering::SeqCst) + 2;
        while self.looked_after.load(Ordering::SeqCst) < enough && !self.is_over() {
            std::thread::yield_now();
        }
    }

    fn sync_without_end(&self, sync: impl Fn()) {
        while !self.is_over() {
            sync();
            self.syncs.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    /// Called by the observer, until it has seen enough marks standing.
    fn look(&self, look: impl FnOnce() -> bool) -> u64 {
        let syncs = self.syncs.load(Ordering::SeqCst);
        let has_seen_one = look();
        self.looked_after.store(syncs, Ordering::SeqCst);
        std::thread::yield_now();
        u64::from(has_seen_one)
    }
}

/// The file's superblock if it says clean.
fn clean_sequence(file: &File) -> Option<u64> {
    let mut bytes = [0; pmem::superblock::SUPERBLOCK_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    if first != second {
        // The mark is being written: one copy says it already, the other is about to change.
        return None;
    }
    // Read beside a change of the superblock, both copies may look torn.
    let superblock = std::panic::catch_unwind(|| decode(&bytes)).ok()?;
    superblock.clean.then_some(superblock.sequence)
}

/// Ends the other threads also if an assertion fails: the scope waits for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Writers write in bursts beside someone who syncs without end. An observer reads the file: as
/// long as it is marked clean with one sequence number, all of it stays as it is, has everything
/// that was acknowledged before, and opens as a pool.
#[test]
fn a_pool_marked_clean_does_not_change() {
    for &engine in Engine::ALL {
        let directory = places::in_ram();
        let (path, copy) = (directory.path().join("pool"), directory.path().join("copy"));
        let store = Options::new().engine(engine).helpers(0).create_store(&path).unwrap();
        let counters = || (0..WRITERS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (issued, returned, pace) = (counters(), counters(), Pace::default());
        let key_of = |writer: u64, number: u64| [writer as u8, (number % KEYS) as u8];
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (store, issued, returned, pace) = (&store, &issued, &returned, &pace);
                scope.spawn(move || {
                    for number in 1.. {
                        if pace.is_over() {
                            break;
                        }
                        issued[writer as usize].store(number, Ordering::SeqCst);
                        let value = number.to_le_bytes().repeat(50);
                        store.put(key_of(writer, number), value).unwrap();
                        returned[writer as usize].store(number, Ordering::SeqCst);
                        if number % 8 == 0 {
                            pace.pause();
                        }
                    }
                });
            }
            scope.spawn(|| pace.sync_without_end(|| store.sync().unwrap()));
            let _ends = Ends(&pace.is_over);
            let file = File::open(&path).unwrap();
            let look = || {
                let Some(sequence) = clean_sequence(&file) else { return false };
                let load = |counters: &[AtomicU64]| -> Vec<u64> {
                    counters.iter().map(|counter| counter.load(Ordering::SeqCst)).collect()
                };
                let returned = load(&returned);
                let (first, second) = (read_all(&file), read_all(&file));
                if clean_sequence(&file) != Some(sequence) {
                    return false;
                }
                let issued = load(&issued);
                assert!(first == second, "bytes changed under the mark {sequence}");
                std::fs::write(&copy, &first).unwrap();
                let image = Options::new().read_only(true).open_store(&copy).unwrap();
                assert!(image.check().unwrap().is_sound());
                for writer in 0..WRITERS {
                    let (from, to) = (returned[writer as usize], issued[writer as usize]);
                    for number in (from + 1).saturating_sub(KEYS).max(1)..=from {
                        let value = image.get(key_of(writer, number)).unwrap().unwrap();
                        let found = u64::from_le_bytes(value[..8].try_into().unwrap());
                        assert!((number..=to).contains(&found), "{found} of {number} to {to}");
                        assert!(value == found.to_le_bytes().repeat(50), "torn");
                    }
                }
                true
            };
            let mut observed = 0;
            while observed < 120 {
                observed += pace.look(look);
            }
        });
    }
}

/// A sync waits for a batch that is under way, however long it takes: what is marked clean has
/// each batch wholly or not at all.
#[test]
fn batches_are_wholly_before_or_after_a_clean_mark() {
    const PAIRS: u64 = 20_000;
    let directory = places::in_ram();
    let (path, copy) = (directory.path().join("pool"), directory.path().join("copy"));
    let options = Options::new().helpers(0).capacity(2 * PAIRS);
    let table = options.create_table(&path).unwrap();
    let batch = |round: u64| (0..PAIRS).map(|key| (key, round)).collect::<Vec<_>>();
    table.put_many(&batch(0)).unwrap();
    let pace = Pace::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                if pace.is_over() {
                    break;
                }
                table.put_many(&batch(round)).unwrap();
                pace.pause();
            }
        });
        scope.spawn(|| pace.sync_without_end(|| table.sync().unwrap()));
        let _ends = Ends(&pace.is_over);
        let file = File::open(&path).unwrap();
        let look = || {
            let Some(sequence) = clean_sequence(&file) else { return false };
            let (first, second) = (read_all(&file), read_all(&file));
            if clean_sequence(&file) != Some(sequence) {
                return false;
            }
            assert!(first == second, "bytes changed under the mark {sequence}");
            std::fs::write(&copy, &first).unwrap();
            let image = Options::new().read_only(true).open_table(&copy).unwrap();
            let round = image.get(0).unwrap();
            image.for_each(|_, value| assert_eq!(Some(value), round)).unwrap();
            assert_eq!(image.len(), PAIRS);
            true
        };
        let mut observed = 0;
        while observed < 60 {
            observed += pace.look(look);
        }
    });
}
