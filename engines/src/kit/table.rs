//! An open table of any engine that is built on the kit, as an [`Index`].

use super::helper::{Background, Helpers, Signal};
use super::mutation::Likely;
use super::operations::Operations;
use super::paths::{mutate, mutate_dyn, mutate_many};
use super::scan::Scanned;
use crate::Settings;
use index::{
    Change, CheckReport, Chore, Error, Exchange, Fixed, Index, Occupancy, Scan, Shrunk, Unfinished,
    is_same_state,
};
use pmem::{OpenError, Pool};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What a table does besides its operations.
pub(crate) trait Upkeep: Operations + 'static {
    /// For `Debug`.
    const NAME: &'static str;

    fn pool(&self) -> &Pool<Self::Medium>;

    /// Makes what is volatile from what is in the pool.
    fn recover(&self) -> Result<(), OpenError>;

    /// Starts the threads of its own; the table ends them by dropping the result.
    fn start(core: &Arc<Self>, settings: &Settings) -> Box<dyn Send + Sync>;

    /// What tells helpers what to do, if it has any.
    fn signal(&self) -> Option<&Signal> {
        None
    }

    /// A round of what helpers do, for a machine that has no threads of the table's own.
    #[cfg(feature = "simulated")]
    fn take_one_round(&self) {}

    fn len(&self) -> u64;
    fn occupancy(&self) -> Occupancy;
    fn check(&self) -> CheckReport;

    /// Ends a resize that is under way. What cannot be written, a later opening ends.
    fn settle(&self);
    fn shrink(&self) -> Result<Shrunk, Error>;
}

/// The helpers of a table, until dropped.
pub(crate) struct Helped<T: Background + Upkeep> {
    core: Arc<T>,
    helpers: Option<Helpers>,
}

impl<T: Background + Upkeep> Helped<T> {
    pub(crate) fn start(core: &Arc<T>, settings: &Settings) -> Self {
        let helpers = Helpers::start(Arc::<T>::clone(core), settings, core.pool().is_read_only());
        Helped { core: Arc::clone(core), helpers: Some(helpers) }
    }
}

impl<T: Background + Upkeep> Drop for Helped<T> {
    fn drop(&mut self) {
        if let Some(helpers) = self.helpers.take() {
            helpers.stop(Background::signal(&*self.core), self.core.pool().is_inherited());
        }
    }
}

/// An open table with keys `K` and values `V`.
pub struct Table<C, K, V> {
    pub(crate) core: Arc<C>,
    scan_time: Duration,
    pair: PhantomData<fn() -> (K, V)>,
    _closing: Closing,
}

/// Closes a table when dropped.
struct Closing(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(close) = self.0.take() {
            close();
        }
    }
}

/// Recovers what is in the pool, and begins to work in the background.
pub(crate) fn start<C: Upkeep>(
    core: C,
    settings: &Settings,
) -> Result<Table<C, C::Key, C::Value>, OpenError> {
    let core = Arc::new(core);
    let started = Instant::now();
    core.recover()?;
    let scan_time = started.elapsed();
    let threads = C::start(&core, settings);
    let closed = Arc::clone(&core);
    let close = move || {
        drop(threads);
        if !closed.pool().is_inherited() {
            // So that a closed pool needs no recovery and can be opened read-only.
            closed.settle();
        }
    };
    Ok(Table { core, scan_time, pair: PhantomData, _closing: Closing(Some(Box::new(close))) })
}

impl<C: Upkeep, K, V> std::fmt::Debug for Table<C, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(C::NAME).field("geometry", &self.core.geometry()).finish_non_exhaustive()
    }
}

/// The key of a pair. This is a function, since each closure would be a different type: so batches of pairs are
/// compiled once.
fn key_of<K: Copy, V>(&(key, _): &(K, V)) -> K {
    key
}

/// A key, the state that it is to have, and the one that it then gets.
type Exchanged<K, V> = (K, Option<V>, Option<V>);

