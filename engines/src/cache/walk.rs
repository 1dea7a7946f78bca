//! Walking over all items, a line of the index at a time.

use super::Cache;
use super::index::{Part, line_of, lines_of, tag_in};
use pmem::Medium;

/// How far a walk has come. It keeps nothing in place: what it has not met yet may change, and the index may be split.
#[derive(Debug)]
pub struct Walk {
    /// Parts of the index that are still to be visited.
    parts: Vec<Part>,
    current: Option<Visited>,
}

/// The part that is being visited.
#[derive(Debug, Clone, Copy)]
struct Visited {
    part: Part,
    /// The segment that had it when the visit began.
    segment: u32,
    /// The next line of it.
    line: u64,
}

impl Walk {
    /// A walk over all that is there.
    pub fn new() -> Walk {
        Walk { parts: vec![Part::WHOLE], current: None }
    }
}

impl Default for Walk {
    fn default() -> Self {
        Walk::new()
    }
}

impl<M: Medium> Cache<M> {
    /// Calls `visit` with each key and value that is there; as [`Cache::peek`], this is no hit. A key that is there
    /// throughout is met, perhaps twice if it is moved meanwhile. `visit` returns whether to go on; it may not change
    /// the cache.
    pub fn for_each(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let mut walk = Walk::new();
        let mut goes_on = true;
        while goes_on
            && self.walk_on(&mut walk, &mut |key, value| goes_on = goes_on && visit(key, value))
        {
        }
    }

    /// Calls `visit` with the next few keys and values, as [`Cache::for_each`] does. Returns whether there may be more.
    pub fn walk_on(&self, walk: &mut Walk, visit: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        if let Some(visited) = &mut walk.current {
            if self.visit_line(visited, visit) {
                return true;
            }
            let Visited { part, segment, .. } = *visited;
            walk.current = None;
            // A split that came between may have taken keys away before their line was read.
            if self.directory.only_segment(part) != Some(segment) {
                self.walk_again(walk, part);
            }
        } else if let Some(part) = walk.parts.pop() {
            match self.directory.only_segment(part) {
                Some(segment) => walk.current = Some(Visited { part, segment, line: 0 }),
                None => self.walk_again(walk, part),
            }
        }
        walk.current.is_some() || !walk.parts.is_empty()
    }

    /// Lets a walk visit a part by its halves, if each of them can be in a segment of its own.
    fn walk_again(&self, walk: &mut Walk, part: Part) {
        if self.directory.can_name(part.halves()[0]) {
            walk.parts.extend(part.halves());
        } else {
            walk.parts.push(part);
        }
    }

    /// Visits what has its slot in the next line of a part. Returns whether there was one, and a segment still has the
    /// part.
    fn visit_line(&self, visited: &mut Visited, visit: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let Visited { part, segment, line } = *visited;
        let guard = self.epochs.pin();
        if line == lines_of(&self.arena) || !self.directory.begins_in(part, segment) {
            return false;
        }
        visited.line += 1;
        let slots = self.arena.medium().load_line(line_of(&self.arena, segment, line));
        for slot in slots.into_iter().filter(|slot| *slot != 0 && part.has(tag_in(*slot))) {
            let Some(entry) = self.arena.entry(self.place(slot), &guard) else { continue };
            if self.is_current(entry.stamp) {
                visit(entry.key, entry.value);
            }
        }
        true
    }
}
