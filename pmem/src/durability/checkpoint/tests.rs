use super::*;
use crate::file::{PoolFile, SafeDirectory};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const UUID: u128 = 7;
const IMAGE_BYTES: u64 = 64 << 10;

/// A directory of files that are not private enough, in which a writer lets its pool grow while a file is removed, if
/// nothing keeps it out.
struct Beside {
    directory: SafeDirectory,
    places: OnceLock<Arc<Places>>,
    are_private: Arc<AtomicBool>,
}

struct BesideFile(Box<dyn DiskFile>, Arc<AtomicBool>);

impl Beside {
    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(BesideFile(file, Arc::clone(&self.are_private)))
    }
}

impl Disk for Beside {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Disk::create(&self.directory, name).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Disk::open(&self.directory, name).map(|file| self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Disk::rename(&self.directory, from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if let Some(places) = self.places.get()
            && let Ok(mut reserved) = places.reserved.try_lock()
        {
            places.reserve_in(&mut reserved, 2 * IMAGE_BYTES)?;
        }
        Disk::remove(&self.directory, name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Disk::names(&self.directory)
    }

    fn sync_names(&self) -> io::Result<()> {
        Disk::sync_names(&self.directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        Disk::path(&self.directory, name)
    }
}

impl DiskFile for BesideFile {
    fn write_at(&self, pages: &[u8], at: u64) -> io::Result<()> {
        self.0.write_at(pages, at)
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(pages, at)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.0.allocate(range)
    }

    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.0.shorten(bytes)
    }

    fn is_as_private(&self) -> io::Result<bool> {
        Ok(self.1.load(Ordering::Relaxed))
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}

/// An image of one word over and over.
struct Repeated(u64);

impl Image for Repeated {
    fn bytes(&self) -> u64 {
        IMAGE_BYTES
    }

    fn copy(&self, _at: u64, words: &mut [u64]) {
        words.fill(self.0);
    }

    fn wait_for_operations(&self) {}

    fn name_checkpoints(&self, _current: Option<u128>, _next: Option<u128>) -> io::Result<()> {
        Ok(())
    }
}

fn disk_in(directory: &std::path::Path) -> Arc<Beside> {
    let mut pool = PoolFile::create(&directory.join("pool")).unwrap();
    pool.publish().unwrap();
    let at = pool.located().safe(None).unwrap();
    let directory = SafeDirectory::make(&at, UUID, pool.ownership().unwrap()).unwrap();
    let are_private = Arc::new(AtomicBool::new(true));
    Arc::new(Beside { directory, places: OnceLock::new(), are_private })
}

fn places_on(disk: &Arc<Beside>) -> Arc<Places> {
    Arc::new(Places::new(Arc::clone(disk) as Arc<dyn Disk>, UUID, CHUNK_BYTES_MAX))
}

fn checkpoint(places: &Places, word: u64) -> Result<(), LogError> {
    let mut draft = places.draft(IMAGE_BYTES)?;
    draft.copy(&Repeated(word), || ())?;
    draft.publish(Continued {
        generation: 1,
        log: Position { segment: 1, at: 0, frame: 0 },
        from_epoch: 1,
        to_epoch: 1,
    })?;
    draft.retire_former()
}

/// The word of the checkpoint that a power loss leaves.
fn found(disk: &dyn Disk) -> Option<u64> {
    let checkpoint = Checkpoint::open(disk).unwrap()?;
    let mut chunk = Pages::new();
    assert!(checkpoint.read(0, &mut chunk).unwrap());
    Some(chunk.words()[0])
}

#[test]
fn a_pool_may_grow_while_a_file_gives_way_to_a_more_private_one() {
    let directory = tempfile::tempdir().unwrap();
    let disk = disk_in(directory.path());
    let places = places_on(&disk);
    checkpoint(&places, 1).unwrap();
    checkpoint(&places, 2).unwrap();
    let _ = disk.places.set(Arc::clone(&places));
    disk.are_private.store(false, Ordering::Relaxed);
    checkpoint(&places, 3).unwrap();
    disk.are_private.store(true, Ordering::Relaxed);
    for word in 4..8 {
        checkpoint(&places, word).unwrap();
        assert_eq!(found(&*disk), Some(word));
    }
}

#[test]
fn the_former_checkpoint_stays_if_the_new_one_has_lost_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let disk = disk_in(directory.path());
    let places = places_on(&disk);
    checkpoint(&places, 1).unwrap();
    let next = Disk::path(&*disk, CHECKPOINTS[1]);
    std::fs::remove_file(&next).unwrap();
    let error = checkpoint(&places, 2).unwrap_err().to_string();
    assert!(error.contains("checkpoint.1") && error.contains("removed or replaced"), "{error}");
    assert_eq!(found(&*disk), Some(1));
    // The next one has a file again.
    checkpoint(&places, 3).unwrap();
    assert_eq!(found(&*disk), Some(3));
}

/// Pages of a chunk that are written over a file in which they are others.
fn written(changed: &[usize]) -> Vec<Range<usize>> {
    let directory = tempfile::tempdir().unwrap();
    let file = Disk::create(&*disk_in(directory.path()), "checkpoint.0").unwrap();
    let mut chunk = Pages::zeroed(CHUNK_BYTES_MAX as usize);
    file.write_at(chunk.bytes(), PAGE).unwrap();
    for page in changed {
        chunk.words_mut()[(page + 1) * PAGE_WORDS - 1] = 1;
    }
    let ranges = Kept::new(&*file, CHUNK_BYTES_MAX).different(0, &chunk);
    ranges.iter().map(|range| range.start / PAGE_BYTES..range.end / PAGE_BYTES).collect()
}

#[test]
fn pages_that_differ_are_written_with_short_gaps_between_them() {
    let one = |range: Range<usize>| std::iter::once(range).collect::<Vec<_>>();
    assert_eq!(written(&[]), []);
    assert_eq!(written(&[0]), one(0..1));
    assert_eq!(written(&[255]), one(255..256));
    assert_eq!(written(&[3, 36]), one(3..37));
    assert_eq!(written(&[3, 37]), [3..4, 37..38]);
    assert_eq!(written(&[0, 128, 255]), [0..1, 128..129, 255..256]);
    // Three quarters of it, gaps included.
    let scattered: Vec<usize> = (0..256).step_by(30).collect();
    assert_eq!(written(&scattered), one(0..256));
}
