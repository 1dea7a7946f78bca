//! One test for each fault that was found in published code of these tables.

use crate::harness::{Backing, Engine, Image, PLACE, Setup, Table, within};
use crate::threads::{growing_setups, together};
use index::{Error, Index};
use pmem::superblock::COPY_BYTES;
use pmem::{OpenError, Pool, WORD};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

pub(crate) fn no_key_is_lost_while_growing_under_two_threads<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let each = B::part(60_000);
        together(2, |thread| {
            for index in 0..each {
                let key = 2 * index + thread as u64;
                assert_eq!(table.insert(key, !key).unwrap(), None);
            }
        });
        table.assert_holds(&(0..2 * each).map(|key| (key, !key)).collect());
    }
}

pub(crate) fn readers_beside_a_remove_see_stored_values_only<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    // In turn in the first level, in crowded tables, and with key 0. Two keys share the slots, so that a reader who
    // mixes the key of one with the value of the other is found out.
    for fill in [0, 300] {
        for keys in
            [[1, 2], [0, u64::MAX], [engine.colliding_keys()[0], engine.colliding_keys()[1]]]
        {
            let table = Table::<B>::new(Setup {
                variant: 1,
                resize_at: engine.as_late_as_possible,
                ..Setup::of(engine)
            });
            for key in 1000..1000 + fill {
                table.insert(key, key).unwrap();
            }
            let ended = AtomicBool::new(false);
            together(3, |thread| {
                if thread == 0 {
                    for round in 1..B::part(30_000) {
                        for (which, key) in (0..).zip(keys) {
                            let value = round << 1 | which;
                            assert_eq!(table.insert(key, value).unwrap(), None);
                            assert_eq!(table.remove(key).unwrap(), Some(value));
                        }
                    }
                    ended.store(true, Ordering::Release);
                    return;
                }
                let mut last = [0; 2];
                while !ended.load(Ordering::Acquire) {
                    for which in 0..2 {
                        let Some(value) = table.get(keys[which]) else { continue };
                        assert_eq!(value & 1, which as u64, "a value of the other key");
                        let round = value >> 1;
                        assert!(round >= last[which], "an old value came back");
                        assert!(round < 30_000, "a value that nobody stored");
                        last[which] = round;
                    }
                }
            });
            assert_eq!(table.len(), fill);
        }
    }
}

pub(crate) fn no_key_is_inserted_twice<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for setup in growing_setups(engine) {
        let table = Table::<B>::new(setup);
        let keys = B::part(4000);
        together(3, |thread| {
            for key in 0..keys {
                match thread {
                    0 => table.insert(key, key).map(|_| ()),
                    1 => table.upsert(key, key).map(|_| ()),
                    _ => table
                        .insert_many(&[(key, key), (key, key)], &mut [None; 2])
                        .map_err(Error::from),
                }
                .unwrap();
            }
        });
        // `pairs` fails on a key that comes twice.
        assert_eq!(table.pairs().len() as u64, keys);
        for key in 0..keys {
            assert_eq!(table.remove(key).unwrap(), Some(key));
            assert_eq!(table.get(key), None, "a second copy of key {key} was below the first");
        }
        assert!(table.is_empty());
    }
}

pub(crate) fn removing_a_missing_key_ends<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for setup in growing_setups(engine)
        .chain([Setup { resize_at: engine.as_late_as_possible, ..Setup::of(engine) }])
    {
        let table = Table::<B>::new(setup);
        for fill in [0..0, 1..40, 40..200, 200..3000u64] {
            for key in fill {
                table.insert(key, key).unwrap();
            }
            for missing in [0, u64::MAX, 1 << 40].iter().chain(engine.colliding_keys()) {
                let before = table.len();
                if table.get(*missing).is_none() {
                    assert_eq!(table.remove(*missing).unwrap(), None);
                    assert_eq!(table.remove_if(*missing, 0).unwrap(), Err(None));
                    assert_eq!(table.update(*missing, 0).unwrap(), None);
                }
                assert_eq!(table.len(), before);
            }
        }
    }
}

pub(crate) fn key_0_and_value_0_are_kept<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    for setup in growing_setups(engine) {
        let mut table = Table::<B>::new(setup);
        assert_eq!(table.insert(0, 0).unwrap(), None);
        let mut model = HashMap::from([(0, 0)]);
        for key in 1..3000 {
            table.insert(key, 0).unwrap();
            model.insert(key, 0);
        }
        table.assert_holds(&model);
        table = Table::from_image(&table.image(), setup).unwrap();
        table.assert_holds(&model);
        table = table.reopen();
        table.assert_holds(&model);
        assert_eq!(table.remove(0).unwrap(), Some(0));
        assert_eq!(table.get(0), None);
        model.remove(&0);
        table.reopen().assert_holds(&model);
    }
}

