use super::*;
use pmem::Pool;
use pmem::heap::SEGMENT_LOG2_DEFAULT;
use pmem::medium::Memory;
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use std::collections::HashMap;
use workload::Random;

/// A clock that is set.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Made {
    cache: Cache<Memory>,
    clock: Arc<Hand>,
}

fn spec(capacity_bytes: u64) -> Spec {
    let mut engine_params = [0; 16];
    engine_params[0] = u64::from(segment_log2(capacity_bytes));
    Spec {
        kind: PoolKind::Store,
        engine: 1,
        key_bytes: 0,
        value_bytes: 0,
        hash_id: 1,
        hash_seed: 7,
        uuid: 1,
        segment_log2: SEGMENT_LOG2_DEFAULT,
        engine_params,
    }
}

fn made(capacity_bytes: u64) -> Made {
    let medium = Memory::dram(capacity_bytes * 2).unwrap();
    let pool = Arc::new(Pool::create(medium, &spec(capacity_bytes), Place::default()).unwrap());
    open(pool, capacity_bytes)
}

fn open(pool: Arc<Pool<Memory>>, capacity_bytes: u64) -> Made {
    let clock = Arc::new(Hand::default());
    clock.0.store(1_000_000, Ordering::Relaxed);
    let settings = Settings { capacity_bytes, clock: clock.clone(), when_gone: None };
    Made { cache: Cache::open(pool, Hasher::new(7), settings).unwrap(), clock }
}

fn value(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| (key as u8).wrapping_mul(31).wrapping_add(place as u8)).collect()
}

fn is_sound<M: Medium>(cache: &Cache<M>) {
    let report = cache.check();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!(report.pairs, cache.len());
}

#[test]
fn what_is_put_is_found_until_it_is_replaced_or_removed() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    assert!(cache.get(b"a").is_none());
    cache.put(b"a", b"1", 0).unwrap();
    cache.put(b"b", b"", 0).unwrap();
    cache.put(b"", b"empty", 0).unwrap();
    assert_eq!(cache.get(b"a").unwrap().bytes(), b"1");
    assert_eq!(cache.get(b"b").unwrap().bytes(), b"");
    assert_eq!(cache.get(b"").unwrap().bytes(), b"empty");
    cache.put(b"a", b"two", 0).unwrap();
    assert_eq!(cache.get(b"a").unwrap().bytes(), b"two");
    assert_eq!(cache.len(), 3);
    assert!(cache.remove(b"a") && !cache.remove(b"a"));
    assert!(cache.get(b"a").is_none());
    is_sound(&cache);
    let figures = cache.stats();
    assert_eq!((figures.hits, figures.misses, figures.insertions), (4, 2, 4));
}

#[test]
fn many_keys_are_found_as_each_by_itself() {
    let Made { cache, .. } = made(1 << 20);
    let keys: Vec<[u8; 8]> = (0..1000u64).map(u64::to_le_bytes).collect();
    for (key, number) in keys.iter().zip(0..).filter(|(_, number)| number % 3 != 0) {
        cache.put(key, &value(number, 20), 0).unwrap();
    }
    for some in [0, 1, KEYS_AHEAD - 1, KEYS_AHEAD, KEYS_AHEAD + 1, 1000] {
        let some: Vec<&[u8]> = keys[..some].iter().map(|key| &key[..]).collect();
        let found = cache.get_many(&some);
        assert_eq!(found.len(), some.len());
        for (found, number) in found.iter().zip(0..) {
            let expected = (number % 3 != 0).then(|| value(number, 20));
            assert_eq!(found.as_ref().map(Record::bytes), expected.as_deref());
        }
    }
    assert_eq!(cache.stats().hits + cache.stats().misses, 1000 + 15 + 16 + 17 + 1);
}

