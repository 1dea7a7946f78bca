//! Choices for creating and opening a pool. Each has a good default.

mod guests;

use crate::on_evict::OnEvict;
use crate::shapes::Shapes;
use engines::engine::Parameters;
use engines::{Engine, Settings};
use pmem::durability::{Durability, Logged};
use pmem::superblock::ENGINE_PARAMS;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// An enum whose variants have names on the command line.
macro_rules! named {
    ($type:ident, $what:literal, $($variant:ident => $name:literal),+) => {
        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];

            /// The name used on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> std::result::Result<Self, String> {
                $type::ALL.iter().copied().find(|value| value.name() == name).ok_or_else(|| {
                    let names: Vec<&str> = $type::ALL.iter().map(|value| value.name()).collect();
                    format!("no {} is called {name:?}; there are {}", $what, names.join(", "))
                })
            }
        }
    };
}

/// The memory under a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Medium {
    /// `Dax` if the file system offers it, otherwise `Mapped`. The default.
    Auto,
    /// Anonymous memory, which ends with the process.
    Dram,
    /// A file mapped shared: survives the process.
    Mapped,
    /// A file on a DAX file system: survives power loss.
    Dax,
}
named!(Medium, "medium", Auto => "auto", Dram => "dram", Mapped => "mapped", Dax => "dax");

/// What a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Fixed-size keys and values: a [`Table`](crate::Table).
    Table,
    /// Byte strings: a [`Store`](crate::Store).
    Store,
    /// Byte strings within a bound: a [`Cache`](crate::Cache).
    Cache,
}
named!(Kind, "kind of pool", Table => "table", Store => "store", Cache => "cache");

/// How to create or open a pool.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("sessions.firn");
/// let store = firndex::Options::new().max_bytes(1 << 30).open_or_create_store(&path)?;
/// store.put(b"user 17", b"signed in")?;
/// store.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    pub(crate) engine: Option<Engine>,
    pub(crate) medium: Medium,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) on_evict: Option<OnEvict>,
    pub(crate) capacity: u64,
    pub(crate) parameters: Parameters,
    /// A new pool's engine parameters, if they are copied from another pool.
    pub(crate) engine_params: Option<[u64; ENGINE_PARAMS]>,
    /// The size of a new pool's heap segments, if it is copied from another pool.
    pub(crate) segment_log2: Option<u32>,
    /// Identity and log of the pool that a new one replaces.
    pub(crate) identity: Option<Identity>,
    /// The shapes of a table's keys and values, if those of its types do not count: a copy has those of another pool.
    pub(crate) shapes: Option<Shapes>,
    pub(crate) compact_at: f64,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) hash_seed: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) may_lack_pairs: bool,
    pub(crate) wait: Duration,
    pub(crate) guests: bool,
    pub(crate) never_own: bool,
    pub(crate) patience: Duration,
    pub(crate) reset_if_refused: bool,
    pub(crate) force_flushes: bool,
    pub(crate) survive_bus_errors: bool,
    pub(crate) keep_sums: Option<bool>,
    pub(crate) durability: Option<Durability>,
    pub(crate) durable_every: Duration,
    pub(crate) log_directory: Option<PathBuf>,
    pub(crate) checkpoint_bytes_min: Option<u64>,
    /// Permissions that a copy has at most: those of the file that is copied.
    pub(crate) mode: Option<u32>,
    pub(crate) restore_progress: Option<Progress>,
    pub(crate) settings: Settings,
}

/// What a rewritten pool goes on with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) uuid: u128,
    pub(crate) incarnation: u64,
    pub(crate) logged: Option<Logged>,
}

