//! What recovery makes of items that are there twice, and of what else a crash leaves.

use crate::common::{PLACE, dram};
use crate::harness::{
    BUCKET_BYTES, CURSOR, Image, NEVER, NODE_BYTES, OfPfht, STASH, TABLES, Table, choices, key,
    shape, stashed, stashing, value, words_in,
};
use crate::table::{Fresh, Kind};
use engines::Settings;
use index::Index;
use pmem::medium::Dram;
use pmem::superblock::SUPERBLOCK_BYTES;
use pmem::{Offset, OpenError, Pool, WORD};
use std::sync::Arc;

const LOG2: u32 = 3;
/// The first node that any key may take.
const NODE: u64 = 2;

type Words = Table<Dram>;

fn extent<M: Fresh>(table: &Table<M>, owner: u8) -> Offset {
    table.pool.extents_of(owner)[0].start
}

/// Where a slot of the first data table is.
fn slot(table: &Words, bucket: u64, slot: u64) -> Offset {
    extent(table, TABLES).add(bucket * BUCKET_BYTES + slot * 2 * WORD)
}

fn node(table: &Words, node: u64) -> Offset {
    extent(table, STASH).add(node * NODE_BYTES)
}

fn put_into_slot(table: &Words, image: &mut Image, at: [u64; 2], pair: [u64; 2]) {
    image.words(slot(table, at[0], at[1]), 2 * WORD).copy_from_slice(&pair);
}

fn put_into_node(table: &Words, image: &mut Image, number: u64, [key, value]: [u64; 2]) {
    // The key 0 is told by its nodes.
    let first = if number < NODE { 1 } else { key };
    image.words(node(table, number), 2 * WORD).copy_from_slice(&[first, value]);
}

/// A table with a pair of which both buckets are others, in its first one.
fn one_pair() -> (Words, [u64; 2], [u64; 2]) {
    let table = Words::new(shape(8, LOG2), NEVER);
    let key = (1..).find(|&key| choices(key, LOG2) == [2, 5]).unwrap();
    assert_eq!(table.insert(key, !key).expect("it is empty"), None);
    (table, [key, !key], [2, 5])
}

/// Asserts that a table recovered from an image has this pair and no other, once, and is none the worse.
fn assert_once(table: &Words, image: &Image, [key, value]: [u64; 2]) -> Words {
    let again = table.recovered(image);
    again.assert_sound(1);
    assert_eq!(again.get(key), Some(value));
    // Nothing to be done the next time.
    assert_eq!(read_only(&again.image()).map_err(|error| error.to_string()), Ok(1));
    assert_eq!(again.remove(key), Some(value));
    assert_eq!(again.get(key), None);
    again.assert_sound(0);
    again.recovered(&again.image())
}

/// The pairs that who opens an image only to read it finds.
fn read_only(image: &Image) -> Result<u64, OpenError> {
    // Somebody closed it who did not look into it.
    let medium = dram(1 << 30);
    image.fill(&medium);
    let pool = Pool::open(medium, PLACE)?;
    pool.close().expect("it is closed");
    let closed = Image::of(pool.medium());
    let medium = dram(1 << 30);
    closed.fill(&medium);
    let pool = Pool::open_read_only(medium, PLACE)?;
    let settings = Settings { recovery_threads: 1, ..Settings::default() };
    let table = OfPfht::open::<_, u64, u64>(Arc::new(pool), settings)?;
    Ok(table.check().pairs)
}

fn assert_needs_recovery(image: &Image) {
    let result = read_only(image);
    assert!(matches!(result, Err(OpenError::NeedsRecovery)), "{result:?}");
}

#[test]
fn of_a_displaced_item_one_copy_stays() {
    let (table, pair, [first, second]) = one_pair();
    let mut image = table.image();
    put_into_slot(&table, &mut image, [second, 3], pair);
    let again = assert_once(&table, &image, pair);
    assert_eq!(again.image().words(slot(&table, second, 3), WORD)[0], 0, "the slot is empty");
    // Alone in its second bucket it stays where it is.
    let mut image = table.image();
    put_into_slot(&table, &mut image, [first, 0], [0, 0]);
    put_into_slot(&table, &mut image, [second, 3], pair);
    assert_once(&table, &image, pair);
}

#[test]
fn of_an_item_in_a_node_and_in_a_slot_the_slot_stays() {
    for number in [NODE, NODE + 1] {
        for bucket in [2, 5] {
            let (table, pair, _) = one_pair();
            let mut image = table.image();
            put_into_slot(&table, &mut image, [2, 0], [0, 0]);
            put_into_slot(&table, &mut image, [bucket, 7], pair);
            put_into_node(&table, &mut image, number, pair);
            let again = assert_once(&table, &image, pair);
            assert_eq!(stashed(&again), 0);
            assert_eq!(again.image().words(node(&table, number), WORD)[0], 0, "the node is free");
        }
    }
}

