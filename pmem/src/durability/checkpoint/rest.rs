//! The place that is not needed while the pool is closed, nor until there is room for it.

use super::super::disk::{DiskFile, PAGE_BYTES};
use super::super::error::LogError;
use super::super::held;
use super::{CHECKPOINTS, Checkpoint, Header, PAGE, Place, Places, failed, file_bytes};
use std::io;
use std::sync::Arc;

impl Places {
    /// Bytes of both files, once they have space for a pool of so many bytes.
    pub(in super::super) fn bytes(&self, image_bytes: u64) -> u64 {
        2 * file_bytes(image_bytes, self.chunk_bytes)
    }

    /// Whether the log can be merged into the checkpoint there is, when this is the pool's size and its log's
    /// generation: then an opening needs no second place.
    pub(in super::super) fn may_rest(&self, generation: u128, image_bytes: u64) -> bool {
        let Ok(Some(Checkpoint { header, .. })) = Checkpoint::open(&*self.disk) else {
            return false;
        };
        let Header { merging, chunk_bytes, .. } = header;
        held(&self.reserved).is_certain
            && (header.uuid, header.generation) == (self.uuid, generation)
            && (header.image_bytes, chunk_bytes, merging) == (image_bytes, self.chunk_bytes, None)
    }

    /// Gives back the space of the other place, but for its first page, and what only a larger pool would need. To be
    /// called when the pool grows no more, and only if it [may rest](Places::may_rest). If it stays, that is no harm.
    pub(in super::super) fn rest(&self) {
        let Ok(Some(Checkpoint { header, .. })) = Checkpoint::open(&*self.disk) else { return };
        let mut reserved = held(&self.reserved);
        if reserved.is_resting {
            return;
        }
        if let Some(file) = &reserved.files[header.place] {
            // Space was taken ahead, as for the pool.
            let needed = file_bytes(header.image_bytes, header.chunk_bytes);
            if file.len().is_ok_and(|bytes| bytes > needed) {
                let _ = file.shorten(needed);
            }
        }
        let Some(file) = reserved.files[1 - header.place].clone() else { return };
        // First: what it is said to keep must not be looked for in a file that has it no more.
        if self.mark_as_room(&*file, 0).is_ok() {
            let _ = file.shorten(PAGE);
            reserved.image_bytes = 0;
        }
    }

    /// Leaves the second place as a close has [left it](Places::rest), if it did: somebody [takes](Places::take_rest)
    /// it when the pool has been open for a while. So opening a large pool for one change neither takes that space nor
    /// gives it back.
    pub(in super::super) fn rest_on(&self) -> bool {
        let Ok(Some(Checkpoint { header, .. })) = Checkpoint::open(&*self.disk) else {
            return false;
        };
        let other = 1 - header.place;
        let open = |place: usize| -> io::Result<Arc<dyn DiskFile>> {
            Ok(Arc::from(self.disk.open(CHECKPOINTS[place])?))
        };
        let (Ok(image), Ok(room)) = (open(header.place), open(other)) else { return false };
        // Of a file that others could read another one is made.
        let is_private = |file: &dyn DiskFile| file.is_as_private().unwrap_or(false);
        let is_whole = matches!(Place::look(&*self.disk, header.place), Ok(Place::Whole(_)))
            && header.merging.is_none();
        let is_resting = is_whole
            && is_private(&*image)
            && is_private(&*room)
            && matches!(Place::look(&*self.disk, other), Ok(Place::Vacant))
            && room.len().is_ok_and(|bytes| bytes == PAGE)
            && self.kept_bytes(&*room, other).is_ok_and(|bytes| bytes == 0);
        if is_resting {
            let mut reserved = held(&self.reserved);
            reserved.files[header.place] = Some(image);
            reserved.files[other] = Some(room);
            reserved.are_new[other] = true;
            reserved.is_resting = true;
        }
        is_resting
    }

    /// Takes space for both places of a pool of this size, unless that was tried since the opening.
    pub(in super::super) fn take_rest(&self, image_bytes: u64) {
        let mut reserved = held(&self.reserved);
        if reserved.is_resting {
            // Without it the log is merged, and the pool does not grow.
            let _ = self.reserve_in(&mut reserved, image_bytes);
        }
    }

    /// As [`Places::reserve`] for a pool that was closed, and may have [given back](Places::rest) the second place. If
    /// the disk has no room for that by now, the log is merged into the only checkpoint until there is, and the pool
    /// does not grow.
    pub(in super::super) fn reserve_again(&self, image_bytes: u64) -> Result<(), LogError> {
        let refused = match self.reserve(image_bytes) {
            Err(error @ LogError::Full { .. }) => error,
            reserved => return reserved,
        };
        let Ok(Some(Checkpoint { header, .. })) = Checkpoint::open(&*self.disk) else {
            return Err(refused);
        };
        let mut reserved = held(&self.reserved);
        for (place, name) in CHECKPOINTS.into_iter().enumerate() {
            // Neither is made: the one with the image is there, and so is the other one's first page.
            if reserved.files[place].is_none() {
                let opened = self.disk.open(name);
                let file = opened.map_err(failed(&*self.disk, "opening", place))?;
                reserved.files[place] = Some(file.into());
            }
        }
        let other = 1 - header.place;
        let is_room = matches!(Place::look(&*self.disk, other), Ok(Place::Vacant));
        let Some(file) = &reserved.files[other] else { return Err(refused) };
        let length = file.len().map_err(failed(&*self.disk, "reading", other))?;
        if !is_room || length < PAGE_BYTES as u64 {
            return Err(refused);
        }
        reserved.image_bytes = 0;
        Ok(())
    }

    /// Whether there is space for one checkpoint only.
    pub(in super::super) fn is_alone(&self) -> bool {
        held(&self.reserved).image_bytes == 0
    }
}
