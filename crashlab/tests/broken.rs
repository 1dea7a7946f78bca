//! The lab on trial: engines broken by hand, each of which must be caught.

use crashlab::campaign::SAMPLED;
use crashlab::directed::{self, BOUNDS, Directed, Look};
use crashlab::engine::Engine;
use crashlab::explore;
use crashlab::history::{Action, Op};
use crashlab::interleave::Points;
use crashlab::lab::{Bounds, Lab};
use crashlab::report::Failure;
use crashlab::subject::{ClevelSubject, HeapSubject, PlantedFault, Setup, TableSubject};
use crashlab::trial::{self, caught_by};
use crashlab::{machine, setups};
use pmem::sync::simulated::fault::{Fault, Mutation, Site, SiteKind, mutate};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Every place at which a sample of an engine's directed histories acts on the medium, or on volatile
/// state. `.ci/run` has all of them judged, under full bounds; here they only have to come there.
fn places_of(engine: Engine) -> &'static BTreeSet<Site> {
    static PLACES: [OnceLock<BTreeSet<Site>>; Engine::ALL.len()] =
        [const { OnceLock::new() }; Engine::ALL.len()];
    let index = Engine::ALL.into_iter().position(|other| other == engine).unwrap_or_default();
    PLACES[index].get_or_init(|| {
        machine::silence_panics();
        let mut histories = engine.directed();
        histories.retain(|directed| directed.is_sampled(8, 1));
        let looked = trial::look(&histories, Bounds { images: 8, nested_one_in: 16, ..BOUNDS }, 2);
        looked.unwrap_or_else(|failure| panic!("sound as it is: {failure}")).1
    })
}

