//! CCEH: Nam, Cha, Choi, Noh and Nam, Write-Optimized Dynamic Hashing for Persistent Memory, FAST 2019.
//!
//! ```text
//!  root: directory at | log2 of its entries            the offset's low bits are free
//!  directory: one word for each prefix of hashes, the segment that has them
//!  segment: header, buckets                            lines; 256 buckets, 16 KB, save in tests
//!  header: prefix, 1, 0 … 0, lock                      a word, the lock is its lowest bit
//!  bucket: 4 × (key, value)                            a line
//! ```
//!
//! The high bits of a key's hash choose the segment, the low ones its bucket there; the key lies in that bucket or in
//! one of the three behind it. If all are full, the segment is split. Half of the pairs are copied to a sibling, the
//! entries of the directory that are to lead there are changed, and then the segment's prefix gets one bit more: from
//! then on those pairs are stale where they were, and their slots free. If there is only one entry, the directory is
//! copied to one of twice the size first. A look-up takes no lock: it reads a pair in one step, and then the header,
//! which says whether the segment still had the key.
//!
//! # Departures
//!
//! 1. The entries of the directory are durable before the prefix changes, and nobody changes the sibling before the
//!    prefix is durable. In the published code the depth comes first: after a crash between them, recovery takes the
//!    split for done, and half of the keys are nowhere. As the prefix alone decides, the entries may change in any
//!    order.
//! 2. Prefix and lock are one word, so whoever takes the lock knows that the segment has the key. The published code
//!    reads depth and pattern first, and stores them one after another.
//! 3. A segment's writers exclude each other. In the published code they share its lock, claim slots, and do not look
//!    for the key: two insertions of a key store it twice.
//! 4. Look-ups take no lock. (In the paper's variant that splits in place they share the segment's, which is a store to
//!    its header. There a look-up may wait for a split.)
//! 5. A look-up that finds its segment locked makes what it has read durable. The published code flushes a pair after
//!    the lock is given back.
//! 6. A pair moves in a split at most to a slot before its own. The published code may find none for a pair that lies
//!    at the segment's begin since its buckets are the last ones, and drops it.
//! 7. The new directory becomes visible once the root is durable. The published code has a place between where a crash
//!    leaves none.
//! 8. A lock that a crash has left taken is released, and tells what a killed process may not have made durable: only
//!    such segments are flushed by whoever opens the table. A split that was not completed is undone, and its sibling
//!    leaked.
//! 9. Key 0 marks a free slot, since memory is zero, and lies beside the table. (The paper has two marks.)
//! 10. Old directories are not given back. All together are smaller than the present one.

use super::ground::Placed;
use super::{Ground, Scheme, Shape, Step};
use pmem::sync::{AtomicU64, Mutex, Ordering, fence, spin};
use pmem::{LINE, Medium, Offset, SpaceError, WORD};

/// log2 of a segment's buckets, as the paper has it.
pub(super) const PART_LOG2: u32 = 8;
/// Slots of a bucket.
const SLOTS: u64 = 4;
/// Buckets in which a key may lie.
const PROBED: u64 = 4;

/// The key of a free slot.
const EMPTY: u64 = 0;

/// log2 of the segments of a table that takes `pairs` before it grows, as a rule: at most a third of the slots are in
/// use then. Most segments are split at more than half, but the first one of many earlier.
pub(super) fn size_log2(pairs: u64) -> u32 {
    (3 * pairs).div_ceil(SLOTS << PART_LOG2).next_power_of_two().ilog2()
}

/// The hashes of a segment: those that begin with a prefix. A one follows it, and zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Prefix(u64);

impl Prefix {
    const LOCK: u64 = 1;

    /// The prefix `number` of so many bits.
    fn new(number: u64, bits: u32) -> Prefix {
        Prefix((number << 1 | 1) << (u64::BITS - 1 - bits))
    }

    fn from_header(header: u64) -> Prefix {
        Prefix(header & !Prefix::LOCK)
    }

    fn locked(self) -> u64 {
        self.0 | Prefix::LOCK
    }

    /// The one behind the prefix.
    #[inline(always)]
    fn end(self) -> u64 {
        self.0 & self.0.wrapping_neg()
    }

