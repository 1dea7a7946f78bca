//! Caches, an adapter per file: contenders of suite `cache`. Those of this process, in memory or with a file, and
//! servers behind a socket.
//!
//! Keys and values are byte strings as a user of the crate would hold them, and the bound is on their bytes; a server
//! counts all that it takes, and gets as much as firndex's cache. All else is left at its default.

mod foyer;
mod hybrid;
mod memcached;
mod moka;
mod quick;
mod redis;

use bench::{Cache, Caching, Contender, Room};
use std::time::{Duration, Instant};

/// A key as a cache holds it.
type Key = Box<[u8]>;

/// A value of a cache that knows no ends: its bytes, and when it ends.
#[derive(Clone)]
struct Ending<B> {
    bytes: B,
    ends: Option<Instant>,
}

impl<B: for<'a> From<&'a [u8]>> Ending<B> {
    fn new(value: &[u8], lives: Option<Duration>) -> Self {
        Ending { bytes: value.into(), ends: lives.map(|lives| Instant::now() + lives) }
    }

    fn is_there(&self) -> bool {
        self.ends.is_none_or(|ends| ends > Instant::now())
    }
}

/// A cache of one type, in memory alone.
fn contender<C: Cache + 'static>(
    name: &str,
    version: &str,
    open: impl Fn(Room) -> C + Sync + 'static,
) -> Box<dyn Contender> {
    Box::new(Caching::new(name, version, move |room: Room| Ok(open(room))))
}

/// All caches.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders =
        vec![moka::contender(), quick::contender(), foyer::contender(), hybrid::contender()];
    contenders.extend(memcached::contenders());
    contenders.extend(redis::contenders());
    contenders
}
