//! What a guest sees of a table, beside the table itself.

use super::super::sight::Sight;
use super::*;
use index::hash::Hasher;
use index::{Copied, Items, Records, SeenItems, Sight as _};
use pmem::medium::Medium;
use pmem::sync::{AtomicU64, Line, Ordering};
use workload::{Random, effort};

fn shown() -> Settings {
    Settings { is_shown: true, ..settings(0.85) }
}

/// A table that is shown, and its guest.
fn table_and_guest(shape: &Shape) -> (Iceberg<Dram>, Sight<Dram>) {
    let pool = Pool::create(Memory::dram(1 << 30).unwrap(), &spec(shape), PLACE).unwrap();
    let table = Iceberg::open(Arc::new(pool), shown()).unwrap();
    let view = table.view().unwrap();
    let guest = Sight::open(Arc::clone(table.pool()), view).unwrap();
    (table, guest)
}

/// What the guest finds; `None` if the owner is to be asked.
fn get(guest: &Sight<Dram>, key: u64) -> Option<Option<u64>> {
    let found = guest.get(key);
    let look = guest.look()?;
    let searched = guest.search(look, key).filter(|_| guest.is_as(look));
    assert!(found.is_none() || searched.is_none() || found == searched);
    found
}

fn get_many(guest: &Sight<Dram>, keys: &[u64]) -> Option<Vec<Option<Option<u64>>>> {
    let look = guest.look()?;
    let mut out = vec![None; keys.len()];
    guest.search_many(look, keys, &mut out);
    guest.is_as(look).then_some(out)
}

#[test]
fn a_guest_finds_what_is_there_while_the_table_grows_and_shrinks() {
    let shape = Shape { initial_log2: 0, ..Shape::default() };
    let (table, guest) = table_and_guest(&shape);
    let mut told = 0;
    for key in 1..=60_000u64 {
        table.upsert(key, key * 3).unwrap();
        let others = [key, key / 2, key + 1, key * 977 % 60_000];
        let expected: Vec<_> = others.iter().map(|&other| table.get(other)).collect();
        for (&other, &expected) in others.iter().zip(&expected) {
            if let Some(found) = get(&guest, other) {
                assert_eq!(found, expected, "key {other} of {key}");
                told += 1;
            }
        }
        if let Some(found) = get_many(&guest, &others) {
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(found.is_none_or(|found| found == expected), "of {key}");
            }
        }
    }
    // Whatever resizes took, at rest nearly everything is seen.
    table.settle();
    let seen = (1..=60_000).filter(|&key| get(&guest, key) == Some(Some(key * 3))).count();
    let absent = (60_001..=120_000).filter(|&key| get(&guest, key) == Some(None)).count();
    assert!(told > 20_000 && seen > 59_000 && absent > 59_000, "{told}, {seen}, {absent}");
    let keys: Vec<u64> = (59_900..60_100).collect();
    let found = get_many(&guest, &keys).unwrap();
    let known = keys
        .iter()
        .zip(&found)
        .filter(|&(&key, &found)| found == Some((key <= 60_000).then_some(key * 3)));
    assert!(known.count() > 190);

    for key in 1..59_000 {
        table.remove(key).unwrap();
    }
    while table.shrink().unwrap() == index::Shrunk::Halved {
        table.settle();
    }
    for key in 58_000..=60_000 {
        let expected = (key >= 59_000).then_some(key * 3);
        assert!(get(&guest, key).is_none_or(|found| found == expected), "{key}");
    }
    assert_eq!(get(&guest, 59_500), Some(Some(178_500)));
}

/// A crash may still take back what is under a lock; and key 0 lies in level 3.
#[test]
fn of_what_may_not_be_durable_the_owner_is_asked() {
    let (table, guest) = table_and_guest(&Shape::default());
    table.insert(0, 7).unwrap();
    table.insert(5, 50).unwrap();
    assert_eq!((get(&guest, 0), get(&guest, 5)), (None, Some(Some(50))));
    let core = &table.core;
    let flags = core.flags_1(core.geometry().home(core.hasher.first_u64(5)));
    flags.fetch_or(super::super::layout::LOCK, Ordering::AcqRel);
    assert_eq!((get(&guest, 5), get_many(&guest, &[5])), (None, Some(vec![None])));
    flags.fetch_and(!super::super::layout::LOCK, Ordering::AcqRel);
    assert_eq!(get(&guest, 5), Some(Some(50)));
}