    fn bits(self) -> u32 {
        u64::BITS - 1 - self.0.trailing_zeros()
    }

    /// The bits of a hash that are not the prefix's.
    #[inline(always)]
    fn rest(self) -> u64 {
        self.end() | (self.end() - 1)
    }

    fn first(self) -> u64 {
        self.0 & !self.rest()
    }

    fn last(self) -> u64 {
        self.0 | self.rest()
    }

    #[inline(always)]
    fn has(self, hash: u64) -> bool {
        (self.0 ^ hash) & !self.rest() == 0
    }

    fn halves(self) -> [Prefix; 2] {
        let end = self.end() >> 1;
        [Prefix(self.first() | end), Prefix(self.0 | end)]
    }
}

/// The directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Directory(Placed);

impl Directory {
    fn log2(self) -> u32 {
        self.0.log2()
    }

    fn bytes(self) -> u64 {
        WORD << self.log2()
    }

    fn entry(self, number: u64) -> Offset {
        self.0.at().word(number)
    }

    #[inline(always)]
    fn number_of(self, hash: u64) -> u64 {
        hash >> 1 >> (u64::BITS - 1 - self.log2())
    }

    /// The entries for a prefix: where they begin, and how many there are.
    fn entries(self, prefix: Prefix) -> (Offset, u64) {
        (self.entry(self.number_of(prefix.first())), 1 << (self.log2() - prefix.bits()))
    }

    #[inline(always)]
    fn segment<M: Medium>(self, ground: &Ground<M>, hash: u64) -> Offset {
        Offset(ground.medium().load(self.entry(self.number_of(hash))))
    }
}

/// The scheme.
pub struct Cceh {
    directory: AtomicU64,
    /// Buckets of a segment.
    buckets: u64,
    segments: AtomicU64,
    resizes: AtomicU64,
    /// Held by the thread that changes the directory.
    changing: Mutex<()>,
}

fn slots(bucket: Offset) -> impl Iterator<Item = Offset> {
    (0..SLOTS).map(move |number| bucket.word(2 * number))
}

/// A segment's header as it is now. What was read in the segment before is older.
#[inline(always)]
fn header<M: Medium>(ground: &Ground<M>, segment: Offset) -> (Prefix, bool) {
    let header = ground.medium().load(segment);
    (Prefix::from_header(header), header & Prefix::LOCK != 0)
}

/// Releases a segment, of which every change is behind a fence.
fn unlock<M: Medium>(ground: &Ground<M>, segment: Offset, prefix: Prefix) {
    ground.medium().store(segment, prefix.0);
}

/// Makes durable what was read in these buckets of a locked segment. If it is not locked, whoever stored that has done
/// it before.
#[cold]
fn make_durable<M: Medium>(ground: &Ground<M>, buckets: impl Iterator<Item = Offset>) {
    buckets.for_each(|bucket| ground.medium().flush(bucket));
    ground.medium().fence();
}

impl Cceh {
    fn over(directory: Directory, shape: &Shape, segments: u64) -> Cceh {
        Cceh {
            directory: AtomicU64::new(directory.0.word()),
            buckets: 1 << shape.part_log2,
            segments: AtomicU64::new(segments),
            resizes: AtomicU64::new(0),
            changing: Mutex::new(()),
        }
    }

    #[inline(always)]
    fn directory(&self) -> Directory {
        Directory(Placed::of_word(self.directory.load(Ordering::Acquire)))
    }

    fn segment_bytes(&self) -> u64 {
        (1 + self.buckets) * LINE
    }

    /// The bucket that a hash chooses.
    #[inline(always)]
    fn home(&self, hash: u64) -> u64 {
        hash & (self.buckets - 1)
    }

    #[inline(always)]
    fn bucket(&self, segment: Offset, number: u64) -> Offset {
        segment.add((1 + (number & (self.buckets - 1))) * LINE)
    }

    fn slot(&self, segment: Offset, number: u64) -> Offset {
        self.bucket(segment, number / SLOTS).word(2 * (number % SLOTS))
    }

    fn all_buckets(&self, segment: Offset) -> impl Iterator<Item = Offset> {
        (0..self.buckets).map(move |number| self.bucket(segment, number))
    }

