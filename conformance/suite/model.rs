//! One thread, compared with the map of the standard library.

use crate::harness::{Backing, Engine, Random, Setup, Table, WHEN_FULL, within};
use index::Index;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use workload::effort;

/// What a conditional operation expects.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Absent,
    /// The present value.
    Current,
    Value(u64),
}

#[derive(Debug, Clone)]
enum Operation {
    Get(u64),
    Insert(u64, u64),
    Update(u64, u64),
    Upsert(u64, u64),
    Remove(u64),
    Exchange(u64, Expected, Option<u64>),
    RemoveIf(u64, Expected),
    GetMany(Vec<u64>),
    InsertMany(Vec<(u64, u64)>),
    UpsertMany(Vec<(u64, u64)>),
    RemoveMany(Vec<u64>),
    ExchangeMany(Vec<(u64, Expected, Option<u64>)>),
    Scan,
    Settle,
    Reopen,
    /// Goes on with what a killed process would have left.
    Crash,
}

fn keys(engine: &'static Engine) -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        1 => Just(0),
        1 => Just(u64::MAX),
        2 => prop::sample::select(vec![1, 2, u64::MAX - 1, 1 << 63, 1 << 32, u64::from(u32::MAX)]),
        8 => 3..300u64,
        8 => prop::sample::select(engine.colliding_keys()),
    ]
}

fn values() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![Just(0), Just(u64::MAX), 1..4u64, any::<u64>()]
}

fn expected() -> impl Strategy<Value = Expected> + Clone {
    prop_oneof![
        1 => Just(Expected::Absent),
        3 => Just(Expected::Current),
        1 => values().prop_map(Expected::Value),
    ]
}

fn operations(engine: &'static Engine) -> impl Strategy<Value = Operation> {
    let key = || keys(engine);
    let pair = || (key(), values());
    let change = || (key(), expected(), prop::option::of(values()));
    let many = 0..90usize;
    prop_oneof![
        6 => key().prop_map(Operation::Get),
        20 => pair().prop_map(|(key, value)| Operation::Insert(key, value)),
        6 => pair().prop_map(|(key, value)| Operation::Update(key, value)),
        12 => pair().prop_map(|(key, value)| Operation::Upsert(key, value)),
        14 => key().prop_map(Operation::Remove),
        10 => change().prop_map(|(key, expected, new)| Operation::Exchange(key, expected, new)),
        4 => (key(), expected()).prop_map(|(key, expected)| Operation::RemoveIf(key, expected)),
        3 => prop::collection::vec(key(), many.clone()).prop_map(Operation::GetMany),
        5 => prop::collection::vec(pair(), many.clone()).prop_map(Operation::InsertMany),
        5 => prop::collection::vec(pair(), many.clone()).prop_map(Operation::UpsertMany),
        3 => prop::collection::vec(key(), many.clone()).prop_map(Operation::RemoveMany),
        4 => prop::collection::vec(change(), many).prop_map(Operation::ExchangeMany),
        1 => Just(Operation::Scan),
        2 => Just(Operation::Settle),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Crash),
    ]
}

fn setups(engine: &'static Engine) -> impl Strategy<Value = Setup> {
    let never = engine.as_late_as_possible;
    let resize_at = prop_oneof![Just(0.5), Just(0.85), Just(1.0), Just(never)];
    let pairs = prop_oneof![4 => Just(0u64), 1 => Just(200), 1 => Just(2000)];
    (0..engine.variants, pairs, resize_at, 0..3_usize).prop_map(
        move |(variant, pairs, resize_at, helpers)| Setup {
            variant,
            pairs,
            resize_at,
            helpers,
            limit_bytes: 64 << 20,
            ..Setup::of(engine)
        },
    )
}

/// The map that the table should be.
#[derive(Default)]
struct Model(HashMap<u64, u64>);

impl Model {
    fn state(&self, key: u64) -> Option<u64> {
        self.0.get(&key).copied()
    }

    fn set(&mut self, key: u64, state: Option<u64>) -> Option<u64> {
        match state {
            Some(value) => self.0.insert(key, value),
            None => self.0.remove(&key),
        }
    }

    fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let found = self.state(key);
        self.0.entry(key).or_insert(value);
        found
    }

    fn exchange(&mut self, key: u64, expected: Option<u64>, new: Option<u64>) -> Option<u64> {
        let found = self.state(key);
        if found == expected {
            self.set(key, new);
        }
        found
    }

    fn resolve(&self, key: u64, expected: Expected) -> Option<u64> {
        match expected {
            Expected::Absent => None,
            Expected::Current => self.state(key),
            Expected::Value(value) => Some(value),
        }
    }
}

/// A value that no operation here returns for all entries by accident.
const UNTOUCHED: Option<u64> = Some(0xdead);

/// Runs one operation on both and compares what they return.
fn apply<B: Backing>(table: Table<B>, model: &mut Model, operation: &Operation) -> Table<B> {
    let many = |count: usize| vec![UNTOUCHED; count];
    match operation {
        &Operation::Get(key) => assert_eq!(table.get(key), model.state(key)),
        &Operation::Insert(key, value) => {
            assert_eq!(table.insert(key, value).unwrap(), model.insert(key, value));
        }
        &Operation::Update(key, value) => {
            let found = model.state(key);
            assert_eq!(table.update(key, value).unwrap(), found);
            model.set(key, found.map(|_| value));
        }
        &Operation::Upsert(key, value) => {
            assert_eq!(table.upsert(key, value).unwrap(), model.set(key, Some(value)));
        }
        &Operation::Remove(key) => {
            assert_eq!(table.remove(key).unwrap(), model.set(key, None));
        }
        &Operation::Exchange(key, expected, new) => {
            let expected = model.resolve(key, expected);
            let found = model.exchange(key, expected, new);
            let outcome = if found == expected { Ok(()) } else { Err(found) };
            assert_eq!(table.compare_exchange(key, expected, new).unwrap(), outcome);
        }
        &Operation::RemoveIf(key, expected) => {
            let Some(expected) = model.resolve(key, expected) else { return table };
            let found = model.exchange(key, Some(expected), None);
            let outcome = if found == Some(expected) { Ok(()) } else { Err(found) };
            assert_eq!(table.remove_if(key, expected).unwrap(), outcome);
        }
        Operation::GetMany(keys) => {
            let mut out = many(keys.len());
            table.get_many(keys, &mut out);
            let states: Vec<_> = keys.iter().map(|&key| model.state(key)).collect();
            assert_eq!(out, states);
        }
        Operation::InsertMany(pairs) => {
            let mut out = many(pairs.len());
            table.insert_many(pairs, &mut out).unwrap();
            let found: Vec<_> = pairs.iter().map(|&(k, v)| model.insert(k, v)).collect();
            assert_eq!(out, found);
        }
        Operation::UpsertMany(pairs) => {
            let mut out = many(pairs.len());
            table.upsert_many(pairs, &mut out).unwrap();
            let found: Vec<_> = pairs.iter().map(|&(k, v)| model.set(k, Some(v))).collect();
            assert_eq!(out, found);
        }
        Operation::RemoveMany(keys) => {
            let mut out = many(keys.len());
            table.remove_many(keys, &mut out).unwrap();
            let found: Vec<_> = keys.iter().map(|&key| model.set(key, None)).collect();
            assert_eq!(out, found);
        }
        Operation::ExchangeMany(changes) => {
            let changes: Vec<_> =
                changes.iter().map(|&(k, e, new)| (k, model.resolve(k, e), new)).collect();
            let mut out = many(changes.len());
            table.compare_exchange_many(&changes, &mut out).unwrap();
            let found: Vec<_> =
                changes.iter().map(|&(k, e, new)| model.exchange(k, e, new)).collect();
            assert_eq!(out, found);
        }
        Operation::Scan => assert_eq!(table.pairs(), model.0),
        Operation::Settle => {
            table.settle();
            assert!(!table.occupancy().resizing);
            table.assert_sound();
        }
        Operation::Reopen => return table.reopen(),
        Operation::Crash => {
            if table.setup().helpers > 0 {
                // If a helper went on while the pool is copied, the image would be one that no kill leaves.
                table.settle();
            }
            return Table::from_image(&table.image(), *table.setup()).unwrap();
        }
    }
    assert_eq!(table.len(), model.0.len() as u64);
    table
}

