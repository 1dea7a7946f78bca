//! The lab on trial: it breaks every place in the code that flushes, fences or orders, one after another, and directed
//! histories must notice.

use crate::explore;
use crate::history::{Key, Op, Program};
use crate::interleave::{Points, interleave};
use crate::lab::{Bounds, Counters, Lab};
use crate::report::Failure;
use crate::subject::{Setup, Subject};
use pmem::sync::simulated::fault::{Fault, Mutation, Site, SiteKind, mutate, record_sites};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use workload::mix;

/// How a directed history is run.
#[derive(Debug, Clone)]
pub enum Look {
    /// All histories of one thread up to this length.
    Exhaustive(usize),
    /// One program whose threads switch wherever they may, with and without stores that become visible late.
    Interleaved {
        /// What each thread does.
        program: Program,
        /// So many threads run to their end first, one after another.
        first: usize,
        /// How often the others change places before each of them runs to its end.
        changes: usize,
        /// Where they do.
        points: Points,
    },
}

impl Look {
    /// The program with the same number for all fillers: which of them it is about depends on the setup. `None` if
    /// there are many programs.
    fn of_kind(&self, free_keys: Key) -> Option<Look> {
        let mut look = self.clone();
        let Look::Interleaved { program, .. } = &mut look else { return None };
        for op in program.iter_mut().flatten() {
            match op {
                Op::One(key, _) => *key = free_keys.min(*key),
                Op::Many(calls) => calls.iter_mut().for_each(|call| call.0 = free_keys.min(call.0)),
                _ => {}
            }
        }
        Some(look)
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Look::Exhaustive(length) => write!(f, "all histories of up to {length}"),
            Look::Interleaved { program, first, changes, points } => {
                let threads = program.iter().map(|ops| {
                    let ops: Vec<String> = ops.iter().map(ToString::to_string).collect();
                    ops.join("; ")
                });
                let threads: Vec<String> = threads.collect();
                let threads = threads.join(" | ");
                write!(f, "{threads}, {changes} changes {points} after {first} threads")
            }
        }
    }
}

/// A history that is always part of a trial.
pub struct Directed {
    /// What it is, for the progress display.
    pub name: String,
    /// What histories of one program in setups of one kind have in common; `None`: it stands for no kind.
    kind: Option<String>,
    /// Whether it is in every sample: it is of one thread, or short.
    is_always: bool,
    /// Whether it is all histories of one thread.
    is_exhaustive: bool,
    run: Box<dyn Fn(Bounds) -> Result<Counters, Failure> + Send + Sync>,
}

impl Directed {
    /// On a subject of type `S`, in this setup.
    pub fn new<S: Subject>(setup: Setup, look: Look) -> Directed {
        let subject = setup.subject::<S>();
        let name = format!("{subject}, {}: {look}", setup.name);
        let kind = look.of_kind(setup.free_keys as Key);
        let kind = kind.map(|look| format!("{subject}, {:?}: {look}", setup.growth()));
        let is_exhaustive = matches!(look, Look::Exhaustive(_));
        let is_always = is_exhaustive || S::IS_ALWAYS_SAMPLED;
        let run = move |bounds| {
            let ran = catch_unwind(AssertUnwindSafe(|| run::<S>(&setup, &look, bounds)));
            // Before or after a history: what panics in it is told with it.
            ran.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                Err(Failure::new::<S>(&setup, format!("panic: {text}")))
            })
        };
        Directed { name, kind, is_always, is_exhaustive, run: Box::new(run) }
    }

    /// Puts it into every sample: any other way to notice some site costs more.
    pub(crate) fn always(self) -> Directed {
        Directed { is_always: true, ..self }
    }

    /// Leaves it to chance whether it is in a sample.
    pub(crate) fn by_chance(self) -> Directed {
        Directed { is_always: false, kind: None, ..self }
    }

    /// Whether it belongs to a sample by itself. The sample takes one in `one_in` of the histories of several threads,
    /// and all of those of one thread and of the heap, unless the history itself says otherwise.
    /// Nothing but the seed decides which ones.
    pub fn is_sampled(&self, one_in: u64, seed: u64) -> bool {
        self.is_always || self.lot(seed).is_multiple_of(one_in.max(1))
    }

    fn lot(&self, seed: u64) -> u64 {
        self.name.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    /// Runs it.
    pub fn run(&self, bounds: Bounds) -> Result<Counters, Failure> {
        (self.run)(bounds)
    }
}

