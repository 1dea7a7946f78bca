//! Shrinking: for those who removed much, beside those who go on.

use crate::byte_map::ByteMap;
use crate::{effort, places, processes};
use firndex::{Engine, Error, Options, Store, Table, inspect};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::Random;

fn value_of(key: u64) -> u64 {
    key.wrapping_mul(31) ^ 7
}

fn fill(table: &Table, keys: std::ops::Range<u64>) {
    for key in keys {
        assert_eq!(table.put(key, value_of(key)).unwrap(), None);
    }
}

#[track_caller]
fn assert_holds(table: &Table, keys: u64) {
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((table.len(), report.pairs), (keys, keys));
    for key in 0..keys {
        assert_eq!(table.get(key).unwrap(), Some(value_of(key)), "key {key}");
    }
    assert_eq!(table.get(keys).unwrap(), None);
}

#[test]
fn a_table_is_halved_after_removals_and_grows_again() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        // A helper takes space ahead, sooner or later: how much there is then is a matter of time.
        let options = Options::new().engine(engine).helpers(0);
        let table = options.create_table(&path).unwrap();
        let first = table.stats().unwrap().capacity;
        assert!(!table.shrink().unwrap(), "smaller than it was made");
        fill(&table, 0..20_000);
        let largest = table.stats().unwrap();
        assert!(!table.shrink().unwrap(), "{:?} fit into half", table.stats().unwrap());
        for key in 1000..20_000 {
            assert_eq!(table.remove(key).unwrap(), Some(value_of(key)));
        }
        assert_eq!(table.stats().unwrap().capacity, largest.capacity, "shrunk unasked");
        let mut halvings = 0;
        while table.shrink().unwrap() {
            halvings += 1;
            assert_eq!(table.stats().unwrap().capacity, largest.capacity >> halvings);
            assert_holds(&table, 1000);
        }
        assert!(halvings > 2, "{engine}: halved {halvings} times");
        let shrunk = table.stats().unwrap();
        // Smaller levels may be there before larger ones are given up.
        assert!(shrunk.pool_bytes < largest.pool_bytes * 5 / 4, "{shrunk:?}");
        table.close().unwrap();

        let table = options.open_table(&path).unwrap();
        assert_eq!(table.stats().unwrap().capacity, largest.capacity >> halvings, "remembered");
        assert_holds(&table, 1000);
        for key in 0..1000 {
            assert_eq!(table.remove(key).unwrap(), Some(value_of(key)));
        }
        while table.shrink().unwrap() {}
        let emptied = table.stats().unwrap();
        assert_eq!(emptied.capacity, first, "as small as it was made");
        fill(&table, 0..20_000);
        // Where it grows depends on which keys meet.
        assert!(table.stats().unwrap().capacity <= 2 * largest.capacity, "grown as before");
        if table.stats().unwrap().capacity == largest.capacity {
            assert!(
                table.stats().unwrap().pool_bytes <= emptied.pool_bytes,
                "into space that it had"
            );
        }
        assert_holds(&table, 20_000);
    }
}

#[test]
fn a_table_halves_by_itself_and_then_keeps_its_size() {
    const KEPT: u64 = 200;
    for &engine in Engine::ALL.iter().filter(|engine| engine.description().shrinks_by_itself) {
        for helpers in [0, 1] {
            let options = Options::new().engine(engine).shrink_at(0.2).helpers(helpers);
            let table = options.in_memory_table().unwrap();
            fill(&table, 0..20_000);
            let largest = table.stats().unwrap().capacity;
            (KEPT..20_000).for_each(|key| assert!(table.remove(key).unwrap().is_some()));
            // What comes and goes does the rest of the work.
            let come_and_go = || {
                for key in 0..20_000 {
                    table.put(KEPT + key, key).unwrap();
                    table.remove(KEPT + key).unwrap();
                }
                table.stats().unwrap().capacity
            };
            let mut smallest = come_and_go();
            assert!(smallest <= largest / 8, "{engine}: {largest} slots became {smallest}");
            // A helper that gets no processor is late with the last halvings.
            loop {
                let now = come_and_go();
                if now == smallest {
                    break;
                }
                assert!(now < smallest, "{engine}: it grew again, to {now}");
                smallest = now;
            }
            assert_eq!(come_and_go(), smallest, "{engine}");
            assert_holds(&table, KEPT);
        }
    }
}

#[test]
fn a_table_made_for_many_pairs_is_not_made_smaller() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).capacity(10_000);
        let table = options.in_memory_table().unwrap();
        let capacity = table.stats().unwrap().capacity;
        assert!(capacity >= 10_000);
        assert!(!table.shrink().unwrap());
        assert_eq!(table.stats().unwrap().capacity, capacity);
    }
}

