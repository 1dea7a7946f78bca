//! Tables of other keys and values than words: what is stored is found, by every operation; sizes
//! are remembered and compared; what no engine takes is refused.

use crate::api::equality::{Alike, Never};
use crate::places;
use crate::superblocks::{assert_refused, change};
use engines::engine::Parameters;
use firndex::{Engine, Error, Fixed, OpenError, Options, Table, inspect};
use std::collections::HashMap;
use std::path::Path;
use workload::Random;

/// `N` bytes, as a type that the compiler takes for another size: layouts and comparisons ask for
/// [`Fixed::layout_bytes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late<const N: usize>([u8; N]);

impl<const N: usize> Fixed for Late<N> {
    const BYTES: usize = 1;

    fn layout_bytes() -> usize {
        N
    }

    fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    fn of_words(word: impl Fn(usize) -> u64) -> Self {
        Late(Fixed::of_words(word))
    }
}

/// Any value of the type, with some that are special, drawn from `kinds` different ones.
fn any<T: Fixed>(random: &mut Random, kinds: u64) -> T {
    let seed = match random.below(kinds) {
        0 => return T::of_words(|_| 0),
        1 => return T::of_words(|_| u64::MAX),
        2 => return T::of_words(|index| u64::from(index == 0)),
        seed => seed,
    };
    T::of_words(|index| Random::new(seed << 8 | index as u64).word())
}

/// The bytes of a value, whatever its type calls equal.
fn words<T: Fixed>(value: T) -> Vec<u64> {
    (0..T::layout_bytes().div_ceil(8)).map(|index| value.word(index)).collect()
}

fn words_in<T: Fixed>(value: Option<T>) -> Option<Vec<u64>> {
    value.map(words)
}

/// Keys and values, as their words.
type Model = HashMap<Vec<u64>, Vec<u64>>;

/// All operations against a `HashMap`, over growth and reopenings.
pub(crate) fn is_a_map<K: Fixed, V: Fixed>(engine: Engine) {
    const KINDS: u64 = 3000;
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let options = Options::new().engine(engine);
    let mut random = Random::new(K::layout_bytes() as u64 * 1000 + V::layout_bytes() as u64);
    let mut model = Model::new();
    let mut table: Table<K, V> = options.create_table_of(&path).unwrap();
    let first_capacity = table.stats().unwrap().capacity;
    for number in 0..12_000 {
        let (key, value) = (any::<K>(&mut random, KINDS), any::<V>(&mut random, 1 << 20));
        let there = model.get(&words(key)).cloned();
        match random.below(if number % 3000 < 2000 { 9 } else { 14 }) {
            0 => assert_eq!(words_in(table.get(key).unwrap()), there),
            1 | 2 => {
                assert_eq!(words_in(table.put(key, value).unwrap()), there);
                model.insert(words(key), words(value));
            }
            3 => {
                assert_eq!(words_in(table.insert(key, value).unwrap()), there);
                model.entry(words(key)).or_insert(words(value));
            }
            4 => {
                assert_eq!(words_in(table.update(key, value).unwrap()), there);
                model.entry(words(key)).and_modify(|old| *old = words(value));
            }
            5 => {
                let found = table.get(key).unwrap();
                let expected = if random.below(4) == 0 { Some(value) } else { found };
                let new = (random.below(2) == 0).then_some(value);
                let done = table.compare_exchange(key, expected, new).unwrap();
                if words_in(expected) == there {
                    assert!(
                        done.is_ok(),
                        "{} and {} bytes on {engine}",
                        K::layout_bytes(),
                        V::layout_bytes()
                    );
                    match new {
                        Some(value) => model.insert(words(key), words(value)),
                        None => model.remove(&words(key)),
                    };
                } else {
                    assert_eq!(done.map_err(words_in), Err(there));
                }
            }
            6 => {
                let batch: Vec<(K, V)> = (0..random.below(40))
                    .map(|_| (any(&mut random, KINDS), any(&mut random, 1 << 20)))
                    .collect();
                let keys: Vec<K> = batch.iter().map(|pair| pair.0).collect();
                let mut out = vec![None; batch.len()];
                match random.below(4) {
                    0 => {
                        table.insert_many_into(&batch, &mut out).unwrap();
                        for (&(key, value), &found) in batch.iter().zip(&out) {
                            assert_eq!(words_in(found), model.get(&words(key)).cloned());
                            model.entry(words(key)).or_insert(words(value));
                        }
                    }
                    1 => {
                        table.update_many_into(&batch, &mut out).unwrap();
                        for (&(key, value), &found) in batch.iter().zip(&out) {
                            assert_eq!(words_in(found), model.get(&words(key)).cloned());
                            model.entry(words(key)).and_modify(|old| *old = words(value));
                        }
                    }
                    2 => {
                        let replaced = table.put_many(&batch).unwrap();
                        for (&(key, value), replaced) in batch.iter().zip(replaced) {
                            let before = model.insert(words(key), words(value));
                            assert_eq!(words_in(replaced), before);
                        }
                    }
                    _ => {
                        let removed = table.remove_many(&keys).unwrap();
                        for (&key, removed) in keys.iter().zip(removed) {
                            assert_eq!(words_in(removed), model.remove(&words(key)));
                        }
                    }
                }
                let found = table.get_many(&keys).unwrap();
                for (&key, found) in keys.iter().zip(found) {
                    assert_eq!(words_in(found), model.get(&words(key)).cloned());
                }
            }
            7 => {
                let mut calls = 0;
                let change = |found: Option<V>| {
                    calls += 1;
                    assert!(calls == 1, "alone, and yet not the first time, on {engine}");
                    found.is_none().then_some(value)
                };
                assert_eq!(words_in(table.modify(key, change).unwrap()), there);
                match there {
                    Some(_) => model.remove(&words(key)),
                    None => model.insert(words(key), words(value)),
                };
            }
            _ => {
                assert_eq!(words_in(table.remove(key).unwrap()), there);
                model.remove(&words(key));
            }
        }
        assert_eq!(table.len(), model.len() as u64);
        if number % 4000 == 3999 {
            assert_holds(&table, &model);
            table.close().unwrap();
            let info = inspect(&path).unwrap();
            let sizes = (K::layout_bytes() as u32, V::layout_bytes() as u32);
            assert_eq!((info.key_bytes, info.value_bytes, info.engine), (sizes.0, sizes.1, engine));
            table = options.open_table_of(&path).unwrap();
            assert_holds(&table, &model);
        }
    }
    if K::layout_bytes() > 1 {
        assert!(
            table.stats().unwrap().capacity > first_capacity,
            "it did not grow: {:?}",
            table.stats().unwrap()
        );
    }
}

