//! Where nodes come from, and where they go.
//!
//! ```text
//!  root: the latest chunk
//!  chunk: the one before, 3 words unused; nodes of 4 words
//! ```
//!
//! Which nodes are free is known in volatile memory alone. Opening finds out: those of all chunks to which no list
//! leads.

use super::super::Ground;
use pmem::sync::{AtomicU64, Mutex, Ordering, thread_index};
use pmem::{LINE, Medium, Offset, SpaceError};

/// Bytes of a node: two are a line.
const NODE_BYTES: u64 = 32;
/// log2 of a chunk's lines, unless a table is made otherwise.
pub(super) const CHUNK_LINES_LOG2: u32 = 6;
/// Lists of free nodes, so that threads seldom wait for each other.
const LISTS: usize = 4;

/// All nodes of a table.
pub(super) struct Nodes {
    root: Offset,
    chunk_bytes: u64,
    chunks: AtomicU64,
    /// Held by the thread that adds a chunk.
    adding: Mutex<()>,
    free: [Mutex<Vec<Offset>>; LISTS],
}

impl Nodes {
    /// Of a new table: none.
    pub(super) fn none(root: Offset, chunk_lines_log2: u32) -> Nodes {
        Nodes {
            root,
            chunk_bytes: LINE << chunk_lines_log2,
            chunks: AtomicU64::new(0),
            adding: Mutex::new(()),
            free: std::array::from_fn(|_| Mutex::new(Vec::new())),
        }
    }

    /// Of a table of which these nodes are in lists.
    pub(super) fn open<M: Medium>(self, medium: &M, mut linked: Vec<Offset>) -> Nodes {
        linked.sort_unstable();
        for (chunk, list) in self.chunks(medium).zip((0..LISTS).cycle()) {
            let is_free = |node: &Offset| linked.binary_search(node).is_err();
            self.free[list].lock().extend(self.nodes_of(chunk).filter(is_free));
            self.chunks.fetch_add(1, Ordering::Relaxed);
        }
        self
    }

    fn chunks<M: Medium>(&self, medium: &M) -> impl Iterator<Item = Offset> {
        let chunk_at = |at| Some(Offset(medium.load(at))).filter(|chunk| chunk.0 != 0);
        std::iter::successors(chunk_at(self.root), move |&chunk| chunk_at(chunk))
    }

    /// The first one's place is the chunk's own word.
    fn nodes_of(&self, chunk: Offset) -> impl Iterator<Item = Offset> {
        (1..self.chunk_bytes / NODE_BYTES).map(move |number| chunk.add(number * NODE_BYTES))
    }

    /// Bytes of all chunks.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed) * self.chunk_bytes
    }

    /// A node to which nothing leads.
    pub(super) fn take<M: Medium>(&self, ground: &Ground<M>) -> Result<Offset, SpaceError> {
        let own = &self.free[thread_index() % LISTS];
        if let Some(node) = own.lock().pop() {
            return Ok(node);
        }
        let others = self.free.iter().filter(|&list| !std::ptr::eq(list, own));
        let halved = others.map(|list| {
            let mut list = list.lock();
            let half = list.len() / 2;
            list.split_off(half)
        });
        let found = halved.into_iter().find(|nodes| !nodes.is_empty());
        let mut nodes = found.map_or_else(|| self.add_chunk(ground), Ok)?;
        let node = nodes.swap_remove(0);
        own.lock().extend(nodes);
        Ok(node)
    }

    /// The caller has seen to it that nothing leads there any more, whatever crashes.
    pub(super) fn give_back(&self, node: Offset) {
        self.free[thread_index() % LISTS].lock().push(node);
    }

    /// The nodes of a new chunk, which opening finds from now on.
    #[cold]
    fn add_chunk<M: Medium>(&self, ground: &Ground<M>) -> Result<Vec<Offset>, SpaceError> {
        let medium = ground.medium();
        let _held = self.adding.lock();
        let chunk = ground.allocate(self.chunk_bytes)?;
        medium.store(chunk, medium.load(self.root));
        // Before anything leads there, or a crash could lose all chunks before.
        medium.persist(chunk);
        medium.store(self.root, chunk.0);
        medium.persist(self.root);
        self.chunks.fetch_add(1, Ordering::Relaxed);
        Ok(self.nodes_of(chunk).collect())
    }

    /// Fails unless each node of each chunk is once among those in lists or among the free ones, and no other is.
    pub(super) fn check<M: Medium>(&self, medium: &M, linked: &[Offset]) -> Result<(), String> {
        let chunks: Vec<Offset> = self.chunks(medium).collect();
        let counted = self.chunks.load(Ordering::Relaxed);
        if chunks.len() as u64 != counted {
            return Err(format!("there are {} chunks, {counted} were counted", chunks.len()));
        }
        let mut all: Vec<Offset> = chunks.iter().flat_map(|&chunk| self.nodes_of(chunk)).collect();
        let mut met = linked.to_vec();
        self.free.iter().for_each(|list| met.extend_from_slice(&list.lock()));
        all.sort_unstable();
        met.sort_unstable();
        let twice = met.windows(2).find(|two| two[0] == two[1]);
        if let Some(two) = twice {
            return Err(format!("the node at {} is used twice", two[0]));
        }
        if let Some(node) = met.iter().find(|node| all.binary_search(node).is_err()) {
            return Err(format!("the node at {node} is in no chunk"));
        }
        let lost = all.iter().find(|node| met.binary_search(node).is_err());
        lost.map_or(Ok(()), |node| Err(format!("the node at {node} is lost")))
    }
}