/// Those of all engines.
fn places() -> BTreeSet<Site> {
    Engine::ALL.into_iter().flat_map(places_of).copied().collect()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn source(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first place of this kind after `function` begins whose source line contains `text`.
fn site(kind: SiteKind, path: &str, function: &str, text: &str) -> Site {
    let source = source(path);
    let begin = source.find(function).unwrap_or_else(|| panic!("no {function} in {path}"));
    let first_line = source[..begin].lines().count() as u32;
    let is_meant = |site: &&Site| {
        site.kind == kind
            && trial::path(site) == path
            && site.line >= first_line
            && source.lines().nth(site.line as usize - 1).is_some_and(|line| line.contains(text))
    };
    let engine = match () {
        () if path.starts_with("engines/src/iceberg") => Engine::Iceberg,
        () if path.starts_with("engines/src/level") => Engine::Level,
        () if path.starts_with("engines/src/clevel") => Engine::Clevel,
        () => Engine::Pool,
    };
    let found = places_of(engine).iter().filter(is_meant).min_by_key(|site| site.line);
    *found.unwrap_or_else(|| panic!("no place {kind:?} in {function}, {path}: {text}"))
}

fn break_and_catch(engine: Engine, site: Site, fault: Fault) -> Failure {
    caught_by(&engine.directed(), Mutation { site, fault })
        .unwrap_or_else(|| panic!("{fault:?} went unnoticed: {}", trial::place(&site)))
}

const OPS: &str = "engines/src/iceberg/ops.rs";

#[test]
fn key_stored_before_value() {
    let value = site(SiteKind::Store, OPS, "fn fill", "store_pair(slot, key, value)");
    break_and_catch(Engine::Iceberg, value, Fault::Late);
}

/// The fence comes when the fingerprint shows the pair and the block is unlocked, so that no
/// reader helps.
#[test]
fn fingerprint_before_fence() {
    let fence = site(SiteKind::Fence, OPS, "fn store_pair", "fence()");
    break_and_catch(Engine::Iceberg, fence, Fault::LateFence(6));
}

#[test]
fn a_reader_that_does_not_help() {
    let helping = site(SiteKind::Flush, OPS, "fn help", "persist(at)");
    let failure = break_and_catch(Engine::Iceberg, helping, Fault::Dropped);
    assert!(
        failure.evidence.program.len() > 1,
        "only a reader beside a writer shows it: {failure}"
    );
}

#[test]
fn a_reader_that_does_not_help_a_removal() {
    let helping = site(SiteKind::Flush, OPS, "fn read", "persist(slot)");
    break_and_catch(Engine::Iceberg, helping, Fault::Dropped);
}

#[test]
fn recovery_that_keeps_the_second_copy_of_a_moved_pair() {
    let path = "engines/src/iceberg/recover.rs";
    let erasing = site(SiteKind::Store, path, "fn erase_in_recovery", "store(slot, 0)");
    break_and_catch(Engine::Iceberg, erasing, Fault::Skipped);
}

#[test]
fn superblock_copies_written_in_one_step() {
    let fence = site(SiteKind::Fence, "pmem/src/pool/mod.rs", "fn write_copy<", "fence()");
    break_and_catch(Engine::Pool, fence, Fault::LateFence(3));
}

/// A node of level 3 is free for other keys while its removal may still be taken back.
#[test]
fn a_slot_reused_before_its_removal_is_durable() {
    let path = "engines/src/iceberg/level_3.rs";
    let flush = site(SiteKind::Flush, path, "fn remove", "persist(at)");
    break_and_catch(Engine::Iceberg, flush, Fault::Dropped);
}

#[test]
fn an_item_reused_before_its_epoch() {
    machine::silence_panics();

    let look = directed::every_access(directed::reusing(), 0, 1);
    let planted = Some(PlantedFault::ReclaimAtOnce);
    let broken = Setup { fault: planted, ..setups::one_item() };
    assert!(Directed::new::<HeapSubject>(broken, look).run(BOUNDS).is_err());
}

/// Directed histories of an engine, those whose names contain one of these words.
fn named(engine: Engine, words: &[&str]) -> Vec<Directed> {
    let mut all = engine.directed();
    all.retain(|directed| words.iter().any(|word| directed.name.contains(word)));
    assert!(!all.is_empty(), "{words:?}");
    all
}

fn break_and_catch_by(histories: &[Directed], sites: &[(Site, Fault)]) {
    let missed = sites.iter().filter(|&&(site, fault)| {
        let caught = caught_by(histories, Mutation { site, fault });
        // Said here, since the lab keeps panics silent.
        let what = match &caught {
            Some(failure) => failure.what.chars().take(120).collect(),
            None => "UNNOTICED".to_owned(),
        };
        println!("{}, {fault:?}: {what}", trial::place(&site));
        caught.is_none()
    });
    assert_eq!(missed.count(), 0, "faults went unnoticed");
}

/// On Level hashing: tokens, records, copies and the words of the sidecar.
#[test]
fn level_hashing_broken_in_ways_that_are_no_site() {
    let at = |kind, file: &str, function, text| {
        site(kind, &format!("engines/src/level/{file}.rs"), function, text)
    };
    let store = |file, function, text| at(SiteKind::Store, file, function, text);
    let volatile = |file, function, text| at(SiteKind::Volatile, file, function, text);
    let sites = [
        // The value comes after the token.
        (store("bucket", "fn store_item", "bucket.fill("), Fault::Late),
        // An update is not recorded, or recorded for ever; so is a movement.
        (store("records", "fn write<", "medium.store(at, checksum)"), Fault::Skipped),
        (store("records", "fn erase<", "medium.store(written.at, 0)"), Fault::Skipped),
        (store("records", "fn erase_at<", "medium.store(at, 0)"), Fault::Skipped),
        // A bucket's word stays as it was: its lock, its version, its fingerprints.
        (volatile("bucket", "fn set_word", ".store(word"), Fault::Skipped),
        (volatile("recover", "fn rebuild", ".store(word"), Fault::Skipped),
        // A drained bucket is drained again, which its copies are not to be.
        (volatile("resize", "fn mark_drained", ".store(geometry"), Fault::Skipped),
        // A resize is not shown, or counts its buckets from those of the one before.
        (volatile("resize", "fn start_rehash", "geometry.0[0].store"), Fault::Skipped),
        (volatile("resize", "fn start_rehash", "progress.0[0].store"), Fault::Skipped),
        // The same bucket is rehashed by every writer.
        (volatile("resize", "fn rehash_next", "fetch_add(1"), Fault::Skipped),
    ];
    let histories = named(Engine::Level, &["recorded", "expand", "under way", "can be moved, all"]);
    break_and_catch_by(&histories, &sites);
}

/// On Clevel hashing: copies kept, operations without effect, descriptors and stripes.
#[test]
fn clevel_hashing_broken_in_ways_that_are_no_site() {
    let at = |kind, file: &str, function, text| {
        site(kind, &format!("engines/src/clevel/{file}.rs"), function, text)
    };
    let exchange = |file, function, text| at(SiteKind::Exchange, file, function, text);
    let volatile = |file, function, text| at(SiteKind::Volatile, file, function, text);
    let sites = [
        // The copy of an item that was moved stays, in an operation and in a recovery.
        (exchange("operation", "fn replace(", "before, new"), Fault::Skipped),
        (at(SiteKind::Store, "recover", "fn tidy", "Word::EMPTY.0"), Fault::Skipped),
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
    let histories = named(Engine::Clevel, &["one empty slot", "drained", "appends a level, "]);
    break_and_catch_by(&histories, &sites);
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
    let setup = setups::clevel().swap_remove(0);
    let history = [Directed::new::<ClevelSubject>(setup, look)];
    let at = |file: &str, function| {
        let path = format!("engines/src/clevel/{file}.rs");
        site(SiteKind::Volatile, &path, function, "compare_exchange")
    };
    let sites = [at("operation", "fn complete("), at("descriptor", "fn decide")];
    break_and_catch_by(&history, &sites.map(|site| (site, Fault::Forced)));
}

/// A pool that says that it is clean, and is not: marked before writers are out, before what they
/// wrote is on the device, or for longer than until the next writer.
#[test]
fn a_pool_that_says_that_it_is_clean_and_is_not() {
    let path = "pmem/src/pool/gate.rs";
    let gate = site(SiteKind::Volatile, path, "fn set(", "self.state.store");
    let announced = site(SiteKind::Volatile, path, "fn enter", "writers.store");
    let histories = named(Engine::Pool, &["synced"]);
    break_and_catch_by(&histories, &[(gate, Fault::Skipped), (announced, Fault::Skipped)]);
}

/// Whether a line of source acts on a medium in a way that is on trial.
fn acts(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    [".flush(", ".fence()", ".persist(", ".flush_range(", ".store_release(", "medium().store_pair("]
        .iter()
        .any(|call| code.contains(call))
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a source directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// No flush, fence or release store in the tree is out of the histories' reach: a site that never
/// runs would never be on trial.
#[test]
fn every_site_in_the_source_is_on_trial() {
    let mut files = Vec::new();
    ["pmem/src", "index/src", "engines/src"]
        .iter()
        .for_each(|layer| rust_files(&top().join(layer), &mut files));
    let (mut met, mut missed) = (0, Vec::new());
    let places = places();
    for file in files {
        let path = file.strip_prefix(top()).expect("below the top").to_string_lossy().into_owned();
        if path.contains("/medium/") || path.contains("/tests") {
            continue;
        }
        let source = source(&path);
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in (1..).zip(code.lines()).filter(|(_, line)| acts(line)) {
            match places.iter().any(|site| trial::path(site) == path && site.line == number) {
                true => met += 1,
                false => missed.push(format!("{path}:{number}: {}", line.trim())),
            }
        }
    }
    assert!(missed.is_empty(), "never run: {missed:#?}");
    assert!(met > 20, "{met}");
}

/// What the lab tells of a violation is enough to see it again.
#[test]
fn a_failing_seed_fails_again_and_its_history_shrinks() {
    machine::silence_panics();
    let site = site(SiteKind::Flush, OPS, "fn store_value", "flush(slot)");
    mutate(Some(Mutation { site, fault: Fault::Dropped }));
    let setup = || setups::iceberg().swap_remove(0);
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