    /// The buckets in which a key with this hash may lie.
    #[inline(always)]
    fn probed(&self, segment: Offset, hash: u64) -> impl Iterator<Item = Offset> {
        let home = self.home(hash);
        (0..PROBED.min(self.buckets)).map(move |step| self.bucket(segment, home + step))
    }

    #[inline(always)]
    fn find<M: Medium>(
        &self,
        ground: &Ground<M>,
        segment: Offset,
        (hash, key): (u64, u64),
    ) -> Option<(Offset, u64)> {
        for at in self.probed(segment, hash).flat_map(slots) {
            let (there, value) = ground.medium().load_pair(at);
            if there == key {
                return Some((at, value));
            }
        }
        None
    }

    /// The first slot for a key with this hash that is empty or has a stale pair.
    fn free<M: Medium>(
        &self,
        ground: &Ground<M>,
        segment: Offset,
        prefix: Prefix,
        hash: u64,
    ) -> Option<Offset> {
        self.probed(segment, hash).flat_map(slots).find(|&at| {
            let there = ground.medium().load(at);
            there == EMPTY || !prefix.has(ground.hasher().first_u64(there))
        })
    }

    /// Locks the segment that has this hash.
    fn lock<M: Medium>(&self, ground: &Ground<M>, hash: u64) -> (Offset, Prefix) {
        let mut turn = 0;
        loop {
            let segment = self.directory().segment(ground, hash);
            let (prefix, is_locked) = header(ground, segment);
            if !is_locked
                && prefix.has(hash)
                && ground.medium().compare_exchange(segment, prefix.0, prefix.locked()).is_ok()
            {
                return (segment, prefix);
            }
            spin(&mut turn);
        }
    }

    /// Splits a segment that the caller has locked, and releases it. An error has changed no pair, and not released it.
    #[cold]
    fn split<M: Medium>(
        &self,
        ground: &Ground<M>,
        segment: Offset,
        prefix: Prefix,
    ) -> Result<(), SpaceError> {
        let medium = ground.medium();
        self.deepen(ground, prefix.bits() + 1)?;
        let sibling = ground.allocate(self.segment_bytes())?;
        let [kept, moved] = prefix.halves();
        self.copy(ground, segment, sibling, moved);
        // Nobody may change it while the split can still be undone.
        medium.store(sibling, moved.locked());
        ground.flush(sibling, self.segment_bytes());
        // Whoever meets an entry meets what it leads to. It need not be durable yet: until the prefix changes, a crash
        // undoes the split.
        fence(Ordering::Release);
        {
            let _held = self.changing.lock();
            let (first, count) = self.directory().entries(moved);
            (0..count).rev().for_each(|number| medium.store(first.word(number), sibling.0));
            ground.flush(first, count * WORD);
            medium.fence();
        }
        medium.store(segment, kept.locked());
        medium.persist(segment);
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.resizes.fetch_add(1, Ordering::Relaxed);
        unlock(ground, sibling, moved);
        unlock(ground, segment, kept);
        Ok(())
    }

    /// Copies the pairs that `moved` has to a new segment, each to a slot of its buckets, but not behind its own. That
    /// one is free when its turn comes.
    fn copy<M: Medium>(&self, ground: &Ground<M>, from: Offset, to: Offset, moved: Prefix) {
        let medium = ground.medium();
        for number in 0..self.buckets * SLOTS {
            let (key, value) = medium.load_pair(self.slot(from, number));
            let hash = ground.hasher().first_u64(key);
            if key == EMPTY || !moved.has(hash) {
                continue;
            }
            // None if it lies at the segment's begin since its own buckets are the last ones.
            let mut before = self.home(hash) * SLOTS..number;
            let earlier = before.find(|&number| medium.load(self.slot(to, number)) == EMPTY);
            let at = self.slot(to, earlier.unwrap_or(number));
            medium.store(at, key);
            medium.store(at.word(1), value);
        }
    }

