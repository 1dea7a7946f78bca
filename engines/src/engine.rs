//! How an engine describes itself. Only its own files know more of it.

use crate::Settings;
use crate::wreck::{Found, Wreck};
use index::hash::Hasher;
use index::{Fixed, Index, Items, Record, Records};
use pmem::superblock::ENGINE_PARAMS;
use pmem::{Medium, OpenError, Pool};
use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An engine in words and figures.
#[derive(Debug)]
pub struct Description {
    /// Its number in superblocks; never that of another one.
    pub id: u32,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in its paper.
    pub title: &'static str,
    /// Its paper: authors, title, where and when it was published.
    pub paper: &'static str,
    /// What it is and when to choose it, in a sentence or two.
    pub summary: &'static str,
    /// Which sizes of keys and values it takes.
    pub pair_sizes: &'static str,
    /// Most bytes of a key and its value together.
    pub pair_bytes_max: u64,
    /// What can be chosen when a pool is created, besides the options of all engines.
    pub parameters: &'static [Parameter],
    /// Whether it also halves by itself: [`Settings::shrink_at`].
    pub shrinks_by_itself: bool,
    /// Whether a scan meets every key that is present throughout exactly once, even during writes and resizes. So far
    /// every engine does.
    pub scans_exactly: bool,
    /// Whether no thread ever waits for another one.
    pub is_lock_free: bool,
    /// Whether it has helper threads: [`Settings::helpers`].
    pub has_helpers: bool,
    /// Whether it answers before its sidecar is built: [`Settings::built_at_once_max`].
    pub opens_at_once: bool,
}

/// A choice for a new pool on an engine.
#[derive(Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub help: &'static str,
    /// Its range in a pool with such pairs; `None` if the pairs never fit.
    pub bounds: fn(PairSizes) -> Option<RangeInclusive<u64>>,
}

/// Bytes of an engine's keys and values. In a store these are a hash and the place of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairSizes {
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
}

impl PairSizes {
    /// A word each.
    pub const WORDS: PairSizes = PairSizes { key_bytes: 8, value_bytes: 8 };

    /// Bytes of a pair.
    pub fn pair_bytes(self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }
}

/// Values chosen for [`Parameter`]s, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, u64)>);

impl Parameters {
    /// Chooses a value; it replaces an earlier one of the same name.
    pub fn set(&mut self, name: &str, value: u64) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value));
    }

    /// The value chosen for a parameter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// What a new pool should be.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Sizes of its pairs.
    pub sizes: PairSizes,
    /// Pairs that it should hold without growing.
    pub pairs: u64,
    /// As [`Settings::resize_at`].
    pub resize_at: f64,
    /// Values for the engine's parameters, each within its bounds.
    pub parameters: &'a Parameters,
}

/// How an engine introduces itself. A type `Engine` in each folder implements it.
pub trait Describe: 'static {
    /// The engine in words and figures.
    const DESCRIPTION: Description;

    /// A table of words.
    type Words<M: Medium>: Index<u64, u64> + 'static;
    /// A store of byte strings.
    type Bytes<M: Medium>: Records + 'static;
    /// The operations that are compiled into their callers; [`NoHotPath`] if none is.
    type HotPath<M: Medium>: HotPath;

    /// Whether pairs of these sizes fit the engine, with these parameters if each is within its bounds.
    fn takes(sizes: PairSizes, parameters: &Parameters) -> bool {
        let all = Self::DESCRIPTION.parameters;
        let is_within = |(name, value): (&str, u64)| {
            let parameter = all.iter().find(|one| one.name == name);
            let bounds = parameter.and_then(|parameter| (parameter.bounds)(sizes));
            bounds.is_some_and(|bounds| bounds.contains(&value))
        };
        all.iter().all(|one| (one.bounds)(sizes).is_some()) && parameters.iter().all(is_within)
    }

    /// Whether a pool on the engine may hold pairs of these sizes, whatever its parameters are.
    fn may_hold(sizes: PairSizes) -> bool {
        Self::takes(sizes, &Parameters::default())
    }

    /// What is recorded in the superblock of such a pool.
    fn engine_params(wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS];

    /// The values of the engine's parameters in a pool with these records, as far as a new pool needs them to be alike.
    fn parameters_of(_engine_params: &[u64; ENGINE_PARAMS]) -> Parameters {
        Parameters::default()
    }

    /// Opens the table of words in a pool, or makes it if the pool is new.
    fn open_words<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Self::Words<M>, OpenError>;

    /// Opens the table in a pool, or makes it if the pool is new.
    fn open_pairs<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<BoxedIndex<K, V>, OpenError>;

    /// Opens the store in a pool, or makes it if the pool is new. `hasher` is that of the pool's seed; tests
    /// cut it to few bits.
    fn open_bytes<M: Medium>(
        pool: Arc<Pool<M>>,
        hasher: Hasher,
        settings: Settings,
    ) -> Result<Self::Bytes<M>, OpenError>;

    /// Shows `visit` what the tables of a pool hold that may be damaged anywhere, from its bytes: a key may come twice,
    /// the place that look-ups prefer first. The index of a store has words, which lead to items.
    fn salvage<K: Fixed, V: Fixed>(wreck: &mut Wreck<'_>, visit: &mut dyn FnMut(Found<'_, K, V>));

    /// The hot path of a table, if it has one.
    fn hot_path_of_words<M: Medium>(_table: &Self::Words<M>) -> Option<Self::HotPath<M>> {
        None
    }

    /// The hot path of a store, if it has one.
    fn hot_path_of_bytes<M: Medium>(_store: &Self::Bytes<M>) -> Option<Self::HotPath<M>> {
        None
    }
}

