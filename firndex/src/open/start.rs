//! The last step of opening: a new pool gets its name, a log begins.

use super::memory::Beginning;
use super::ready::{InFile, Ready};
use crate::body::Body;
use crate::companions::Companions;
use crate::handle::Handle;
use crate::pool::{Counted, Pool as Started};
use crate::{Error, Options, Result};
use pmem::durability::{Config, Durable};
use pmem::file::{PoolFile, SafeDirectory};
use pmem::medium::Memory;
use pmem::sync::Renewal;
use pmem::{OpenError, Pool};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often a directory that is locked is tried again, and after how long.
const LOCK_TRIES: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// The pool, in use from now on. `renewals` are those of its
/// [engine](crate::any_engine::AnyEngine::take_renewals), of which `body` is the rest.
///
/// If it fails, `ready` keeps the file, whose lock must outlast the engine.
pub(super) fn start(
    options: &Options,
    ready: &mut Ready,
    body: Arc<dyn Body>,
    renewals: [Option<Renewal>; 2],
) -> Result<Started> {
    let pool = &ready.pool;
    let counted = Counted::new(body, pool, options.may_lack_pairs)?;
    let durable = match &mut ready.in_file {
        Some(in_file) => begin(options, pool, in_file, &|| counted.pairs())?,
        None => None,
    };
    let file = ready.in_file.take().map(|in_file| in_file.file);
    let (pool, took) = (Arc::clone(pool), ready.began.elapsed());
    let handle = Handle::new(pool, durable, file, ready.engine, renewals, took);
    Ok(Started::new(counted, handle))
}

/// Goes on with the log of a pool that was closed. That has to be before the engine is opened, so that the log has what
/// the engine changes meanwhile.
pub(super) fn resume(options: &Options, ready: &mut Ready) -> Result<()> {
    let pool = &ready.pool;
    let Some(InFile { file, companions, beginning, log_end, resumed }) = &mut ready.in_file else {
        return Ok(());
    };
    let (Some(Beginning { log, logged }), Some(end)) = (&*beginning, log_end.take()) else {
        return Ok(());
    };
    if file.is_unnamed() || !companions.is_current(&pool.superblock())? {
        return Ok(());
    }
    let uuid = pool.superblock().uuid;
    let config = config(options, claim(companions, file, uuid)?, uuid, true);
    let image = Arc::clone(pool);
    let durable = Durable::resume(config, Arc::clone(log), image, end).map_err(OpenError::Log)?;
    if let Some(durable) = durable {
        let marked = pool.set_logged(Some(*logged));
        marked.map_err(|source| Error::Io { action: "marking the pool as logged", source })?;
        *beginning = None;
        *resumed = Some(durable);
    }
    Ok(())
}

fn config(options: &Options, directory: SafeDirectory, uuid: u128, is_safe: bool) -> Config {
    Config {
        disk: Arc::new(directory),
        uuid,
        interval: options.durable_every,
        checkpoint_bytes_min: options.checkpoint_bytes_min,
        is_in_doubt: !is_safe,
        clock: SystemTime::now,
    }
}

/// Gives a new pool its name, and begins the log of an opened pool. Without a checkpoint to go back to, nobody
/// writes until there is one, and the pool is clean meanwhile: power loss during this leaves an empty pool, or the
/// old one, but never one that is refused. The name comes first: of two creators one gets it, and the other must
/// not touch its companions.
fn begin(
    options: &Options,
    pool: &Arc<Pool<Memory>>,
    InFile { file, companions, beginning, resumed, .. }: &mut InFile,
    pairs: &dyn Fn() -> u64,
) -> Result<Option<Durable>> {
    if resumed.is_some() {
        return Ok(resumed.take());
    }
    let io = |action| move |source| Error::Io { action, source };
    let uuid = pool.superblock().uuid;
    let Some(Beginning { log, logged }) = beginning.take() else {
        file.publish()?;
        if !pool.is_read_only() {
            let marked = match options.durability {
                Some(asked) => pool.set_unlogged(asked),
                None => pool.set_logged(None),
            };
            marked.map_err(io("marking the pool as not logged"))?;
            // The first change outdates the earlier log. Each opening does this: the last one may have been killed
            // before it got here.
            companions.remove(uuid)?;
        }
        return Ok(None);
    };
    let is_new = file.is_unnamed();
    let image = Arc::clone(pool);
    let mark = || pool.set_logged(Some(logged)).map_err(io("marking the pool as logged"));
    let mut former = None;
    if !is_new {
        let directory = claim(companions, file, uuid)?;
        if companions.is_current(&pool.superblock())? {
            mark()?;
            let started = Durable::start(config(options, directory, uuid, true), log, image, false);
            return Ok(Some(started.map_err(OpenError::Log)?));
        }
        former = Some(directory);
    }
    let begin = || -> Result<Durable> {
        file.publish()?;
        let directory = former.map_or_else(|| claim(companions, file, uuid), Ok)?;
        let config = config(options, directory, uuid, false);
        let durable = Durable::start(config, log, image, true).map_err(OpenError::Log)?;
        mark()?;
        Ok(durable)
    };
    let begun = pool.clean_for(|| Some(pairs()), begin).map_err(io("syncing the pool"));
    let begun = begun.and_then(|begun| begun);
    if begun.is_err() && is_new {
        // It is locked, so nobody has seen it. A pool that could not be completed is not left behind.
        file.withdraw();
        let _ = companions.remove(uuid);
    }
    begun.map(Some)
}

/// The pool's directory, for this process alone, with the pool's owner, group and permissions. One that is left from a
/// pool that this one has replaced makes way.
fn claim(
    companions: &Companions,
    file: &PoolFile,
    uuid: u128,
) -> std::result::Result<SafeDirectory, OpenError> {
    let ownership = file.ownership()?;
    ownership.demand(file.path())?;
    let make = || SafeDirectory::make(companions.at()?, uuid, ownership);
    let mut directory = match companions.find()? {
        Some(found) if found.uuid() == uuid => found,
        Some(mut found) if found.was_replaced_by(uuid) => {
            found.lock()?;
            let path = PathBuf::from(found.path());
            let cleared = found.clear();
            cleared.map_err(|source| OpenError::Io { action: "removing", path, source })?;
            make()?
        }
        Some(found) => {
            let (path, found) = (found.path().into(), found.uuid());
            return Err(OpenError::ForeignLog { path, found });
        }
        None => make()?,
    };
    lock(&mut directory)?;
    directory.belong_to(file)?;
    Ok(directory)
}

/// Locks the directory of a pool whose file this process has locked. Who wanted to restore the pool and finds that this
/// process has done so holds it for a moment.
fn lock(directory: &mut SafeDirectory) -> std::result::Result<(), OpenError> {
    for _ in 0..LOCK_TRIES {
        match directory.lock() {
            Err(OpenError::BusyLog { .. }) => std::thread::sleep(LOCK_PAUSE),
            locked => return locked,
        }
    }
    directory.lock()
}
