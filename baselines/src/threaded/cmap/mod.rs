//! The concurrent hash map of libpmemobj-cpp, which is pmemkv's engine cmap; after TBB's concurrent_hash_map (Intel;
//! its growth is described in Anton Malakhov, Per-bucket concurrent rehashing algorithms, arXiv 1509.02235).
//!
//! ```text
//!  root: directory at | latest chunk of nodes
//!  directory: 40 × segment at                          zero: there is none yet
//!  segment: buckets                                    each but the first as large as all before it
//!  bucket: lock, head                                  four a line; the head's low bit: it holds its nodes
//!  node: key, value, next, unused                      two a line
//! ```
//!
//! A key's bucket is chosen by the low bits of its hash. Whoever uses a bucket locks it, to read or to write. Once
//! there are about as many pairs as buckets, a segment is added, which doubles their number. A new bucket is filled by
//! whoever first meets it: it locks the bucket and its *parent*, whose number is the same without the highest bit, and
//! takes over the nodes that belong to it. If the parent is not filled either, that is done before.
//!
//! What changes a bucket is durable before its lock is given back. So those who lock it have nothing to make durable:
//! readers, and those who find a key absent.
//!
//! # How nodes move
//!
//! The new bucket's head is made to lead to its first node in the parent's list, durably. It holds its nodes from
//! then on, and both buckets' lists have all that they must have, and nodes of the other. Then the lists are parted
//! from the front on: the parent's first link to a node of the new bucket is made to lead to its own next node; then
//! the last of those that were left out, to the next one of the new bucket; and so on. Each link is durable before the
//! next is changed, or a crash could leave the later one alone, which cuts off what only the earlier one has let go.
//! After a crash at any point a look-up would find everything. Opening parts the lists to the end, since a node that
//! two lists lead to must not be reused.
//!
//! That a bucket which takes over nothing is filled need not be durable. If that is lost, nothing was to be found
//! there.
//!
//! # Departures
//!
//! 1. The published code moves nodes and links them in transactions of PMDK, with an undo log. Here each change is a
//!    store to one word. The mark of a filled bucket is in the head, so a crash does not come between the two. (There
//!    it does: a bucket that has nodes and no mark is taken for one that was filled.)
//! 2. Whether a bucket is filled is looked at with its lock held. The published code looks before it waits. If whoever
//!    was filling the bucket gives up, because the transaction found no room for its log, those who wait go on with an
//!    empty bucket, and say that its keys are absent. Here filling takes no room.
//! 3. Whether the table has grown is looked at once the lock is held, and not only if a key is absent.
//! 4. The number of pairs is volatile, and opening counts them. The published code has each thread keep a sum in
//!    persistent memory, as part of each transaction.
//! 5. Pairs are words, and have no locks of their own: an update holds the bucket's.
//! 6. Locks are in persistent memory, as there, and opening releases them. They are words. PMDK's are lines, and have
//!    the number of the run in which they were taken.
//! 7. Nodes come from chunks, and are reused. Which ones are free is volatile (`nodes.rs`). PMDK's allocator says it
//!    durably, and logs each change.
//! 8. The first segment has as many buckets as the table is made for. The published table has two buckets, then 256,
//!    and doubles from then on. No segment is divided into blocks.
//! 9. Where segments are and how many there are is read from volatile copies.
//! 10. Who visits all pairs fills the buckets that are not filled, from the highest down. So nobody who fills others
//!     meanwhile makes a pair be shown twice.
//! 11. The table never shrinks. Without room for another segment its lists become longer.

mod bucket;
mod nodes;

use super::{Ground, Scheme, Shape, Step};
use bucket::{Access, BUCKET_BYTES, Bucket, Found};
use nodes::Nodes;
use pmem::sync::{AtomicU64, Mutex, Ordering};
use pmem::{LINE, Medium, Offset, SpaceError, WORD};

/// Where the root's words are.
const DIRECTORY: u64 = 0;
const CHUNKS: u64 = 1;

