//! What every call of a table or a store goes through: whether the pool may be used, and what its changes wait for.

use crate::durability::next_durability;
use crate::guests::{Beside, Figures, Rights};
use crate::shapes::Shapes;
use crate::ticket::{Ticket, Tickets};
use crate::{BatchError, Engine, Error, Kind, Medium, Result, Role, Stats};
use index::{CheckReport, Done, Occupancy, Unfinished};
use pmem::durability::{Durability, Durable, HoldError, LogError, LogUse, SafeCopy};
use pmem::file::PoolFile;
use pmem::heap::HeapUse;
use pmem::medium::{Medium as _, MediumKind, Memory};
use pmem::pool::Gate;
use pmem::superblock::Superblock;
use pmem::sync::{Asymmetric, Lapsed, Numbered, Renewal};
use pmem::{OpenError, Pool, Write};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// The pool under a table or store. To be dropped after the engine.
///
/// In a guest it is a mapping of the pool's file that is only read, and everything that waits for the log, or ends it,
/// goes by the link to the owner.
pub(crate) struct Handle {
    /// In a guest, the way to the owner.
    link: Option<Arc<dyn Beside>>,
    /// Its threads use the pool, and end first.
    durable: Option<Durable>,
    /// Whether each mutation waits until it survives power loss.
    commits: bool,
    /// Whether sums of the file are still to be written.
    keeps_sums: bool,
    pool: Arc<Pool<Memory>>,
    tickets: Tickets,
    /// The pool's.
    gate: Arc<Gate>,
    forks_at_open: u32,
    /// [`upheavals`](pmem::sync::upheavals) that are known not to concern the pool. Nobody else reads it, so how
    /// its stores are ordered does not matter.
    upheavals: AtomicU64,
    /// They give the engine's leased operations, as long as nothing disturbs the handle.
    renewals: [Option<Renewal>; 2],
    /// Whether a page may vanish and be read as zeros.
    is_watched: bool,
    engine: Engine,
    recovery: Duration,
    /// Why the pool was made anew, if it was.
    reset: Option<Box<Error>>,
    /// Holds the lock; dropped last.
    file: Option<PoolFile>,
}

impl Handle {
    /// `renewals` are those of the [engine](crate::any_engine::AnyEngine::take_renewals).
    pub(crate) fn new(
        pool: Arc<Pool<Memory>>,
        durable: Option<Durable>,
        file: Option<PoolFile>,
        engine: Engine,
        renewals: [Option<Renewal>; 2],
        recovery: Duration,
    ) -> Handle {
        let gate = Arc::clone(pool.gate());
        let superblock = pool.superblock();
        let logged = superblock.logged().filter(|_| durable.is_some());
        Handle {
            link: None,
            tickets: Tickets::of(superblock.incarnation),
            commits: logged.is_some_and(|logged| logged.durability == Durability::Commit),
            durable,
            keeps_sums: pool.superblock().keeps_sums() && !pool.is_read_only(),
            pool,
            gate,
            forks_at_open: pmem::sync::forks(),
            // None: a page may have vanished already.
            upheavals: AtomicU64::new(u64::MAX),
            renewals,
            is_watched: false,
            engine,
            recovery,
            reset: None,
            file,
        }
    }

    /// The handle of a guest. Its mapping of the pool is read-only; whether it may have changes made is another thing.
    pub(crate) fn of_guest(
        pool: Arc<Pool<Memory>>,
        engine: Engine,
        link: Arc<dyn Beside>,
        read_only: bool,
        took: Duration,
    ) -> Result<Handle> {
        let reserve = |source| Error::Io { action: "reserving memory", source };
        let gate = match read_only {
            true => Arc::clone(pool.gate()),
            false => Arc::new(Gate::open().map_err(reserve)?),
        };
        let mut handle = Handle::new(pool, None, None, engine, [None, None], took);
        handle.gate = gate;
        handle.link = Some(link);
        // Every call looks whether it has failed where an engine's does not.
        handle.watch();
        Ok(handle)
    }

    /// What this process is to the pool.
    pub(crate) fn role(&self) -> Role {
        self.link.as_ref().map_or(Role::Owner, |link| link.role())
    }