impl<C, K, V> Index<K, V> for Table<C, K, V>
where
    C: Upkeep<Key = K, Value = V>,
    K: Fixed,
    V: Fixed,
{
    fn get(&self, key: K) -> Option<V> {
        self.core.get(key)
    }

    #[inline]
    fn prefetch(&self, key: K) {
        if let Some(near) = self.core.near(self.core.hash(key)) {
            self.core.prefetch_states(&near);
        }
    }

    fn get_many(&self, keys: &[K], out: &mut [Option<V>]) {
        self.core.get_many(keys, out);
    }

    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        mutate(&*self.core, key, Likely::Inserts, |found| Change::if_absent(found, value))
    }

    fn update(&self, key: K, value: V) -> Result<Option<V>, Error> {
        mutate(&*self.core, key, Likely::Updates, |found| Change::if_present(found, value))
    }

    fn upsert(&self, key: K, value: V) -> Result<Option<V>, Error> {
        mutate(&*self.core, key, Likely::Inserts, |_| Change::Put(value))
    }

    fn remove(&self, key: K) -> Result<Option<V>, Error> {
        mutate(&*self.core, key, Likely::Removes, |_| Change::Remove)
    }

    fn compare_exchange(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<Exchange<V>, Error> {
        let decide = |found| Change::if_expected(is_same_state(found, expected), new);
        let found = mutate_dyn(&*self.core, key, Likely::exchange(expected, new), &decide)?;
        Ok(if is_same_state(found, expected) { Ok(()) } else { Err(found) })
    }

    #[inline]
    fn modify(&self, key: K, decide: impl Fn(Option<V>) -> Change<V>) -> Result<Option<V>, Error> {
        mutate(&*self.core, key, Likely::Updates, decide)
    }

    fn insert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        let decide = |&(_, value): &(K, V), found| Change::if_absent(found, value);
        mutate_many(&*self.core, pairs, out, key_of, Likely::Inserts, decide)
    }

    fn update_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        let decide = |&(_, value): &(K, V), found| Change::if_present(found, value);
        mutate_many(&*self.core, pairs, out, key_of, Likely::Updates, decide)
    }

    fn upsert_many(
        &self,
        pairs: &[(K, V)],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        let decide = |&(_, value): &(K, V), _| Change::Put(value);
        mutate_many(&*self.core, pairs, out, key_of, Likely::Inserts, decide)
    }

    fn remove_many(&self, keys: &[K], out: &mut [Option<V>]) -> Result<(), Unfinished<Error>> {
        mutate_many(&*self.core, keys, out, |&key| key, Likely::Removes, |_, _| Change::Remove)
    }

    fn compare_exchange_many(
        &self,
        changes: &[Exchanged<K, V>],
        out: &mut [Option<V>],
    ) -> Result<(), Unfinished<Error>> {
        let decide = |&(_, expected, new): &Exchanged<K, V>, found| {
            Change::if_expected(is_same_state(found, expected), new)
        };
        mutate_many(&*self.core, changes, out, |&(key, _, _)| key, Likely::Inserts, decide)
    }

    fn scan(&self) -> Box<dyn Scan<K, V> + '_> {
        self.core.scan()
    }

    fn for_each_on(&self, threads: usize, visit: &(dyn Fn(K, V) -> ControlFlow<()> + Sync)) {
        self.core.for_each_on(threads, visit);
    }

    fn len(&self) -> u64 {
        self.core.len()
    }

    fn occupancy(&self) -> Occupancy {
        self.core.occupancy()
    }

    fn check(&self) -> CheckReport {
        self.core.check()
    }

    fn settle(&self) {
        self.core.settle();
    }

    fn shrink(&self) -> Result<Shrunk, Error> {
        self.core.shrink()
    }

    fn set_chore(&self, chore: Weak<dyn Chore>) {
        if let Some(signal) = self.core.signal() {
            signal.set_chore(chore);
        }
    }

    fn wake_for_chore(&self) -> bool {
        self.core.signal().is_some_and(Signal::wake)
    }

    fn scan_time(&self) -> Duration {
        self.scan_time
    }

    #[cfg(feature = "simulated")]
    fn expect_help(&self) {
        if let Some(signal) = self.core.signal() {
            signal.expect_turns();
        }
    }

    #[cfg(feature = "simulated")]
    fn help(&self) {
        self.core.take_one_round();
    }
}
