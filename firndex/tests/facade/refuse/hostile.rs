//! A damaged or hostile pool may be refused, and its operations may fail; nothing panics, hangs
//! or reads outside of the pool.

use crate::engines::{Anatomy, load};
use crate::places;
use crate::read::items::CutItems;
use crate::superblocks::{PAIRS, PREFERRED, change, decode, make_store_on, make_table_on};
use firndex::{Engine, Error, Options, Store, Table};
use proptest::prelude::*;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// No operation here needs a thousandth of this, on however slow a machine.
const HANGS_AFTER: Duration = Duration::from_secs(600);
const SIZE_MAX_BYTES: u64 = 64 << 20;
const HASH_BITS: u32 = 4;

/// One change of a pool's bytes. Positions count the things of their kind, in a circle.
#[derive(Debug, Clone)]
enum Blow {
    /// Any bytes anywhere behind the superblock.
    Bytes {
        at: usize,
        bytes: Vec<u8>,
    },
    /// Word of a taken slot or node that tells where an item is: a pair's value, if there are pairs.
    Slot {
        at: usize,
        value: Word,
    },
    /// Key word of a slot or node, or any word of one that has a single one.
    Key {
        at: usize,
        value: Word,
    },
    /// State word of a level-3 node or a bucket, or any word of a record or context.
    State {
        at: usize,
        value: Word,
    },
    /// One of the first words of an item or group.
    Item {
        at: usize,
        word: usize,
        value: Word,
    },
    /// A segment's descriptor.
    Descriptor {
        at: usize,
        value: Word,
    },
    ExtentStart {
        at: usize,
        value: Word,
    },
    ExtentBytes {
        at: usize,
        value: Word,
    },
    ExtentOwner {
        at: usize,
        owner: u8,
        index: u8,
    },
    ExtentGone {
        at: usize,
    },
    ExtentTwice {
        at: usize,
    },
    End(Word),
    Root {
        at: usize,
        value: u64,
    },
    Parameter {
        at: usize,
        low: u32,
        high: u32,
    },
    SegmentLog2(u32),
    Counters {
        sequence: u64,
        incarnation: u64,
    },
    HashSeed(u64),
    NotClosed,
}

/// Words that tend to be checked wrongly.
#[derive(Debug, Clone, Copy)]
enum Word {
    Any(u64),
    /// This far from the end of the pool.
    NearEnd(i64),
    /// Another word of the pool.
    From(usize),
    /// The word that is there, with bits flipped.
    Flipped(u64),
}

fn word() -> impl Strategy<Value = Word> {
    let special = vec![
        0,
        1,
        2,
        16,
        17,
        64,
        4096,
        8192,
        (1 << 18) + 1,
        u32::MAX.into(),
        1 << 32,
        1 << 40,
        (1 << 48) - 64,
        i64::MAX as u64,
        u64::MAX,
        u64::MAX - 15,
        u64::from_le_bytes(*b"GROUP\0\0\xff"),
        64 << 10,
        256 << 20,
    ];
    prop_oneof![
        prop::sample::select(special).prop_map(Word::Any),
        any::<u64>().prop_map(Word::Any),
        (0u64..1 << 22).prop_map(Word::Any),
        (-40i64..40).prop_map(|lines| Word::NearEnd(lines * 16)),
        any::<usize>().prop_map(Word::From),
        (0u32..64).prop_map(|bit| Word::Flipped(1 << bit)),
    ]
}

fn engine() -> impl Strategy<Value = Engine> {
    prop::sample::select(Engine::ALL)
}