/// Most segments: a directory is five lines.
const SEGMENTS: usize = 40;

/// log2 of the first segment's buckets and of the lines of a chunk, for a table that takes `pairs` before it grows.
pub(super) fn size_logs2(pairs: u64) -> (u32, u32) {
    ((pairs + 2).next_power_of_two().ilog2(), nodes::CHUNK_LINES_LOG2)
}

/// The scheme.
pub struct Cmap {
    segments: [AtomicU64; SEGMENTS],
    /// log2 of the first segment's buckets.
    first_log2: u32,
    /// Number of buckets. Each of them has its segment.
    buckets: AtomicU64,
    /// Number of pairs. It changes with the lock of the pair's bucket held.
    pairs: AtomicU64,
    nodes: Nodes,
    resizes: AtomicU64,
    /// Held by the thread that adds a segment.
    growing: Mutex<()>,
}

/// The bucket whose nodes are divided with this one.
fn parent(number: u64) -> u64 {
    number - (1 << number.ilog2())
}

/// Whether the node of a key belongs to the bucket with this number, and not to its parent.
fn is_childs<M: Medium>(ground: &Ground<M>, number: u64) -> impl Fn(u64) -> bool {
    let mask = u64::MAX >> number.leading_zeros();
    move |key| ground.hasher().first_u64(key) & mask == number
}

impl Cmap {
    fn over<M: Medium>(ground: &Ground<M>, shape: &Shape) -> Cmap {
        let directory = Offset(ground.medium().load(ground.root().word(DIRECTORY)));
        let at = |segment: usize| ground.medium().load(directory.word(segment as u64));
        let segments: [u64; SEGMENTS] = std::array::from_fn(at);
        let count = segments.iter().take_while(|&&at| at != 0).count();
        Cmap {
            segments: segments.map(AtomicU64::new),
            first_log2: shape.size_log2,
            buckets: AtomicU64::new(1 << (shape.size_log2 as usize + count - 1)),
            pairs: AtomicU64::new(0),
            nodes: Nodes::none(ground.root().word(CHUNKS), shape.part_log2),
            resizes: AtomicU64::new(0),
            growing: Mutex::new(()),
        }
    }

    #[inline(always)]
    fn count(&self) -> u64 {
        self.buckets.load(Ordering::Acquire)
    }

    /// The segment of a bucket, and the number of its first bucket.
    #[inline(always)]
    fn segment(&self, number: u64) -> (usize, u64) {
        match (number >> self.first_log2).checked_ilog2() {
            Some(log2) => (log2 as usize + 1, 1 << (self.first_log2 + log2)),
            None => (0, 0),
        }
    }

    #[inline(always)]
    fn bucket(&self, number: u64) -> Bucket {
        let (segment, first) = self.segment(number);
        let at = self.segments[segment].load(Ordering::Relaxed);
        Bucket(Offset(at + (number - first) * BUCKET_BYTES))
    }

    fn all(&self) -> impl Iterator<Item = Bucket> {
        (0..self.count()).map(|number| self.bucket(number))
    }

    /// Locks the bucket of a hash. It is filled then, and stays the one in which to look as long as it is locked: none
    /// of which it is the parent can be filled meanwhile.
    #[inline(always)]
    fn lock<M: Medium>(&self, ground: &Ground<M>, hash: u64, access: Access) -> Bucket {
        loop {
            let number = hash & (self.count() - 1);
            let bucket = self.lock_filled(ground, number, access);
            if hash & (self.count() - 1) == number {
                return bucket;
            }
            bucket.unlock(ground.medium(), access);
        }
    }

    /// Locks a bucket, and fills it before if that has not been done yet.
    #[inline(always)]
    fn lock_filled<M: Medium>(&self, ground: &Ground<M>, number: u64, access: Access) -> Bucket {
        let (medium, bucket) = (ground.medium(), self.bucket(number));
        bucket.lock(medium, access);
        while !bucket.is_filled(medium) {
            bucket.unlock(medium, access);
            bucket.lock(medium, Access::Write);
            self.fill(ground, number);
            bucket.unlock(medium, Access::Write);
            bucket.lock(medium, access);
        }
        bucket
    }

