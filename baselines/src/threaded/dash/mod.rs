//! Dash extendible hashing: Lu, Hao, Wang and Lo, Dash: Scalable Hashing on Persistent Memory, VLDB 2020, section 4.
//!
//! ```text
//!  root: directory at | log2 of its entries, opening        a line; the offset's low bits are free
//!  directory: 2^depth × (opening (8 bits) | segment at)     by the high bits of the hash
//!  segment: state | buckets | 2 buckets of the stash        state: a line; a bucket: 256 bytes, at a multiple of that
//!  bucket: a header of 32 bytes, 14 × (key, value)          see bucket.rs
//! ```
//!
//! A key's home is bucket b of its segment. Its pair is there or in b + 1, in the emptier of both. If both are full, a
//! pair of b + 1 moves to b + 2, or one of b to b - 1; then the stash is used, and the home keeps a note of that, so
//! that a look-up of an absent key does not have to look there. If the stash is full, too, the segment is split, and
//! the directory doubles if that needs more bits of the hash.
//!
//! A look-up writes nothing: it reads the version of the home before and after. Whoever changes a key, or moves it,
//! has locked its home, and has made everything durable when that is unlocked. So a look-up never meets a change that
//! is not durable. Pairs are durable before the bitmap says that they are there.
//!
//! A segment is recovered when it is first met after an opening: its directory entries then say the present opening.
//! Locks and notes of the stash need not be durable, since they are made anew.
//!
//! # Departures
//!
//! 1. A look-up verifies the version of the home after everything that it has read. The published code does not look
//!    at any version again once it has read the stash: it returns a value that is not durable yet, or misses a key that
//!    has moved. That of the next bucket does not matter, for the home of a pair that moves is locked, too.
//! 2. A displaced pair's slot is freed durably before another pair is stored there.
//! 3. A sibling is linked once it is complete and durable, by one word that also says that the segment is being split.
//!    Recovery ends such a split. What was made before that is leaked, so no state of a new segment is needed. The
//!    paper links it first.
//! 4. Directory entries lead to the sibling once the link is durable, and a new directory is used once the root is
//!    durable. Old directories are not given back; all together are smaller than the present one.
//! 5. In a sibling, pairs are in the same slots as before, so all find room. Only those of the stash are placed anew.
//! 6. One thread recovers a segment at a time, and others that meet one wait.
//! 7. When the opening's byte is used up, it is taken out of all entries. There is no mark of a clean end, which would
//!    save the recovery.
//! 8. Pairs in a bucket are counted by its bitmap. Segments are never merged.

mod bucket;
mod openings;
mod segment;

use super::ground::Placed;
use super::{Ground, Scheme, Shape, Step};
use bucket::BYTES;
use pmem::sync::{AtomicU64, Mutex, Ordering, spin};
use pmem::{Medium, Offset, SpaceError, WORD};
use segment::{Segment, State};

/// log2 of the buckets of a segment in the paper.
pub(super) const PART_LOG2: u32 = 6;
/// Pairs that nearly every segment takes before it is split.
const PAIRS_PER_SEGMENT: u64 = 640;
/// The last number of an opening. 0 is none.
const OPENINGS: u64 = 255;

/// log2 of the segments of a table that takes `pairs` before it grows.
pub(super) fn size_log2(pairs: u64) -> u32 {
    pairs.div_ceil(PAIRS_PER_SEGMENT).next_power_of_two().ilog2()
}

/// Takes whole buckets, so that they all lie at multiples of their size.
fn allocate<M: Medium>(ground: &Ground<M>, bytes: u64) -> Result<Offset, SpaceError> {
    ground.allocate(bytes.next_multiple_of(BYTES))
}

/// A key, and what decides its place.
struct Sought {
    key: u64,
    hash: u64,
}

impl Sought {
    #[inline(always)]
    fn new<M: Medium>(ground: &Ground<M>, key: u64) -> Sought {
        Sought { key, hash: ground.hasher().first_u64(key) }
    }

    /// For a bucket that is known.
    fn with_print(key: u64, print: u8) -> Sought {
        Sought { key, hash: print.into() }
    }

    #[inline(always)]
    fn print(&self) -> u8 {
        self.hash as u8
    }

