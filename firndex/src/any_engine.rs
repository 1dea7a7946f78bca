//! The engine under a table or a store.

use crate::Options;
use crate::compactor::Compactor;
use crate::handle::PoolHandle;
use crate::word_types::{of_word, word_of};
use engines::engine::HotPath;
use engines::{Inlined, PreferredChanges};
use index::{CheckReport, Fixed, Index, Record, Records, are_words};
use pmem::OpenError;
use pmem::heap::HeapUse;
use pmem::medium::Memory;
use pmem::sync::Renewal;
use std::ops::Deref;
use std::sync::Arc;

/// What an engine is asked whether it holds a table or a store.
pub(crate) trait Core: Send + Sync + 'static {
    fn pairs(&self) -> u64;
    /// As [`Records::heap_use`].
    fn space(&self) -> HeapUse;
    /// As [`Records::compact`]; how many bytes became free.
    fn move_together(&self) -> u64;
    /// As [`Records::give_back`].
    fn give_space_back(&self) -> u64;
    /// As [`Records::check`].
    fn check_all(&self) -> CheckReport;
}

macro_rules! core_of_engine {
    () => {
        fn pairs(&self) -> u64 {
            self.len()
        }

        fn space(&self) -> HeapUse {
            self.heap_use()
        }

        fn move_together(&self) -> u64 {
            self.compact().freed_bytes
        }

        fn give_space_back(&self) -> u64 {
            self.give_back()
        }

        fn check_all(&self) -> CheckReport {
            self.check()
        }
    };
}

impl<K: Fixed, V: Fixed> Core for dyn Index<K, V> {
    core_of_engine!();
}

impl Core for dyn Records {
    core_of_engine!();
}

/// An engine behind one virtual call. Its hot path is compiled into the operations here, and so into their callers.
pub(crate) struct AnyEngine<T: Core + ?Sized> {
    /// Operations of the same table of words, or store. The [`Handle`](crate::handle::Handle) has the renewals of their
    /// leases, so they are never used in a call of a handle that is disturbed.
    inlined: Inlined<Memory>,
    any: Arc<T>,
    /// Uses the engine until it is dropped.
    compactor: Option<Compactor>,
    /// The pool that records the number of pairs at the end.
    pool: Option<Arc<dyn PoolHandle>>,
}

impl<T: Core + ?Sized> AnyEngine<T> {
    pub(crate) fn new(any: Box<T>, inlined: Inlined<Memory>) -> Self {
        AnyEngine { inlined, any: any.into(), compactor: None, pool: None }
    }

    /// What gives the leases of the preferred engine's hot path: that of reads and that of changes, if any.
    pub(crate) fn take_renewals(&mut self) -> [Option<Renewal>; 2] {
        self.inlined.preferred.take_renewals()
    }

    /// Starts to compact in the background, if the options ask for it and the pool is open for writing.
    pub(crate) fn compact_as_asked(&mut self, options: &Options) -> Result<(), OpenError> {
        if let Some(pool) = self.pool.as_ref().filter(|pool| !pool.is_read_only())
            && options.compact_at > 0.0
        {
            let (engine, pool) = (Arc::clone(&self.any), Arc::clone(pool));
            self.compactor = Some(Compactor::start(engine, pool, options.compact_at)?);
        }
        Ok(())
    }

    /// As [`Records::check`] and [`Index::check`], while nothing is compacted in the background: what that has in hand
    /// would seem lost.
    pub(crate) fn check(&self) -> CheckReport {
        let _held = self.compactor.as_ref().map(Compactor::hold);
        self.any.check_all()
    }

    /// Compares the number of pairs with the one recorded in `pool`, and from now on records it at the end. A pool for
    /// reading may hold another number if it `may_lack_pairs`.
    pub(crate) fn count_in(
        &mut self,
        pool: &Arc<dyn PoolHandle>,
        may_lack_pairs: bool,
    ) -> Result<(), OpenError> {
        pool.compare_pairs(&|| self.any.pairs(), may_lack_pairs)?;
        self.pool = Some(Arc::clone(pool));
        Ok(())
    }
}

impl<T: Core + ?Sized> Drop for AnyEngine<T> {
    fn drop(&mut self) {
        drop(self.compactor.take());
        if let Some(pool) = &self.pool {
            pool.record_pairs(&|| self.any.pairs());
        }
    }
}

/// All other operations.
impl<T: Core + ?Sized> Deref for AnyEngine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.any
    }
}

impl<K: Fixed, V: Fixed> AnyEngine<dyn Index<K, V>> {
    /// For keys and values of other sizes only the virtual call is compiled.
    #[inline(always)]
    fn of_words(&self) -> Option<&Inlined<Memory>> {
        if const { are_words::<K, V>() } { Some(&self.inlined) } else { None }
    }

    /// [`Index::get`] by a leased operation.
    #[inline(always)]
    pub(crate) fn get_here(&self, key: K) -> Option<Option<V>> {
        let reads = self.of_words()?.preferred.reads()?;
        Some(reads.get(key.word(0)).map(of_word))
    }

    /// [`Index::get`] of a handle that is not disturbed.
    #[inline(always)]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        match self.of_words() {
            Some(hot) => hot.get(key.word(0), || self.any.get(key).map(word_of)).map(of_word),
            None => self.any.get(key),
        }
    }

    /// What changes are made with that are compiled into their callers.
    #[inline(always)]
    pub(crate) fn changes(&self) -> Option<PreferredChanges<'_, Memory>> {
        self.of_words()?.preferred.changes()
    }
}

impl AnyEngine<dyn Records> {
    /// What [`Records::get`] finds, by a leased operation. `None`: that does not suffice.
    #[inline(always)]
    pub(crate) fn get_leased(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        self.inlined.preferred.get_record(key)
    }

    /// What [`Records::get`] finds, of a handle that is not disturbed. `None`: the hot path does not suffice.
    #[inline(always)]
    pub(crate) fn get_here(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        self.inlined.get_bytes(key)
    }
}
