//! The lab on trial: engines broken by hand, each of which must be caught.

mod clevel;
mod iceberg;
mod level;

use crashlab::boundaries::reusing;
use crashlab::execution::prepare;
use crashlab::lab::Bounds;
use crashlab::machine::alone;
use crashlab::report::Failure;
use crashlab::subject::{HeapSubject, LinesSubject, PairsSubject, PlantedFault, Setup};
use crashlab::target::Target;
use crashlab::trial::{self, BOUNDS, Directed, caught_by};
use crashlab::{logged, machine, setups};
use engines::Engine;
use index::Fixed;
use pmem::sync::simulated::fault::{Fault, Mutation, Site, SiteKind};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use workload::effort;

/// Every place at which a sample of an engine's directed histories acts on the medium, or on volatile
/// state. `.ci/run` has all of them judged, under full bounds; here they only have to come there.
fn places_of(target: Target) -> Arc<BTreeSet<Site>> {
    type Places = Arc<BTreeSet<Site>>;
    type OfTargets = HashMap<&'static str, Arc<OnceLock<Places>>>;
    static PLACES: Mutex<Option<OfTargets>> = Mutex::new(None);
    let of_target = {
        let mut places = PLACES.lock().expect("nobody panics here");
        Arc::clone(places.get_or_insert_default().entry(target.name()).or_default())
    };
    let places = of_target.get_or_init(|| {
        machine::silence_panics();
        let mut histories = target.directed();
        histories.retain(|directed| directed.is_sampled(8, 1));
        let looked = trial::look(
            &histories,
            Bounds { images: 4, images_nested: 2, nested_one_in: 64, ..BOUNDS },
            2,
        );
        Arc::new(looked.unwrap_or_else(|failure| panic!("sound as it is: {failure}")).1)
    });
    Arc::clone(places)
}