/// The next owner changes the pool, and not what the former one showed.
#[test]
fn another_incarnation_makes_all_that_is_shown_void() {
    let (table, guest) = table_and_guest(&Shape::default());
    table.insert(5, 50).unwrap();
    let look = guest.look_at_items().unwrap();
    assert!(guest.is_as(look) && guest.are_items_as(look));
    let at = Offset(0).word(10);
    let incarnation = table.pool().medium().load(at);
    table.pool().medium().store(at, incarnation + 1);
    assert!(!guest.is_as(look) && !guest.are_items_as(look));
    assert_eq!(get(&guest, 5), None);
    table.pool().medium().store(at, incarnation);
    assert_eq!(get(&guest, 5), Some(Some(50)));
}

#[test]
fn a_view_of_another_table_is_refused() {
    let (table, _guest) = table_and_guest(&Shape::default());
    for bytes in [[0; 3], [64, 8, 8], [1 << 20, 1 << 20, 8]] {
        let view = Arc::new(pmem::view::View::make(&bytes).unwrap());
        assert!(Sight::open(Arc::clone(table.pool()), view).is_err(), "{bytes:?}");
    }
    let view = Arc::new(pmem::view::View::make(&[1 << 20, 1 << 20, 1 << 20]).unwrap());
    let guest = Sight::open(Arc::clone(table.pool()), Arc::clone(&view)).unwrap();
    // Sizes that this view has no room for, masks that are none, a start beyond the pool.
    for word in [u64::from(u32::MAX) | 40 << 32, 0b101 | 5 << 32, 0x1f | 5 << 32, 0, 3 | 63 << 32] {
        view.note(1).store(1 << 40, Ordering::Relaxed);
        view.show(word);
        assert_eq!(get(&guest, 5), None, "{word:#x}");
    }
}

/// Of 32 lanes and of 4, the others would lead into the next block, or behind the last one.
#[test]
fn fingerprints_beside_the_slots_lead_nowhere() {
    let small = Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 1, ..Shape::default() };
    let (table, guest) = table_and_guest(&small);
    let core = &table.core;
    let geometry = core.geometry();
    let of_first_blocks = |&key: &u64| {
        let first = core.hasher.first_u64(key);
        geometry.home(first) == 0 && core.choices(geometry, key, first).blocks[0] == 0
    };
    let keys: Vec<u64> = (1..).filter(of_first_blocks).take(2).collect();
    let absent = Some(vec![Some(None); 2]);
    let medium = table.pool().medium();
    for lane in 32..64 {
        let slot = core.slot_1(0, lane);
        assert_eq!(slot, core.slot_1(1, lane - 32));
        medium.store_pair(slot, keys[0], 99);
        let sought = core.sought_1(core.hasher.first_u64(keys[0]));
        core.set_lane_1(0, lane, sought.fingerprint_in(lane));
        assert_eq!((get(&guest, keys[0]), get_many(&guest, &keys)), (Some(None), absent.clone()));
    }
    for &key in &keys {
        core.mark_spilled(0, u64::from_ne_bytes([0x80; 8]));
        let choices = core.choices(geometry, key, core.hasher.first_u64(key));
        for lane in 4..8 {
            let slot = core.slot_2(0, lane);
            assert_eq!(slot, core.slot_2(1, lane - 4));
            medium.store_pair(slot, key, 99);
            core.set_lane_2(0, lane, choices.fingerprints[0]);
            assert_eq!((get(&guest, key), get_many(&guest, &keys)), (Some(None), absent.clone()));
        }
    }
}