/// Operations that are compiled into their callers, without a virtual call.
///
/// A processor overlaps more operations if each takes fewer instructions, and a virtual call adds some for what it
/// saves and passes. Each operation does what the method of [`Index`] or [`Records`] with its name does. `None` means
/// that nothing was done, and that method is to be called: the engine does not offer the operation here, which is known
/// at compile time, or the case is rare. None of them returns an error, which would go through memory, and every result
/// with it.
pub trait HotPath: Send + Sync {
    /// [`Index::get`]; if it is not offered, the result of the caller's `otherwise`. A second `Option` around the first
    /// would cost four instructions.
    #[inline(always)]
    fn get(&self, _key: u64, otherwise: impl FnOnce() -> Option<u64>) -> Option<u64> {
        otherwise()
    }

    /// [`Records::get`], as [`HotPath`] says.
    #[inline(always)]
    fn get_bytes<'a>(&'a self, _key: &[u8]) -> Option<Option<Record<'a>>> {
        None
    }
}

/// A table, behind one virtual call for each operation.
pub type BoxedIndex<K, V> = Box<dyn Index<K, V>>;

/// An engine without operations that are compiled into their callers.
#[derive(Debug)]
pub enum NoHotPath {}

impl HotPath for NoHotPath {}

/// The tables of an engine whose buckets hold pairs of up to so many bytes, with keys of at least one: for others it is
/// not compiled. A store has its items in the heap.
macro_rules! holds_pairs_up_to {
    ($most:expr, $table:ident) => {
        type Words<M: Medium> = $table<M, u64, u64>;
        type Bytes<M: Medium> = index::Items<$table<M, u64, u64>, M>;

        fn open_words<M: Medium>(
            pool: Arc<Pool<M>>,
            settings: Settings,
        ) -> Result<Self::Words<M>, OpenError> {
            $table::open(pool, settings)
        }

        fn open_pairs<M: Medium, K: Fixed, V: Fixed>(
            pool: Arc<Pool<M>>,
            settings: Settings,
        ) -> Result<crate::engine::BoxedIndex<K, V>, OpenError> {
            if const { K::BYTES > 0 && (K::BYTES + V::BYTES) as u64 <= $most } {
                Ok(Box::new($table::<M, K, V>::open(pool, settings)?))
            } else {
                crate::sizes::check_sizes::<K, V>(&pool.superblock())?;
                Err(crate::sizes::not_kept::<K, V>(Self::DESCRIPTION.pair_sizes))
            }
        }

        fn salvage<K: Fixed, V: Fixed>(
            wreck: &mut crate::wreck::Wreck<'_>,
            visit: &mut dyn FnMut(crate::wreck::Found<'_, K, V>),
        ) {
            if const { K::BYTES > 0 && (K::BYTES + V::BYTES) as u64 <= $most } {
                super::salvage::salvage(wreck, visit);
            }
        }

        fn open_bytes<M: Medium>(
            pool: Arc<Pool<M>>,
            hasher: index::hash::Hasher,
            settings: Settings,
        ) -> Result<Self::Bytes<M>, OpenError> {
            crate::engine::open_items::<Self, M>(pool, hasher, settings)
        }
    };
}
pub(crate) use holds_pairs_up_to;

/// Items in the heap, found through the table of words of an engine that keeps no bytes itself.
pub(crate) fn open_items<E: Describe, M: Medium>(
    pool: Arc<Pool<M>>,
    hasher: Hasher,
    settings: Settings,
) -> Result<Items<E::Words<M>, M>, OpenError> {
    let index = E::open_words(Arc::clone(&pool), settings)?;
    Items::open(index, pool, hasher, settings.recovery_threads())
}

/// `table`, whose keys and values are words, as a table of `K` and `V` if these are words; otherwise unchanged.
pub fn as_pairs<K: Fixed, V: Fixed>(
    table: BoxedIndex<u64, u64>,
) -> Result<BoxedIndex<K, V>, BoxedIndex<u64, u64>> {
    type Words = BoxedIndex<u64, u64>;
    let as_it_is: fn(Words) -> Words = |table| table;
    match (&as_it_is as &dyn Any).downcast_ref::<fn(Words) -> BoxedIndex<K, V>>() {
        Some(as_it_is) => Ok(as_it_is(table)),
        None => Err(table),
    }
}