fn bytes_of(key: u32) -> Vec<u8> {
    vec![key as u8; 1 + key as usize % 300]
}

#[test]
fn a_store_is_halved_and_keeps_its_bytes() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine);
        let store = options.create_store(&path).unwrap();
        for key in 0..10_000u32 {
            store.put(key.to_le_bytes(), bytes_of(key)).unwrap();
        }
        store.put("large", vec![1; 300_000]).unwrap();
        let largest = store.stats().unwrap().capacity;
        for key in 500..10_000u32 {
            assert!(store.remove(key.to_le_bytes()).unwrap().unwrap() == bytes_of(key));
        }
        // Found before, read after.
        let held = store.get("large").unwrap().unwrap();
        let mut halvings = 0;
        while store.shrink().unwrap() {
            halvings += 1;
        }
        assert!(halvings > 2, "{engine}: halved {halvings} times");
        assert_eq!(store.stats().unwrap().capacity, largest >> halvings);
        assert!(*held == [1; 300_000]);
        drop(held);
        let is_whole = |store: &Store| {
            let contents = store.sound_contents();
            let all = (0..500u32).all(|key| contents[&key.to_le_bytes()[..]] == bytes_of(key));
            all && contents.len() == 501 && contents[&b"large"[..]] == [1; 300_000]
        };
        assert!(is_whole(&store));
        store.close().unwrap();
        let store = options.open_store(&path).unwrap();
        assert!(is_whole(&store));
        for key in 500..10_000u32 {
            assert!(store.put(key.to_le_bytes(), bytes_of(key)).unwrap().is_none());
        }
        // Where it grows depends on which keys meet.
        assert!(store.stats().unwrap().capacity <= 2 * largest, "grown as before");
        assert_eq!(store.len(), 10_001);
        assert!(store.check().is_sound());
    }
}

/// Ends the other threads also if an assertion fails: the scope waits for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A writer fills and empties the table in waves, so that it grows between the shrinks; another has
/// keys of its own; readers know that some keys stay.
#[test]
fn beside_readers_and_writers() {
    const KEPT: u64 = 2000;
    const WAVE: u64 = 20_000;
    for engine in effort::engines() {
        let table = &Options::new().engine(engine).in_memory_table().unwrap();
        fill(table, 0..KEPT);
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let wave = KEPT..KEPT + WAVE;
                    wave.clone().for_each(|key| assert_eq!(table.insert(key, !key).unwrap(), None));
                    wave.for_each(|key| assert_eq!(table.remove(key).unwrap(), Some(!key)));
                }
            });
            scope.spawn(move || {
                const OWN: u64 = 1 << 40;
                let mut number = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let key = OWN + number % 100;
                    let before = number.checked_sub(100);
                    assert_eq!(table.put(key, number).unwrap(), before, "the last is replaced");
                    number += 1;
                }
                table.remove_many(&(OWN..OWN + 100).collect::<Vec<_>>()).unwrap();
            });
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    for key in 0..KEPT {
                        assert_eq!(table.get(key).unwrap(), Some(value_of(key)), "key {key}");
                        assert_eq!(table.get(key | 1 << 50).unwrap(), None);
                    }
                }
            });
            let _ends = Ends(is_over);
            let mut halvings = 0;
            while halvings < 20 {
                halvings += u32::from(table.shrink().unwrap());
                std::thread::yield_now();
            }
        });
        assert_holds(table, KEPT);
    }
}

/// Then the larger table needs no space in the pool, and the limit says nothing of its sidecar.
#[test]
fn a_halved_table_grows_again_under_a_limit_below_its_size() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let options = Options::new().engine(engine).helpers(0);
        let table = options.create_table(&path).unwrap();
        fill(&table, 0..20_000);
        for key in 100..20_000 {
            table.remove(key).unwrap();
        }
        while table.shrink().unwrap() {}
        table.close().unwrap();
        let table = options.max_bytes(8192).open_table(&path).unwrap();
        let full = (100..20_000).find(|&key| table.put(key, value_of(key)).is_err());
        let pairs = full.unwrap_or(20_000);
        assert_holds(&table, pairs);
        drop(table);
        assert_holds(&Table::open(&path).unwrap(), pairs);
    }
}

#[test]
fn a_full_pool_is_no_obstacle() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(600_000);
        let table = options.in_memory_table().unwrap();
        let pairs = (0..).find(|&key| table.put(key, value_of(key)).is_err()).unwrap();
        for key in 100..pairs {
            table.remove(key).unwrap();
        }
        let shrunk = (0..).map_while(|_| table.shrink().ok().filter(|&halved| halved)).count();
        if shrunk == 0 {
            // It takes new levels first, and says that there is no room for them.
            let error = table.shrink().unwrap_err();
            assert!(matches!(error, Error::PoolFull(_)), "{error:?}");
        }
        assert_holds(&table, 100);
        // Full is where one key finds no room: not at the same number of pairs each time.
        fill(&table, 100..pairs * 9 / 10);
        assert_holds(&table, pairs * 9 / 10);
    }
}

