//! Tests that need IcebergHT's layout: images of resizes made by hand, and the paper's distribution of the keys over
//! the levels.

use super::{BLOCKS, ENGINE};
use crate::harness::{
    Access, Dram, Image, Journal, Journaled, NEVER, Random, SEED, Setup, Table, WHEN_FULL, spread,
    within,
};
use engines::iceberg::hash::{LEVEL1_LINE_SHIFT, h0};
use index::Index;
use index::hash::Hasher;
use pmem::{Offset, OpenError, Pool};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

type Iceberg = Table<Dram>;

/// Bytes of a slot: key and value.
const SLOT_BYTES: u64 = 16;
const SLOTS_PER_LINE: u64 = 4;

/// The blocks of level 1 or 2 in a pool.
struct Blocks {
    /// Where each block begins.
    starts: Vec<Offset>,
    slots: u64,
}

impl Blocks {
    fn of(table: &Iceberg, level: u8) -> Blocks {
        let pool: &Pool<_> = table.pool();
        let superblock = pool.superblock();
        let params = superblock.engine_params[0];
        let slots = if level == 1 { params as u32 } else { (params >> 32) as u32 };
        let block_bytes = u64::from(slots) * SLOT_BYTES;
        let starts = pool
            .extents_of(level)
            .iter()
            .flat_map(|extent| {
                (0..extent.bytes / block_bytes).map(|block| extent.start.add(block * block_bytes))
            })
            .collect::<Vec<_>>();
        assert_eq!(starts.len(), 1 << superblock.engine_roots[level as usize - 1]);
        Blocks { starts, slots: slots.into() }
    }

    fn slot(&self, block: usize, slot: u64) -> Offset {
        self.starts[block].add(slot * SLOT_BYTES)
    }

    fn free_slot(&self, image: &mut Image, block: usize) -> Option<Offset> {
        (0..self.slots)
            .map(|slot| self.slot(block, slot))
            .find(|&slot| image.words(slot, SLOT_BYTES)[0] == 0)
    }

    /// The slots of a block that hold a pair.
    fn taken(&self, image: &mut Image, block: usize) -> Vec<Offset> {
        (0..self.slots)
            .map(|slot| self.slot(block, slot))
            .filter(|&slot| image.words(slot, SLOT_BYTES)[0] != 0)
            .collect()
    }

    /// Undoes the last resize for some pairs of the upper half: a pair goes back to the block from which it came, or is
    /// in both blocks. Returns how many of each.
    fn half_undo(&self, image: &mut Image, random: &mut Random) -> [u32; 2] {
        let half = self.starts.len() / 2;
        let mut counts = [0; 2];
        for lower in 0..half {
            for from in self.taken(image, lower + half) {
                let what = random.below(3) as usize;
                if what == 2 {
                    continue;
                }
                let Some(to) = self.free_slot(image, lower) else { continue };
                let pair = image.words(from, SLOT_BYTES).to_vec();
                image.words(to, SLOT_BYTES).copy_from_slice(&pair);
                if what == 0 {
                    // Like an erasure: the value stays.
                    image.words(from, SLOT_BYTES)[0] = 0;
                }
                counts[what] += 1;
            }
        }
        counts
    }
}

/// A settled table that has been doubled several times, with its pairs.
fn doubled(variant: usize, resize_at: f64, drains: bool) -> (Iceberg, HashMap<u64, u64>) {
    let setup = Setup { variant, resize_at, helpers: 0, ..Setup::of(&ENGINE) };
    let table = Iceberg::new(setup);
    // While a scan is open, pairs stay in level 2.
    let scan = (!drains).then(|| table.scan());
    let mut model = HashMap::new();
    for key in 0u64.. {
        let key = spread(key);
        table.insert(key, !key).unwrap();
        model.insert(key, !key);
        if model.len() > 3000 && table.occupancy().resizing {
            break;
        }
    }
    table.settle();
    drop(scan);
    (table, model)
}

#[test]
fn resizes_that_were_half_done_are_finished() {
    let _watchdog = within(60);
    let mut random = Random::new(1);
    let mut sums = [[0; 2]; 2];
    for variant in 0..ENGINE.variants {
        for resize_at in [0.85, 1.0] {
            let (table, model) = doubled(variant, resize_at, false);
            for levels in [&[1][..], &[2], &[1, 2]] {
                let mut image = table.image();
                for &level in levels {
                    let counts = Blocks::of(&table, level).half_undo(&mut image, &mut random);
                    let sum = &mut sums[level as usize - 1];
                    *sum = [sum[0] + counts[0], sum[1] + counts[1]];
                }
                let recovered = Iceberg::from_image(&image, *table.setup()).unwrap();
                recovered.assert_holds(&model);
                let again = Iceberg::from_image(&recovered.image(), *table.setup()).unwrap();
                again.assert_holds(&model);
                // The copies are gone: a removed key stays removed.
                for &key in model.keys().take(2000) {
                    assert_eq!(again.remove(key).unwrap(), Some(!key));
                    assert_eq!(again.get(key), None);
                }
                assert_eq!(again.reopen().len(), model.len() as u64 - 2000);
            }
        }
    }
    assert!(sums.iter().flatten().all(|&sum| sum > 500), "pairs put back, copied: {sums:?}");
}

