//! From a path to a guest.

use super::link::{Link, Whose, refused};
use super::own::Own;
use crate::any_engine::AnyEngine;
use crate::contents::{check_superblock, mismatch};
use crate::handle::Handle;
use crate::held::Held;
use crate::pool::{Counted, Pool};
use crate::shapes::Shapes;
use crate::{Durability, Error, Options, Result};
use pmem::OpenError;
use pmem::file::{Located, PoolFile};
use pmem::medium::MediumKind;
use pmem::meeting::{Visit, VisitError};
use pmem::superblock::Superblock;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What can be used by guests, and serve them.
pub(crate) trait Guest: Held {
    /// The operations of a guest, made by the owner.
    fn guest(link: Arc<Link>) -> AnyEngine<Self::Operations>;
}

/// The pool at `path` in the process that owns it. `None` if that lets nobody in, or has gone. `own` opens it as its
/// owner.
pub(crate) fn join<T: Guest>(
    options: &Options,
    path: &Path,
    shapes: Shapes,
    own: fn(&Options, &Path) -> Result<Box<dyn Own>>,
) -> Result<Option<T>> {
    let began = Instant::now();
    let located = Located::followed(path)?;
    let heir = as_heir(options);
    let beside = || PoolFile::beside(&located, |bytes| heir.size_max(bytes));
    let (pool, ownership, inode) = beside()?;
    let uuid = pool.superblock().uuid;
    let visit = match Visit::begin(&located, inode, uuid, ownership, options.patience) {
        Ok(visit) => visit,
        Err(VisitError::Nobody) => return Ok(None),
        Err(VisitError::Silent) => {
            let waited = began.elapsed();
            return Err(Error::Silent { process: 0, waited });
        }
        Err(error) => return Err(refused(error)),
    };
    // Once more: the owner may have been about to complete a new pool, or to open this one otherwise.
    let (pool, _, found) = beside()?;
    let superblock = pool.superblock();
    if (superblock.uuid, found) != (uuid, inode) {
        // Another pool has taken its place meanwhile.
        return Ok(None);
    }
    let engine = check_superblock(&superblock, options.engine, T::contents())?;
    demand_durability(options, &superblock)?;
    if shapes != Shapes::default() {
        Shapes::from_note(pool.note(), &superblock).allow(shapes)?;
    }
    let whose = Whose {
        path: std::path::absolute(path).map_err(|source| OpenError::Io {
            action: "finding",
            path: path.into(),
            source,
        })?,
        located,
        inode,
        uuid: superblock.uuid,
        ownership,
        options: heir,
        own,
    };
    let pool = Arc::new(pool);
    let link = Arc::new(Link::new(whose, visit));
    let operations = T::guest(Arc::clone(&link));
    let counted = Counted::of_guest(T::body(&operations), &pool);
    let handle = Handle::of_guest(pool, engine, link, options.read_only, began.elapsed())?;
    Ok(Some(T::new(operations, Pool::new(counted, handle))))
}

/// Refuses a pool with another durability than was asked for: the owner's counts, and is not a guest's to change.
fn demand_durability(options: &Options, superblock: &Superblock) -> Result<()> {
    let found = superblock.logged().map_or(Durability::Process, |logged| logged.durability);
    match options.durability {
        Some(expected) if expected != found && superblock.medium != MediumKind::Dax => {
            let (found, expected) = (found.name(), expected.name());
            let advice = "leave it out, or have the process that owns the pool open it so";
            Err(mismatch("durability", found, expected, advice))
        }
        _ => Ok(()),
    }
}

/// The options of who may own the pool later. What it is now it stays: its durability, too, and a cache's capacity.
/// Whoever is a guest of one process today may be the owner for others tomorrow.
fn as_heir(options: &Options) -> Options {
    let never_own = options.never_own || options.read_only;
    let options = options.clone().guests(true).never_own(never_own);
    // Of a cache this follows from its capacity.
    let max_bytes = options.max_bytes.filter(|_| options.cache_bytes.is_none());
    Options { durability: None, cache_bytes: None, max_bytes, ..options }
}
