//! The module's state: the pool, where it stands in the stream, and what its changes mean to replicas.
//!
//! # Effects
//!
//! A change is made in the pool first, and then replicated as its effect: the whole new value with its end as an
//! absolute time, or a removal. Both happen while the server runs one command, so the order of effects in the stream is
//! their order in the pool. An effect that is made twice, with all that follow it, leaves the same state. Therefore a
//! copy that is made beside writers becomes right once the effects since its beginning are made in it.

use crate::api::{Level, Server, log, now_ms};
use crate::expiry::{Expiry, Sweeper};
use crate::names;
use crate::position::{Position, Stamp};
use crate::refusal::{Answer, Refusal};
use crate::settings::Settings;
use crate::slots::ClosedSlots;
use crate::value::Value;
use firndex::{OpenError, Record, Role, Store};
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The commands that carry effects.
pub(crate) const PUT: &CStr = c"FIRN.REPLPUT";
pub(crate) const REMOVE: &CStr = c"FIRN.REPLDEL";
pub(crate) const CLOSE: &CStr = c"FIRN.REPLSLOTS";

/// What an effect does.
pub(crate) enum Effect<'a> {
    /// Stores a value, with its header.
    Put(&'a [u8], &'a [u8]),
    Remove(&'a [u8]),
    /// Closes these slots, and opens all others.
    Slots(&'a [u8]),
}

/// What the server is loading, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loading {
    /// Its own snapshot or append-only file.
    Own,
    /// What its master sends.
    Masters,
}

/// The module's state.
pub(crate) struct Keeper {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) position: Position,
    /// Effects of this server are numbered in the current term.
    is_term_open: bool,
    /// The pool was made at this start, so a snapshot may have what belongs in it.
    pub(crate) is_fresh: bool,
    pub(crate) loading: Option<Loading>,
    /// Where the snapshot stood that was loaded at the start.
    pub(crate) snapshot: Option<Position>,
    pub(crate) expiry: Arc<Expiry>,
    sweeper: Option<Sweeper>,
    pub(crate) slots: ClosedSlots,
    /// The process that opened the pool; not a child's.
    pub(crate) process: u32,
    /// Effects that were missing in the stream. It is a mistake somewhere.
    pub(crate) gaps: u64,
    /// Effects that were in the pool already.
    pub(crate) skipped: u64,
    pub(crate) opening_ms: f64,
    buffer: Vec<u8>,
}

static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

/// Lets `run` use the module's state. The server runs one command at a time, so nobody else has it.
pub(crate) fn with<R>(run: impl FnOnce(&mut Keeper) -> Answer<R>) -> Answer<R> {
    let mut keeper = match KEEPER.try_lock() {
        Ok(keeper) => keeper,
        Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        // Waiting would never end: it is this thread that has it.
        Err(TryLockError::WouldBlock) => return Err(Refusal::Reentered),
    };
    match &mut *keeper {
        Some(keeper) => run(keeper),
        None => Err(Refusal::Reentered),
    }
}

/// Opens the pool. Its later users are [`with`]'s.
pub(crate) fn open(settings: Settings) -> Result<(), String> {
    let keeper = Keeper::open(settings).map_err(|refusal| refusal.to_string())?;
    *KEEPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
    Ok(())
}

/// A value in place.
pub(crate) struct Found<'a> {
    record: Record<'a>,
    pub(crate) ends_ms: Option<u64>,
    header_bytes: usize,
}

impl Found<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.record[self.header_bytes..]
    }
}

