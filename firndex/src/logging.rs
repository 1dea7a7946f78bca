//! A pool's log and checkpoint: whether it has them, and how it is restored from them.

use crate::{Error, Options, Result};
use pmem::durability::disk::{Directory, Disk};
use pmem::durability::{self, Config, Durability, Durable, Logged, RestoreError, SafeCopy};
use pmem::file::PoolFile;
use pmem::line_log::LineLog;
use pmem::medium::{Medium, MediumKind, Memory};
use pmem::superblock::Superblock;
use pmem::{OpenError, Pool};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Permissions of the files of a new pool, less the process's mask.
const MODE: u32 = 0o644;

/// How many words a thread may be ahead of the log: 4 MiB.
const RING_WORDS: usize = 1 << 19;
/// The same where the system grants few addresses: 64 KiB.
const RING_WORDS_MIN: usize = 1 << 13;

/// Where a pool's companions are.
pub(crate) struct Companions {
    path: PathBuf,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    /// The pool's permissions. Its companions, and a restored pool, get the same.
    mode: u32,
    pool: String,
    is_elsewhere: bool,
}

/// A log that has not begun yet, of a pool that is being opened.
pub(crate) struct Beginning {
    pub(crate) log: Arc<LineLog>,
    logged: Logged,
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// How many links in a row are followed.
const LINKS_MAX: usize = 40;

/// The pool's real path, if `path` is a symbolic link. Companions lie beside the pool itself. If they lay beside each
/// link, those of a link that was not used for a while would restore an old state.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut resolved = path.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&resolved) {
            Ok(target) => resolved = directory_of(&resolved).join(target),
            Err(_) => return resolved,
        }
    }
    // Opening it reports what is wrong.
    path.to_owned()
}

/// The durability of a pool for which none was asked.
fn default_durability(is_in_memory: bool) -> Durability {
    if is_in_memory { Durability::Process } else { Durability::Periodic }
}

/// The durability that the next opening for writing gives a pool if it asks for none.
pub(crate) fn next_durability(
    superblock: &Superblock,
    is_in_memory: impl FnOnce() -> bool,
) -> Durability {
    if let Some(logged) = superblock.logged() {
        return logged.durability;
    }
    // On `dax` there is never a log.
    if superblock.medium == MediumKind::Dax {
        return Durability::Process;
    }
    superblock.durability().unwrap_or_else(|| default_durability(is_in_memory()))
}

impl Companions {
    pub(crate) fn of(options: &Options, path: &Path) -> Companions {
        let own = directory_of(path);
        let directory = options.log_directory.as_deref().unwrap_or(own);
        let pool = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let safe = directory.join(format!("{pool}.safe"));
        let mode_of = |path: &Path| std::fs::metadata(path).ok().map(|found| found.mode() & 0o777);
        let mode = mode_of(path).or_else(|| mode_of(&safe)).unwrap_or(MODE);
        Companions {
            path: path.to_owned(),
            directory: directory.to_owned(),
            disk: Arc::new(Directory::new(directory, mode)),
            mode,
            pool,
            is_elsewhere: !is_same(directory, own),
        }
    }

    /// Where the checkpoint is, as a user would name it.
    fn safe_path(&self) -> PathBuf {
        let name = format!("{}.safe", self.pool);
        if self.directory == directory_of(&self.path) {
            self.path.with_file_name(name)
        } else {
            self.directory.join(name)
        }
    }

    /// The durability of a pool in `file`. `recorded` is that of its last opening, if it is not new.
    pub(crate) fn durability(
        &self,
        options: &Options,
        file: &PoolFile,
        recorded: Option<Durability>,
    ) -> Durability {
        if let Some(asked) = options.durability.or(recorded) {
            return asked;
        }
        default_durability((file.is_in_memory() && !self.is_elsewhere) || options.force_flushes)
    }