#[track_caller]
fn assert_holds<K: Fixed, V: Fixed>(table: &Table<K, V>, model: &Model) {
    let report = table.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    let mut found = Model::new();
    let visit = |key, value| assert_eq!(found.insert(words(key), words(value)), None, "twice");
    table.for_each(visit).unwrap();
    assert_eq!(found, *model);
}

#[test]
fn every_engine_keeps_all_types_of_8_bytes() {
    for &engine in Engine::ALL {
        is_a_map::<u64, u64>(engine);
        is_a_map::<i64, [u8; 8]>(engine);
    }
}

/// Finer than bytes, as a NaN is, and coarser, as zeros of two signs are: no table asks.
#[test]
fn what_a_type_calls_equal_decides_nothing() {
    for &engine in Engine::ALL {
        is_a_map::<Never<8>, Never<8>>(engine);
        is_a_map::<Alike<8>, Alike<8>>(engine);
    }
}

#[test]
fn types_without_a_shape_read_any_table_of_their_size() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        let path = directory.path().join(engine.name());
        let table = Options::new().engine(engine).create_table(&path).unwrap();
        table.put(0x0807_0605_0403_0201, u64::MAX).unwrap();
        table.put(u64::MAX, 0x0201).unwrap();
        table.close().unwrap();
        let table = Options::new().open_table_of::<Alike<8>, Alike<8>>(&path).unwrap();
        let get = |key: [u8; 8]| table.get(Alike(key)).unwrap().map(|Alike(value)| value);
        assert_eq!(get([1, 2, 3, 4, 5, 6, 7, 8]), Some([0xff; 8]));
        assert_eq!(get([0xff; 8]), Some([1, 2, 0, 0, 0, 0, 0, 0]));
    }
}