/// Divides histories into a sample and the others. The sample has those that belong to it by themselves
/// ([`Directed::is_sampled`]), and at least one of each program in each kind of setup: what only one kind of program
/// can notice must not be left to chance.
pub fn sample(all: Vec<Directed>, one_in: u64, seed: u64) -> (Vec<Directed>, Vec<Directed>) {
    let (mut sampled, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.is_sampled(one_in, seed));
    let mut met: HashSet<String> = sampled.iter().filter_map(|one| one.kind.clone()).collect();
    others.sort_by_key(|one| one.lot(seed));
    let is_first = |one: &mut Directed| one.kind.clone().is_some_and(|kind| met.insert(kind));
    sampled.extend(others.extract_if(.., is_first));
    (sampled, others)
}

/// Bounds that are enough for directed histories.
pub const BOUNDS: Bounds = Bounds {
    images: 32,
    images_nested: 8,
    nested_one_in: 4,
    depth: 1,
    kills: true,
    kills_one_in: 1,
};

/// The corners, hardly more.
const FEW_IMAGES: Bounds = Bounds { images: 4, images_nested: 2, nested_one_in: 64, ..BOUNDS };

fn run<S: Subject>(setup: &Setup, look: &Look, bounds: Bounds) -> Result<Counters, Failure> {
    let bounds = match look {
        Look::Exhaustive(_) => bounds,
        // What a reader was told is lost in a corner image, or in none.
        Look::Interleaved { .. } => Bounds { images: bounds.images / 4, ..bounds },
    };
    let mut lab = Lab::<S>::new(setup.clone(), bounds, 1)?;
    match look {
        Look::Exhaustive(length) => explore::exhaustive(&mut lab, *length, &|| false)?,
        Look::Interleaved { program, first, changes, points } => {
            interleave(&mut lab, program, *first, *changes, *points)?;
        }
    }
    Ok(lab.counters)
}

/// The outcome of a trial.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Every site that the directed histories met.
    pub sites: Vec<Site>,
    /// Those whose breaking nobody noticed.
    pub unnoticed: Vec<Site>,
    /// What was run.
    pub counters: Counters,
}

/// A site in words: what it does, and where from the top of the source tree on.
pub fn place(site: &Site) -> String {
    let what = match site.kind {
        SiteKind::Store => "store",
        SiteKind::Release => "release store",
        SiteKind::Flush => "flush",
        SiteKind::Fence => "fence",
        SiteKind::Exchange => "exchange",
        SiteKind::Volatile => "volatile access",
    };
    let Site { line, column, .. } = site;
    format!("{what} at {}:{line}:{column}", path(site))
}

/// The site's file from the top of the source tree on: the lab compiles it by a path of its own.
pub fn path(site: &Site) -> &'static str {
    site.file.rsplit("../").next().unwrap_or(site.file)
}

/// Whether a place is on trial: it is in `pmem`, `index` or an engine, not in the lab.
pub(crate) fn is_on_trial(site: &Site) -> bool {
    let is_lab = site.file.contains("crashlab/src") || site.file.contains("medium/sim");
    let is_strict = matches!(site.kind, SiteKind::Release | SiteKind::Flush | SiteKind::Fence);
    is_strict && !is_lab
}

/// This many of the shortest histories are tried on a broken site before those of one thread.
const SHORTEST: usize = 16;
/// So many are tried with all images before others with few. What only a rare image shows is mostly shown by one of
/// them, and a hundred others take long.
const FIRST: usize = 40;

