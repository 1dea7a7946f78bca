//! Hash tables that outlive the process.
//!
//! A [`Table`] maps keys and values of fixed sizes, a [`Store`] maps byte strings to byte strings. Both live in a
//! *pool*: a file mapped into memory. Any number of threads read and write it at the speed of memory, and it survives
//! the process.
//!
//! | medium | after kill -9 | after power loss |
//! |---|---|---|
//! | [`Medium::Mapped`] with [`Durability::Periodic`], the default on a disk | every returned operation | everything before the last sync, and normally all but the last 5 ms |
//! | [`Medium::Mapped`] with [`Durability::Commit`] | every returned operation | every returned change |
//! | [`Medium::Mapped`] with [`Durability::Process`], the default in /dev/shm | every returned operation | a pool that was closed, or synced and not written since; otherwise it is refused |
//! | [`Medium::Dax`]: a DAX file system on persistent memory | every returned operation | every returned operation |
//! | [`Medium::Dram`]: no file | – | – |
//!
//! ```
//! # fn main() -> firndex::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("words.firn");
//! let words = firndex::Store::open_or_create(&path)?;
//! std::thread::scope(|scope| {
//!     for text in ["the cat sat", "the dog ran", "the end"] {
//!         let words = &words;
//!         scope.spawn(move || {
//!             for word in text.split(' ') {
//!                 let add_one = |count: Option<&[u8]>| {
//!                     let count = count.and_then(|bytes| bytes.try_into().ok());
//!                     let count = count.map_or(0, u32::from_le_bytes);
//!                     Some((count + 1).to_le_bytes().to_vec())
//!                 };
//!                 words.modify(word, add_one).unwrap();
//!             }
//!         });
//!     }
//! });
//! assert_eq!(words.get("the")?.as_deref(), Some(&3u32.to_le_bytes()[..]));
//! words.close()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod any_engine;
mod background;
mod batch;
mod batch_error;
mod body;
mod bounds;
mod cache;
mod collection;
mod compactor;
mod companions;
mod contents;
mod copies;
mod cursor;
mod draft;
mod durability;
mod error;
mod files;
mod guests;
mod handle;
mod held;
mod info;
mod iter;
mod on_evict;
mod open;
mod options;
#[cfg(doctest)]
mod pages;
mod pool;
mod pools;
mod refusals;
mod role;
mod salvage;
mod shapes;
mod stats;
mod store;
mod table;
mod ticket;
#[cfg(feature = "serde")]
mod values;
mod verify;
mod when_durable;
mod word_types;

pub use batch_error::BatchError;
pub use cache::{Cache, CacheIter, CacheStats};
pub use collection::{Entry, StoreEntry};
pub use cursor::is_cursor;
/// Makes a struct a key or a value of tables, if its fields are [`Fixed`](trait@Fixed). Its bytes are those of the
/// fields, in order, without padding. So the order of the fields is part of the file's format. A table records their
/// names and types, and refuses another struct.
///
/// ```
/// # fn main() -> firndex::Result<()> {
/// use firndex::{Fixed, Table};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Fixed)]
/// struct Place {
///     file: u32,
///     offset: u64,
/// }
///
/// let places = Table::<[u8; 16], Place>::in_memory()?;
/// places.put([7; 16], Place { file: 3, offset: 4096 })?;
/// assert_eq!(places.get([7; 16])?, Some(Place { file: 3, offset: 4096 }));
/// # Ok(())
/// # }
/// ```
///
/// An enum cannot be one, since a pool may hold any bytes. This does not compile:
///
/// ```compile_fail
/// #[derive(Clone, Copy, firndex::Fixed)]
/// enum Colour { Red, Green }
/// ```
pub use derive::Fixed;
pub use draft::{Copied, Existing};
pub use engines::Engine;
pub use engines::engine::{Description, PairSizes, Parameter};
pub use error::{Error, Result};
pub use files::{LogFiles, remove};
#[doc(hidden)]
pub use index::fields;
pub use index::{CacheUse, CheckReport, Exchange, Fixed, ItemError, Level, Shape, Simple};
pub use info::{PoolInfo, inspect};
pub use iter::{Iter, StoreIter};
pub use on_evict::Gone;
pub use options::{Kind, Medium, Options};
pub use pmem::durability::{Durability, LogError, LogUse};
pub use pmem::file::{Displaced, Verified};
pub use pmem::heap::{Corrupt, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use pmem::{OpenError, SpaceError};
pub use pool::Pool;
pub use role::Role;
pub use salvage::{Orphans, Salvage, Salvaged, SuperblockState};
pub use stats::Stats;
pub use store::{Record, Store};
pub use table::Table;
pub use ticket::Ticket;
pub use verify::verify;
pub use when_durable::WhenDurable;

const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Table>();
    is_shareable::<Store>();
    is_shareable::<Cache>();
};