    /// The number of its home, of so many buckets.
    #[inline(always)]
    fn home(&self, log2: u32) -> u32 {
        (self.hash >> u8::BITS) as u32 & ((1 << log2) - 1)
    }
}

/// A directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Directory(Placed);

impl Directory {
    fn depth(self) -> u32 {
        self.0.log2()
    }

    fn entries(self) -> u64 {
        self.0.len()
    }

    fn bytes(self) -> u64 {
        self.entries() * WORD
    }

    fn entry(self, index: u64) -> Offset {
        self.0.at().word(index)
    }

    /// The number of a hash's entry.
    #[inline(always)]
    fn index(self, hash: u64) -> u64 {
        hash.checked_shr(u64::BITS - self.depth()).unwrap_or(0)
    }

    /// The first entry of a hash's segment of this depth, and how many it has.
    fn of_segment(self, hash: u64, depth: u32) -> (u64, u64) {
        let count = 1 << (self.depth() - depth);
        (self.index(hash) / count * count, count)
    }
}

/// A directory's entry: where a segment is, and the opening after which it was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const OPENING_AT: u32 = 56;

    fn new(segment: Offset, opening: u64) -> Entry {
        Entry(segment.0 | opening << Entry::OPENING_AT)
    }

    #[inline(always)]
    fn segment(self) -> Offset {
        Offset(self.0 & ((1 << Entry::OPENING_AT) - 1))
    }

    #[inline(always)]
    fn opening(self) -> u64 {
        self.0 >> Entry::OPENING_AT
    }
}

/// The scheme.
pub struct Dash {
    directory: AtomicU64,
    /// The number of this opening.
    opening: u64,
    /// log2 of the buckets of a segment.
    part_log2: u32,
    /// Held by whoever changes the directory, or recovers a segment.
    changing: Mutex<()>,
    resizes: AtomicU64,
}

fn directory_at<M: Medium>(ground: &Ground<M>) -> Offset {
    ground.root()
}

fn opening_at<M: Medium>(ground: &Ground<M>) -> Offset {
    ground.root().word(1)
}

impl Dash {
    fn over(directory: Directory, opening: u64, shape: &Shape) -> Dash {
        Dash {
            directory: AtomicU64::new(directory.0.word()),
            opening,
            part_log2: shape.part_log2,
            changing: Mutex::new(()),
            resizes: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn directory(&self) -> Directory {
        Directory(Placed::of_word(self.directory.load(Ordering::Acquire)))
    }

    #[inline(always)]
    fn entry<M: Medium>(&self, ground: &Ground<M>, hash: u64) -> Entry {
        let directory = self.directory();
        Entry(ground.medium().load(directory.entry(directory.index(hash))))
    }

    fn segment_at<'a, M: Medium>(&self, ground: &'a Ground<M>, at: Offset) -> Segment<'a, M> {
        Segment { ground, at, log2: self.part_log2 }
    }

