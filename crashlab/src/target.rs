//! What is tested together: the pool alone, the heap alone, the classic tables, or an engine with everything on it.

use crate::arena::{Arena, Effort, arenas_of};
use crate::boundaries::{
    alone_in, directed, interleaved, shared_after, syncing, writers_of_the_heap,
};
use crate::engines::{guests, successions};
use crate::history::{Action, Op};
use crate::subject::{
    BaselineSubject, CacheSubject, HeapSubject, PoolSubject, Setup, ThreadedSubject,
};
use crate::trial::Directed;
use crate::{cached, deep, logged, setups};
use engines::Engine;

/// What a campaign crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The pool alone.
    Pool,
    /// The heap and its epochs alone.
    Heap,
    /// The classic tables, which have one thread.
    Baselines,
    /// The tables for several threads with which papers compare.
    Threaded,
    /// The pool, the heap and every engine with a line log, which alone survives.
    Log,
    /// What guests see of tables and stores.
    Guests,
    /// The cache.
    Cache,
    /// An engine, as a table and as a store.
    Engine(Engine),
}

impl Target {
    /// All of them.
    pub fn all() -> Vec<Target> {
        let engines = Engine::ALL.iter().copied().map(Target::Engine);
        [
            Target::Pool,
            Target::Heap,
            Target::Baselines,
            Target::Threaded,
            Target::Log,
            Target::Guests,
            Target::Cache,
        ]
        .into_iter()
        .chain(engines)
        .collect()
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Pool => PoolSubject::NAME,
            Target::Heap => HeapSubject::NAME,
            Target::Baselines => BaselineSubject::NAME,
            Target::Threaded => ThreadedSubject::NAME,
            Target::Log => "log",
            Target::Guests => "guests",
            Target::Cache => CacheSubject::NAME,
            Target::Engine(engine) => engine.name(),
        }
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Target> {
        Target::all().into_iter().find(|target| target.name() == name)
    }

    /// How much a short run does on it.
    pub fn effort(self) -> Effort {
        match self {
            Target::Pool | Target::Heap => Effort {
                directed_one_in: 1,
                exhaustive_ops: 2,
                histories_in_tests: 400,
                ..Effort::OF_ENGINE
            },
            // Threads take turns here: there is little that more histories would show.
            Target::Baselines => Effort {
                histories: 400,
                directed_one_in: 1,
                exhaustive_ops: 0,
                ..Effort::OF_ENGINE
            },
            Target::Threaded => Effort::OF_ENGINE,
            Target::Log => logged::EFFORT,
            Target::Guests => guests::EFFORT,
            Target::Cache => cached::EFFORT,
            Target::Engine(engine) => crate::engines::effort(engine),
        }
    }

    /// Its directed histories.
    pub fn directed(self) -> Vec<Directed> {
        match self {
            Target::Pool => {
                let mut all = directed::<PoolSubject>(&setups::pool());
                all.extend(syncing::<PoolSubject>(&setups::synced_pool()));
                all
            }
            Target::Heap => {
                let mut all = directed::<HeapSubject>(&setups::heap());
                all.extend(deep::heap());
                all.extend(writers_of_the_heap());
                all
            }
            Target::Baselines => alone_in::<BaselineSubject>(setups::classic::classic()),
            Target::Threaded => {
                let mut all = directed::<ThreadedSubject>(&setups::threaded::threaded());
                all.extend(alone_in::<ThreadedSubject>(setups::threaded::threaded_alone()));
                let insert = |key| vec![Op::One(key, Action::Insert(2))];
                let both_split = vec![insert(0), insert(1)];
                let two_full = setups::threaded::two_full_segments();
                all.push(interleaved::<ThreadedSubject>(&two_full, both_split, 0));
                // The first key's insertion moves the second one, and a look-up of that is interrupted.
                let look_up = vec![Op::One(1, Action::Get)];
                for setup in setups::threaded::displaced_pairs() {
                    let program = vec![insert(0), look_up.clone()];
                    all.push(interleaved::<ThreadedSubject>(&setup, program, 0));
                }
                all.extend(setups::threaded::one_free_slot().iter().map(reused_slot));
                all
            }
            Target::Log => logged::histories(),
            Target::Guests => {
                guests::histories().into_iter().chain(successions::histories()).collect()
            }
            Target::Cache => cached::histories(),
            Target::Engine(engine) => crate::engines::histories(engine),
        }
    }

    /// The setups in which its exhaustive and random histories are run.
    pub(crate) fn arenas(self) -> Vec<Arena> {
        match self {
            Target::Pool => arenas_of::<PoolSubject>(setups::pool())
                .chain(arenas_of::<PoolSubject>(setups::synced_pool()))
                .collect(),
            Target::Heap => arenas_of::<HeapSubject>(setups::heap()).collect(),
            Target::Baselines => arenas_of::<BaselineSubject>(setups::classic::classic()).collect(),
            Target::Threaded => arenas_of::<ThreadedSubject>(setups::threaded::threaded())
                .chain(arenas_of::<ThreadedSubject>(setups::threaded::threaded_alone()))
                .collect(),
            Target::Log => logged::arenas(),
            Target::Guests => guests::arenas(),
            Target::Cache => arenas_of::<CacheSubject>(cached::setups()).collect(),
            Target::Engine(engine) => crate::engines::arenas(engine),
        }
    }
}

/// A slot that two keys have in turn. Whoever looks the second one up stands still twice, and meets a value of the
/// first one before and after.
fn reused_slot(setup: &Setup) -> Directed {
    let first = |action| Op::One(0, action);
    let second = |action| Op::One(1, action);
    let insert = || first(Action::Insert(2));
    let there =
        vec![first(Action::Remove), second(Action::Insert(3)), second(Action::Remove), insert()];
    let program = vec![vec![insert()], there, vec![second(Action::Get)]];
    shared_after::<ThreadedSubject>(setup, program, 1, 3)
}
