//! Unit tests.

mod building;
mod hash;
mod layout;
mod scans;
mod shrinks;
mod sight;
mod tidy;

use super::{ENGINE_ID, Iceberg, Shape, engine_params};
use crate::Settings;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind};
use pmem::{Medium, Offset, Pool, WORD};
use std::sync::Arc;

use index::Index;

const PLACE: Place = Place { boot_id: [11, 13], inode: 17, file_system: 19 };

fn settings(resize_at: f64) -> Settings {
    Settings { resize_at, helpers: 0, recovery_threads: 1, ..Settings::default() }
}

/// A table in a pool of at most `limit_bytes`.
fn new_table(shape: &Shape, limit_bytes: u64, resize_at: f64) -> Iceberg<Dram> {
    let pool = Pool::create(Memory::dram(limit_bytes).unwrap(), &spec(shape), PLACE).unwrap();
    Iceberg::open(Arc::new(pool), settings(resize_at)).unwrap()
}

fn spec(shape: &Shape) -> Spec {
    Spec {
        kind: PoolKind::Table,
        engine: ENGINE_ID,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: index::hash::HASH_ID,
        hash_seed: 0x5eed,
        uuid: 7,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params: engine_params(shape),
    }
}

/// The table, opened after a crash that kept every store.
fn after_crash(table: &Iceberg<Dram>) -> Iceberg<Dram> {
    after_crash_without(table, &[])
}

/// The same after a crash that took these words back to these values.
fn after_crash_without(table: &Iceberg<Dram>, lost: &[(Offset, u64)]) -> Iceberg<Dram> {
    let medium = copy_of(table.core.medium());
    for &(at, word) in lost {
        medium.store(at, word);
    }
    let pool = Pool::open(medium, PLACE).unwrap();
    Iceberg::open(Arc::new(pool), table.core.settings).unwrap()
}

fn copy_of(before: &Dram) -> Dram {
    let medium = Memory::dram(before.limit().max(before.size())).unwrap();
    medium.grow(before.size()).unwrap();
    for word in (0..before.size() / WORD).map(|word| Offset(0).word(word)) {
        medium.store(word, before.load(word));
    }
    medium
}

/// A removal clears the key first and the fingerprint after its fence. A search for key 0 that comes in between meets
/// 0 under a fingerprint that may be its own.
#[test]
fn a_key_that_is_being_removed_is_not_taken_for_key_0() {
    let table = new_table(&Shape::default(), 1 << 26, 1.0);
    let core = &table.core;
    let first = core.hasher.first_u64(0);
    let home = core.geometry().home(first);
    for lane in [core.preferred_1(first), core.preferred_1(first) ^ 8] {
        let slot = core.slot_1(home, lane);
        core.fill(slot, 0, 77);
        core.set_lane_1(home, lane, core.sought_1(first).fingerprint_in(lane));
        assert_eq!(table.get(0), None);
        let mut found = [Some(1); 2];
        table.get_many(&[0, 0], &mut found);
        assert_eq!(found, [None; 2]);
    }
}
