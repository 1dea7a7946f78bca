//! Embedded stores, an adapter per file: contenders of suite `durable`, in their durable modes and in the fastest ones
//! that a power loss leaves consistent, and of suite `values`, in the fastest modes that keep something named after
//! SIGKILL. Suite `open` has all of these that keep everything when they are closed, or killed, and Redis.
//!
//! Settings are the stores' own defaults, but for one: whoever has a cache of blocks gets 1 GiB of it. RocksDB also
//! gets the filters that fjall has by default.

mod candy;
mod feox;
mod fjall;
mod lmdb;
mod redb;
mod redis;
#[cfg(has_rocksdb)]
mod rocksdb;
mod sled;

use anyhow::Result;
use bench::{AfterKill, ByteStore, Contender, Embedded, Reopens};
use std::path::Path;

/// Room for blocks in memory; the default of redb and sled.
const CACHE_BYTES: usize = 1 << 30;

/// What a mode is called behind its store's name, and what is left of puts in it.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    after_power_loss: Option<&'static str>,
    after_kill: Option<AfterKill>,
    reopens: Reopens,
}

/// The promise of a durable mode; firndex's mode `commit` gives the same.
const EVERY_PUT: &str = "every put";

impl Mode {
    /// One that waits for the disk.
    const DURABLE: Mode = Mode {
        name: "",
        after_power_loss: Some(EVERY_PUT),
        after_kill: None,
        reopens: Reopens::Killed,
    };

    /// One that is measured in suite `values`, too, since SIGKILL leaves everything.
    const fn keeping(mut self, text: &'static str) -> Mode {
        self.after_kill = Some(AfterKill { text, is_all: true });
        self.reopens = Reopens::Killed;
        self
    }

    /// ... or since it leaves less, and says what.
    const fn keeping_some(mut self, text: &'static str) -> Mode {
        self.after_kill = Some(AfterKill { text, is_all: false });
        self
    }
}

/// A mode that does not wait for the disk.
const fn fast(name: &'static str, after_power_loss: Option<&'static str>) -> Mode {
    Mode { name, after_power_loss, after_kill: None, reopens: Reopens::Never }
}

/// A store in one mode. `groups`: whether its threads wait for the disk together.
fn contender<S: ByteStore + 'static>(
    name: &str,
    version: &str,
    mode: Mode,
    groups: bool,
    open: impl Fn(&Path) -> Result<S> + Sync + 'static,
) -> Box<dyn Contender> {
    Box::new(Embedded {
        name: if mode.name.is_empty() { name.to_owned() } else { format!("{name}-{}", mode.name) },
        version: version.to_owned(),
        after_power_loss: mode.after_power_loss,
        after_kill: mode.after_kill,
        reopens: mode.reopens,
        groups,
        open: move |directory: &Path| Ok(Box::new(open(directory)?) as Box<dyn ByteStore>),
    })
}

/// All stores in all modes.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders = redb::contenders();
    contenders.extend(lmdb::contenders());
    contenders.extend(fjall::contenders());
    contenders.extend(sled::contenders());
    contenders.extend(candy::contenders());
    contenders.extend(feox::contenders());
    contenders.extend(redis::contenders());
    #[cfg(has_rocksdb)]
    contenders.extend(rocksdb::contenders());
    contenders
}
