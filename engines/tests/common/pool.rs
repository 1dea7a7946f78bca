//! Pools, as the tests make them.

use engines::Engine;
use index::CheckReport;
use pmem::medium::{Dram, Memory};
use pmem::pool::Spec;
use pmem::superblock::{ENGINE_PARAMS, Place, PoolKind};

/// Where every pool here is said to be: the same place for a file, its reopening and its images.
pub(crate) const PLACE: Place = Place { boot_id: [11, 13], inode: 17, file_system: 19 };

/// `resize_at` of a table that never grows.
pub(crate) const NEVER: f64 = 2.0;
/// `resize_at` of a table that grows only when an insertion finds no room.
pub(crate) const WHEN_FULL: f64 = 1.0;

/// A pool with a table of words.
pub(crate) fn spec(engine: Engine, hash_seed: u64, engine_params: [u64; ENGINE_PARAMS]) -> Spec {
    Spec {
        kind: PoolKind::Table,
        engine: engine.description().id,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: index::hash::HASH_ID,
        hash_seed,
        uuid: 7,
        segment_log2: pmem::heap::SEGMENT_LOG2_DEFAULT,
        engine_params,
    }
}

/// Anonymous memory, empty.
pub(crate) fn dram(limit_bytes: u64) -> Dram {
    Memory::dram(limit_bytes).expect("anonymous memory")
}

/// Asserts that a check found `pairs` pairs and nothing wrong.
pub(crate) fn assert_sound(report: &CheckReport, pairs: u64) {
    assert!(report.is_sound(), "{} faults: {:#?}", report.faults, report.findings);
    assert_eq!(report.pairs, pairs, "pairs that were checked");
}
