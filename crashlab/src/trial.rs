//! The lab on trial: every place in the code that flushes, fences or orders is broken in turn, and
//! directed histories must notice.

use crate::boundaries::{alone_in, helped, overtaken, repeating, store_histories, syncing};
use crate::deep;
use crate::explore;
use crate::history::{Action, Op, Program};
use crate::interleave::{Points, interleave};
use crate::lab::{Bounds, Counters, Lab};
use crate::report::Failure;
use crate::setups;
use crate::subject::{
    ClevelStoreSubject, ClevelSubject, HeapSubject, LevelStoreSubject, LevelSubject,
    LongLevelSubject, PoolSubject, Setup, StoreSubject, Subject, TableSubject,
};
use pmem::sync::simulated::fault::{Fault, Mutation, Site, SiteKind, mutate, record_sites};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use workload::mix;

/// How a directed history is looked at.
#[derive(Debug, Clone)]
pub enum Look {
    /// All histories of one thread up to this length.
    Exhaustive(usize),
    /// One program, its threads changing places wherever they may, with and without stores that become
    /// visible late.
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
    /// What it is, for whoever waits for it.
    pub name: String,
    /// Whether it is in every sample: it is of one thread, or short.
    is_always: bool,
    run: Box<dyn Fn(Bounds) -> Result<Counters, Failure> + Send + Sync>,
}

impl Directed {
    /// On a subject of type `S`, in this setup.
    pub fn new<S: Subject>(setup: Setup, look: Look) -> Directed {
        let name = format!("{}, {}: {look}", S::NAME, setup.name);
        let is_always = matches!(look, Look::Exhaustive(_)) || S::NAME == HeapSubject::NAME;
        let run = move |bounds| {
            let ran = catch_unwind(AssertUnwindSafe(|| run::<S>(&setup, &look, bounds)));
            // Before or after a history: what panics in it is told with it.
            ran.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                Err(Failure::new::<S>(&setup, format!("panic: {text}")))
            })
        };
        Directed { name, is_always, run: Box::new(run) }
    }

    /// Whether it belongs to a sample of one in so many of those of several threads, which takes all
    /// of one thread and of the heap. Which ones, the seed decides and nothing else.
    pub fn is_sampled(&self, one_in: u64, seed: u64) -> bool {
        let hash = self.name.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
        self.is_always || hash.is_multiple_of(one_in.max(1))
    }

    /// Runs it.
    pub fn run(&self, bounds: Bounds) -> Result<Counters, Failure> {
        (self.run)(bounds)
    }
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

/// The directed histories around `setups`: all short ones, then pairs of threads.
pub fn directed<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let mut all: Vec<Directed> =
        setups.iter().map(|setup| Directed::new::<S>(setup.clone(), Look::Exhaustive(2))).collect();
    let one = |action| Op::One(0, action);
    let insert = || vec![one(Action::Insert(2))];
    let update = || vec![one(Action::Insert(2)), one(Action::Upsert(3))];
    let remove = || vec![one(Action::Insert(2)), one(Action::Remove)];
    let get_many = || Op::Many(vec![(0, Action::Get)]);
    let readers = [
        (insert(), one(Action::Get)),
        (update(), one(Action::Get)),
        (update(), get_many()),
        (update(), Op::Scan),
        (remove(), one(Action::Get)),
        (remove(), get_many()),
    ];
    let writer_pairs = [
        // Two at one key, and two at keys that share all blocks.
        [vec![one(Action::Insert(2))], vec![one(Action::Insert(3))]],
        [vec![one(Action::Upsert(2)), one(Action::Remove)], vec![one(Action::Upsert(3))]],
        [
            vec![one(Action::Insert(2)), one(Action::Remove)],
            vec![Op::One(1, Action::Insert(3)), Op::Settle],
        ],
    ];
    // Somebody who reads a key that nobody is writing, while its place may change.
    let bystander = vec![
        vec![one(Action::Upsert(2))],
        vec![Op::One(1, Action::Insert(3)), Op::Settle],
        vec![one(Action::Get), Op::One(1, Action::Get)],
    ];
    // Items of many lines have many images, and are read no differently.
    let small = |setup: &&Setup| setup.value_bytes.iter().all(|&bytes| bytes <= 100);
    for setup in setups.iter().filter(small) {
        all.push(interleaved::<S>(setup, bystander.clone(), 1));
        for pair in &writer_pairs {
            all.push(interleaved::<S>(setup, pair.to_vec(), 0));
        }
        for (writer, reader) in &readers {
            let program = vec![writer.clone(), vec![reader.clone()]];
            all.push(interleaved::<S>(setup, program, 0));
        }
    }
    all
}

