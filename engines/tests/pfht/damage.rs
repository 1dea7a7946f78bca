//! Pools that no process left behind. They may be refused, or fail their check; nothing more may happen to who opens
//! them.

use crate::common::{PLACE, dram};
use crate::harness::{
    BUCKET_BYTES, Image, NEVER, NODE_BYTES, OfPfht, Random, SLOTS, STASH, TABLES, Table, extend,
    key, shape, stashing, value,
};
use crate::table::Kind;
use engines::Settings;
use engines::pfht::Pfht;
use index::Index;
use pmem::medium::Dram;
use pmem::superblock::{COPY_WORDS, Extent, Superblock};
use pmem::{Offset, OpenError, Pool, WORD};
use std::sync::Arc;

type Opened = (Pfht<Dram>, Arc<Pool<Dram>>);

fn open(image: &Image, resize_at: f64) -> Result<Opened, OpenError> {
    let medium = dram(1 << 26);
    image.fill(&medium);
    let pool = Arc::new(Pool::open(medium, PLACE)?);
    let settings = Settings { resize_at, helpers: 0, recovery_threads: 1, ..Settings::default() };
    Ok((OfPfht::open(Arc::clone(&pool), settings)?, pool))
}

/// An image with another superblock, in both copies.
fn with_superblock(image: &Image, superblock: &Superblock) -> Image {
    let mut image = image.clone();
    let words = superblock.encode();
    image.0[..COPY_WORDS].copy_from_slice(&words[..]);
    image.0[COPY_WORDS..2 * COPY_WORDS].copy_from_slice(&words[..]);
    image
}

/// A table that was doubled so often and halved again, with its superblock.
fn grown(doublings: u32, stash_percent: u32) -> (Image, Superblock) {
    let table = Table::<Dram>::new(stashing(SLOTS, 1, stash_percent), NEVER);
    (0..doublings).for_each(|_| extend(&table));
    while table.shrink() {}
    table.fill(0..10);
    (table.image(), table.pool.superblock())
}

fn assert_refused(image: &Image, superblock: &Superblock, what: &str) {
    match open(&with_superblock(image, superblock), NEVER) {
        Err(OpenError::Corrupt { found }) => println!("{what}: {found}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: it was opened"),
    }
}

#[test]
fn a_stash_with_gaps_is_refused() {
    let (image, sound) = grown(3, 5);
    assert!(open(&with_superblock(&image, &sound), NEVER).is_ok());
    // Of tables that are not used now, and would be without nodes when they are used again.
    for table in 0..=3 {
        let mut hostile = sound.clone();
        hostile.extents.retain(|one| one.owner != STASH || u64::from(one.index) < table);
        assert_refused(&image, &hostile, "no nodes from some table on");
        let mut hostile = sound.clone();
        hostile.extents.retain(|one| one.owner != STASH || u64::from(one.index) != table);
        assert_refused(&image, &hostile, "no nodes of a table");
    }
}

#[test]
fn data_tables_with_gaps_are_refused() {
    let (image, sound) = grown(3, 5);
    for table in 0..3 {
        let mut hostile = sound.clone();
        hostile.extents.retain(|one| one.owner != TABLES || u64::from(one.index) != table);
        assert_refused(&image, &hostile, "no data table of a number");
    }
}

/// A link of the stash has 32 bits for a bucket, and tells one that is none.
#[test]
fn more_buckets_than_the_stash_can_link_are_refused() {
    let (image, mut superblock) = grown(0, 3);
    // The buckets of all tables, and those among which a key may be where it was before.
    superblock.engine_roots[0] = 32;
    superblock.engine_roots[2] = 32;
    match open(&with_superblock(&image, &superblock), NEVER) {
        Err(OpenError::Corrupt { found }) => assert!(found.contains("to 2^31"), "{found}"),
        other => panic!("{:?}", other.map(|_| "it was opened")),
    }
}

#[test]
fn more_of_the_stash_than_there_can_be_is_refused() {
    let (image, sound) = grown(0, 0);
    for (count, last) in [(1, 1), (31, 31), (32, 32), (33, 33), (32, 255)] {
        let mut hostile = sound.clone();
        let start = Offset(sound.end);
        for index in (1..count).chain([last]) {
            hostile.extents.push(Extent { owner: STASH, index, start, bytes: 0 });
        }
        assert_refused(&image, &hostile, "nodes without a data table");
    }
}

/// Does everything with a table that can be done.
fn survive((table, pool): &Opened) {
    let _ = table.check();
    let _ = table.for_each(&mut |_, _| ());
    for index in 0..400 {
        let _write = pool.write().expect("the pool may be written");
        for key in [key(index), index] {
            let found = table.get(key);
            if let Ok(state) = table.update(key, 1) {
                assert_eq!(state, found);
            }
            let _ = table.insert(key, 2);
            let _ = table.remove(key);
        }
    }
    {
        let _write = pool.write().expect("the pool may be written");
        let _ = table.extend();
        let _ = table.shrink();
    }
    table.settle();
    let _ = table.check();
}

/// Pairs where they do not belong, in slots and in nodes, some of them often.
#[test]
fn pairs_that_lie_elsewhere_are_survived() {
    for seed in 0..60 {
        let table = Table::<Dram>::new(shape(SLOTS, 4), 0.8);
        // Some with a resize under way.
        table.fill(0..90 + seed);
        let mut image = table.image();
        let mut random = Random::new(seed);
        for _ in 0..1 + random.below(60) {
            let pair = key(random.below(150));
            let slots = random.percent(60);
            let extents = table.pool.extents_of(if slots { TABLES } else { STASH });
            let extent = extents[random.below(extents.len() as u64) as usize];
            let size = if slots { 2 * WORD } else { NODE_BYTES };
            if extent.bytes < size {
                continue;
            }
            let at = extent.start.add(random.below(extent.bytes / size) * size);
            let key = if random.percent(10) { 0 } else { pair };
            // Of a node 1 is a key, too, and for two of them says that there is one.
            let first = if slots { key } else { key.max(1) };
            image.words(at, size).copy_from_slice(&[first, value(1)]);
        }
        for resize_at in [NEVER, 0.8] {
            match open(&image, resize_at) {
                Ok(opened) => survive(&opened),
                Err(error) => panic!("the superblock is sound: {error}"),
            }
        }
    }
    assert_eq!(BUCKET_BYTES % (2 * WORD), 0);
}
