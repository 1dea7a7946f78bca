//! Random operations against a `HashMap`: on `Store`, and on `Items` with a hash of 8, 3 and no
//! bits.

use crate::byte_map::ByteMap;
use crate::places;
use crate::read::items::CutItems;
use firndex::{Engine, Options, Store};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

#[derive(Debug, Clone, Copy)]
struct Key(u8);

const KEYS: u8 = 40;

impl Key {
    /// Empty, every single length that is special, bytes that are no text, and the longest.
    fn bytes(self) -> Vec<u8> {
        let filler = |len: usize| vec![self.0; len];
        match self.0 {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff],
            3 => vec![0, 0],
            4 => vec![0xc3, 0x28, 0xfe],
            5 => 0u64.to_le_bytes().to_vec(),
            6 => filler(firndex::KEY_BYTES_MAX),
            7 => filler(firndex::KEY_BYTES_MAX - 1),
            8 => filler(7),
            9 => filler(9),
            10 => filler(1000),
            other => format!("key {other}").into_bytes(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Value {
    byte: u8,
    len: usize,
}

impl Value {
    fn bytes(self) -> Vec<u8> {
        (0..self.len).map(|index| self.byte.wrapping_add(index as u8)).collect()
    }
}

/// What a compare-exchange expects.
#[derive(Debug, Clone, Copy)]
enum Expected {
    Found,
    Absent,
    Other(Value),
}

#[derive(Debug, Clone)]
enum Op {
    Get(Key),
    Put(Key, Value),
    Insert(Key, Value),
    Update(Key, Value),
    Remove(Key),
    Exchange(Key, Expected, Option<Value>),
    GetMany(Vec<Key>),
    PutMany(Vec<(Key, Value)>),
    InsertMany(Vec<(Key, Value)>),
    UpdateMany(Vec<(Key, Value)>),
    RemoveMany(Vec<Key>),
    Reopen,
}

fn key() -> impl Strategy<Value = Key> {
    (0..KEYS).prop_map(Key)
}

fn value() -> impl Strategy<Value = Value> {
    let len = prop_oneof![
        8 => 0usize..40,
        4 => 40usize..3000,
        1 => 3000usize..30_000,
        // Around half a segment of the heap, one segment and several.
        1 => 32_600usize..32_800,
        1 => 65_400usize..65_600,
        1 => 262_000usize..262_300,
    ];
    (any::<u8>(), len).prop_map(|(byte, len)| Value { byte, len })
}

fn op() -> impl Strategy<Value = Op> {
    let expected = prop_oneof![
        3 => Just(Expected::Found),
        1 => Just(Expected::Absent),
        1 => value().prop_map(Expected::Other),
    ];
    prop_oneof![
        2 => key().prop_map(Op::Get),
        6 => (key(), value()).prop_map(|(key, value)| Op::Put(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Op::Insert(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Op::Update(key, value)),
        4 => key().prop_map(Op::Remove),
        5 => (key(), expected, prop::option::of(value()))
            .prop_map(|(key, expected, new)| Op::Exchange(key, expected, new)),
        2 => prop::collection::vec(key(), 0..80).prop_map(Op::GetMany),
        3 => prop::collection::vec((key(), value()), 0..80).prop_map(Op::PutMany),
        2 => prop::collection::vec((key(), value()), 0..80).prop_map(Op::InsertMany),
        2 => prop::collection::vec((key(), value()), 0..80).prop_map(Op::UpdateMany),
        2 => prop::collection::vec(key(), 0..80).prop_map(Op::RemoveMany),
        1 => Just(Op::Reopen),
    ]
}

type Model = HashMap<Vec<u8>, Vec<u8>>;

/// Applies an operation to both and compares what they answer.
fn step(map: &impl ByteMap, model: &mut Model, op: &Op) {
    match op {
        Op::Get(key) => assert_eq!(map.get(&key.bytes()), model.get(&key.bytes()).cloned()),
        Op::Put(key, value) => {
            let (key, value) = (key.bytes(), value.bytes());
            assert_eq!(map.put(&key, &value), model.insert(key, value));
        }
        Op::Insert(key, value) => {
            let (key, value) = (key.bytes(), value.bytes());
            assert_eq!(map.insert(&key, &value), model.get(&key).cloned());
            model.entry(key).or_insert(value);
        }
        Op::Update(key, value) => {
            let (key, value) = (key.bytes(), value.bytes());
            assert_eq!(map.update(&key, &value), model.get(&key).cloned());
            model.entry(key).and_modify(|old| *old = value);
        }
        Op::Remove(key) => assert_eq!(map.remove(&key.bytes()), model.remove(&key.bytes())),
        Op::Exchange(key, expected, new) => {
            let (key, new) = (key.bytes(), new.map(Value::bytes));
            let found = model.get(&key).cloned();
            let expected = match expected {
                Expected::Found => found.clone(),
                Expected::Absent => None,
                Expected::Other(value) => Some(value.bytes()),
            };
            let outcome = map.compare_exchange(&key, expected.as_deref(), new.as_deref());
            if found == expected {
                assert_eq!(outcome, Ok(()));
                match new {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            } else {
                assert_eq!(outcome, Err(found));
            }
        }
        Op::GetMany(keys) => {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.bytes()).collect();
            let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
            assert_eq!(map.get_many(&slices), expected);
        }
        Op::PutMany(pairs) | Op::InsertMany(pairs) | Op::UpdateMany(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, value)| (key.bytes(), value.bytes())).collect();
            let slices: Vec<_> =
                pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
            let (found, is_put): (_, fn(bool) -> bool) = match op {
                Op::InsertMany(_) => (map.insert_many(&slices), |is_present| !is_present),
                Op::UpdateMany(_) => (map.update_many(&slices), |is_present| is_present),
                _ => (map.put_many(&slices), |_| true),
            };
            let mut change = |key: &Vec<u8>, value: &Vec<u8>| match model.get(key) {
                found if is_put(found.is_some()) => model.insert(key.clone(), value.clone()),
                found => found.cloned(),
            };
            let expected: Vec<_> = pairs.iter().map(|(key, value)| change(key, value)).collect();
            assert_eq!(found, expected);
        }
        Op::RemoveMany(keys) => {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.bytes()).collect();
            let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.remove(key)).collect();
            assert_eq!(map.remove_many(&slices), expected);
        }
        Op::Reopen => {}
    }
    assert_eq!(map.len(), model.len() as u64);
}

/// Plays `ops` on a map made by `create`, reopened by `open`.
fn play<S: ByteMap>(ops: &[Op], create: impl Fn(&Path) -> S, open: impl Fn(&Path) -> S) {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let mut model = Model::new();
    let mut map = create(&path);
    for op in ops.iter().chain([&Op::Reopen]) {
        step(&map, &mut model, op);
        if let Op::Reopen = op {
            assert_eq!(map.sound_contents(), model);
            drop(map);
            map = open(&path);
            assert_eq!(map.sound_contents(), model);
        }
    }
    for key in (0..KEYS).map(Key) {
        assert_eq!(map.get(&key.bytes()), model.get(&key.bytes()).cloned());
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(50))]

