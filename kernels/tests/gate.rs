//! The gate: the code of `pmem/src/pool` itself.
//!
//! Property: a closer waits for a writer that got in, and a writer that comes after the gate has been opened again sees
//! what the closer did. What writers and closer do is plain memory, which they must not use at the same time: writers
//! write it, and a sync reads it when it has closed the gate.

use pmem::Pool;
use pmem::medium::watched::Watched;
use pmem::pool::{Spec, Write};
use pmem::superblock::{Place, PoolKind, SUPERBLOCK_BYTES};
use pmem::sync::loom::{Plain, begin, end, explore, spawn};
use pmem::sync::{Asymmetric, AtomicBool, Numbered, Ordering, THREADS_MAX};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

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

    /// As a change of the hot path, which the pool makes if the gate is not open.
    fn write_here(&self, writer: usize) {
        let Some(_write) = self.enter_here() else { return self.write(writer) };
        self.content[writer].write();
    }

    fn enter_here(&self) -> Option<Write<'_>> {
        let thread = Numbered::this_thread().unwrap();
        self.pool.gate().enter_here(thread, Asymmetric::granted().unwrap())
    }
}

type Work = fn(&Model, usize);

/// Threads with these numbers, each of which writes so and so many times, during one sync.
fn model<const N: usize>(
    writers: [(usize, Work); N],
    writes: usize,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let spawned = writers.iter().enumerate().map(|(index, &(number, write))| {
            let shared = Arc::clone(&model);
            spawn(number, move || (0..writes).for_each(|_| write(&shared, index)))
        });
        let spawned: Vec<_> = spawned.collect();
        model.pool.sync().unwrap();
        spawned.into_iter().for_each(|writer| writer.join().unwrap());
        end();
    }
}

#[test]
fn a_writer_that_got_in_is_waited_for() {
    explore(None, model([(1, Model::write)], 2));
}

#[test]
fn a_writer_without_a_number_that_got_in_is_waited_for() {
    explore(None, model([(THREADS_MAX, Model::write)], 2));
}

#[test]
fn a_writer_for_whom_another_one_opened_the_gate_comes_after_the_sync() {
    let writers: [(usize, Work); 2] = [(1, Model::write), (THREADS_MAX, Model::write)];
    explore(Some(2), model(writers, 1));
}

#[test]
fn a_writer_of_the_hot_path_that_got_in_is_waited_for() {
    explore(Some(4), model([(1, Model::write_here)], 2));
}

#[test]
fn a_writer_of_the_hot_path_for_whom_another_one_opened_the_gate_comes_after_the_sync() {
    let writers: [(usize, Work); 2] = [(1, Model::write_here), (THREADS_MAX, Model::write)];
    explore(Some(2), model(writers, 1));
}

/// A writer that does not see what the waiting thread did before has left when the wait is over.
#[test]
fn everybody_inside_has_left_when_a_wait_is_over() {
    let enter: [fn(&Model) -> Option<Write<'_>>; 2] =
        [|model| model.pool.write().ok(), Model::enter_here];
    for enter in enter {
        explore(None, move || {
            let model = Model::new();
            drop(model.pool.write().unwrap());
            let is_waiting = Arc::new(AtomicBool::new(false));
            begin();
            let writer = {
                let (shared, is_waiting) = (Arc::clone(&model), Arc::clone(&is_waiting));
                spawn(1, move || {
                    for _ in 0..2 {
                        let _write = enter(&shared).unwrap();
                        if !is_waiting.load(Ordering::Relaxed) {
                            shared.content[0].write();
                        }
                    }
                })
            };
            is_waiting.store(true, Ordering::Relaxed);
            model.pool.wait_for_writers();
            model.content[0].write();
            writer.join().unwrap();
            end();
        });
    }
}
