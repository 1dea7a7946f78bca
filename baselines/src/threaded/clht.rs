//! CLHT with locks: David, Guerraoui and Trigonakis, Asynchronized Concurrency, ASPLOS 2015, section 6; made
//! persistent as P-CLHT in Lee et al., RECIPE, SOSP 2019, section 5.
//!
//! ```text
//!  root: buckets at | log2 of their number             the offset's low bits are free
//!  bucket: lock, next, 3 × (key, value)                a line
//! ```
//!
//! A key's bucket is chosen by the low bits of its hash. A full bucket gets another one behind it. A look-up takes no
//! lock. Whoever changes a bucket or what is behind it locks it. Once as many buckets were appended as the table has,
//! one thread locks all of them, copies the pairs to a table of twice the size, and puts that one in place. Locks of
//! the old table stay taken, and tell those who wait for them to look for the new table.
//!
//! # Departures
//!
//! 1. Key and value are neighbours, and a look-up reads them as a pair. The published code reads value, key, and value
//!    again. If the slot was given to another key with that same value in between, it returns a value that its key
//!    never had.
//! 2. A look-up that finds its bucket locked makes what it has read durable. In RECIPE's code it may return a value
//!    that a crash then takes away.
//! 3. The new table becomes visible once the root is durable. If it were before, a change of it that has returned
//!    could be lost with the root.
//! 4. A lock that a crash has left taken is released. RECIPE's code keeps it (it is in persistent memory).
//! 5. Slots are not cleared when a table is made: memory is zero. Key 0 lies beside the table, since it marks a free
//!    slot.
//! 6. Old tables are not given back. All together are smaller than the present one.
//! 7. The table never shrinks, nobody helps to copy it, and no statistics are kept that would make it grow for a single
//!    long chain.

use super::ground::Placed;
use super::{Ground, Scheme, Shape, Step};
use pmem::sync::{AtomicU64, Mutex, Ordering, spin};
use pmem::{LINE, Medium, Offset, SpaceError};

/// Slots of a bucket.
const SLOTS: u64 = 3;
/// Where a bucket's words are.
const LOCK: u64 = 0;
const NEXT: u64 = 1;
const FIRST_SLOT: u64 = 2;

/// States of a lock.
const FREE: u64 = 0;
const TAKEN: u64 = 1;
/// Taken for ever: the table has been copied, or is being.
const COPIED: u64 = 2;

/// The key of a free slot.
const EMPTY: u64 = 0;

/// log2 of the buckets of a table that takes `pairs` before it grows: three of four slots are in use then, at worst.
pub(super) fn size_log2(pairs: u64) -> u32 {
    (pairs / SLOTS + 1).next_power_of_two().ilog2()
}

/// The buckets of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buckets(Placed);

impl Buckets {
    fn count(self) -> u64 {
        self.0.len()
    }

    #[inline(always)]
    fn bucket(self, number: u64) -> Offset {
        self.0.at().add(number * LINE)
    }

    fn all(self) -> impl Iterator<Item = Offset> {
        (0..self.count()).map(move |number| self.bucket(number))
    }

    #[inline(always)]
    fn of<M: Medium>(self, ground: &Ground<M>, key: u64) -> Offset {
        self.bucket(ground.hasher().first_u64(key) & (self.count() - 1))
    }
}

/// The scheme.
pub struct Clht {
    buckets: AtomicU64,
    /// Buckets that were appended in the present table.
    appended: AtomicU64,
    resizes: AtomicU64,
    /// Held by the thread that copies the table.
    resizing: Mutex<()>,
}

/// What a bucket and those behind it say about a key.
struct Search {
    found: Option<(Offset, u64)>,
    /// The first free slot.
    free: Option<Offset>,
    last: Offset,
}

fn slot(bucket: Offset, number: u64) -> Offset {
    bucket.word(FIRST_SLOT + 2 * number)
}

/// A bucket and those behind it.
fn chain<M: Medium>(ground: &Ground<M>, first: Offset) -> impl Iterator<Item = Offset> {
    std::iter::successors(Some(first), |bucket| {
        let next = ground.medium().load(bucket.word(NEXT));
        (next != 0).then_some(Offset(next))
    })
}

