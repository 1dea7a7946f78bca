//! The stash (section 4.1): pairs without room in the main table, in chains, and the key 0, which no slot takes.
//!
//! Chains are volatile: a node in the pool has its pair and whether it is in use, and links are rebuilt. A node belongs
//! to the first bucket of its key, and changes under that bucket's lock. Some neighbouring buckets share a chain, so
//! each link says whose the node is.
//!
//! A chain's head has a version that grows with every change. A reader takes no lock; the version tells it whether it
//! walked one chain throughout, and if not it walks again. A thread that changes a chain holds its lock for a few
//! volatile stores, never across a fence.

use super::layout::OWNER_SHIFT;
use super::layout::{Bucket, NODES_OF_ZERO, Node, TABLES_MAX};
use super::shape::Shape;
use crate::kit::crowded::CHAIN_MAX;
use crate::kit::packed::Packed;
use index::Fixed;
use pmem::sync::{Array, AtomicU32, AtomicU64, Mutex, Ordering, fence};
use pmem::{Medium, Offset};
use std::io;
use std::marker::PhantomData;

/// Buckets that share a chain.
const BUCKETS_PER_CHAIN: u64 = 16;
/// Steps after which a reader asks whether it has strayed from its chain.
const STEPS_BETWEEN_CHECKS: usize = 8;

// A head: version, lock, link. Node `n` is linked as `n + 1`, 0 is the end.
const LINK_MASK: u64 = (1 << 32) - 1;
// A node's word: which of the chain's buckets it belongs to, and the next link, one higher. 0 is not linked.
const NEXT_MASK: u32 = (1 << OWNER_SHIFT) - 1;
const _: () = assert!(BUCKETS_PER_CHAIN <= 1 << (u32::BITS - OWNER_SHIFT));
const CHAIN_LOCK: u64 = 1 << 32;
const CHAIN_VERSION: u64 = 1 << 33;
const CHAIN_VERSION_MASK: u64 = !(CHAIN_VERSION - 1);

type LockedChain<'a> = crate::kit::lock::Locked<'a, CHAIN_LOCK>;

/// No place of nodes: those are aligned.
const NO_BASE: u64 = u64::MAX;

/// The node that a head or a link leads to.
fn node_of(link: u64) -> Option<u64> {
    (link & LINK_MASK).checked_sub(1)
}

/// The link in a node's word.
fn next_of(word: u32) -> u64 {
    u64::from((word & NEXT_MASK).saturating_sub(1))
}

/// Whether a node with this word belongs to a bucket of its chain.
fn is_of(word: u32, bucket: u64) -> bool {
    word != 0 && u64::from(word >> OWNER_SHIFT) == bucket % BUCKETS_PER_CHAIN
}

/// The word of a node that belongs to a bucket.
fn word_of(bucket: u64, next: u64) -> u32 {
    ((bucket % BUCKETS_PER_CHAIN) as u32) << OWNER_SHIFT | (next + 1) as u32
}

/// Chains of `1 << log2` buckets.
fn chains_of(log2: u32) -> usize {
    (1u64 << log2).div_ceil(BUCKETS_PER_CHAIN) as usize
}

/// Data tables of a table with `1 << log2` buckets.
fn tables_of(shape: &Shape, log2: u32) -> usize {
    1 + log2.saturating_sub(shape.initial_log2) as usize
}

/// Which nodes are free.
#[derive(Debug, Default)]
struct Free {
    list: Vec<u64>,
    /// Nodes from here on were never used.
    fresh: u64,
    /// All nodes.
    count: u64,
}

pub(super) struct Stash<K, V> {
    /// The first node of those that come with each data table; there is one more than there can be, since pools and
    /// helpers ask for its size.
    firsts: [u64; TABLES_MAX + 2],
    /// Where those are; [`NO_BASE`] if they are not there yet.
    bases: [AtomicU64; TABLES_MAX],
    heads: Array<AtomicU64>,
    /// Per node its word.
    links: Array<AtomicU32>,
    free: Mutex<Free>,
    pair: PhantomData<fn() -> (K, V)>,
}

