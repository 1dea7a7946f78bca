//! A guest's way to whoever is the pool's owner, itself included.
//!
//! A request goes to the owner through a lane. If the owner ends, the guest that notices it first tries to open the
//! pool; the others find the new owner. What the former one had not begun is asked again. What it had begun may have
//! happened: a look-up is asked again, and a change fails with [`Error::Interrupted`], since nobody may make it twice.

use super::beside::Beside;
use super::figures::Figures;
use super::own::Own;
use super::seen::{Seen, Sights, Watch};
use super::waits::{Unanswered, Waits};
use super::wire::{Operation, Write, read_answer, read_log_use};
use crate::held::Held;
use crate::pool::Pool;
use crate::stats::Stats;
use crate::ticket::Ticket;
use crate::{Error, Options, Result, Role};
use index::CheckReport;
use pmem::OpenError;
use pmem::durability::{LogError, LogUse};
use pmem::file::{Located, Ownership, PoolFile};
use pmem::meeting::{Asked, LANES, Visit, VisitError};
use pmem::sync::{forks, thread_index};
use std::any::Any;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Pauses between tries to find or become the owner.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(8);
/// Lanes for what takes long.
const LANES_FOR_LONG: usize = LANES / 4;
/// How long a new owner may take to let a guest in, before that looks whether it is still there.
const LET_IN: Duration = Duration::from_millis(50);

/// Which pool it is, and how to own it.
pub(super) struct Whose {
    pub(super) path: PathBuf,
    pub(super) located: Located,
    pub(super) inode: u64,
    pub(super) uuid: u128,
    pub(super) ownership: Ownership,
    pub(super) options: Options,
    pub(super) own: fn(&Options, &std::path::Path) -> Result<Box<dyn Own>>,
}

/// A lane as its users see it, one at a time.
struct Place {
    lane: usize,
    /// With whom it is, and the number of that visit.
    visit: Option<(u64, Arc<Visit>)>,
    /// Somebody has given up waiting for an answer there.
    is_given_up: bool,
    request: Vec<u64>,
    answer: Vec<u64>,
}

impl Place {
    fn new(lane: usize) -> Place {
        Place { lane, visit: None, is_given_up: false, request: Vec::new(), answer: Vec::new() }
    }

    /// Whether something can be asked there.
    fn is_free(&self) -> bool {
        let is_answered = |(_, visit): &(u64, Arc<Visit>)| {
            visit.is_over() || visit.lane(self.lane).asked() == Asked::Answered
        };
        !self.is_given_up || self.visit.as_ref().is_none_or(is_answered)
    }
}

/// A guest's connection to a pool.
pub(crate) struct Link {
    whose: Whose,
    /// Set once this process is the owner, which it then remains.
    own: OnceLock<Box<dyn Own>>,
    places: Box<[Mutex<Place>]>,
    /// The visit under way, and its number.
    visit: Mutex<(u64, Arc<Visit>)>,
    visits: AtomicU64,
    /// What the owner shows on that visit.
    pub(super) sights: Arc<Sights>,
    watch: Mutex<Option<Watch>>,
    /// Held while this process looks for another owner.
    seeking: Mutex<()>,
    /// Numbers of scans.
    scans: AtomicU64,
    /// What [`Link::len`] said last.
    last_len: AtomicU64,
    /// Nobody is to wait any more.
    is_closing: AtomicBool,
    forks_at_open: u32,
}

impl Whose {
    /// What the owner shows on this visit, of the pool in the file of this inode. A page of that file that has gone
    /// ends who touches it: who wants to survive that asks.
    fn seen_on(&self, visit: &mut Visit, inode: u64) -> Option<Seen> {
        let view = visit.take_view().filter(|_| !self.options.survive_bus_errors)?;
        let size_max = |bytes| self.options.size_max(bytes);
        let (pool, _, found) = PoolFile::beside(&self.located, size_max).ok()?;
        Seen::on(visit.hello(), view, &Arc::new(pool)).filter(|_| found == inode)
    }
}