/// A sync marks the pool clean; a shrink must take the mark off before it writes.
#[test]
fn a_shrink_is_a_write() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let table = Options::new().engine(engine).create_table(&path).unwrap();
        fill(&table, 0..5000);
        for key in 10..5000 {
            table.remove(key).unwrap();
        }
        table.sync().unwrap();
        assert!(inspect(&path).unwrap().clean);
        assert!(table.shrink().unwrap());
        assert!(!inspect(&path).unwrap().clean);
        table.sync().unwrap();
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        assert_holds(&Options::new().read_only(true).open_table(&copy).unwrap(), 10);
        assert_holds(&table, 10);
    }
}

/// Keys that a killed process updates; the others come and go in waves.
const UPDATED: u64 = 500;
/// Written when a process begins, after each update, and after each shrink that halved the table.
const BEGUN: u8 = 0xef;
const RETURNED: u8 = 0xf0;
const HALVED: u8 = 0xf1;

/// A role: one thread grows the table by a wave of pairs, removes them and shrinks it, again and
/// again; another updates the rest, key *n* modulo their count with *n*.
pub(crate) fn grow_and_shrink(path: &Path) {
    const WAVE: u64 = 6000;
    let table = &Options::new().open_table(path).unwrap();
    let mut output = processes::unbuffered_output();
    output.write_all(&[BEGUN]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let keys: Vec<u64> = (UPDATED..UPDATED + WAVE).collect();
            let pairs: Vec<(u64, u64)> = keys.iter().map(|&key| (key, value_of(key))).collect();
            let mut output = processes::unbuffered_output();
            loop {
                table.put_many(&pairs).unwrap();
                table.remove_many(&keys).unwrap();
                while table.shrink().unwrap() {
                    output.write_all(&[HALVED]).unwrap();
                }
            }
        });
        for number in UPDATED.. {
            table.update(number % UPDATED, number).unwrap();
            output.write_all(&[RETURNED]).unwrap();
        }
    });
}

#[test]
fn killed_in_the_midst() {
    for engine in effort::engines() {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let mut random = Random::new(5);
        let updated: Vec<(u64, u64)> = (0..UPDATED).map(|key| (key, key)).collect();
        let mut halvings = 0;
        for round in 0..12 {
            if round % 4 == 0 {
                let _ = std::fs::remove_file(&path);
                let table = Options::new().engine(engine).create_table(&path).unwrap();
                table.put_many(&updated).unwrap();
            }
            let mut command = processes::process("grow and shrink", engine, &path, 0);
            let mut writer = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut output = writer.stdout.take().unwrap();
            let mut byte = [0];
            while byte != [BEGUN] {
                output.read_exact(&mut byte).unwrap();
            }
            // After some updates, or as many halvings; of what it does then, the clock chooses the moment,
            // and nothing depends on that.
            let awaited = if round % 2 == 0 { RETURNED } else { HALVED };
            let mut left = if round % 2 == 0 { random.below(4000) } else { 1 + random.below(3) };
            let mut written = Vec::new();
            while left > 0 {
                output.read_exact(&mut byte).unwrap();
                written.extend(byte);
                left -= u64::from(byte == [awaited]);
            }
            std::thread::sleep(Duration::from_micros(random.below(3000)));
            writer.kill().unwrap();
            writer.wait().unwrap();
            output.read_to_end(&mut written).unwrap();
            let count = |wanted| written.iter().filter(|&&byte| byte == wanted).count() as u64;
            halvings += count(HALVED);

            let table = Options::new().open_table(&path).unwrap();
            let report = table.check().unwrap();
            assert!(report.is_sound(), "round {round}: {:#?}", report.findings);
            // The one that was under way may have happened.
            let next = UPDATED + count(RETURNED);
            for key in 0..UPDATED {
                let found = table.get(key).unwrap().unwrap();
                let last = next - 1 - (next - 1 - key) % UPDATED;
                let pending = found == next && next % UPDATED == key;
                assert!(found == last || pending, "round {round}: {found}, expected {last}");
            }
            let mut pairs = 0;
            table
                .for_each(|key, value| {
                    assert!(key < UPDATED || value == value_of(key), "key {key}: {value}");
                    pairs += 1;
                })
                .unwrap();
            assert_eq!((table.len(), report.pairs), (pairs, pairs));
            // As the next process expects them.
            table.put_many(&updated).unwrap();
        }
        assert!(halvings > 5, "halved {halvings} times");
    }
}
