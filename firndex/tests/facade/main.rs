//! The facade and the byte store, tried as a user would and as an enemy would.

mod backups;
mod byte_map;
mod creation;
mod damage;
mod durability;
mod engines;
mod equality;
mod exactly_once;
mod flips;
mod forced_flushes;
mod forks;
mod full;
mod full_log;
mod hostile;
mod items;
mod limits;
mod lost_pages;
mod open_errors;
mod open_locks;
mod pair_sizes;
mod places;
mod posix;
mod power;
mod processes;
mod read_only;
mod reclaim;
mod salvage;
mod scans;
mod shrink;
mod store_model;
mod superblocks;
mod sync_marks;
mod threads;

/// Entered by the processes that tests start from their own executable; see [`processes`].
#[test]
fn role() {
    processes::play_role();
}
