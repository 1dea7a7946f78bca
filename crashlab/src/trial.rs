//! The lab on trial: every place in the code that flushes, fences or orders is broken in turn, and
//! directed histories must notice.

use crate::directed::{BOUNDS, Directed};
use crate::lab::{Bounds, Counters};
use crate::report::Failure;
use pmem::sync::simulated::fault::{Fault, Mutation, Site, SiteKind, mutate, record_sites};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The outcome of a trial.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Every site that the directed histories came across.
    pub sites: Vec<Site>,
    /// Those whose breaking nobody noticed.
    pub unnoticed: Vec<Site>,
    /// What was done.
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

/// Whether a place belongs to what is on trial: the substrate and the engines, not the lab.
pub(crate) fn is_on_trial(site: &Site) -> bool {
    let is_lab = site.file.contains("crashlab/src") || site.file.ends_with("medium/sim.rs");
    let is_strict = matches!(site.kind, SiteKind::Release | SiteKind::Flush | SiteKind::Fence);
    is_strict && !is_lab
}

/// Runs the directed histories as they are, then with each site broken in turn, on `threads`
/// threads of the operating system.
pub fn trial(histories: &[Directed], threads: usize) -> Result<Trial, Failure> {
    let mut looked = look_at_each(histories, BOUNDS, threads)?;
    // What is noticed at all is mostly noticed by a short one.
    looked.sort_by_key(|looked| looked.counters.recoveries);
    let (counters, places) = sum(&looked);
    let sites: Vec<Site> = places.into_iter().filter(is_on_trial).collect();
    let next = AtomicUsize::new(0);
    let unnoticed: Vec<Site> = in_parallel(threads, || {
        let mut unnoticed = Vec::new();
        while let Some(&site) = sites.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The others do not come across it: they would do what they did.
            let concerned = looked.iter().filter(|looked| looked.places.contains(&site));
            let concerned = concerned.map(|looked| looked.directed);
            if caught_among(concerned, Mutation { site, fault: Fault::Dropped }).is_none() {
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
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let joined = parts.into_iter().map(|part| part.join());
        joined.map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// What the directed histories say of a broken place; `None` if they do not notice.
pub fn caught_by(histories: &[Directed], mutation: Mutation) -> Option<Failure> {
    caught_among(histories, mutation)
}

fn caught_among<'a>(
    histories: impl IntoIterator<Item = &'a Directed>,
    mutation: Mutation,
) -> Option<Failure> {
    mutate(Some(mutation));
    let found = histories.into_iter().find_map(|directed| directed.run(BOUNDS).err());
    mutate(None);
    found
}
