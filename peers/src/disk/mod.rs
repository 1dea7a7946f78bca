//! Embedded stores on a disk, for suite `durable`: each in its durable mode, and in the fastest one that a power loss
//! leaves consistent. An adapter per file.

mod fjall;
mod lmdb;
mod redb;
#[cfg(has_rocksdb)]
mod rocksdb;

use anyhow::Result;
use bench::{Contender, DurableMap, OnDisk, Setting};
use std::path::Path;

/// What a mode is called behind its store's name, and what power loss leaves of puts in it.
struct Mode {
    name: &'static str,
    promise: &'static str,
}

/// The promise of a durable mode; firndex's mode `commit` gives the same.
const EVERY_PUT: &str = "every put";

/// A store in one mode. `groups`: whether its threads wait for the disk together.
fn contender<M: DurableMap + 'static>(
    name: &str,
    version: &str,
    mode: &Mode,
    groups: bool,
    open: impl Fn(&Path) -> Result<M> + Sync + 'static,
) -> Box<dyn Contender> {
    Box::new(OnDisk {
        name: if mode.name.is_empty() { name.to_owned() } else { format!("{name}-{}", mode.name) },
        version: version.to_owned(),
        promise: mode.promise,
        groups,
        open: move |_: &Setting, directory: &Path| {
            Ok(Box::new(open(directory)?) as Box<dyn DurableMap>)
        },
    })
}

/// All stores in all modes.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let mut contenders = redb::contenders();
    contenders.extend(lmdb::contenders());
    contenders.extend(fjall::contenders());
    #[cfg(has_rocksdb)]
    contenders.extend(rocksdb::contenders());
    contenders
}
