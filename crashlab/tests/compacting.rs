//! Stores whose items are moved together beside other operations, and cut wherever that may be.

use crashlab::boundaries::compacting;
use crashlab::engines::stores;
use crashlab::machine;
use crashlab::setups::{sparse_segments_of_a_store, sparse_segments_of_one_hash};
use crashlab::subject::{Setup, StoreSubject};
use crashlab::trial::{self, BOUNDS, Directed, caught_by};
use engines::Engine;
use pmem::sync::simulated::fault::{Fault, Mutation, SiteKind};

fn histories(engine: Engine, sparse: fn(&Setup) -> Setup) -> Vec<Directed> {
    let empty = stores(engine).swap_remove(0);
    compacting::<StoreSubject>(&sparse(&empty))
}

/// In the files that move items: the copy is durable before a slot leads to it.
fn survives_and_needs_its_fence(engine: Engine, sparse: fn(&Setup) -> Setup) {
    machine::silence_panics();
    let histories = histories(engine, sparse);
    let looked = trial::look(&histories, BOUNDS, 1);
    let (counters, sites) = looked.unwrap_or_else(|failure| panic!("{engine}: {failure}"));
    assert!(counters.images > 1000, "{engine}: {counters:?}");
    let is_meant =
        |kind: SiteKind, path: &str| kind == SiteKind::Fence && path.ends_with("/relocate.rs");
    let fences: Vec<_> =
        sites.into_iter().filter(|site| is_meant(site.kind, trial::path(site))).collect();
    assert!(!fences.is_empty(), "{engine}: nothing was moved");
    for site in fences {
        let caught = caught_by(&histories, Mutation { site, fault: Fault::Dropped });
        assert!(caught.is_some(), "{engine}: unnoticed: {}", trial::place(&site));
    }
}

macro_rules! on_engines {
    ($($engine:ident $module:ident,)+) => {
        $(#[test]
        fn $module() {
            let engine = super::Engine::$engine;
            super::survives_and_needs_its_fence(engine, super::sparse_segments_of_a_store);
            super::survives_and_needs_its_fence(engine, super::sparse_segments_of_one_hash);
        })+
    };
}

/// Items moved on each engine.
mod moved_on {
    engines::for_each_engine!(on_engines);
}
