//! The checkpoint: a whole image of the pool, and from where on the log continues it.
//!
//! ```text
//! page 0    word 0  magic                          word 12  bytes of the image
//!                1  version                             13  CRC-32C of the sums
//!                2  pool UUID (2 words)                 14  number of the checkpoint
//!                4  generation of the log (2 words)     15  CRC-32C of words 0 to 14
//!                6  log: segment, offset, frame         16  where the sums are in the image's file
//!                9  bytes of a chunk                    17  epoch up to which the log is being merged, or 0
//!               10  epoch from which the log is         18  place of the image
//!                   replayed                            19  CRC-32C of words 0 to 18
//!               11  epoch up to which it must be
//! then      the image
//! then      two places for sums: the CRC-32C of each chunk, a word each
//! ```
//!
//! There are two such files. One holds the checkpoint. The other is room for the next one, and says so: it has another
//! magic number, the version and the UUID. Of a file that held a checkpoint it also says how many bytes of that image
//! are still there (word 4; word 5 is the CRC-32C of words 0 to 4). The next checkpoint reads them, and writes only the
//! pages that differ. They count no more once it has begun: what a crash or a failed sync leaves then may be in the
//! kernel's memory and not on the device. Both files have space for the pool as large as it is, and the pool
//! grows only if they can. So a checkpoint takes no space, and however full the disk is, it can be made.
//!
//! While the log is merged into the image ([`merge`]), the header that counts is in the other file's first page.

use super::disk::{Disk, DiskFile, PAGE_BYTES, recognises};
use super::error::{LogError, RestoreError};
use super::frame::{checksum, whole};
use super::names::CHECKPOINTS;
use super::pages::{PAGE_WORDS, Pages};
use super::writer::Position;
use super::{CHUNK_BYTES_MAX, Image, held};
use crate::line_log::Room;
use header::HEADER_WORDS;
use kept::Kept;
use std::io;
use std::sync::{Arc, Mutex};

mod header;
mod kept;
mod merge;
mod rest;

pub(super) use header::Header;
pub(super) use merge::MergedTo;

/// The version of a file that is room.
const ROOM_VERSION: u64 = 2;
/// Word of such a file with the sum of those before it, the last of which says what is kept.
const KEPT_SUM: usize = 5;
const ROOM_MAGIC: u64 = u64::from_le_bytes(*b"FIRNROOM");
const PAGE: u64 = PAGE_BYTES as u64;

fn sums_at(image_bytes: u64) -> u64 {
    PAGE + image_bytes.next_multiple_of(PAGE)
}

fn sums_bytes(image_bytes: u64, chunk_bytes: u64) -> u64 {
    (image_bytes.div_ceil(chunk_bytes) * 8).next_multiple_of(PAGE)
}

/// Those of an image that is merged with its log must not lie over those that count until then.
const SUMS_PLACES: u64 = 2;

/// Bytes of a checkpoint's file.
fn file_bytes(image_bytes: u64, chunk_bytes: u64) -> u64 {
    sums_at(image_bytes) + SUMS_PLACES * sums_bytes(image_bytes, chunk_bytes)
}

fn failed(
    disk: &dyn Disk,
    action: &'static str,
    place: usize,
) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = disk.path(CHECKPOINTS[place]);
    move |error| LogError::refused(action, path, error)
}

/// The two files for checkpoints.
pub(super) struct Places {
    disk: Arc<dyn Disk>,
    uuid: u128,
    chunk_bytes: u64,
    reserved: Mutex<Reserved>,
}

#[derive(Default)]
struct Reserved {
    files: [Option<Arc<dyn DiskFile>>; 2],
    /// Image for which both have space.
    image_bytes: u64,
    /// Files of which all is zero behind the first page.
    are_new: [bool; 2],
    /// Files that were made in vain, and may still be there: whether they have their names on the device is unknown.
    were_refused: [bool; 2],
    /// Whether the header of the checkpoint is known to be on the device.
    is_certain: bool,
    /// Whether an opening has left the second place as the close before it did, and nobody has tried to take it since.
    is_resting: bool,
}

