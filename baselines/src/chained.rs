//! Chained hashing: an array of buckets, each the head of a linked list; Debnath et al., Revisiting Hash Table Design
//! for Phase Change Memory, section 2.1. [`Chains`] is also the stash of [hopscotch hashing](crate::hopscotch), which
//! is "chaining-based" in the paper (table 3).
//!
//! ```text
//!  allocator: last freed node, nodes used so far      16 bytes
//!  heads: the first node of each bucket                8 bytes each
//!  nodes: key, value, next, unused                    32 bytes each, two to a line
//! ```
//!
//! A node's number begins at 1; 0 is none. Nodes come from an arena of fixed size. Freed ones are linked by their
//! `next`, and are used before those that never were. The allocator's words change in the same transaction as the list,
//! so a crash loses no node. An insertion writes four cells: pair, `next`, head, allocator. A removal writes three.
//!
//! Departure: the paper allocates nodes from a general heap, each in a separate transaction.

use crate::linear_probing::scaled;
use crate::region::Region;
use crate::table::{Full, Scheme};
use index::hash::Hasher;
use pmem::{LINE, Medium, Offset, WORD};

const NODE_BYTES: u64 = 32;
/// Where a node's `next` is, in words.
const NEXT: u64 = 2;
/// No node.
const NONE: u64 = 0;

/// Lists of nodes in a part of a table's memory.
pub struct Chains {
    /// Where they begin, counted from the start of the table: at a line.
    start: u64,
    buckets: u64,
    nodes: u64,
    /// Nodes in use. If there are none, no search is needed.
    used: u64,
    hasher: Hasher,
}

impl Chains {
    /// `nodes` nodes in `buckets` lists, `start` bytes behind the beginning of the table.
    pub fn new(start: u64, buckets: u64, nodes: u64, seed: u64) -> Self {
        Chains { start, buckets, nodes, used: 0, hasher: Hasher::new(seed) }
    }

    /// Number of pairs.
    pub fn len(&self) -> u64 {
        self.used
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether the pair at `at` lies in a list.
    pub fn has<M: Medium>(&self, region: &Region<M>, at: Offset) -> bool {
        (self.node(region, 1).0..self.node(region, self.nodes + 1).0).contains(&at.0)
    }

    fn allocator<M: Medium>(&self, region: &Region<M>) -> Offset {
        region.table().add(self.start)
    }

    fn head_at<M: Medium>(&self, region: &Region<M>, bucket: u64) -> Offset {
        self.allocator(region).word(2 + bucket)
    }

    #[inline]
    fn head<M: Medium>(&self, region: &Region<M>, key: u64) -> Offset {
        self.head_at(region, scaled(self.hasher.first_u64(key), self.buckets))
    }

    fn node<M: Medium>(&self, region: &Region<M>, number: u64) -> Offset {
        let heads = ((2 + self.buckets) * WORD).next_multiple_of(LINE);
        self.allocator(region).add(heads + (number - 1) * NODE_BYTES)
    }

    /// The nodes of a list, each with the word that leads to it.
    fn list<M: Medium>(
        &self,
        region: &Region<M>,
        head: Offset,
    ) -> impl Iterator<Item = (Offset, Offset)> {
        let mut link = head;
        std::iter::from_fn(move || match region.load(link) {
            NONE => None,
            number => {
                let node = self.node(region, number);
                Some((std::mem::replace(&mut link, node.word(NEXT)), node))
            }
        })
    }
}

impl Scheme for Chains {
    const MARKS: &'static [u64] = &[];

    #[inline]
    fn find<M: Medium>(&self, region: &Region<M>, key: u64) -> Option<Offset> {
        let mut list = self.list(region, self.head(region, key));
        list.find_map(|(_, node)| (region.load(node) == key).then_some(node))
    }

    fn place<M: Medium>(
        &mut self,
        region: &mut Region<M>,
        key: u64,
        value: u64,
    ) -> Result<(), Full> {
        let allocator = self.allocator(region);
        let (freed, fresh) = region.load_pair(allocator);
        let number = match freed {
            NONE if fresh == self.nodes => return Err(Full),
            NONE => {
                region.set_pair(allocator, NONE, fresh + 1);
                fresh + 1
            }
            number => {
                let next_freed = region.load(self.node(region, number).word(NEXT));
                region.set_pair(allocator, next_freed, fresh);
                number
            }
        };
        let (node, head) = (self.node(region, number), self.head(region, key));
        region.set_pair(node, key, value);
        region.set_word(node.word(NEXT), region.load(head));
        region.set_word(head, number);
        self.used += 1;
        Ok(())
    }

    fn erase<M: Medium>(&mut self, region: &mut Region<M>, key: u64, at: Offset) {
        let allocator = self.allocator(region);
        let found = self.list(region, self.head(region, key)).find(|&(_, node)| node == at);
        let Some((link, node)) = found else { return };
        let (number, next) = (region.load(link), region.load(node.word(NEXT)));
        let (freed, fresh) = region.load_pair(allocator);
        region.set_word(link, next);
        region.set_word(node.word(NEXT), freed);
        region.set_pair(allocator, number, fresh);
        self.used -= 1;
    }

    fn for_each<M: Medium>(&self, region: &Region<M>, visit: &mut dyn FnMut(Offset)) {
        for bucket in 0..self.buckets {
            self.list(region, self.head_at(region, bucket)).for_each(|(_, node)| visit(node));
        }
    }

    fn check<M: Medium>(&self, region: &Region<M>) -> Result<(), String> {
        let mut linked = 0;
        self.for_each(region, &mut |_| linked += 1);
        let free_list = self.list(region, self.allocator(region));
        let freed = free_list.take(self.nodes as usize + 1).count() as u64;
        let fresh = region.load(self.allocator(region).word(1));
        if linked != self.used || linked + freed != fresh {
            let used = self.used;
            return Err(format!(
                "of {fresh} nodes {linked} are in lists and {freed} free; {used} were counted"
            ));
        }
        Ok(())
    }

    fn capacity(&self) -> u64 {
        self.nodes
    }

    fn bytes(&self) -> u64 {
        ((2 + self.buckets) * WORD).next_multiple_of(LINE) + self.nodes * NODE_BYTES
    }

    fn opened<M: Medium>(&mut self, region: &Region<M>) {
        let mut used = 0;
        self.for_each(region, &mut |_| used += 1);
        self.used = used;
    }
}
