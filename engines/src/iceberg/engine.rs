//! IcebergHT's entry in the list of engines.

use super::{Core, Iceberg, Shape};
use crate::Settings;
use crate::engine::{
    Describe, Description, HotPath, PairSizes, Parameters, Wanted, as_pairs, open_items,
};
use crate::sizes::{check_sizes, not_kept};
use crate::wreck::{Found, Wreck};
use index::hash::Hasher;
use index::{Change, Fixed, Index, ItemReader, Items, Record, are_words};
use pmem::superblock::ENGINE_PARAMS;
use pmem::sync::{Asymmetric, Lease, Numbered, Renewal};
use pmem::{Medium, OpenError, Pool};
use std::sync::Arc;

/// IcebergHT in the list of engines.
#[derive(Debug)]
pub enum Engine {}

impl Describe for Engine {
    const DESCRIPTION: Description = Description {
        id: 1,
        name: "iceberg",
        title: "IcebergHT",
        paper: "Pandey et al.: IcebergHT: High Performance Hash Tables Through Stability and Low \
                Associativity. Proc. ACM Manag. Data 1(1), 2023",
        summary: "Stable, compact, fast for everything: nearly always the one to choose.",
        pair_sizes: "keys and values of 8 bytes each",
        pair_bytes_max: 16,
        parameters: &[],
        shrinks_by_itself: true,
        scans_exactly: true,
        is_lock_free: false,
        has_helpers: true,
        opens_at_once: true,
    };

    type Words<M: Medium> = Iceberg<M>;
    type Bytes<M: Medium> = Items<Iceberg<M>, M>;
    type HotPath<M: Medium> = Hot<M>;

    fn takes(sizes: PairSizes, parameters: &Parameters) -> bool {
        sizes == PairSizes::WORDS && parameters.iter().next().is_none()
    }

    fn engine_params(wanted: &Wanted<'_>) -> [u64; ENGINE_PARAMS] {
        Shape::default().for_pairs(wanted.pairs, wanted.resize_at).encode()
    }

    fn open_words<M: Medium>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Iceberg<M>, OpenError> {
        Iceberg::open(pool, settings)
    }

    fn open_pairs<M: Medium, K: Fixed, V: Fixed>(
        pool: Arc<Pool<M>>,
        settings: Settings,
    ) -> Result<Box<dyn Index<K, V>>, OpenError> {
        check_sizes::<K, V>(&pool.superblock())?;
        let not_kept = || not_kept::<K, V>(Self::DESCRIPTION.pair_sizes);
        // Who opens a table of other pairs does not compile this engine.
        if const { are_words::<K, V>() } {
            as_pairs(Box::new(Iceberg::open(pool, settings)?)).map_err(|_| not_kept())
        } else {
            Err(not_kept())
        }
    }

    fn salvage<K: Fixed, V: Fixed>(wreck: &mut Wreck<'_>, visit: &mut dyn FnMut(Found<'_, K, V>)) {
        if const { are_words::<K, V>() } {
            super::salvage::salvage(wreck, &mut |found| {
                visit(match found {
                    Found::Pair(key, value) => {
                        Found::Pair(K::of_words(|_| key), V::of_words(|_| value))
                    }
                    Found::Item(at, is_home) => Found::Item(at, is_home),
                    Found::Misplaced(at) => Found::Misplaced(at),
                });
            });
        }
    }

    fn open_bytes<M: Medium>(
        pool: Arc<Pool<M>>,
        hasher: Hasher,
        settings: Settings,
    ) -> Result<Self::Bytes<M>, OpenError> {
        open_items::<Self, M>(pool, hasher, settings)
    }

    fn hot_path_of_words<M: Medium>(table: &Iceberg<M>) -> Option<Hot<M>> {
        Some(Hot::new(&table.core, None))
    }

    fn hot_path_of_bytes<M: Medium>(store: &Self::Bytes<M>) -> Option<Hot<M>> {
        Some(Hot::new(&store.index().core, Some(store.reader())))
    }
}

/// All operations on single pairs of a table and look-ups in a store, as long as their [leases](Lease) are given.
pub struct Hot<M: Medium> {
    reads: Lease<Core<M>>,
    changes: Lease<Core<M>>,
    /// The items of a store; a table has none.
    items: Option<ItemReader<M>>,
    renewals: [Option<Renewal>; 2],
}