    /// Doubles the directory until it distinguishes so many bits.
    fn deepen<M: Medium>(&self, ground: &Ground<M>, bits: u32) -> Result<(), SpaceError> {
        let medium = ground.medium();
        let _held = self.changing.lock();
        let old = self.directory();
        if old.log2() >= bits {
            return Ok(());
        }
        let new = Directory(Placed::new(ground.allocate(2 * old.bytes())?, old.log2() + 1));
        for number in 0..1 << new.log2() {
            medium.store(new.entry(number), medium.load(old.entry(number / 2)));
        }
        ground.flush(new.entry(0), new.bytes());
        medium.fence();
        medium.store(ground.root(), new.0.word());
        medium.persist(ground.root());
        self.directory.store(new.0.word(), Ordering::Release);
        Ok(())
    }

    /// Visits the segments in order, with their prefixes and whether they are locked, while nobody changes them.
    fn walk<M: Medium>(&self, ground: &Ground<M>, mut visit: impl FnMut(Offset, Prefix, bool)) {
        let directory = self.directory();
        let mut hash = Some(0);
        while let Some(from) = hash {
            let segment = directory.segment(ground, from);
            let (prefix, is_locked) = header(ground, segment);
            visit(segment, prefix, is_locked);
            hash = prefix.last().checked_add(1);
        }
    }

    fn check_pairs<M: Medium>(
        &self,
        ground: &Ground<M>,
        segment: Offset,
        prefix: Prefix,
    ) -> Result<(), String> {
        for bucket in self.all_buckets(segment) {
            for at in slots(bucket) {
                let key = ground.medium().load(at);
                let hash = ground.hasher().first_u64(key);
                let is_stale = key == EMPTY || !prefix.has(hash);
                if !is_stale && !self.probed(segment, hash).any(|probed| probed == bucket) {
                    return Err(format!("key {key:#x} at {at} is in none of its buckets"));
                }
            }
        }
        Ok(())
    }
}

impl<M: Medium> Scheme<M> for Cceh {
    const MARK: Option<u64> = Some(EMPTY);

    fn create(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let count = 1 << shape.size_log2;
        let at = ground.allocate(WORD << shape.size_log2)?;
        let directory = Directory(Placed::new(at, shape.size_log2));
        let scheme = Cceh::over(directory, shape, count);
        let segments = ground.allocate(count * scheme.segment_bytes())?;
        for number in 0..count {
            let segment = segments.add(number * scheme.segment_bytes());
            medium.store(segment, Prefix::new(number, shape.size_log2).0);
            medium.flush(segment);
            medium.store(directory.entry(number), segment.0);
        }
        ground.flush(at, directory.bytes());
        medium.store(ground.root(), directory.0.word());
        medium.persist(ground.root());
        Ok(scheme)
    }

    fn open(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let directory = Directory(Placed::of_word(medium.load(ground.root())));
        let mut scheme = Cceh::over(directory, shape, 0);
        let (mut segments, mut locked) = (0, Vec::new());
        scheme.walk(ground, |segment, prefix, is_locked| {
            segments += 1;
            // Those of a split that was not completed. If a crash takes that away, it is done anew.
            let (first, count) = directory.entries(prefix);
            for entry in (1..count).map(|number| first.word(number)) {
                if medium.load(entry) != segment.0 {
                    medium.store(entry, segment.0);
                }
            }
            if is_locked {
                ground.flush(segment, scheme.segment_bytes());
                locked.push((segment, prefix));
            }
        });
        // Before a lock is released: without it, nobody knows what to flush.
        medium.fence();
        locked.into_iter().for_each(|(segment, prefix)| unlock(ground, segment, prefix));
        scheme.segments = AtomicU64::new(segments);
        Ok(scheme)
    }

    #[inline]
    fn get(&self, ground: &Ground<M>, key: u64) -> Option<u64> {
        let hash = ground.hasher().first_u64(key);
        loop {
            let segment = self.directory().segment(ground, hash);
            let found = self.find(ground, segment, (hash, key));
            let (prefix, is_locked) = header(ground, segment);
            // Otherwise it was split, and the directory says where the key is.
            if prefix.has(hash) {
                match found {
                    _ if !is_locked => {}
                    Some((at, _)) => make_durable(ground, [at].into_iter()),
                    None => make_durable(ground, self.probed(segment, hash)),
                }
                return Some(found?.1);
            }
        }
    }