pub(crate) fn random_operations_agree_with_a_map<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let cases = B::part(48).max(effort::of(12, 6)) as u32;
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let histories = (setups(engine), prop::collection::vec(operations(engine), 1..250));
    let outcome = TestRunner::new(config).run(&histories, |(setup, operations)| {
        let mut table = Table::<B>::new(setup);
        let mut model = Model::default();
        for operation in &operations {
            table = apply(table, &mut model, operation);
        }
        table.assert_holds(&model.0);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Every shape that begins as small as possible, with growth and without.
fn tiny_setups(engine: &'static Engine) -> impl Iterator<Item = Setup> {
    (0..engine.variants).flat_map(move |variant| {
        [0.85, 1.0, engine.as_late_as_possible].map(move |resize_at| Setup {
            variant,
            resize_at,
            helpers: usize::from(variant % 2 == 0),
            limit_bytes: 64 << 20,
            ..Setup::of(engine)
        })
    })
}

pub(crate) fn extreme_keys_and_values_are_like_any_other<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    let extremes = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 0x8080_8080_8080_8080];
    for setup in tiny_setups(engine) {
        let table = Table::<B>::new(setup);
        // First into an empty table, then into one in which every level is in use.
        for fill in [0..0, 1000..1400u64] {
            for key in fill {
                table.insert(key, key).unwrap();
            }
            let fill = table.len();
            for key in extremes {
                assert_eq!(table.get(key), None);
                assert_eq!(table.update(key, 1).unwrap(), None);
                assert_eq!(table.remove(key).unwrap(), None);
                for value in extremes {
                    assert_eq!(table.insert(key, value).unwrap(), None);
                    assert_eq!(table.get(key), Some(value));
                    assert_eq!(table.insert(key, 7).unwrap(), Some(value));
                    assert_eq!(table.update(key, !value).unwrap(), Some(value));
                    assert_eq!(table.upsert(key, value).unwrap(), Some(!value));
                    assert_eq!(table.pairs().get(&key), Some(&value));
                    assert_eq!(table.len(), fill + 1);
                    assert_eq!(table.remove(key).unwrap(), Some(value));
                    assert_eq!(table.get(key), None);
                }
            }
            assert_eq!(table.len(), fill);
        }
        table.assert_sound();
    }
}

fn triples<T: Copy, const N: usize>(of: [T; N]) -> impl Iterator<Item = (T, T, T)> {
    of.into_iter().flat_map(move |a| of.into_iter().flat_map(move |b| of.map(|c| (a, b, c))))
}

pub(crate) fn every_exchange_finds_what_is_there<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    let values = [None, Some(0), Some(1), Some(u64::MAX)];
    for setup in tiny_setups(engine) {
        let table = Table::<B>::new(setup);
        let fillers = (1000..1300u64).map(|key| (key, key)).collect::<Vec<_>>();
        table.insert_many(&fillers, &mut vec![None; fillers.len()]).unwrap();
        for key in [0, u64::MAX, 12, engine.colliding_keys()[0]] {
            for (before, expected, new) in triples(values) {
                match before {
                    Some(value) => table.upsert(key, value).unwrap(),
                    None => table.remove(key).unwrap(),
                };
                let outcome = table.compare_exchange(key, expected, new).unwrap();
                let after = if before == expected { new } else { before };
                assert_eq!(outcome, if before == expected { Ok(()) } else { Err(before) });
                assert_eq!(table.get(key), after, "{before:?}: {expected:?} -> {new:?}");
                assert_eq!(table.len(), 300 + u64::from(after.is_some()));
            }
            table.remove(key).unwrap();
        }
        table.assert_sound();
    }
}

