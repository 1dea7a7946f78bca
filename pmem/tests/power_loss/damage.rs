//! Companions that are missing, foreign, cut, damaged, or made to harm.

use crate::crash::{Choice, Crash, CrashedDisk};
use crate::history::{Plan, RESTLESS, Run, Step};
use crate::pool::Words;
use pmem::durability::disk::{Disk, DiskFile};
use pmem::durability::{RestoreError, Restored, SafeCopy};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use Step::*;

const PAGE: usize = 4096;
/// The first one.
const CHECKPOINT: &str = "checkpoint.0";

fn plan() -> Plan {
    Plan {
        steps: Vec::new(),
        sector_bytes: 512,
        segment_bytes: 16 << 10,
        fault: None,
        capacity: None,
        rest: RESTLESS,
        images_per_call: 1,
        seed: 1,
    }
}

/// The companions of a pool that has a checkpoint, and a log of several segments behind it.
fn companions() -> CrashedDisk {
    let run = Run::begin(&plan(), None, 0);
    for step in [Operate, Checkpoint, Operate, Flush, OperateLargely, Flush, Operate, Flush] {
        run.take(step).unwrap();
    }
    for _ in 0..4 {
        run.take(Operate).unwrap();
        run.sync().unwrap();
    }
    let state = run.disk.state().clone();
    Crash::of(&state).disk(&Choice::new())
}

fn restored(disk: CrashedDisk) -> Result<(Restored, Vec<u64>), RestoreError> {
    restored_from(Arc::new(disk))
}

fn restored_from(disk: Arc<dyn Disk>) -> Result<(Restored, Vec<u64>), RestoreError> {
    let path = disk.path("");
    let safe = SafeCopy::find(disk)?.ok_or(RestoreError::Missing { path })?;
    let words = Words::new();
    safe.restore(&words, &|_, _| ()).map(|restored| (restored, words.get()))
}

