//! Space that values of one size leave serves values of any other.

use crate::effort;
use firndex::{Error, Options, Store};

/// Limit of a store that is filled: many times what its index and partly empty segments take.
const MAX_BYTES: u64 = 8 << 20;

fn value_of(key: u32, bytes: usize) -> Vec<u8> {
    key.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

/// Puts keys from `from` on until the store is full; returns the first that was refused, and what the error said.
fn fill_until_refused(store: &Store, from: u32, bytes: usize) -> (u32, String) {
    let refused =
        (from..).find_map(|key| match store.put(key.to_le_bytes(), value_of(key, bytes)) {
            Ok(_) => None,
            Err(error @ Error::PoolFull(_)) => Some((key, error.to_string())),
            Err(error) => panic!("{error}"),
        });
    refused.unwrap()
}

fn fill(store: &Store, from: u32, bytes: usize) -> u32 {
    fill_until_refused(store, from, bytes).0
}

fn assert_has(store: &Store, keys: impl Iterator<Item = u32>, bytes: usize) {
    for key in keys {
        let found = store.get(key.to_le_bytes()).unwrap();
        assert!(found.as_deref() == Some(&value_of(key, bytes)[..]), "key {key}");
    }
}

fn assert_sound(store: &Store) {
    let report = store.check().unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
}

fn is_kept(key: u32) -> bool {
    (u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 10 == 0
}

/// Bytes of values, and of the heap, that a new store takes.
fn fresh(options: &Options, bytes: usize) -> (f64, f64) {
    let store = options.in_memory_store().unwrap();
    let values = fill(&store, 0, bytes);
    (f64::from(values) * bytes as f64, store.stats().unwrap().heap_bytes as f64)
}

/// What the index took while there were many small values it keeps, and the heap can be smaller for it.
#[test]
fn values_of_another_size_take_what_removed_ones_left() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(MAX_BYTES);
        let (fresh_bytes, fresh_heap_bytes) = fresh(&options, 200);
        let store = options.in_memory_store().unwrap();
        let end = fill(&store, 0, 100);
        for key in (0..end).filter(|&key| !is_kept(key)) {
            assert!(store.remove(key.to_le_bytes()).unwrap().is_some());
        }
        let again = fill(&store, end, 200) - end;
        let heap_bytes = store.stats().unwrap().heap_bytes as f64;
        let per_byte = f64::from(again) * 200.0 / heap_bytes;
        let fresh_per_byte = fresh_bytes / fresh_heap_bytes;
        assert!(
            per_byte >= 0.85 * fresh_per_byte,
            "{engine}: {again} values, {per_byte} bytes in a byte of the heap, {fresh_per_byte} in a new one"
        );
        assert_has(&store, (0..end).filter(|&key| is_kept(key)), 100);
        assert_has(&store, end..end + again, 200);
        assert_sound(&store);
    }
}

/// Values of sizes far apart, in turn, in a store of which little stays each time.
#[test]
fn sizes_take_turns() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(MAX_BYTES);
        let store = options.in_memory_store().unwrap();
        let mut kept: Vec<(u32, usize)> = Vec::new();
        let mut from = 0;
        for bytes in [50, 300_000, 2000, 20_000, 100] {
            let end = fill(&store, from, bytes);
            // What was there a turn ago goes, and most of this turn's.
            let gone = kept.drain(..).map(|(key, _)| key);
            let now = from..end;
            gone.chain(now.clone().filter(|&key| !is_kept(key))).for_each(|key| {
                assert!(store.remove(key.to_le_bytes()).unwrap().is_some());
            });
            let filled = u64::from(end - from) * bytes as u64;
            assert!(filled > MAX_BYTES / 5, "{engine}: {filled} bytes in values of {bytes}");
            kept.extend(now.filter(|&key| is_kept(key)).map(|key| (key, bytes)));
            kept.iter().for_each(|&(key, bytes)| assert_has(&store, key..key + 1, bytes));
            assert_sound(&store);
            from = end;
        }
    }
}