    /// Fills a bucket, unless it is filled. The caller has locked it to write. Parents are locked after their
    /// children, so nobody waits in a circle.
    #[cold]
    fn fill<M: Medium>(&self, ground: &Ground<M>, number: u64) {
        let medium = ground.medium();
        let child = self.bucket(number);
        if child.is_filled(medium) {
            return;
        }
        let from = self.bucket(parent(number));
        from.lock(medium, Access::Write);
        self.fill(ground, parent(number));
        bucket::fill(medium, [from, child], is_childs(ground, number));
        from.unlock(medium, Access::Write);
    }

    /// Adds a segment to a table of so many buckets, if nobody else does and there is room.
    #[cold]
    fn grow<M: Medium>(&self, ground: &Ground<M>, count: u64) {
        let medium = ground.medium();
        let Some(_held) = self.growing.try_lock() else { return };
        if self.count() != count {
            return;
        }
        let (segment, _) = self.segment(count);
        let Some(place) = self.segments.get(segment) else { return };
        let Ok(at) = ground.allocate(count * BUCKET_BYTES) else { return };
        let directory = Offset(medium.load(ground.root().word(DIRECTORY)));
        let entry = directory.word(segment as u64);
        medium.store(entry, at.0);
        // Before anybody puts a node there.
        medium.persist(entry);
        place.store(at.0, Ordering::Relaxed);
        self.resizes.fetch_add(1, Ordering::Relaxed);
        self.buckets.store(2 * count, Ordering::Release);
    }

    /// Every node to which a list leads.
    fn linked<M: Medium>(&self, medium: &M) -> Vec<Offset> {
        let nodes = self.all().flat_map(|bucket| bucket.nodes(medium));
        nodes.map(|(_, node)| node).collect()
    }

    fn check_bucket<M: Medium>(&self, ground: &Ground<M>, number: u64) -> Result<(), String> {
        let (medium, bucket) = (ground.medium(), self.bucket(number));
        let lock = bucket.lock_state(medium);
        if lock != 0 {
            return Err(format!("bucket {number} is locked: {lock}"));
        }
        let is_first = number >> self.first_log2 == 0;
        if !bucket.is_filled(medium) && (is_first || bucket.nodes(medium).next().is_some()) {
            return Err(format!("bucket {number} is not filled"));
        }
        for (_, node) in bucket.nodes(medium) {
            let key = medium.load(node);
            let mut home = ground.hasher().first_u64(key) & (self.count() - 1);
            while !self.bucket(home).is_filled(medium) {
                home = parent(home);
            }
            if home != number {
                return Err(format!("key {key:#x} is in bucket {number}, it belongs to {home}"));
            }
        }
        Ok(())
    }
}

impl<M: Medium> Scheme<M> for Cmap {
    const MARK: Option<u64> = None;

    fn create(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let directory = ground.allocate(SEGMENTS as u64 * WORD)?;
        let bytes = BUCKET_BYTES << shape.size_log2;
        let first = ground.allocate(bytes)?;
        medium.store(directory, first.0);
        medium.store(ground.root().word(DIRECTORY), directory.0);
        let table = Cmap::over(ground, shape);
        table.all().for_each(|bucket| bucket.mark_filled(medium));
        ground.flush(first, bytes);
        medium.flush(directory);
        medium.flush(ground.root());
        medium.fence();
        Ok(table)
    }