fn blow() -> impl Strategy<Value = Blow> {
    let at = any::<usize>;
    let few = prop::collection::vec(any::<u8>(), 1..64);
    prop_oneof![
        4 => (at(), few).prop_map(|(at, bytes)| Blow::Bytes { at, bytes }),
        6 => (at(), word()).prop_map(|(at, value)| Blow::Slot { at, value }),
        1 => (at(), word()).prop_map(|(at, value)| Blow::Key { at, value }),
        2 => (at(), word()).prop_map(|(at, value)| Blow::State { at, value }),
        6 => (at(), 0usize..4, word())
            .prop_map(|(at, word, value)| Blow::Item { at, word, value }),
        4 => (at(), word()).prop_map(|(at, value)| Blow::Descriptor { at, value }),
        1 => (at(), word()).prop_map(|(at, value)| Blow::ExtentStart { at, value }),
        1 => (at(), word()).prop_map(|(at, value)| Blow::ExtentBytes { at, value }),
        1 => (at(), 0u8..5, 0u8..6)
            .prop_map(|(at, owner, index)| Blow::ExtentOwner { at, owner, index }),
        1 => at().prop_map(|at| Blow::ExtentGone { at }),
        1 => at().prop_map(|at| Blow::ExtentTwice { at }),
        1 => word().prop_map(Blow::End),
        1 => (0usize..10, prop_oneof![0u64..70, any::<u64>()])
            .prop_map(|(at, value)| Blow::Root { at, value }),
        1 => (0usize..3, prop_oneof![0u32..70, any::<u32>()], prop_oneof![0u32..70, any::<u32>()])
            .prop_map(|(at, low, high)| Blow::Parameter { at, low, high }),
        1 => (0u32..20).prop_map(Blow::SegmentLog2),
        1 => (any::<u64>(), any::<u64>())
            .prop_map(|(sequence, incarnation)| Blow::Counters { sequence, incarnation }),
        1 => any::<u64>().prop_map(Blow::HashSeed),
        1 => Just(Blow::NotClosed),
    ]
}

fn anatomy_of(bytes: &[u8]) -> Anatomy {
    Anatomy::of(&decode(bytes), bytes)
}

impl Anatomy {
    fn strike(&self, bytes: &mut [u8], blow: &Blow) {
        let end = bytes.len();
        let mut set = |places: &[usize], at: usize, offset: usize, value: Word| {
            let Some(place) = places.get(at.checked_rem(places.len()).unwrap_or(0)) else { return };
            let place = place + offset;
            let word = match value {
                Word::Any(word) => word,
                Word::NearEnd(distance) => end.wrapping_add_signed(distance as isize) as u64,
                Word::From(other) => load(bytes, other % (end / 8) * 8),
                Word::Flipped(bits) => load(bytes, place) ^ bits,
            };
            bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
        };
        let plain = |value: Word, old: u64| match value {
            Word::Any(word) => word,
            Word::NearEnd(distance) => end.wrapping_add_signed(distance as isize) as u64,
            Word::From(other) => other as u64,
            Word::Flipped(bits) => old ^ bits,
        };
        match blow {
            Blow::Bytes { at, bytes: new } => {
                let first = pmem::superblock::SUPERBLOCK_BYTES as usize;
                let at = first + at % (end - first - new.len());
                bytes[at..at + new.len()].copy_from_slice(new);
            }
            Blow::Slot { at, value } => set(&self.taken_values, *at, 0, *value),
            Blow::Key { at, value } => set(&self.keys, *at, 0, *value),
            Blow::State { at, value } => set(&self.states, *at, 0, *value),
            Blow::Item { at, word, value } => set(&self.items, *at, 8 * word, *value),
            Blow::Descriptor { at, value } => set(&self.descriptors, *at, 0, *value),
            field => change(bytes, |superblock| {
                let extents = superblock.extents.len();
                match *field {
                    Blow::ExtentStart { at, value } => {
                        let start = &mut superblock.extents[at % extents].start.0;
                        *start = plain(value, *start) & ((1 << 48) - 1);
                    }
                    Blow::ExtentBytes { at, value } => {
                        let bytes = &mut superblock.extents[at % extents].bytes;
                        *bytes = plain(value, *bytes);
                    }
                    Blow::ExtentOwner { at, owner, index } => {
                        superblock.extents[at % extents].owner = owner;
                        superblock.extents[at % extents].index = index;
                    }
                    Blow::ExtentGone { at } => drop(superblock.extents.remove(at % extents)),
                    Blow::ExtentTwice { at } => {
                        let mut twice = superblock.extents[at % extents];
                        twice.start.0 = superblock.end.next_multiple_of(64);
                        twice.bytes = 0;
                        superblock.extents.push(twice);
                    }
                    Blow::End(value) => superblock.end = plain(value, superblock.end),
                    Blow::Root { at, value } => superblock.engine_roots[at] = value,
                    Blow::Parameter { at, low, high } => {
                        superblock.engine_params[at] = u64::from(low) | u64::from(high) << 32;
                    }
                    Blow::SegmentLog2(log2) => superblock.segment_log2 = log2,
                    Blow::Counters { sequence, incarnation } => {
                        superblock.sequence = sequence;
                        superblock.incarnation = incarnation;
                    }
                    Blow::HashSeed(seed) => superblock.hash_seed = seed,
                    _ => superblock.clean = false,
                }
            }),
        }
    }
}