fn search<M: Medium>(ground: &Ground<M>, first: Offset, key: u64) -> Search {
    let mut search = Search { found: None, free: None, last: first };
    for bucket in chain(ground, first) {
        search.last = bucket;
        for at in (0..SLOTS).map(|number| slot(bucket, number)) {
            match ground.medium().load_pair(at) {
                (there, value) if there == key => {
                    search.found = Some((at, value));
                    return search;
                }
                (EMPTY, _) if search.free.is_none() => search.free = Some(at),
                _ => {}
            }
        }
    }
    search
}

/// Stores a pair of a key that is absent; whether a bucket had to be appended. What is stored is flushed and fenced if
/// others may see it.
fn store<M: Medium>(
    ground: &Ground<M>,
    Search { free, last, .. }: Search,
    (key, value): (u64, u64),
    is_seen: bool,
) -> Result<bool, SpaceError> {
    let medium = ground.medium();
    let persist = |at| {
        if is_seen {
            medium.persist(at);
        }
    };
    if let Some(at) = free {
        medium.store_pair(at, key, value);
        persist(at);
        return Ok(false);
    }
    let bucket = ground.allocate(LINE)?;
    let at = slot(bucket, 0);
    medium.store(at, key);
    medium.store(at.word(1), value);
    // Before anything leads there, or a crash could leave the link alone.
    persist(bucket);
    medium.store(last.word(NEXT), bucket.0);
    persist(last);
    Ok(true)
}

impl Clht {
    fn over(buckets: Buckets, appended: u64) -> Clht {
        Clht {
            buckets: AtomicU64::new(buckets.0.word()),
            appended: AtomicU64::new(appended),
            resizes: AtomicU64::new(0),
            resizing: Mutex::new(()),
        }
    }

    #[inline(always)]
    fn buckets(&self) -> Buckets {
        Buckets(Placed::of_word(self.buckets.load(Ordering::Acquire)))
    }

    /// Copies the table to one of twice the size, if nobody else does. Without room for that, chains become longer.
    fn resize<M: Medium>(&self, ground: &Ground<M>, old: Buckets) {
        let Some(_held) = self.resizing.try_lock() else { return };
        if self.buckets() != old {
            return;
        }
        let log2 = old.0.log2() + 1;
        let Ok(at) = ground.allocate(LINE << log2) else { return };
        let new = Buckets(Placed::new(at, log2));
        for bucket in old.all() {
            ground.lock(bucket.word(LOCK), [FREE, COPIED, COPIED]);
        }
        let Ok(appended) = copy(ground, old, new) else {
            // They were never to be given back.
            for bucket in old.all() {
                ground.medium().store(bucket.word(LOCK), FREE);
            }
            return;
        };
        ground.medium().store(ground.root(), new.0.word());
        ground.medium().persist(ground.root());
        self.appended.store(appended, Ordering::Relaxed);
        self.resizes.fetch_add(1, Ordering::Relaxed);
        self.buckets.store(new.0.word(), Ordering::Release);
    }
}

/// Copies all pairs to a table that nobody sees yet, durably. Returns how many buckets were appended there.
fn copy<M: Medium>(ground: &Ground<M>, old: Buckets, new: Buckets) -> Result<u64, SpaceError> {
    let mut appended = 0;
    let mut copied = Ok(());
    for first in old.all() {
        visit_chain(ground, first, |pair| {
            if copied.is_ok() {
                let first = new.of(ground, pair.0);
                let stored = store(ground, search(ground, first, pair.0), pair, false);
                copied = stored.map(|is_appended| appended += u64::from(is_appended));
            }
        });
    }
    copied?;
    new.all().for_each(|first| flush_chain(ground, first));
    ground.medium().fence();
    Ok(appended)
}

/// Makes durable what was read in a bucket and those behind it. If the lock is free, whoever stored that has done it
/// before. A table that is being copied does not change any more.
#[inline(always)]
fn make_durable<M: Medium>(ground: &Ground<M>, first: Offset) {
    if ground.medium().load(first.word(LOCK)) == TAKEN {
        flush_chain(ground, first);
        ground.medium().fence();
    }
}

#[cold]
fn flush_chain<M: Medium>(ground: &Ground<M>, first: Offset) {
    chain(ground, first).for_each(|bucket| ground.medium().flush(bucket));
}