/// Look-ups in a table.
#[derive(Clone, Copy)]
pub struct Reads<'a, M: Medium>(&'a Core<M>);

/// Changes of single pairs of a table.
#[derive(Clone, Copy)]
pub struct Changes<'a, M: Medium> {
    core: &'a Core<M>,
    /// What the lease proves.
    pub asymmetric: Asymmetric,
}

impl<M: Medium> Hot<M> {
    fn new(core: &Arc<Core<M>>, items: Option<ItemReader<M>>) -> Self {
        let (reads, reads_renewal) = Lease::new(Arc::clone(core));
        // Next to a flush, a call costs nothing. And where the flush is an append to a log, whoever changes anything
        // has to ask the log first.
        let (changes, changes_renewal) = if core.flushes() || items.is_some() {
            (Lease::never(), None)
        } else {
            let (changes, renewal) = Lease::new(Arc::clone(core));
            (changes, Some(renewal))
        };
        Hot { reads, changes, items, renewals: [Some(reads_renewal), changes_renewal] }
    }

    /// None, and never any.
    pub fn none() -> Self {
        let (reads, changes) = (Lease::never(), Lease::never());
        Hot { reads, changes, items: None, renewals: [None, None] }
    }

    /// What gives the leases, that of reads and that of changes, if these are ever offered. `None` the second time.
    pub fn take_renewals(&mut self) -> [Option<Renewal>; 2] {
        std::mem::take(&mut self.renewals)
    }

    /// Look-ups, if they are leased now.
    #[inline(always)]
    pub fn reads(&self) -> Option<Reads<'_, M>> {
        self.reads.get().map(|(core, _)| Reads(core))
    }

    /// Changes, if they are leased now.
    #[inline(always)]
    pub fn changes(&self) -> Option<Changes<'_, M>> {
        self.changes.get().map(|(core, asymmetric)| Changes { core, asymmetric })
    }

    /// [`Records::get`](index::Records::get), if look-ups are leased now and that suffices.
    #[inline(always)]
    pub fn get_record<'a>(&'a self, key: &[u8]) -> Option<Option<Record<'a>>> {
        let (core, asymmetric) = self.reads.get()?;
        let items = self.items.as_ref()?;
        let (guard, hash) = items.begin_here(key, Numbered::this_thread()?, asymmetric);
        let slot = core.get(hash);
        items.end(guard, key, slot)
    }
}

impl<M: Medium> Reads<'_, M> {
    /// [`Index::get`].
    #[inline(always)]
    pub fn get(self, key: u64) -> Option<u64> {
        self.0.get(key)
    }
}

/// `None`: nothing was done, and the [`Index`] is to be called. No result is an error, which would go through memory,
/// and every result with it.
impl<M: Medium> Changes<'_, M> {
    /// [`Index::insert`].
    #[inline(always)]
    pub fn insert(self, key: u64, value: u64, thread: Numbered) -> Option<Option<u64>> {
        self.core.mutate_here(key, thread, |found| Change::if_absent(found, value))
    }

    /// [`Index::update`].
    #[inline(always)]
    pub fn update(self, key: u64, value: u64, thread: Numbered) -> Option<Option<u64>> {
        self.core.mutate_here(key, thread, |found| Change::if_present(found, value))
    }

    /// [`Index::upsert`].
    #[inline(always)]
    pub fn upsert(self, key: u64, value: u64, thread: Numbered) -> Option<Option<u64>> {
        self.core.mutate_here(key, thread, |_| Change::Put(value))
    }

    /// [`Index::remove`].
    #[inline(always)]
    pub fn remove(self, key: u64, thread: Numbered) -> Option<Option<u64>> {
        self.core.mutate_here(key, thread, |_| Change::Remove)
    }
}

/// Without leases it offers nothing.
impl<M: Medium> HotPath for Hot<M> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_not_kept() {
        for (key_bytes, value_bytes) in [(8, 8), (8, 4), (4, 8), (16, 0), (0, 16), (0, 0)] {
            let sizes = PairSizes { key_bytes, value_bytes };
            let takes = Engine::takes(sizes, &Parameters::default());
            assert_eq!(takes, sizes == PairSizes::WORDS, "{sizes:?}");
        }
        let mut parameters = Parameters::default();
        parameters.set("slots", 4);
        assert!(!Engine::takes(PairSizes::WORDS, &parameters));
    }
}