/// Changes of thread at every access.
pub fn every_access(program: Program, first: usize, changes: usize) -> Look {
    Look::Interleaved { program, first, changes, points: Points::Every }
}

fn interleaved<S: Subject>(setup: &Setup, program: Program, first: usize) -> Directed {
    Directed::new::<S>(setup.clone(), every_access(program, first, 1))
}

/// What is on trial together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The pool alone.
    Pool,
    /// The heap and its epochs alone.
    Heap,
    /// IcebergHT, as a table of words and under a store of bytes.
    Iceberg,
    /// Level hashing, as a table of words, of longer pairs, and under a store of bytes.
    Level,
    /// Clevel hashing, as a table of words and as a store of bytes.
    Clevel,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 5] =
        [Engine::Pool, Engine::Heap, Engine::Iceberg, Engine::Level, Engine::Clevel];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Pool => PoolSubject::NAME,
            Engine::Heap => HeapSubject::NAME,
            Engine::Iceberg => TableSubject::NAME,
            Engine::Level => LevelSubject::NAME,
            Engine::Clevel => ClevelSubject::NAME,
        }
    }

    /// The engine of this name.
    pub fn by_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Its directed histories.
    pub fn directed(self) -> Vec<Directed> {
        match self {
            Engine::Pool => {
                let mut all = directed::<PoolSubject>(&setups::pool());
                all.extend(syncing::<PoolSubject>(&setups::synced_pool()));
                all
            }
            Engine::Heap => {
                let mut all = directed::<HeapSubject>(&setups::heap());
                all.extend(deep::heap());
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Iceberg => {
                let mut all = directed::<TableSubject>(&setups::iceberg());
                all.extend(directed::<StoreSubject>(&setups::store()));
                all.extend(kept_histories());
                all.extend(alone_in::<TableSubject>(setups::iceberg_blocks()));
                all.extend(syncing::<TableSubject>(&setups::synced_iceberg()));
                all.extend(helped::<TableSubject>(&setups::helped_iceberg()));
                all.extend(alone_in::<TableSubject>(setups::recovered_iceberg()));
                all.extend(alone_in::<StoreSubject>(setups::recovered_store()));
                all.extend(syncing::<StoreSubject>(&setups::synced_store()));
                all.extend(repeating::<TableSubject>(&setups::iceberg()[2]));
                all.extend(repeating::<StoreSubject>(&setups::store()[2]));
                all.extend(store_histories::<StoreSubject>(setups::store().swap_remove(0)));
                all.extend(deep::looking_up_fillers::<TableSubject>(&setups::iceberg(), 4));
                all.extend(deep::looking_up_fillers::<StoreSubject>(&setups::store(), 4));
                all.extend(deep::late::<TableSubject>(&setups::iceberg()[0]));
                all.extend(deep::iceberg());
                all.extend(deep::store());
                // Items are in the heap.
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Clevel => {
                let setups = setups::clevel();
                // Its operations take many steps. Where several threads meet is alike in the others.
                let (meeting, alone): (Vec<_>, Vec<_>) = setups
                    .into_iter()
                    .partition(|setup| !setup.is_tight && !setup.shrinks && setup.resize_at == 1.0);
                let mut all = directed::<ClevelSubject>(&meeting);
                all.extend(
                    meeting.iter().filter(|setup| setup.before.len() > 16).flat_map(beside_moves),
                );
                all.extend(alone.iter().filter(|setup| setup.shrinks).flat_map(beside_moves));
                all.extend(alone_in::<ClevelSubject>(alone));
                all.extend(deep::looking_up_fillers::<ClevelSubject>(&setups::clevel(), 0));
                all.extend(deep::late::<ClevelSubject>(&setups::clevel()[0]));
                all.extend(deep::clevel(&setups::clevel()[0]));
                all.extend(overtaken());
                all.extend(syncing::<ClevelSubject>(&setups::synced_clevel()));
                all.extend(helped::<ClevelSubject>(&setups::helped_clevel()));
                all.extend(alone_in::<ClevelSubject>(setups::recovered_clevel()));
                all.extend(repeating::<ClevelSubject>(&setups::clevel()[0]));
                all.extend(repeating::<ClevelStoreSubject>(&setups::clevel_store()[0]));
                all.extend(alone_in::<ClevelStoreSubject>(setups::clevel_store()));
                let empty = setups::clevel_store().swap_remove(0);
                all.extend(store_histories::<ClevelStoreSubject>(empty));
                all.extend(writers_of_the_heap());
                all
            }
            Engine::Level => {
                let (words, long) = (setups::level(), setups::level_long());
                let mut all = directed::<LevelSubject>(&words);
                all.extend(directed::<LongLevelSubject>(&long));
                all.extend(resizing::<LevelSubject>(&words));
                all.extend(resizing::<LongLevelSubject>(&long));
                let is_moved = |setup: &&Setup| !setup.level_shape.design.in_place_update;
                all.extend(words.iter().filter(is_moved).flat_map(updating::<LevelSubject>));
                all.extend(long.iter().flat_map(updating::<LongLevelSubject>));
                all.extend(sharing_fences(&setups::two_buckets()));
                all.extend(syncing::<LevelSubject>(&setups::synced_level()));
                all.extend(alone_in::<LevelSubject>(setups::recovered_level()));
                all.extend(repeating::<LevelSubject>(&setups::two_buckets()));
                let stores = setups::level_store();
                all.extend(repeating::<LevelStoreSubject>(&stores[0]));
                all.extend(directed::<LevelStoreSubject>(&stores[..1]));
                all.extend(alone_in::<LevelStoreSubject>(stores[1..].to_vec()));
                all.extend(resizing::<LevelStoreSubject>(&stores));
                all.extend(store_histories::<LevelStoreSubject>(stores[0].clone()));
                all.extend(deep::looking_up_fillers::<LevelSubject>(&words, 4));
                all.extend(deep::looking_up_fillers::<LongLevelSubject>(&long, 4));
                all.extend(deep::late::<LevelSubject>(&words[0]));
                all.extend(deep::level());
                all.extend(writers_of_the_heap());
                all
            }
        }
    }
}

/// Updates that take several steps, beside others of the same key.
fn updating<S: Subject>(setup: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let update = |value| one(Action::Update(value));
    let others = [
        vec![one(Action::Get), one(Action::Get)],
        vec![Op::Scan],
        vec![update(4), one(Action::Get)],
        vec![one(Action::Remove), one(Action::Insert(4))],
    ];
    let stored = vec![one(Action::Insert(2))];
    let program = |other| vec![stored.clone(), vec![update(3), update(5)], other];
    others.into_iter().map(|other| interleaved::<S>(setup, program(other), 1)).collect()
}

/// A key that is changed by one thread and looked at by another while a third one moves it.
fn beside_moves(setup: &Setup) -> Vec<Directed> {
    let one = |action| Op::One(0, action);
    let mover = if setup.shrinks { Op::Shrink } else { Op::Settle };
    let pairs =
        [[one(Action::Upsert(3)), one(Action::Get)], [one(Action::Remove), one(Action::Insert(4))]];
    let programs =
        pairs.map(|[writer, other]| vec![vec![writer], vec![mover.clone()], vec![other]]);
    programs.into_iter().map(|program| interleaved::<ClevelSubject>(setup, program, 0)).collect()
}

/// Changes of several buckets whose fence is still to come, beside whoever meets them.
fn sharing_fences(setup: &Setup) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let both = |action| Op::Many(vec![(0, action), (1, action)]);
    let turned = |action| Op::Many(vec![(1, action), (0, action)]);
    let upsert = |value| both(Action::Upsert(value));
    let look = vec![one(1, Action::Get), one(0, Action::Get)];
    let programs = [
        [vec![both(Action::Insert(2))], look.clone()],
        [vec![both(Action::Insert(2))], vec![Op::Scan, one(0, Action::Get)]],
        [vec![upsert(2), upsert(3)], look.clone()],
        [vec![upsert(2), both(Action::Remove)], look],
        [vec![upsert(2), both(Action::Remove)], vec![one(0, Action::Insert(4))]],
        // Each may hold what the other wants next.
        [vec![upsert(2), upsert(3)], vec![turned(Action::Upsert(4))]],
        [vec![upsert(2), both(Action::Remove)], vec![turned(Action::Remove)]],
    ];
    let programs = programs.map(|program| program.to_vec());
    programs.into_iter().map(|program| interleaved::<LevelSubject>(setup, program, 0)).collect()
}