#[test]
fn what_is_put_on_demand_is_put_if_that_is_met() {
    let Made { cache, clock } = made(1 << 20);
    let large = value(1, 40_000);
    for (key, long) in [(&b"a"[..], &b"1"[..]), (b"large", &large)] {
        let put = |value: &[u8], end, demand| cache.put_if(key, value, end, demand).unwrap();
        assert!(!put(long, 0, Demand::Value(b"")));
        assert!(put(long, 2_000_000, Demand::Absent) && !put(b"2", 0, Demand::Absent));
        assert!(!put(b"2", 0, Demand::Value(b"1x")) && put(b"2", 0, Demand::Value(long)));
        assert_eq!(cache.get(key).unwrap().bytes(), b"2");
        // It ends when the one before would have, and after that it is absent.
        assert_eq!(cache.expires_ms(key), Some(2_000_000));
        assert!(put(long, 0, Demand::Value(b"2")));
        assert_eq!(cache.get(key).unwrap().bytes(), long);
        assert_eq!(cache.expires_ms(key), Some(2_000_000));
    }
    clock.0.store(2_000_000, Ordering::Relaxed);
    assert!(!cache.put_if(b"a", b"3", 0, Demand::Value(b"1")).unwrap());
    assert!(cache.put_if(b"a", b"3", 0, Demand::Absent).unwrap());
    assert_eq!(cache.expires_ms(b"a"), Some(0));
    cache.clear().unwrap();
    assert!(!cache.put_if(b"a", b"4", 0, Demand::Value(b"3")).unwrap());
    assert!(cache.put_if(b"a", b"4", 0, Demand::Absent).unwrap());
    // Those that were not put count neither as insertions nor as refused.
    let stats = cache.stats();
    assert_eq!((stats.insertions, stats.refused), (8, 0));
    is_sound(&cache);
}

