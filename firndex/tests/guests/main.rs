//! Many processes on one pool: an owner and its guests, in processes of their own.

mod caches;
mod durable;
mod ends;
mod hostile;
mod looks;
mod operations;
mod owner;
mod refusals;
mod torture;

/// Entered by the processes that tests start from their own executable; see [`owner`].
#[test]
fn role() {
    owner::play();
}
