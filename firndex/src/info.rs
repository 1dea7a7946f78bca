//! What can be told of a pool without opening it.

use crate::contents::{Contents, check_superblock};
use crate::durability::next_durability;
use crate::shapes::Shapes;
use crate::{Durability, Engine, Kind, Result};
use index::Shape;
use pmem::file::PoolFile;
use std::path::Path;

/// What a pool's superblock (its first 8 KiB) says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolInfo {
    /// What the pool holds.
    pub kind: Kind,
    /// The engine it is built on. A cache is on none; of it this says nothing.
    pub engine: Engine,
    /// Bytes of a table's keys; 0 in a store.
    pub key_bytes: u32,
    /// Bytes of a table's values; 0 in a store.
    pub value_bytes: u32,
    /// What a table's keys consist of, if it records that: tables of earlier versions do not, nor those of types
    /// without a [shape](crate::Fixed::shape).
    pub key_shape: Option<Shape>,
    /// The same of its values.
    pub value_shape: Option<Shape>,
    /// Whether it was closed and not opened for writing since.
    pub clean: bool,
    /// What survives power loss while it is open: the durability that its last opening had or, if it was closed, that
    /// its next one has unless it asks for another.
    pub durability: Durability,
    /// Whether sums of its file are written when it is closed: [`Options::keep_sums`](crate::Options::keep_sums).
    pub keeps_sums: bool,
    /// Number of times it was opened for writing.
    pub incarnation: u64,
    /// Its random identity.
    pub uuid: u128,
    /// Bytes that its content spans.
    pub bytes: u64,
}

/// Reads the superblock of the pool at `path`, of any kind, without a lock and without changing anything. If another
/// process writes to the pool, the answer may be outdated at once.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("ports.firn");
/// use firndex::{Kind, Table};
///
/// Table::<u64, u32>::create(&path)?.close()?;
/// let info = firndex::inspect(&path)?;
/// assert_eq!((info.kind, info.key_bytes, info.value_bytes), (Kind::Table, 8, 4));
/// assert!(info.clean);
/// # Ok(())
/// # }
/// ```
pub fn inspect(path: impl AsRef<Path>) -> Result<PoolInfo> {
    let path = path.as_ref();
    let superblock = PoolFile::inspect(path)?;
    let found = Contents::of(&superblock);
    let contents = match found.kind {
        Kind::Table => found,
        Kind::Store => Contents::STORE,
        Kind::Cache => Contents::CACHE,
    };
    let engine = check_superblock(&superblock, None, contents)?;
    let shapes = Shapes::in_file(&superblock, path);
    Ok(PoolInfo {
        kind: found.kind,
        engine,
        key_bytes: found.key_bytes,
        value_bytes: found.value_bytes,
        key_shape: shapes.key,
        value_shape: shapes.value,
        clean: superblock.clean,
        durability: next_durability(&superblock, || PoolFile::is_in_memory_at(path)),
        keeps_sums: superblock.keeps_sums(),
        incarnation: superblock.incarnation,
        uuid: superblock.uuid,
        bytes: superblock.end,
    })
}