/// Tables that are halved, and tables that grow, beside others.
fn resizing<S: Subject>(setups: &[Setup]) -> Vec<Directed> {
    let one = |key, action| Op::One(key, action);
    let get_both = || Op::Many(vec![(0, Action::Get), (1, Action::Get)]);
    let others = || {
        [
            vec![one(0, Action::Get), one(1, Action::Get)],
            vec![get_both(), get_both()],
            vec![one(0, Action::Upsert(3)), one(0, Action::Get)],
            vec![one(0, Action::Remove), one(0, Action::Insert(3))],
            vec![one(1, Action::Insert(3)), one(1, Action::Remove)],
            vec![Op::Scan, one(0, Action::Get)],
            vec![Op::Settle],
        ]
    };
    let beside = |setup: &Setup, resizer: &[Op]| {
        let program = |other| vec![vec![one(0, Action::Upsert(2))], resizer.to_vec(), other];
        let directed = |other| interleaved::<S>(setup, program(other), 1);
        others().into_iter().chain([resizer.to_vec()]).map(directed).collect::<Vec<_>>()
    };
    let grows = |setup: &&Setup| setup.resize_at < 1.0;
    let growth = [one(1, Action::Insert(4)), Op::Settle];
    let shrunk = setups.iter().filter(|setup| setup.shrinks);
    let shrinking = shrunk.flat_map(|setup| beside(setup, &[Op::Shrink]));
    shrinking.chain(setups.iter().filter(grows).flat_map(|setup| beside(setup, &growth))).collect()
}

