//! A disk of files in memory, which are only read.

use pmem::durability::disk::{Disk, DiskFile};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Names and contents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(pub(crate) Vec<(String, Arc<Vec<u8>>)>);

struct File(Arc<Vec<u8>>);

/// Bytes that a message shows of each file.
const BYTES_SHOWN: usize = 8;

impl Files {
    /// What others have otherwise, for a message.
    pub(crate) fn changes_in(&self, others: &Files) -> String {
        let mut text = String::new();
        for (name, bytes) in &others.0 {
            let empty = Arc::default();
            let mine = self.0.iter().find(|file| file.0 == *name).map_or(&empty, |file| &file.1);
            text += &format!("\n  {name}, {} of {} bytes", bytes.len(), mine.len());
            let pairs = mine.iter().zip(bytes.iter()).enumerate();
            let differing = pairs.filter(|(_, (mine, other))| mine != other);
            for (at, (mine, other)) in differing.take(BYTES_SHOWN) {
                text += &format!("\n    {at:#x}: {mine:#x} is {other:#x}");
            }
        }
        text
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Files {
    fn create(&self, _name: &str) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let found = self.0.iter().find(|(found, _)| found == name);
        let (_, bytes) = found.ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(File(Arc::clone(bytes))))
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        refused()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.iter().map(|(name, _)| name.clone()).collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        refused()
    }

    fn path(&self, name: &str) -> PathBuf {
        name.into()
    }
}

impl DiskFile for File {
    fn write_at(&self, _pages: &[u8], _at: u64) -> io::Result<()> {
        refused()
    }

    fn read_at(&self, pages: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let count = rest.len().min(pages.len());
        pages[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn allocate(&self, _range: Range<u64>) -> io::Result<()> {
        refused()
    }

    fn shorten(&self, _bytes: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