    fn open(ground: &Ground<M>, shape: &Shape) -> Result<Self, SpaceError> {
        let medium = ground.medium();
        let table = Cmap::over(ground, shape);
        let directory = Offset(medium.load(ground.root().word(DIRECTORY)));
        // What a killed process stored last may not be durable, and what follows relies on it.
        ground.flush(directory, SEGMENTS as u64 * WORD);
        for bucket in table.all() {
            bucket.release(medium);
            if bucket.0.0.is_multiple_of(LINE) {
                medium.flush(bucket.0);
            }
            bucket.nodes(medium).for_each(|(_, node)| medium.flush(node));
        }
        medium.fence();
        for number in 1 << shape.size_log2..table.count() {
            let lists = [parent(number), number].map(|number| table.bucket(number));
            if lists[1].is_filled(medium) {
                bucket::part(medium, lists, is_childs(ground, number));
            }
        }
        let linked = table.linked(medium);
        table.pairs.store(linked.len() as u64, Ordering::Relaxed);
        let nodes = table.nodes.open(medium, linked);
        Ok(Cmap { nodes, ..table })
    }

    #[inline]
    fn get(&self, ground: &Ground<M>, key: u64) -> Option<u64> {
        let medium = ground.medium();
        let bucket = self.lock(ground, ground.hasher().first_u64(key), Access::Read);
        let found = bucket.find(medium, key);
        bucket.unlock(medium, Access::Read);
        Some(found?.value)
    }

    fn change(
        &self,
        ground: &Ground<M>,
        key: u64,
        mut decide: impl FnMut(Option<u64>) -> Step,
    ) -> Result<Option<u64>, SpaceError> {
        let medium = ground.medium();
        let bucket = self.lock(ground, ground.hasher().first_u64(key), Access::Write);
        let found = bucket.find(medium, key);
        let before = found.as_ref().map(|found| found.value);
        let mut inserted = Ok(false);
        match (decide(before), found) {
            (Step::Put(value), Some(Found { node, .. })) => {
                medium.store(node.word(1), value);
                medium.persist(node);
            }
            (Step::Put(value), None) => {
                inserted = self.nodes.take(ground).map(|node| {
                    bucket.push(medium, node, (key, value));
                    true
                });
            }
            (Step::Remove, Some(found)) => {
                bucket.take_out(medium, &found);
                self.nodes.give_back(found.node);
                self.pairs.fetch_sub(1, Ordering::Relaxed);
            }
            (Step::Keep, _) | (Step::Remove, None) => {}
        }
        let is_inserted = matches!(inserted, Ok(true));
        let pairs = is_inserted.then(|| self.pairs.fetch_add(1, Ordering::Relaxed) + 1);
        bucket.unlock(medium, Access::Write);
        inserted?;
        let count = self.count();
        if pairs.is_some_and(|pairs| pairs >= count - 1) {
            self.grow(ground, count);
        }
        Ok(before)
    }

    fn for_each(&self, ground: &Ground<M>, visit: &mut dyn FnMut(u64, u64)) {
        let medium = ground.medium();
        let mut pairs = Vec::new();
        // The highest first: when a bucket's turn comes, no other takes over nodes of it any more.
        for number in (0..self.count()).rev() {
            let bucket = self.lock_filled(ground, number, Access::Read);
            pairs.extend(bucket.nodes(medium).map(|(_, node)| medium.load_pair(node)));
            bucket.unlock(medium, Access::Read);
            pairs.drain(..).for_each(|(key, value)| visit(key, value));
        }
    }

    fn capacity(&self, _ground: &Ground<M>) -> u64 {
        self.count()
    }

    fn bytes(&self, _ground: &Ground<M>) -> u64 {
        self.count() * BUCKET_BYTES + self.nodes.bytes()
    }

    fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::Relaxed)
    }

    fn check(&self, ground: &Ground<M>) -> Result<(), String> {
        let medium = ground.medium();
        (0..self.count()).try_for_each(|number| self.check_bucket(ground, number))?;
        let linked = self.linked(medium);
        let counted = self.pairs.load(Ordering::Relaxed);
        if linked.len() as u64 != counted {
            return Err(format!("there are {} pairs, {counted} were counted", linked.len()));
        }
        self.nodes.check(medium, &linked)
    }
}