/// What only several writers of the heap show.
fn writers_of_the_heap() -> Vec<Directed> {
    // Threads without a number allocate from one segment: what one of them has begun to write
    // back, the other's fence does not complete.
    let store = |key| vec![Op::One(key, Action::Insert(2 + u16::from(key)))];
    let sharing = vec![Vec::new(), Vec::new(), store(0), store(1)];
    let empty = setups::heap().swap_remove(0);
    // A large item's segments are freed by one thread; a second takes all but the last of them, a
    // third takes that one.
    let freeing = vec![vec![Op::One(0, Action::Remove)], store(1), store(2)];
    vec![
        interleaved::<HeapSubject>(&setups::one_item(), reusing(), 0),
        interleaved::<HeapSubject>(&empty, sharing, 0),
        interleaved::<HeapSubject>(&setups::freed_segments(), freeing, 1),
    ]
}

/// A reader of an item beside a writer that removes it, and then writes those of another key until
/// the slots of the segment come round again.
pub fn reusing() -> Program {
    let replace = (2..8).map(|value| Op::One(1, Action::Upsert(value)));
    let writer = std::iter::once(Op::One(0, Action::Remove)).chain(replace).collect();
    vec![writer, vec![Op::One(0, Action::Get)]]
}

/// Histories that once showed a fault, or a fault planted by hand, shrunk.
fn kept_histories() -> Vec<Directed> {
    // A scan reported a pair of level 3 that was durable but in no chain yet; the same thread's
    // search then did not find it.
    let one = |action| Op::One(0, action);
    let writer = vec![one(Action::Remove), one(Action::Insert(4))];
    let program = vec![writer, vec![Op::Scan, one(Action::Get)]];
    // Two threads that move the same blocks: the second must notice that the first has done it.
    let both = vec![vec![Op::Settle], vec![Op::Settle, one(Action::Insert(4))]];
    let movers = Look::Interleaved { program: both, first: 0, changes: 2, points: Points::Shared };
    let moving = Directed::new::<TableSubject>(setups::moving_with_level_2(), movers);
    // A look-up that read the geometry before a whole resize, and the fingerprints after it: the key
    // was stored before, and has moved.
    let moved = |action| Op::One(1, action);
    let overtaken = [moved(Action::Get), Op::Many(vec![(1, Action::Get)])].map(|reading| {
        let reader = vec![moved(Action::Insert(2)), reading];
        let doubler = vec![one(Action::Insert(3)), Op::Settle];
        interleaved::<TableSubject>(&setups::second_insertion_doubles(), vec![reader, doubler], 0)
    });
    let in_level_3 = setups::iceberg().into_iter().filter(|setup| setup.keys.contains(&0));
    in_level_3
        .map(|setup| interleaved::<TableSubject>(&setup, program.clone(), 0))
        .chain([moving])
        .chain(overtaken)
        .collect()
}
