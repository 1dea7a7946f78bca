//! A bucket: its lock, and the list of its nodes.
//!
//! All changes of a list are stores to one word each, its *link*: the bucket's head, or the `next` of a node.

use pmem::sync::spin;
use pmem::{Medium, Offset};

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = 16;
/// Where a bucket's words are.
const LOCK: u64 = 0;
const HEAD: u64 = 1;

/// Where a node's words are, if its key and its value are left out.
const NEXT: u64 = 2;

/// In a head: the bucket holds its nodes. Without this its parent does.
const FILLED: u64 = 1;

/// In a lock: taken by a writer.
const WRITER: u64 = 1;
/// In a lock: a writer waits, and no more readers come in.
const WAITING: u64 = 2;
/// One reader. Their number is above the two marks.
const READER: u64 = 4;

/// How a bucket is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// A bucket, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket(pub(super) Offset);

/// A node in a list.
pub(super) struct Found {
    /// What leads to it.
    pub(super) link: Offset,
    pub(super) node: Offset,
    pub(super) value: u64,
}

impl Bucket {
    fn head(self) -> Offset {
        self.0.word(HEAD)
    }

    pub(super) fn is_filled<M: Medium>(self, medium: &M) -> bool {
        medium.load(self.head()) & FILLED != 0
    }

    /// Says that it holds its nodes, and so far has none. Who needs this to be durable flushes it.
    pub(super) fn mark_filled<M: Medium>(self, medium: &M) {
        medium.store(self.head(), FILLED);
    }

    /// Waits for the lock.
    #[inline(always)]
    pub(super) fn lock<M: Medium>(self, medium: &M, access: Access) {
        let at = self.0.word(LOCK);
        let (mut state, mut turn) = (0, 0);
        loop {
            let (hindered_by, taken) = match access {
                Access::Read => (state & (WRITER | WAITING), state + READER),
                Access::Write => (state & !WAITING, WRITER),
            };
            if hindered_by == 0 {
                match medium.compare_exchange(at, state, taken) {
                    Ok(_) => return,
                    Err(found) => state = found,
                }
                continue;
            }
            if access == Access::Write && state & WAITING == 0 {
                // If the state is another one by now, that one is looked at next.
                let _ = medium.compare_exchange(at, state, state | WAITING);
            }
            spin(&mut turn);
            state = medium.load(at);
        }
    }

    /// Gives the lock back.
    #[inline(always)]
    pub(super) fn unlock<M: Medium>(self, medium: &M, access: Access) {
        let at = self.0.word(LOCK);
        if access == Access::Write {
            // Writers that wait say so again.
            medium.store_release(at, 0);
            return;
        }
        let mut state = READER;
        while let Err(found) = medium.compare_exchange(at, state, state - READER) {
            state = found;
        }
    }

    /// Releases a lock that a crash has left taken.
    pub(super) fn release<M: Medium>(self, medium: &M) {
        medium.store(self.0.word(LOCK), 0);
    }

    /// What its lock says: zero if it is free.
    pub(super) fn lock_state<M: Medium>(self, medium: &M) -> u64 {
        medium.load(self.0.word(LOCK))
    }

    /// Its nodes, each with the link that leads to it.
    #[inline(always)]
    pub(super) fn nodes<M: Medium>(self, medium: &M) -> impl Iterator<Item = (Offset, Offset)> {
        let mut link = self.head();
        std::iter::from_fn(move || {
            let node = Offset(medium.load(link) & !FILLED);
            let met = (node.0 != 0).then_some((link, node))?;
            link = node.word(NEXT);
            Some(met)
        })
    }

    /// The node of a key.
    #[inline(always)]
    pub(super) fn find<M: Medium>(self, medium: &M, key: u64) -> Option<Found> {
        self.nodes(medium).find_map(|(link, node)| {
            let (there, value) = medium.load_pair(node);
            (there == key).then_some(Found { link, node, value })
        })
    }

    /// Puts a node before all others, durably.
    pub(super) fn push<M: Medium>(self, medium: &M, node: Offset, (key, value): (u64, u64)) {
        medium.store(node, key);
        medium.store(node.word(1), value);
        medium.store(node.word(NEXT), medium.load(self.head()) & !FILLED);
        // Before anything leads there, or a crash could leave the link alone.
        medium.persist(node);
        redirect(medium, self.head(), node.0);
    }

    /// Takes a node out, durably: afterwards it may be used for another pair.
    pub(super) fn take_out<M: Medium>(self, medium: &M, Found { link, node, .. }: &Found) {
        redirect(medium, *link, medium.load(node.word(NEXT)));
    }

    /// The first link to a node that belongs elsewhere, and the next node behind it that belongs here.
    fn stray<M: Medium>(
        self,
        medium: &M,
        belongs: impl Fn(u64) -> bool,
    ) -> Option<(Offset, Option<Offset>)> {
        let is_own = |&(_, node): &(Offset, Offset)| belongs(medium.load(node));
        let mut nodes = self.nodes(medium).skip_while(is_own);
        let (link, _) = nodes.next()?;
        Some((link, nodes.find(is_own).map(|(_, node)| node)))
    }
}

/// Makes a link lead to another node, or nowhere, durably.
fn redirect<M: Medium>(medium: &M, link: Offset, node: u64) {
    let mark = medium.load(link) & FILLED;
    medium.store(link, node | mark);
    medium.persist(link);
}

/// Gives a bucket the nodes that it takes over from its parent: those of whose key `is_childs`. The caller has locked
/// both.
pub(super) fn fill<M: Medium>(
    medium: &M,
    [parent, child]: [Bucket; 2],
    is_childs: impl Fn(u64) -> bool,
) {
    let first = parent.nodes(medium).find(|&(_, node)| is_childs(medium.load(node)));
    let Some((_, node)) = first else {
        // A crash may take this back: then it is found out anew that there is nothing to take over.
        child.mark_filled(medium);
        return;
    };
    // Every node of the child is behind this one.
    medium.store(child.head(), node.0 | FILLED);
    medium.persist(child.head());
    part(medium, [parent, child], is_childs);
}

/// Parts the lists of two buckets that have nodes in common, from the front on, one link after another, each durable
/// before the next. A link is made to lead past nodes of the other bucket once the other list does not lead over this
/// link any more. So each list has all of its nodes at any time, and it can be gone on with after a crash.
pub(super) fn part<M: Medium>(
    medium: &M,
    [parent, child]: [Bucket; 2],
    is_childs: impl Fn(u64) -> bool,
) {
    loop {
        let of_parent = parent.stray(medium, |key| !is_childs(key));
        let of_child = child.stray(medium, &is_childs);
        let is_shared = |link: Offset| child.nodes(medium).any(|(_, node)| node.word(NEXT) == link);
        let may_go = |&(link, _): &(Offset, Option<Offset>)| !is_shared(link);
        let Some((link, node)) = of_parent.filter(may_go).or(of_child) else { return };
        redirect(medium, link, node.map_or(0, |node| node.0));
    }
}