impl Places {
    pub(super) fn new(disk: Arc<dyn Disk>, uuid: u128, chunk_bytes: u64) -> Places {
        Places { disk, uuid, chunk_bytes, reserved: Mutex::default() }
    }

    /// Takes space for two checkpoints of a pool of this size. What cannot be had of it is given back.
    ///
    /// As long as it could not be had, it is tried again at each call.
    pub(super) fn reserve(&self, image_bytes: u64) -> Result<(), LogError> {
        self.reserve_in(&mut held(&self.reserved), image_bytes)
    }

    fn reserve_in(&self, reserved: &mut Reserved, image_bytes: u64) -> Result<(), LogError> {
        if reserved.image_bytes >= image_bytes && reserved.files.iter().all(Option::is_some) {
            return Ok(());
        }
        reserved.is_resting = false;
        let wanted = file_bytes(image_bytes, self.chunk_bytes);
        // Of what a copy has lost, space is taken at the beginning.
        let has = match reserved.image_bytes {
            0 => 0,
            former => file_bytes(former, self.chunk_bytes),
        };
        let (mut has_made, mut former_bytes) = ([false; 2], [0; 2]);
        let reserved_all = (0..2).try_for_each(|place| {
            has_made[place] = self.open(reserved, place)?;
            let Some(file) = &reserved.files[place] else { return Ok(()) };
            let refused = || failed(&*self.disk, "taking space for", place);
            former_bytes[place] = file.len().map_err(refused())?;
            let from = if has_made[place] { 0 } else { has };
            file.allocate(from..wanted).map_err(refused())
        });
        let named = reserved_all.and_then(|()| match has_made.contains(&true) {
            true => self.disk.sync_names().map_err(failed(&*self.disk, "making", 0)),
            false => Ok(()),
        });
        if let Err(error) = named {
            self.give_back(reserved, former_bytes, has_made);
            return Err(error);
        }
        reserved.were_refused = [false; 2];
        reserved.image_bytes = image_bytes;
        Ok(())
    }

    /// Gives back what was taken in vain: both files are as long as they were.
    fn give_back(&self, reserved: &mut Reserved, former_bytes: [u64; 2], has_made: [bool; 2]) {
        for place in 0..2 {
            let Some(file) = &reserved.files[place] else { continue };
            if has_made[place] {
                reserved.files[place] = None;
                // Its name may never get to the device: if it stays, another one takes its place.
                reserved.were_refused[place] = true;
                let _ = self.disk.remove(CHECKPOINTS[place]);
            } else if former_bytes[place] > 0 {
                // What stays longer than it has to be takes space, and harms nothing else.
                let _ = file.shorten(former_bytes[place]);
            }
        }
    }

    /// Opens one of the files, or makes it; whether it was made.
    fn open(&self, reserved: &mut Reserved, place: usize) -> Result<bool, LogError> {
        if reserved.files[place].is_some() {
            return Ok(false);
        }
        let (disk, name) = (&*self.disk, CHECKPOINTS[place]);
        let made = || failed(disk, "making", place);
        match recognises(disk, name, self.uuid).map_err(made())? {
            Some(true) if reserved.were_refused[place] => disk.remove(name).map_err(made())?,
            Some(true) => {
                let file = disk.open(name).map_err(made())?;
                let is_private = file.is_as_private().map_err(made())?;
                let has_space = file.len().map_err(made())? > PAGE;
                let holds = Place::look(disk, place);
                if is_private && !has_space {
                    // A crash has left it before it took space, or its space was given back. It may have the header of
                    // a merge that a crash has ended, the only one that counts.
                    if !matches!(holds, Ok(Place::Whole(_))) {
                        self.mark_as_room(&*file, 0).map_err(made())?;
                    }
                    reserved.are_new[place] = true;
                }
                if is_private {
                    reserved.files[place] = Some(Arc::from(file));
                    return Ok(false);
                }
                // Who has opened it, as its permissions were, would read what is written to it from now on. The
                // checkpoint itself stays until there is another one.
                if matches!(holds, Ok(Place::Whole(_))) {
                    reserved.files[place] = Some(Arc::from(file));
                    return Ok(false);
                }
                disk.remove(name).map_err(made())?;
            }
            Some(false) => return Err(LogError::InTheWay { path: disk.path(name) }),
            None => {}
        }
        let file = disk.create(name).map_err(made())?;
        // Before it takes any space: what a crash leaves is recognised, and used again.
        let begun = self.mark_as_room(&*file, 0);
        begun.map_err(|error| {
            let _ = disk.remove(name);
            made()(error)
        })?;
        reserved.files[place] = Some(Arc::from(file));
        reserved.are_new[place] = true;
        Ok(true)
    }