fn open_store(settings: &Settings) -> Answer<(Store, bool)> {
    let options = settings.options();
    let (store, is_new) = match options.open_store(&settings.path) {
        Ok(store) => (store, false),
        Err(firndex::Error::Open(OpenError::Missing { .. })) => {
            (options.create_store(&settings.path)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    if store.role() != Role::Owner {
        return Err(Refusal::Argument {
            found: format!("another process has the pool {} open", settings.path.display()),
            expected: "a pool for this server alone",
            advice: "give each server a path of its own",
        });
    }
    Ok((store, is_new))
}

impl Keeper {
    fn open(settings: Settings) -> Answer<Keeper> {
        let began = Instant::now();
        let (store, is_new) = open_store(&settings)?;
        let position = match store.get(names::POSITION)? {
            Some(bytes) => Position::from_bytes(&bytes),
            None if store.is_empty() => Some(Position::of_nothing()),
            None => None,
        };
        let Some(position) = position else {
            return Err(Refusal::Argument {
                found: format!("the pool {} is not this module's", settings.path.display()),
                expected: "one that it has made",
                advice: "give the module another path",
            });
        };
        let slots = ClosedSlots::read(&store)?;
        let expiry = Arc::new(Expiry::new(store.is_empty()));
        let mut keeper = Keeper {
            settings,
            store: Arc::new(store),
            position,
            is_term_open: false,
            is_fresh: is_new,
            loading: None,
            snapshot: None,
            expiry,
            sweeper: None,
            slots,
            process: std::process::id(),
            gaps: 0,
            skipped: 0,
            opening_ms: began.elapsed().as_secs_f64() * 1e3,
            buffer: Vec::new(),
        };
        keeper.record_position()?;
        keeper.start_sweeper();
        Ok(keeper)
    }

    fn start_sweeper(&mut self) {
        self.sweeper = Sweeper::start(Arc::clone(&self.store), Arc::clone(&self.expiry));
        if self.sweeper.is_none() {
            log(Level::Warning, "no thread can be started: keys with an end go when they are read");
        }
    }

    fn record_position(&mut self) -> Answer {
        self.store.put(names::POSITION, self.position.to_bytes())?;
        Ok(())
    }

    /// Refuses what cannot be answered now.
    pub(crate) fn admit(&self, key: &[u8]) -> Answer {
        if self.position.is_partial {
            return Err(Refusal::Partial);
        }
        self.slots.admit(key)
    }

    /// The same, for what is about all keys.
    pub(crate) fn admit_all(&self) -> Answer {
        if self.position.is_partial { Err(Refusal::Partial) } else { Ok(()) }
    }

    /// The value of a key, unless it is over.
    pub(crate) fn find(&self, key: &[u8]) -> Answer<Option<Found<'_>>> {
        self.admit(key)?;
        self.find_unasked(key)
    }

    /// The same, whether or not the key's slot is closed.
    pub(crate) fn find_unasked(&self, key: &[u8]) -> Answer<Option<Found<'_>>> {
        let Some(record) = self.store.get(names::stored(key))? else { return Ok(None) };
        let value = Value::read(&record).ok_or(FOREIGN)?;
        if value.ends_ms.is_some() && value.has_ended(now_ms()) {
            self.expiry.meet(key);
            return Ok(None);
        }
        let (ends_ms, header_bytes) = (value.ends_ms, record.len() - value.bytes.len());
        Ok(Some(Found { record, ends_ms, header_bytes }))
    }

    /// Keys of clients in the pool, those that are over and not removed yet included.
    pub(crate) fn len(&self) -> u64 {
        self.store.len().saturating_sub(1 + self.slots.records())
    }

    // As a master.

    /// The place of the next effect of this server.
    fn next_stamp(&mut self, server: Server) -> Answer<Stamp> {
        if !self.is_term_open {
            self.begin_term(server)?;
        }
        match self.position.last() {
            Some(Stamp { term, number }) => Ok(Stamp { term, number: number + 1 }),
            None => Err(Refusal::Reentered),
        }
    }

    fn begin_term(&mut self, server: Server) -> Answer {
        if !server.is_master() {
            return Err(Refusal::Replica);
        }
        // Random: no other server may ever have the same.
        let term = RandomState::new().hash_one(self.process);
        self.position.is_own = true;
        // Before the first effect, so that a pool with effects that no snapshot has says so.
        self.position.is_exact = false;
        self.position.advance(Stamp { term, number: 0 });
        self.record_position()?;
        self.is_term_open = true;
        Ok(())
    }

    /// Stores a value, as an effect of this server.
    pub(crate) fn put(&mut self, server: Server, key: &[u8], value: Value<'_>) -> Answer {
        let stamp = self.next_stamp(server)?;
        value.write(&mut self.buffer);
        self.store.put(names::stored(key), &self.buffer)?;
        self.position.advance(stamp);
        self.slots.changed(key);
        if let Some(ends_ms) = value.ends_ms {
            self.expiry.will_end(ends_ms);
        }
        server.replicate(PUT, [key, &stamped(stamp), &self.buffer]);
        Ok(())
    }

    /// Removes a key, as an effect of this server. Whether it was there.
    pub(crate) fn remove(&mut self, server: Server, key: &[u8]) -> Answer<bool> {
        let stamp = self.next_stamp(server)?;
        if self.store.remove(names::stored(key))?.is_none() {
            return Ok(false);
        }
        self.position.advance(stamp);
        self.slots.changed(key);
        server.replicate(REMOVE, [key, &stamped(stamp), &[]]);
        Ok(true)
    }

    /// Closes slots, or opens them, as an effect of this server.
    pub(crate) fn close_slots(
        &mut self,
        server: Server,
        slots: RangeInclusive<u16>,
        is_closed: bool,
    ) -> Answer {
        let stamp = self.next_stamp(server)?;
        let bits = self.slots.with(slots, is_closed);
        self.store.put(names::CLOSED_SLOTS, &bits)?;
        self.slots.set(&bits);
        self.position.advance(stamp);
        server.replicate(CLOSE, [&[], &stamped(stamp), &bits]);
        Ok(())
    }

    /// What a removed key leaves is the number of its effect, so the end of a term is recorded before the server ends.
    pub(crate) fn end_term(&mut self) -> Answer {
        if self.is_term_open {
            self.is_term_open = false;
            self.position.is_exact = true;
            self.record_position()?;
        }
        Ok(())
    }

    /// This server is no master any more, or is one from now on.
    pub(crate) fn change_role(&mut self, is_master: bool) {
        self.is_term_open = false;
        self.expiry.set_master(is_master);
    }

    // As a replica.

    /// Makes an effect of this server's master, unless the pool has it.
    pub(crate) fn apply(&mut self, stamp: Stamp, effect: Effect<'_>) -> Answer {
        if self.position.is_partial {
            return Err(Refusal::Partial);
        }
        if self.position.has(stamp) {
            self.skipped += 1;
            return Ok(());
        }
        if let Some(last) = self.position.last()
            && last.term == stamp.term
            && stamp.number != last.number + 1
        {
            self.gaps += 1;
            let (found, expected) = (stamp.number, last.number + 1);
            log(Level::Warning, &format!("the stream has effect {found}, expected {expected}"));
        }
        let made = match effect {
            Effect::Put(key, stored) => self.store.put(names::stored(key), stored).map(drop),
            Effect::Remove(key) => self.store.remove(names::stored(key)).map(drop),
            Effect::Slots(bits) => self.store.put(names::CLOSED_SLOTS, bits).map(drop),
        };
        if let Err(error) = made {
            // A replica without one of its master's effects must not answer as if it had it.
            self.position.is_partial = true;
            self.record_position().ok();
            log(Level::Warning, &format!("an effect of the master failed: {error}"));
            return Err(error.into());
        }
        if let Effect::Slots(bits) = effect {
            self.slots.set(bits);
        }
        self.position.advance(stamp);
        self.position.is_own = false;
        self.position.is_exact = true;
        // Behind the effect: if the server is killed in between, it is made once more.
        self.record_position()
    }

    // Loading.

    /// Puts an empty pool in place of this one, for what a master sends.
    pub(crate) fn replace_pool(&mut self) -> Answer {
        self.sweeper = None;
        // What no part of the module can see is in its place for a moment: the last handle must be closed first.
        let empty = Arc::new(Store::in_memory()?);
        let former = std::mem::replace(&mut self.store, empty);
        close(former)?;
        firndex::remove(&self.settings.path)?;
        let (store, _) = open_store(&self.settings)?;
        self.store = Arc::new(store);
        self.slots = ClosedSlots::read(&self.store)?;
        self.expiry.reset();
        self.position = Position::of_a_part();
        self.is_term_open = false;
        self.record_position()?;
        self.start_sweeper();
        Ok(())
    }

    /// The pool has all of a snapshot at `position`.
    pub(crate) fn is_at(&mut self, position: Position) -> Answer {
        self.position = position.into_copy();
        self.is_fresh = false;
        self.slots = ClosedSlots::read(&self.store)?;
        self.expiry.reset();
        self.record_position()
    }

    /// Takes a pool without keys for what it is: all of one.
    pub(crate) fn is_whole(&mut self) -> Answer {
        self.position.is_partial = false;
        self.record_position()
    }
}

/// The bytes of a stamp, as the commands for effects carry it.
fn stamped(stamp: Stamp) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&stamp.term.to_le_bytes());
    bytes[8..].copy_from_slice(&stamp.number.to_le_bytes());
    bytes
}

/// The stamp of these bytes.
pub(crate) fn stamp_of(bytes: &[u8]) -> Option<Stamp> {
    let ([term, number], []) = bytes.as_chunks::<8>() else { return None };
    Some(Stamp { term: u64::from_le_bytes(*term), number: u64::from_le_bytes(*number) })
}

pub(crate) const FOREIGN: Refusal = Refusal::Foreign { found: "it has no known header" };

/// Closes a pool once the threads that look at it have done so.
fn close(mut store: Arc<Store>) -> Answer {
    let mut told = Instant::now();
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => return Ok(store.close()?),
            Err(shared) => store = shared,
        }
        if told.elapsed() > Duration::from_secs(10) {
            log(Level::Notice, "waiting for a scan or a check of the pool to end");
            told = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
