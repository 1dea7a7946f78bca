//! Closing, opening, and recovery of whole images. Cuts in the middle of operations are in `cuts`, killed processes in
//! `kills`.

use crate::harness::{Backing, Engine, Image, PLACE, Setup, Table, WHEN_FULL, spread, within};
use index::Index;
use pmem::pool::WriteError;
use pmem::superblock::SUPERBLOCK_BYTES;
use pmem::{Pool, WORD};
use std::collections::HashMap;
use std::sync::Arc;
use workload::effort;

/// A table of this many pairs, without or with a resize under way.
fn filled<B: Backing>(setup: Setup, pairs: u64, resizing: bool) -> (Table<B>, HashMap<u64, u64>) {
    let table = Table::<B>::new(setup);
    let mut model = HashMap::new();
    fill(&table, &mut model, pairs, resizing);
    (table, model)
}

/// Inserts until there are at least so many pairs, and a resize is under way or not.
fn fill<B: Backing>(table: &Table<B>, model: &mut HashMap<u64, u64>, pairs: u64, resizing: bool) {
    for index in model.len() as u64.. {
        // Only now and then: in a large table a resize lasts for many insertions.
        let looks = index % (1 + pairs / 1000) == 0;
        if looks && index >= pairs && table.occupancy().resizing == resizing {
            return;
        }
        let key = spread(index);
        table.insert(key, index).unwrap();
        model.insert(key, index);
    }
}

pub(crate) fn closed_tables_come_back<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for variant in 0..engine.variants {
        for (pairs, resizing) in [(0, false), (1, false), (50, false), (50, true), (3000, true)] {
            let setup = Setup { variant, helpers: 0, resize_at: WHEN_FULL, ..Setup::of(engine) };
            let (mut table, mut model) = filled::<B>(setup, pairs, resizing);
            for round in 0..3 {
                table = table.reopen();
                assert!(!table.occupancy().resizing, "a closed table is settled");
                table.assert_holds(&model);
                for key in 0..20 {
                    assert_eq!(table.upsert(key, round).unwrap(), model.insert(key, round));
                }
                assert_eq!(table.remove(7).unwrap(), model.remove(&7));
            }
        }
    }
}

pub(crate) fn a_read_only_table_is_whole_and_unchanged<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(60);
    let setup = Setup { variant: 1, helpers: 0, ..Setup::of(engine) };
    let (table, model) = filled::<B>(setup, 2000, true);
    let crashed = table.image();
    let closed = {
        let table = table.reopen();
        table.pool().close().unwrap();
        table.image()
    };
    let (mut backing, medium) = B::holding(&closed, setup.limit_bytes);
    let pool = Arc::new(Pool::open_read_only(medium, PLACE).unwrap());
    for helpers in 0..2 {
        let settings = Setup { helpers, ..setup }.settings();
        let index = engine.open(Arc::clone(&pool), settings).unwrap();
        assert!(matches!(pool.write(), Err(WriteError::ReadOnly)));
        assert_eq!(index.len(), model.len() as u64);
        model.iter().for_each(|(&key, &value)| assert_eq!(index.get(key), Some(value)));
        assert!(index.check().is_sound());
        index.settle();
    }
    backing.keep(pool.medium());
    drop(pool);
    let mut after = Image::of(&backing.again(setup.limit_bytes));
    after.0.truncate(closed.0.len());
    assert!(after == closed, "reading changed the pool");
    // A pool that was not closed can only be opened for writing.
    let (_backing, medium) = B::holding(&crashed, setup.limit_bytes);
    assert!(Pool::open_read_only(medium, PLACE).is_err());
}

/// The words behind the superblock.
fn content(image: &Image) -> &[u64] {
    &image.0[(SUPERBLOCK_BYTES / WORD) as usize..]
}

/// Recovers an image as after a crash: operations move nothing. Also tells whether the resize goes on after recovery.
fn recovered<B: Backing>(
    engine: &'static Engine,
    image: &Image,
    threads: usize,
    model: &HashMap<u64, u64>,
) -> (Image, bool) {
    let setup = Setup { helpers: 0, recovery_threads: threads, ..Setup::of(engine) };
    let table = Table::<B>::from_image(image, setup).unwrap();
    let (mut after, is_resizing) = (table.image(), table.occupancy().resizing);
    table.assert_holds(model);
    after.0.truncate(image.0.len());
    (after, is_resizing)
}

/// Enough pairs to keep several threads busy, and a resize half way through.
fn half_resized<B: Backing>(engine: &'static Engine, variant: usize) -> (Image, HashMap<u64, u64>) {
    let setup = Setup { variant, helpers: 0, ..Setup::of(engine) };
    let pairs = B::part(150_000).max(effort::of(37_500, 18_000));
    let (table, mut model) = filled::<B>(setup, pairs, false);
    // From its beginning: near its end, nothing may be left to move.
    fill(&table, &mut model, pairs, true);
    let image = table.image();
    (image, model)
}

pub(crate) fn any_number_of_threads_recovers_the_same<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for variant in 0..engine.variants.min(2) {
        let (image, model) = half_resized::<B>(engine, variant);
        let (by_one, is_resizing) = recovered::<B>(engine, &image, 1, &model);
        let is_half_way = is_resizing || content(&by_one) != content(&image);
        assert!(is_half_way, "the resize was not half way through");
        for threads in [2, 4, 0] {
            let (by_many, _) = recovered::<B>(engine, &image, threads, &model);
            assert!(content(&by_many) == content(&by_one), "{threads} threads differ from one");
        }
    }
}

pub(crate) fn recovery_of_a_recovery_changes_nothing<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    let (image, model) = half_resized::<B>(engine, 0);
    let (once, _) = recovered::<B>(engine, &image, 2, &model);
    let (twice, _) = recovered::<B>(engine, &once, 2, &model);
    assert!(content(&twice) == content(&once), "the second recovery found something to do");
}