#[test]
fn threads_that_put_on_demand_lose_no_step() {
    const STEPS: u64 = 2_000;
    let Made { cache, .. } = made(1 << 20);
    let won: u64 = std::thread::scope(|scope| {
        let count = || {
            let mut won = 0;
            for _ in 0..STEPS {
                won += u64::from(cache.put_if(b"first", b"1", 0, Demand::Absent).unwrap());
                loop {
                    let found = cache.get(b"sum").map(|found| found.bytes().to_vec());
                    let demand = found.as_deref().map_or(Demand::Absent, Demand::Value);
                    let sum = found
                        .as_ref()
                        .map_or(0, |sum| u64::from_le_bytes(sum[..].try_into().unwrap()));
                    if cache.put_if(b"sum", &(sum + 1).to_le_bytes(), 0, demand).unwrap() {
                        break;
                    }
                }
            }
            won
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
    assert_eq!(cache.get(b"sum").unwrap().bytes(), (3 * STEPS).to_le_bytes());
}

#[test]
fn it_never_has_more_than_its_capacity_and_never_a_wrong_value() {
    for (capacity, bytes_max) in
        [(CAPACITY_MIN, 100), (1 << 20, 1000), (1 << 20, 200_000), (8 << 20, 40)]
    {
        let Made { cache, .. } = made(capacity);
        let mut rng = Random::new(capacity ^ bytes_max);
        let steps = if bytes_max > 10_000 { 2000 } else { 60_000 };
        for step in 0..steps {
            let key = rng.below(30_000);
            let bytes = |key: u64| (key.wrapping_mul(0x9e37_79b9) >> 7) % bytes_max;
            let found = cache.get(&key.to_le_bytes()).map(|found| found.bytes().to_vec());
            match found {
                Some(found) => assert_eq!(found, value(key, bytes(key) as usize)),
                None => cache.put(&key.to_le_bytes(), &value(key, bytes(key) as usize), 0).unwrap(),
            }
            if step % 10_000 == 0 {
                is_sound(&cache);
            }
        }
        is_sound(&cache);
        let figures = cache.stats();
        assert!(figures.pool_bytes <= capacity + capacity / 50 + (64 << 10), "{figures:?}");
        assert!(cache.arena.pool().superblock().end <= capacity + capacity / 50 + (64 << 10));
        assert!(
            !cache.is_empty() && figures.entry_bytes * 2 > capacity.min(figures.insertions * 8),
            "{figures:?}"
        );
    }
}

#[test]
fn nothing_is_returned_that_is_over_and_its_space_comes_back() {
    let Made { cache, clock } = made(CAPACITY_MIN);
    let now = clock.now_ms();
    for key in 0..1000u64 {
        cache.put(&key.to_le_bytes(), &value(key, 20), now + 1 + key).unwrap();
    }
    for past in [0, 1, 500, 999, 1000] {
        clock.0.store(now + past, Ordering::Relaxed);
        for key in 0..1000u64 {
            assert_eq!(cache.get(&key.to_le_bytes()).is_some(), key + 1 > past, "{key} at {past}");
        }
    }
    assert_eq!(cache.len(), 1000);
    clock.0.store(now + 5000, Ordering::Relaxed);
    assert_eq!(cache.sweep(), 1000);
    assert_eq!((cache.len(), cache.stats().entry_bytes, cache.stats().expired), (0, 0, 1000));
    is_sound(&cache);
}

#[test]
fn a_touched_item_has_the_time_of_its_last_touch() {
    let Made { cache, clock } = made(CAPACITY_MIN);
    let now = clock.now_ms();
    cache.put(b"a", b"1", now + 10).unwrap();
    cache.put(b"b", b"2", 0).unwrap();
    assert!(cache.touch(b"a", now + 5000) && cache.touch(b"b", now + 10) && !cache.touch(b"c", 0));
    clock.0.store(now + 2000, Ordering::Relaxed);
    assert_eq!(cache.sweep(), 1);
    assert!(cache.get(b"a").is_some() && cache.get(b"b").is_none());
    assert!(cache.touch(b"a", 0));
    clock.0.store(now + 100_000, Ordering::Relaxed);
    assert_eq!(cache.sweep(), 0);
    assert_eq!(cache.expires_ms(b"a"), Some(0));
}

#[test]
fn a_cleared_cache_is_empty_and_stays_so() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    for key in 0..2000u64 {
        cache.put(&key.to_le_bytes(), &value(key, 20), 0).unwrap();
    }
    cache.clear().unwrap();
    assert_eq!(cache.len(), 0);
    assert!((0..2000u64).all(|key| cache.get(&key.to_le_bytes()).is_none()));
    cache.put(b"a", b"1", 0).unwrap();
    is_sound(&cache);
    let pool = Arc::clone(cache.arena.pool());
    drop(cache);
    let Made { cache, .. } = open(pool, CAPACITY_MIN);
    assert!((0..2000u64).all(|key| cache.get(&key.to_le_bytes()).is_none()));
    assert_eq!((cache.len(), cache.get(b"a").unwrap().bytes()), (1, &b"1"[..]));
    for key in 0..100_000u64 {
        cache.put(&key.to_le_bytes(), &value(key, 20), 0).unwrap();
    }
    is_sound(&cache);
}

#[test]
fn nothing_comes_back_when_stamps_come_round() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    cache.put(b"old", b"1", 0).unwrap();
    for round in 0..=2 * GENERATION_MASK {
        cache.clear().unwrap();
        assert!(cache.get(b"old").is_none(), "{round}");
    }
    assert_eq!(cache.stats().entry_bytes, 0);
    is_sound(&cache);
}

#[test]
fn all_is_there_after_an_opening() {
    let Made { cache, .. } = made(4 << 20);
    let mut rng = Random::new(3);
    for _ in 0..100_000 {
        let key = rng.below(50_000);
        let bytes = if key == 77 { 100_000 } else { key as usize % 90 };
        cache.put(&key.to_le_bytes(), &value(key, bytes), 0).unwrap();
    }
    let (len, figures) = (cache.len(), cache.stats());
    let mut all = HashMap::new();
    cache.for_each(&mut |key, value| all.insert(key.to_vec(), value.to_vec()).is_none());
    assert_eq!(all.len() as u64, len);
    let pool = Arc::clone(cache.arena.pool());
    drop(cache);
    let Made { cache, .. } = open(pool, 4 << 20);
    for (key, value) in &all {
        assert_eq!(cache.get(key).unwrap().bytes(), value);
    }
    assert_eq!(cache.len(), len);
    assert_eq!(cache.stats().entry_bytes, figures.entry_bytes);
    is_sound(&cache);
}

#[test]
fn too_large_an_item_is_refused_and_all_below_fit() {
    let Made { cache, .. } = made(1 << 20);
    let most = cache.item_bytes_max();
    let key = [1; 16];
    let fits = vec![7; most as usize - 32 - 16];
    for round in 0..20u8 {
        cache.put(&[round; 16], &fits, 0).unwrap();
        assert_eq!(cache.get(&[round; 16]).unwrap().bytes(), fits);
        (0..200u64).for_each(|key| cache.put(&key.to_le_bytes(), &[3; 1000], 0).unwrap());
        is_sound(&cache);
    }
    let refused = cache.put(&key, &vec![7; most as usize], 0);
    assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    let refused = cache.put(&vec![0; KEY_BYTES_MAX + 1], b"", 0);
    assert!(matches!(refused, Err(CacheError::KeyTooLong { .. })), "{refused:?}");
    assert!(cache.get(&[19; 16]).is_some());
}

#[test]
fn a_cache_that_gets_much_smaller_still_has_room() {
    let Made { cache, .. } = made(8 << 20);
    (0..300_000u64).for_each(|key| cache.put(&key.to_le_bytes(), &value(key, 2), 0).unwrap());
    let index_bytes = cache.stats().index_bytes;
    assert!(index_bytes > 2 * CAPACITY_MIN, "{index_bytes}");
    let pool = Arc::clone(cache.arena.pool());
    drop(cache);
    let Made { cache, .. } = open(pool, CAPACITY_MIN);
    is_sound(&cache);
    assert!(cache.stats().index_bytes < CAPACITY_MIN / 2 && !cache.is_empty());
    (0..20_000u64).for_each(|key| {
        cache.put(&key.to_le_bytes(), &value(key, 100), 0).unwrap();
        assert_eq!(cache.get(&key.to_le_bytes()).unwrap().bytes(), value(key, 100));
        if key % 100 == 0 {
            cache.put(b"large", &value(key, 20_000), 0).unwrap();
        }
    });
    is_sound(&cache);
}

#[test]
fn what_is_emptied_before_it_is_counted_holds_nobody_up() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    let put = |cache: &Cache<Memory>, keys: std::ops::Range<u64>| {
        keys.for_each(|key| cache.put(&key.to_le_bytes(), &value(key, 100), 0).unwrap());
    };
    put(&cache, 0..5000);
    let pool = Arc::clone(cache.arena.pool());
    drop(cache);
    let Made { cache, .. } = open(pool, CAPACITY_MIN);
    let before = cache.counted(Count::Evictions);
    put(&cache, 5000..5020);
    while cache.counted(Count::Evictions) == before {
        put(&cache, 6000..6010);
    }
    is_sound(&cache);
}

