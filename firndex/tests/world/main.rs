//! What surrounds a pool: threads that the system refuses, limits of the process, forked children.

mod starts;
mod threads;
