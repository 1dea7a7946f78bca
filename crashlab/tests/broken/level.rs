//! Level hashing broken by hand, and its setups.

use crate::{Boundary, boundary, break_and_catch_some_by, named, site_of};
use crashlab::engines::level::{long_tables, tables};
use crashlab::subject::{LongKey, LongValue};
use crashlab::target::Target;
use engines::Engine;
use pmem::sync::simulated::fault::{Fault, SiteKind};

const TARGET: Target = Target::Engine(Engine::Level);

/// Tokens, the log, copies and the words of the sidecar.
#[test]
fn broken_in_ways_that_are_no_site() {
    let at = |kind, file: &str, function, text| {
        site_of(TARGET, kind, &format!("engines/src/{file}.rs"), function, text)
    };
    let store = |file, function, text| at(SiteKind::Store, file, function, text);
    let volatile = |file, function, text| at(SiteKind::Volatile, file, function, text);
    let sites = [
        // The value comes after the token.
        (store("level/bucket", "fn store_item", "bucket.fill("), Fault::Late),
        // An update is not logged, or logged for ever; so is a movement.
        (store("kit/log", "fn write<", "(CHECKSUM), checksum)"), Fault::Skipped),
        (store("kit/log", "fn erase<", "(CHECKSUM), 0)"), Fault::Skipped),
        (store("kit/log", "fn erase_at<", "(CHECKSUM), 0)"), Fault::Skipped),
        // A bucket's word stays as it was: its lock, its version, its fingerprints.
        (volatile("level/bucket", "fn set_word", ".store(word"), Fault::Skipped),
        (volatile("level/recover", "fn rebuild", ".store(word"), Fault::Skipped),
        // A drained bucket is drained again, which its copies are not to be.
        (volatile("level/resize", "fn mark_drained", ".store(geometry"), Fault::Skipped),
        // A resize is not shown, or counts its buckets from those of the one before.
        (volatile("level/geometry", "fn publish", ".store(geometry"), Fault::Skipped),
        (volatile("kit/progress", "fn start(", "UNDRAINED].store"), Fault::Skipped),
        // The same bucket is rehashed by every writer.
        (volatile("kit/progress", "fn take_next", "fetch_add(1"), Fault::Skipped),
    ];
    let histories = named(TARGET, &["recorded", "expand", "under way", "can be moved, all"]);
    break_and_catch_some_by(&histories, sites);
}

/// Top, bottom and interim level.
#[test]
fn setups_are_what_they_are_called() {
    let expected = [
        ("an empty table", [0, 0, 0], false),
        ("the last free slot of a bucket is in two lines", [3, 0, 0], false),
        ("the last free slot is in another line", [4, 0, 0], false),
        ("the top bucket is full", [2, 0, 0], false),
        ("an item of the top level can be moved", [2, 1, 0], false),
        ("an item of the top level can be moved into another line", [11, 4, 0], false),
        ("an item of the bottom level can be moved", [3, 1, 0], false),
        ("an item can be moved from the bottom level to the top level", [1, 1, 0], false),
        ("movements do not help", [1, 1, 0], false),
        ("log-free updates into another line", [3, 0, 0], false),
        ("recorded updates", [3, 0, 0], false),
        ("updates of full buckets", [0, 0, 0], false),
        ("the next insertion expands", [2, 2, 0], false),
        ("an expansion is under way", [0, 3, 2], true),
        ("an expansion of several buckets is under way", [0, 2, 2], true),
        ("an expansion cannot end before the next", [1, 1, 1], true),
        ("a table that can shrink", [1, 2, 0], false),
        ("a table that grows back", [2, 1, 0], false),
        ("keys in buckets of their own", [0, 0, 0], false),
        ("an empty table of long pairs", [0, 0, 0], false),
        ("the last free slot of a long pair is in another line", [2, 0, 0], false),
        ("log-free updates of long pairs into another line", [1, 0, 0], false),
        ("the top bucket of long pairs is full", [2, 0, 0], false),
        ("recorded updates of long pairs", [0, 0, 0], false),
        ("updates of full buckets of long pairs", [0, 0, 0], false),
        ("a long pair of the top level can be moved", [2, 1, 0], false),
        ("the next insertion of a long pair expands", [2, 2, 0], false),
        ("a table of long pairs that can shrink", [1, 2, 0], false),
    ];
    let (words, long) = (tables(), long_tables());
    let of_words = words.iter().map(boundary::<u64, u64>);
    let of_long = long.iter().map(boundary::<LongKey, LongValue>);
    let found: Vec<Boundary> = of_words.chain(of_long).collect();
    assert_eq!(found, expected);
}
