//! What surrounds a pool: threads that the system refuses, limits of the process, core files, forked children.

mod addresses;
mod boots;
mod copied;
mod cores;
mod forks;
mod roles;
mod starts;
mod threads;
mod written_over;

/// Entered by the processes that tests start from their own executable; see [`roles`].
#[test]
fn role() {
    roles::play();
}
