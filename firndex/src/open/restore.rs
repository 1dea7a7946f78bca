//! Restoring a pool from its checkpoint and log.

use super::find::{Locked, Lost};
use crate::Options;
use crate::companions::Companions;
use pmem::durability::disk::Disk;
use pmem::durability::{RestoreError, SafeCopy};
use pmem::file::{Ownership, PoolFile};
use pmem::medium::{Medium, Memory};
use pmem::{OpenError, Pool};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Restored<T> = std::result::Result<T, OpenError>;

/// Makes the pool's file anew. `None`: somebody else has done so since it was found to be missing.
pub(super) fn restore(
    options: &Options,
    companions: &Companions,
    lost: Lost,
) -> Restored<Option<Locked>> {
    let restored = from_companions(options, companions, &lost);
    restored.map_err(|error| lost.refusal.unwrap_or(error))
}

fn from_companions(
    options: &Options,
    companions: &Companions,
    lost: &Lost,
) -> Restored<Option<Locked>> {
    let (former, known) = (lost.former.as_ref(), lost.known.as_ref());
    let directory = companions.find()?;
    let is_own = match (&directory, known) {
        (Some(found), Some(known)) => found.uuid() == known.uuid,
        _ => directory.is_some(),
    };
    let refused_with = |found: String, has_checkpoint: bool| OpenError::NotRestored {
        path: companions.pool().path().into(),
        state: match (former, known) {
            (None, _) => "is missing",
            (Some(_), None) => "is damaged",
            (Some(_), Some(_)) => "was not closed",
        },
        found,
        advice: how_to_salvage(companions, former.is_some(), is_own && has_checkpoint),
    };
    let Some(mut directory) = directory else {
        return Err(refused_with(format!("there is no {}", companions.name()), false));
    };
    let path = &PathBuf::from(directory.path());
    if let Some(known) = known
        && directory.uuid() != known.uuid
    {
        let (found, expected) = (directory.uuid(), known.uuid);
        let foreign = RestoreError::Foreign { path: path.clone(), found, expected };
        return Err(refused_with(foreign.to_string(), false));
    }
    // Whoever has the pool open whose file is gone still writes here.
    directory.lock()?;
    if former.is_none() && companions.pool().exists() {
        return Ok(None);
    }
    let ownership = former.map_or(Ok(directory.ownership()), PoolFile::ownership)?;
    ownership.demand(companions.pool().path())?;
    let directory = Arc::new(directory);
    let damaged = |error: RestoreError| {
        let has_checkpoint = matches!(error, RestoreError::Damaged { .. });
        refused_with(error.to_string(), has_checkpoint)
    };
    let safe = SafeCopy::find(Arc::clone(&directory) as Arc<dyn Disk>).map_err(damaged)?;
    let none = || refused_with(format!("there is no checkpoint in {}", path.display()), false);
    let safe = safe.ok_or_else(none)?;
    let refused = |found| refused_with(found, true);
    if let Some(known) = known
        && known.names_checkpoint(safe.generation()) == Some(false)
    {
        let path = path.clone();
        return Err(refused(RestoreError::Outdated { path }.to_string()));
    }
    let file = into_file(options, companions, &safe, former, ownership, &refused)?;
    let superblock = file.superblock()?;
    Ok(Some(Locked { file, superblock }))
}

fn into_file(
    options: &Options,
    companions: &Companions,
    safe: &SafeCopy,
    former: Option<&PoolFile>,
    ownership: Ownership,
    refused: &dyn Fn(String) -> OpenError,
) -> Restored<PoolFile> {
    let mut file = match former {
        Some(former) => former.replacement()?,
        None => PoolFile::create_at(companions.pool())?,
    };
    // Whatever the limit is by now: it is for what comes, and must not take away what is there.
    let medium: Memory = file.mapped(0, u64::MAX)?;
    let progress = |done: u64, of: u64| {
        if let Some(progress) = &options.restore_progress {
            progress.0(done, of);
        }
    };
    safe.restore(&medium, &progress).map_err(|error| match error {
        RestoreError::Space(error) => OpenError::Space(error.of_a_new_pool()),
        error => refused(error.to_string()),
    })?;
    Pool::adopt(&medium, file.place(), safe.generation())?;
    // The kernel may already have written back the checkpoint's superblock, which may say "clean" and "not logged".
    // If the rest were not on the device when the file gets its name, a power loss would leave an empty pool that
    // looks valid.
    let synced = medium.sync(0..medium.size());
    synced.map_err(|error| refused(format!("the restored pool cannot be synced: {error}")))?;
    drop(medium);
    file.set_ownership(ownership)?;
    match former {
        Some(_) => file.publish_over()?,
        None => file.publish()?,
    }
    let superblock = file.superblock()?;
    file.give_vacant_back(&superblock);
    Ok(file)
}

/// What of the pool that cannot be restored may still read well: only files that are there, and the checkpoint only
/// if it is the pool's own.
fn how_to_salvage(companions: &Companions, has_pool: bool, has_checkpoint: bool) -> String {
    let pool = companions.pool().path().display();
    let safe = companions.path().filter(|_| has_checkpoint);
    match (has_pool, safe.map(Path::display)) {
        (true, Some(safe)) => format!(
            ", or try `Salvage::open({pool})` and `Salvage::open({safe})`, and keep the larger"
        ),
        (true, None) => format!(", or try `Salvage::open({pool})`"),
        (false, Some(safe)) => format!(", or try `Salvage::open({safe})`"),
        (false, None) => String::new(),
    }
}