pub(crate) fn a_batch_is_its_operations_in_order<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for setup in tiny_setups(engine) {
        let table = Table::<B>::new(setup);
        // One key many times, along with keys that share its bucket.
        for key in [0, u64::MAX, engine.colliding_keys()[0]] {
            let others = engine.colliding_keys()[1..20].iter().copied();
            let keys: Vec<u64> = others.flat_map(|other| [key, other, key]).collect();
            let pairs: Vec<_> = keys.iter().zip(100..).map(|(&key, value)| (key, value)).collect();
            let mut out = vec![None; pairs.len()];
            let mut model = Model::default();
            table.insert_many(&pairs, &mut out).unwrap();
            let found: Vec<_> = pairs.iter().map(|&(k, v)| model.insert(k, v)).collect();
            assert_eq!(out, found, "insert_many");
            table.upsert_many(&pairs, &mut out).unwrap();
            let found: Vec<_> = pairs.iter().map(|&(k, v)| model.set(k, Some(v))).collect();
            assert_eq!(out, found, "upsert_many");
            let chain: Vec<_> = pairs.iter().map(|&(k, v)| (k, Some(v), Some(v + 1))).collect();
            table.compare_exchange_many(&chain, &mut out).unwrap();
            let found: Vec<_> = chain.iter().map(|&(k, e, n)| model.exchange(k, e, n)).collect();
            assert_eq!(out, found, "compare_exchange_many");
            table.get_many(&keys, &mut out);
            let found: Vec<_> = keys.iter().map(|&k| model.state(k)).collect();
            assert_eq!(out, found, "get_many");
            table.remove_many(&keys, &mut out).unwrap();
            let found: Vec<_> = keys.iter().map(|&k| model.set(k, None)).collect();
            assert_eq!(out, found, "remove_many");
            assert!(table.is_empty());
        }
        table.assert_sound();
    }
}

pub(crate) fn batches_of_every_length_work<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    let table = Table::<B>::new(Setup { limit_bytes: 64 << 20, ..Setup::of(engine) });
    let mut model = HashMap::new();
    let mut random = Random::new(3);
    for length in (0..70).chain([127, 128, 129, 1000]) {
        let pairs: Vec<_> = (0..length).map(|_| (random.word(), random.word())).collect();
        let mut out = vec![Some(1); length];
        table.insert_many(&pairs, &mut out).unwrap();
        assert!(out.iter().all(Option::is_none));
        model.extend(pairs.iter().copied());
        let keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
        table.get_many(&keys, &mut out);
        assert!(out.iter().zip(&pairs).all(|(found, pair)| *found == Some(pair.1)));
        let absent: Vec<u64> = keys.iter().map(|key| !key).collect();
        table.get_many(&absent, &mut out);
        assert!(out.iter().all(Option::is_none));
        table.remove_many(&absent, &mut out).unwrap();
        assert!(out.iter().all(Option::is_none));
    }
    table.assert_holds(&model);
}

pub(crate) fn scans_in_parts_meet_every_pair_once<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for variant in effort::each(0..engine.variants, 3) {
        // Without a helper the table stays in the middle of a resize now and then.
        let setup = Setup {
            variant,
            resize_at: WHEN_FULL,
            helpers: 0,
            limit_bytes: 64 << 20,
            ..Setup::of(engine)
        };
        let table = Table::<B>::new(setup);
        let mut model = HashMap::new();
        let mut resizing = 0;
        for key in 0..3000 {
            table.insert(key, !key).unwrap();
            model.insert(key, !key);
            let is_resizing = table.occupancy().resizing;
            if key % 61 != 0 && !(is_resizing && key % 11 == 0) {
                continue;
            }
            resizing += u32::from(is_resizing);
            for threads in effort::each([1, 2, 3, 7], 3) {
                let met = Mutex::new(HashMap::new());
                table.for_each_on(threads, &|key, value| {
                    let before = met.lock().unwrap().insert(key, value);
                    assert_eq!(before, None, "key {key} twice on {threads} threads");
                    ControlFlow::Continue(())
                });
                assert_eq!(met.into_inner().unwrap(), model);
                let first = Mutex::new(0);
                table.for_each_on(threads, &|_, _| {
                    *first.lock().unwrap() += 1;
                    ControlFlow::Break(())
                });
                // Each thread may have met one in each level.
                assert!((1..=3 * threads).contains(&first.into_inner().unwrap()));
            }
        }
        assert!(resizing > 5, "only {resizing} scans met a resize under way");
    }
}