/// Strikes a pool and runs `exercise` on it, in a thread that is given up if it hangs.
fn survive(pool: &[u8], blows: &[Blow], exercise: impl FnOnce(&Path) + Send + 'static) {
    let mut bytes = pool.to_vec();
    for blow in blows {
        // A blow may leave a superblock that says nothing about what else there is.
        let is_readable = std::panic::catch_unwind(|| decode(&bytes)).is_ok();
        if is_readable {
            anatomy_of(pool).strike(&mut bytes, blow);
        }
    }
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    std::fs::write(&path, &bytes).unwrap();
    let (done, outcome) = std::sync::mpsc::channel();
    let victim = std::thread::spawn(move || {
        exercise(&path);
        done.send(()).unwrap();
    });
    match outcome.recv_timeout(HANGS_AFTER) {
        Ok(()) => victim.join().unwrap(),
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(victim.join().unwrap_err())
        }
    }
}

/// Reads some of every page, so that a slice that leaves the pool faults.
fn touch(bytes: &[u8]) -> u64 {
    let last = bytes.last().copied().map_or(0, u64::from);
    bytes.iter().step_by(509).fold(last, |sum, &byte| sum + u64::from(byte))
}

fn touch_both(key: &[u8], value: &[u8]) {
    std::hint::black_box(touch(key) + touch(value));
}

fn options() -> Options {
    Options::new().max_bytes(SIZE_MAX_BYTES)
}

fn exercise_table(path: &Path) {
    for read_only in [true, false] {
        let Ok(table) = options().read_only(read_only).open_table(path) else { continue };
        let keys: Vec<u64> = (0..2000).collect();
        let _ = keys.iter().map(|&key| table.get(key)).collect::<Vec<_>>();
        let _ = table.get_many(&keys);
        let _ = table.for_each(|_, _| {});
        let _ = (table.check(), table.stats(), table.len());
        for key in (0..3000).step_by(7) {
            let _ = (table.put(key, 1), table.update(key + 1, 2), table.remove(key + 2));
        }
        let _ = (table.put_many(&[(0, 1), (1 << 40, 2)]), table.remove_many(&keys[..200]));
        let _ = (table.shrink(), table.check(), table.sync(), table.close());
    }
}

