//! A pool that gets its name only when it is complete. Backups, conversions and salvage write to one.

use crate::companions::Companions;
use crate::contents::{Contents, check_superblock};
use crate::held::Held;
use crate::open::create::{create, spec};
use crate::open::{Ready, medium_for};
use crate::{Error, Medium, Options, Result};
use pmem::file::{Access, Located, PoolFile};
use pmem::medium::Memory;
use pmem::superblock::Place;
use pmem::{OpenError, Pool};
use std::path::Path;

/// The result of writing a pool from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Pairs that it holds.
    pub pairs: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Whether it shows the other pool at one moment. If not, it is consistent for each key.
    pub is_of_one_moment: bool,
}

/// What happens to a file that already exists where a pool is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Existing {
    /// It stays, and the error is [`OpenError::Exists`].
    Keep,
    /// A pool is replaced, with its log and checkpoint, when the new one is complete. It must not be open. Any other
    /// file stays, and the error is [`OpenError::NotAPool`].
    Replace,
}

/// A new pool's file, without a name yet. If it is dropped before [`Draft::publish`], nothing is left behind.
pub(crate) struct Draft {
    file: PoolFile,
    /// The pool that it replaces, locked, with its log and checkpoint.
    former: Option<(PoolFile, Companions)>,
}

impl Draft {
    pub(crate) fn begin(options: &Options, path: &Path, existing: Existing) -> Result<Draft> {
        options.check()?;
        let pool = match existing {
            Existing::Keep => Located::new(path)?,
            Existing::Replace => Located::followed(path)?,
        };
        let companions = Companions::of(options, &pool)?;
        let former = match existing {
            Existing::Replace if pool.exists() => {
                if let Err(error @ OpenError::NotAPool { .. }) = PoolFile::inspect_at(&pool) {
                    return Err(error.into());
                }
                Some(PoolFile::claim_at(&pool, Access::Write)?)
            }
            _ => None,
        };
        let file = match &former {
            Some(former) => former.replacement()?,
            None => PoolFile::create_at(&pool)?,
        };
        if former.is_none() {
            // Its next opening may need a log, whatever this one was asked for.
            companions.refuse_others(true)?;
            if let Some(mode) = options.mode {
                let made = file.ownership()?;
                file.set_ownership(made.with_mode(made.mode() & mode))?;
            }
        }
        Ok(Draft { file, former: former.map(|former| (former, companions)) })
    }

    /// A draft that will replace an open pool's file.
    pub(crate) fn over(open: &PoolFile) -> Result<Draft> {
        Ok(Draft { file: open.replacement()?, former: None })
    }

    /// The file's first `bytes` as the medium that is asked for.
    pub(crate) fn medium(&self, options: &Options, bytes: u64) -> Result<Memory> {
        // Nobody else can use it while it is written.
        let limit = options.max_bytes.unwrap_or(u64::MAX);
        Ok(match medium_for(options.medium, &self.file)? {
            Medium::Dax => self.file.dax(bytes, limit)?,
            _ => self.file.mapped(bytes, limit)?,
        })
    }

    /// Where the file is.
    pub(crate) fn place(&self) -> Place {
        self.file.place()
    }

    /// Makes an empty pool in the file. It has no log while it is filled. The durability from the options is recorded
    /// for its next opening.
    fn pool(&self, options: &Options, contents: Contents) -> Result<Pool<Memory>> {
        let engine = contents.engine(options.engine, &options.parameters)?;
        let mut spec = spec(options, engine, contents);
        if let Some(identity) = options.identity {
            spec.uuid = identity.uuid;
        }
        let pool = create(self.medium(options, 0)?, &spec, self.place())?;
        let io = |source| Error::Io { action: "marking the new pool", source };
        if let Some(identity) = options.identity {
            pool.set_incarnation(identity.incarnation).map_err(io)?;
        }
        let logged = options.identity.and_then(|identity| identity.logged);
        if logged.is_some() || options.durability.is_some() {
            let recorded = match options.durability.filter(|_| logged.is_none()) {
                Some(asked) => pool.set_unlogged(asked),
                None => pool.set_logged(logged),
            };
            recorded.map_err(|source| Error::Io { action: "marking the new pool", source })?;
        }
        if options.keep_sums == Some(true) {
            let recorded = pool.set_keeps_sums(true);
            recorded.map_err(|source| Error::Io { action: "marking the new pool", source })?;
        }
        Ok(pool)
    }

    /// An empty table or store in the file; as [`Draft::pool`].
    pub(crate) fn make<T: Held>(&self, options: &Options) -> Result<T> {
        self.open(self.pool(options, T::contents())?, options)
    }

    /// The table or store in a pool that is in the file.
    pub(crate) fn open<T: Held>(&self, pool: Pool<Memory>, options: &Options) -> Result<T> {
        let engine = check_superblock(&pool.superblock(), None, T::contents())?;
        Ready::without_a_file(pool, engine).start(options)
    }

    /// Puts the file, which has `pairs`, in place of `former`, for which it was begun. Both pools must be closed. Log
    /// and checkpoint stay: they hold the same pairs, and the next opening for writing replaces them.
    ///
    /// `former` stays locked until the new file has its name. Otherwise somebody could open it and write to it in vain.
    pub(crate) fn succeed(mut self, former: Option<PoolFile>, pairs: u64) -> Result<Copied> {
        self.file.publish_over()?;
        self.write_sums()?;
        drop(former);
        Ok(Copied { pairs, bytes: self.file.len()?, is_of_one_moment: true })
    }

    /// Writes the sums of the file, which has its name, if the pool in it keeps such.
    fn write_sums(&self) -> Result<()> {
        let superblock = self.file.superblock()?;
        if !superblock.keeps_sums() {
            return Ok(());
        }
        let written = self.file.write_sums(&superblock);
        written.map_err(|source| Error::Io { action: "writing the new pool's sums", source })
    }

    /// Gives the file its name. The pool in it must be closed. Returns its size in bytes.
    pub(crate) fn publish(mut self) -> Result<u64> {
        if let Some((locked, companions)) = &self.former {
            // The new pool comes first, so there is a pool at every moment. A crash right after it leaves companions
            // of the former one, which say who was to replace it.
            let former = match locked.superblock() {
                Ok(former) => Some(former.uuid),
                Err(_) => companions.owner(),
            };
            if let Some(former) = former {
                companions.announce(former, self.file.superblock()?.uuid)?;
            }
            self.file.publish_over()?;
            if let Some(former) = former {
                companions.remove(former)?;
            }
        } else {
            self.file.publish()?;
        }
        self.write_sums()?;
        Ok(self.file.len()?)
    }
}