/// Answers are wrong then. But there are some, and none has ended the guest.
#[test]
fn whatever_an_owner_shows_harms_no_guest() {
    let small = Shape { level_1_slots: 32, level_2_slots: 4, initial_log2: 1, ..Shape::default() };
    for (seed, shape) in (1..).zip([Shape::default(), small]) {
        let mut random = Random::new(seed);
        let (items, guest) = items_of(&shape);
        for key in 0..200u64 {
            items.upsert(&key.to_le_bytes(), &key.to_le_bytes()).unwrap();
        }
        let (view, pool) = (items.view().unwrap(), items.index().pool());
        let (lines, words) = (view.part::<Line>(0), view.part::<AtomicU64>(1));
        let (heads, shown) = (view.part::<AtomicU64>(2), items.index().core.geometry().0);
        let medium = pool.medium();
        for _ in 0..effort::of(200_000, 20_000) {
            let word = match random.below(4) {
                0 => random.below(1 << 12),
                1 => random.word() >> random.below(64),
                // A lane with any fingerprint, and slots that lead anywhere.
                2 => u64::from_ne_bytes([random.below(256) as u8; 8]),
                _ => random.word(),
            };
            match random.below(8) {
                0 => lines.get(random.index(64)).0[random.index(8)].store(word, Ordering::Relaxed),
                1 => words.get(random.index(64)).store(word, Ordering::Relaxed),
                2 => heads.get(random.index(64)).store(word, Ordering::Relaxed),
                3 => view.note(random.index(pmem::view::NOTES)).store(word, Ordering::Relaxed),
                4 => view.show(word & !pmem::view::SHOWN),
                5 => view.show(shown ^ 1 << random.below(63)),
                6 => medium.store(Offset(4096 + 8 * random.below(medium.size() / 8 - 512)), word),
                _ => view.show(shown),
            }
            let key = random.below(400).to_le_bytes();
            let _ = (guest.get(&key), guest.get_many(&[&key[..]; 3]));
            let _ = guest.sight().get(u64::from_le_bytes(key));
        }
        // It has lost its table.
        std::mem::forget(items);
    }
}

fn items() -> (Items<Iceberg<Dram>, Dram>, SeenItems<Sight<Dram>, Dram>) {
    items_of(&Shape::default())
}

fn items_of(shape: &Shape) -> (Items<Iceberg<Dram>, Dram>, SeenItems<Sight<Dram>, Dram>) {
    let spec = Spec { kind: PoolKind::Store, key_bytes: 0, value_bytes: 0, ..spec(shape) };
    let pool = Pool::create(Memory::dram(1 << 30).unwrap(), &spec, PLACE).unwrap();
    let pool = Arc::new(pool);
    // Few bits, so that keys share hashes.
    let hasher = Hasher::with_bits(spec.hash_seed, 14);
    let table = Iceberg::open(Arc::clone(&pool), shown()).unwrap();
    let guest = Sight::open(Arc::clone(&pool), table.view().unwrap()).unwrap();
    let seen = SeenItems::new(guest, Arc::clone(&pool), hasher);
    (Items::open(table, pool, hasher, 1).unwrap(), seen)
}

#[test]
fn a_guest_finds_items_of_all_sizes() {
    let (items, guest) = items();
    let key = |number: u64| number.to_string().repeat(1 + number as usize % 9).into_bytes();
    let value =
        |number: u64, turn: u64| vec![number as u8 ^ turn as u8; (number * 37 % 3_000) as usize];
    let mut told = [0; 3];
    for turn in 0..3 {
        for number in 0..3_000 {
            items.upsert(&key(number), &value(number, turn)).unwrap();
        }
        items.settle();
        for number in 0..4_000 {
            let expected: Copied = (number < 3_000).then(|| value(number, turn).into());
            if let Some(found) = guest.get(&key(number)) {
                assert_eq!(found, expected, "{number} in turn {turn}");
                told[turn as usize] += 1;
            }
        }
        let keys: Vec<_> = (0..4_000).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        for (number, found) in (0..).zip(guest.get_many(&keys)) {
            let expected: Copied = (number < 3_000).then(|| value(number, turn).into());
            assert!(found.is_none_or(|found| found == expected), "{number} in turn {turn}");
        }
    }
    // Of 3,000 keys with 14 bits of hash, some 500 share one with another, and the owner is asked for these.
    assert!(told.iter().all(|&told| (3_000..4_000).contains(&told)), "{told:?}");
}

/// The item's place may be another's when the guest reads it.
#[test]
fn an_item_counts_only_while_the_epoch_stands_still() {
    let (items, guest) = items();
    items.upsert(b"key", b"value").unwrap();
    let found = guest.get(b"key");
    assert_eq!(found, Some(Some(Box::from(*b"value"))));
    let sight = Sight::open(Arc::clone(items.index().pool()), items.view().unwrap()).unwrap();
    let look = sight.look_at_items().unwrap();
    assert!(sight.are_items_as(look));
    for number in 0..10_000u64 {
        items.upsert(b"other", &number.to_le_bytes()).unwrap();
    }
    assert!(sight.is_as(look) && !sight.are_items_as(look));
    assert_eq!(guest.get(b"key"), found);
}