impl<K: Fixed, V: Fixed> Stash<K, V> {
    /// An empty one, for tables of up to `1 << log2_max` buckets. `1 << log2_now` have an extent, used or not: nodes of
    /// those that a shrink has left serve on.
    pub(super) fn new(shape: &Shape, log2_max: u32, log2_now: u32) -> io::Result<Self> {
        let mut firsts = [0; TABLES_MAX + 2];
        for table in 0..=TABLES_MAX {
            firsts[table + 1] = firsts[table] + shape.nodes_of(table);
        }
        let nodes = |log2: u32| firsts[tables_of(shape, log2)] as usize;
        let free = Free { fresh: Self::first_node(), count: 0, list: Vec::new() };
        Ok(Stash {
            bases: std::array::from_fn(|_| AtomicU64::new(NO_BASE)),
            heads: Array::reserve(chains_of(log2_max), chains_of(log2_now))?,
            links: Array::reserve(nodes(log2_max), nodes(log2_now))?,
            free: Mutex::new(free),
            firsts,
            pair: PhantomData,
        })
    }

    /// Whether there are heads and links for `1 << log2` buckets.
    pub(super) fn has_room_for(&self, shape: &Shape, log2: u32) -> bool {
        chains_of(log2) <= self.heads.len()
            && self.firsts[tables_of(shape, log2)] <= self.links.len() as u64
    }

    /// The first node that any key may take.
    fn first_node() -> u64 {
        if Bucket::<K, V>::WORDS { NODES_OF_ZERO } else { 0 }
    }

    /// Bytes of the nodes that come with a data table.
    pub(super) fn bytes_of(&self, table: usize) -> u64 {
        Self::node_bytes() * (self.firsts[table + 1] - self.firsts[table])
    }

    /// Those of the first one.
    pub(super) fn first_bytes(shape: &Shape) -> u64 {
        Self::node_bytes() * shape.nodes_of(0)
    }

    /// Bytes of a node.
    #[inline(always)]
    pub(super) fn node_bytes() -> u64 {
        Node::<K, V>::bytes()
    }

    /// Adds the nodes that come with a data table; tables come in their order.
    pub(super) fn add(&self, table: usize, start: Offset) {
        self.bases[table].store(start.0, Ordering::Release);
        let mut free = self.free.lock();
        free.count = free.count.max(self.firsts[table + 1]);
    }