#[test]
fn of_an_item_in_two_nodes_one_stays() {
    let (table, pair, _) = one_pair();
    let mut image = table.image();
    put_into_slot(&table, &mut image, [2, 0], [0, 0]);
    put_into_node(&table, &mut image, NODE, pair);
    put_into_node(&table, &mut image, NODE + 1, pair);
    assert_once(&table, &image, pair);
    // The key 0, whose nodes are its own.
    let zero = [0, 8];
    put_into_node(&table, &mut image, NODE, [0, 0]);
    image.store(node(&table, NODE), 0);
    image.store(node(&table, NODE + 1), 0);
    put_into_node(&table, &mut image, 0, zero);
    put_into_node(&table, &mut image, 1, zero);
    assert_once(&table, &image, zero);
}

#[test]
fn who_may_not_write_is_told_of_copies() {
    let (table, pair, [_, second]) = one_pair();
    let image = table.image();
    for spoil in [
        |table: &Words, image: &mut Image, pair| put_into_slot(table, image, [5, 3], pair),
        |table: &Words, image: &mut Image, pair| put_into_node(table, image, NODE, pair),
    ] {
        let mut image = image.clone();
        spoil(&table, &mut image, pair);
        assert_needs_recovery(&image);
    }
    assert_eq!(second, 5);
}

/// A value without its key, and a node without its state: nothing was there.
#[test]
fn what_was_begun_is_no_pair() {
    let (table, pair, [first, second]) = one_pair();
    let mut image = table.image();
    put_into_slot(&table, &mut image, [first, 1], [0, 77]);
    put_into_slot(&table, &mut image, [second, 0], [0, 78]);
    put_into_node(&table, &mut image, NODE, [1234, 79]);
    image.store(node(&table, NODE), 0);
    assert_once(&table, &image, pair);
}

/// Nodes after a crash are as many as before, whichever of them were in use.
#[test]
fn free_nodes_are_found_again() {
    let table = Words::new(stashing(1, LOG2, 5), NEVER);
    let keys: Vec<u64> = words_in([6, 6], LOG2).take(2).collect();
    let mut image = table.image();
    put_into_slot(&table, &mut image, [6, 0], [keys[0], 1]);
    put_into_node(&table, &mut image, NODE, [keys[1], 2]);
    let again = table.recovered(&image);
    again.assert_sound(2);
    let another = words_in([6, 6], LOG2).nth(2).unwrap();
    assert!(again.insert(another, 3).is_err(), "the one node is in use");
    assert_eq!(again.remove(keys[1]), Some(2));
    assert_eq!(again.insert(another, 3).expect("the node is free"), None);
    let again = again.recovered(&again.image());
    assert_eq!((again.get(another), again.get(keys[0])), (Some(3), Some(1)));
    again.assert_sound(2);
}

#[test]
fn a_resize_goes_on_where_it_was() {
    let table = Words::new(shape(8, 6), 0.8);
    let mut count = 0;
    while !table.occupancy().resizing {
        table.fill(count..count + 1);
        count += 1;
    }
    for done in 0..3 {
        table.fill(count..count + 16);
        count += 16;
        assert!(table.occupancy().resizing, "after {done} steps");
        let mut image = table.image();
        let cursor = extent(&table, CURSOR);
        assert!(image.words(cursor, WORD)[0] > 0, "it has begun");
        let again = table.recovered(&image);
        assert!(again.occupancy().resizing, "it is still under way");
        again.assert_holds(0..count);
        // Without the cursor every bucket is looked at again.
        image.store(cursor, 0);
        table.recovered(&image).assert_holds(0..count);
        // One that lies ends the resize too early: keys are missed, and a check says so.
        image.store(cursor, u64::MAX);
        let again = table.recovered(&image);
        again.settle();
        assert!(!again.index.check().is_sound());
    }
}

#[test]
fn a_closed_table_is_opened_again() {
    let table = Words::new(shape(8, 5), NEVER);
    let full = |index: &u64| table.insert(key(*index), value(*index)).is_err();
    let count = (0..).find(full).expect("it fills up");
    assert_eq!(table.insert(0, 0).expect("it has its own node"), None);
    let (image, there) = (table.image(), stashed(&table));
    assert_eq!(read_only(&image).map_err(|error| error.to_string()), Ok(count + 1));
    let again = table.recovered(&image);
    let content = |image: &Image| image.0[(SUPERBLOCK_BYTES / WORD) as usize..].to_vec();
    assert!(content(&again.image()) == content(&image), "there was nothing to be recovered");
    assert_eq!((stashed(&again), again.remove(0)), (there, Some(0)));
    again.assert_holds(0..count);
}