/// Also from one to the other: a type of the size of the pool's pairs, and one that only says so at run time.
#[test]
fn a_size_told_at_run_time_is_that_of_the_layout() {
    let directory = places::in_ram();
    for &engine in Engine::ALL {
        if !engine.may_hold(firndex::PairSizes { key_bytes: 20, value_bytes: 9 }) {
            continue;
        }
        let path = directory.path().join(engine.name());
        let nth = |number: u32| any::<[u8; 20]>(&mut Random::new(number.into()), 1 << 32);
        let table: Table<[u8; 20], [u8; 9]> =
            Options::new().engine(engine).create_table_of(&path).unwrap();
        (0..500).for_each(|number| {
            assert_eq!(table.put(nth(number), [number as u8; 9]).unwrap(), None)
        });
        let (order, _) = table.scan(0, 500).unwrap();
        table.close().unwrap();

        let late: Table<Late<20>, Late<9>> = Options::new().open_table_of(&path).unwrap();
        let report = late.check().unwrap();
        assert!(report.is_sound() && report.pairs == 500, "{:#?}", report.findings);
        let pairs = late.scan(0, 500).unwrap().0.into_iter();
        assert!(pairs.map(|(key, value)| (key.0, value.0)).eq(order), "another order");
        (0..250).for_each(|number| {
            assert!(late.remove(Late(nth(number))).unwrap().is_some());
            assert!(late.put(Late(nth(number + 500)), Late([1; 9])).unwrap().is_none());
        });
        late.close().unwrap();

        let table: Table<[u8; 20], [u8; 9]> = Options::new().open_table_of(&path).unwrap();
        let report = table.check().unwrap();
        assert!(report.is_sound() && report.pairs == 500, "{:#?}", report.findings);
        (0..750).for_each(|number| {
            let value = if number < 500 { [number as u8; 9] } else { [1; 9] };
            let expected = (number >= 250).then_some(value);
            assert_eq!(table.get(nth(number)).unwrap(), expected, "{engine}, {number}");
        });
    }
}

/// Words have a layout of their own, which is chosen at compile time.
#[test]
fn words_are_not_opened_as_pairs_of_a_size_told_later() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    for &engine in Engine::ALL {
        let _ = std::fs::remove_file(&path);
        Options::new().engine(engine).create_table(&path).unwrap().close().unwrap();
        let options = Options::new().read_only(true);
        let says = ["8 and 8 bytes", "open it with u64 and u64"];
        assert_refused(&path, |path| options.open_table_of::<Late<8>, Late<8>>(path), &says);
        assert_refused(&path, |path| options.open_table_of::<u64, Late<8>>(path), &says);
    }
}

/// Creates, in a file and in memory: both are refused, and no file is left.
fn refusal<K: Fixed, V: Fixed>(options: &Options) -> Error {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let errors = [
        options.create_table_of::<K, V>(&path).map(drop).unwrap_err(),
        options.open_or_create_table_of::<K, V>(&path).map(drop).unwrap_err(),
        options.in_memory_table_of::<K, V>().map(drop).unwrap_err(),
    ];
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let said = errors.map(|error| {
        assert!(matches!(error, Error::PairSizes { .. }), "{error:?}");
        (error.to_string(), error)
    });
    assert!(said[0].0 == said[1].0 && said[1].0 == said[2].0);
    let [_, _, (_, error)] = said;
    error
}

#[track_caller]
pub(crate) fn assert_says(error: &Error, says: &[&str]) {
    let message = error.to_string();
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
}

/// Pairs of words, which every engine takes, and ever larger ones.
fn first_that_takes(key_bytes: u32, value_bytes: u32) -> Option<Engine> {
    let sizes = firndex::PairSizes { key_bytes, value_bytes };
    Engine::ALL.iter().copied().find(|engine| engine.takes(sizes, &Parameters::default()))
}

#[test]
fn an_engine_that_does_not_take_the_sizes_says_which_does() {
    let mut refusals = 0;
    for &engine in Engine::ALL {
        let options = Options::new().engine(engine);
        let takes = format!("{engine} takes {}", engine.description().pair_sizes);
        let takes_long = engine.description().pair_bytes_max >= 1008;
        if !takes_long {
            let error = refusal::<[u8; 1000], u64>(&options);
            let other = first_that_takes(1000, 8).unwrap();
            let other = format!("use the engine {other}");
            assert_says(&error, &[&takes, "not keys of 1000 and values of 8 bytes", &other]);
            refusals += 1;
        }
        // Too much for any engine, or nothing to tell keys by.
        for error in [refusal::<[u8; 65537], u64>(&options), refusal::<[u8; 0], u64>(&options)] {
            assert_says(&error, &[&takes, "keep them in a `Store`"]);
        }
    }
    assert!(refusals > 0);
    let error = refusal::<[u8; 65537], u64>(&Options::new());
    assert_says(&error, &["takes keys of 1 byte to 64 KiB", "keys of 65537"]);
}