    /// How many data tables have brought nodes.
    pub(super) fn tables(&self) -> usize {
        let is_there = |base: &&AtomicU64| base.load(Ordering::Acquire) != NO_BASE;
        self.bases.iter().take_while(is_there).count()
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> u64 {
        self.free.lock().count
    }

    /// Nodes in use. Exact when nothing writes.
    pub(super) fn len(&self) -> u64 {
        let free = self.free.lock();
        let zero = (0..Self::first_node()).filter(|&node| self.is_linked(node)).count() as u64;
        free.fresh - Self::first_node() - free.list.len() as u64 + zero
    }

    /// Whether a node of [`NODES_OF_ZERO`] is in a chain, or not given back yet.
    fn is_linked(&self, node: u64) -> bool {
        self.link_word(node).load(Ordering::Acquire) != 0
    }

    /// Where a node is.
    pub(super) fn at(&self, node: u64) -> Offset {
        let table = self.firsts.partition_point(|&first| first <= node) - 1;
        let base = self.bases[table].load(Ordering::Acquire);
        Offset(base.wrapping_add((node - self.firsts[table]) * Self::node_bytes()))
    }

    /// A free node for a key; `takes`: whether a slot could have it. `None`: the stash is full.
    pub(super) fn take_node(&self, takes: bool) -> Option<u64> {
        if !takes {
            // The caller holds the lock of the bucket to which the key belongs, and of the one that it leaves.
            return (0..NODES_OF_ZERO).find(|&node| !self.is_linked(node));
        }
        let mut free = self.free.lock();
        if let Some(node) = free.list.pop() {
            return Some(node);
        }
        if free.fresh >= free.count {
            return None;
        }
        free.fresh += 1;
        Some(free.fresh - 1)
    }

    /// Gives a node back that is in no chain, once its bucket has a new version.
    pub(super) fn give_back(&self, node: u64) {
        if node >= Self::first_node() {
            self.free.lock().list.push(node);
        } else {
            self.link_word(node).store(0, Ordering::Release);
        }
    }

    fn head(&self, bucket: u64) -> &AtomicU64 {
        self.heads.get((bucket / BUCKETS_PER_CHAIN) as usize)
    }

    fn link_word(&self, node: u64) -> &AtomicU32 {
        self.links.get(node as usize)
    }

    /// The node of a key that belongs to a bucket, for a reader without locks.
    pub(super) fn find<M: Medium>(&self, medium: &M, bucket: u64, key: K) -> Option<u64> {
        loop {
            let head = self.head(bucket).load(Ordering::Acquire);
            node_of(head)?;
            if let Some(found) = self.walk(medium, bucket, head, key) {
                return found;
            }
        }
    }

    /// `None` if the chain changed meanwhile.
    fn walk<M: Medium>(&self, medium: &M, bucket: u64, head: u64, key: K) -> Option<Option<u64>> {
        let is_same = || {
            fence(Ordering::Acquire);
            (self.head(bucket).load(Ordering::Relaxed) ^ head) & !CHAIN_LOCK == 0
        };
        let mut link = head;
        let mut steps = 0;
        while let Some(node) = node_of(link) {
            let word = self.link_word(node).load(Ordering::Acquire);
            let at = self.at(node);
            if is_of(word, bucket) {
                // Loaded once: a removal may erase it at any time.
                let first = medium.load(at);
                if !Node::<K, V>::is_in_use(node, first) {
                    // A removal that has not passed its fence, perhaps of this key: the absence is to be durable. Its
                    // bucket is locked, so the caller fences.
                    medium.flush(at);
                } else if index::is_same(self.key(medium, node, first), key) {
                    return is_same().then_some(Some(node));
                }
            }
            steps += 1;
            if steps % STEPS_BETWEEN_CHECKS == 0 && !is_same() {
                return None;
            }
            link = next_of(word);
        }
        is_same().then_some(None)
    }

    /// The key of a node whose first word is this.
    fn key<M: Medium>(&self, medium: &M, node: u64, first: u64) -> K {
        if Bucket::<K, V>::WORDS {
            return K::of_words(|_| if Node::<K, V>::has_own_key(node) { first } else { 0 });
        }
        Packed::<K, V>::key(medium, self.at(node), Node::<K, V>::ITEM)
    }

    /// The pair of a node.
    pub(super) fn pair<M: Medium>(&self, medium: &M, node: u64) -> (K, V) {
        // Apart: a node need not be aligned to two words.
        (self.key(medium, node, medium.load(self.at(node))), self.value(medium, node))
    }

    /// The value of a node.
    pub(super) fn value<M: Medium>(&self, medium: &M, node: u64) -> V {
        Packed::<K, V>::value(medium, self.at(node), Node::<K, V>::ITEM)
    }

    /// Whether a node has a pair.
    fn is_in_use<M: Medium>(&self, medium: &M, node: u64) -> bool {
        Node::<K, V>::is_in_use(node, medium.load(self.at(node)))
    }

    /// The nodes that belong to a locked bucket.
    pub(super) fn nodes_of(&self, bucket: u64) -> Vec<u64> {
        let head = self.head(bucket);
        let _locked = LockedChain::wait(head);
        let mut link = head.load(Ordering::Relaxed);
        let mut nodes = Vec::new();
        while let Some(node) = node_of(link) {
            let word = self.link_word(node).load(Ordering::Relaxed);
            if is_of(word, bucket) {
                nodes.push(node);
            }
            link = next_of(word);
        }
        nodes
    }

    /// Whether the chain of a bucket, locked or not, has as many nodes as one may get.
    pub(super) fn has_long_chain(&self, bucket: u64) -> bool {
        let head = self.head(bucket);
        let _locked = LockedChain::wait(head);
        let mut link = head.load(Ordering::Relaxed);
        (0..CHAIN_MAX).all(|_| {
            let node = node_of(link);
            link = node.map_or(0, |node| next_of(self.link_word(node).load(Ordering::Relaxed)));
            node.is_some()
        })
    }

    /// Stores a pair into a node that is in no chain, and flushes it; a fence is still to come.
    pub(super) fn fill<M: Medium>(&self, medium: &M, node: u64, (key, value): (K, V)) {
        let at = self.at(node);
        // A reader that sees these stores also sees the version of the chain that the node has left.
        fence(Ordering::Release);
        if Bucket::<K, V>::WORDS {
            medium.store(at.word(1), value.word(0));
        } else {
            Packed::fill(medium, at, Node::<K, V>::ITEM, key, value);
        }
        if !Node::<K, V>::is_in_one_line(at) {
            medium.flush_range(at, Self::node_bytes());
            medium.fence();
        }
        // Last: a first word that survives a crash has its pair.
        medium.store_release(at, Node::<K, V>::in_use(key));
        medium.flush(at);
    }

    /// Stores the value of a node in use.
    pub(super) fn fill_value<M: Medium>(&self, medium: &M, node: u64, value: V) {
        Packed::<K, V>::fill_value(medium, self.at(node), Node::<K, V>::ITEM, value);
    }

    /// Erases a node in the pool, and flushes that; a fence is still to come.
    pub(super) fn erase<M: Medium>(&self, medium: &M, node: u64) {
        let at = self.at(node);
        // Release: a thread that sees that a copied item has gone here also sees its copy.
        medium.store_release(at, 0);
        medium.flush(at);
    }

    /// The word that is a node's value, if one word it is.
    pub(super) fn value_word(&self, node: u64) -> Option<Offset> {
        Packed::<K, V>::value_word(self.at(node), Node::<K, V>::ITEM)
    }

    /// Gives a node to a bucket, whose lock is held.
    pub(super) fn link(&self, bucket: u64, node: u64) {
        let head = self.head(bucket);
        let _locked = LockedChain::wait(head);
        let before = head.load(Ordering::Relaxed);
        let word = word_of(bucket, before & LINK_MASK);
        // Release: a reader that strays here through a node that was used again must notice the new version.
        self.link_word(node).store(word, Ordering::Release);
        head.store(next_version(before) | CHAIN_LOCK | (node + 1), Ordering::Release);
    }

    /// Takes a node from a bucket, whose lock is held. The version changes before the node can be used again.
    pub(super) fn unlink(&self, bucket: u64, node: u64) {
        let head = self.head(bucket);
        let _locked = LockedChain::wait(head);
        let before = head.load(Ordering::Relaxed);
        let after = self.link_word(node).load(Ordering::Relaxed) & NEXT_MASK;
        let mut first = before & LINK_MASK;
        if node_of(before) == Some(node) {
            first = next_of(after);
        } else {
            let mut link = before;
            while let Some(previous) = node_of(link) {
                let word = self.link_word(previous);
                let found = word.load(Ordering::Relaxed);
                link = next_of(found);
                if node_of(link) == Some(node) {
                    word.store(found & !NEXT_MASK | after, Ordering::Release);
                    break;
                }
            }
        }
        head.store(next_version(before) | CHAIN_LOCK | first, Ordering::Release);
    }

    /// Gives every node in use, as found in the pool, to the bucket that `owner` tells. If that is `None`, or has the
    /// key already, `may_erase` is asked, and the node erased, durably. Returns the nodes in use.
    pub(super) fn rebuild<M: Medium, E>(
        &self,
        medium: &M,
        mut owner: impl FnMut(K) -> Option<u64>,
        may_erase: impl Fn() -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut used = 0;
        let mut erased = false;
        let count = self.nodes();
        let mut free = self.free.lock();
        for node in 0..count {
            if !self.is_in_use(medium, node) {
                continue;
            }
            let (key, _) = self.pair(medium, node);
            let is_new = |bucket: &u64| self.find(medium, *bucket, key).is_none();
            let Some(bucket) = owner(key).filter(is_new) else {
                may_erase()?;
                self.erase(medium, node);
                erased = true;
                continue;
            };
            used += 1;
            self.link(bucket, node);
            if node >= free.fresh {
                // Skipped nodes are free; those after the last one in use stay fresh.
                let skipped = free.fresh..node;
                free.list.extend(skipped);
                free.fresh = node + 1;
            }
        }
        if erased {
            medium.fence();
        }
        Ok(used)
    }

    /// The key of a node in use; `None` too if there is no such node.
    pub(super) fn key_in_use<M: Medium>(&self, medium: &M, node: u64) -> Option<K> {
        let is_used = node < self.nodes() && self.is_in_use(medium, node);
        is_used.then(|| self.pair(medium, node).0)
    }

    /// Visits the number and the key of every node in use, in a chain or not.
    pub(super) fn for_each_used<M: Medium>(&self, medium: &M, mut visit: impl FnMut(u64, K)) {
        for node in (0..self.nodes()).filter(|&node| self.is_in_use(medium, node)) {
            visit(node, self.pair(medium, node).0);
        }
    }

    /// Bytes of the sidecar for this many buckets.
    pub(super) fn sidecar_bytes(&self, buckets: u64) -> u64 {
        let heads = buckets.div_ceil(BUCKETS_PER_CHAIN) * size_of::<AtomicU64>() as u64;
        heads + self.nodes() * size_of::<AtomicU32>() as u64
    }
}

fn next_version(head: u64) -> u64 {
    (head & CHAIN_VERSION_MASK).wrapping_add(CHAIN_VERSION)
}
