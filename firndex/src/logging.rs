//! A pool's log and checkpoint: whether it has them, and how it is restored from them.

use crate::{Error, Options, Result};
use pmem::durability::disk::Disk;
use pmem::durability::{Config, Durability, Durable, Logged, RestoreError, SafeCopy};
use pmem::file::{FoundSafe, Located, Ownership, PoolFile, SafeDirectory};
use pmem::line_log::LineLog;
use pmem::medium::{Medium, MediumKind, Memory};
use pmem::superblock::Superblock;
use pmem::{OpenError, Pool};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

type Opened<T> = std::result::Result<T, OpenError>;

/// How many words a thread may be ahead of the log: 4 MiB.
const RING_WORDS: usize = 1 << 19;
/// The same where the system grants few addresses: 64 KiB.
const RING_WORDS_MIN: usize = 1 << 13;

/// Where a pool's companions are: its directory, which need not exist.
pub(crate) struct Companions {
    pool: Located,
    /// `None` if the pool's name leaves no room for that of its directory.
    at: Option<Located>,
    is_elsewhere: bool,
}

/// A log that has not begun yet, of a pool that is being opened.
pub(crate) struct Beginning {
    pub(crate) log: Arc<LineLog>,
    logged: Logged,
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

fn safe_copy_in(directory: SafeDirectory) -> std::result::Result<Option<SafeCopy>, RestoreError> {
    SafeCopy::find(Arc::new(directory) as Arc<dyn Disk>)
}

impl Companions {
    /// Those of the pool at this place.
    pub(crate) fn of(options: &Options, pool: &Located) -> Opened<Companions> {
        let at = match pool.safe(options.log_directory.as_deref()) {
            Err(OpenError::NameTooLong { .. }) => None,
            at => Some(at?),
        };
        let is_elsewhere = at.as_ref().is_some_and(|at| !at.is_beside(pool));
        Ok(Companions { pool: pool.clone(), at, is_elsewhere })
    }

    /// What is there of them.
    fn find(&self) -> Opened<Option<SafeDirectory>> {
        let Some(at) = &self.at else { return Ok(None) };
        match SafeDirectory::find(at)? {
            FoundSafe::Nothing => Ok(None),
            FoundSafe::Directory(found) => Ok(Some(found)),
            FoundSafe::Others(found) => Err(OpenError::InTheWay { path: at.path().into(), found }),
        }
    }

    /// Makes the directory.
    fn make(&self, uuid: u128, ownership: Ownership) -> Opened<SafeDirectory> {
        match &self.at {
            Some(at) => SafeDirectory::make(at, uuid, ownership),
            None => Err(OpenError::Missing { path: self.pool.path().into() }),
        }
    }

    /// The same if it is the pool's.
    fn find_own(&self, uuid: u128) -> Opened<Option<SafeDirectory>> {
        Ok(self.find()?.filter(|found| found.uuid() == uuid))
    }