    /// `kept_bytes` are those of an image behind it that is on the device.
    fn mark_as_room(&self, file: &dyn DiskFile, kept_bytes: u64) -> io::Result<()> {
        let mut page = Pages::zeroed(PAGE_BYTES);
        let words = page.words_mut();
        let [low, high] = [self.uuid as u64, (self.uuid >> 64) as u64];
        words[..KEPT_SUM].copy_from_slice(&[ROOM_MAGIC, ROOM_VERSION, low, high, kept_bytes]);
        words[KEPT_SUM] = checksum(0, &words[..KEPT_SUM]).into();
        file.write_durably_at(page.bytes(), 0)
    }

    /// Bytes of the image in the file of a place that are known to be on the device: those of a checkpoint, or of what
    /// was one. Of one that was being merged, nobody knows what a failed sync has dropped.
    fn kept_bytes(&self, file: &dyn DiskFile, place: usize) -> io::Result<u64> {
        let mut page = Pages::zeroed(PAGE_BYTES);
        file.read_at(page.bytes_mut(), 0)?;
        let words = page.words();
        if let Ok(header) = Header::decode(words, place) {
            let is_whole = header.uuid == self.uuid && header.merging.is_none();
            return Ok(if is_whole { header.image_bytes } else { 0 });
        }
        let is_room =
            words[..2] == [ROOM_MAGIC, ROOM_VERSION] && whole(words[2], words[3]) == self.uuid;
        let is_whole = words[KEPT_SUM] == u64::from(checksum(0, &words[..KEPT_SUM]));
        Ok(if is_room && is_whole { words[KEPT_SUM - 1] } else { 0 })
    }

    /// Makes certain that the checkpoint that there is will be there after a power loss, and that the other place is
    /// free. Its header may have been written by a process that was killed meanwhile, or its sync may have failed.
    /// Until it is on the device, power loss leads back to the other place, and to a log that nobody else needs.
    ///
    /// After a merge that did not come to its end, the header is in the other place. It is written to that of its
    /// image, over one whose sums the image fits no more: only when it is on the device where it is, and so counts if
    /// power is lost amid that.
    pub(super) fn settle(&self) -> Result<(), LogError> {
        if held(&self.reserved).is_certain {
            return Ok(());
        }
        match Checkpoint::open(&*self.disk) {
            Ok(Some(Checkpoint { mut header, found_in, file, .. })) => {
                if found_in != header.place {
                    let found = self.disk.open(CHECKPOINTS[found_in]);
                    let found = found.map_err(failed(&*self.disk, "writing", found_in))?;
                    self.write_header(&*found, found_in, &header)?;
                    header.number += 1;
                }
                // Written again: the kernel may have dropped what it could not write, and told so once.
                self.write_header(&*file, header.place, &header)?;
            }
            // It may be read again after the power loss.
            Err(RestoreError::Io { path, source }) => {
                return Err(LogError::io("reading", path)(source));
            }
            Ok(None) | Err(_) => {}
        }
        held(&self.reserved).is_certain = true;
        Ok(())
    }

    /// Writes a header to the first page of the file of a place, durably.
    fn write_header(
        &self,
        file: &dyn DiskFile,
        place: usize,
        header: &Header,
    ) -> Result<(), LogError> {
        let mut page = Pages::zeroed(PAGE_BYTES);
        header.encode(page.words_mut());
        file.write_durably_at(page.bytes(), 0).map_err(failed(&*self.disk, "writing", place))
    }

