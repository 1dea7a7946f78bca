//! The operations of an engine on keys and values.

use crate::guests::Sights;
use crate::word_types::{of_word, word_of};
use engines::engine::HotPath;
use engines::{Inlined, PreferredChanges};
use index::{Fixed, Index, Record, Records, are_words};
use pmem::medium::Memory;
use pmem::sync::Renewal;
use std::ops::Deref;
use std::sync::Arc;

/// An engine behind one virtual call. Its hot path is compiled into the operations here, and so into their callers.
pub(crate) struct AnyEngine<T: ?Sized> {
    /// Operations of the same table of words, or store. The [`Handle`](crate::handle::Handle) has the renewals of their
    /// leases, so they are never used in a call of a handle that is disturbed.
    inlined: Inlined<Memory>,
    any: Arc<T>,
    /// What a guest looks up by itself. Its handle is always disturbed.
    sights: Option<Arc<Sights>>,
}

impl<T: ?Sized> AnyEngine<T> {
    pub(crate) fn new(any: Box<T>, inlined: Inlined<Memory>) -> Self {
        AnyEngine { inlined, any: any.into(), sights: None }
    }

    /// That of a guest.
    pub(crate) fn of_guest(any: Box<T>, sights: Arc<Sights>) -> Self {
        AnyEngine { sights: Some(sights), ..AnyEngine::new(any, Inlined::none()) }
    }

    /// The same engine once more.
    pub(crate) fn shared(&self) -> Arc<T> {
        Arc::clone(&self.any)
    }

    /// What gives the leases of the preferred engine's hot path: that of reads and that of changes, if any.
    pub(crate) fn take_renewals(&mut self) -> [Option<Renewal>; 2] {
        self.inlined.preferred.take_renewals()
    }
}

/// All other operations.
impl<T: ?Sized> Deref for AnyEngine<T> {
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

    /// [`Index::get`] of a guest that need not ask.
    #[inline(always)]
    pub(crate) fn see(&self, key: K) -> Option<Option<V>> {
        let sights = self.of_words().and(self.sights.as_ref())?;
        Some(sights.word(key.word(0))?.map(of_word))
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
    /// What [`Records::get`] finds, by a leased operation, or in a guest that need not ask. `None`: that does not
    /// suffice.
    #[inline(always)]
    pub(crate) fn get_leased(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        match self.inlined.preferred.get_record(key) {
            None => Some(self.sights.as_ref()?.bytes(key)?.map(Record::copied)),
            found => found,
        }
    }

    /// What [`Records::get`] finds, of a handle that is not disturbed. `None`: the hot path does not suffice.
    #[inline(always)]
    pub(crate) fn get_here(&self, key: &[u8]) -> Option<Option<Record<'_>>> {
        self.inlined.get_bytes(key)
    }
}
