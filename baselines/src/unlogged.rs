//! Changes without a log, as Zuo et al. give them to the tables with which they compare (Level Hashing, sections 3.3
//! and 5.1).
//!
//! A slot's key is its token: a slot is empty if the key is 0, and a pair lies in one line.
//!
//! * A pair that comes into an empty slot is one flush and one fence: its value is stored before its key, and stores to
//!   one line become durable in their order. So is one that goes, and a value that is replaced.
//! * A walk of displacements moves its last pair first, so that none is ever missing. The slot that a pair has left is
//!   emptied before the next comes there, which is one more flush and fence.
//!
//! A crash can leave a pair that moves in both of its slots, as in the paper, which does not say how it is found.
//! Nothing here finds it. A stash, chained and array hash change several words at a time, of which a crash can leave
//! some. So these tables are for comparisons of time, and no crash laboratory runs them.

use crate::region::{Record, Region};
use crate::table::EMPTY;
use pmem::Medium;

impl<M: Medium> Region<M> {
    /// Writes the cells that were set, in place.
    pub(crate) fn write_in_order(&mut self) {
        let medium = self.medium();
        for cell in self.pending().iter().rev() {
            let before = medium.load(cell.at);
            if let Some(key) = cell.key()
                && ![EMPTY, key].contains(&before)
                && key != EMPTY
            {
                medium.store(cell.at, EMPTY);
                medium.flush(cell.at);
                medium.fence();
            }
            cell.store_in_order(&**medium);
            medium.flush(cell.at);
            medium.fence();
        }
        self.abandon();
    }
}

impl Record {
    /// The key, if it is a pair.
    fn key(&self) -> Option<u64> {
        self.is_pair.then_some(self.words[0])
    }

    /// The key comes last, or first where it empties the slot.
    fn store_in_order<M: Medium>(&self, medium: &M) {
        let store_value = || {
            if self.is_pair {
                medium.store(self.at.word(1), self.words[1]);
            }
        };
        if self.key() == Some(EMPTY) {
            medium.store_release(self.at, EMPTY);
            store_value();
        } else {
            store_value();
            medium.store_release(self.at, self.words[0]);
        }
    }
}
