//! What only the inside can bring about.

use super::*;
use crate::kit::buckets::Locked;
use crate::kit::doubling::Doubles;
use index::Index;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use std::time::Duration;

const LIMIT_BYTES: u64 = 1 << 26;

fn table_of(shape: Shape, settings: Settings) -> Pfht<Dram> {
    let spec = Spec {
        kind: PoolKind::Table,
        engine: ENGINE_ID,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: index::hash::HASH_ID,
        hash_seed: 0x5eed,
        uuid: 7,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params: engine_params(&shape),
    };
    let place = Place { boot_id: [11, 13], inode: 17, file_system: 19 };
    let pool = Pool::create(Memory::dram(LIMIT_BYTES).unwrap(), &spec, place).unwrap();
    Pfht::open(Arc::new(pool), settings).unwrap()
}

/// A table that may not grow is not full because somebody holds the bucket to which an item could go.
#[test]
fn a_bucket_that_is_held_is_waited_for() {
    let shape =
        Shape { slots: 1, initial_log2: 1, stash_percent: 0, ..Shape::for_pair::<u64, u64>() };
    let table = table_of(shape, Settings { resize_at: 2.0, helpers: 0, ..Settings::default() });
    let core = &table.core;
    let key_of = |wanted: [u64; 2]| {
        (1..).find(|&key: &u64| core.pair_among(1, core.hash(key)) == wanted).unwrap()
    };
    let (movable, other) = (key_of([0, 1]), key_of([0, 0]));
    assert_eq!(table.insert(movable, 1).unwrap(), None);
    let held = Locked::attempt(core.state(1)).unwrap();
    std::thread::scope(|scope| {
        let inserting = scope.spawn(|| table.insert(other, 2));
        // Long enough that it has come to the bucket; if not, nothing is shown.
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        assert_eq!(inserting.join().unwrap().unwrap(), None);
    });
    assert_eq!([movable, other].map(|key| table.get(key)), [Some(1), Some(2)]);
    assert!(table.check().findings.is_empty());
}

/// Where nothing is moved, some keys find no room in a table with many slots for each pair. Nobody has chosen them.
#[test]
fn keys_by_themselves_do_not_crowd_where_nothing_is_moved() {
    let design = Design { displaces: false, ..Design::default() };
    let shape = Shape { slots: 2, initial_log2: 4, stash_percent: 0, design };
    let table = table_of(shape, Settings { helpers: 0, ..Settings::default() });
    for key in (0..1000).map(|key| 201_000_000 + key) {
        assert_eq!(table.insert(key, !key).unwrap(), None);
    }
}
