//! Level 3: the few keys for which levels 1 and 2 have no room, and key 0.
//!
//! A node in the pool holds a pair and a state; the links between nodes are volatile. Each level-1 block has a chain,
//! which changes only under the block's lock. A chain's head word holds a version that grows with every change. By it a
//! reader, which takes no lock, knows whether it walked one chain all along; if not, it walks again. No version means
//! "being changed", so a reader never waits for a writer.
//!
//! A chain consists of cells. Node *n* has the cells 2*n* and 2*n* + 1 and is linked through one of them. To move a
//! node to another chain, a resize first links it there through its other cell and then unlinks it here. So a reader
//! that walks the source chain and then the destination's cannot miss it.

use super::layout::{LEVEL_3, NODE_BYTES, NODES_LOG2_MAX, ROOT_LEVEL_3, VALUE_WORD};
use pmem::slots::Area;
use pmem::sync::{Array, AtomicU64, Mutex, Ordering, fence};
use pmem::{Medium, Offset, OpenError, Pool, SpaceError};
use std::io;

/// Words of a node; the key is word 0.
const NODE_VALUE: u64 = VALUE_WORD;
const NODE_STATE: u64 = 2;

/// State of a node that holds a pair.
pub(super) const IN_USE: u64 = 1;

/// Steps after which a reader checks whether it has strayed from its chain.
const STEPS_BETWEEN_CHECKS: usize = 8;

const VERSION: u64 = 1 << 32;

/// Whether the chain with this head has no cell.
pub(super) fn is_empty_chain(head: u64) -> bool {
    link_of(head).is_none()
}

/// A link to cell `cell` is `cell + 1`; 0 is the end.
fn link_of(word: u64) -> Option<u64> {
    (word as u32).checked_sub(1).map(u64::from)
}

#[derive(Debug, Default)]
struct Nodes {
    free: Vec<u64>,
    /// Nodes from here on have never been used.
    fresh: u64,
    log2: u32,
}

#[derive(Debug)]
pub(super) struct Level3 {
    area: Area,
    heads: Array<AtomicU64>,
    cells: Array<AtomicU64>,
    nodes: Mutex<Nodes>,
}

impl Level3 {
    pub(super) fn new(
        area: Area,
        log2: u32,
        heads: Array<AtomicU64>,
        nodes_max: usize,
    ) -> io::Result<Level3> {
        let nodes_max = nodes_max.min(1 << NODES_LOG2_MAX);
        Ok(Level3 {
            area,
            heads,
            cells: Array::reserve(2 * nodes_max, 2 << log2)?,
            nodes: Mutex::new(Nodes { log2, ..Nodes::default() }),
        })
    }

    pub(super) fn node_at(&self, node: u64) -> Offset {
        self.area.at(node)
    }

    fn cell_at(&self, cell: u64) -> Offset {
        self.node_at(cell / 2)
    }

    pub(super) fn state_at(node: Offset) -> Offset {
        node.word(NODE_STATE)
    }

    /// Number of level-1 blocks that can have chains.
    pub(super) fn chains_max(&self) -> u64 {
        self.heads.len() as u64
    }

    /// Pairs stored. Exact when nothing writes.
    pub(super) fn len(&self) -> u64 {
        let nodes = self.nodes.lock();
        nodes.fresh - nodes.free.len() as u64
    }

    /// Number of nodes for which there is room.
    pub(super) fn nodes(&self) -> u64 {
        1 << self.nodes.lock().log2
    }

    fn head(&self, block: u64) -> &AtomicU64 {
        self.heads.get(block as usize)
    }

    fn next(&self, cell: u64) -> &AtomicU64 {
        self.cells.get(cell as usize)
    }