    /// In a guest, the way to the owner.
    pub(crate) fn link(&self) -> Option<&dyn Beside> {
        self.link.as_deref()
    }

    /// The same, for who may outlive the handle.
    pub(crate) fn shared_link(&self) -> Option<Arc<dyn Beside>> {
        self.link.clone()
    }

    /// Refuses what only the owner can do with a handle that it has opened as such.
    pub(crate) fn demand_owner(&self, what: &'static str, advice: &'static str) -> Result<()> {
        match &self.link {
            Some(link) if link.own().is_some() => {
                let advice = "it was one when it opened the pool: open it anew to call it";
                Err(Error::ForOwner { what, advice })
            }
            Some(_) => Err(Error::ForOwner { what, advice }),
            None => Ok(()),
        }
    }

    /// What serving guests takes.
    pub(crate) fn rights(&self) -> Rights {
        Rights {
            pool: Arc::clone(&self.pool),
            log: self.durable.as_ref().map(Durable::attendant),
            commits: self.commits,
            recovery: self.recovery,
            tickets: self.tickets,
        }
    }

    /// The epoch of the log to wait for, for what a ticket says.
    pub(crate) fn epoch_of(&self, ticket: Ticket, durable: &Durable) -> u64 {
        self.tickets.epoch(ticket.0, durable.ticket())
    }

    /// Whether there was a fork or a bus error that nobody has looked into yet: it may concern this pool. Or the pool
    /// is [watched](Handle::watch). Then go on in another function, which calls [`Handle::read`]: a call on the hot
    /// path would cost it registers.
    #[inline(always)]
    pub(crate) fn is_disturbed(&self) -> bool {
        pmem::sync::upheavals() != self.upheavals.load(Ordering::Relaxed)
    }