/// Runs the directed histories as they are, then with each site broken in turn, on `threads`
/// threads of the operating system. A site that they do not notice, `others` are asked about: those are not run
/// unbroken, so what is known of them is only that they notice.
pub fn trial(
    histories: &[Directed],
    others: &[Directed],
    threads: usize,
) -> Result<Trial, Failure> {
    let mut looked = look_at_each(histories, BOUNDS, threads)?;
    // What is noticed at all is mostly noticed by a short one, and what those miss by a history of one thread.
    looked.sort_by_key(|looked| looked.counters.recoveries);
    if let Some((_, longer)) = looked.split_at_mut_checked(SHORTEST) {
        longer.sort_by_key(|looked| !looked.directed.is_exhaustive);
    }
    let (counters, places) = sum(&looked);
    let sites: Vec<Site> = places.into_iter().filter(is_on_trial).collect();
    let next = AtomicUsize::new(0);
    let unnoticed: Vec<Site> = in_parallel(threads, || {
        let mut unnoticed = Vec::new();
        while let Some(&site) = sites.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The others do not come across it: they would do what they did.
            let concerned = looked.iter().filter(|looked| looked.places.contains(&site));
            let concerned: Vec<_> = concerned.map(|looked| looked.directed).collect();
            let mutation = Mutation { site, fault: Fault::Dropped };
            let caught = caught_among(&concerned, mutation)
                .or_else(|| caught_among(&others.iter().collect::<Vec<_>>(), mutation));
            if caught.is_none() {
                unnoticed.push(site);
            }
        }
        unnoticed
    })
    .concat();
    Ok(Trial { sites, unnoticed, counters })
}

/// What a directed history does as it is.
struct Looked<'a> {
    directed: &'a Directed,
    counters: Counters,
    /// Every place at which it acts on the medium.
    places: BTreeSet<Site>,
}

fn look_at_each(
    histories: &[Directed],
    bounds: Bounds,
    threads: usize,
) -> Result<Vec<Looked<'_>>, Failure> {
    let next = AtomicUsize::new(0);
    let parts = in_parallel(threads, || {
        let mut looked = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(directed) = histories.get(index) else { return Ok(looked) };
            let (counters, places) = record_sites(|| directed.run(bounds));
            looked.push((index, Looked { directed, counters: counters?, places }));
        }
    });
    let mut looked = parts
        .into_iter()
        .collect::<Result<Vec<_>, Failure>>()?
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    looked.sort_by_key(|&(index, _)| index);
    Ok(looked.into_iter().map(|(_, looked)| looked).collect())
}

fn sum(looked: &[Looked<'_>]) -> (Counters, BTreeSet<Site>) {
    let mut sum = (Counters::default(), BTreeSet::new());
    for Looked { counters, places, .. } in looked {
        sum.0 += *counters;
        sum.1.extend(places);
    }
    sum
}

/// Runs the directed histories as they are; returns what was done, and every place at which it
/// acted on the medium, plain stores included.
pub fn look(
    histories: &[Directed],
    bounds: Bounds,
    threads: usize,
) -> Result<(Counters, BTreeSet<Site>), Failure> {
    look_at_each(histories, bounds, threads).map(|looked| sum(&looked))
}

fn in_parallel<R: Send>(threads: usize, work: impl Fn() -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, &work).ok();
        let parts: Vec<_> = (0..threads).map_while(start).collect();
        if parts.is_empty() {
            return vec![work()];
        }
        let joined = parts.into_iter().map(|part| part.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// What the directed histories say of a broken place; `None` if they do not notice.
pub fn caught_by(histories: &[Directed], mutation: Mutation) -> Option<Failure> {
    caught_among(&histories.iter().collect::<Vec<_>>(), mutation)
}

/// Few images first: nearly every fault shows in one of those.
fn caught_among(histories: &[&Directed], mutation: Mutation) -> Option<Failure> {
    mutate(Some(mutation));
    let (first, rest) = histories.split_at(FIRST.min(histories.len()));
    let run = |histories: &[&Directed]| {
        let among = |bounds| histories.iter().find_map(|directed| directed.run(bounds).err());
        among(FEW_IMAGES).or_else(|| among(BOUNDS))
    };
    let found = run(first).or_else(|| run(rest));
    mutate(None);
    found
}

/// Changes of thread at every access.
pub fn every_access(program: Program, first: usize, changes: usize) -> Look {
    Look::Interleaved { program, first, changes, points: Points::Every }
}