    /// Finds `key` in the chain of `block`, without locks; returns its node and its value.
    pub(super) fn find<M: Medium>(
        &self,
        medium: &M,
        block: u64,
        key: u64,
    ) -> Option<(Offset, u64)> {
        loop {
            let head = self.head(block).load(Ordering::Acquire);
            link_of(head)?;
            if let Ok(found) = self.walk(medium, block, head, key) {
                return found;
            }
        }
    }

    /// `Err` if the chain changed meanwhile.
    fn walk<M: Medium>(
        &self,
        medium: &M,
        block: u64,
        head: u64,
        key: u64,
    ) -> Result<Option<(Offset, u64)>, ()> {
        let changed = || {
            fence(Ordering::Acquire);
            self.head(block).load(Ordering::Relaxed) != head
        };
        let mut link = head;
        let mut steps = 0;
        let mut found = None;
        while let Some(cell) = link_of(link) {
            let node = self.cell_at(cell);
            let (node_key, value) = medium.load_pair(node);
            if node_key == key {
                if medium.load(Self::state_at(node)) == IN_USE {
                    found = Some((node, value));
                    break;
                }
                // A removal that has not passed its fence: make the absence durable.
                medium.persist(node);
            }
            steps += 1;
            if steps % STEPS_BETWEEN_CHECKS == 0 && changed() {
                return Err(());
            }
            link = self.next(cell).load(Ordering::Acquire);
        }
        if changed() { Err(()) } else { Ok(found) }
    }

    /// The cell and value of `key`, for the holder of the block's lock.
    pub(super) fn find_locked<M: Medium>(
        &self,
        medium: &M,
        block: u64,
        key: u64,
    ) -> Option<(u64, u64)> {
        self.chain(block).find_map(|cell| {
            let (found, value) = medium.load_pair(self.cell_at(cell));
            (found == key).then_some((cell, value))
        })
    }

