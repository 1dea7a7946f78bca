//! Versions of level-3 chains: `find`, `walk`, `link`, `unlink`, `remove`, `insert` and `split` of
//! `engines/src/iceberg/level_3.rs`.
//!
//! Property: a reader without locks does not miss a key that is there all the time. That holds when the node before the
//! key is unlinked and linked into another chain, so that the reader strays, and when a resize moves the key from the
//! chain of the source to that of the destination.

use crate::explore::{breaks, holds};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Protocol {
    checks_version: bool,
    check_fence: bool,
    counts_unlinking: bool,
    links_before_unlinking: bool,
    load_next: Ordering,
    link_next: Ordering,
    unlink_head: Ordering,
}

const PRODUCTION: Protocol = Protocol {
    checks_version: true,
    check_fence: true,
    counts_unlinking: true,
    links_before_unlinking: true,
    load_next: Ordering::Acquire,
    link_next: Ordering::Release,
    unlink_head: Ordering::Release,
};

const VERSION: u64 = 1 << 32;
const IN_USE: u64 = 1;
const SOURCE: usize = 0;
const DESTINATION: usize = 1;
const KEY: u64 = 7;
const OTHER: u64 = 8;
const MISSED: &str = "missed a key that was there all the time";

fn link_of(word: u64) -> Option<usize> {
    (word as u32).checked_sub(1).map(|cell| cell as usize)
}

struct Node {
    key: AtomicU64,
    state: AtomicU64,
}

/// Two chains and three nodes.
struct Level3 {
    protocol: Protocol,
    heads: [AtomicU64; 2],
    cells: [AtomicU64; 6],
    nodes: [Node; 3],
}

impl Level3 {
    fn find(&self, block: usize, key: u64) -> bool {
        loop {
            let head = self.heads[block].load(Ordering::Acquire);
            if link_of(head).is_none() {
                return false;
            }
            if let Some(found) = self.walk(block, head, key) {
                return found;
            }
        }
    }

    /// `None` if the chain changed meanwhile.
    fn walk(&self, block: usize, head: u64, key: u64) -> Option<bool> {
        let mut link = head;
        let mut found = false;
        while let Some(cell) = link_of(link) {
            let node = &self.nodes[cell / 2];
            if node.key.load(Ordering::Acquire) == key
                && node.state.load(Ordering::Acquire) == IN_USE
            {
                found = true;
                break;
            }
            link = self.cells[cell].load(self.protocol.load_next);
        }
        if self.protocol.check_fence {
            fence(Ordering::Acquire);
        }
        let is_same =
            !self.protocol.checks_version || self.heads[block].load(Ordering::Relaxed) == head;
        is_same.then_some(found)
    }

    fn link(&self, block: usize, cell: usize) {
        let before = self.heads[block].load(Ordering::Relaxed);
        self.cells[cell].store(before & (VERSION - 1), self.protocol.link_next);
        let version = (before & !(VERSION - 1)) + VERSION;
        self.heads[block].store(version | (cell as u64 + 1), Ordering::Release);
    }

    /// Unlinks the first or second cell of a chain.
    fn unlink(&self, block: usize, cell: usize) {
        let after = self.cells[cell].load(Ordering::Relaxed) & (VERSION - 1);
        let before = self.heads[block].load(Ordering::Relaxed);
        let version =
            (before & !(VERSION - 1)) + u64::from(self.protocol.counts_unlinking) * VERSION;
        let first = link_of(before).unwrap();
        if first == cell {
            self.heads[block].store(version | after, self.protocol.unlink_head);
            return;
        }
        assert_eq!(link_of(self.cells[first].load(Ordering::Relaxed)), Some(cell));
        self.cells[first].store(after, Ordering::Release);
        self.heads[block].store(version | (before & (VERSION - 1)), self.protocol.unlink_head);
    }

    fn insert(&self, block: usize, node: usize, key: u64) {
        self.nodes[node].key.store(key, Ordering::Relaxed);
        self.nodes[node].state.store(IN_USE, Ordering::Release);
        self.link(block, 2 * node);
    }