    /// An error if the checkpoint of this number is not found under its name. Then the former one is the last.
    fn demand_found(&self, place: usize, number: u64) -> Result<(), LogError> {
        let found = Place::look(&*self.disk, place);
        if matches!(found, Ok(Place::Whole(found)) if found.number == number) {
            return Ok(());
        }
        // The next one goes to the file that has the name by then.
        held(&self.reserved).files[place] = None;
        let removed = io::Error::new(
            io::ErrorKind::NotFound,
            "it was removed or replaced while the pool was open",
        );
        Err(failed(&*self.disk, "writing", place)(removed))
    }

    /// The other file than that of the current checkpoint, for a new one; and that one's number.
    fn vacant(&self) -> Result<(usize, u64), LogError> {
        match Checkpoint::open(&*self.disk) {
            Ok(Some(Checkpoint { header, .. })) => Ok((1 - header.place, header.number + 1)),
            Ok(None) => Ok((0, 1)),
            // It may be read again after the power loss.
            Err(RestoreError::Io { path, source }) => Err(LogError::io("reading", path)(source)),
            // What is damaged is of no use, and the next one is no worse for it.
            Err(_) => Ok((0, 1)),
        }
    }

    /// Begins a checkpoint of an image of this many bytes.
    pub(super) fn draft(&self, image_bytes: u64) -> Result<Draft<'_>, LogError> {
        self.disk.demand_names().map_err(failed(&*self.disk, "making", 0))?;
        self.reserve(image_bytes)?;
        self.settle()?;
        let (place, number) = self.vacant()?;
        let (file, is_new) = {
            let reserved = held(&self.reserved);
            (reserved.files[place].clone(), reserved.are_new[place])
        };
        let file =
            file.ok_or_else(|| LogError::InTheWay { path: self.disk.path(CHECKPOINTS[place]) })?;
        // What cannot be read is written.
        let kept_bytes = self.kept_bytes(&*file, place).unwrap_or(0);
        let marked = self.mark_as_room(&*file, 0);
        marked.map_err(failed(&*self.disk, "writing", place))?;
        let sums = Pages::zeroed(sums_bytes(image_bytes, self.chunk_bytes) as usize);
        Ok(Draft { places: self, place, number, file, is_new, kept_bytes, image_bytes, sums })
    }

    /// What was the checkpoint until the one in `place` was there is room now. It would restore an old state if the
    /// newer one were damaged.
    fn retire_other(&self, place: usize) -> Result<(), LogError> {
        let other = 1 - place;
        let file = held(&self.reserved).files[other].clone();
        let Some(file) = file else { return Ok(()) };
        let kept_bytes = self.kept_bytes(&*file, other).unwrap_or(0);
        let marked = self.mark_as_room(&*file, kept_bytes);
        marked.map_err(failed(&*self.disk, "writing", other))?;
        if file.is_as_private().unwrap_or(true) {
            return Ok(());
        }
        // The pool has become more private, and who could read the former checkpoints must not read what comes.
        // Locked until there is another file: a writer that takes space for a pool that grows would make one, and this
        // would remove it again. The next checkpoint would go to a file without a name.
        let mut reserved = held(&self.reserved);
        reserved.files[other] = None;
        let removed = self.disk.remove(CHECKPOINTS[other]);
        removed.map_err(failed(&*self.disk, "removing", other))?;
        let image_bytes = reserved.image_bytes;
        self.reserve_in(&mut reserved, image_bytes)
    }
}

impl Room for Places {
    fn reserve(&self, pool_bytes: u64) -> io::Result<()> {
        Ok(Places::reserve(self, pool_bytes)?)
    }
}

/// How the log continues an image.
pub(super) struct Continued {
    pub(super) generation: u128,
    pub(super) log: Position,
    /// Epochs before this one are in the image.
    pub(super) from_epoch: u64,
    /// What the image caught half is in the log up to this one.
    pub(super) to_epoch: u64,
}

/// A checkpoint that is being written; the one before stays until [`Draft::publish`].
pub(super) struct Draft<'a> {
    places: &'a Places,
    place: usize,
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Zeros need not be written.
    is_new: bool,
    /// Up to here the file has an earlier image, and pages that are as they were need not be written.
    kept_bytes: u64,
    image_bytes: u64,
    sums: Pages,
}

