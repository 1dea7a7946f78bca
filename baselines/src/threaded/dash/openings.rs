//! What is done once the numbers of openings are used up.

use super::{Directory, Entry};
use crate::threaded::Ground;
use pmem::Medium;

/// Takes the openings out of all entries, durably: one that says the number of an opening to come is of one long ago.
pub(super) fn forget_all<M: Medium>(ground: &Ground<M>, directory: Directory) {
    let medium = ground.medium();
    for at in (0..directory.entries()).map(|index| directory.entry(index)) {
        medium.store(at, Entry::new(Entry(medium.load(at)).segment(), 0).0);
    }
    ground.flush(directory.entry(0), directory.bytes());
    medium.fence();
}