/// Everybody goes on while a full store is compacted, and finds what is there.
#[test]
fn values_move_beside_readers_and_writers() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(8 << 20);
        let store = options.in_memory_store().unwrap();
        let end = fill(&store, 0, 60);
        for key in (0..end).filter(|key| key % 5 != 0) {
            store.remove(key.to_le_bytes()).unwrap();
        }
        let stays = || (0..end).filter(|key| key % 10 == 0);
        let mut filled = end;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (0..3).for_each(|_| assert_has(&store, stays(), 60)));
            let scanner = scope.spawn(|| {
                let mut met = std::collections::HashSet::new();
                store
                    .for_each(|key, value| {
                        let key = u32::from_le_bytes(key.try_into().unwrap());
                        assert!(value == value_of(key, value.len()));
                        assert!(
                            met.insert(key) || !key.is_multiple_of(10) || key >= end,
                            "{key} twice"
                        );
                    })
                    .unwrap();
                if engine.description().scans_exactly {
                    assert!(stays().all(|key| met.contains(&key)));
                }
            });
            let writer = scope.spawn(|| {
                for key in (0..end).filter(|key| key % 10 == 5) {
                    match store.put(key.to_le_bytes(), value_of(key, 90)) {
                        // The others may leave it no room.
                        Ok(_) | Err(Error::PoolFull(_)) => {}
                        Err(error) => panic!("{engine}: {error}"),
                    }
                }
            });
            // It finds room only where values have moved.
            let filler = scope.spawn(|| fill(&store, end, 700));
            (0..5).for_each(|_| assert!(store.compact().is_ok()));
            [reader, scanner, writer].into_iter().for_each(|thread| thread.join().unwrap());
            filled = filler.join().unwrap();
        });
        // Who scans may have kept it from that.
        filled = fill(&store, filled, 700);
        assert!(filled > end, "{engine}");
        assert_has(&store, end..filled, 700);
        assert_has(&store, stays(), 60);
        for key in (0..end).filter(|key| key % 10 == 5) {
            let found = store.get(key.to_le_bytes()).unwrap().unwrap();
            assert!([60, 90].contains(&found.len()) && found == value_of(key, found.len()));
        }
        assert_sound(&store);
    }
}

fn refusal(store: &Store, key: u32, bytes: usize) -> String {
    let refused = store.put(key.to_le_bytes(), value_of(key, bytes)).map(drop).unwrap_err();
    assert!(matches!(refused, Error::PoolFull(_)), "{refused:?}");
    refused.to_string()
}

#[test]
fn a_refusal_says_what_stands_against_it() {
    for engine in effort::engines() {
        let options = Options::new().engine(engine).max_bytes(8 << 20).helpers(0);
        let store = options.in_memory_store().unwrap();
        let held = "holds `Record`s or scans";
        let (end, refused) = fill_until_refused(&store, 0, 3000);
        assert!(!refused.contains(held), "{engine}: nothing is held, {refused}");
        let record = store.get(0u32.to_le_bytes()).unwrap().unwrap();
        for key in 1..800u32 {
            store.remove(key.to_le_bytes()).unwrap();
        }
        let refused = refusal(&store, end, 1 << 19);
        assert!(refused.contains(held), "{engine}: {refused}");
        drop(record);
        store.put(end.to_le_bytes(), value_of(end, 1 << 19)).unwrap();
        assert_sound(&store);
    }
}

/// A value that is held as a record stays, and so does what lies with it; the rest moves.
#[test]
fn a_held_record_shows_what_it_showed() {
    let store = Options::new().max_bytes(8 << 20).in_memory_store().unwrap();
    let end = fill(&store, 0, 100);
    for key in (0..end).filter(|&key| !is_kept(key)) {
        store.remove(key.to_le_bytes()).unwrap();
    }
    let kept = (0..end).find(|&key| is_kept(key)).unwrap();
    let record = store.get(kept.to_le_bytes()).unwrap().unwrap();
    store.compact().unwrap();
    assert!(record == value_of(kept, 100));
    drop(record);
    assert!(store.compact().unwrap() > 3 << 20);
    assert_sound(&store);
}

/// Values of 16 bytes to 4 KiB, each replaced by ones of other sizes again and again.
#[test]
fn overwriting_takes_little_more_than_what_is_stored() {
    const KEYS: u32 = 4000;
    for engine in effort::engines() {
        let store = Options::new().engine(engine).in_memory_store().unwrap();
        let mut random = workload::Random::new(7);
        let mut live: Vec<u64> = vec![0; KEYS as usize];
        for round in 0..6 * KEYS {
            let key = if round < KEYS { round } else { random.below(KEYS.into()) as u32 };
            let bytes = 16 + random.index(4080);
            drop(store.put(key.to_le_bytes(), value_of(key, bytes)).unwrap());
            live[key as usize] = 4 + bytes as u64;
            if round > 2 * KEYS && round.is_multiple_of(KEYS / 2) {
                let used = store.stats().unwrap().heap_used_bytes as f64;
                let stored = live.iter().sum::<u64>() as f64;
                assert!(used <= 1.3 * stored, "{engine}: {used} bytes taken for {stored}");
            }
        }
        assert_sound(&store);
    }
}