impl Draft<'_> {
    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError + use<> {
        failed(&*self.places.disk, action, self.place)
    }

    /// Copies the image, which may change meanwhile. Calls `beside` before each chunk. Returns how many bytes it wrote.
    pub(super) fn copy(&mut self, image: &dyn Image, beside: impl Fn()) -> Result<u64, LogError> {
        held(&self.places.reserved).are_new[self.place] = false;
        let chunk_bytes = self.places.chunk_bytes;
        let mut chunk = Pages::new();
        let mut kept = Kept::new(&*self.file, self.kept_bytes);
        let mut written = 0;
        for (index, at) in (0..self.image_bytes).step_by(chunk_bytes as usize).enumerate() {
            beside();
            let bytes = (self.image_bytes - at).min(chunk_bytes);
            chunk.resize(bytes.div_ceil(8) as usize);
            image.copy(at, chunk.words_mut());
            // Not of what memory holds by now: of what is written.
            self.sums.words_mut()[index] = checksum(0, chunk.words()).into();
            if self.is_new && chunk.words().iter().all(|&word| word == 0) {
                continue;
            }
            for range in kept.different(at, &chunk) {
                let part = &chunk.bytes()[range.clone()];
                let part_at = PAGE + at + range.start as u64;
                self.file.write_at(part, part_at).map_err(self.failed("writing"))?;
                written += part.len() as u64;
            }
        }
        let sums_at = sums_at(self.image_bytes);
        self.file.write_at(self.sums.bytes(), sums_at).map_err(self.failed("writing"))?;
        self.file.sync().map_err(self.failed("syncing"))?;
        Ok(written)
    }

    /// Writes the header. From then on this is the checkpoint.
    pub(super) fn publish(&self, continued: Continued) -> Result<(), LogError> {
        let Continued { generation, log, from_epoch, to_epoch } = continued;
        let header = Header {
            uuid: self.places.uuid,
            generation,
            log,
            from_epoch,
            to_epoch,
            chunk_bytes: self.places.chunk_bytes,
            image_bytes: self.image_bytes,
            sums_crc: checksum(0, self.sums.words()),
            number: self.number,
            sums_at: sums_at(self.image_bytes),
            merging: None,
            place: self.place,
        };
        // It has its own directory, wherever that is. But the pool may be another one's by now.
        self.places.disk.demand_names().map_err(self.failed("writing"))?;
        held(&self.places.reserved).is_certain = false;
        self.places.write_header(&*self.file, self.place, &header)?;
        self.places.demand_found(self.place, self.number)?;
        held(&self.places.reserved).is_certain = true;
        Ok(())
    }

    /// To be called once the pool names this checkpoint alone.
    pub(super) fn retire_former(self) -> Result<(), LogError> {
        self.places.retire_other(self.place)
    }
}

fn is_newer(one: &Header, than: &Header) -> bool {
    one.number >= than.number
}

/// What a place holds.
enum Place {
    /// Room, or nothing.
    Vacant,
    Whole(Box<Header>),
}

impl Place {
    fn look(disk: &dyn Disk, place: usize) -> Result<Place, RestoreError> {
        let path = disk.path(CHECKPOINTS[place]);
        let io = |source| RestoreError::Io { path: path.clone(), source };
        let file = match disk.open(CHECKPOINTS[place]) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Vacant),
            Err(source) => return Err(io(source)),
        };
        let mut page = Pages::zeroed(PAGE_BYTES);
        let read = file.read_at(page.bytes_mut(), 0).map_err(io)?;
        let begins = page.words()[0];
        if begins == ROOM_MAGIC || read <= PAGE_BYTES && page.words().iter().all(|&word| word == 0)
        {
            return Ok(Place::Vacant);
        }
        if read < PAGE_BYTES {
            let found = format!("it has only {read} bytes");
            return Err(RestoreError::Damaged { path, found });
        }
        let found = Header::decode(page.words(), place);
        found.map(|header| Place::Whole(Box::new(header))).map_err(|fault| fault.of(path))
    }
}

