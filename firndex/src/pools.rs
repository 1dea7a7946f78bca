//! Creating and opening pools with the options that were chosen.

use crate::logging::{self, LogFiles};
use crate::open::{self, Mode};
use crate::{Options, Result, Store, Table};
use index::Fixed;
use std::path::Path;

impl Options {
    /// Creates a table of words at `path`, where nothing may be yet.
    pub fn create_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.create_table_of(path)
    }

    /// Opens the table of words at `path`.
    pub fn open_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.open_table_of(path)
    }

    /// Opens the table of words at `path`, or creates it.
    pub fn open_or_create_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.open_or_create_table_of(path)
    }

    /// A table of words in anonymous memory.
    pub fn in_memory_table(&self) -> Result<Table<u64, u64>> {
        self.in_memory_table_of()
    }

    /// Creates a table of keys `K` and values `V` at `path`, where nothing may be yet.
    ///
    /// Every engine takes keys and values of 8 bytes each; which others it takes, its
    /// [`pair_sizes`](crate::Description::pair_sizes) say. Keys have 1 byte to
    /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), values at most
    /// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX). Where no engine was chosen it is the first that takes
    /// them; where one was that does not, or none does, the error is
    /// [`Error::PairSizes`](crate::Error::PairSizes).
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("names.firn");
    /// use firndex::Options;
    /// use std::net::Ipv6Addr;
    ///
    /// let names = Options::new().create_table_of::<[u8; 16], [u8; 15]>(&path)?;
    /// names.put(Ipv6Addr::LOCALHOST.octets(), *b"printer, floor2")?;
    /// names.close()?;
    ///
    /// let names = Options::new().open_table_of::<[u8; 16], [u8; 15]>(&path)?;
    /// assert_eq!(names.get(Ipv6Addr::LOCALHOST.octets())?, Some(*b"printer, floor2"));
    ///
    /// let squares = Options::new().in_memory_table_of::<u32, u128>()?;
    /// squares.put(u32::MAX, u128::from(u32::MAX).pow(2))?;
    /// assert_eq!(squares.get(u32::MAX)?, Some(0xffff_fffe_0000_0001));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_table_of<K: Fixed, V: Fixed>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Table<K, V>> {
        open::table(self, path.as_ref(), Mode::Create)
    }

    /// Opens the table at `path`, whose keys and values must have the sizes of `K` and `V`: the
    /// pool knows the sizes, not the types. Else the error is
    /// [`OpenError::Mismatch`](crate::OpenError::Mismatch).
    pub fn open_table_of<K: Fixed, V: Fixed>(&self, path: impl AsRef<Path>) -> Result<Table<K, V>> {
        open::table(self, path.as_ref(), Mode::Open)
    }

    /// [`Options::open_table_of`], or [`Options::create_table_of`] if there is nothing at `path`.
    pub fn open_or_create_table_of<K: Fixed, V: Fixed>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Table<K, V>> {
        open::table(self, path.as_ref(), Mode::OpenOrCreate)
    }

    /// A table of keys `K` and values `V` in anonymous memory; sizes as in
    /// [`Options::create_table_of`].
    pub fn in_memory_table_of<K: Fixed, V: Fixed>(&self) -> Result<Table<K, V>> {
        open::table_in_memory(self)
    }

    /// Makes the pool at `path` whole if power was lost while it was written: from its checkpoint and log, as opening it
    /// does. Whether that was necessary. For programs that look at a pool ([`inspect`](crate::inspect)) before they open it.
    pub fn restore(&self, path: impl AsRef<Path>) -> Result<bool> {
        open::restore(self, path.as_ref())
    }

    /// The files beside the pool at `path` that its log and checkpoint are in: to be moved, copied and deleted
    /// together with it. Whether the pool is open does not matter; then, they change.
    pub fn log_files(&self, path: impl AsRef<Path>) -> Result<LogFiles> {
        logging::files(self, path.as_ref())
    }

    /// Creates a store at `path`, where nothing may be yet.
    pub fn create_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        open::store(self, path.as_ref(), Mode::Create)
    }

    /// Opens the store at `path`.
    pub fn open_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        open::store(self, path.as_ref(), Mode::Open)
    }

    /// Opens the store at `path`, or creates it.
    pub fn open_or_create_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        open::store(self, path.as_ref(), Mode::OpenOrCreate)
    }

    /// A store in anonymous memory.
    pub fn in_memory_store(&self) -> Result<Store> {
        open::store_in_memory(self)
    }
}
