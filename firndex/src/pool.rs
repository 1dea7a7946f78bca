//! What a table and a store have in common.

use crate::background::Background;
use crate::body::Body;
use crate::compactor::Compactor;
use crate::guests::{Served, Serving};
use crate::handle::Handle;
use crate::ticket::Ticket;
use crate::when_durable::WhenDurable;
use crate::{Error, Options, Result, Role, Stats};
use index::{CheckReport, Shrunk};
use pmem::durability::LogUse;
use pmem::medium::{Medium as _, Memory};
use pmem::meeting::{Door, Hello};
use pmem::{Damage, OpenError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::park_timeout;
use std::time::Duration;

/// The pool under a [`Table`](crate::Table) or a [`Store`](crate::Store), which both dereference to it: what can be
/// asked of any pool, and done with it, whatever it holds.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// use firndex::{Pool, Store, Table};
///
/// fn fullness(pool: &Pool) -> firndex::Result<String> {
///     let stats = pool.stats()?;
///     Ok(format!("{} pairs in {} slots", pool.len(), stats.capacity))
/// }
///
/// let (ports, sessions) = (Table::<u64, u16>::in_memory()?, Store::in_memory()?);
/// println!("{}, {}", fullness(&ports)?, fullness(&sessions)?);
/// # Ok(())
/// # }
/// ```
pub struct Pool {
    engine: Counted,
    pub(crate) handle: Handle,
}

/// Whoever makes a few changes and goes, as a command does, is not to be held up by a sweep that only others need.
const SWEEP_AFTER: Duration = Duration::from_millis(50);

/// The engine, whose pairs the pool records at the end.
pub(crate) struct Counted {
    body: Arc<dyn Body>,
    /// Uses the engine until it is dropped, as the sweeper does.
    compactor: Option<Compactor>,
    /// Finds what space is free in a store that was open before, or removes what is over from a cache.
    sweeper: Option<Background>,
    /// Has the engine used by guests.
    serving: Option<Serving>,
    pool: Arc<pmem::Pool<Memory>>,
}

impl Counted {
    /// Compares the number of pairs with the one that was recorded when the pool was closed. If they differ, the pool
    /// is refused, unless it is open for reading only and `may_lack_pairs`: at once, or, if the engine is still
    /// building its sidecar, from the moment when that has counted them.
    pub(crate) fn new(
        body: Arc<dyn Body>,
        pool: &Arc<pmem::Pool<Memory>>,
        may_lack_pairs: bool,
    ) -> std::result::Result<Counted, OpenError> {
        let may_lack_pairs = may_lack_pairs && pool.is_read_only();
        if let Some((found, expected)) = pool.superblock().miscounted().filter(|_| !may_lack_pairs)
        {
            return Err(OpenError::Miscounted { found, expected });
        }
        if let Some(expected) = pool.recorded_pairs().filter(|_| !may_lack_pairs) {
            if body.is_built() {
                // A helper may be ending a resize already.
                let found = pool.at_rest(|| body.pairs());
                if found != expected {
                    return Err(OpenError::Miscounted { found, expected });
                }
            } else {
                let pool = Arc::clone(pool);
                body.when_built(Box::new(move |found| {
                    if !found.may_hold(expected) {
                        pool.refuse(Damage::Miscounted { found: found.slots, expected });
                    }
                }));
            }
        }
        pool.record_pairs(None);
        Ok(Counted::of(body, pool))
    }

    fn of(body: Arc<dyn Body>, pool: &Arc<pmem::Pool<Memory>>) -> Counted {
        let pool = Arc::clone(pool);
        Counted { body, compactor: None, sweeper: None, serving: None, pool }
    }

    /// That of a guest: the pool is another process's to record.
    pub(crate) fn of_guest(body: Arc<dyn Body>, pool: &Arc<pmem::Pool<Memory>>) -> Counted {
        Counted::of(body, pool)
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.body.pairs()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Before all: what was asked for is to be in the pool, or refused.
        drop(self.serving.take());
        // Once the sweeper has given up, nobody is to look for free space.
        self.compactor.iter().for_each(Compactor::stop);
        drop(self.sweeper.take());
        drop(self.compactor.take());
        // In a forked child a thread that does not exist there may hold a lock.
        if !self.pool.is_inherited() && !self.pool.is_read_only() {
            if let Some(records) = self.body.records() {
                records.prepare_close();
                // Before the log ends: it is to have what a closed pool holds.
                self.pool.medium().fence();
            }
            // Until it is closed the pool may not change; only the engine may be dropped.
            self.pool.record_pairs(self.pool.at_rest(|| self.body.pairs_to_record()));
        }
    }
}

impl Pool {
    pub(crate) fn new(engine: Counted, handle: Handle) -> Pool {
        Pool { engine, handle }
    }

    /// Starts what the options ask for in the background, if the pool is open for writing.
    pub(crate) fn start_background(
        &mut self,
        options: &Options,
    ) -> std::result::Result<(), OpenError> {
        let Counted { body, pool, compactor, sweeper, .. } = &mut self.engine;
        if pool.is_read_only() {
            return Ok(());
        }
        if body.has_background() {
            let (body, gate) = (Arc::clone(body), Arc::clone(pool.gate()));
            let work = move |is_stopped: &AtomicBool| body.run_background(&gate, is_stopped);
            let io = |source| OpenError::Io {
                action: "starting the thread that removes what is over in",
                path: "the cache".into(),
                source,
            };
            *sweeper = Some(Background::start("firndex-cache", work).map_err(io)?);
        } else if options.settings.helpers > 0
            && let Some(records) = body.records()
            && records.take_sweep_over()
        {
            let swept = Arc::clone(body);
            let sweep = move |is_stopped: &AtomicBool| {
                park_timeout(SWEEP_AFTER);
                swept.records().into_iter().for_each(|records| records.sweep(is_stopped));
            };
            match Background::start("firndex-sweeper", sweep) {
                Ok(started) => *sweeper = Some(started),
                Err(_) => records.sweep(&AtomicBool::new(false)),
            }
        }
        if options.compact_at > 0.0 {
            let (body, pool) = (Arc::clone(body), Arc::clone(pool));
            *compactor = Some(Compactor::start(body, pool, options.compact_at)?);
        }
        Ok(())
    }

    /// Lets guests in by this door, of what `served` has.
    pub(crate) fn serve(&mut self, served: Arc<dyn Served>, door: Door) -> Result<()> {
        let superblock = self.engine.pool.superblock();
        let hello = Hello {
            uuid: superblock.uuid,
            incarnation: superblock.incarnation,
            process: std::process::id(),
        };
        let serving = Serving::start(served, self.handle.rights(), door, hello);
        let io = |source| Error::Io { action: "letting guests in", source };
        self.engine.serving = Some(serving.map_err(io)?);
        Ok(())
    }

    /// Lets guests do nothing any more.
    pub(crate) fn serve_no_more(&mut self) {
        drop(self.engine.serving.take());
    }

    /// What this process is to the pool: its owner, unless another process owns the pool and lets this one use it
    /// ([`Options::guests`]).
    pub fn role(&self) -> Role {
        self.handle.role()
    }

    fn body(&self) -> &dyn Body {
        &*self.engine.body
    }

    /// The engine, while nothing is compacted in the background: what that has in hand would seem lost.
    fn checked(&self) -> CheckReport {
        let _held = self.engine.compactor.as_ref().map(Compactor::hold);
        self.body().check()
    }

    /// What closes the pool, without the engine.
    pub(crate) fn into_handle(self) -> Handle {
        let Pool { engine, handle } = self;
        drop(engine);
        handle
    }

    /// Number of pairs. It is exact when nothing writes; otherwise each change under way may be counted or not. It adds
    /// up per-thread counts and reads no pair. Only if the pool was not closed, and what an opening rebuilds is
    /// [still being built](Options::built_at_once_max), it waits for that. In a forked child it is about the number at
    /// the fork, or less if that was still being counted. In a guest whose owner does not answer
    /// ([`Options::patience`]) it is what it was when it was asked last, 0 at first.
    pub fn len(&self) -> u64 {
        self.body().pairs()
    }

    /// Whether there is no pair; as exact as [`Pool::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Figures of the pool: size, load factor, memory, log.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put(1, 10)?;
    /// let stats = table.stats()?;
    /// assert_eq!(stats.pairs, 1);
    /// assert!(stats.load_factor < 0.85 && stats.pool_bytes > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        if let Some(link) = self.handle.link() {
            return match link.figures()? {
                Some(figures) => self.handle.stats_of_guest(figures, self.len()),
                None => link.own_stats().unwrap_or(Err(Error::Interrupted)),
            };
        }
        let body = self.body();
        self.handle.look(|| {
            let (occupancy, heap) = (body.occupancy(), body.heap_use());
            let guests = self.engine.serving.as_ref().map_or(0, Serving::guests);
            Ok(Stats { guests, ..self.handle.stats(self.len(), occupancy, heap, body.scan_time()) })
        })
    }

    /// Verifies every pair and every invariant, and that no space is lost. If the pool is open read-only, it also
    /// verifies that the number of pairs is the one recorded when the pool was closed. Exact when nothing writes.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::<u64, u64>::in_memory()?;
    /// table.put(1, 10)?;
    /// let report = table.check()?;
    /// assert!(report.is_sound(), "{:#?}", report.findings);
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<CheckReport> {
        if let Some(checked) = self.handle.link().and_then(|link| link.own_check()) {
            return checked;
        }
        self.handle.look_at_file()?;
        self.handle.look_at_all(|| Ok(self.handle.checked(self.checked(), self.len())))
    }

    /// Halves the pool's index while other operations go on, in the calling thread, by rehashing a part of it or all.
    /// Returns `false` if the index has its first size, or is too full. Freed space stays with the pool for later
    /// growth; [`rewrite`](crate::Table::rewrite) makes the file smaller. [`Error::PoolFull`](crate::Error::PoolFull)
    /// means that there is no room for smaller levels, which some engines take before they give up the larger ones; the
    /// pool stays as it was. Some engines do not begin to shrink while somebody [iterates](crate::Table::iter), and
    /// return `false`.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// let table = firndex::Table::in_memory()?;
    /// table.extend((0..10_000).map(|key| (key, key)))?;
    /// let slots_before = table.stats()?.capacity;
    /// table.retain(|key, _| key < 10)?;
    /// while table.shrink()? {}
    /// assert!(table.stats()?.capacity < slots_before / 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shrink(&self) -> Result<bool> {
        self.handle.mutate_many(|| Ok(self.body().shrink()? == Shrunk::Halved))
    }

    /// Makes everything that has returned so far survive power loss. With a log (see [`Durability`](crate::Durability))
    /// this takes one write to the disk and stops nobody. Without a log, on [`Medium::Mapped`](crate::Medium::Mapped),
    /// it lasts until the next change, and writers wait while the last changes go to the device.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("ports.firn");
    /// let ports = firndex::Table::<u64, u64>::create(&path)?;
    /// ports.put(22, 1)?;
    /// ports.sync()?; // from here on this survives power loss
    /// # ports.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.handle.read()?;
        if !self.handle.is_logged() && self.handle.link().is_none() {
            self.body().settle();
        }
        self.handle.sync(&|| self.body().pairs())
    }

    /// Figures of the pool's log, if it has one. This is [`Stats::log`](crate::Stats::log) without the cost of counting
    /// the other figures.
    pub fn log(&self) -> Result<Option<LogUse>> {
        self.handle.log()
    }

    /// A ticket for everything that this thread has done or seen so far. It survives power loss as soon as
    /// [`Pool::durable_up_to`] has reached the ticket. Made for servers that answer their clients in groups.
    ///
    /// Fails with [`Error::NotLogged`](crate::Error::NotLogged) if the pool has no log to wait for: with durability
    /// `process`, opened read-only, or in memory. On [`Medium::Dax`](crate::Medium::Dax) everything that returned is
    /// durable, so no ticket waits.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts.firn");
    /// use firndex::{Durability, Options};
    ///
    /// let accounts = Options::new().durability(Durability::Periodic).open_or_create_table(&path)?;
    /// accounts.put(1, 100)?;
    /// accounts.put(2, 50)?;
    /// let ticket = accounts.ticket()?;
    /// accounts.wait_durable(ticket)?; // one write to the disk for both
    /// assert!(accounts.durable_up_to()? >= ticket);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ticket(&self) -> Result<Ticket> {
        self.handle.ticket()
    }

    /// The latest ticket up to which everything survives power loss. It fails as [`Pool::ticket`] does.
    pub fn durable_up_to(&self) -> Result<Ticket> {
        self.handle.durable_up_to()
    }

    /// Waits until everything up to `ticket` survives power loss. Writes it, if no other thread does.
    pub fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.handle.wait_durable(ticket)
    }

    /// Waits until everything that this thread has done or seen so far survives power loss. It fails as
    /// [`Pool::ticket`] does.
    pub fn commit(&self) -> Result<()> {
        self.handle.commit()
    }

    /// A future that is ready when everything up to `ticket` survives power loss, for asynchronous programs: as
    /// [`Pool::wait_durable`], but no thread waits, however many futures there are. It has the log written at once,
    /// whatever [`Options::durable_every`](crate::Options::durable_every) is. All that wait at the same time share one
    /// write.
    ///
    /// It ends with the error if the log cannot be written ([`Error::Log`]). It does not keep the pool from being
    /// closed, which makes everything durable, and so the future ready.
    ///
    /// With [`Durability::Commit`](crate::Durability::Commit) each change waits for the disk by itself. So use it with
    /// [`Durability::Periodic`](crate::Durability::Periodic).
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts.firn");
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use firndex::{Durability, Options};
    ///
    /// let accounts = Options::new().durability(Durability::Periodic).open_or_create_table(&path)?;
    /// accounts.put(1, 100)?;
    /// accounts.when_durable(accounts.ticket()?).await?;
    /// # firndex::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub fn when_durable(&self, ticket: Ticket) -> WhenDurable {
        self.handle.when_durable(ticket)
    }

    /// Why the pool was refused and made anew when it was opened, if it was: [`Options::reset_if_refused`].
    pub fn was_reset(&self) -> Option<&Error> {
        self.handle.reset()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("len", &self.len()).finish_non_exhaustive()
    }
}
