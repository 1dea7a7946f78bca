//! Merging the log into the checkpoint that there is.

use super::super::changes::{Ordered, Run};
use super::super::disk::DiskFile;
use super::super::error::LogError;
use super::super::frame::checksum;
use super::super::held;
use super::super::pages::Pages;
use super::super::writer::Position;
use super::{Checkpoint, Header, PAGE, Places, failed, file_bytes};
use std::io;
use std::sync::Arc;

/// The log up to here is merged.
pub(in super::super) struct MergedTo {
    /// The last epoch that is.
    pub(in super::super) epoch: u64,
    /// Where the log continues behind it.
    pub(in super::super) log: Position,
}

/// The checkpoint that there is, into which the log after it can be merged; in steps, see the [module](super::super).
pub(in super::super) struct Merge<'a> {
    places: &'a Places,
    checkpoint: Checkpoint,
    file: Arc<dyn DiskFile>,
    other: Arc<dyn DiskFile>,
    /// Bytes of an earlier image that the other place has.
    kept_bytes: u64,
}

impl Places {
    /// The checkpoint, if a log of this generation continues it, up to this epoch at least, and the pool is as large as
    /// it. Otherwise another one has to be made.
    pub(in super::super) fn merge(
        &self,
        generation: u128,
        image_bytes: u64,
        epoch: u64,
    ) -> Result<Option<Merge<'_>>, LogError> {
        self.disk.demand_names().map_err(failed(&*self.disk, "making", 0))?;
        self.settle()?;
        // What cannot be read is no base. Who makes another one says why.
        let Ok(Some(checkpoint)) = Checkpoint::open(&*self.disk) else { return Ok(None) };
        let Header { place, merging, chunk_bytes, .. } = checkpoint.header;
        let is_base = (checkpoint.header.uuid, checkpoint.header.generation)
            == (self.uuid, generation)
            && checkpoint.header.image_bytes == image_bytes
            && chunk_bytes == self.chunk_bytes
            && (checkpoint.header.from_epoch.max(checkpoint.header.to_epoch)..).contains(&epoch)
            // A write has failed: what the kernel has dropped can be read, and need not be on the device.
            && merging.is_none();
        let files = held(&self.reserved).files.clone();
        let (Some(file), Some(other)) = (&files[place], &files[1 - place]) else { return Ok(None) };
        // Who could read the checkpoint must not read what comes.
        let is_private = |file: &dyn DiskFile| file.is_as_private().unwrap_or(false);
        if !is_base || !is_private(&**file) || !is_private(&**other) {
            return Ok(None);
        }
        // One of the version before may have no place for other sums. A pool that grows in vain cuts what is too long.
        let needed = file_bytes(image_bytes, chunk_bytes);
        if !file.len().is_ok_and(|bytes| bytes >= needed) {
            return Ok(None);
        }
        let kept_bytes = self.kept_bytes(&**other, 1 - place).unwrap_or(0);
        let (file, other) = (Arc::clone(file), Arc::clone(other));
        Ok(Some(Merge { places: self, checkpoint, file, other, kept_bytes }))
    }
}

impl Merge<'_> {
    /// Bytes of the image.
    pub(in super::super) fn image_bytes(&self) -> u64 {
        self.checkpoint.header.image_bytes
    }

    /// Bytes of a chunk.
    pub(in super::super) fn chunk_bytes(&self) -> u64 {
        self.checkpoint.header.chunk_bytes
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError + use<> {
        failed(&*self.places.disk, action, self.checkpoint.header.place)
    }

    /// Writes what the whole log up to `to` changes. Calls `beside` before each run of pages. Returns how many bytes
    /// it wrote.
    pub(in super::super) fn write(
        mut self,
        changes: &Ordered,
        to: MergedTo,
        beside: impl Fn(),
    ) -> Result<u64, LogError> {
        let chunk_bytes = self.chunk_bytes();
        let mut pages = Pages::new();
        for run in changes.runs(chunk_bytes) {
            beside();
            self.change_sum(&run, &mut pages)?;
        }
        let Header { place, number, .. } = self.checkpoint.header;
        let mut header = self.checkpoint.header;
        header.sums_at = header.other_sums_at();
        header.sums_crc = checksum(0, self.checkpoint.sums.words());
        header.number = number + 1;
        header.merging = Some(to.epoch);
        header.to_epoch = header.to_epoch.max(to.epoch);
        let sums = self.checkpoint.sums.bytes();
        self.file.write_durably_at(sums, header.sums_at).map_err(self.failed("writing"))?;
        held(&self.places.reserved).is_certain = false;
        self.places.write_header(&*self.other, 1 - place, &header)?;
        for run in changes.runs(chunk_bytes) {
            beside();
            self.read(&run, &mut pages)?;
            run.change(pages.words_mut());
            let written = self.file.write_at(pages.bytes(), PAGE + run.at);
            written.map_err(self.failed("writing"))?;
        }
        self.file.sync().map_err(self.failed("syncing"))?;
        header.number += 1;
        header.merging = None;
        header.log = to.log;
        header.from_epoch = to.epoch + 1;
        // As when a copy becomes the checkpoint.
        self.places.disk.demand_names().map_err(self.failed("writing"))?;
        self.places.write_header(&*self.file, place, &header)?;
        self.places.demand_found(place, header.number)?;
        held(&self.places.reserved).is_certain = true;
        let marked = self.places.mark_as_room(&*self.other, self.kept_bytes);
        marked.map_err(failed(&*self.places.disk, "writing", 1 - place))?;
        Ok(changes.bytes(chunk_bytes) + sums.len() as u64 + 3 * PAGE)
    }

    fn read(&self, run: &Run<'_>, pages: &mut Pages) -> Result<(), LogError> {
        pages.resize(run.bytes / 8);
        let read = self.file.read_at(pages.bytes_mut(), PAGE + run.at);
        let whole = read.and_then(|read| match read == run.bytes {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        whole.map_err(self.failed("reading"))
    }

    /// Changes the sum of the run's chunk as the run changes the chunk.
    ///
    /// A CRC is linear: what a change makes of it depends on the bytes that change and on how many follow, and not on
    /// the rest of the chunk. So a chunk is not read for a page of it. And what is damaged in it stays so: a sum of
    /// what is read would fit the damage.
    fn change_sum(&mut self, run: &Run<'_>, pages: &mut Pages) -> Result<(), LogError> {
        self.read(run, pages)?;
        let index = (run.at / self.chunk_bytes()) as usize;
        let (at, words) = self.checkpoint.chunk(index);
        let end = at + words as u64 * 8;
        // The image may end within a page.
        let summed = ((end.min(run.at + run.bytes as u64) - run.at) / 8) as usize;
        let before = checksum(0, &pages.words()[..summed]);
        run.change(pages.words_mut());
        let after = checksum(0, &pages.words()[..summed]);
        let behind = (end - run.at) as usize - summed * 8;
        let sum = &mut self.checkpoint.sums.words_mut()[index];
        *sum ^= u64::from(crc32c::crc32c_combine(before ^ after, 0, behind));
        Ok(())
    }
}