#[test]
fn what_was_cleared_stays_away_when_its_number_comes_again() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    for round in 0..3 * (GENERATION_MASK + 1) {
        if round % 1000 == 0 {
            cache.put(&round.to_le_bytes(), b"1", 0).unwrap();
        }
        cache.clear().unwrap();
        let first = (0..=round).step_by(1000);
        assert!(first.into_iter().all(|key| cache.get(&key.to_le_bytes()).is_none()), "{round}");
    }
    is_sound(&cache);
}

#[test]
fn slots_of_a_damaged_pool_may_lead_anywhere() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    (0..100u64).for_each(|key| cache.put(&key.to_le_bytes(), &[1; 20], 0).unwrap());
    let hash = cache.hasher.first_bytes(b"key");
    // All have the key's tag, so splits do not part them.
    for (line, first) in
        lines_with(&cache.arena, cache.directory.segment(hash), hash).into_iter().zip(0..)
    {
        for number in 0..8 {
            let granule = u64::MAX >> (24 + 3 * number + first);
            cache.arena.medium().store(line.word(number), slot_of(granule, hash));
        }
    }
    assert!(cache.get(b"key").is_none() && !cache.remove(b"key"));
    assert!(cache.get_many(&[b"key"])[0].is_none());
    assert!(!cache.check().is_sound());
    cache.put(b"key", b"1", 0).unwrap();
    assert_eq!(cache.get(b"key").unwrap().bytes(), b"1");
    cache.for_each(&mut |_, _| true);
}

#[test]
fn an_index_whose_parts_do_not_make_a_whole_is_refused() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    let part = |depth, prefix| segments::Use::Index(index::Part { depth, prefix }).word();
    // As large together as all of it, but the odd tags are in none.
    for (number, word) in [part(1, 0), part(2, 0), part(2, 2)].into_iter().enumerate() {
        cache.arena.set_state(number as u32, word, 0);
    }
    let settings = cache.settings.clone();
    let opened = Cache::open(Arc::clone(cache.arena.pool()), Hasher::new(7), settings);
    assert!(matches!(opened, Err(pmem::OpenError::Mismatch { .. })), "{opened:?}");
}

