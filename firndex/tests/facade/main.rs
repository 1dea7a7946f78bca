//! The facade and the byte store, tried as a user would and as an enemy would.

mod ahead;
mod backups;
mod batch_errors;
mod bounds;
mod byte_map;
mod collection;
mod collisions;
mod creation;
mod damage;
mod diagnostics;
mod durability;
mod emptied;
mod engines;
mod equality;
mod exactly_once;
mod flips;
mod floods;
mod forced_flushes;
mod forks;
mod full;
mod full_log;
mod given_back;
mod hostile;
mod items;
mod limits;
mod lost_pages;
mod many_pools;
mod messages;
mod open_errors;
mod open_locks;
mod opened_in_growth;
mod pair_sizes;
mod places;
mod posix;
mod power;
mod processes;
mod read_only;
mod reclaim;
mod resets;
mod rewrites;
mod rising_limit;
mod salvage;
mod scans;
mod shapes;
mod shrink;
mod small_store;
mod space;
mod store_model;
mod structs;
mod sums;
mod superblocks;
mod sync_marks;
mod threads;
mod tickets;
mod vanished;
mod wide_slabs;
mod world;

/// Entered by the processes that tests start from their own executable; see [`processes`].
#[test]
fn role() {
    processes::play_role();
}
