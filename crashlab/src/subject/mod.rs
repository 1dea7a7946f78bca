//! What the lab crashes: engines, byte stores, classic tables, the pool alone and the heap alone, each behind the
//! same small face.

mod baseline;
mod cache;
mod heap;
mod lines;
mod locked;
mod pool;
mod store;
mod table;
mod threaded;

pub use baseline::BaselineSubject;
pub use cache::CacheSubject;
pub use heap::HeapSubject;
pub use lines::LinesSubject;
pub use locked::LockedSubject;
pub use pool::PoolSubject;
pub use store::StoreSubject;
pub use table::{LongKey, LongTableSubject, LongValue, PairsSubject, TableSubject, lengthened};
pub use threaded::ThreadedSubject;

use crate::history::{Action, Key, Op, Value};
use engines::{Engine, PreferredSight, Settings};
use index::Unfinished;
use pmem::line_log::LineLog;
use pmem::medium::sim::{Durable, Sim};
use pmem::pool::Spec;
use pmem::superblock::{ENGINE_PARAMS, Place, PoolKind};
use pmem::view::View;
use pmem::{OpenError, Pool, SpaceError};
use std::sync::Arc;

/// Seed of all hashing in the lab.
pub const HASH_SEED: u64 = 7;

/// A situation: what there is before the history, and which keys it is about.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What it is, in a few words.
    pub name: &'static str,
    /// What each key number stands for. The first `free_keys` are the history's, the others are
    /// there so that the table is as full as it is to be.
    pub keys: Vec<u64>,
    /// Keys that histories act on.
    pub free_keys: usize,
    /// Operations done before the history; nothing crashes in them.
    pub before: Vec<Op>,
    /// The engine under a table or store.
    pub engine: Engine,
    /// Its parameters.
    pub engine_params: [u64; ENGINE_PARAMS],
    /// Whether histories also halve the table.
    pub shrinks: bool,
    /// Whether histories also move items together.
    pub compacts: bool,
    /// Load factor at which it grows.
    pub resize_at: f64,
    /// Bits that a store keeps of its keys' hashes.
    pub hash_bits: u32,
    /// Lengths in bytes of a store's values: value `v` has the length at `v` modulo their number.
    pub value_bytes: &'static [usize],
    /// log2 of the heap's segments in bytes.
    pub segment_log2: u32,
    /// Size that the pool may reach, in bytes.
    pub limit_bytes: u64,
    /// Whether that may be too little: if not, an operation that finds no room is wrong.
    pub is_tight: bool,
    /// Whether the table has a helper, whose rounds are operations of histories. It also refills a cached table.
    pub has_helper: bool,
    /// Threads that recover it.
    pub recovery_threads: usize,
    /// Whether it was ended and opened again, by an engine that then builds its sidecar while the history runs. After
    /// a crash, it does so, too.
    pub is_reopened: bool,
    /// Whether it was closed before it was opened again, and not killed.
    pub is_closed: bool,
    /// Whether histories also sync.
    pub syncs: bool,
    /// Whether the medium keeps nothing by itself, save what is synced: a file on a disk.
    pub is_mapped: bool,
    /// Whether the medium keeps every store: what a killed process leaves, where nothing is flushed.
    pub keeps_all: bool,
    /// Whether a line log is all that survives a history.
    pub is_logged: bool,
    /// Whether look-ups are those of a guest, on an engine that shows what it has.
    pub is_shown: bool,
    /// Whether it is a cache: what it has may go at any time.
    pub is_cache: bool,
    /// Whether there is room for all that a history puts into a cache.
    pub has_room: bool,
    /// So many bytes less a cache may have from its first opening on.
    pub cut_bytes: u64,
    /// A fault planted above the pool, to see whether the lab notices.
    pub fault: Option<PlantedFault>,
}

/// Faults that the lab's own parts commit on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// A replaced item's space is given back at once, not when its epoch has passed.
    ReclaimAtOnce,
    /// A checkpoint does not wait for operations that are under way.
    CheckpointAtOnce,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            name: "an empty table",
            keys: Vec::new(),
            free_keys: 0,
            before: Vec::new(),
            engine: Engine::ALL[0],
            engine_params: [0; ENGINE_PARAMS],
            shrinks: false,
            compacts: false,
            resize_at: 2.0,
            hash_bits: 64,
            value_bytes: &[8],
            segment_log2: 7,
            limit_bytes: 14 << 10,
            is_tight: false,
            has_helper: false,
            recovery_threads: 1,
            is_reopened: false,
            is_closed: false,
            syncs: false,
            is_mapped: false,
            keeps_all: false,
            is_logged: false,
            is_shown: false,
            is_cache: false,
            has_room: false,
            cut_bytes: 0,
            fault: None,
        }
    }
}

/// How a setup's table changes its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It does not.
    Never,
    /// When a key finds no room.
    WhenFull,
    /// At a load factor.
    ByLoad,
    /// It is halved as well.
    Shrinks,
}

/// Words of a thread's ring: more than a history appends, so nobody waits for a flusher that has ended.
const RING_WORDS: usize = 4096;

