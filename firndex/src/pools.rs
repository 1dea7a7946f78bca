//! Creating and opening pools with the chosen options.

use crate::files::{self, LogFiles};
use crate::open::{self, Mode};
use crate::shapes::Shapes;
use crate::{Options, Result, Store, Table, refusals};
use index::{Fixed, Shape};
use std::path::Path;

impl Options {
    /// Creates a table of 8-byte keys and values at `path`, where no file may exist.
    pub fn create_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.create_table_of(path)
    }

    /// Opens the table of 8-byte keys and values at `path`.
    pub fn open_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.open_table_of(path)
    }

    /// Opens the table of 8-byte keys and values at `path`, or creates it.
    pub fn open_or_create_table(&self, path: impl AsRef<Path>) -> Result<Table<u64, u64>> {
        self.open_or_create_table_of(path)
    }

    /// A table of 8-byte keys and values in anonymous memory.
    pub fn in_memory_table(&self) -> Result<Table<u64, u64>> {
        self.in_memory_table_of()
    }

    /// Creates a table of keys `K` and values `V` at `path`, where no file may exist.
    ///
    /// Every engine takes keys and values of 8 bytes each. Its [`pair_sizes`](crate::Description::pair_sizes) tell
    /// which other sizes it takes. Keys have 1 byte to [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), values at most
    /// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX). Without a chosen engine, the first that takes the sizes is used.
    /// If the chosen engine does not take them, or none does, the error is
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
        refusals::open(self, path.as_ref(), Mode::Create)
    }

    /// Opens the table at `path`. Its keys and values must have the sizes and the [shapes](Fixed::shape) of `K` and
    /// `V`; otherwise the error is [`OpenError::Mismatch`](crate::OpenError::Mismatch). A table that an earlier
    /// version has made records no shapes, and opens with any types of its sizes.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("places.firn");
    /// use firndex::{Fixed, Options, Table};
    ///
    /// #[derive(Clone, Copy, Fixed)]
    /// struct Place {
    ///     file: u32,
    ///     offset: u32,
    /// }
    /// #[derive(Clone, Copy, Debug, Fixed)]
    /// struct Price {
    ///     cents: u64,
    /// }
    ///
    /// Table::<u64, Place>::create(&path)?.close()?;
    /// let refused = Options::new().open_table_of::<u64, Price>(&path).unwrap_err().to_string();
    /// assert!(refused.contains("is `{ file: u32, offset: u32 }`, expected `{ cents: u64 }`"), "{refused}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_table_of<K: Fixed, V: Fixed>(&self, path: impl AsRef<Path>) -> Result<Table<K, V>> {
        refusals::open(self, path.as_ref(), Mode::Open)
    }

    /// [`Options::open_table_of`], or [`Options::create_table_of`] if there is no file at `path`.
    pub fn open_or_create_table_of<K: Fixed, V: Fixed>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Table<K, V>> {
        refusals::open(self, path.as_ref(), Mode::OpenOrCreate)
    }

    /// A table of keys `K` and values `V` in anonymous memory, with the sizes that [`Options::create_table_of`]
    /// takes.
    pub fn in_memory_table_of<K: Fixed, V: Fixed>(&self) -> Result<Table<K, V>> {
        open::in_memory(self)
    }

    /// Restores the pool at `path` from its checkpoint and log, as opening it does, if its file does not count: it is
    /// missing or damaged, or was not closed before power loss or before it was copied. Returns whether that was
    /// necessary. For programs that [`inspect`](crate::inspect) a pool before they open it.
    pub fn restore(&self, path: impl AsRef<Path>) -> Result<bool> {
        refusals::until_free(self, || open::restore(self, path.as_ref()))
    }

    /// The files of log and checkpoint of the pool at `path`. Move, copy and delete them with it. The pool may be
    /// open; then the files change.
    pub fn log_files(&self, path: impl AsRef<Path>) -> Result<LogFiles> {
        files::files(self, path.as_ref())
    }

    /// As [`remove`](crate::remove), for a pool whose log is in [`Options::log_directory`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        files::remove_pool(self, path.as_ref())
    }

    /// Creates a store at `path`, where no file may exist.
    pub fn create_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        refusals::open(self, path.as_ref(), Mode::Create)
    }

    /// Opens the store at `path`.
    pub fn open_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        refusals::open(self, path.as_ref(), Mode::Open)
    }

    /// Opens the store at `path`, or creates it.
    pub fn open_or_create_store(&self, path: impl AsRef<Path>) -> Result<Store> {
        refusals::open(self, path.as_ref(), Mode::OpenOrCreate)
    }

    /// A store in anonymous memory.
    pub fn in_memory_store(&self) -> Result<Store> {
        open::in_memory(self)
    }

    /// The [shapes](Shape) of a table's keys and values, in place of those of its types: a new table records them,
    /// and an existing one is refused if it has recorded others. Default: those of the types.
    ///
    /// This is for programs that learn the shapes at run time, and open every table of 8-byte pairs as a
    /// `Table<u64, u64>`, say. Shapes of other sizes than the types' give
    /// [`Error::OutOfRange`](crate::Error::OutOfRange). Stores ignore this.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("weights.firn");
    /// use firndex::{Options, Shape, Table};
    ///
    /// let (key, value): (Shape, Shape) = ("i64".parse().unwrap(), "f64".parse().unwrap());
    /// let weights: Table<u64, u64> = Options::new().shapes(key, value).create_table(&path)?;
    /// weights.put(-1_i64 as u64, 0.5_f64.to_bits())?;
    /// weights.close()?;
    ///
    /// let weights = Table::<i64, f64>::open(&path)?;
    /// assert_eq!(weights.get(-1)?, Some(0.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shapes(mut self, key: Shape, value: Shape) -> Self {
        self.shapes = Some(Shapes { key: Some(key), value: Some(value) });
        self
    }
}