/// Receives the progress of a restoration: bytes read, and bytes in all.
#[derive(Clone)]
pub(crate) struct Progress(pub(crate) Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// Default limit of a pool's size. A thousand such ranges of addresses fit into a process.
const MAX_BYTES: u64 = 64 << 30;
/// Default interval of changes that power loss may take.
const DURABLE_EVERY: Duration = Duration::from_millis(5);
/// Default time for which a guest waits for its owner.
const PATIENCE: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: None,
            medium: Medium::Auto,
            cache_bytes: None,
            on_evict: None,
            capacity: 0,
            parameters: Parameters::default(),
            engine_params: None,
            segment_log2: None,
            identity: None,
            shapes: None,
            compact_at: 0.0,
            max_bytes: None,
            hash_seed: None,
            read_only: false,
            may_lack_pairs: false,
            wait: Duration::ZERO,
            guests: false,
            never_own: false,
            patience: PATIENCE,
            reset_if_refused: false,
            force_flushes: false,
            survive_bus_errors: false,
            keep_sums: None,
            durability: None,
            durable_every: DURABLE_EVERY,
            log_directory: None,
            checkpoint_bytes_min: None,
            mode: None,
            restore_progress: None,
            settings: Settings::default(),
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The engine of a new pool. Default: the first of [`Engine::ALL`] that takes its keys and values. An existing pool
    /// must have this engine, or opening it fails.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The medium (default: [`Medium::Auto`]).
    pub fn medium(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Makes a new pool large enough for this many pairs from the start (default: 0, start small; at most 2^40). Pools
    /// grow by themselves in any case.
    pub fn capacity(mut self, pairs: u64) -> Self {
        self.capacity = pairs;
        self
    }

    /// Sets a parameter of a new pool's engine. [`Description`](crate::Description) lists an engine's parameters. A
    /// pool keeps them; those you leave out have defaults. Without a chosen engine, the first engine that has the
    /// parameter and takes the pairs is used. If none does, or the value is out of range, the error is
    /// [`Error::Parameter`](crate::Error::Parameter), and no pool is made.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// use firndex::{Engine, Options};
    ///
    /// for engine in Engine::ALL {
    ///     for parameter in engine.description().parameters {
    ///         println!("{engine}: {}, {}", parameter.name, parameter.help);
    ///     }
    /// }
    /// let table = Options::new().parameter("slots", 8).in_memory_table()?;
    /// table.put(1, 1)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn parameter(mut self, name: &str, value: u64) -> Self {
        self.parameters.set(name, value);
        self
    }

    /// Load factor (used slots / all slots) at which the table doubles. Default: 0.85; at least 0.1. Above 1
    /// it never doubles by itself.
    ///
    /// The ranges of all options are checked when a pool is made or opened. A value out of range gives
    /// [`Error::OutOfRange`](crate::Error::OutOfRange), and no pool is made or opened.
    pub fn resize_at(mut self, load_factor: f64) -> Self {
        self.settings.resize_at = load_factor;
        self
    }

    /// Load factor, 0 to 1, below which the table halves by itself, on engines that
    /// [can](crate::Description::shrinks_by_itself). Default: 0, never. [`Pool::shrink`](crate::Pool::shrink) halves
    /// it on demand.
    ///
    /// A halving is skipped if the result would be nearly as full as where the table doubles, so a table never
    /// oscillates. It is also skipped below the table's first size. Later operations do the work in small steps.
    pub fn shrink_at(mut self, load_factor: f64) -> Self {
        self.settings.shrink_at = load_factor;
        self
    }

    /// Compacts a store in the background and gives free space back to the file system, whenever more than this part of
    /// the space for keys and values is free. Default: 0, never; else 0.25 to 0.95. Tables on `clevel` have such space,
    /// too.
    ///
    /// A thread looks ten times a second, less often in large pools. It moves values together as [`Store::compact`]
    /// does, and keeps a sixth of what is in use as free space. The file keeps its length, but what was given back is a
    /// hole: it takes no space on the file system (`du` shows it, and
    /// [`Stats::heap_vacant_bytes`](crate::Stats::heap_vacant_bytes)). It stays so when the pool is closed and opened.
    /// Changes that need the space later take it again; that fails with
    /// [`Error::PoolFull`](crate::Error::PoolFull) if the file system has none left.
    ///
    /// Nothing is compacted while a [`Record`](crate::Record) is held, or after [`Pool::sync`] made the pool clean,
    /// until the next change.
    ///
    /// [`Store::compact`]: crate::Store::compact
    /// [`Pool::sync`]: crate::Pool::sync
    pub fn compact_at(mut self, free: f64) -> Self {
        self.compact_at = free;
        self
    }

    /// Limit of the pool's size in bytes, 8 KiB to 1 TiB. Default: 64 GiB, or four times the pool's size when it is
    /// opened if that is more. At the limit, changes that need space fail with
    /// [`Error::PoolFull`](crate::Error::PoolFull).
    ///
    /// The pool reserves addresses, not memory: the next power of two, at most 1 TiB, and up to half as many for the
    /// sidecar (the engine's memory beside the pool). A process has 128 TiB of addresses, enough for a thousand pools
    /// with the default and for more with a lower limit.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// The limit for a pool that now has `bytes`.
    pub(crate) fn size_max(&self, bytes: u64) -> u64 {
        self.max_bytes.unwrap_or_else(|| MAX_BYTES.max(bytes.saturating_mul(4)))
    }

    /// Helper threads that prepare space and move pairs ahead of the writers, on engines that [have
    /// them](crate::Description::has_helpers). Default: 1; at most 64. With 0 the writers do both in small steps. With
    /// more than one, growth keeps up with many inserting threads if processors are free.
    pub fn helpers(mut self, threads: usize) -> Self {
        self.settings.helpers = threads;
        self
    }

    /// Slots of a table up to which opening builds all of the volatile state before it returns. That of a larger one is
    /// built afterwards, block by block, by whoever needs it and by threads in the background, on engines that can
    /// ([`Description::opens_at_once`](crate::Description::opens_at_once)): look-ups and changes are answered at once,
    /// and at first take longer. Default: 262,144. `u64::MAX`: always before.
    ///
    /// An opening that builds everything also finds damage, and refuses the pool. Found afterwards, it makes every
    /// later call fail, with the same error. So does a number of pairs other than when the pool was closed. Without
    /// [helpers](Options::helpers) everything is built before, unless this is 0.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("numbers.firn");
    /// use firndex::{Options, Table};
    ///
    /// let numbers = Table::<u64, u64>::create(&path)?;
    /// numbers.put(1, 10)?;
    /// numbers.close()?;
    /// let numbers: Table<u64, u64> = Options::new().built_at_once_max(0).open_table(&path)?;
    /// assert_eq!(numbers.get(1)?, Some(10));
    /// # Ok(())
    /// # }
    /// ```
    pub fn built_at_once_max(mut self, slots: u64) -> Self {
        self.settings.built_at_once_max = slots;
        self
    }

    /// What the engine is opened with.
    pub(crate) fn engine_settings(&self) -> Settings {
        // What is left of a pool is to be known when it is open.
        let at_once = if self.may_lack_pairs { u64::MAX } else { self.settings.built_at_once_max };
        let is_shown = self.guests && !self.read_only;
        Settings { built_at_once_max: at_once, is_shown, ..self.settings }
    }

    /// Threads that rebuild volatile state on opening. Default: 0, one per processor; at most 1024.
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.recovery_threads = threads;
        self
    }

    /// Size of the table in DRAM that answers look-ups first, on engines with one (parameter `cached` of the
    /// [`Description`](crate::Description)). `n` means an `n`-th of the table in the pool: 1 is as large, 0 is none.
    /// Default: what the pool was created with.
    ///
    /// It is worth its memory on a medium that reads more slowly than DRAM. [`Stats::cached`](crate::Stats::cached)
    /// tells how many look-ups it answers.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// use firndex::Options;
    ///
    /// // A pool that keeps an eighth as the size, opened with a cached table as large as the other.
    /// let table = Options::new().parameter("cached", 8).cached(1).in_memory_table()?;
    /// table.put(1, 11)?;
    /// assert_eq!(table.get(1)?, Some(11));
    /// let cached = table.stats()?.cached.expect("there is one");
    /// assert_eq!((cached.hits, cached.hit_rate()), (1, 1.0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cached(mut self, n: u32) -> Self {
        self.settings.cached = Some(n);
        self
    }

    /// Fills the cached table in the background after opening, and again after the table has doubled or halved.
    /// Default: no, look-ups fill it. Once it has all pairs, it also knows which keys are absent. The table does not
    /// halve while it is being filled.
    pub fn refill_cache(mut self, refill: bool) -> Self {
        self.settings.refills_cache = refill;
        self
    }

    /// Seed of a new pool's hash function. Default: random, so that nobody can choose colliding keys.
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.hash_seed = Some(seed);
        self
    }

    /// What survives power loss, for a pool in a file. Default: what the pool had last. For a new pool it is
    /// [`Durability::Periodic`] on a disk, and [`Durability::Process`] in /dev/shm and on [`Medium::Dax`], where every
    /// operation that returned survives anyway.
    ///
    /// `Periodic` and `Commit` keep a log and two places for checkpoints in a directory beside the pool, `POOL.safe`.
    /// Move and copy it with the pool, and remove both with [`remove`](crate::remove): if the pool alone is deleted,
    /// the next opening restores it. The directory takes two times the pool's size, the log
    /// ([`Options::checkpoint_at`]), and four segments of a quarter of the pool, 256 KiB to 64 MiB each.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("orders.firn");
    /// use firndex::{Durability, Options};
    ///
    /// let orders = Options::new().durability(Durability::Commit).open_or_create_store(&path)?;
    /// orders.put("order 1", "two pounds of tea")?; // on the disk when it returns
    /// # Ok(())
    /// # }
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How often [`Durability::Periodic`] writes changes to the disk. Default: 5 ms; at least 0.1 ms, at most an hour.
    /// Power loss may take that much.
    pub fn durable_every(mut self, interval: Duration) -> Self {
        self.durable_every = interval;
        self
    }

    /// Directory of the pool's log and checkpoint. Default: the pool's directory. With one on a disk, a pool in
    /// /dev/shm survives power loss. Each opening for writing must name it.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("fast.firn");
    /// use firndex::{Durability, Options};
    ///
    /// // The pool may lie in /dev/shm, and its log on a disk.
    /// let options = Options::new().log_directory(directory.path()).durability(Durability::Periodic);
    /// let store = options.open_or_create_store(&path)?;
    /// store.put("user 17", "signed in")?;
    /// # store.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.log_directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Size of the log in bytes below which no checkpoint is made unless the disk is full. Default: 16 times the pool's
    /// size, 256 MiB at most. Above it, a checkpoint is made when the log is as large as the pool. A smaller log makes
    /// opening after power loss faster, and writes more.
    pub fn checkpoint_at(mut self, log_bytes: u64) -> Self {
        self.checkpoint_bytes_min = Some(log_bytes);
        self
    }

    /// Calls `tell`, from any thread, with the bytes read so far and the bytes in all, while a pool is restored from
    /// its checkpoint and log.
    pub fn restore_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.restore_progress = Some(Progress(Arc::new(tell)));
        self
    }

    /// Opens for reading only (default: no). Any number of processes may do so while none writes. The pool must have
    /// been closed. Nothing in the file changes.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("ports.firn");
    /// use firndex::{Error, Options, Store};
    ///
    /// Store::create(&path)?.close()?;
    /// let store = Options::new().read_only(true).open_store(&path)?;
    /// assert!(matches!(store.put("a", "b"), Err(Error::ReadOnly)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Opens a pool for reading although it holds another number of pairs than when it was closed: parts of its file
    /// were lost. Default: no, it is refused with [`OpenError::Miscounted`](crate::OpenError::Miscounted), since a key
    /// that was lost would seem never to have been there. It is for a look at what is left, and for `check`, which
    /// tells both numbers. A pool opened for writing is refused in any case.
    pub fn may_lack_pairs(mut self, may_lack_pairs: bool) -> Self {
        self.may_lack_pairs = may_lack_pairs;
        self
    }

    /// For caches, which would rather start empty than not at all: if the pool is refused since it is of no use,
    /// opening it puts an empty one in its place. Default: no, such a pool is kept for
    /// [`Salvage`](crate::Salvage). [`Pool::was_reset`](crate::Pool::was_reset) tells why it was done.
    ///
    /// | refused since | then it is |
    /// |---|---|
    /// | it is damaged: [`Damaged`], [`Truncated`], [`Corrupt`], [`Miscounted`] | reset |
    /// | it must be recovered, and cannot be: [`Dirty`], [`NotRestored`] | reset, unless one of its files may not be read |
    /// | its log is in a directory that was not named: [`LogElsewhere`] | reset; that log stays where it is |
    /// | another version of firndex, or another machine, made it: [`Mismatch`] | reset |
    /// | it holds something else than was asked for: another kind, engine, size or shape ([`Mismatch`], too) | kept: it may be another program's. Give a cache another name when its types change |
    /// | another process has it, it may not be read or written, there is no space | kept |
    /// | it is no pool, or another pool's files lie beside it: [`NotAPool`], [`ForeignLog`], [`LeftLog`] | kept, as all files of others |
    ///
    /// Nothing is reset when a pool is [created](Options::create_store), or opened [read-only](Options::read_only).
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("thumbnails.firn");
    /// use firndex::Options;
    ///
    /// let thumbnails = Options::new().reset_if_refused(true).open_or_create_store(&path)?;
    /// if let Some(why) = thumbnails.was_reset() {
    ///     eprintln!("all thumbnails must be made again: {why}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Damaged`]: crate::OpenError::Damaged
    /// [`Truncated`]: crate::OpenError::Truncated
    /// [`Corrupt`]: crate::OpenError::Corrupt
    /// [`Miscounted`]: crate::OpenError::Miscounted
    /// [`Dirty`]: crate::OpenError::Dirty
    /// [`NotRestored`]: crate::OpenError::NotRestored
    /// [`LogElsewhere`]: crate::OpenError::LogElsewhere
    /// [`Mismatch`]: crate::OpenError::Mismatch
    /// [`NotAPool`]: crate::OpenError::NotAPool
    /// [`ForeignLog`]: crate::OpenError::ForeignLog
    /// [`LeftLog`]: crate::OpenError::LeftLog
    pub fn reset_if_refused(mut self, reset: bool) -> Self {
        self.reset_if_refused = reset;
        self
    }

    /// Makes it an error, [`Error::Vanished`](crate::Error::Vanished), if a page of the pool's file vanishes while the
    /// pool is open: another program truncates the file, or its device fails. Default: no. Then the next access to the
    /// page ends the process with SIGBUS.
    ///
    /// The first pool that is opened so installs a handler of SIGBUS for the whole process. The handler passes on what
    /// concerns no such pool to the one before it. A handler that is installed later must do so, too.
    ///
    /// A look-up that meets what is missing fails; it does not find its key absent. So do scans, `check`, `sync`,
    /// `close`, batches, and every call that begins later. A single change that was under way may still return a wrong
    /// former value.
    ///
    /// Every call then looks for lost pages before and after what it does, and single calls go the longer way of
    /// batches. Pools without this option pay nothing for it.
    pub fn survive_bus_errors(mut self, survive: bool) -> Self {
        self.survive_bus_errors = survive;
        self
    }

    /// Writes checksums of the pool's file beside it, in `POOL.safe/sums`, whenever the pool is closed. Then
    /// [`verify`](crate::verify) finds every bit of the closed file that changes afterwards, in pairs of tables, too,
    /// which have no checksum of their own. Default: as in the last opening; a new pool has none.
    ///
    /// The sums have a thousandth of the pool's size. Closing reads the whole file once. Without the sums file the pool
    /// is as good as before. After a crash there are no sums of it until it is closed again.
    pub fn keep_sums(mut self, keep: bool) -> Self {
        self.keep_sums = Some(keep);
        self
    }

    /// For measurements: executes flushes and fences on `Dram` and `Mapped`, too, as `Dax` does on this machine
    /// (default: no). It adds no promise: the medium decides what survives. A pool does not remember this option.
    /// Opening for reading only never flushes.
    ///
    /// Creating or opening fails with [`OpenError::Unsupported`](crate::OpenError::Unsupported) if the processor has no
    /// instruction for it.
    pub fn force_flushes(mut self, force: bool) -> Self {
        self.force_flushes = force;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_may_grow_to_the_limit_or_to_four_times_its_size() {
        let default = Options::new();
        assert_eq!(default.size_max(0), MAX_BYTES);
        assert_eq!(default.size_max(100 << 30), 400 << 30);
        assert_eq!(default.size_max(u64::MAX), u64::MAX);
        assert_eq!(default.max_bytes(1 << 20).size_max(100 << 30), 1 << 20);
    }

    #[test]
    fn names_are_read_back_and_others_are_told_what_there_is() {
        for medium in Medium::ALL {
            assert_eq!(medium.name().parse(), Ok(*medium));
        }
        let error = "disk".parse::<Medium>().unwrap_err();
        assert!(error.contains("disk") && error.contains("mapped"), "{error}");
    }
}
