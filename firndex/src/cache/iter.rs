//! Iterating over a cache.

use super::{Cache, Entries};
use crate::Result;

/// An iterator over the keys and values of a [`Cache`]: see [`Cache::iter`].
pub struct CacheIter<'a> {
    cache: &'a Cache,
    /// Begun with the first entry that is asked for.
    entries: Option<Box<dyn Entries + 'a>>,
    taken: std::vec::IntoIter<(Vec<u8>, Vec<u8>)>,
    is_over: bool,
}

impl<'a> CacheIter<'a> {
    pub(super) fn new(cache: &'a Cache) -> Self {
        CacheIter { cache, entries: None, taken: Vec::new().into_iter(), is_over: false }
    }

    /// Takes the next few entries.
    fn take_some(&mut self) -> Result<()> {
        let cache = self.cache;
        let entries = self.entries.get_or_insert_with(|| cache.operations.entries());
        let mut taken = Vec::new();
        self.is_over = !cache.pool.handle.look(|| entries.take_some(&mut taken))?;
        self.taken = taken.into_iter();
        Ok(())
    }
}

/// After an error it is over.
impl Iterator for CacheIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.taken.next() {
                return Some(Ok(entry));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.take_some() {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }
}

impl std::iter::FusedIterator for CacheIter<'_> {}

impl std::fmt::Debug for CacheIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheIter").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Cache {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = CacheIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
