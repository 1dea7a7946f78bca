//! What can be chosen when a pool is created or opened; every choice has a good default.

use engines::engine::Parameters;
use engines::{Engine, Settings};
use pmem::durability::{Durability, Logged};
use pmem::superblock::ENGINE_PARAMS;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Names with a spelling of their own on the command line.
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

/// The memory that a pool lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Medium {
    /// `Dax` where the file system offers it, else `Mapped`. The default.
    Auto,
    /// Anonymous memory, gone with the process.
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
}
named!(Kind, "kind of pool", Table => "table", Store => "store");

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
    pub(crate) capacity: u64,
    pub(crate) parameters: Parameters,
    /// What a new pool records of its engine, if that is copied from another one.
    pub(crate) engine_params: Option<[u64; ENGINE_PARAMS]>,
    /// The identity of a new pool that takes another one's place, and how it is logged.
    pub(crate) identity: Option<(u128, Option<Logged>)>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) hash_seed: Option<u64>,
    pub(crate) read_only: bool,
    pub(crate) force_flushes: bool,
    pub(crate) durability: Option<Durability>,
    pub(crate) durable_every: Duration,
    pub(crate) log_directory: Option<PathBuf>,
    pub(crate) checkpoint_bytes_min: u64,
    pub(crate) restore_progress: Option<Progress>,
    pub(crate) settings: Settings,
}