    fn remove(&self, block: usize, cell: usize) {
        self.nodes[cell / 2].state.store(0, Ordering::Release);
        self.unlink(block, cell);
    }

    fn split(&self, cell: usize) {
        if self.protocol.links_before_unlinking {
            self.link(DESTINATION, cell ^ 1);
            self.unlink(SOURCE, cell);
        } else {
            self.unlink(SOURCE, cell);
            self.link(DESTINATION, cell ^ 1);
        }
    }
}

fn level_3(protocol: Protocol) -> Arc<Level3> {
    let word = |()| AtomicU64::new(0);
    let node = |()| Node { key: AtomicU64::new(0), state: AtomicU64::new(0) };
    Arc::new(Level3 {
        protocol,
        heads: [(); 2].map(word),
        cells: [(); 6].map(word),
        nodes: [(); 3].map(node),
    })
}

/// The node before the key's is removed, and used again in the chain `to`. It is the first of its chain, or another one
/// comes before it.
fn reuse(protocol: Protocol, is_first: bool, to: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let level_3 = level_3(protocol);
        level_3.insert(SOURCE, 0, KEY);
        level_3.insert(SOURCE, 1, OTHER);
        if !is_first {
            level_3.insert(SOURCE, 2, OTHER);
        }
        let shared = Arc::clone(&level_3);
        let writer = thread::spawn(move || {
            shared.remove(SOURCE, 2);
            shared.insert(to, 1, OTHER);
        });
        let reader = thread::spawn(move || assert!(level_3.find(SOURCE, KEY), "{MISSED}"));
        writer.join().unwrap();
        reader.join().unwrap();
    }
}

fn stray(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    reuse(protocol, true, DESTINATION)
}

/// The key's node is moved to the chain of the destination.
fn split(protocol: Protocol) -> impl Fn() + Send + Sync + 'static {
    move || {
        let level_3 = level_3(protocol);
        level_3.insert(SOURCE, 0, KEY);
        let shared = Arc::clone(&level_3);
        let mover = thread::spawn(move || shared.split(0));
        let reader = thread::spawn(move || {
            assert!(level_3.find(SOURCE, KEY) || level_3.find(DESTINATION, KEY), "{MISSED}");
        });
        mover.join().unwrap();
        reader.join().unwrap();
    }
}

#[test]
fn a_key_behind_a_node_in_reuse_is_found() {
    for is_first in [true, false] {
        holds(None, reuse(PRODUCTION, is_first, SOURCE));
        holds(None, reuse(PRODUCTION, is_first, DESTINATION));
    }
}

#[test]
fn a_key_whose_chain_is_split_is_found() {
    holds(None, split(PRODUCTION));
}

#[test]
fn spoilt_walk_that_does_not_look_at_the_version() {
    breaks(MISSED, None, stray(Protocol { checks_version: false, ..PRODUCTION }));
}

#[test]
fn spoilt_link_relaxed() {
    breaks(MISSED, None, stray(Protocol { link_next: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_unlink_that_does_not_count() {
    let protocol = Protocol { counts_unlinking: false, ..PRODUCTION };
    breaks(MISSED, None, reuse(protocol, false, DESTINATION));
}

#[test]
fn spoilt_unlink_relaxed() {
    breaks(MISSED, None, split(Protocol { unlink_head: Ordering::Relaxed, ..PRODUCTION }));
}

#[test]
fn spoilt_unlinked_before_linked() {
    breaks(MISSED, None, split(Protocol { links_before_unlinking: false, ..PRODUCTION }));
}

#[test]
fn spoilt_walk_that_acquires_nothing() {
    // Either of the two suffices: the acquiring loads of links, or the fence before the check.
    holds(None, stray(Protocol { check_fence: false, ..PRODUCTION }));
    holds(None, stray(Protocol { load_next: Ordering::Relaxed, ..PRODUCTION }));
    let load_next = Ordering::Relaxed;
    breaks(MISSED, None, stray(Protocol { check_fence: false, load_next, ..PRODUCTION }));
}