pub(crate) fn opening_an_existing_pool_keeps_it<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    let setup = Setup::of(engine);
    let mut table = Table::<B>::new(setup);
    let mut model = HashMap::new();
    for opening in 0..5 {
        for key in opening * 1000..opening * 1000 + 700 {
            table.insert(key, key + opening).unwrap();
            model.insert(key, key + opening);
        }
        table = table.reopen();
        table.assert_holds(&model);
        assert_eq!(table.pool().superblock().incarnation, opening + 2);
    }
    // What is not a pool is refused and stays unchanged.
    let foreign = Image((1..5000u64).map(|word| word * 0x0101_0101).collect());
    let (mut backing, medium) = B::holding(&foreign, setup.limit_bytes);
    backing.keep(&medium);
    let refused = Pool::open(medium, PLACE).err();
    assert!(matches!(refused, Some(OpenError::NotAPool { .. })), "{refused:?}");
    let mut found = Image::of(&backing.again(setup.limit_bytes));
    found.0.truncate(foreign.0.len());
    assert!(found == foreign, "a refused file was changed");
}

pub(crate) fn no_lock_outlives_a_crash<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    // The process ends at any moment of four writers, and nobody releases what they hold. Copying an image takes a
    // while. Values that are replaced in place make no image inconsistent. But the copy could miss a moving pair in
    // both places, so an engine whose updates move pairs rests meanwhile.
    let in_place = (1..engine.variants).find(|&variant| (engine.updates_in_place)(variant));
    let setup = Setup { variant: in_place.unwrap_or(1), ..Setup::of(engine) };
    let at_rest = RwLock::new(());
    let table = Arc::new(Table::<B>::new(setup));
    for key in 0..500 {
        table.insert(key, key).unwrap();
    }
    table.settle();
    let stop = AtomicBool::new(false);
    let images = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for key in 0..500 {
                        let _writing = in_place.is_none().then(|| at_rest.read().unwrap());
                        table.upsert(key, key).unwrap();
                    }
                }
            });
        }
        let images: Vec<Image> = (0..20)
            .map(|_| {
                std::thread::yield_now();
                let _resting = at_rest.write().unwrap();
                table.image()
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        images
    });
    for image in images {
        let table = Table::<B>::from_image(&image, setup).unwrap();
        for key in 0..500 {
            assert_eq!(table.update(key, key + 1).unwrap(), Some(key));
        }
        table.assert_holds(&(0..500).map(|key| (key, key + 1)).collect());
    }
}

pub(crate) fn a_crash_in_initialization_leaves_a_table_or_none<B: Backing>(
    engine: &'static Engine,
) {
    let _watchdog = within(60);
    let setup = Setup { limit_bytes: 64 << 20, ..Setup::of(engine) };
    // Between the creation of the pool and that of the table.
    let (mut backing, medium) = B::empty(setup.limit_bytes);
    let pool = Pool::create(medium, &setup.spec(), PLACE).unwrap();
    let bare = Image::of(pool.medium());
    backing.keep(pool.medium());
    drop(pool);
    let table = Table::<B>::from_image(&bare, setup).unwrap();
    assert_eq!(table.insert(1, 2).unwrap(), None);
    table.assert_holds(&HashMap::from([(1, 2)]));
    // In the middle of the first superblock, between the two, and in the second.
    let words = (COPY_BYTES / WORD) as usize;
    for cut in (0..2 * words).step_by(23).chain([1, 2, 3, 4, words - 1, words, words + 1]) {
        for truncated in [false, true] {
            let mut image = bare.clone();
            image.0[cut..].fill(0);
            if truncated {
                image.0.truncate(cut.next_multiple_of(words));
            }
            let (_backing, medium) = B::holding(&image, setup.limit_bytes);
            match Pool::open(medium, PLACE) {
                Ok(pool) => {
                    let index = engine.open(Arc::new(pool), Setup::of(engine).settings()).unwrap();
                    assert!(index.is_empty() && index.check().is_sound());
                }
                Err(OpenError::NotAPool { .. } | OpenError::Damaged { .. }) => {
                    assert!(cut < words, "a whole superblock of {cut} words is refused");
                }
                Err(error) => panic!("cut after {cut} words: {error}"),
            }
        }
    }
}
