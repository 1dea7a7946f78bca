//! Iterators over tables and stores.

use crate::Result;
use crate::handle::Handle;
use index::{Fixed, Index, RecordScan, Records, Scan};
use std::iter::FusedIterator;

/// An iterator that has returned so many pairs is taken for one that is to return all.
const MANY_PAIRS: usize = 4096;

/// The pairs of a table, in no order: [`Table::iter`](crate::Table::iter).
pub struct Iter<'a, K: Fixed, V: Fixed> {
    index: &'a dyn Index<K, V>,
    handle: &'a Handle,
    /// Begun when the first pair is requested.
    scan: Option<Box<dyn Scan<K, V> + 'a>>,
    /// Pairs of the scan that were not requested yet.
    taken: Vec<(K, V)>,
    /// How many were taken from the scan.
    pairs_taken: usize,
    is_over: bool,
}

impl<'a, K: Fixed, V: Fixed> Iter<'a, K, V> {
    pub(crate) fn new(index: &'a dyn Index<K, V>, handle: &'a Handle) -> Self {
        Iter { index, handle, scan: None, taken: Vec::new(), pairs_taken: 0, is_over: false }
    }
}

impl<K: Fixed, V: Fixed> Iterator for Iter<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.taken.is_empty() && !self.is_over {
            let taken = self.handle.look(|| {
                let scan = self.scan.get_or_insert_with(|| self.index.scan());
                Ok(scan.take_some(&mut self.taken)?)
            });
            self.is_over = !matches!(taken, Ok(true));
            let before = self.pairs_taken;
            self.pairs_taken += self.taken.len();
            if before < MANY_PAIRS && self.pairs_taken >= MANY_PAIRS {
                self.handle.read_ahead();
            }
            if let Err(error) = taken {
                self.taken.clear();
                return Some(Err(error));
            }
        }
        self.taken.pop().map(Ok)
    }
}

impl<K: Fixed, V: Fixed> FusedIterator for Iter<'_, K, V> {}

impl<K: Fixed, V: Fixed> std::fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// Copies of the keys and values of a store, in no order: [`Store::iter`](crate::Store::iter).
pub struct StoreIter<'a> {
    records: &'a dyn Records,
    handle: &'a Handle,
    /// Begun when the first pair is requested.
    scan: Option<Box<dyn RecordScan + 'a>>,
    is_over: bool,
}

impl<'a> StoreIter<'a> {
    pub(crate) fn new(records: &'a dyn Records, handle: &'a Handle) -> Self {
        StoreIter { records, handle, scan: None, is_over: false }
    }

    /// The result of `take` for the next key and value, in place.
    pub(crate) fn next_by<R>(&mut self, take: impl FnOnce(&[u8], &[u8]) -> R) -> Option<Result<R>> {
        if self.is_over {
            return None;
        }
        let next = self.take_next(take).transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        if self.is_over {
            self.scan = None;
        }
        next
    }

    fn take_next<R>(&mut self, take: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
        let Self { records, handle, scan, .. } = self;
        handle.look(|| {
            let scan = scan.get_or_insert_with(|| records.scan());
            Ok(scan.next()?.map(|(key, value)| take(key, value)))
        })
    }
}

impl Iterator for StoreIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_by(|key, value| (key.to_vec(), value.to_vec()))
    }
}

impl FusedIterator for StoreIter<'_> {}

impl std::fmt::Debug for StoreIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreIter").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
