//! Items whose space is taken before they are written. In between, its lines come into the caches, several at once.

use super::Heap;
use super::checksum::checksum;
use super::item::{LINES_FETCHED, item_bytes};
use crate::medium::Medium;
use crate::offset::{LINE, Offset};

/// Space for an item, given back if the item is never written.
pub struct Draft<'a, M: Medium> {
    heap: &'a Heap<M>,
    at: Option<Offset>,
    key: &'a [u8],
    value: &'a [u8],
}

impl<M: Medium> Heap<M> {
    /// Takes space for an item that may or may not replace another. `None` if the item is not small, or if there is no
    /// space at hand. `key` and `value` must be within their limits. The caller is pinned until the item is published.
    #[inline]
    pub fn draft<'a>(&'a self, key: &'a [u8], value: &'a [u8]) -> Option<Draft<'a, M>> {
        let bytes = item_bytes(key, value);
        let at = self.allocate_at_hand(self.class_of(bytes)?)?;
        for line in 0..(bytes / LINE + 1).min(LINES_FETCHED as u64) {
            self.medium().prefetch_write(at.add(line * LINE));
        }
        Some(Draft { heap: self, at: Some(at), key, value })
    }
}

impl<M: Medium> Draft<'_, M> {
    /// Writes the item, like [`Heap::write_item`].
    #[inline]
    pub fn write(mut self) -> Offset {
        let at = self.at.take().unwrap_or_default();
        self.heap.store_item(at, self.key, self.value, checksum(self.key, self.value));
        at
    }
}

impl<M: Medium> Drop for Draft<'_, M> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.heap.reclaim(at);
        }
    }
}

impl<M: Medium> std::fmt::Debug for Draft<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("at", &self.at).finish_non_exhaustive()
    }
}
