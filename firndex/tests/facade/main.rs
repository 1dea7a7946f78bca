//! The facade and the byte store, tried as a user would and as an enemy would.

mod api;
mod engines;
mod fixtures;
mod read;
mod refuse;
mod space;
mod survive;

use fixtures::{byte_map, effort, places, posix, processes, superblocks};

/// Entered by the processes that tests start from their own executable; see [`processes`].
#[test]
fn role() {
    processes::play_role();
}
