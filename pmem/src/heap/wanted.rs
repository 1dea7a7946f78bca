//! What a change found no room for, why there is none, and what a compaction made of that.

use super::Heap;
use super::item::item_bytes;
use crate::epoch::Epochs;
use crate::error::SpaceError;
use crate::medium::Medium;
use crate::offset::Offset;
use crate::sync::Ordering;

/// The space that a change needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Bytes of the item that has yet to be written. `None` if there is none: then it is not the heap that lacks room.
    pub item_bytes: Option<u64>,
    /// Whether the item replaces another.
    pub replaces: bool,
    /// Whether the item fits into the space of the one that it replaces.
    pub fits_in_place: bool,
}

/// The result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Whether there is room for what was wanted.
    pub has_room: bool,
    /// Bytes of segments that became free.
    pub freed_bytes: u64,
    /// Whether it had to leave segments as they were, since somebody may hold what is or was in them.
    pub is_held: bool,
}

impl Compacted {
    pub(super) fn add(&mut self, other: Compacted) {
        self.freed_bytes += other.freed_bytes;
        self.is_held |= other.is_held;
    }
}

impl<M: Medium> Heap<M> {
    /// The space that an item needs which replaces the one at `replaced`, if any.
    pub fn wanted_for(&self, key: &[u8], value: &[u8], replaced: Option<Offset>) -> Wanted {
        Wanted {
            item_bytes: Some(item_bytes(key, value)),
            replaces: replaced.is_some(),
            fits_in_place: replaced.is_some_and(|at| self.fits_in_place_of(key, value, at)),
        }
    }

    /// The refusal `full` of what was `wanted`, with all the reasons that are left after a compaction.
    #[inline(never)]
    pub fn say_why(
        &self,
        full: SpaceError,
        wanted: &Wanted,
        room: Compacted,
        epochs: &Epochs,
    ) -> SpaceError {
        let SpaceError::Full { needed_bytes, mut reason } = full else { return full };
        let free_bytes = self.segments_free.load(Ordering::Relaxed) << self.segment_log2;
        match wanted.item_bytes {
            None => reason += "; it is the index that has no room to grow",
            Some(bytes) if free_bytes >= bytes => {
                reason += &format!(
                    "; {free_bytes} bytes are free, but not {bytes} in a row, nor can they be moved together"
                );
            }
            Some(_) => {}
        }
        let held_bytes = epochs.waiting_bytes();
        if held_bytes > 0 || room.is_held {
            reason += &format!(
                "; besides, somebody reads, or holds `Record`s or scans, which keep {held_bytes} bytes of what was \
                 replaced or removed: drop them"
            );
        }
        SpaceError::Full { needed_bytes, reason }
    }
}