    fn change(
        &self,
        ground: &Ground<M>,
        key: u64,
        mut decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError> {
        let medium = ground.medium();
        let hash = ground.hasher().first_u64(key);
        loop {
            let (segment, prefix) = self.lock(ground, hash);
            let found = self.find(ground, segment, (hash, key));
            let before = found.map(|(_, value)| value);
            match (decide(before), found) {
                (Step::Put(value), Some((at, _))) => {
                    medium.store(at.word(1), value);
                    medium.persist(at);
                }
                (Step::Put(value), None) => match self.free(ground, segment, prefix, hash) {
                    Some(at) => {
                        medium.store_pair(at, key, value);
                        medium.persist(at);
                    }
                    None => {
                        let split = self.split(ground, segment, prefix);
                        split.inspect_err(|_| unlock(ground, segment, prefix))?;
                        continue;
                    }
                },
                (Step::Remove, Some((at, _))) => {
                    medium.store(at, EMPTY);
                    medium.persist(at);
                }
                (Step::Keep, _) | (Step::Remove, None) => {}
            }
            unlock(ground, segment, prefix);
            return Ok(before);
        }
    }

    fn for_each(&self, ground: &Ground<M>, visit: &mut dyn FnMut(u64, u64)) {
        let medium = ground.medium();
        let mut pairs = Vec::new();
        let mut hash = Some(0);
        while let Some(from) = hash {
            let segment = self.directory().segment(ground, from);
            pairs.clear();
            let buckets = self.all_buckets(segment);
            pairs.extend(buckets.flat_map(slots).map(|at| medium.load_pair(at)));
            let (prefix, is_locked) = header(ground, segment);
            if !prefix.has(from) {
                continue;
            }
            if is_locked {
                make_durable(ground, self.all_buckets(segment));
            }
            for &(key, value) in &pairs {
                if key != EMPTY && prefix.has(ground.hasher().first_u64(key)) {
                    visit(key, value);
                }
            }
            hash = prefix.last().checked_add(1);
        }
    }

    fn capacity(&self, _ground: &Ground<M>) -> u64 {
        self.segments.load(Ordering::Relaxed) * self.buckets * SLOTS
    }

    fn bytes(&self, _ground: &Ground<M>) -> u64 {
        self.segments.load(Ordering::Relaxed) * self.segment_bytes() + self.directory().bytes()
    }

    fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::Relaxed)
    }

    fn check(&self, ground: &Ground<M>) -> Result<(), String> {
        let directory = self.directory();
        if directory.0.word() != ground.medium().load(ground.root()) {
            return Err("the root leads to another directory".into());
        }
        let (mut segments, mut number) = (Vec::new(), 0);
        while number < 1 << directory.log2() {
            let segment = Offset(ground.medium().load(directory.entry(number)));
            let end = segment.0.saturating_add(self.segment_bytes());
            if segment.0 == 0 || !segment.0.is_multiple_of(LINE) || end > ground.used() {
                return Err(format!("entry {number} leads to {segment}, where no segment is"));
            }
            let (prefix, is_locked) = header(ground, segment);
            if is_locked || prefix.0 == 0 || prefix.bits() > directory.log2() {
                return Err(format!("the segment at {segment} has the header {prefix:x?}"));
            }
            let (first, count) = directory.entries(prefix);
            if first != directory.entry(number) {
                return Err(format!("entry {number} leads to {segment}, which has {prefix:x?}"));
            }
            let mut others = (0..count).map(|entry| ground.medium().load(first.word(entry)));
            if let Some(other) = others.find(|&other| other != segment.0) {
                return Err(format!("an entry of {segment} leads to {other:#x}"));
            }
            self.check_pairs(ground, segment, prefix)?;
            segments.push(segment.0);
            number += count;
        }
        let counted = self.segments.load(Ordering::Relaxed);
        if segments.len() as u64 != counted {
            return Err(format!("there are {} segments, {counted} were counted", segments.len()));
        }
        segments.sort_unstable();
        let overlap = segments.windows(2).find(|two| two[1] - two[0] < self.segment_bytes());
        overlap.map_or(Ok(()), |two| Err(format!("the segments at {two:x?} overlap")))
    }
}