#[test]
fn what_is_asked_for_stays_in_a_scan() {
    let Made { cache, .. } = made(1 << 20);
    for round in 0..200u64 {
        for key in 0..100u64 {
            if cache.get(&key.to_le_bytes()).is_none() {
                cache.put(&key.to_le_bytes(), &[1; 100], 0).unwrap();
            }
        }
        for other in 0..500u64 {
            cache.put(&(1000 + round * 500 + other).to_le_bytes(), &[2; 100], 0).unwrap();
        }
    }
    assert!((0..100u64).all(|key| cache.get(&key.to_le_bytes()).is_some()));
}

#[test]
fn a_held_value_stays_as_it_was_and_puts_say_so_at_last() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    cache.put(b"held", b"as it was", 0).unwrap();
    let held = cache.get(b"held").unwrap();
    let mut refused = None;
    for key in 0..20_000u64 {
        if let Err(error) = cache.put(&key.to_le_bytes(), &[1; 100], 0) {
            refused = Some(error);
            break;
        }
    }
    assert!(matches!(refused, Some(CacheError::Held)), "{refused:?}");
    assert_eq!(held.bytes(), b"as it was");
    drop(held);
    cache.put(b"again", b"1", 0).unwrap();
    is_sound(&cache);
}

#[test]
fn threads_find_nothing_but_what_was_put_for_the_key() {
    let Made { cache, clock } = made(1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (cache, clock) = (&cache, &clock);
            scope.spawn(move || {
                let mut rng = Random::new(thread);
                for step in 0..40_000u64 {
                    let key = rng.below(3000);
                    match rng.below(10) {
                        0 => drop(cache.remove(&key.to_le_bytes())),
                        1 => drop(cache.touch(&key.to_le_bytes(), clock.now_ms() + 50)),
                        2 if step % 100 == 0 => drop(cache.sweep()),
                        3 if step % 50 == 0 => {
                            let large = [&[key as u8; 30_000][..], &key.to_le_bytes()].concat();
                            cache.put(&key.to_le_bytes(), &large, 0).unwrap();
                        }
                        4 if step % 5000 == 0 => cache.clear().unwrap(),
                        5 => drop(clock.0.fetch_add(1, Ordering::Relaxed)),
                        6..8 => {
                            let value = [&[key as u8; 200][..], &key.to_le_bytes()].concat();
                            cache.put(&key.to_le_bytes(), &value, 0).unwrap();
                        }
                        _ => {
                            if let Some(found) = cache.get(&key.to_le_bytes()) {
                                let (body, end) = found.bytes().split_at(found.bytes().len() - 8);
                                assert_eq!(end, key.to_le_bytes());
                                assert!(body.iter().all(|byte| *byte == key as u8));
                            }
                        }
                    }
                }
            });
        }
    });
    is_sound(&cache);
}

#[test]
fn an_item_that_is_prolonged_again_and_again_has_one_note() {
    let Made { cache, clock } = made(CAPACITY_MIN);
    let now = clock.now_ms();
    for round in 0..1000 {
        cache.put(b"put", &value(round, 20), now + 2000 * (round + 1)).unwrap();
        assert!(cache.touch(b"put", now + 2000 * (round + 1) + 1000));
        cache.put(b"to and fro", b"", now + 10_000 - round % 2 * 5000).unwrap();
    }
    assert_eq!(cache.wheel.len(), 3);
    clock.0.store(now + 20_000, Ordering::Relaxed);
    // The first note of what was prolonged is over, and followed by one for its end.
    assert_eq!((cache.sweep(), cache.wheel.len()), (1, 1));
    clock.0.store(now + 2_000_000, Ordering::Relaxed);
    assert_eq!((cache.sweep(), cache.wheel.len()), (0, 1));
    clock.0.store(now + 2_010_000, Ordering::Relaxed);
    assert_eq!((cache.sweep(), cache.wheel.len(), cache.len()), (1, 0, 0));
    is_sound(&cache);
}