fn edit(disk: &CrashedDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> CrashedDisk {
    let mut disk = disk.clone();
    let (_, bytes) = disk.files.iter_mut().find(|(found, _)| found == name).unwrap();
    change(Arc::make_mut(bytes));
    disk
}

fn without(disk: &CrashedDisk, name: &str) -> CrashedDisk {
    let files = disk.files.iter().filter(|(found, _)| found != name);
    CrashedDisk { files: files.cloned().collect() }
}

/// Segments in order.
fn segments(disk: &CrashedDisk) -> Vec<String> {
    let names = disk.files.iter().map(|(name, _)| name.clone());
    names.filter(|name| name.starts_with("log.") && name != "log.reserve").collect()
}

#[test]
fn what_is_missing_is_told() {
    let disk = companions();
    let segments = segments(&disk);
    assert!(segments.len() >= 4, "{segments:?}");
    restored(disk.clone()).unwrap();
    assert!(matches!(restored(without(&disk, CHECKPOINT)), Err(RestoreError::Missing { .. })));
    // But for the last one, which may not have been made yet.
    for name in &segments[..segments.len() - 1] {
        let error = restored(without(&disk, name)).unwrap_err();
        let RestoreError::Damaged { path, .. } = &error else { panic!("{error:?}") };
        assert!(path.ends_with(name), "{error}");
        assert!(error.to_string().contains("missing"), "{error}");
    }
    for name in &segments[..segments.len() - 1] {
        for len in [0, 100, PAGE, 2 * PAGE] {
            let error = restored(edit(&disk, name, |bytes| bytes.truncate(len))).unwrap_err();
            assert!(matches!(&error, RestoreError::Damaged { .. }), "{error}");
        }
    }
    let len = disk.files.iter().find(|(name, _)| name == CHECKPOINT).unwrap().1.len();
    let blank = restored(edit(&disk, CHECKPOINT, Vec::clear));
    assert!(
        matches!(blank, Err(RestoreError::Missing { .. })),
        "as after a crash when it was made"
    );
    // Behind its sums it has room for others.
    for len in [100, PAGE, 2 * PAGE, len - PAGE - 1] {
        let error = restored(edit(&disk, CHECKPOINT, |bytes| bytes.truncate(len))).unwrap_err();
        assert!(matches!(&error, RestoreError::Damaged { .. }), "{error}");
    }
}

/// A bit that is another one anywhere: told, harmless, or in what was written last, which may be torn.
#[test]
fn a_damaged_bit_is_told() {
    let disk = companions();
    let (_, whole) = restored(disk.clone()).unwrap();
    let names: Vec<String> = disk.files.iter().map(|(name, _)| name.clone()).collect();
    let mut told = 0;
    for name in &names {
        let len = disk.files.iter().find(|(found, _)| found == name).unwrap().1.len();
        for at in (0..len).step_by(PAGE).flat_map(|page| [page, page + 30, page + 60, page + 900]) {
            let found = restored(edit(&disk, name, |bytes| bytes[at] ^= 16));
            match found {
                Ok((_, words)) if words == whole => {}
                Ok(_) => assert_eq!(Some(name), segments(&disk).last(), "byte {at} of {name}"),
                Err(RestoreError::Damaged { .. }) => told += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(told > 20, "{told}");
}

/// Its log may be there yet. But what came since would be lost without a word.
#[test]
fn a_damaged_checkpoint_does_not_bring_the_one_before_back() {
    let run = Run::begin(&plan(), None, 0);
    for step in [Operate, Checkpoint, Operate, Flush, Checkpoint, Operate, Flush] {
        run.take(step).unwrap();
    }
    let state = run.disk.state().clone();
    let disk = Crash::of(&state).disk(&Choice::new());
    restored(disk.clone()).unwrap();
    for word in 0..16 {
        let damaged = edit(&disk, "checkpoint.1", |bytes| bytes[word * 8] ^= 16);
        let error = restored(damaged).map(|found| found.0).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged { .. }), "word {word}: {error}");
    }
    let missing = restored(without(&disk, "checkpoint.1"));
    assert!(matches!(missing, Err(RestoreError::Missing { .. })));
}

/// Writes a word of a page's header and makes its checksum right again.
pub(crate) fn forge(bytes: &mut [u8], checksum_word: usize, word: usize, value: u64) {
    bytes[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..checksum_word * 8]);
    bytes[checksum_word * 8..][..8].copy_from_slice(&u64::from(sum).to_le_bytes());
}

#[test]
fn headers_that_lie_are_refused() {
    let disk = companions();
    for (word, value) in [
        (12, u64::MAX),
        (12, 1 << 60),
        (12, 1 << 43),
        (9, 0),
        (9, 1),
        (9, 1 << 40),
        (6, u64::MAX),
        (7, u64::MAX),
        (7, 1 << 40),
        (7, 12345),
        (8, u64::MAX),
        (10, u64::MAX),
        (11, u64::MAX),
        (16, 0),
        (16, u64::MAX),
        (16, 4096),
        (17, u64::MAX),
        (18, 1),
        (18, u64::MAX),
    ] {
        let forged = edit(&disk, CHECKPOINT, |bytes| {
            forge(bytes, 15, word, value);
            forge(bytes, 19, word, value);
        });
        let error = restored(forged).map(|found| found.0).unwrap_err();
        assert!(
            matches!(&error, RestoreError::Damaged { .. }),
            "word {word} is {value:#x}: {error}"
        );
    }
    let newer = edit(&disk, CHECKPOINT, |bytes| forge(bytes, 15, 1, 4));
    let error = restored(newer).unwrap_err();
    assert!(matches!(&error, RestoreError::Version { found: 4, .. }), "{error}");
    let first = &segments(&disk)[0];
    let foreign = edit(&disk, first, |bytes| forge(bytes, 9, 2, 99));
    let error = restored(foreign).unwrap_err().to_string();
    assert!(error.contains("another pool"), "{error}");
}

/// Version 2 ends with its first checksum, and its sums follow the image.
#[test]
fn a_checkpoint_of_the_version_before_is_read() {
    let disk = companions();
    let (_, whole) = restored(disk.clone()).unwrap();
    let former = edit(&disk, CHECKPOINT, |bytes| {
        bytes[16 * 8..PAGE].fill(0);
        forge(bytes, 15, 1, 2);
        bytes.truncate(bytes.len() - PAGE);
    });
    assert_eq!(restored(former.clone()).unwrap().1, whole);
    let damaged = edit(&former, CHECKPOINT, |bytes| bytes[2 * PAGE - 8] ^= 16);
    assert!(matches!(restored(damaged), Err(RestoreError::Damaged { .. })));
}

/// A disk one of whose files says that it is larger than any disk.
struct Endless(CrashedDisk, String);

struct EndlessFile(Box<dyn DiskFile>);

impl Disk for Endless {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.0.open(name)?;
        Ok(if name == self.1 { Box::new(EndlessFile(file)) } else { file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }
}

impl DiskFile for EndlessFile {
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

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(1 << 60)
    }
}

/// A sparse file may have any length: that alone takes no memory.
#[test]
fn lengths_of_files_are_not_believed() {
    let disk = companions();
    let (_, whole) = restored(disk.clone()).unwrap();
    let names: Vec<String> = disk.files.iter().map(|(name, _)| name.clone()).collect();
    for name in names {
        let (_, words) = restored_from(Arc::new(Endless(disk.clone(), name))).unwrap();
        assert_eq!(words, whole);
    }
}