    #[test]
    fn a_store_is_a_map(
        ops in prop::collection::vec(op(), 1..40),
        engine in prop::sample::select(Engine::ALL),
    ) {
        let open = |path: &Path| Options::new().engine(engine).open_or_create_store(path).unwrap();
        play(&ops, open, open);
    }

    #[test]
    fn items_are_a_map_whatever_collides(
        ops in prop::collection::vec(op(), 1..40),
        bits in prop::sample::select(vec![8, 3, 0]),
    ) {
        play(&ops, |path| CutItems::create(path, bits), |path| CutItems::open(path, bits));
    }
}

#[test]
fn modify_replaces_creates_and_removes() {
    let store = Store::in_memory().unwrap();
    for key in (0..KEYS).map(|key| Key(key).bytes()) {
        let before = store.modify(&key, |found| found.is_none().then(|| b"new".to_vec())).unwrap();
        assert!(before.is_none());
        let longer = |found: Option<&[u8]>| Some([found.unwrap(), &[b'.'; 300_000]].concat());
        assert_eq!(store.modify(&key, longer).unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(store.get(&key).unwrap().unwrap().len(), 300_003);
        let removed = store.modify(&key, |_| None).unwrap().unwrap().len();
        assert_eq!((removed, store.len()), (300_003, 0));
        assert!(store.modify(&key, |found| found.map(<[u8]>::to_vec)).unwrap().is_none());
    }
    assert!(store.sound_contents().is_empty());
}

#[test]
fn modify_may_use_the_store_it_modifies() {
    let store = Store::in_memory().unwrap();
    store.put("other", "5").unwrap();
    let copy = |_: Option<&[u8]>| {
        store.put("seen", "yes").unwrap();
        store.sync().unwrap();
        store.get("other").unwrap().map(|record| record.to_vec())
    };
    store.modify("one", copy).unwrap();
    assert_eq!(store.get("one").unwrap().as_deref(), Some(&b"5"[..]));
    assert_eq!(store.get("seen").unwrap().as_deref(), Some(&b"yes"[..]));
}

#[test]
fn as_many_keys_as_a_group_holds_may_share_a_hash() {
    let directory = places::in_ram();
    let path = directory.path().join("pool");
    let map = CutItems::create(&path, 0);
    let limit = pmem::heap::GROUP_MAX as u64;
    for key in 0..limit {
        assert!(!map.try_put(&key.to_le_bytes(), &key.to_be_bytes()).unwrap());
    }
    let error = map.try_put(b"one more", b"").unwrap_err();
    assert!(matches!(error, index::ItemError::TooManyCollisions { .. }), "{error}");
    assert!(error.to_string().contains("4096"), "{error}");
    assert!(map.try_put(&7u64.to_le_bytes(), b"replaced").unwrap(), "a present key is replaced");
    assert_eq!(map.len(), limit);
    assert_eq!(map.remove(&0u64.to_le_bytes()), Some(0u64.to_be_bytes().to_vec()));
    assert!(!map.try_put(b"one more", b"fits now").unwrap());
    let contents = map.sound_contents();
    drop(map);
    assert_eq!(CutItems::open(&path, 0).sound_contents(), contents);
}
