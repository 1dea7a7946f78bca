//! The simulated memory does what the fault model says.

use pmem::medium::sim::Sim;
use pmem::sync::simulated::{Context, enter, show};
use pmem::{Medium, Offset};

/// Goes on as a simulated thread whose stores become visible late.
fn become_thread(thread: usize) {
    enter(Context { hook: None, thread, process: 1, delays: true });
}

/// The certain words of the first line, and how many stores to it are pending.
fn first_line(sim: &Sim) -> (u64, u64, usize) {
    let durable = sim.durable();
    (durable.words[0], durable.words[1], durable.pending.iter().map(|line| line.stores.len()).sum())
}

#[test]
fn a_flush_covers_no_store_that_its_thread_does_not_see() {
    let sim = Sim::new(&[0; 8], 64);
    become_thread(0);
    sim.store_release(Offset(0), 5);
    become_thread(1);
    sim.store_release(Offset(8), 6);
    sim.persist(Offset(0));
    assert_eq!(first_line(&sim), (0, 6, 1), "the other thread's store is in its buffer");
    show(0);
    sim.persist(Offset(0));
    assert_eq!(first_line(&sim), (5, 6, 0));
    enter(Context::default());
}

#[test]
fn a_store_from_a_buffer_comes_after_those_in_the_line() {
    let sim = Sim::new(&[0; 8], 64);
    become_thread(0);
    sim.store(Offset(0), 5);
    become_thread(1);
    sim.store_release(Offset(8), 6);
    let words: Vec<u8> = sim.durable().pending[0].stores.iter().map(|store| store.word).collect();
    assert_eq!(words, [1, 0], "the release store can survive without it");
    enter(Context::default());
}
