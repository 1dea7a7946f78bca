//! Loans: the code of `pmem/src/sync/loan.rs` itself.
//!
//! Property: nobody reads what has been freed. Who takes a loan back frees it when all readers have left that could
//! have found it; who comes later finds nothing, or what is lent then.

use pmem::sync::loom::{begin, end, explore, spawn};
use pmem::sync::{AtomicBool, Loan, Ordering, THREADS_MAX, take_leases_away};
use std::sync::Arc;

struct Lent {
    number: u64,
    /// By reader.
    is_read: Arc<[AtomicBool; 2]>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let is_read = self.is_read.iter().any(|is_read| is_read.load(Ordering::Relaxed));
        assert!(!is_read, "freed while somebody reads it");
    }
}

struct Model {
    loan: Loan<Lent>,
    is_read: [Arc<[AtomicBool; 2]>; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        let flags = || Arc::new([false, false].map(AtomicBool::new));
        let model = Model { loan: Loan::none().unwrap(), is_read: [flags(), flags()] };
        model.lend(0);
        Arc::new(model)
    }

    fn lend(&self, number: u64) {
        let is_read = Arc::clone(&self.is_read[number as usize]);
        self.loan.lend(Lent { number, is_read });
    }

    fn read(&self, reader: usize) -> Option<u64> {
        self.loan.with(|lent| {
            lent.is_read[reader].store(true, Ordering::Relaxed);
            let number = lent.number;
            lent.is_read[reader].store(false, Ordering::Relaxed);
            number
        })
    }
}

type Work = fn(&Model);

fn model<const N: usize>(
    first: Work,
    others: [(usize, Work); N],
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let model = Model::new();
        begin();
        let others = others.map(|(number, work)| {
            let shared = Arc::clone(&model);
            spawn(number, move || work(&shared))
        });
        first(&model);
        others.into_iter().for_each(|other| other.join().unwrap());
        end();
    }
}

fn take_back(model: &Model) {
    model.loan.take_back();
    assert_eq!(model.read(1), None);
}

#[test]
fn what_is_taken_back_is_freed_when_nobody_reads_it() {
    let read = |model: &Model| {
        let found = model.read(0);
        assert!(found.is_none_or(|number| number == 0));
    };
    explore(None, model(take_back, [(1, read)]));
    explore(Some(3), model(take_back, [(THREADS_MAX, read)]));
}

#[test]
fn a_reader_finds_one_loan_or_the_next() {
    let lend = |model: &Model| {
        model.lend(1);
        assert_eq!(model.read(1), Some(1));
    };
    let read = |model: &Model| {
        model.read(0);
    };
    explore(Some(3), model(lend, [(1, read)]));
}

#[test]
fn what_an_event_took_away_is_not_lent_again_once_it_is_freed() {
    let read = |model: &Model| {
        take_leases_away();
        model.loan.renew();
        model.read(0);
    };
    explore(Some(3), model(take_back, [(1, read)]));
}