/// A checkpoint that was found.
pub(super) struct Checkpoint {
    pub(super) header: Header,
    /// The place in which its header is.
    found_in: usize,
    file: Box<dyn DiskFile>,
    sums: Pages,
}

impl Checkpoint {
    /// Opens the checkpoint of a pool; `None` if there is none.
    ///
    /// A place whose header is damaged does not count beside one that is whole: power was lost while the header was
    /// written, and until it is, the other one is the checkpoint. After that, the other one is marked as room.
    pub(super) fn open(disk: &dyn Disk) -> Result<Option<Checkpoint>, RestoreError> {
        let mut current: Option<(usize, Box<Header>)> = None;
        let mut fault = None;
        for place in 0..CHECKPOINTS.len() {
            match Place::look(disk, place) {
                Ok(Place::Vacant) => {}
                Ok(Place::Whole(header)) => match &current {
                    Some((_, other)) if is_newer(other, &header) => {}
                    _ => current = Some((place, header)),
                },
                Err(error @ RestoreError::Io { .. }) => return Err(error),
                Err(error) => fault = Some(error),
            }
        }
        match (current, fault) {
            (Some((place, header)), _) => Checkpoint::at(disk, place, *header).map(Some),
            (None, Some(fault)) => Err(fault),
            (None, None) => Ok(None),
        }
    }

    fn at(disk: &dyn Disk, found_in: usize, header: Header) -> Result<Checkpoint, RestoreError> {
        let name = CHECKPOINTS[header.place];
        let path = disk.path(name);
        let io = |source| RestoreError::Io { path: path.clone(), source };
        let damaged = |found: String| RestoreError::Damaged { path: path.clone(), found };
        let file = disk.open(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => damaged("it has the image, and is missing".into()),
            _ => io(error),
        })?;
        let bytes = sums_bytes(header.image_bytes, header.chunk_bytes);
        let expected = header.sums_at + bytes;
        let found = file.len().map_err(io)?;
        if found < expected {
            return Err(damaged(format!("it has {found} bytes, expected {expected}")));
        }
        let mut sums = Pages::zeroed(bytes as usize);
        file.read_at(sums.bytes_mut(), header.sums_at).map_err(io)?;
        if checksum(0, sums.words()) != header.sums_crc {
            return Err(damaged("the checksum of its table of sums is wrong".into()));
        }
        Ok(Checkpoint { header, found_in, file, sums })
    }

    /// The name of the file that has the image.
    pub(super) fn name(&self) -> &'static str {
        CHECKPOINTS[self.header.place]
    }

    /// Chunks of the image.
    pub(super) fn chunks(&self) -> usize {
        self.header.image_bytes.div_ceil(self.header.chunk_bytes) as usize
    }

    /// Where a chunk of the image begins, and how many words it has.
    pub(super) fn chunk(&self, index: usize) -> (u64, usize) {
        let at = index as u64 * self.header.chunk_bytes;
        let bytes = (self.header.image_bytes - at).min(self.header.chunk_bytes);
        (at, bytes.div_ceil(8) as usize)
    }

    /// Reads a chunk of the image into `chunk`; whether it fits its sum.
    pub(super) fn read(&self, index: usize, chunk: &mut Pages) -> io::Result<bool> {
        let (at, words) = self.chunk(index);
        chunk.resize(words);
        let read = self.file.read_at(chunk.bytes_mut(), PAGE + at)?;
        Ok(read >= chunk.bytes().len() && self.fits(index, chunk.words()))
    }

    /// Whether these words of a chunk fit its sum.
    pub(super) fn fits(&self, index: usize, words: &[u64]) -> bool {
        u64::from(checksum(0, words)) == self.sums.words()[index]
    }

    /// Says that a chunk does not fit its sum.
    pub(super) fn misfit(&self, index: usize) -> String {
        let (at, words) = self.chunk(index);
        format!("the checksum of the {} bytes from {at:#x} of its image on is wrong", words * 8)
    }
}

const _: () = assert!(PAGE_WORDS >= HEADER_WORDS && CHUNK_BYTES_MAX.is_multiple_of(PAGE));

#[cfg(test)]
mod tests;