thread_local! {
    /// Why the thread's last look-up failed, where an engine's cannot, and by which link: see [`Link::keep`].
    static FAILURE: RefCell<Option<(usize, Error)>> = const { RefCell::new(None) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(whose: Whose, mut visit: Visit) -> Link {
        let seen = whose.seen_on(&mut visit, whose.inode);
        let (visit, sights) = (Arc::new(visit), Arc::new(Sights::none()));
        Link {
            watch: Mutex::new(sights.see_on(&visit, seen)),
            sights,
            whose,
            own: OnceLock::new(),
            places: (0..LANES).map(|lane| Mutex::new(Place::new(lane))).collect(),
            visit: Mutex::new((0, visit)),
            visits: AtomicU64::new(0),
            seeking: Mutex::new(()),
            scans: AtomicU64::new(0),
            last_len: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            forks_at_open: forks(),
        }
    }

    /// The pool of which this process has become the owner, if it has.
    pub(super) fn owned<T: Held>(&self) -> Option<&T> {
        self.own.get()?.as_any().downcast_ref()
    }

    /// Has `operation` done: by the owner, for which `write` adds its arguments to a request and `read` reads the
    /// answer; or, if this process is the owner, by `own`.
    pub(super) fn ask<'a, T: Held, R, E: From<Error>>(
        &'a self,
        operation: Operation,
        own: impl FnOnce(&'a T) -> std::result::Result<R, E>,
        write: impl FnOnce(&mut Vec<u64>),
        read: impl FnOnce(&[u64]) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let own = |pool: &'a dyn Own| match pool.as_any().downcast_ref() {
            Some(pool) => own(pool),
            None => Err(Error::Interrupted.into()),
        };
        self.ask_of_pool(operation, own, write, read)
    }

    /// The same for what can be asked of any pool.
    fn ask_of_pool<'a, R, E: From<Error>>(
        &'a self,
        operation: Operation,
        own: impl FnOnce(&'a dyn Own) -> std::result::Result<R, E>,
        write: impl FnOnce(&mut Vec<u64>),
        read: impl FnOnce(&[u64]) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        if forks() != self.forks_at_open {
            return Err(Error::Forked.into());
        }
        if self.own.get().is_none() {
            let mut place = self.place(operation);
            place.request.clear();
            place.request.operation(operation);
            write(&mut place.request);
            if self.have_done(operation, &mut place)? {
                return read(&place.answer);
            }
        }
        match self.own.get() {
            Some(pool) => own(&**pool),
            None => Err(Error::Interrupted.into()),
        }
    }

    /// A lane for the calling thread: its own, or another one where that is in use or given up. What takes long has
    /// lanes of its own, so that nothing else waits behind it.
    fn place(&self, operation: Operation) -> MutexGuard<'_, Place> {
        let (long, others) = self.places.split_at(LANES_FOR_LONG);
        let places = if operation.is_long() { long } else { others };
        let first = thread_index() % places.len();
        let in_turn = places[first..].iter().chain(&places[..first]);
        let mut free = in_turn.filter_map(|place| place.try_lock().ok());
        free.find(|place| place.is_free()).unwrap_or_else(|| locked(&places[first]))
    }

    /// Has the request of a place answered there. Returns whether that was done: not if this process has become the
    /// owner.
    fn have_done(&self, operation: Operation, place: &mut Place) -> Result<bool> {
        let patience = match operation {
            // It is over in any case.
            Operation::ScanOff => LET_IN.min(self.whose.options.patience),
            _ => self.whose.options.patience,
        };
        let mut seeks_since: Option<Instant> = None;
        while self.own.get().is_none() {
            let (number, visit) = self.meet(place);
            let process = visit.hello().process;
            if !place.is_free() {
                return Err(Error::Silent { process, waited: patience });
            }
            place.is_given_up = false;
            let lane = visit.lane(place.lane);
            let is_long = operation.is_long();
            let is_closing = &self.is_closing;
            let waits = Waits { visit: &visit, lane, patience, is_long, is_closing };
            match waits.transfer(&place.request, &mut place.answer) {
                Ok(()) => return Ok(true),
                Err(Unanswered::Closing) => {
                    place.is_given_up = !lane.withdraw();
                    return Err(Error::Log(LogError::Closed));
                }
                Err(Unanswered::Ended { has_begun }) => {
                    if has_begun && !operation.only_reads() {
                        return Err(Error::Interrupted);
                    }
                    let since = *seeks_since.get_or_insert_with(Instant::now);
                    // One who lets this guest in and out again is no better than one who is silent.
                    if since.elapsed() >= patience {
                        return Err(Error::Silent { process, waited: since.elapsed() });
                    }
                    self.seek(number, since)?;
                }
                Err(Unanswered::Silent { waited, is_taken_back }) => {
                    place.is_given_up = !is_taken_back;
                    return Err(Error::Silent { process, waited });
                }
            }
        }
        Ok(false)
    }

    /// The visit under way, with its number, of which the place uses a lane from now on.
    fn meet(&self, place: &mut Place) -> (u64, Arc<Visit>) {
        let number = self.visits.load(Ordering::Acquire);
        if let Some((of, visit)) = &place.visit
            && *of == number
        {
            return (number, Arc::clone(visit));
        }
        let (number, visit) = locked(&self.visit).clone();
        visit.use_lane(place.lane);
        place.is_given_up = false;
        place.visit = Some((number, Arc::clone(&visit)));
        (number, visit)
    }

    /// Becomes the owner, or finds another one than that of the visit of this number.
    #[cold]
    fn seek(&self, former: u64, since: Instant) -> Result<()> {
        let _seeking = locked(&self.seeking);
        let Whose { path, located, inode, uuid, ownership, options, own } = &self.whose;
        let mut pause = PAUSE_MIN;
        let mut refusal = None;
        loop {
            if self.own.get().is_some() || self.visits.load(Ordering::Acquire) != former {
                return Ok(());
            }
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(Error::Log(LogError::Closed));
            }
            if !options.never_own && refusal.is_none() {
                match own(options, path) {
                    Ok(pool) => return self.become_owner(pool),
                    // This process may have it by another handle.
                    Err(Error::Open(
                        OpenError::Busy { .. }
                        | OpenError::BusyLog { .. }
                        | OpenError::AlreadyOpen { .. },
                    )) => {}
                    Err(error) if concerns_this_process(&error) => refusal = Some(error),
                    Err(error) => return Err(error),
                }
            }
            // Another file may have taken the former one's place: a rewritten pool is the same one.
            let inode = located.inode().unwrap_or(*inode);
            match Visit::begin(located, inode, *uuid, *ownership, LET_IN) {
                Ok(mut visit) => {
                    let mut watch = locked(&self.watch);
                    // Whoever watches the former one is to take nothing back any more. It frees addresses, too.
                    drop(watch.take());
                    let seen = self.whose.seen_on(&mut visit, inode);
                    let visit = Arc::new(visit);
                    *watch = self.sights.see_on(&visit, seen);
                    *locked(&self.visit) = (former + 1, visit);
                    self.visits.store(former + 1, Ordering::Release);
                    return Ok(());
                }
                Err(VisitError::Nobody | VisitError::Silent) => {}
                Err(error) => return Err(refused(error)),
            }
            let waited = since.elapsed();
            if waited >= options.patience {
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                let process = locked(&self.visit).1.hello().process;
                return Err(Error::Silent { process, waited });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn become_owner(&self, pool: Box<dyn Own>) -> Result<()> {
        let found = pool.pool().handle.superblock()?.uuid;
        if found != self.whose.uuid {
            pool.close()?;
            let (found, expected) = (format!("{found:032x}"), format!("{:032x}", self.whose.uuid));
            let advice = "another pool has taken its place: open it anew";
            return Err(OpenError::Mismatch { field: "identity", found, expected, advice }.into());
        }
        drop(locked(&self.watch).take());
        // Nobody else does this: the lock of who seeks is held.
        let _ = self.own.set(pool);
        Ok(())
    }

    /// A number for a scan.
    pub(super) fn scan_number(&self) -> u64 {
        self.scans.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the owner that a scan is over before its end.
    pub(super) fn end_scan(&self, number: u64) {
        // One that is not told ends with the visit.
        let _ = self.done(Operation::ScanOff, |_| Ok(()), &[number]);
    }

    /// The answer of a look-up that cannot fail, where an engine does it; for [`Link::failure`] if it has failed.
    pub(super) fn keep<T>(&self, found: Result<T>) -> Option<T> {
        found.map_err(|error| FAILURE.set(Some((self.address(), error)))).ok()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Number of pairs; what it was last if the owner does not say.
    pub(crate) fn len(&self) -> u64 {
        let own = |pool: &dyn Own| Ok(pool.pool().len());
        let said: Result<u64> = self.ask_of_pool(
            Operation::Len,
            own,
            |_| {},
            |answer| Ok(read_answer(answer)?.word()?),
        );
        match said {
            Ok(pairs) => {
                self.last_len.store(pairs, Ordering::Relaxed);
                pairs
            }
            Err(_) => self.last_len.load(Ordering::Relaxed),
        }
    }

    /// A word that the owner's pool says.
    fn word(
        &self,
        operation: Operation,
        own: impl FnOnce(&Pool) -> Result<u64>,
        arguments: &[u64],
    ) -> Result<u64> {
        self.ask_of_pool(
            operation,
            |pool| own(pool.pool()),
            |request| request.extend(arguments),
            |answer| Ok(read_answer(answer)?.word()?),
        )
    }

    /// The same where nothing is said but that it is done.
    fn done(
        &self,
        operation: Operation,
        own: impl FnOnce(&Pool) -> Result<()>,
        arguments: &[u64],
    ) -> Result<()> {
        self.ask_of_pool(
            operation,
            |pool| own(pool.pool()),
            |request| request.extend(arguments),
            |answer| read_answer(answer).map(drop),
        )
    }

    pub(crate) fn shrink(&self) -> Result<bool> {
        self.word(Operation::Shrink, |pool| Ok(pool.shrink()?.into()), &[]).map(|done| done != 0)
    }

    /// How full the owner's table is, for [`Link::failure`] if it does not say.
    pub(super) fn occupancy(&self) -> index::Occupancy {
        self.keep(self.figures()).flatten().map_or_else(Default::default, |all| all.occupancy)
    }
}

impl Beside for Link {
    fn role(&self) -> Role {
        if self.own.get().is_some() { Role::Owner } else { Role::Guest }
    }

    fn own(&self) -> Option<&dyn Any> {
        Some(self.own.get()?.as_any())
    }

    fn own_stats(&self) -> Option<Result<Stats>> {
        Some(self.own.get()?.pool().stats())
    }

    fn own_check(&self) -> Option<Result<CheckReport>> {
        Some(self.own.get()?.pool().check())
    }

    fn mode(&self) -> u32 {
        self.whose.ownership.mode()
    }

    fn failure(&self) -> Result<()> {
        if forks() != self.forks_at_open {
            return Err(Error::Forked);
        }
        match FAILURE.take() {
            Some((link, error)) if link == self.address() => Err(error),
            _ => Ok(()),
        }
    }

    fn ticket(&self) -> Result<Ticket> {
        self.word(Operation::Ticket, |pool| Ok(pool.ticket()?.0), &[]).map(Ticket)
    }

    fn durable_up_to(&self) -> Result<Ticket> {
        self.word(Operation::DurableUpTo, |pool| Ok(pool.durable_up_to()?.0), &[]).map(Ticket)
    }

    fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.done(Operation::WaitDurable, |pool| pool.wait_durable(ticket), &[ticket.0])
    }

    fn sync(&self) -> Result<()> {
        self.done(Operation::Sync, Pool::sync, &[])
    }

    fn log(&self) -> Result<Option<LogUse>> {
        self.ask_of_pool(
            Operation::LogUse,
            |pool| pool.pool().log(),
            |_| {},
            |answer| Ok(read_log_use(&mut read_answer(answer)?)?),
        )
    }

    fn figures(&self) -> Result<Option<Figures>> {
        self.ask_of_pool(
            Operation::Figures,
            |_| Ok(None),
            |_| {},
            |answer| Ok(Some(Figures::read(&mut read_answer(answer)?)?)),
        )
    }

    fn end_waits(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    fn close(self: Arc<Self>) -> Result<()> {
        self.is_closing.store(true, Ordering::Relaxed);
        let mut link = self;
        loop {
            match Arc::try_unwrap(link) {
                Ok(link) => return link.own.into_inner().map_or(Ok(()), Own::close),
                Err(shared) => link = shared,
            }
            std::thread::sleep(PAUSE_MIN);
        }
    }
}

/// Whether a refusal to open the pool may be another process's success: so others are waited for.
fn concerns_this_process(refusal: &Error) -> bool {
    matches!(
        refusal,
        Error::Io { .. }
            | Error::Open(
                OpenError::OthersFile { .. }
                    | OpenError::NotWritable { .. }
                    | OpenError::NoRightToLog { .. }
                    | OpenError::LogElsewhere { .. }
                    | OpenError::Io { .. }
            )
    )
}

/// Why a guest cannot visit.
pub(super) fn refused(error: VisitError) -> Error {
    match error {
        VisitError::Stranger { found, expected } => {
            let advice = "use the same version in all processes that share a pool";
            OpenError::Mismatch { field: "owner", found, expected, advice }.into()
        }
        VisitError::Io(source) => Error::Io { action: "meeting the pool's owner", source },
        VisitError::Forbidden => {
            let source = std::io::ErrorKind::PermissionDenied.into();
            Error::Io { action: "meeting the pool's owner", source }
        }
        VisitError::Nobody | VisitError::Silent => Error::Interrupted,
    }
}