    /// The cells of a chain, for the holder of the block's lock.
    pub(super) fn chain(&self, block: u64) -> impl Iterator<Item = u64> + '_ {
        let mut link = self.head(block).load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            let cell = link_of(link)?;
            link = self.next(cell).load(Ordering::Relaxed);
            Some(cell)
        })
    }

    /// The pairs of a chain, for the holder of the block's lock.
    pub(super) fn pairs<'a, M: Medium>(
        &'a self,
        medium: &'a M,
        block: u64,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.chain(block).map(|cell| medium.load_pair(self.cell_at(cell)))
    }

    /// Node of a cell.
    pub(super) fn node_of(cell: u64) -> u64 {
        cell / 2
    }

    /// Links a cell at the front of a chain whose block's lock is held.
    pub(super) fn link(&self, block: u64, cell: u64) {
        let head = self.head(block);
        let before = head.load(Ordering::Relaxed);
        // Release: a reader that strays here through a reused cell must notice the new version.
        self.next(cell).store(before & (VERSION - 1), Ordering::Release);
        head.store((before & !(VERSION - 1)).wrapping_add(VERSION) | (cell + 1), Ordering::Release);
    }

    /// Unlinks a cell from a chain whose block's lock is held. The version changes before the
    /// cell can be linked anywhere else.
    fn unlink(&self, block: u64, cell: u64) {
        let after = self.next(cell).load(Ordering::Relaxed) & (VERSION - 1);
        let head = self.head(block);
        let before = head.load(Ordering::Relaxed);
        let version = (before & !(VERSION - 1)).wrapping_add(VERSION);
        if link_of(before) == Some(cell) {
            head.store(version | after, Ordering::Release);
            return;
        }
        if let Some(previous) = self
            .chain(block)
            .find(|&previous| link_of(self.next(previous).load(Ordering::Relaxed)) == Some(cell))
        {
            self.next(previous).store(after, Ordering::Release);
        }
        head.store(version | (before & (VERSION - 1)), Ordering::Release);
    }

    /// Moves the cells of `source` for which `goes` holds to the chain of `destination`. The lock of `source` is held;
    /// so is that of `destination`, or nobody changes it yet.
    pub(super) fn split(
        &self,
        source: u64,
        destination: u64,
        mut goes: impl FnMut(Offset) -> bool,
    ) {
        let cells: Vec<u64> = self.chain(source).filter(|&cell| goes(self.cell_at(cell))).collect();
        for cell in cells {
            self.link(destination, cell ^ 1);
            self.unlink(source, cell);
        }
    }

    /// Insert_Lv3: stores a pair into a new node of the chain of `block`, whose lock is held.
    pub(super) fn insert<M: Medium>(
        &self,
        pool: &Pool<M>,
        block: u64,
        key: u64,
        value: u64,
    ) -> Result<(), SpaceError> {
        let node = self.take_node(pool)?;
        let at = self.node_at(node);
        let medium = pool.medium();
        medium.store(at.word(NODE_VALUE), value);
        medium.store(at, key);
        // Last: a state that survives a crash has its pair.
        medium.store_release(Self::state_at(at), IN_USE);
        medium.persist(at);
        self.link(block, 2 * node);
        Ok(())
    }

    pub(super) fn update<M: Medium>(&self, medium: &M, cell: u64, value: u64) {
        let at = self.cell_at(cell);
        medium.store_release(at.word(NODE_VALUE), value);
        medium.persist(at);
    }

    /// Removes the pair of a cell from the chain of `block`, whose lock is held.
    pub(super) fn remove<M: Medium>(&self, medium: &M, block: u64, cell: u64) {
        let at = self.cell_at(cell);
        medium.store(Self::state_at(at), 0);
        medium.persist(at);
        self.unlink(block, cell);
        // After the version has changed: a reader still at this node will look again.
        self.nodes.lock().free.push(Self::node_of(cell));
    }

    fn take_node<M: Medium>(&self, pool: &Pool<M>) -> Result<u64, SpaceError> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.free.pop() {
            return Ok(node);
        }
        if nodes.fresh == 1 << nodes.log2 {
            let log2 = nodes.log2 + 1;
            if 2 << log2 > self.cells.len() as u64 {
                let needed_bytes = pool.superblock().end.saturating_add(NODE_BYTES << nodes.log2);
                return Err(if log2 > NODES_LOG2_MAX {
                    SpaceError::Full {
                        needed_bytes,
                        reason: format!("level 3 has its most nodes, 2^{NODES_LOG2_MAX}"),
                    }
                } else {
                    pool.no_room_for("a larger level 3", needed_bytes)
                });
            }
            let index = self.area.extents_for(log2) - 1;
            let extent = pool.extend(|draft| {
                draft.engine_roots()[ROOT_LEVEL_3] = log2.into();
                draft.take_extent(LEVEL_3, index as u8, self.area.extent_bytes(index))
            })?;
            self.area.add_extent(index, extent.start);
            nodes.log2 = log2;
        }
        nodes.fresh += 1;
        Ok(nodes.fresh - 1)
    }

    /// Links every node that the pool marks as in use. `home_of` returns the chain of a node's key, or `None` if it has
    /// freed the node.
    pub(super) fn rebuild<M: Medium>(
        &self,
        medium: &M,
        mut home_of: impl FnMut(Offset, u64) -> Result<Option<u64>, OpenError>,
    ) -> Result<(), OpenError> {
        let mut nodes = self.nodes.lock();
        let count = 1u64 << nodes.log2;
        nodes.free.clear();
        nodes.fresh = 0;
        for node in 0..count {
            let at = self.node_at(node);
            if medium.load(Self::state_at(at)) != IN_USE {
                continue;
            }
            if let Some(home) = home_of(at, medium.load(at))? {
                // Skipped nodes are free; nodes after the last one in use stay fresh.
                let skipped = nodes.fresh..node;
                nodes.free.extend(skipped);
                nodes.fresh = node + 1;
                self.link(home, 2 * node);
            }
        }
        Ok(())
    }
}