#[test]
fn the_engine_of_a_new_table_is_the_first_that_takes_it() {
    fn is_first<K: Fixed, V: Fixed>() -> Engine {
        let table = Options::new().in_memory_table_of::<K, V>().unwrap();
        let engine = table.stats().unwrap().engine;
        assert_eq!(first_that_takes(K::BYTES as u32, V::BYTES as u32), Some(engine));
        engine
    }
    let engines = [
        is_first::<u64, u64>(),
        is_first::<i64, [u8; 8]>(),
        is_first::<u32, u128>(),
        is_first::<u64, [u8; 120]>(),
    ];
    assert_eq!(engines[..2], [Engine::ALL[0]; 2]);
}

pub(crate) fn open_of<K: Fixed, V: Fixed>(path: &Path) -> firndex::Result<Table<K, V>> {
    Options::new().open_or_create_table_of(path)
}

#[test]
fn sizes_are_compared_on_opening() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let table = open_of::<u32, u128>(&path).unwrap();
    table.put(1, 2).unwrap();
    table.close().unwrap();
    let advice = "open it with types of the sizes it was made with";
    let mismatch = |error: Error, wrong: &str| {
        let is_typed =
            matches!(error, Error::Open(OpenError::Mismatch { field, .. }) if field == wrong);
        assert!(is_typed, "{wrong}");
    };
    let key = ["key size is 4 bytes", "expected 8 bytes", advice];
    mismatch(assert_refused(&path, open_of::<u64, u64>, &key), "key size");
    mismatch(assert_refused(&path, |path| <Table>::open(path), &key), "key size");
    let read_only = |path: &Path| Options::new().read_only(true).open_table(path);
    mismatch(assert_refused(&path, read_only, &key), "key size");
    let says = ["value size is 16 bytes", "expected 15 bytes", advice];
    let other = directory.path().join("other");
    open_of::<[u8; 16], [u8; 15]>(&other).unwrap().close().unwrap();
    let mut bytes = std::fs::read(&other).unwrap();
    change(&mut bytes, |superblock| superblock.value_bytes = 16);
    std::fs::write(&other, bytes).unwrap();
    mismatch(assert_refused(&other, open_of::<[u8; 16], [u8; 15]>, &says), "value size");
    let says = ["key size is 4 bytes", "expected 1000 bytes", advice];
    mismatch(assert_refused(&path, open_of::<[u8; 1000], u64>, &says), "key size");
    let made_on = inspect(&path).unwrap().engine;
    for &other in Engine::ALL.iter().filter(|engine| **engine != made_on) {
        let open = |path: &Path| Options::new().engine(other).open_table_of::<u32, u128>(path);
        let (is, expected) = (format!("engine is {made_on}"), format!("expected {other}"));
        let says = [&is, &expected, "ask for the engine it was made with"];
        mismatch(assert_refused(&path, open, &says), "engine");
    }
    assert_eq!(open_of::<u32, u128>(&path).unwrap().get(1).unwrap(), Some(2));
}

/// Sizes that the engine does not take can be asked for when the file says them too.
pub(crate) fn make_with_sizes(path: &Path, engine: Engine, key_bytes: u32, value_bytes: u32) {
    let _ = std::fs::remove_file(path);
    Options::new().engine(engine).create_table(path).unwrap().close().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes, |superblock| {
        (superblock.key_bytes, superblock.value_bytes) = (key_bytes, value_bytes);
    });
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn sizes_that_no_build_makes_are_refused() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let other_build = "open it with the firndex version that made it";
    for &engine in Engine::ALL {
        make_with_sizes(&path, engine, 0, u32::MAX);
        assert_refused(&path, open_of::<[u8; 0], u64>, &["4294967295 bytes"]);
        let says = ["0 and 4294967295 bytes", engine.name(), other_build];
        assert_refused(&path, |path| inspect(path), &says);
        make_with_sizes(&path, engine, 65537, 8);
        let sizes = engine.description().pair_sizes;
        let says = ["key and value size is 65537 and 8 bytes", sizes, engine.name(), other_build];
        assert_refused(&path, |path| inspect(path), &says);
        if !engine.may_hold(firndex::PairSizes { key_bytes: 4, value_bytes: 16 }) {
            make_with_sizes(&path, engine, 4, 16);
            let says = ["key and value size is 4 and 16 bytes", sizes, other_build];
            assert_refused(&path, open_of::<u32, u128>, &says);
        }
    }
}