/// Those of all targets.
fn places() -> BTreeSet<Site> {
    // With a log, and beside guests, they are the same places.
    let targets =
        Target::all().into_iter().filter(|&target| !matches!(target, Target::Log | Target::Guests));
    targets.flat_map(|target| places_of(target).iter().copied().collect::<Vec<_>>()).collect()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn source(path: &str) -> String {
    std::fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first place of this kind after `function` begins whose source line contains `text`, of those that the
/// histories of the engine in whose folder it is meet, or of the pool's.
fn site(kind: SiteKind, path: &str, function: &str, text: &str) -> Site {
    let of_engine = |engine: &&Engine| path.starts_with(&format!("engines/src/{}/", engine.name()));
    let target = Engine::ALL.iter().find(of_engine).map_or(Target::Pool, |&e| Target::Engine(e));
    site_of(target, kind, path, function, text)
}

/// As [`site`], of those that a target's histories meet.
fn site_of(target: Target, kind: SiteKind, path: &str, function: &str, text: &str) -> Site {
    let source = source(path);
    let begin = source.find(function).unwrap_or_else(|| panic!("no {function} in {path}"));
    let first_line = source[..begin].lines().count() as u32;
    let is_meant = |site: &&Site| {
        site.kind == kind
            && trial::path(site) == path
            && site.line >= first_line
            && source.lines().nth(site.line as usize - 1).is_some_and(|line| line.contains(text))
    };
    let places = places_of(target);
    let found = places.iter().filter(is_meant).min_by_key(|site| site.line);
    *found.unwrap_or_else(|| panic!("no place {kind:?} in {function}, {path}: {text}"))
}

/// What is in each level when the histories of a setup begin, and whether a resize is under way.
pub(crate) type Boundary = (&'static str, [u64; 3], bool);

pub(crate) fn boundary<K: Fixed, V: Fixed>(setup: &Setup) -> Boundary {
    let table = prepare::<PairsSubject<K, V>>(setup, 1).unwrap();
    let occupancy = alone(1, None, || table.occupancy());
    let pairs = [0, 1, 2].map(|level| occupancy.levels[level].pairs);
    (setup.name, pairs, occupancy.resizing)
}

fn break_and_catch(target: Target, site: Site, fault: Fault) -> Failure {
    caught_by(&target.directed(), Mutation { site, fault })
        .unwrap_or_else(|| panic!("{fault:?} went unnoticed: {}", trial::place(&site)))
}

#[test]
fn superblock_copies_written_in_one_step() {
    let fence = site(SiteKind::Fence, "pmem/src/pool/copies.rs", "fn write_copy<", "fence()");
    break_and_catch(Target::Pool, fence, Fault::LateFence(3));
}

#[test]
fn an_item_reused_before_its_epoch() {
    machine::silence_panics();

    let look = trial::every_access(reusing(), 0, 1);
    let planted = Some(PlantedFault::ReclaimAtOnce);
    let broken = Setup { fault: planted, ..setups::one_item() };
    assert!(Directed::new::<HeapSubject>(broken, look).run(BOUNDS).is_err());
}

#[test]
fn a_checkpoint_that_does_not_wait() {
    machine::silence_panics();
    let fault = Some(PlantedFault::CheckpointAtOnce);
    let setup = Setup { fault, ..logged::lines().swap_remove(0) };
    let caught = |directed: &Directed| directed.run(BOUNDS).is_err();
    assert!(logged::copied::<LinesSubject>(&setup).iter().any(caught));
}

/// Directed histories of an engine, those whose names contain one of these words.
fn named(target: Target, words: &[&str]) -> Vec<Directed> {
    let mut all = target.directed();
    all.retain(|directed| words.iter().any(|word| directed.name.contains(word)));
    assert!(!all.is_empty(), "{words:?}");
    all
}

/// All of the sites, or in a usual run every third.
fn break_and_catch_some_by(histories: &[Directed], sites: impl IntoIterator<Item = (Site, Fault)>) {
    break_and_catch_by(histories, &effort::each(sites, 3).collect::<Vec<_>>());
}

fn break_and_catch_by(histories: &[Directed], sites: &[(Site, Fault)]) {
    let is_missed = |&&(site, fault): &&(Site, Fault)| {
        let caught = caught_by(histories, Mutation { site, fault });
        // Said here, since the lab keeps panics silent.
        let what = match &caught {
            Some(failure) => failure.what.chars().take(120).collect(),
            None => "UNNOTICED".to_owned(),
        };
        println!("{}, {fault:?}: {what}", trial::place(&site));
        caught.is_none()
    };
    let (some, others) = sites.split_at(sites.len() / 2);
    let missed = std::thread::scope(|scope| {
        let beside = scope.spawn(|| some.iter().filter(is_missed).count());
        others.iter().filter(is_missed).count() + beside.join().expect("the lab does not panic")
    });
    assert_eq!(missed, 0, "faults went unnoticed");
}

/// A pool that says that it is clean, and is not: marked before writers are out, before what they
/// wrote is on the device, or for longer than until the next writer.
#[test]
fn a_pool_that_says_that_it_is_clean_and_is_not() {
    let path = "pmem/src/pool/gate.rs";
    let gate = site(SiteKind::Volatile, path, "fn set(", "self.state.store");
    let announced = site(SiteKind::Volatile, path, "fn enter", "writers.store");
    let histories = named(Target::Pool, &["synced"]);
    break_and_catch_by(&histories, &[(gate, Fault::Skipped), (announced, Fault::Skipped)]);
}

/// Whether a line of source acts on a medium in a way that is on trial.
fn acts(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let of_media = [".flush(", ".fence()", ".persist(", ".flush_range(", ".store_release("];
    // And what engines make of these, in the names of their callers.
    let of_slots =
        ["medium().store_pair(", ".flush_slot(", ".persist_slot(", "self.persist_observed("];
    of_media.iter().chain(&of_slots).any(|call| code.contains(call))
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
/// runs would never be on trial. All histories tell, so a usual run leaves it to `.ci/run`.
#[test]
fn every_site_in_the_source_is_on_trial() {
    if !effort::is_whole() {
        return;
    }
    let mut files = Vec::new();
    ["pmem/src", "index/src", "engines/src", "baselines/src"]
        .iter()
        .for_each(|layer| rust_files(&top().join(layer), &mut files));
    let (mut met, mut missed) = (0, Vec::new());
    let places = places();
    for file in files {
        let path = file.strip_prefix(top()).expect("below the top").to_string_lossy().into_owned();
        // What writes log files runs on the operating system's threads, and is tried on a simulated disk.
        let is_elsewhere = path.contains("/durability/");
        // No history opens a table 255 times. Its own tests do.
        let is_rare = path.ends_with("dash/openings.rs");
        // It promises nothing after a crash.
        let is_for_time = path.ends_with("unlogged.rs");
        if is_elsewhere
            || is_rare
            || is_for_time
            || path.contains("/medium/")
            || path.contains("tests")
        {
            continue;
        }
        let source = source(&path);
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in (1..).zip(code.lines()).filter(|(_, line)| acts(line)) {
            if places.iter().any(|site| trial::path(site) == path && site.line == number) {
                met += 1;
            } else {
                missed.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(missed.is_empty(), "never run: {missed:#?}");
    assert!(met > 20, "{met}");
}