/// A log for one history, which is not yet started.
fn line_log() -> Arc<LineLog> {
    let log = LineLog::with_rings(RING_WORDS);
    Arc::new(log.unwrap_or_else(|error| panic!("no memory for a log: {error}")))
}

impl Setup {
    pub(crate) fn growth(&self) -> Growth {
        match self {
            _ if self.shrinks => Growth::Shrinks,
            _ if self.resize_at > 1.0 => Growth::Never,
            _ if self.resize_at == 1.0 => Growth::WhenFull,
            _ => Growth::ByLoad,
        }
    }

    /// The word that a value stands for in a table of words.
    pub fn word(value: Value) -> u64 {
        match value {
            0 => 0,
            1 => u64::MAX,
            value => u64::from(value) << 32 | u64::from(value),
        }
    }

    /// The value that a word stands for.
    pub fn value_of(word: u64) -> Option<Value> {
        match word {
            0 => Some(0),
            u64::MAX => Some(1),
            word => Some(word as Value).filter(|&value| Setup::word(value) == word),
        }
    }

    /// What is on trial, in words.
    pub(crate) fn subject<S: Subject>(&self) -> String {
        let name = S::name(self);
        match self {
            Setup { is_logged: true, .. } => format!("logged {name}"),
            Setup { is_shown: true, .. } => format!("guests' {name}"),
            _ => name,
        }
    }

    /// The number of a key.
    pub fn key_of(&self, word: u64) -> Option<Key> {
        self.keys.iter().position(|&key| key == word).map(|index| index as Key)
    }

    /// What a key holds when the history begins.
    pub fn before_history(&self, key: Key) -> Option<Value> {
        let actions = self.before.iter().flat_map(Op::calls).filter(|&(of, _)| of == key);
        actions.fold(None, |state, (_, action)| action.apply(state))
    }

    /// Whether an action may find no room.
    pub fn may_be_full(&self, action: Action) -> bool {
        // Removing one of several keys of one hash takes a new, smaller group.
        let needs_room = !matches!(action, Action::Get | Action::Remove) || self.hash_bits < 64;
        self.is_tight && needs_room
    }

    /// A medium that holds these words.
    pub fn medium(&self, words: &[u64]) -> Sim {
        if self.keeps_all {
            Sim::keeping(words, self.limit_bytes)
        } else if self.is_mapped {
            Sim::mapped(words, self.limit_bytes)
        } else {
            Sim::new(words, self.limit_bytes)
        }
    }

    /// An empty medium, for a history.
    pub(crate) fn fresh_medium(&self) -> Sim {
        let medium = self.medium(&[]);
        if self.is_logged { medium.logged(line_log()) } else { medium }
    }

    /// The medium as a killed process leaves it.
    pub fn killed(&self, durable: &Durable) -> Sim {
        Sim::killed(self.medium(&durable.words), durable)
    }

    fn settings(&self) -> Settings {
        // Helpers are threads of the operating system, which the machine does not simulate; their
        // turns are `Op::Help`. Without, operations do in small steps what they do.
        Settings {
            resize_at: self.resize_at,
            helpers: 0,
            recovery_threads: self.recovery_threads,
            refills_cache: self.has_helper,
            built_at_once_max: if self.is_reopened { 0 } else { u64::MAX },
            is_shown: self.is_shown,
            ..Settings::default()
        }
    }
}

/// Where a simulated pool is in the simulated world: a power failure is a new boot.
pub fn place(boot: u64) -> Place {
    Place { boot_id: [boot + 1, 1], inode: 1, file_system: 1 }
}

/// What a subject's pool is to be.
fn spec(setup: &Setup, kind: PoolKind, engine: u32, engine_params: [u64; ENGINE_PARAMS]) -> Spec {
    Spec {
        kind,
        engine,
        key_bytes: 8,
        value_bytes: 8,
        hash_id: index::hash::HASH_ID,
        hash_seed: HASH_SEED,
        uuid: 1,
        segment_log2: setup.segment_log2,
        engine_params,
    }
}

/// Why a subject did not open.
#[derive(Debug)]
pub enum Refusal {
    /// There is no pool.
    NoPool,
    /// It was not closed, and the medium may have lost any of it.
    Dirty,
    /// There should be one.
    Wrong(String),
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NotAPool { .. } | OpenError::Damaged { .. } => Refusal::NoPool,
            OpenError::Dirty { .. } | OpenError::NeedsRecovery => Refusal::Dirty,
            error => Refusal::Wrong(error.to_string()),
        }
    }
}

/// What an operation of a subject came to.
#[derive(Debug)]
pub enum Failed {
    /// There was no room, and nothing was changed.
    Full,
    /// It should not have failed.
    Wrong(String),
}

impl Failed {
    /// Asked of what is no cache.
    fn of_cache(action: Action) -> Failed {
        Failed::Wrong(format!("{action}: that is for caches"))
    }
}

impl From<SpaceError> for Failed {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Full { .. } => Failed::Full,
            error => Failed::Wrong(error.to_string()),
        }
    }
}