    /// Makes every call look for lost pages, before and after what it does: what it reads may be zeros for them.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
        self.renewals = [None, None];
    }

    /// Refuses a handle that a forked child has inherited, and one of a pool that has lost a page of its file.
    #[inline(always)]
    pub(crate) fn read(&self) -> Result<()> {
        if self.is_disturbed() { self.look_around() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn look_around(&self) -> Result<()> {
        if let Some(link) = &self.link {
            return link.failure();
        }
        let upheavals = pmem::sync::upheavals();
        // A pool is marked before its loss is counted.
        fence(Ordering::Acquire);
        let lapsed = self.renewals.each_ref().map(|renewal| renewal.as_ref().map(Renewal::begin));
        if pmem::sync::forks() != self.forks_at_open {
            return Err(Error::Forked);
        }
        if let Some(damage) = self.pool.damage() {
            return Err(OpenError::from(damage).into());
        }
        if self.pool.has_failed() {
            let file_bytes = self.file.as_ref().and_then(|file| file.len().ok());
            let pool_bytes = self.pool.medium().size();
            return Err(Error::Vanished { file_bytes: file_bytes.unwrap_or(0), pool_bytes });
        }
        if !self.is_watched {
            self.upheavals.store(upheavals, Ordering::Relaxed);
            lapsed.into_iter().flatten().for_each(Lapsed::renew);
        }
        Ok(())
    }

    /// The answer of a call that only reads, if the pool has lost no page meanwhile.
    pub(crate) fn look<R>(&self, look: impl FnOnce() -> Result<R>) -> Result<R> {
        self.read()?;
        let found = look();
        // The loss is counted before the zeros can be read.
        fence(Ordering::Acquire);
        self.read()?;
        found
    }

    /// The same of a call that reads everything.
    pub(crate) fn look_at_all<R>(&self, look: impl FnOnce() -> Result<R>) -> Result<R> {
        self.read_ahead();
        self.look(look)
    }

    /// Says that everything is about to be read.
    pub(crate) fn read_ahead(&self) {
        if self.link.is_some() {
            return;
        }
        let medium = self.pool.medium();
        medium.read_ahead(0..medium.size());
    }

    /// The right to mutate for one operation.
    #[inline(always)]
    pub(crate) fn write(&self) -> Result<Write<'_>> {
        self.read()?;
        self.enter()
    }

    /// The same, of a handle that is not [disturbed](Handle::is_disturbed).
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Write<'_>> {
        if let Some(durable) = &self.durable {
            durable.admit()?;
        }
        match self.gate.enter() {
            Some(write) => Ok(write),
            None => Ok(self.pool.write()?),
        }
    }

    /// The right to mutate for one leased change.
    #[inline(always)]
    pub(crate) fn enter_here(&self, thread: Numbered, asymmetric: Asymmetric) -> Option<Write<'_>> {
        self.gate.enter_here(thread, asymmetric)
    }

    /// Makes a change, and with durability `commit` waits until it survives power loss.
    #[inline(always)]
    pub(crate) fn mutate<R>(&self, mutate: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.is_disturbed() {
            return self.mutate_disturbed(mutate);
        }
        let write = self.enter()?;
        let result = mutate()?;
        self.end(write)?;
        Ok(result)
    }

    #[cold]
    #[inline(never)]
    fn mutate_disturbed<R>(&self, mutate: impl FnOnce() -> Result<R>) -> Result<R> {
        let write = self.write()?;
        let ended = match mutate() {
            Ok(result) => self.end(write).map(|()| result),
            Err(error) => Err(error),
        };
        // What was read as zeros may have been the cause of the result.
        self.read()?;
        ended
    }

    /// As [`Handle::mutate`], for a batch of so many entries. Those that took effect before an error survive power loss
    /// as those of a whole batch do.
    #[inline(always)]
    pub(crate) fn mutate_batch<R, E: Into<Error>>(
        &self,
        entries: usize,
        mutate: impl FnOnce() -> std::result::Result<R, Unfinished<E>>,
    ) -> std::result::Result<R, BatchError> {
        let write = self.write().map_err(|error| BatchError::none(entries, error))?;
        match mutate() {
            Ok(result) => match self.end(write) {
                Ok(()) => Ok(result),
                Err(error) => Err(BatchError::after(entries, Done::first(entries), error)),
            },
            Err(unfinished) => Err(self.end_unfinished(write, BatchError::of(entries, unfinished))),
        }
    }

    #[cold]
    #[inline(never)]
    fn end_unfinished(&self, write: Write<'_>, error: BatchError) -> BatchError {
        let done = error.entries_done();
        let ended = if done.count() == 0 {
            drop(write);
            Ok(())
        } else {
            self.end(write)
        };
        // What was read as zeros may have been the cause.
        match ended.and_then(|()| self.read()) {
            Ok(()) => error,
            Err(lost) => BatchError::after(error.entries(), done, lost),
        }
    }

    /// As [`Handle::mutate`], for what changes no single key.
    #[inline(always)]
    pub(crate) fn mutate_many<R>(&self, mutate: impl FnOnce() -> Result<R>) -> Result<R> {
        let write = self.write()?;
        let result = mutate()?;
        self.end(write)?;
        self.read()?;
        Ok(result)
    }

    /// Ends a mutation as [`Handle::mutate`] does. For those that are compiled into their callers, which a closure may
    /// not be.
    #[inline(always)]
    pub(crate) fn end(&self, write: Write<'_>) -> Result<()> {
        // A checkpoint waits for threads with the right to write, and this thread may wait for the checkpoint.
        drop(write);
        if self.commits { self.commit() } else { Ok(()) }
    }

    /// The log's. `None` where everything that returned survives without one. An error where nothing that is waited for
    /// would ever survive.
    pub(crate) fn durable(&self) -> Result<Option<&Durable>> {
        self.read()?;
        match (&self.durable, self.pool.medium().kind()) {
            (None, MediumKind::Mapped | MediumKind::Dram) => Err(Error::NotLogged),
            (durable, _) => Ok(durable.as_ref()),
        }
    }

    /// The pool's superblock, if this process may use the handle.
    pub(crate) fn superblock(&self) -> Result<Superblock> {
        self.read()?;
        Ok(self.pool.superblock())
    }

    /// The shapes that a table records.
    pub(crate) fn shapes(&self) -> Shapes {
        Shapes::from_note(self.pool.note(), &self.pool.superblock())
    }

    /// As [`Durable::hold`]; an error if there is no log.
    pub(crate) fn hold<R>(
        &self,
        read: impl FnOnce(SafeCopy) -> R,
    ) -> std::result::Result<R, HoldError> {
        match &self.durable {
            Some(durable) => durable.hold(read),
            None => Err(HoldError::Log(LogError::Closed)),
        }
    }

    pub(crate) fn log(&self) -> Result<Option<LogUse>> {
        if let Some(link) = &self.link {
            return link.log();
        }
        self.read()?;
        Ok(self.durable.as_ref().map(Durable::usage))
    }

    /// As [`Pool::ticket`](crate::Pool::ticket).
    pub(crate) fn ticket(&self) -> Result<Ticket> {
        if let Some(link) = &self.link {
            return link.ticket();
        }
        Ok(self.tickets.ticket(self.durable()?.map_or(0, Durable::ticket)))
    }

    pub(crate) fn durable_up_to(&self) -> Result<Ticket> {
        if let Some(link) = &self.link {
            return link.durable_up_to();
        }
        let durable = |durable: &Durable| self.tickets.durable(durable.durable_up_to());
        Ok(self.durable()?.map_or_else(|| self.tickets.ticket(0), durable))
    }

    pub(crate) fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        if let Some(link) = &self.link {
            return link.wait_durable(ticket);
        }
        match self.durable()? {
            Some(durable) => self.look(|| Ok(durable.wait(self.epoch_of(ticket, durable))?)),
            None => Ok(()),
        }
    }

    #[inline(never)]
    pub(crate) fn commit(&self) -> Result<()> {
        self.wait_durable(self.ticket()?)
    }

    /// Writes the rest of the log, ends it, and closes the pool; whether each succeeded.
    fn finish(&mut self) -> (Result<()>, io::Result<()>) {
        let Some(durable) = self.durable.take() else { return (Ok(()), self.pool.close()) };
        let logged = durable.wait(durable.ticket());
        let is_whole = logged.is_ok();
        durable.prepare_end();
        let closed = self.pool.close_logged(|| durable.end().filter(|_| is_whole));
        if !is_whole && closed.is_ok() {
            // A log that could not be written to its end is older than the pool, which is clean by now. The next
            // opening must not use it. If this fails, too, that still makes a new checkpoint. Only power loss before
            // that goes back.
            let _ = self.pool.set_logged(None);
        }
        (logged.map_err(Into::into), closed)
    }

    pub(crate) fn set_reset(&mut self, refusal: Error) {
        self.reset = Some(refusal.into());
    }

    pub(crate) fn reset(&self) -> Option<&Error> {
        self.reset.as_deref()
    }

    /// Whether a sync is no more than a wait for the log.
    pub(crate) fn is_logged(&self) -> bool {
        self.durable.is_some()
    }

    pub(crate) fn sync(&self, count: &dyn Fn() -> u64) -> Result<()> {
        if let Some(link) = &self.link {
            return link.sync();
        }
        self.read()?;
        if self.is_logged() {
            return self.commit();
        }
        let io = |source| Error::Io { action: "syncing the pool", source };
        self.look(|| self.pool.sync_counted(&|| Some(count())).map_err(io))
    }

    pub(crate) fn file(&self) -> Option<&PoolFile> {
        self.file.as_ref()
    }

    /// Gives away the file, whose lock lasts as long as the file is kept.
    pub(crate) fn take_file(&mut self) -> Option<PoolFile> {
        self.file.take()
    }

    pub(crate) fn close(mut self) -> Result<()> {
        if let Some(link) = self.link.take() {
            return link.close();
        }
        self.read()?;
        let (logged, closed) = self.finish();
        self.read()?;
        // A pool that is closed in its file needs no log, unless that file is in memory.
        logged?;
        closed.map_err(|source| Error::Io { action: "closing the pool", source })?;
        self.write_sums().map_err(|source| Error::Io { action: "writing the pool's sums", source })
    }

    /// Writes sums of the file of a pool that is closed, if it is to have some.
    fn write_sums(&mut self) -> io::Result<()> {
        match &self.file {
            Some(file) if std::mem::take(&mut self.keeps_sums) => {
                file.write_sums(&self.pool.superblock())
            }
            _ => Ok(()),
        }
    }

    /// Changes whether sums of the file are written when the pool is closed, if the options say something of it.
    pub(crate) fn keep_sums(&mut self, keeps: Option<bool>) -> Result<()> {
        let Some(keeps) = keeps.filter(|_| !self.pool.is_read_only() && self.file.is_some()) else {
            return Ok(());
        };
        let marked = self.pool.set_keeps_sums(keeps);
        marked.map_err(|source| Error::Io { action: "marking the pool", source })?;
        self.keeps_sums = keeps;
        Ok(())
    }

    /// Refuses the pool from now on if another program has written over its file.
    pub(crate) fn look_at_file(&self) -> Result<()> {
        self.demand_owner("`check`", "call it there, or end that process and call it here")?;
        self.read()?;
        // The pool says that it has failed if so.
        let _ = self.pool.look_at_file();
        self.read()
    }

    /// Adds to `report` whether the pool has the recorded number of pairs. A pool with another number is never open for
    /// writing.
    pub(crate) fn checked(&self, report: CheckReport, pairs: u64) -> CheckReport {
        // First in the list, whose length is limited.
        let mut whole = CheckReport::default();
        let miscounted = self.pool.superblock().miscounted().map(|(_, expected)| expected);
        if self.pool.is_read_only()
            && let Some(expected) = miscounted.or(self.pool.recorded_pairs())
            && pairs != expected
        {
            whole.fault(&|| {
                format!("{pairs} pairs were found, and the pool had {expected} when it was closed")
            });
        }
        whole.merge(report);
        whole
    }

    /// Of a guest, with what the owner says.
    pub(crate) fn stats_of_guest(&self, figures: Figures, pairs: u64) -> Result<Stats> {
        let log = self.log()?;
        let Figures { occupancy, heap, scan_time, .. } = figures;
        Ok(Stats {
            pool_bytes: figures.pool_bytes,
            incarnation: figures.incarnation,
            durability: figures.durability,
            recovery_ms: figures.recovery.as_secs_f64() * 1e3,
            guests: figures.guests,
            log,
            ..self.stats(pairs, occupancy, heap, scan_time)
        })
    }

    /// The caller has checked the handle already, since its arguments took locks.
    pub(crate) fn stats(
        &self,
        pairs: u64,
        occupancy: Occupancy,
        heap: HeapUse,
        scan_time: Duration,
    ) -> Stats {
        let superblock = self.pool.superblock();
        let bytes = occupancy.pool_bytes() + occupancy.sidecar_bytes() + heap.pool_bytes;
        Stats {
            kind: Kind::of(superblock.kind),
            engine: self.engine,
            medium: match self.pool.medium().kind() {
                MediumKind::Dram => Medium::Dram,
                MediumKind::Mapped => Medium::Mapped,
                MediumKind::Dax => Medium::Dax,
            },
            pairs,
            capacity: occupancy.capacity,
            load_factor: occupancy.load_factor(),
            resizing: occupancy.resizing,
            resizes: occupancy.resizes,
            cached: occupancy.cached,
            pool_bytes: self.pool.medium().size(),
            sidecar_bytes: occupancy.sidecar_bytes(),
            heap_bytes: heap.pool_bytes,
            heap_used_bytes: heap.used_bytes,
            heap_vacant_bytes: heap.vacant_bytes,
            bytes_per_pair: bytes as f64 / pairs.max(1) as f64,
            role: self.role(),
            guests: 0,
            incarnation: superblock.incarnation,
            uuid: superblock.uuid,
            durability: match (superblock.logged(), &self.file) {
                (Some(logged), _) => logged.durability,
                (None, Some(file)) if self.pool.is_read_only() => {
                    next_durability(&superblock, || file.is_in_memory())
                }
                (None, _) => Durability::Process,
            },
            log: self.durable.as_ref().map(Durable::usage),
            recovery_ms: self.recovery.as_secs_f64() * 1e3,
            scan_ms: scan_time.as_secs_f64() * 1e3,
            levels: occupancy.levels,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.iter().for_each(|link| link.end_waits());
        let is_own = pmem::sync::forks() == self.forks_at_open;
        if is_own && self.durable.is_some() {
            // Failed writes were reported to who waited for them.
            let _ = self.finish();
        }
        if is_own && self.keeps_sums && self.pool.close().is_ok() {
            // Without them a later check knows less; nobody is left to tell.
            let _ = self.write_sums();
        }
    }
}