#[test]
fn keys_in_the_wrong_block_are_reported() {
    let _watchdog = within(60);
    let (table, _) = doubled(1, 1.0, false);
    for level in [1, 2] {
        let blocks = Blocks::of(&table, level);
        let mut random = Random::new(2);
        let mut refused = 0;
        for _ in 0..100 {
            let mut image = table.image();
            let count = blocks.starts.len() as u64;
            let (from, to) = (random.below(count) as usize, random.below(count) as usize);
            // From an even block to an odd one or the reverse: no resize connects those.
            let slots = blocks.taken(&mut image, from);
            let (Some(&slot), Some(free)) = (slots.first(), blocks.free_slot(&mut image, to))
            else {
                continue;
            };
            if (from ^ to) & 1 == 0 {
                continue;
            }
            let pair = image.words(slot, SLOT_BYTES).to_vec();
            image.words(free, SLOT_BYTES).copy_from_slice(&pair);
            image.words(slot, SLOT_BYTES)[0] = 0;
            match Iceberg::from_image(&image, *table.setup()) {
                Err(OpenError::Corrupt { found }) => {
                    assert!(found.contains("does not belong"), "{found}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
                // A key of level 2 has two blocks; by chance this is the other one.
                Ok(table) => assert!(level == 2 && table.check().is_sound()),
            }
        }
        assert!(refused > 10, "level {level}: {refused}");
    }
}

#[test]
fn a_key_that_is_stored_twice_is_reported() {
    let _watchdog = within(60);
    let (table, _) = doubled(1, 1.0, false);
    for level in [1, 2] {
        let blocks = Blocks::of(&table, level);
        let mut tried = 0;
        for block in 0..blocks.starts.len() {
            let mut image = table.image();
            let slots = blocks.taken(&mut image, block);
            let (Some(&slot), Some(free)) = (slots.first(), blocks.free_slot(&mut image, block))
            else {
                continue;
            };
            tried += 1;
            let key = image.words(slot, SLOT_BYTES)[0];
            image.words(free, SLOT_BYTES).copy_from_slice(&[key, 1]);
            if let Ok(table) = Iceberg::from_image(&image, *table.setup()) {
                assert!(!table.check().is_sound(), "level {level}: key {key:#x} is there twice");
            }
        }
        assert!(tried > 5);
    }
}

/// Updates a key while level 2 doubles in the middle of the update, at the `at`-th load. Level 1 stays as it is, so the
/// doubling needs no lock that the update holds, until the update locks level 2 itself. Returns what the update found
/// and how many loads it had.
fn update_while_level_2_doubles(key: u64, at: u64) -> (Option<u64>, u64) {
    let setup =
        Setup { variant: 1, pairs: 250, resize_at: WHEN_FULL, helpers: 0, ..Setup::of(&ENGINE) };
    let table = Rc::new(Table::<Journaled>::new(setup));
    let blocks = table.occupancy().levels[0].slots / 32;
    let hasher = Hasher::new(SEED);
    let mut of_block = [0, 1].map(|block| {
        (1u64..).filter(move |&key| h0(hasher.first_u64(key)) & (blocks - 1) == block)
    });
    // Block 0 is full and has spilled; all later keys go to block 1 and beyond.
    of_block[0].by_ref().take(45).for_each(|key| assert_eq!(table.insert(key, key).unwrap(), None));
    let writer = Rc::clone(&table);
    let [_, others] = of_block;
    let others = Cell::new(Some(others));
    let loads = Rc::new(Cell::new(0));
    let counted = Rc::clone(&loads);
    let hook = move |access| {
        counted.set(counted.get() + u64::from(access == Access::Load));
        if counted.get() != at || access != Access::Load {
            return;
        }
        let slots = |level: usize| writer.occupancy().levels[level].slots;
        let before = [slots(0), slots(1)];
        for other in others.take().into_iter().flatten() {
            if slots(1) > before[1] {
                break;
            }
            writer.insert(other, 0).unwrap();
        }
        writer.settle();
        assert_eq!([slots(0), slots(1)], [before[0], 2 * before[1]]);
    };
    let found = Journal::stopping(hook, || table.update(key, 1).unwrap());
    table.assert_sound();
    (found, loads.get())
}

#[test]
fn level_2_may_double_in_the_middle_of_a_writer() {
    let _watchdog = within(60);
    let hasher = Hasher::new(SEED);
    let keys = (1u64..).filter(|&key| h0(hasher.first_u64(key)) & 7 == 0).take(45);
    let mut doublings = 0;
    for key in keys.skip(30) {
        let (_, loads) = update_while_level_2_doubles(key, u64::MAX);
        // Level 2 is searched without locks and then with them. The first half of the loads is without.
        for at in 1..=loads / 2 {
            let (found, _) = update_while_level_2_doubles(key, at);
            assert_eq!(found, Some(key), "key {key:#x} at load {at}");
            doublings += 1;
        }
    }
    assert!(doublings >= 10, "level 2 doubled {doublings} times");
}

/// Fills a table of 2^20 slots in level 1 to 0.95 of all slots. Returns the parts of its pairs in levels 2 and 3, in
/// per cent.
fn overflow_percent(variant: usize) -> [f64; 2] {
    let (level_1_slots, _) = BLOCKS[variant];
    let setup =
        Setup { variant, pairs: 900_000, resize_at: NEVER, helpers: 0, ..Setup::of(&ENGINE) };
    let table = Iceberg::new(setup);
    let before = table.occupancy();
    assert!(before.levels[0].slots >= 1 << 20, "{level_1_slots} slots: {before:?}");
    let pairs = before.capacity * 95 / 100;
    let keys: Vec<_> = (1..=pairs).map(|key| (spread(key), key)).collect();
    table.insert_many(&keys, &mut vec![None; keys.len()]).unwrap();
    let full = table.occupancy();
    assert_eq!((full.pairs(), full.resizes), (pairs, 0));
    [1, 2].map(|level| full.levels[level].pairs as f64 / pairs as f64 * 100.0)
}

#[test]
fn the_levels_fill_as_in_table_6() {
    let _watchdog = within(120);
    // Per cent of the pairs that the paper found in level 2 and in level 3.
    let paper = [
        ((64, 8), [8.7, 0.000_07]),
        ((64, 6), [7.0, 0.007]),
        ((64, 4), [5.4, 0.27]),
        ((32, 8), [17.7, 0.03]),
        ((32, 6), [13.7, 0.06]),
        ((32, 4), [10.38, 0.64]),
    ];
    let mut found = HashMap::new();
    for (blocks, [level_2, level_3]) in paper {
        let variant = BLOCKS.iter().position(|&other| other == blocks).unwrap();
        let [here_2, here_3] = overflow_percent(variant);
        assert!(
            (here_2 / level_2 - 1.0).abs() < 0.25,
            "{blocks:?}: {here_2} % in level 2, not {level_2}"
        );
        found.insert(blocks, here_3);
        assert!(here_3 < level_3 * 3.0 + 0.001, "{blocks:?}: {here_3} % in level 3, not {level_3}");
    }
    let [level_2, level_3] = overflow_percent(0);
    assert!(level_2 < 10.0 && level_3 < 0.001, "64 and 8 slots: {level_2} %, {level_3} %");
    assert!(found[&(64, 8)] <= found[&(64, 6)] && found[&(64, 6)] < found[&(64, 4)], "{found:?}");
    assert!(found[&(32, 8)] <= found[&(32, 6)] && found[&(32, 6)] < found[&(32, 4)], "{found:?}");
}

/// The part of the level-1 pairs that are in the line that their hash prefers.
fn preferred_part(table: &Iceberg) -> f64 {
    let hasher = Hasher::new(SEED);
    let blocks = Blocks::of(table, 1);
    let lines = blocks.slots / SLOTS_PER_LINE;
    let mut image = table.image();
    let (mut taken, mut preferred) = (0, 0);
    for block in 0..blocks.starts.len() {
        for slot in blocks.taken(&mut image, block) {
            let first = hasher.first_u64(image.words(slot, SLOT_BYTES)[0]);
            let line = (slot.0 - blocks.starts[block].0) / (SLOT_BYTES * SLOTS_PER_LINE);
            taken += 1;
            preferred += u32::from((first >> LEVEL1_LINE_SHIFT) % lines == line);
        }
    }
    f64::from(preferred) / f64::from(taken)
}

#[test]
fn most_pairs_are_in_the_line_they_prefer() {
    let _watchdog = within(60);
    for variant in 0..ENGINE.variants {
        let setup = Setup { variant, pairs: 20_000, resize_at: NEVER, ..Setup::of(&ENGINE) };
        let table = Iceberg::new(setup);
        let pairs = table.occupancy().capacity * 85 / 100;
        let key = |number: u64| spread(number);
        let keys: Vec<_> = (1..=pairs).map(|number| (key(number), number)).collect();
        let (singly, together) = keys.split_at(keys.len() / 2);
        singly.iter().for_each(|&(key, value)| assert_eq!(table.insert(key, value).unwrap(), None));
        table.insert_many(together, &mut vec![None; together.len()]).unwrap();
        assert!(preferred_part(&table) > 0.75, "{}", preferred_part(&table));

        // Moves place pairs anew: otherwise a pair that was once displaced would displace others for ever.
        // Those that go back to a block find it half full already.
        for (drains, least) in [(false, 0.8), (true, 0.75)] {
            let (table, _) = doubled(variant, 0.85, drains);
            assert!(preferred_part(&table) > least, "doubled: {}", preferred_part(&table));
        }
    }
}