/// Who is told how far a restoration has got: bytes read, of how many.
#[derive(Clone)]
pub(crate) struct Progress(pub(crate) Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// What a pool may grow to if nobody says more: a thousand such ranges of addresses fit a process.
const MAX_BYTES: u64 = 64 << 30;
/// How long what has returned may be lost by power loss, if nobody asks for less.
const DURABLE_EVERY: Duration = Duration::from_millis(5);
/// A thread that never slept would take a processor.
const DURABLE_EVERY_MIN: Duration = Duration::from_micros(100);
/// A log is kept until it is as large as the pool, and this large.
const CHECKPOINT_BYTES_MIN: u64 = 256 << 20;

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: None,
            medium: Medium::Auto,
            capacity: 0,
            parameters: Parameters::default(),
            engine_params: None,
            identity: None,
            max_bytes: None,
            hash_seed: None,
            read_only: false,
            force_flushes: false,
            durability: None,
            durable_every: DURABLE_EVERY,
            log_directory: None,
            checkpoint_bytes_min: CHECKPOINT_BYTES_MIN,
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

    /// The engine of a new pool (default: the first of [`Engine::ALL`] that takes its keys and values); an
    /// existing one must have it.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The medium (default: [`Medium::Auto`]).
    pub fn medium(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Makes a new pool large enough for this many pairs at once (default: 0, start small). Pools
    /// grow by themselves in any case.
    pub fn capacity(mut self, pairs: u64) -> Self {
        self.capacity = pairs;
        self
    }

    /// A value for a parameter of a new pool's engine, one of its [`Description`](crate::Description)'s. A
    /// pool keeps it; parameters that are left out have defaults. If no engine was chosen, it is the first
    /// that has the parameter and takes the pairs. Otherwise the error is
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

    /// Load factor at which the table doubles (default: 0.85; 0.1 at least); above 1 it never does by itself.
    ///
    /// This and the options below are held against their ranges when a pool is made or opened. Outside of them the error
    /// is [`Error::OutOfRange`](crate::Error::OutOfRange), and there is no pool.
    pub fn resize_at(mut self, load_factor: f64) -> Self {
        self.settings.resize_at = load_factor;
        self
    }

    /// Load factor, 0 to 1, below which the table halves by itself, where its engine does
    /// ([`shrinks_by_itself`](crate::Description::shrinks_by_itself)). Default: 0, never; [`Table::shrink`](crate::Table::shrink)
    /// does it when asked.
    /// However high, a table halves only if it is then well below where it doubles, so that it does not
    /// go back and forth; nor does it get smaller than it was made. The work is done in small steps by
    /// the operations that follow.
    pub fn shrink_at(mut self, load_factor: f64) -> Self {
        self.settings.shrink_at = load_factor;
        self
    }

    /// Limit of the pool's size in bytes (default: 64 GiB, or four times what a pool has when it is opened, if that is
    /// more). A pool that reaches it answers [`Error::PoolFull`](crate::Error::PoolFull).
    ///
    /// As many addresses are reserved as the next power of two has, 1 TiB at most, and up to half as many for the
    /// sidecar. A process has 128 TiB of them: enough for a thousand pools with the default, and for more with less.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// What a pool may grow to that has so many bytes.
    pub(crate) fn size_max(&self, bytes: u64) -> u64 {
        self.max_bytes.unwrap_or_else(|| MAX_BYTES.max(bytes.saturating_mul(4)))
    }

    /// Threads of the table's own that prepare space and move pairs ahead of the writers, where its engine
    /// has such ([`has_helpers`](crate::Description::has_helpers)). Default: 1; 64 at most. With 0 the writers do both in
    /// small steps. More than one let growth keep up where many threads insert and processors are to spare.
    pub fn helpers(mut self, threads: usize) -> Self {
        self.settings.helpers = threads;
        self
    }

    /// Threads used to rebuild volatile state on opening (default: 0, one per processor; 1024 at most).
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.recovery_threads = threads;
        self
    }

    /// How large the table in DRAM is that answers look-ups first, where the engine has one (parameter `cached` of
    /// its [`Description`](crate::Description)): an `n`-th of the table in the pool, 1 for as large, 0 for none.
    /// Default: what the pool was created with.
    ///
    /// It is worth its memory on a medium that reads more slowly than DRAM. How many look-ups it answers is in
    /// [`Stats::cached`](crate::Stats::cached).
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

    /// Fills that table in the background after opening, and again when the table has doubled or halved
    /// (default: no, it fills as look-ups come). Once it has all pairs, it also knows which keys are absent.
    /// Meanwhile the table does not halve.
    pub fn refill_cache(mut self, refill: bool) -> Self {
        self.settings.refills_cache = refill;
        self
    }

    /// Threads that bring that table up to date beside the writer of a new pair (default: 0, the writer does it
    /// itself; 64 at most). Idle, they sleep.
    pub fn synchronizers(mut self, threads: usize) -> Self {
        self.settings.synchronizers = threads;
        self
    }

    /// Seed of the hash function of a new pool (default: random, so that nobody can choose keys
    /// that collide).
    pub fn hash_seed(mut self, seed: u64) -> Self {
        self.hash_seed = Some(seed);
        self
    }

    /// What survives power loss, of a pool in a file (default: what the pool had last; for a new one
    /// [`Durability::Periodic`] on a disk, and [`Durability::Process`] in /dev/shm and on [`Medium::Dax`], where every
    /// operation that returned survives anyway).
    ///
    /// `Periodic` and `Commit` keep a log and a checkpoint beside the pool, `POOL.log.N` and `POOL.safe`: move, copy and
    /// delete them together with it. They take up to about three times the pool's size.
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

    /// How often [`Durability::Periodic`] writes what was changed (default: 5 ms; 0.1 ms at least, an hour at most). That much may be lost
    /// by power loss.
    pub fn durable_every(mut self, interval: Duration) -> Self {
        self.durable_every = interval.max(DURABLE_EVERY_MIN);
        self
    }

    /// Directory of the pool's log and checkpoint (default: the pool's own). With one on a disk a pool in /dev/shm
    /// survives power loss; each opening has to name it.
    pub fn log_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.log_directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Size of the log in bytes up to which no checkpoint is made (default: 256 MiB). Above it one is made when the log
    /// is as large as the pool. A smaller log makes for a faster opening after power loss, and for more writing.
    pub fn checkpoint_at(mut self, log_bytes: u64) -> Self {
        self.checkpoint_bytes_min = log_bytes;
        self
    }

    /// Is told, from any thread, how many bytes of how many have been read while a pool is restored after power loss.
    pub fn restore_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.restore_progress = Some(Progress(Arc::new(tell)));
        self
    }

    /// Opens for reading only (default: no): any number of processes may, while none writes. The
    /// pool must have been closed; nothing in the file changes.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// For measuring: pays for flushes and fences on `Dram` and `Mapped` too, as `Dax` does on this
    /// machine (default: no). It adds no promise: what survives is what the medium says. A pool
    /// does not remember it, and opening for reading only flushes nothing in any case.
    ///
    /// Creating or opening fails with [`OpenError::Unsupported`](crate::OpenError::Unsupported)
    /// where the processor has no instruction for it.
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
