//! The gate: the code of `pmem/src/pool` itself.
//!
//! Property: a closer waits for a writer that got in, and a writer that comes after the gate has been opened again sees
//! what the closer did. What writers and closer do is plain memory, which they must not use at the same time: writers
//! write it, and a sync reads it when it has closed the gate.

use pmem::Pool;
use pmem::medium::watched::Watched;
use pmem::pool::Spec;
use pmem::superblock::{Place, PoolKind, SUPERBLOCK_BYTES};
use pmem::sync::THREADS_MAX;
use pmem::sync::loom::{Plain, begin, end, explore, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Syncs of the pool's memory before the one for which the gate is closed: one when the pool is created, and one while
/// writers go on.
const SYNCS_BEFORE: usize = 2;

struct Model {
    pool: Pool<Watched>,
    /// What each writer writes.
    content: Arc<[Plain; 2]>,
}

impl Model {
    fn new() -> Arc<Model> {
        let content = Arc::new(<[Plain; 2]>::default());
        let read = Arc::clone(&content);
        let syncs = AtomicUsize::new(0);
        let medium = Watched::with(SUPERBLOCK_BYTES, move |_| {
            if syncs.fetch_add(1, Ordering::Relaxed) == SYNCS_BEFORE {
                read.iter().for_each(Plain::read);
            }
        });
        let spec = Spec {
            kind: PoolKind::Table,
            engine: 0,
            key_bytes: 8,
            value_bytes: 8,
            hash_id: 0,
            hash_seed: 0,
            uuid: 1,
            segment_log2: 12,
            engine_params: [0; 16],
        };
        let place = Place { boot_id: [1, 1], inode: 1, file_system: 1 };
        let pool = Pool::create(medium.unwrap(), &spec, place).unwrap();
        Arc::new(Model { pool, content })
    }

    fn write(&self, writer: usize) {
        let _write = self.pool.write().unwrap();
        self.content[writer].write();
    }
}

/// Writers with these numbers, each with `writes` writes, during one sync.
fn model(writers: &'static [usize], writes: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let spawned = writers.iter().enumerate().map(|(index, &number)| {
            let shared = Arc::clone(&model);
            spawn(number, move || (0..writes).for_each(|_| shared.write(index)))
        });
        let spawned: Vec<_> = spawned.collect();
        model.pool.sync().unwrap();
        spawned.into_iter().for_each(|writer| writer.join().unwrap());
        end();
    }
}

#[test]
fn a_writer_that_got_in_is_waited_for() {
    explore(None, model(&[1], 2));
}

#[test]
fn a_writer_without_a_number_that_got_in_is_waited_for() {
    explore(None, model(&[THREADS_MAX], 2));
}

#[test]
fn a_writer_for_whom_another_one_opened_the_gate_comes_after_the_sync() {
    explore(Some(2), model(&[1, THREADS_MAX], 1));
}