fn visit_chain<M: Medium>(ground: &Ground<M>, first: Offset, mut visit: impl FnMut((u64, u64))) {
    for bucket in chain(ground, first) {
        for number in 0..SLOTS {
            let pair = ground.medium().load_pair(slot(bucket, number));
            if pair.0 != EMPTY {
                visit(pair);
            }
        }
    }
}

impl<M: Medium> Scheme<M> for Clht {
    const MARK: Option<u64> = Some(EMPTY);

    fn create(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let at = ground.allocate(LINE << shape.size_log2)?;
        let buckets = Buckets(Placed::new(at, shape.size_log2));
        ground.medium().store(ground.root(), buckets.0.word());
        ground.medium().persist(ground.root());
        Ok(Clht::over(buckets, 0))
    }

    fn open(ground: &Ground<M>, _shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let buckets = Buckets(Placed::of_word(medium.load(ground.root())));
        let mut appended = 0;
        for first in buckets.all() {
            medium.store(first.word(LOCK), FREE);
            let chained = chain(ground, first).inspect(|&bucket| medium.flush(bucket));
            appended += chained.count() as u64 - 1;
        }
        medium.fence();
        Ok(Clht::over(buckets, appended))
    }

    #[inline]
    fn get(&self, ground: &Ground<M>, key: u64) -> Option<u64> {
        let first = self.buckets().of(ground, key);
        let found = search(ground, first, key).found;
        make_durable(ground, first);
        Some(found?.1)
    }

    fn change(
        &self,
        ground: &Ground<M>,
        key: u64,
        mut decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError> {
        let medium = ground.medium();
        let mut turn = 0;
        let (buckets, first) = loop {
            let buckets = self.buckets();
            let first = buckets.of(ground, key);
            if ground.lock(first.word(LOCK), [FREE, TAKEN, COPIED]) {
                break (buckets, first);
            }
            spin(&mut turn);
        };
        let search = search(ground, first, key);
        let found = search.found;
        let before = found.map(|(_, value)| value);
        let changed = match (decide(before), found) {
            (Step::Put(value), Some((at, _))) => {
                medium.store(at.word(1), value);
                medium.persist(at);
                Ok(false)
            }
            (Step::Put(value), None) => store(ground, search, (key, value), true),
            (Step::Remove, Some((at, _))) => {
                medium.store(at, EMPTY);
                medium.persist(at);
                Ok(false)
            }
            (Step::Keep, _) | (Step::Remove, None) => Ok(false),
        };
        // With the lock held: who copies the table has all locks before it counts anew, and would not know of this one.
        let count = || self.appended.fetch_add(1, Ordering::Relaxed) + 1;
        let appended = matches!(changed, Ok(true)).then(count);
        medium.store_release(first.word(LOCK), FREE);
        changed?;
        if appended.is_some_and(|appended| appended >= buckets.count()) {
            self.resize(ground, buckets);
        }
        Ok(before)
    }

    fn for_each(&self, ground: &Ground<M>, visit_pair: &mut dyn FnMut(u64, u64)) {
        let mut pairs = Vec::new();
        for first in self.buckets().all() {
            visit_chain(ground, first, |pair| pairs.push(pair));
            make_durable(ground, first);
            pairs.drain(..).for_each(|(key, value)| visit_pair(key, value));
        }
    }

    fn capacity(&self, ground: &Ground<M>) -> u64 {
        self.bytes(ground) / LINE * SLOTS
    }

    fn bytes(&self, _ground: &Ground<M>) -> u64 {
        (self.buckets().count() + self.appended.load(Ordering::Relaxed)) * LINE
    }

    fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::Relaxed)
    }

    fn check(&self, ground: &Ground<M>) -> Result<(), String> {
        let buckets = self.buckets();
        let mut chained = 0;
        for first in buckets.all() {
            let lock = ground.medium().load(first.word(LOCK));
            if lock != FREE {
                return Err(format!("the bucket at {first} is locked: {lock}"));
            }
            chained += chain(ground, first).count() as u64;
        }
        let counted = buckets.count() + self.appended.load(Ordering::Relaxed);
        if chained != counted {
            return Err(format!("{chained} buckets are linked, {counted} were counted"));
        }
        Ok(())
    }
}