    /// A log for a pool of this durability; `None` if it needs none.
    pub(crate) fn begin(&self, durability: Durability) -> Result<Option<Beginning>> {
        if durability == Durability::Process {
            return Ok(None);
        }
        let mut ring_words = RING_WORDS;
        let log = loop {
            match LineLog::new(ring_words) {
                Ok(log) => break log,
                // A process with limited addresses waits for the disk more often.
                Err(_) if ring_words > RING_WORDS_MIN => ring_words /= 4,
                Err(source) => {
                    return Err(Error::Io { action: "reserving memory for the log", source });
                }
            }
        };
        let logged = Logged { durability, is_elsewhere: self.is_elsewhere };
        Ok(Some(Beginning { log: Arc::new(log), logged }))
    }

    /// The pool's checkpoint, if there is one that can be used.
    pub(crate) fn safe_copy(&self) -> std::result::Result<Option<SafeCopy>, RestoreError> {
        SafeCopy::find(Arc::clone(&self.disk), &self.pool)
    }

    /// Refuses a new pool where another pool's checkpoint lies, or one that this build cannot read. An existing pool
    /// may overwrite its own checkpoint, in whatever state that is.
    pub(crate) fn refuse_others(&self, own: Option<u128>) -> std::result::Result<(), OpenError> {
        match self.safe_copy() {
            Ok(Some(found)) if Some(found.uuid()) != own => {
                let path = self.safe_path();
                Err(OpenError::ForeignLog { path, found: found.uuid() })
            }
            Err(error) if own.is_none() => {
                Err(OpenError::LeftLog { path: self.path.clone(), found: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Removes all of them.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        durability::remove(&*self.disk, &self.pool)
    }

    /// Restores the pool. `former` is the locked pool file, if there is one; `known` is its superblock, if that is
    /// trustworthy.
    pub(crate) fn restore(
        &self,
        options: &Options,
        former: Option<&PoolFile>,
        known: Option<&Superblock>,
    ) -> std::result::Result<(PoolFile, Superblock), OpenError> {
        let refused_with = |found: String, is_own: bool| OpenError::NotRestored {
            path: self.path.clone(),
            state: match (former, known) {
                (None, _) => "is missing",
                (Some(_), None) => "is damaged",
                (Some(_), Some(_)) => "was not closed",
            },
            found,
            advice: self.how_to_salvage(former.is_some(), is_own),
        };
        let refused = |found| refused_with(found, true);
        let safe = self.safe_copy().map_err(|error| refused(error.to_string()))?;
        let safe =
            safe.ok_or_else(|| refused(format!("there is no {}", self.safe_path().display())))?;
        if let Some(known) = known {
            let path = self.safe_path();
            let (found, expected) = (safe.uuid(), known.uuid);
            if found != expected {
                let foreign = RestoreError::Foreign { path, found, expected };
                return Err(refused_with(foreign.to_string(), false));
            }
            if known.names_checkpoint(safe.generation()) == Some(false) {
                return Err(refused(RestoreError::Outdated { path }.to_string()));
            }
        }
        let mut file = match former {
            Some(former) => former.replacement()?,
            None => PoolFile::create(&self.path)?,
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
        file.set_mode(self.mode)?;
        match former {
            Some(_) => file.publish_over()?,
            None => file.publish()?,
        }
        let superblock = file.superblock()?;
        file.give_vacant_back(&superblock);
        Ok((file, superblock))
    }

    /// What of the pool that cannot be restored may still read well: only files that are there, and the checkpoint only
    /// if it is the pool's own.
    fn how_to_salvage(&self, has_pool: bool, is_own: bool) -> String {
        let safe = self.safe_path();
        let (pool, has_safe) = (self.path.display(), is_own && safe.exists());
        let safe = safe.display();
        match (has_pool, has_safe) {
            (true, true) => format!(
                ", or try `Salvage::open({pool})` and `Salvage::open({safe})`, and keep the larger"
            ),
            (true, false) => format!(", or try `Salvage::open({pool})`"),
            (false, true) => format!(", or try `Salvage::open({safe})`"),
            (false, false) => String::new(),
        }
    }

    /// Gives a new pool its name, and begins the log of an opened pool. Without a checkpoint to go back to, nobody
    /// writes until there is one, and the pool is clean meanwhile: power loss during this leaves an empty pool, or the
    /// old one, but never one that is refused. The name comes first: of two creators one gets it, and the other must
    /// not touch its companions.
    pub(crate) fn start(
        &self,
        options: &Options,
        beginning: Option<Beginning>,
        pool: &Arc<Pool<Memory>>,
        file: &mut PoolFile,
        pairs: &dyn Fn() -> u64,
    ) -> Result<Option<Durable>> {
        let io = |action| move |source| Error::Io { action, source };
        let Some(Beginning { log, logged }) = beginning else {
            file.publish()?;
            if pool.is_read_only() {
                return Ok(None);
            }
            let was_logged = pool.superblock().logged().is_some();
            let marked = match options.durability {
                Some(asked) => pool.set_unlogged(asked),
                None => pool.set_logged(None),
            };
            marked.map_err(io("marking the pool as not logged"))?;
            if was_logged {
                // The first change outdates the earlier log.
                self.remove().map_err(io("removing the pool's former log"))?;
            }
            return Ok(None);
        };
        let superblock = pool.superblock();
        let uuid = superblock.uuid;
        self.refuse_others(Some(uuid))?;
        let image = Arc::clone(pool);
        // A checkpoint that the pool does not name is from another time, and useless.
        let is_safe = superblock.logged().is_some_and(|l| l.is_elsewhere == self.is_elsewhere)
            && matches!(
                self.safe_copy(),
                Ok(Some(found)) if superblock.has_checkpoint(found.generation())
            );
        let config = Config {
            disk: Arc::clone(&self.disk),
            pool: self.pool.clone(),
            uuid,
            interval: options.durable_every,
            checkpoint_bytes_min: options.checkpoint_bytes_min,
            is_in_doubt: !is_safe,
            clock: SystemTime::now,
        };
        if is_safe {
            pool.set_logged(Some(logged)).map_err(io("marking the pool as logged"))?;
            return Ok(Some(Durable::start(config, log, image, false).map_err(OpenError::Log)?));
        }
        let start = || -> Result<Durable> {
            let is_new = file.is_unnamed();
            file.publish()?;
            let started = Durable::start(config, log, image, true).map_err(OpenError::Log);
            if started.is_err() && is_new {
                // It is locked, so nobody has seen it. A pool that could not be completed is not left behind.
                let _ = std::fs::remove_file(&self.path);
            }
            let durable = started?;
            pool.set_logged(Some(logged)).map_err(io("marking the pool as logged"))?;
            Ok(durable)
        };
        pool.clean_for(|| Some(pairs()), start).map_err(io("syncing the pool"))?.map(Some)
    }
}

/// Files of a pool's log and checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFiles {
    /// Paths of all files.
    pub paths: Vec<PathBuf>,
    /// Bytes of the log's segments.
    pub log_bytes: u64,
    /// Bytes of the checkpoint, and of the one being written.
    pub checkpoint_bytes: u64,
}

pub(crate) fn files(options: &Options, path: &Path) -> Result<LogFiles> {
    let Companions { directory, disk, pool, .. } = Companions::of(options, &resolved(path));
    let names = durability::companions(&*disk, &pool)
        .map_err(|source| Error::Io { action: "listing the pool's files", source })?;
    let mut files = LogFiles::default();
    for name in names {
        let path = directory.join(&name);
        // A file may have disappeared meanwhile.
        let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if name.starts_with(&format!("{pool}.log.")) {
            files.log_bytes += bytes;
        } else {
            files.checkpoint_bytes += bytes;
        }
        files.paths.push(path);
    }
    Ok(files)
}