    /// The segment of a hash, recovered.
    #[inline(always)]
    fn segment<'a, M: Medium>(&self, ground: &'a Ground<M>, hash: u64) -> Segment<'a, M> {
        loop {
            let entry = self.entry(ground, hash);
            if entry.opening() == self.opening {
                return self.segment_at(ground, entry.segment());
            }
            self.recover(ground, hash);
        }
    }

    /// Whether this is the segment of a hash.
    #[inline(always)]
    fn is_of<M: Medium>(&self, segment: &Segment<'_, M>, hash: u64) -> bool {
        self.entry(segment.ground, hash).segment() == segment.at
    }

    /// Recovers the segment to which the entry of a hash leads, if nobody has done so since the opening.
    #[cold]
    fn recover<M: Medium>(&self, ground: &Ground<M>, hash: u64) {
        let _held = self.changing.lock();
        let entry = self.entry(ground, hash);
        if entry.opening() == self.opening {
            return;
        }
        let segment = self.segment_at(ground, entry.segment());
        let state = segment.state();
        if let Some(sibling) = state.sibling() {
            self.lead_to_sibling(&segment, hash, Entry::new(sibling, 0));
        }
        segment.recover();
        let directory = self.directory();
        let (first, count) = directory.of_segment(hash, state.depth());
        for at in (first..first + count).map(|index| directory.entry(index)) {
            if Entry(ground.medium().load(at)).segment() == segment.at {
                let recovered = Entry::new(segment.at, self.opening);
                // All but the state is durable, so whoever sees this sees it repaired.
                ground.medium().store(at, recovered.0);
            }
        }
    }

    /// Lets the entries lead to the sibling of a segment that are to lead there. They are durable after the next fence:
    /// until then the link is there. The directory does not change meanwhile.
    fn lead_to_sibling<M: Medium>(&self, segment: &Segment<'_, M>, hash: u64, sibling: Entry) {
        let medium = segment.ground.medium();
        let directory = self.directory();
        let (first, count) = directory.of_segment(hash, segment.state().depth());
        let upper = first + count / 2;
        for at in (upper..first + count).map(|index| directory.entry(index)) {
            // If a crash has left it as it was. The sibling may have been split since.
            if Entry(medium.load(at)).segment() == segment.at {
                // A sibling is durable before, so whoever sees this sees what is in it.
                medium.store(at, sibling.0);
            }
        }
        medium.flush_range(directory.entry(upper), count / 2 * WORD);
    }

    /// The depth of a segment, also just after somebody has recovered it.
    fn depth<M: Medium>(&self, segment: &Segment<'_, M>) -> u32 {
        let _held = self.changing.lock();
        segment.state().depth()
    }

    /// Splits a segment, if it is still the one of this hash.
    fn split<M: Medium>(&self, segment: &Segment<'_, M>, hash: u64) -> Result<(), SpaceError> {
        segment.lock_all();
        let split =
            if self.is_of(segment, hash) { self.split_locked(segment, hash) } else { Ok(()) };
        segment.unlock_all();
        split
    }

    fn split_locked<M: Medium>(
        &self,
        segment: &Segment<'_, M>,
        hash: u64,
    ) -> Result<(), SpaceError> {
        let (ground, medium) = (segment.ground, segment.ground.medium());
        let depth = self.depth(segment);
        self.deepen(ground, depth)?;
        let sibling = Segment::create(ground, self.part_log2, depth + 1)?;
        segment.copy_moved(&sibling);
        sibling.flush_all();
        medium.fence();
        segment.set_state(State::splitting(depth, sibling.at));
        medium.persist(segment.at);
        {
            let _held = self.changing.lock();
            self.lead_to_sibling(segment, hash, Entry::new(sibling.at, self.opening));
        }
        segment.drop_moved();
        self.resizes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Doubles the directory if it has no more entries than a segment of this depth needs.
    fn deepen<M: Medium>(&self, ground: &Ground<M>, depth: u32) -> Result<(), SpaceError> {
        let _held = self.changing.lock();
        let old = self.directory();
        if old.depth() > depth {
            return Ok(());
        }
        let medium = ground.medium();
        let at = allocate(ground, 2 * old.bytes())?;
        let new = Directory(Placed::new(at, old.depth() + 1));
        for index in 0..new.entries() {
            medium.store(new.entry(index), medium.load(old.entry(index / 2)));
        }
        ground.flush(at, new.bytes());
        medium.fence();
        medium.store(directory_at(ground), new.0.word());
        // Before anybody splits a segment by means of it.
        medium.persist(ground.root());
        self.directory.store(new.0.word(), Ordering::Release);
        Ok(())
    }

    /// Visits all segments, recovered, with the high bits of their hashes.
    fn each_segment<M: Medium>(
        &self,
        ground: &Ground<M>,
        mut visit: impl FnMut(&Segment<'_, M>, u64),
    ) {
        let mut prefix = Some(0u64);
        while let Some(hash) = prefix {
            let segment = self.segment(ground, hash);
            visit(&segment, hash);
            let hashes = 1u64.checked_shl(u64::BITS - self.depth(&segment));
            prefix = hashes.and_then(|hashes| hash.checked_add(hashes));
        }
    }
}

impl<M: Medium> Scheme<M> for Dash {
    const MARK: Option<u64> = None;

    fn create(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let opening = 1;
        let bytes = WORD << shape.size_log2;
        let directory = Directory(Placed::new(allocate(ground, bytes)?, shape.size_log2));
        for index in 0..directory.entries() {
            let segment = Segment::create(ground, shape.part_log2, shape.size_log2)?;
            medium.flush(segment.at);
            medium.store(directory.entry(index), Entry::new(segment.at, opening).0);
        }
        ground.flush(directory.entry(0), bytes);
        medium.store(directory_at(ground), directory.0.word());
        medium.store(opening_at(ground), opening);
        medium.persist(ground.root());
        Ok(Dash::over(directory, opening, shape))
    }

    fn open(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let directory = Directory(Placed::of_word(medium.load(directory_at(ground))));
        let last = medium.load(opening_at(ground));
        let opening = last % OPENINGS + 1;
        if opening < last {
            openings::forget_all(ground, directory);
        }
        // Before any entry says it, or the next opening would have the same number.
        medium.store(opening_at(ground), opening);
        medium.persist(ground.root());
        Ok(Dash::over(directory, opening, shape))
    }

    #[inline]
    fn get(&self, ground: &Ground<M>, key: u64) -> Option<u64> {
        let sought = Sought::new(ground, key);
        let mut turn = 0;
        loop {
            let segment = self.segment(ground, sought.hash);
            let home = segment.home(&sought);
            if let Some(word) = home.unlocked()
                && self.is_of(&segment, sought.hash)
            {
                let found = segment.find(&sought);
                if home.lock_word() == word {
                    return Some(found?.value);
                }
            }
            spin(&mut turn);
        }
    }

    fn change(
        &self,
        ground: &Ground<M>,
        key: u64,
        mut decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError> {
        let sought = Sought::new(ground, key);
        loop {
            let segment = self.segment(ground, sought.hash);
            segment.lock(&sought);
            if !self.is_of(&segment, sought.hash) {
                segment.unlock(&sought);
                continue;
            }
            let found = segment.find(&sought);
            let before = found.as_ref().map(|found| found.value);
            let is_done = match (decide(before), &found) {
                (Step::Put(value), Some(found)) => {
                    segment.replace(found, value);
                    true
                }
                (Step::Put(value), None) => segment.insert(&sought, value),
                (Step::Remove, Some(found)) => {
                    segment.remove(&sought, found);
                    true
                }
                (Step::Keep, _) | (Step::Remove, None) => true,
            };
            segment.unlock(&sought);
            if is_done {
                return Ok(before);
            }
            self.split(&segment, sought.hash)?;
        }
    }

    fn for_each(&self, ground: &Ground<M>, visit_pair: &mut dyn FnMut(u64, u64)) {
        self.each_segment(ground, |segment, _| {
            for bucket in segment.all() {
                bucket.pairs().into_iter().for_each(|(key, value)| visit_pair(key, value));
            }
        });
    }

    fn capacity(&self, ground: &Ground<M>) -> u64 {
        let mut slots = 0;
        self.each_segment(ground, |segment, _| slots += segment.slots());
        slots
    }

    fn bytes(&self, ground: &Ground<M>) -> u64 {
        let mut bytes = self.directory().bytes();
        self.each_segment(ground, |segment, _| bytes += segment.bytes());
        bytes
    }

    fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::Relaxed)
    }

    fn check(&self, ground: &Ground<M>) -> Result<(), String> {
        let medium = ground.medium();
        let mut checked = Ok(());
        let mut hash_and_segment = Vec::new();
        self.each_segment(ground, |segment, prefix| {
            hash_and_segment.push((prefix, segment.at, segment.state().depth()));
            if checked.is_ok() {
                checked = segment.check(prefix);
            }
        });
        checked?;
        let directory = self.directory();
        if medium.load(directory_at(ground)) != directory.0.word() {
            return Err(format!("the root does not lead to {directory:x?}"));
        }
        for (prefix, segment, depth) in hash_and_segment {
            let (first, count) = directory.of_segment(prefix, depth);
            let entries = (first..first + count).map(|index| directory.entry(index));
            let wrong = |&at: &Offset| medium.load(at) != Entry::new(segment, self.opening).0;
            if let Some(at) = entries.into_iter().find(wrong) {
                return Err(format!("the entry at {at} does not lead to {segment}"));
            }
        }
        Ok(())
    }
}
