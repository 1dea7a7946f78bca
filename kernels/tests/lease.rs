//! Leases: the code of `pmem/src/sync/lease.rs` itself.
//!
//! Property: after an event a lease leads nowhere, until a renewal that began after the event gives it again; and it
//! leads to its own target only, whoever had its slot before. The look between the two halves of a renewal is that of
//! a handle of `firndex`: it asks whether the event concerns this pool. If it does, the lease is never given again.
//!
//! Under loom a lease has a slab of its own, unless it finds a slot that was given back.

use pmem::sync::loom::{begin, end, explore, spawn};
use pmem::sync::take_leases_away;
use pmem::sync::{AtomicBool, Lease, Ordering, Renewal, THREADS_MAX};
use std::sync::Arc;

/// What leases lead to: the number of the lease.
type Leased = (Lease<u64>, Renewal);

struct Model {
    lease: Lease<u64>,
    renewal: Renewal,
    /// An event has come that concerns the pool.
    has_failed: AtomicBool,
    /// This event is over.
    is_over: AtomicBool,
}

impl Model {
    /// With a lease that was taken away and given again.
    fn new() -> Arc<Model> {
        let (lease, renewal) = Lease::new(Arc::new(0));
        let (has_failed, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let model = Model { lease, renewal, has_failed, is_over };
        take_leases_away();
        model.look_around();
        assert_eq!(found(&model.lease), Some(0));
        Arc::new(model)
    }

    /// As a pool loses a page.
    fn fail(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
        take_leases_away();
        self.is_over.store(true, Ordering::Release);
    }

    /// As a handle that finds its lease taken away.
    fn look_around(&self) {
        self.renew(&self.renewal);
    }

    fn renew(&self, renewal: &Renewal) {
        let lapsed = renewal.begin();
        if !self.has_failed.load(Ordering::Acquire) {
            lapsed.renew();
        }
    }

    fn is_taken_away_if_over(&self, lease: &Lease<u64>) {
        if self.is_over.load(Ordering::Acquire) {
            assert_eq!(found(lease), None);
        }
    }
}

fn found(lease: &Lease<u64>) -> Option<u64> {
    lease.get().map(|(target, _)| *target)
}

type Work = fn(&Model);

/// Runs threads with these numbers along with the model's first one. In the end the pool has failed.
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
        assert_eq!(found(&model.lease), None);
        model.look_around();
        assert_eq!(found(&model.lease), None);
        end();
    }
}

/// An event that concerns another pool.
fn fail_elsewhere(_: &Model) {
    take_leases_away();
}

#[test]
fn what_an_event_has_taken_away_is_not_found_any_more() {
    let look = |model: &Model| (0..2).for_each(|_| model.is_taken_away_if_over(&model.lease));
    explore(None, model(look, [(1, Model::fail)]));
}

#[test]
fn a_renewal_that_looked_before_an_event_does_not_outlast_it() {
    let renew = |model: &Model| {
        (0..2).for_each(|_| {
            model.look_around();
            model.is_taken_away_if_over(&model.lease);
        });
    };
    explore(None, model(renew, [(1, Model::fail)]));
}

/// A renewal begins after one event, looks, and ends after the next one.
#[test]
fn a_renewal_between_two_events_does_not_outlast_the_second_one() {
    let fail_twice = |model: &Model| {
        fail_elsewhere(model);
        model.fail();
    };
    explore(None, model(Model::look_around, [(1, fail_twice)]));
}

#[test]
fn a_renewal_beside_two_events_at_once_does_not_outlast_its_own() {
    let others: [(usize, Work); 2] = [(1, Model::fail), (THREADS_MAX, fail_elsewhere)];
    explore(Some(3), model(Model::look_around, others));
}

#[test]
fn two_renewals_at_once_do_not_outlast_an_event() {
    let others: [(usize, Work); 2] = [(1, Model::fail), (THREADS_MAX, Model::look_around)];
    let renew = |model: &Model| {
        model.look_around();
        model.is_taken_away_if_over(&model.lease);
    };
    explore(Some(3), model(renew, others));
}

#[test]
fn an_event_that_concerns_another_pool_takes_a_lease_away_until_a_look() {
    explore(None, || {
        let model = Model::new();
        begin();
        let event = spawn(1, take_leases_away);
        model.look_around();
        event.join().unwrap();
        model.look_around();
        assert_eq!(found(&model.lease), Some(0));
        end();
    });
}

/// The lease is made, and first given, while the event comes.
#[test]
fn a_new_lease_does_not_outlast_an_event() {
    explore(None, || {
        let model = Model::new();
        begin();
        let event = {
            let shared = Arc::clone(&model);
            spawn(1, move || shared.fail())
        };
        let (lease, renewal) = Lease::new(Arc::new(1));
        model.renew(&renewal);
        event.join().unwrap();
        assert_eq!((found(&lease), found(&model.lease)), (None, None));
        end();
    });
}

/// Another thread gives the slot back that this one may take.
#[test]
fn a_slot_that_is_used_again_leads_to_the_new_target_only() {
    explore(None, || {
        let model = Model::new();
        let old = Lease::new(Arc::new(1));
        model.renew(&old.1);
        assert_eq!(found(&old.0), Some(1));
        begin();
        let owner = spawn(1, move || drop::<Leased>(old));
        let (lease, renewal) = Lease::new(Arc::new(2));
        assert_eq!(found(&lease), None);
        model.renew(&renewal);
        owner.join().unwrap();
        assert_eq!(found(&lease), Some(2));
        end();
    });
}

/// The same, and an event comes.
#[test]
fn a_slot_that_is_used_again_does_not_outlast_an_event() {
    explore(Some(3), || {
        let model = Model::new();
        let old = Lease::new(Arc::new(1));
        model.renew(&old.1);
        begin();
        let owner = spawn(1, move || drop::<Leased>(old));
        let event = {
            let shared = Arc::clone(&model);
            spawn(THREADS_MAX, move || shared.fail())
        };
        let (lease, renewal) = Lease::new(Arc::new(2));
        model.renew(&renewal);
        let now = found(&lease);
        assert!(now.is_none_or(|target| target == 2));
        owner.join().unwrap();
        event.join().unwrap();
        assert_eq!((found(&lease), found(&model.lease)), (None, None));
        end();
    });
}

/// Whoever has the other half of an old lease may be about to give it again.
#[test]
fn a_renewal_whose_lease_is_gone_gives_no_other_lease() {
    explore(Some(3), || {
        let model = Model::new();
        let (old, old_renewal) = Lease::new(Arc::new(1));
        begin();
        let renewing = {
            let shared = Arc::clone(&model);
            spawn(1, move || shared.renew(&old_renewal))
        };
        drop(old);
        let (lease, renewal) = Lease::new(Arc::new(2));
        assert_eq!(found(&lease), None);
        model.renew(&renewal);
        renewing.join().unwrap();
        assert_eq!(found(&lease), Some(2));
        end();
    });
}
