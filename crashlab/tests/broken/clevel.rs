//! Clevel hashing broken by hand, and its setups.

use crate::{Boundary, boundary, break_and_catch_by, break_and_catch_some_by, named, site};
use crashlab::engines::clevel::tables;
use crashlab::history::{Action, Op};
use crashlab::interleave::Points;
use crashlab::subject::TableSubject;
use crashlab::target::Target;
use crashlab::trial::{Directed, Look};
use engines::Engine;
use pmem::sync::simulated::fault::{Fault, SiteKind};

const TARGET: Target = Target::Engine(Engine::Clevel);

/// Copies kept, operations without effect, descriptors and stripes.
#[test]
fn broken_in_ways_that_are_no_site() {
    let at = |kind, file: &str, function, text| {
        site(kind, &format!("engines/src/clevel/{file}.rs"), function, text)
    };
    let exchange = |file, function, text| at(SiteKind::Exchange, file, function, text);
    let volatile = |file, function, text| at(SiteKind::Volatile, file, function, text);
    let sites = [
        // The copy of an item that was moved stays, in an operation and in a recovery.
        (exchange("operation", "fn replace(", "before, new"), Fault::Skipped),
        (at(SiteKind::Store, "recover", "fn repair", "Word::EMPTY.0"), Fault::Skipped),
        // A slot is taken whatever is there.
        (exchange("ops", "fn claim(", "Word::EMPTY, word"), Fault::Forced),
        (exchange("operation", "fn complete_insert", "new.dirty()"), Fault::Forced),
        (exchange("operation", "fn replace(", "before, new"), Fault::Forced),
        // A claim is never given back; a bucket never frozen.
        (exchange("operation", "fn release_claim", "Word::EMPTY"), Fault::Skipped),
        (exchange("resize", "fn drain_bucket", "Word::FROZEN"), Fault::Skipped),
        // Two operations are in force in one stripe, or none ever ends.
        (volatile("operation", "fn perform", "stripe.compare_exchange"), Fault::Forced),
        (volatile("operation", "fn complete(", "stripe.compare_exchange"), Fault::Skipped),
        // What is decided is decided again; what is described is of the turn before.
        (volatile("descriptor", "fn decide", "compare_exchange"), Fault::Forced),
        (volatile("descriptor", "fn describe", ".store(value"), Fault::Skipped),
        // Searches do not look where the item is.
        (volatile("fingerprints", "fn set(", "fetch_add"), Fault::Skipped),
        (volatile("fingerprints", "fn rebuild", ".store(word"), Fault::Skipped),
        // A context is replaced whatever is there.
        (exchange("resize", "fn replace_context", "compare_exchange"), Fault::Forced),
    ];
    let histories = named(TARGET, &["one empty slot", "drained", "appends a level, "]);
    break_and_catch_some_by(&histories, sites);
}

/// A thread that helps, is put aside, and ends an operation that has begun since: by its stripe, or
/// by its status.
#[test]
fn a_late_helper_that_ends_a_newer_operation() {
    let one = |action| Op::One(0, action);
    let writer = vec![one(Action::Upsert(2)), one(Action::Upsert(3)), one(Action::Remove)];
    let helper = vec![one(Action::Upsert(4)), one(Action::Get)];
    let look = Look::Interleaved {
        program: vec![writer, helper],
        first: 0,
        changes: 2,
        points: Points::Shared,
    };
    let setup = tables().swap_remove(0);
    let history = [Directed::new::<TableSubject>(setup, look)];
    let at = |file: &str, function| {
        let path = format!("engines/src/clevel/{file}.rs");
        site(SiteKind::Volatile, &path, function, "compare_exchange")
    };
    let sites = [at("operation", "fn complete("), at("descriptor", "fn decide")];
    break_and_catch_by(&history, &sites.map(|site| (site, Fault::Forced)));
}

/// From the front level to the back.
#[test]
fn setups_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("one empty slot", [7, 8, 0], false),
        ("the next insertion appends a level", [8, 8, 0], false),
        ("no empty slot and no growth", [8, 8, 0], false),
        ("the second insertion is one too many", [2, 16, 0], false),
        ("no space for a level", [8, 8, 0], false),
        ("a level is being drained", [1, 16, 8], true),
        ("the next insertion makes room", [8, 15, 0], false),
        ("a table that can shrink", [1, 3, 0], false),
    ];
    let setups = tables();
    let found: Vec<Boundary> = setups.iter().map(boundary::<u64, u64>).collect();
    assert_eq!(found, expected);
}
