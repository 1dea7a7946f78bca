//! The shapes of a table's keys and values, which it records when it is made.
//!
//! The record is the pool's note: two lines, the key's shape and the value's. A line is empty if the type has none.

use index::{Fixed, Shape};
use pmem::medium::Memory;
use pmem::pool::{NOTE_BYTES_MAX, note_extent, note_in};
use pmem::superblock::{PoolKind, Superblock};
use pmem::{Offset, OpenError, Pool};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Of a table's keys and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shapes {
    pub(crate) key: Option<Shape>,
    pub(crate) value: Option<Shape>,
}

impl Shapes {
    pub(crate) fn of<K: Fixed, V: Fixed>() -> Shapes {
        Shapes { key: K::shape(), value: V::shape() }
    }

    /// `None` if there is nothing to record.
    fn note(&self) -> Option<Vec<u8>> {
        let line = |shape: &Option<Shape>| shape.as_ref().map(Shape::to_string).unwrap_or_default();
        let note = format!("{}\n{}\n", line(&self.key), line(&self.value)).into_bytes();
        (self.key.is_some() || self.value.is_some())
            .then_some(note)
            .filter(|note| note.len() <= NOTE_BYTES_MAX)
    }

    /// What a pool's note says. A line that does not fit the size of what it describes counts for nothing.
    pub(crate) fn from_note(note: Option<Vec<u8>>, superblock: &Superblock) -> Shapes {
        let note = note.filter(|_| superblock.kind == PoolKind::Table);
        let text = note.and_then(|note| String::from_utf8(note).ok()).unwrap_or_default();
        let mut lines = text.lines();
        let mut line = |bytes: u32| {
            let shape: Shape = lines.next()?.parse().ok()?;
            (shape.bytes() == Some(bytes as usize)).then_some(shape)
        };
        Shapes { key: line(superblock.key_bytes), value: line(superblock.value_bytes) }
    }

    /// Those that the pool with this superblock records, whose bytes `read` copies out; if it cannot, none.
    pub(crate) fn read(
        superblock: &Superblock,
        read: impl FnOnce(&mut [u8], u64) -> bool,
    ) -> Shapes {
        let Some(extent) = note_extent(superblock) else { return Shapes::default() };
        // The file may say anything.
        let len = extent.bytes.min(NOTE_BYTES_MAX as u64 + 8) as usize;
        let mut bytes = vec![0; len];
        if !read(&mut bytes, extent.start.0) {
            return Shapes::default();
        }
        let load = |at: Offset| {
            let begin = usize::try_from(at.0.checked_sub(extent.start.0)?).ok()?;
            let word = bytes.get(begin..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*word))
        };
        Shapes::from_note(note_in(superblock, load), superblock)
    }

    /// Those that the pool in a file records.
    pub(crate) fn in_file(superblock: &Superblock, path: &Path) -> Shapes {
        Shapes::read(superblock, |bytes, at| {
            File::open(path).is_ok_and(|file| file.read_exact_at(bytes, at).is_ok())
        })
    }

    /// Refuses types of other shapes.
    pub(crate) fn allow(self, asked: Shapes) -> crate::Result<()> {
        for (field, found, expected) in
            [("key type", self.key, asked.key), ("value type", self.value, asked.value)]
        {
            if let (Some(found), Some(expected)) = (found, expected)
                && found != expected
            {
                let (found, expected) = (format!("`{found}`"), format!("`{expected}`"));
                let advice = "open it with types whose fields have these types, names and order";
                return Err(OpenError::Mismatch { field, found, expected, advice }.into());
            }
        }
        Ok(())
    }
}

/// Records the shapes of a table that is being made, before anything is in it; those of its types, unless others are
/// asked for, or it is a copy of another pool. A crash meanwhile leaves no pool, or one without a record, which any
/// types open.
pub(crate) fn record<K: Fixed, V: Fixed>(
    pool: &Pool<Memory>,
    asked: Option<&Shapes>,
    replaces_another: bool,
) -> crate::Result<()> {
    let superblock = pool.superblock();
    let shapes = asked.cloned().unwrap_or_else(Shapes::of::<K, V>);
    let is_new = superblock.incarnation == 1 || replaces_another;
    if !is_new || !superblock.extents.is_empty() {
        return Shapes::from_note(pool.note(), &superblock).allow(shapes);
    }
    if let Some(note) = shapes.note() {
        let _write = pool.write()?;
        pool.set_note(&note)?;
    }
    Ok(())
}