impl From<index::Error> for Failed {
    fn from(error: index::Error) -> Self {
        match error {
            index::Error::Space(error) => error.into(),
            error => Failed::Wrong(error.to_string()),
        }
    }
}

impl<E: Into<Failed>> From<Unfinished<E>> for Failed {
    fn from(unfinished: Unfinished<E>) -> Self {
        unfinished.error.into()
    }
}

/// Something on a pool that can be put to the test.
pub trait Subject: Send + Sync + Sized + 'static {
    /// Whether its directed histories are few and short enough to be in every sample.
    const IS_ALWAYS_SAMPLED: bool = false;

    /// What it is, in words.
    fn name(setup: &Setup) -> String;

    /// Whether a scan beside writers meets every key that is present throughout exactly once.
    fn scans_exactly(_setup: &Setup) -> bool {
        false
    }

    /// Makes it on an empty medium.
    fn create(medium: Sim, setup: &Setup) -> Result<Self, Refusal>;

    /// Opens what a crash left, in boot number `boot`.
    fn open(medium: Sim, setup: &Setup, boot: u64) -> Result<Self, Refusal>;

    /// Opens a pool that was closed, in the first boot after that, to read it.
    fn open_read_only(_medium: Sim, _setup: &Setup) -> Result<Self, Refusal> {
        Err(Refusal::NoPool)
    }

    /// Does one operation; returns the state that it found.
    fn call(&self, setup: &Setup, key: Key, action: Action) -> Result<Option<Value>, Failed>;

    /// Does a batch; the states found.
    fn call_many(
        &self,
        setup: &Setup,
        calls: &[(Key, Action)],
    ) -> Result<Vec<Option<Value>>, Failed> {
        calls.iter().map(|&(key, action)| self.call(setup, key, action)).collect()
    }

    /// What a guest finds of some keys in what is shown. `None`: it cannot tell.
    fn see(&self, _setup: &Setup, keys: &[Key]) -> Result<Vec<Option<Option<Value>>>, Failed> {
        Ok(vec![None; keys.len()])
    }

    /// One round of a helper.
    fn help(&self) {}

    /// Ends what goes on in the background.
    fn settle(&self) {}

    /// Whether a resize is under way.
    fn is_resizing(&self) -> bool {
        false
    }

    /// Resizes begun so far.
    fn resizes(&self) -> u64 {
        0
    }

    /// Records the pool as clean until the next change.
    fn sync(&self) -> Result<(), String> {
        Ok(())
    }

    /// Ends it, so that the next opening finds it closed.
    fn close(&self) -> Result<(), String> {
        Ok(())
    }

    /// Halves what can be halved.
    fn shrink(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Removes everything.
    fn clear(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Lets time pass.
    fn pass(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Moves items together, if there are any.
    fn compact(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Waits until all have left the gate that are inside.
    fn wait_for_writers(&self) {}

    /// The memory it is on.
    fn medium(&self) -> &Sim;

    /// Every pair that a scan shows.
    fn scan(&self, setup: &Setup) -> Result<Vec<(Key, Value)>, String>;

    /// Verifies every invariant, space that is lost included. Called when nothing else runs.
    fn check(&self) -> Result<(), String>;

    /// The state of every key, by scan and by look-up, which must agree.
    fn contents(&self, setup: &Setup) -> Result<Vec<Option<Value>>, String> {
        let mut scanned = vec![None; setup.keys.len()];
        for (key, value) in self.scan(setup)? {
            if scanned[usize::from(key)].replace(value).is_some() {
                return Err(format!("k{key} is there twice"));
            }
        }
        for (key, &scanned) in (0..).zip(&scanned) {
            match self.call(setup, key, Action::Get) {
                Ok(found) if found == scanned => {}
                Ok(found) => {
                    return Err(format!("k{key}: get finds {found:?}, a scan {scanned:?}"));
                }
                Err(failed) => return Err(format!("k{key}: get fails: {failed:?}")),
            }
        }
        Ok(scanned)
    }
}

/// What a guest sees by this view of a pool.
fn sight(pool: &Arc<Pool<Sim>>, view: Arc<View>) -> Result<PreferredSight<Sim>, Refusal> {
    PreferredSight::open(Arc::clone(pool), view).map_err(Refusal::Wrong)
}

/// Opens a pool to read what is in it, in the first boot after the histories'.
fn read_only(medium: Sim) -> Result<Pool<Sim>, Refusal> {
    Ok(Pool::open_read_only(medium, place(1))?)
}

/// Syncs as a handle does: what is under way is ended first.
fn sync(subject: &impl Subject, pool: &Pool<Sim>) -> Result<(), String> {
    subject.settle();
    pool.close().map_err(|error| error.to_string())
}

/// A report of the index layer as a result.
fn verdict(report: index::CheckReport, pairs: u64) -> Result<(), String> {
    if !report.is_sound() {
        return Err(report.findings.join("; "));
    }
    if report.pairs != pairs {
        return Err(format!("check counts {} pairs, len says {pairs}", report.pairs));
    }
    Ok(())
}
