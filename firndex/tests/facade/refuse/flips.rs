//! Single bits that flip anywhere in a closed pool: what then answers otherwise is found by `check`, as far as there
//! are checksums.

use crate::superblocks::{PAIRS, decode, make_table_on};
use crate::{effort, places};
use firndex::{Engine, Options, Store, Table};
use std::path::Path;
use workload::Random;

/// Bits that are tried on each engine, for tables and for stores, unless `FIRNDEX_FLIPS` says how many.
const TRIES: u64 = 150;

fn tries() -> u64 {
    std::env::var("FIRNDEX_FLIPS")
        .map_or_else(|_| effort::of(TRIES, TRIES / 4), |number| number.parse().expect("a number"))
}

/// What became of the tries.
#[derive(Debug, Default)]
struct Flips {
    tried: u64,
    /// The pool could not be opened.
    refused: u64,
    /// It answered otherwise, and `check` said so.
    found: u64,
    /// It answered otherwise, and `check` did not.
    missed: u64,
    /// It answered as before, whatever `check` said.
    harmless: u64,
}

/// Everything that a pool answers: what a scan shows, and the answers for keys.
type Answers = (Vec<(Vec<u8>, Vec<u8>)>, Vec<Option<Vec<u8>>>);

fn options() -> Options {
    Options::new().read_only(true).may_lack_pairs(true).helpers(0).threads(1)
}

fn of_table(path: &Path) -> firndex::Result<(Answers, bool)> {
    let table: Table = options().open_table(path)?;
    let bytes = |number: u64| number.to_le_bytes().to_vec();
    let mut pairs = Vec::new();
    table.for_each(|key, value| pairs.push((bytes(key), bytes(value))))?;
    pairs.sort();
    let keys: Vec<u64> = (0..PAIRS + 100).collect();
    let values = table.get_many(&keys)?.into_iter().map(|value| value.map(bytes));
    Ok(((pairs, values.collect()), table.check()?.is_sound()))
}

const STORED: u32 = 300;

fn of_store(path: &Path) -> firndex::Result<(Answers, bool)> {
    let store: Store = options().open_store(path)?;
    let mut pairs = Vec::new();
    // What cannot be read is an answer, too.
    if store.for_each(|key, value| pairs.push((key.to_vec(), value.to_vec()))).is_err() {
        pairs.push((b"an error".to_vec(), vec![]));
    }
    pairs.sort();
    let get = |key: u32| match store.get(key.to_le_bytes()) {
        Ok(found) => found.map(|value| value.to_vec()),
        Err(_) => Some(b"an error".to_vec()),
    };
    Ok(((pairs, (0..STORED + 50).map(get).collect()), store.check()?.is_sound()))
}

fn make_small_store_on(engine: Engine, path: &Path) {
    let store = Options::new().engine(engine).create_store(path).unwrap();
    for key in 0..STORED {
        store.put(key.to_le_bytes(), vec![key as u8; key as usize % 97]).unwrap();
    }
    store.put("large", vec![5; 70_000]).unwrap();
    store.close().unwrap();
}

/// Flips one bit after the other. `is_excused` is asked of answers that `check` did not find fault with.
fn flip(
    engine: Engine,
    tries: u64,
    make: impl Fn(Engine, &Path),
    answers_of: impl Fn(&Path) -> firndex::Result<(Answers, bool)>,
    is_excused: impl Fn(&Answers, &Answers) -> bool,
) -> Flips {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    make(engine, &path);
    let bytes = std::fs::read(&path).unwrap();
    let end = decode(&bytes).end;
    let (before, is_sound) = answers_of(&path).unwrap();
    assert!(is_sound);
    let mut random = Random::new(engine.description().id.into());
    let mut flips = Flips::default();
    for _ in 0..tries {
        let (at, bit) = (random.below(end) as usize, random.below(8));
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        std::fs::write(&path, &flipped).unwrap();
        flips.tried += 1;
        match answers_of(&path) {
            Err(_) => flips.refused += 1,
            Ok((answers, _)) if answers == before => flips.harmless += 1,
            Ok((_, false)) => flips.found += 1,
            Ok((answers, true)) => {
                flips.missed += 1;
                assert!(is_excused(&before, &answers), "{engine}: bit {bit} of {at:#x}");
            }
        }
    }
    flips
}

/// Items have a checksum, and slots of a store lead to items with their keys.
fn flips_of_a_store(engine: Engine, tries: u64) -> Flips {
    flip(engine, tries, make_small_store_on, of_store, |_, _| false)
}

/// Pairs of a table that are no items have none: a value may be another one, and so may a key that has its place there.
fn flips_of_a_table(engine: Engine, tries: u64) -> Flips {
    let is_of_one_pair = |before: &Answers, after: &Answers| {
        let others = |one: &Answers, other: &Answers| {
            one.0.iter().filter(|pair| other.0.binary_search(pair).is_err()).count()
        };
        others(before, after) <= 1 && others(after, before) <= 1
    };
    let has_items = {
        let table = Options::new().engine(engine).in_memory_table().unwrap();
        table.put(1, 1).unwrap();
        table.stats().unwrap().heap_bytes > 0
    };
    let excuse = |before: &Answers, after: &Answers| !has_items && is_of_one_pair(before, after);
    flip(engine, tries, make_table_on, of_table, excuse)
}

#[test]
fn check_finds_flipped_bits_of_stores() {
    for &engine in Engine::ALL {
        let flips = flips_of_a_store(engine, tries());
        println!("{engine}, store: {flips:?}");
        assert!(flips.missed == 0 && flips.found > 0, "{engine}: {flips:?}");
    }
}

#[test]
fn check_finds_flipped_bits_of_tables_but_for_single_pairs() {
    for &engine in Engine::ALL {
        let flips = flips_of_a_table(engine, tries());
        println!("{engine}, table: {flips:?}");
        assert!(flips.found > 0, "{engine}: {flips:?}");
    }
}