fn exercise_store(path: &Path) {
    for read_only in [true, false] {
        let Ok(store) = options().read_only(read_only).open_store(path) else { continue };
        let keys: Vec<[u8; 4]> = (0..310u32).map(u32::to_le_bytes).collect();
        let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for key in slices.iter().chain([&&b"large"[..]]) {
            let _ = store.get(key).map(|record| record.map(|record| touch(&record)));
        }
        let _ = store.get_many(&slices).map(|records| records.len());
        let _ = store.for_each(touch_both);
        let _ = (store.check(), store.stats(), store.len());
        for (index, key) in slices.iter().enumerate() {
            let value = vec![1; index * 13];
            let _ = match index % 4 {
                0 => store.put(key, value).map(drop),
                1 => store.update(key, value).map(drop),
                2 => store.remove(key).map(drop),
                _ => store.modify(key, |_| Some(value.clone())).map(drop),
            };
        }
        let pairs: Vec<(&[u8], &[u8])> = slices.iter().map(|&key| (key, &b"many"[..])).collect();
        let _ = store.put_many(&pairs).map(drop);
        let _ = store.remove_many(&slices[..100]).map(drop);
        let _ = store.remove("large").map(drop);
        let _ = (store.shrink(), store.check(), store.sync(), store.close());
    }
}

fn exercise_items(path: &Path) {
    let Ok(items) = CutItems::try_open(path, HASH_BITS) else { return };
    let records = items.records();
    let keys: Vec<[u8; 4]> = (0..110u32).map(u32::to_le_bytes).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for key in &slices {
        let _ = records.get(key).map(|record| record.map(|record| touch(record.bytes())));
    }
    let _ = records.get_many(&slices).map(drop);
    let _ = records.for_each(&mut |key, value| touch_both(key, value));
    let _ = (records.check(), records.len());
    let _write = items.write();
    for (index, key) in slices.iter().enumerate() {
        let _ = match index % 3 {
            0 => records.upsert(key, &[1; 90]).map(drop),
            1 => records.remove(key).map(drop),
            _ => records.compare_exchange(key, None, Some(b"new")).map(drop),
        };
    }
    let pairs: Vec<(&[u8], &[u8])> = slices.iter().map(|&key| (key, &b"many"[..])).collect();
    let _ = records.upsert_many(&pairs).map(drop);
    let _ = records.remove_many(&slices).map(drop);
    let _ = records.check();
}

/// The bytes of a pool on each engine, made once.
type Made = OnceLock<Vec<Vec<u8>>>;

/// The bytes of the pool that `make` makes on `engine`.
fn made(bytes: &'static Made, engine: Engine, make: fn(Engine, &Path)) -> &'static [u8] {
    let made_on = |&engine: &Engine| {
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        make(engine, &path);
        std::fs::read(&path).unwrap()
    };
    let all = bytes.get_or_init(|| Engine::ALL.iter().map(made_on).collect());
    &all[Engine::ALL.iter().position(|&other| other == engine).unwrap()]
}

fn make_items(_: Engine, path: &Path) {
    let items = CutItems::create(path, HASH_BITS);
    for key in 0..100u32 {
        items.try_put(&key.to_le_bytes(), &[key as u8; 50]).unwrap();
    }
}

static TABLES: Made = OnceLock::new();
static STORES: Made = OnceLock::new();
static ITEMS: Made = OnceLock::new();

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn tables(blows in prop::collection::vec(blow(), 1..6), engine in engine()) {
        survive(made(&TABLES, engine, make_table_on), &blows, exercise_table);
    }

    #[test]
    fn stores(blows in prop::collection::vec(blow(), 1..6), engine in engine()) {
        survive(made(&STORES, engine, make_store_on), &blows, exercise_store);
    }

    #[test]
    fn items_in_groups(blows in prop::collection::vec(blow(), 1..6)) {
        survive(made(&ITEMS, PREFERRED, make_items), &blows, exercise_items);
    }
}

/// The largest numbers that a superblock can hold are as good as any.
#[test]
fn counters_at_their_end() {
    for &engine in Engine::ALL {
        for counters in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX - 1, u64::MAX - 1)] {
            let (sequence, incarnation) = counters;
            let blows = [Blow::Counters { sequence, incarnation }];
            survive(made(&TABLES, engine, make_table_on), &blows, |path| {
                for _ in 0..3 {
                    // Refused or opened, but if opened then with everything.
                    if let Ok(table) = <Table>::open(path) {
                        crate::superblocks::assert_intact(&table);
                    }
                }
            });
        }
    }
}

