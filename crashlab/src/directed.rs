//! Directed histories: programs whose threads are made to meet.

use crate::explore;
use crate::history::{Action, Op, Program};
use crate::interleave::{Points, interleave};
use crate::lab::{Bounds, Counters, Lab};
use crate::report::Failure;
use crate::subject::{HeapSubject, Setup, Subject};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

pub(crate) fn interleaved<S: Subject>(setup: &Setup, program: Program, first: usize) -> Directed {
    Directed::new::<S>(setup.clone(), every_access(program, first, 1))
}

/// A reader of an item beside a writer that removes it, and then writes those of another key until
/// the slots of the segment come round again.
pub fn reusing() -> Program {
    let replace = (2..8).map(|value| Op::One(1, Action::Upsert(value)));
    let writer = std::iter::once(Op::One(0, Action::Remove)).chain(replace).collect();
    vec![writer, vec![Op::One(0, Action::Get)]]
}
