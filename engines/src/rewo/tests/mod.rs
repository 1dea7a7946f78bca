//! Changes between the steps of a look-up, laid out by hand.

mod scans;

use super::*;
use crate::kit::search::Search;
use index::Index;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};

const LIMIT_BYTES: u64 = 1 << 26;
const KEY: u64 = 7;

fn table_of(shape: Shape, settings: Settings) -> RewoHash<Dram> {
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
    RewoHash::open(Arc::new(pool), settings).unwrap()
}

fn table(design: Design) -> RewoHash<Dram> {
    let cached = Cached::SmallerLog2(3);
    let shape = Shape { initial_log2: 4, cached, design, ..Shape::for_pair_bytes(16) };
    let table = table_of(shape, Settings::default());
    // Not full-loaded any more: what is inserted is not cached by itself.
    table.extend().unwrap();
    table
}

/// A look-up has found the key in the pool, and is held up before it caches that.
#[test]
fn what_has_been_replaced_since_it_was_found_is_not_cached() {
    let changes: [fn(&RewoHash<Dram>); 5] = [
        |table| assert_eq!(table.update(KEY, 2).unwrap(), Some(1)),
        |table| assert_eq!(table.remove(KEY).unwrap(), Some(1)),
        |table| {
            table.remove(KEY).unwrap();
            table.insert(KEY, 2).unwrap();
        },
        |table| {
            let batch = [(KEY, 2), (KEY, 3)];
            table.upsert_many(&batch, &mut [None; 2]).unwrap();
        },
        |table| table.extend().unwrap(),
    ];
    for in_place_update in [false, true] {
        for (change, number) in changes.iter().zip(0..) {
            let table = table(Design { in_place_update, ..Design::default() });
            let (core, cache) = (&table.core, table.core.cache.as_ref().unwrap());
            table.insert(KEY, 1).unwrap();
            let hash = core.hash(KEY);
            let found = core.find_slow(KEY, hash).unwrap();
            change(&table);
            let now = core.get_from_buckets(KEY);
            core.fill_cache(cache, KEY, hash, &found);
            assert_eq!(table.get(KEY), now, "change {number}, in place: {in_place_update}");
            assert!(table.check().is_sound());
        }
    }
}
