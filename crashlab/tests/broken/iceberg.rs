//! IcebergHT broken by hand, and its setups.

use crate::{boundary, break_and_catch, break_and_catch_by, named, site};
use crashlab::arena::SAMPLED;
use crashlab::engines::iceberg::tables;
use crashlab::lab::Lab;
use crashlab::report::Failure;
use crashlab::subject::TableSubject;
use crashlab::target::Target;
use crashlab::{explore, machine};
use engines::Engine;
use pmem::sync::simulated::fault::{Fault, Mutation, SiteKind, mutate};

const TARGET: Target = Target::Engine(Engine::Iceberg);

const BLOCK: &str = "engines/src/iceberg/block.rs";
const FAST: &str = "engines/src/iceberg/fast.rs";
const SEARCH: &str = "engines/src/iceberg/search.rs";

#[test]
fn key_stored_before_value() {
    let value = site(SiteKind::Store, BLOCK, "fn fill", "store_pair(slot, key, value)");
    break_and_catch(TARGET, value, Fault::Late);
}

/// The fence comes when the fingerprint shows the pair and the block is unlocked, so that no
/// reader helps.
#[test]
fn fingerprint_before_fence() {
    let fence = site(SiteKind::Fence, FAST, "fn mutate_fast", "persist_slot(probe");
    break_and_catch(TARGET, fence, Fault::LateFence(6));
}

#[test]
fn a_reader_that_does_not_help() {
    let helping = site(SiteKind::Flush, SEARCH, "fn read", "persist_observed(slot");
    let failure = break_and_catch(TARGET, helping, Fault::Dropped);
    assert!(
        failure.evidence.program.len() > 1,
        "only a reader beside a writer shows it: {failure}"
    );
}

#[test]
fn a_reader_that_does_not_help_a_removal() {
    let helping = site(SiteKind::Flush, SEARCH, "if found == 0", "persist_observed(slot");
    break_and_catch(TARGET, helping, Fault::Dropped);
}

#[test]
fn recovery_that_keeps_the_second_copy_of_a_moved_pair() {
    let path = "engines/src/iceberg/recover.rs";
    let erasing = site(SiteKind::Store, path, "fn erase_in_recovery", "store(slot, 0)");
    break_and_catch(TARGET, erasing, Fault::Skipped);
}

/// A reader finds an item that is not written yet. Where a change takes its lock twice, the second time shows all that
/// was stored before the first.
#[test]
fn a_value_shown_before_its_item() {
    let value = site(SiteKind::Release, BLOCK, "fn change(", "store_release(slot.word");
    break_and_catch_by(&named(TARGET, &["doubling"]), &[(value, Fault::Dropped)]);
}

/// A node of level 3 is free for other keys while its removal may still be taken back.
#[test]
fn a_slot_reused_before_its_removal_is_durable() {
    let path = "engines/src/iceberg/level_3.rs";
    let flush = site(SiteKind::Flush, path, "fn remove", "persist(at)");
    break_and_catch(TARGET, flush, Fault::Dropped);
}

/// What the lab tells of a violation is enough to see it again.
#[test]
fn a_failing_seed_fails_again_and_its_history_shrinks() {
    machine::silence_panics();
    let site = site(SiteKind::Flush, FAST, "fn mutate_fast", "persist_slot(probe");
    mutate(Some(Mutation { site, fault: Fault::Dropped }));
    let setup = || tables().swap_remove(0);
    let sample = |seed| {
        let mut lab = Lab::<TableSubject>::new(setup(), SAMPLED, 0).expect("sound before");
        explore::sample(&mut lab, 2, 3, seed).err()
    };
    let (seed, failure) =
        (0..1000).find_map(|seed| Some((seed, sample(seed)?))).expect("a seed that shows it");
    let again = sample(seed).expect("the same seed").to_string();
    let ops = |failure: &Failure| failure.evidence.program.iter().map(Vec::len).sum::<usize>();
    let ops_before = ops(&failure);
    let text = failure.to_string();
    let shrunk = explore::shrink::<TableSubject>(&setup(), SAMPLED, failure);
    mutate(None);
    assert_eq!(again, text);
    assert!(text.contains("did not arrive"), "{text}");
    assert!(ops(&shrunk) <= 2 && ops_before > 2, "{shrunk}");
}

/// The boundaries are where their names say.
#[test]
fn setups_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("key 0", [2, 0, 0], false),
        ("the last free slot of a block", [31, 0, 0], false),
        ("level 1 is full", [32, 0, 0], false),
        ("one free slot in level 2", [32, 3, 0], false),
        ("level 2 is full", [32, 4, 0], false),
        ("level 3 is full", [32, 4, 1], false),
        ("the next insertion doubles the table", [30, 0, 0], false),
        ("two blocks of each level are to be moved", [62, 0, 0], true),
        ("a table that doubles with keys in level 2", [32, 1, 0], false),
        ("a table that doubles with keys in level 3", [32, 2, 1], false),
        ("keys that part when the table doubles", [64, 0, 0], false),
        ("keys with a choice in level 2", [64, 0, 0], false),
        ("blocks of both levels are to be moved", [64, 1, 0], true),
    ];
    let setups = tables();
    let found = setups.iter().map(boundary::<u64, u64>);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
