//! Owners and guests that are killed again and again: what a call has returned is there, whoever has died.

use crate::owner::{CACHE_BYTES, FOR_EVER, patient};
use firndex::{Cache, Error, Role, Store};
use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use workload::{Random, effort};

const WORKERS: usize = 3;
/// Keys of a worker. The change of number `n` puts `n` under key `n % KEYS`.
const KEYS: u64 = 64;

/// How far the workers are: for each the number of the last change that it has begun, of the last that has returned,
/// and whether it is the owner. It outlives them.
struct Ledger(File);

impl Ledger {
    fn open(directory: &Path) -> Ledger {
        let path = directory.join("ledger");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        Ledger(file.unwrap())
    }

    fn read(&self, worker: usize, word: u64) -> u64 {
        let mut bytes = [0; 8];
        // What nobody has written yet reads as nothing.
        let read = self.0.read_at(&mut bytes, worker as u64 * 24 + word * 8).unwrap();
        if read == 8 { u64::from_le_bytes(bytes) } else { 0 }
    }

    fn write(&self, worker: usize, word: u64, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), worker as u64 * 24 + word * 8).unwrap();
    }
}

const BEGUN: u64 = 0;
const RETURNED: u64 = 1;
const OWNS: u64 = 2;

fn key(worker: usize, number: u64) -> String {
    format!("worker {worker} key {}", number % KEYS)
}

/// A pool that the workers share.
pub(crate) trait Shared: Deref<Target = firndex::Pool> + Sized {
    /// The role of a worker.
    const ROLE: &str;
    /// Whether what is there may go to make room.
    const EVICTS: bool;

    fn open(path: &Path) -> Self;
    fn put(&self, key: &str, value: &[u8]) -> firndex::Result<()>;
    fn get(&self, key: &str) -> Option<Vec<u8>>;
}

impl Shared for Store {
    const ROLE: &str = "work";
    const EVICTS: bool = false;

    fn open(path: &Path) -> Self {
        patient().guests(true).open_or_create_store(path).unwrap()
    }

    fn put(&self, key: &str, value: &[u8]) -> firndex::Result<()> {
        Store::put(self, key, value).map(drop)
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        Store::get(self, key).unwrap().map(|found| found.to_vec())
    }
}

impl Shared for Cache {
    const ROLE: &str = "cache";
    const EVICTS: bool = true;

    fn open(path: &Path) -> Self {
        patient().guests(true).open_or_create_cache(path, CACHE_BYTES).unwrap()
    }

    fn put(&self, key: &str, value: &[u8]) -> firndex::Result<()> {
        Cache::put(self, key, value)
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        Cache::get(self, key).unwrap().map(|found| found.to_vec())
    }
}

/// Every key of a worker has the value of its last change that returned, or of the one that was cut off; or none, if it
/// may have made room.
fn judge<T: Shared>(pool: &T, ledger: &Ledger, worker: usize) {
    let (begun, returned) = (ledger.read(worker, BEGUN), ledger.read(worker, RETURNED));
    assert!(begun == returned || begun == returned + 1);
    for slot in 0..KEYS {
        let behind = (returned % KEYS + KEYS - slot) % KEYS;
        let last = returned.checked_sub(behind).filter(|&last| last > 0);
        let found = pool.get(&key(worker, slot));
        let found = found.map(|value| u64::from_le_bytes(value[..8].try_into().unwrap()));
        let is_cut_off = begun > returned && begun % KEYS == slot && found == Some(begun);
        assert!(
            found == last || is_cut_off || T::EVICTS && found.is_none(),
            "worker {worker}, key {slot}: {found:?} instead of {last:?}; begun {begun}, returned {returned}"
        );
    }
}

/// A worker: it judges what the one before it has left, and goes on.
pub(crate) fn work<T: Shared>(directory: &Path, worker: usize) {
    let ledger = Ledger::open(directory);
    let pool = T::open(&directory.join("pool"));
    judge(&pool, &ledger, worker);
    // The one that was cut off is made again, whether or not it was made.
    let first = ledger.read(worker, RETURNED) + 1;
    for number in first.. {
        ledger.write(worker, BEGUN, number);
        let mut value = number.to_le_bytes().to_vec();
        // Now and then one that goes through a lane in several parts.
        value.resize(if number % 50 == 0 { 150_000 } else { 40 }, number as u8);
        loop {
            match pool.put(&key(worker, number), &value) {
                Ok(()) => break,
                Err(Error::Interrupted) => {}
                Err(error) => panic!("a change failed: {error:?}"),
            }
        }
        ledger.write(worker, RETURNED, number);
        ledger.write(worker, OWNS, u64::from(pool.role() == Role::Owner));
        if number % 16 == 0 {
            let found = pool.get(&key(worker, number));
            assert!(found.is_some() || T::EVICTS);
            assert!(found.is_none_or(|found| found[..8] == number.to_le_bytes()));
        }
    }
}

fn start<T: Shared>(directory: &Path, worker: usize) -> Child {
    let mut command = crate::owner::role(&format!("{} {worker}", T::ROLE), directory);
    command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn whoever_is_killed_whatever_has_returned_is_there() {
    kill_and_judge::<Store>(effort::of(100, 25));
}

#[test]
fn whoever_is_killed_a_cache_has_nothing_that_was_replaced() {
    kill_and_judge::<Cache>(effort::of(100, 25));
}

fn kill_and_judge<T: Shared>(kills: u64) {
    let temporary = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory: PathBuf = temporary.path().into();
    let ledger = Ledger::open(&directory);
    let mut random = Random::new(7);
    let mut workers: Vec<Child> =
        (0..WORKERS).map(|worker| start::<T>(&directory, worker)).collect();
    let mut owners_killed = 0;
    for _ in 0..kills {
        // Everybody makes changes again: nobody waits for ever for one who has died.
        for (worker, child) in workers.iter_mut().enumerate() {
            let returned = ledger.read(worker, RETURNED);
            let began = Instant::now();
            while ledger.read(worker, RETURNED) == returned {
                std::thread::sleep(Duration::from_micros(200));
                assert!(child.try_wait().unwrap().is_none(), "worker {worker} has ended");
                assert!(began.elapsed() < FOR_EVER, "worker {worker} hangs");
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(4000)));
        let owner = (0..WORKERS).find(|&worker| ledger.read(worker, OWNS) == 1);
        let victim = match owner {
            Some(owner) if random.percent(60) => owner,
            _ => random.index(WORKERS),
        };
        owners_killed += u64::from(Some(victim) == owner);
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        ledger.write(victim, OWNS, 0);
        workers[victim] = start::<T>(&directory, victim);
    }
    for worker in &mut workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    assert!(owners_killed > kills / 4, "{owners_killed} of {kills}");
    let pool = T::open(&directory.join("pool"));
    (0..WORKERS).for_each(|worker| judge(&pool, &ledger, worker));
    assert_eq!(pool.role(), Role::Owner);
    assert!(pool.check().unwrap().is_sound());
    let returned: u64 = (0..WORKERS).map(|worker| ledger.read(worker, RETURNED)).sum();
    println!("{kills} kills, {owners_killed} of them of owners, {returned} changes returned");
}
