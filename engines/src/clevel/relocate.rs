//! Moving items together.

use super::layout::{ITEMS_END, Word};
use super::{Core, Retired};
use pmem::heap::Mover;
use pmem::{Medium, Offset};

impl<M: Medium> Mover for Core<M> {
    fn relocate(&self, at: Offset) -> bool {
        let guard = self.epochs.pin();
        // Of damage those tell who look for it.
        let Ok(item) = self.heap.item(at, &guard) else { return true };
        let hash = self.hash(item.key);
        let bytes = (item.key.len() + item.value.len()) as u64;
        while let Ok(Some(hit)) = self.search(hash, item.key, &guard) {
            if hit.word.at() != at {
                return true;
            }
            let Some(copy) = self.heap.write_copy(&item) else { return false };
            if copy.0 >= ITEMS_END {
                self.heap.reclaim(copy);
                return false;
            }
            // Before any slot or descriptor names it.
            self.medium().fence();
            if self.update_or_delete(hash, hit, Some(Word::item(hash, copy)), &guard) {
                self.retire(&guard, Retired::Item(at, bytes));
                return true;
            }
            // A helper may still look at it.
            self.retire(&guard, Retired::Item(copy, bytes));
        }
        true
    }

    fn collect(&self) {
        self.reclaim_retired();
    }
}
