//! From a path to a guest.

use super::link::{Link, Own, Whose, refused};
use crate::contents::check_superblock;
use crate::handle::Handle;
use crate::held::Held;
use crate::open::{self, Mode};
use crate::pool::{Counted, Pool};
use crate::shapes::Shapes;
use crate::{Error, Options, Result};
use pmem::OpenError;
use pmem::file::{Located, PoolFile};
use pmem::meeting::{Visit, VisitError};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The pool at `path` in the process that owns it. `None` if that lets nobody in, or has gone.
pub(crate) fn join<T: Held>(options: &Options, path: &Path, shapes: Shapes) -> Result<Option<T>> {
    let began = Instant::now();
    let located = Located::followed(path)?;
    let (pool, ownership) = PoolFile::beside(&located, |bytes| options.size_max(bytes))?;
    let superblock = pool.superblock();
    let visit = match Visit::begin(&located, superblock.uuid, ownership, options.patience) {
        Ok(visit) => visit,
        Err(VisitError::Nobody) => return Ok(None),
        Err(VisitError::Silent) => {
            let waited = began.elapsed();
            return Err(Error::Silent { process: 0, waited });
        }
        Err(error) => return Err(refused(error)),
    };
    let engine = check_superblock(&superblock, options.engine, T::contents())?;
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
        uuid: superblock.uuid,
        ownership,
        // Whoever is a guest of this process today may be its owner tomorrow, and the other way round.
        options: options.clone().guests(true).never_own(options.never_own || options.read_only),
        own: own::<T>,
    };
    let link = Arc::new(Link::new(whose, visit));
    let pool = Arc::new(pool);
    let operations = T::guest(Arc::clone(&link));
    let counted = Counted::of_guest(T::body(&operations), &pool);
    let handle = Handle::of_guest(pool, engine, link, options.read_only, began.elapsed())?;
    Ok(Some(T::new(operations, Pool::new(counted, handle))))
}

/// Opens the pool as its owner.
fn own<T: Held>(options: &Options, path: &Path) -> Result<Box<dyn Own>> {
    Ok(Box::new(open::own::<T>(options, path, Mode::Open)?))
}