#[test]
fn what_an_opening_found_is_swept_once_it_is_counted_or_moved() {
    for is_moved in [false, true] {
        let Made { cache, clock } = made(CAPACITY_MIN);
        let end = clock.now_ms() + 10_000;
        (0..500u64).for_each(|key| cache.put(&key.to_le_bytes(), &[1; 20], end).unwrap());
        let pool = Arc::clone(cache.arena.pool());
        drop(cache);
        let Made { cache, clock } = open(pool, CAPACITY_MIN);
        // Nobody has counted them: a new end needs a note of its own.
        assert!(cache.touch(&7u64.to_le_bytes(), end + 1));
        cache.put(&8u64.to_le_bytes(), &[2; 20], end + 1).unwrap();
        assert_eq!(cache.wheel.len(), 2);
        if is_moved {
            let found: Vec<u32> = (0u32..)
                .zip(&cache.segments)
                .filter(|(_, segment)| segment.counted.load(Ordering::Relaxed) == 0)
                .map(|(number, _)| number)
                .collect();
            assert!(found.len() > 3);
            for number in found {
                assert!(cache.segments[number as usize].take_sealed());
                cache.empty(number, empty::Keep::All);
            }
        } else {
            cache.count_all();
        }
        assert_eq!(cache.wheel.len(), 500);
        clock.0.store(end + 1000, Ordering::Relaxed);
        assert_eq!((cache.sweep(), cache.len(), cache.wheel.len()), (500, 0, 0));
        is_sound(&cache);
    }
}

#[test]
fn notes_of_what_was_cleared_are_forgotten_and_no_others() {
    let Made { cache, clock } = made(CAPACITY_MIN);
    let end = clock.now_ms() + 10_000;
    (0..500u64).for_each(|key| cache.put(&key.to_le_bytes(), &[1; 20], end).unwrap());
    cache.clear().unwrap();
    assert_eq!(cache.wheel.len(), 0);
    cache.put(b"after", b"1", end).unwrap();
    // As of a thread that cleared it before, and comes late.
    cache.wheel.clear(cache.generation.load(Ordering::Relaxed));
    assert_eq!(cache.wheel.len(), 1);
    clock.0.store(end + 1000, Ordering::Relaxed);
    assert_eq!(cache.sweep(), 1);
}

#[test]
fn a_queue_remembers_no_more_segments_than_it_has_had_of_late() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    let queued = || {
        let lists = cache.lists.lock();
        lists.queues.iter().map(|queue| queue.len()).sum::<usize>() + lists.sparse.len()
    };
    // Each put replaces the one before it: no segment is ever emptied since it is the oldest.
    (0..200_000u64).for_each(|step| cache.put(b"key", &value(step, 100), 0).unwrap());
    assert!(queued() < 200, "{}", queued());
    (0..1000).for_each(|_| cache.clear().unwrap());
    assert!(queued() < 200, "{}", queued());
    is_sound(&cache);
}

#[test]
fn all_are_met_while_the_index_is_split() {
    let Made { cache, .. } = made(8 << 20);
    let put = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| cache.put(&key.to_le_bytes(), &key.to_le_bytes(), 0).unwrap());
    };
    put(0..1000);
    let (mut met, mut next) = (vec![0; 1000], 1000);
    let before = cache.stats().index_bytes;
    cache.for_each(&mut |key, value| {
        assert_eq!(key, value);
        let key = u64::from_le_bytes(key.try_into().unwrap());
        if let Some(times) = met.get_mut(key as usize) {
            *times += 1;
        }
        // Others put meanwhile. This thread is pinned, but there is room enough.
        if next < 60_000 {
            put(next..next + 100);
            next += 100;
        }
        true
    });
    assert!(cache.stats().index_bytes >= 8 * before);
    assert!(met.iter().all(|times| (1..20).contains(times)), "{met:?}");
    is_sound(&cache);
}

#[test]
fn who_holds_what_would_be_room_is_told_at_once() {
    let Made { cache, .. } = made(CAPACITY_MIN);
    (0..5000u64).for_each(|key| cache.put(&key.to_le_bytes(), &[1; 100], 0).unwrap());
    cache.put(b"held", b"1", 0).unwrap();
    let held = cache.get(b"held").unwrap();
    let refused = (0..u64::MAX).find_map(|key| cache.put(&key.to_le_bytes(), &[2; 100], 0).err());
    assert!(matches!(refused, Some(CacheError::Held)), "{refused:?}");
    // As large as some segments, which would have to be emptied.
    let refused = cache.put(b"large", &[3; 30_000], 0);
    assert!(matches!(refused, Err(CacheError::Held)), "{refused:?}");
    drop(held);
    cache.put(b"large", &[3; 30_000], 0).unwrap();
    is_sound(&cache);
}