#[test]
fn what_was_not_damaged_still_reads_well() {
    for &engine in Engine::ALL {
        let bytes = made(&STORES, engine, make_store_on);
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let anatomy = anatomy_of(bytes);
        let mut struck = bytes.to_vec();
        // Far beyond the end, in any engine's units.
        anatomy.strike(&mut struck, &Blow::Slot { at: 5, value: Word::Flipped(1 << 37) });
        anatomy.strike(&mut struck, &Blow::Item { at: 9, word: 1, value: Word::Any(1 << 50) });
        std::fs::write(&path, &struck).unwrap();
        let store = Store::open(&path).unwrap();
        let read =
            |key: u32| store.get(key.to_le_bytes()).map(|found| found.map(|bytes| bytes.len()));
        let (mut well, mut badly) = (0, Vec::new());
        for key in 0..300 {
            match read(key) {
                Ok(len) => {
                    assert_eq!(len, Some(key as usize % 97));
                    well += 1;
                }
                Err(error) => badly.push(error),
            }
        }
        assert!(well >= 298 && well + badly.len() == 300, "{badly:?}");
        assert!(!badly.is_empty());
        for error in &badly {
            assert!(matches!(error, firndex::Error::Corrupt(_)), "{error:?}");
            assert!(error.to_string().contains("run `check`"), "{error}");
        }
        let report = store.check().unwrap();
        assert!(!report.is_sound() && report.findings.len() >= badly.len(), "{report:?}");
    }
}

/// On engines that keep the pairs of a table in items.
#[test]
fn a_change_that_meets_damage_says_so() {
    let keeps_items = |engine: &&Engine| {
        let table = Options::new().engine(**engine).in_memory_table().unwrap();
        table.put(1, 1).unwrap();
        table.stats().unwrap().heap_bytes > 0
    };
    let engines: Vec<_> = Engine::ALL.iter().filter(keeps_items).collect();
    assert!(!engines.is_empty());
    engines.into_iter().for_each(|&engine| changes_tell_of_damage(engine));
}

fn changes_tell_of_damage(engine: Engine) {
    let bytes = made(&TABLES, engine, make_table_on);
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let mut struck = bytes.to_vec();
    let beyond_the_end = Blow::Slot { at: 5, value: Word::Flipped(1 << 37) };
    anatomy_of(bytes).strike(&mut struck, &beyond_the_end);
    type Change = fn(&Table, u64) -> firndex::Result<()>;
    let changes: [Change; 5] = [
        |table, key| table.put(key, 1).map(drop),
        |table, key| table.update(key, 1).map(drop),
        |table, key| table.remove(key).map(drop),
        |table, key| table.put_many(&[(key, 1)]).map(drop).map_err(Error::from),
        |table, key| table.remove_many(&[key]).map(drop).map_err(Error::from),
    ];
    for change in changes {
        std::fs::write(&path, &struck).unwrap();
        let table = <Table>::open(&path).unwrap();
        let refused: Vec<_> = (0..PAIRS).filter_map(|key| change(&table, key).err()).collect();
        assert!(!refused.is_empty());
        for error in refused {
            assert!(matches!(error, firndex::Error::Corrupt(_)), "{error:?}");
            assert!(error.to_string().contains("run `check`"), "{error}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_value_is_found_by_check() {
    for &engine in Engine::ALL {
        let bytes = made(&STORES, engine, make_store_on);
        let directory = places::in_ram();
        let path = directory.path().join("pool");
        let anatomy = anatomy_of(bytes);
        for at in [3, 30, 200] {
            let mut struck = bytes.to_vec();
            anatomy.strike(&mut struck, &Blow::Item { at, word: 2, value: Word::Flipped(1 << 9) });
            std::fs::write(&path, &struck).unwrap();
            let report = Store::open(&path).unwrap().check().unwrap();
            assert!(
                report.findings.iter().any(|finding| finding.contains("checksum")),
                "{report:?}"
            );
        }
    }
}