    /// Whether there is a checkpoint, be it damaged.
    pub(crate) fn has_safe_copy(&self) -> bool {
        let found = self.find().ok().flatten();
        found.is_some_and(|found| !matches!(safe_copy_in(found), Ok(None)))
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
        if self.at.is_none() {
            self.pool.safe(None)?;
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

    /// Refuses a new pool where another one's companions are, and if it `needs` some itself, where something else is in
    /// their place.
    pub(crate) fn refuse_others(&self, needs: bool) -> Opened<()> {
        let found = match self.find() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(OpenError::InTheWay { .. }) if !needs => return Ok(()),
            Err(error) => return Err(error),
        };
        let (uuid, companions) = (found.uuid(), found.path().into());
        match safe_copy_in(found) {
            Ok(None) => Err(OpenError::ForeignLog { path: companions, found: uuid }),
            _ => Err(OpenError::LeftLog { path: self.pool.path().into(), companions }),
        }
    }

    /// The pool's directory, for this process alone, with the pool's owner, group and permissions. One that is left
    /// from a pool that this one has replaced makes way.
    fn claim(&self, file: &PoolFile, uuid: u128) -> Opened<SafeDirectory> {
        let ownership = file.ownership()?;
        ownership.demand(file.path())?;
        let mut directory = match self.find()? {
            Some(found) if found.uuid() == uuid => found,
            Some(mut found) if found.was_replaced_by(uuid) => {
                found.lock()?;
                let path = PathBuf::from(found.path());
                let cleared = found.clear();
                cleared.map_err(|source| OpenError::Io { action: "removing", path, source })?;
                self.make(uuid, ownership)?
            }
            Some(found) => {
                let (path, found) = (found.path().into(), found.uuid());
                return Err(OpenError::ForeignLog { path, found });
            }
            None => self.make(uuid, ownership)?,
        };
        directory.lock()?;
        directory.belong_to(file)?;
        Ok(directory)
    }

    /// Whose companions there are: of a pool that does not tell any more who it is.
    pub(crate) fn owner(&self) -> Option<u128> {
        self.find().ok().flatten().map(|found| found.uuid())
    }

    /// Those of the pool `uuid`, for this process alone. What is another pool's, or no pool's, is not.
    fn own(&self, uuid: u128) -> Opened<Option<SafeDirectory>> {
        let mut found = match self.find_own(uuid) {
            Ok(Some(found)) => found,
            Ok(None) | Err(OpenError::InTheWay { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        found.lock()?;
        Ok(Some(found))
    }

    /// Removes the companions of the pool `uuid`, if they are its own.
    pub(crate) fn remove(&self, uuid: u128) -> Opened<()> {
        let Some(found) = self.own(uuid)? else { return Ok(()) };
        let path = PathBuf::from(found.path());
        found.clear().map_err(|source| OpenError::Io { action: "removing", path, source })
    }

    /// Says that the pool `next` is about to replace the pool `uuid`.
    pub(crate) fn announce(&self, uuid: u128, next: u128) -> Opened<()> {
        let Some(found) = self.own(uuid)? else { return Ok(()) };
        let path = PathBuf::from(found.path());
        found.announce(next).map_err(|source| OpenError::Io { action: "marking", path, source })
    }

    /// Restores the pool. `former` is the locked pool file, if there is one; `known` is its superblock, if that is
    /// trustworthy.
    pub(crate) fn restore(
        &self,
        options: &Options,
        former: Option<&PoolFile>,
        known: Option<&Superblock>,
    ) -> Opened<(PoolFile, Superblock)> {
        let directory = self.find()?;
        let is_own = match (&directory, known) {
            (Some(found), Some(known)) => found.uuid() == known.uuid,
            _ => directory.is_some(),
        };
        let refused_with = |found: String, has_checkpoint: bool| OpenError::NotRestored {
            path: self.pool.path().into(),
            state: match (former, known) {
                (None, _) => "is missing",
                (Some(_), None) => "is damaged",
                (Some(_), Some(_)) => "was not closed",
            },
            found,
            advice: self.how_to_salvage(former.is_some(), is_own && has_checkpoint),
        };
        let Some(mut directory) = directory else {
            let name = format!("{}.safe", self.pool.path().display());
            let name = self.at.as_ref().map_or(name, |at| at.path().display().to_string());
            return Err(refused_with(format!("there is no {name}"), false));
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
        let ownership = former.map_or(Ok(directory.ownership()), PoolFile::ownership)?;
        ownership.demand(self.pool.path())?;
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
        let file = self.restore_from(options, &safe, former, ownership, &refused)?;
        let superblock = file.superblock()?;
        Ok((file, superblock))
    }

    fn restore_from(
        &self,
        options: &Options,
        safe: &SafeCopy,
        former: Option<&PoolFile>,
        ownership: Ownership,
        refused: &dyn Fn(String) -> OpenError,
    ) -> Opened<PoolFile> {
        let mut file = match former {
            Some(former) => former.replacement()?,
            None => PoolFile::create_at(&self.pool)?,
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
    fn how_to_salvage(&self, has_pool: bool, has_checkpoint: bool) -> String {
        let pool = self.pool.path().display();
        let safe = self.at.as_ref().filter(|_| has_checkpoint);
        match (has_pool, safe.map(|safe| safe.path().display())) {
            (true, Some(safe)) => format!(
                ", or try `Salvage::open({pool})` and `Salvage::open({safe})`, and keep the larger"
            ),
            (true, None) => format!(", or try `Salvage::open({pool})`"),
            (false, Some(safe)) => format!(", or try `Salvage::open({safe})`"),
            (false, None) => String::new(),
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
        let uuid = pool.superblock().uuid;
        let Some(Beginning { log, logged }) = beginning else {
            file.publish()?;
            if !pool.is_read_only() {
                let marked = match options.durability {
                    Some(asked) => pool.set_unlogged(asked),
                    None => pool.set_logged(None),
                };
                marked.map_err(io("marking the pool as not logged"))?;
                // The first change outdates the earlier log. Each opening does this: the last one may have been killed
                // before it got here.
                self.remove(uuid)?;
            }
            return Ok(None);
        };
        let is_new = file.is_unnamed();
        let config = |directory: SafeDirectory, is_safe: bool| Config {
            disk: Arc::new(directory),
            uuid,
            interval: options.durable_every,
            checkpoint_bytes_min: options.checkpoint_bytes_min,
            is_in_doubt: !is_safe,
            clock: SystemTime::now,
        };
        let image = Arc::clone(pool);
        let mark = || pool.set_logged(Some(logged)).map_err(io("marking the pool as logged"));
        let mut former = None;
        if !is_new {
            let directory = self.claim(file, uuid)?;
            if self.is_current(&pool.superblock())? {
                mark()?;
                let started = Durable::start(config(directory, true), log, image, false);
                return Ok(Some(started.map_err(OpenError::Log)?));
            }
            former = Some(directory);
        }
        let begin = || -> Result<Durable> {
            file.publish()?;
            let directory = former.map_or_else(|| self.claim(file, uuid), Ok)?;
            let durable = Durable::start(config(directory, false), log, image, true)
                .map_err(OpenError::Log)?;
            mark()?;
            Ok(durable)
        };
        let begun = pool.clean_for(|| Some(pairs()), begin).map_err(io("syncing the pool"));
        let begun = begun.and_then(|begun| begun);
        if begun.is_err() && is_new {
            // It is locked, so nobody has seen it. A pool that could not be completed is not left behind.
            file.withdraw();
            let _ = self.remove(uuid);
        }
        begun.map(Some)
    }

    /// Whether the checkpoint is the one that the pool names. One that it does not name is from another time, and
    /// useless.
    fn is_current(&self, superblock: &Superblock) -> Opened<bool> {
        let is_here = superblock.logged().is_some_and(|it| it.is_elsewhere == self.is_elsewhere);
        let Some(found) = self.find()?.filter(|_| is_here) else { return Ok(false) };
        let safe = safe_copy_in(found);
        Ok(matches!(safe, Ok(Some(found)) if superblock.has_checkpoint(found.generation())))
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
    /// Bytes of the checkpoint, and of the room for the next one.
    pub checkpoint_bytes: u64,
}

pub(crate) fn files(options: &Options, path: &Path) -> Result<LogFiles> {
    let listing = |source| Error::Io { action: "listing the pool's files", source };
    let mut files = LogFiles::default();
    let Some(found) = Companions::of(options, &Located::followed(path)?)?.find()? else {
        return Ok(files);
    };
    for (name, bytes) in found.files().map_err(listing)? {
        let of = |kind: &str| name.as_encoded_bytes().starts_with(kind.as_bytes());
        if of("log.") {
            files.log_bytes += bytes;
        } else if of("checkpoint.") {
            files.checkpoint_bytes += bytes;
        }
        files.paths.push(found.path().join(name));
    }
    Ok(files)
}

/// Removes the pool at `path` with everything that belongs to it: its file, and the directory of its log, checkpoint
/// and sums. If its file is gone already, the rest is removed.
///
/// The pool may not be open. What is not firndex's stays, whatever it is called. If `path` is a link, what it leads to
/// is removed, and the link stays. For a pool whose log is in another directory, name that as
/// [`Options::log_directory`](crate::Options::log_directory) does, with [`Options::remove`](crate::Options::remove).
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("ports.firn");
/// firndex::Table::<u64, u16>::create(&path)?.close()?;
/// firndex::remove(&path)?;
/// assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
/// # Ok(())
/// # }
/// ```
pub fn remove(path: impl AsRef<Path>) -> Result<()> {
    Options::new().remove(path)
}

pub(crate) fn remove_pool(options: &Options, path: &Path) -> Result<()> {
    let pool = Located::followed(path)?;
    let companions = Companions::of(options, &pool)?;
    let file = match PoolFile::claim_at(&pool, pmem::file::Access::Write) {
        Ok(file) => Some(file),
        Err(OpenError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let found = companions.find()?;
    let uuid = match &file {
        None => found.as_ref().map(SafeDirectory::uuid),
        Some(file) => match (file.superblock(), &found) {
            (Ok(superblock), _) => {
                if superblock.logged().is_some_and(|logged| logged.is_elsewhere)
                    && options.log_directory.is_none()
                {
                    return Err(OpenError::LogElsewhere { path: path.into() }.into());
                }
                Some(superblock.uuid)
            }
            // A damaged pool, or what is left of one, is known by its companions.
            (Err(OpenError::NotAPool { .. }), Some(found)) if file.is_blank()? => {
                Some(found.uuid())
            }
            (Err(error @ OpenError::NotAPool { .. }), _) => return Err(error.into()),
            (Err(_), found) => found.as_ref().map(SafeDirectory::uuid),
        },
    };
    if file.is_none() && found.is_none() {
        return Err(OpenError::Missing { path: path.into() }.into());
    }
    drop(found);
    // Before the file: after a crash in between they would bring the pool back.
    if let Some(uuid) = uuid {
        companions.remove(uuid)?;
        if options.log_directory.is_some() {
            // Sums lie beside the pool.
            Companions::of(&Options::new(), &pool)?.remove(uuid)?;
        }
    }
    let Some(file) = file else { return Ok(()) };
    file.remove().map_err(Into::into)
}
