//! Opening a pool of any kind, for reading or for writing.

use std::ops::{ControlFlow, Deref};
use std::path::Path;

use anyhow::Result;
use firndex::{
    Cache, Copied, Existing, Kind, OpenError, Options, PoolInfo, Shape, Simple, Store, Table,
};
use pmem::file::PoolFile;

use crate::explain::{explain, inspect};
use crate::failure::Failure;
use crate::format::Field;
use crate::output;
use crate::progress;
use crate::quote::quote;
use crate::reading::Reading;
use crate::safety::{LogPlace, Safety};
use crate::sizes;
use crate::typed::Typed;

/// An open pool whose keys and values can be told on a command line; which of these it is was read from the file.
pub enum Pool {
    /// Numbers to numbers.
    Table(Table<u64, u64>),
    /// Bytes to bytes.
    Store(Store),
}

/// Any open pool.
pub(crate) enum AnyPool {
    /// One of bytes or numbers.
    Told(Pool),
    /// A table of other types.
    Other(Typed),
    /// Bytes to bytes, within a bound.
    Cache(Cache),
}

/// Whether the pool's keys and values are bytes or numbers: not those of a table of other types or sizes.
fn is_told(info: &PoolInfo) -> bool {
    let is_number = |shape: &Option<Shape>| {
        shape.as_ref().is_none_or(|shape| *shape == Shape::Simple(Simple::U64))
    };
    let are_numbers = is_number(&info.key_shape) && is_number(&info.value_shape);
    info.kind == Kind::Store || ((info.key_bytes, info.value_bytes) == (8, 8) && are_numbers)
}

/// How to open a pool to look at it. One that was closed properly is opened read-only, so that a file without write
/// permission serves as well; any other must be recovered, which writes, and is refused if nothing may be written.
fn to_read(info: &PoolInfo, reading: &Reading) -> Options {
    reading.log.options().read_only(info.clean || reading.read_only)
}

/// How to open a pool to change it, and what it is then. It is restored first where that is necessary.
fn to_write(path: &Path, safety: &Safety) -> Result<(PoolInfo, Options)> {
    let options = safety.options()?;
    safety.log.restore(path)?;
    warn_of_copies(path);
    let info = inspect(path)?;
    safety.demand_meaning(info.durability)?;
    Ok((info, options))
}

/// Opens a pool. If another process holds it, this waits as long as the user wants.
fn when_free<T>(path: &Path, log: &LogPlace, open: impl Fn() -> firndex::Result<T>) -> Result<T> {
    let step = progress::waiting("opening");
    log.waiting.until_free(path, &step, open).map_err(|error| explain(path, error))
}

/// Says so if the pool's file system may run out of space under a pool that has space.
fn warn_of_copies(path: &Path) {
    if PoolFile::is_copied_on_write(path) {
        output::talk(format_args!(
            "{}: its file system copies what is changed, so that changes may fail for want of space that the pool has \
             already; on btrfs, `firndex compact` writes the pool anew, in place from then on",
            path.display()
        ));
    }
}

impl Deref for Pool {
    type Target = firndex::Pool;

    fn deref(&self) -> &firndex::Pool {
        match self {
            Pool::Table(table) => table,
            Pool::Store(store) => store,
        }
    }
}

impl Deref for AnyPool {
    type Target = firndex::Pool;

    fn deref(&self) -> &firndex::Pool {
        match self {
            AnyPool::Told(pool) => pool,
            AnyPool::Other(table) => table,
            AnyPool::Cache(cache) => cache,
        }
    }
}

impl Pool {
    fn open(path: &Path, info: &PoolInfo, options: &Options, log: &LogPlace) -> Result<Self> {
        when_free(path, log, || match info.kind {
            Kind::Table => options.open_table(path).map(Pool::Table),
            _ => options.open_store(path).map(Pool::Store),
        })
    }

    /// Shows `visit` every pair until it breaks off.
    pub fn try_for_each<B>(
        &self,
        visit: &mut dyn FnMut(Field<'_>, Field<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        Ok(match self {
            Pool::Table(table) => {
                table.try_for_each(|key, value| visit(Field::Number(key), Field::Number(value)))
            }
            Pool::Store(store) => {
                store.try_for_each(|key, value| visit(Field::Bytes(key), Field::Bytes(value)))
            }
        }?)
    }

    /// Closes the pool; what this cannot sync, it says.
    pub fn close(self) -> Result<()> {
        let _step = progress::waiting("closing");
        Ok(match self {
            Pool::Table(table) => table.close(),
            Pool::Store(store) => store.close(),
        }?)
    }
}

impl AnyPool {
    /// Opens a pool, of which `inspect` has told this, to look at it; as [`to_read`].
    pub(crate) fn open_inspected(path: &Path, info: &PoolInfo, reading: &Reading) -> Result<Self> {
        Self::open(path, info, &to_read(info, reading), &reading.log)
    }

    /// As [`AnyPool::open_inspected`], also if pairs are missing: a check tells how many.
    pub(crate) fn open_to_check(path: &Path, info: &PoolInfo, reading: &Reading) -> Result<Self> {
        Self::open(path, info, &to_read(info, reading).may_lack_pairs(true), &reading.log)
    }

    /// Opens a pool to copy its pairs.
    pub(crate) fn open_to_copy(path: &Path, reading: &Reading) -> Result<Self> {
        let info = restored(path, reading)?;
        refuse_long_pairs(path, info.key_bytes, info.value_bytes)?;
        Self::open_inspected(path, &info, reading)
    }

    /// Opens a pool to change its index.
    pub(crate) fn open_to_write(path: &Path, safety: &Safety) -> Result<Self> {
        let (info, options) = to_write(path, safety)?;
        Self::open(path, &info, &options, &safety.log)
    }

    /// Opens a pool to let others use it.
    pub(crate) fn open_to_serve(path: &Path, safety: &Safety) -> Result<Self> {
        let (info, options) = to_write(path, safety)?;
        refuse_long_pairs(path, info.key_bytes, info.value_bytes)?;
        Self::open(path, &info, &options.guests(true), &safety.log)
    }

    /// Opens a pool to copy its pairs into its place.
    pub(crate) fn open_to_rewrite(path: &Path, safety: &Safety) -> Result<Self> {
        let (info, options) = to_write(path, safety)?;
        refuse_long_pairs(path, info.key_bytes, info.value_bytes)?;
        Self::open(path, &info, &options, &safety.log)
    }

    fn open(path: &Path, info: &PoolInfo, options: &Options, log: &LogPlace) -> Result<Self> {
        if info.kind == Kind::Cache {
            return when_free(path, log, || options.open_cache(path)).map(AnyPool::Cache);
        }
        if is_told(info) {
            return Pool::open(path, info, options, log).map(AnyPool::Told);
        }
        when_free(path, log, || Typed::open(path, info, options)).map(AnyPool::Other)
    }

    /// Opens a pool to change its pairs.
    pub(crate) fn open_to_change(path: &Path, safety: &Safety) -> Result<Self> {
        let (info, options) = to_write(path, safety)?;
        refuse_long_pairs(path, info.key_bytes, info.value_bytes)?;
        Self::open(path, &info, &options, &safety.log)
    }

    /// As [`Pool::try_for_each`].
    pub(crate) fn try_for_each<B>(
        &self,
        visit: &mut dyn FnMut(Field<'_>, Field<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        match self {
            AnyPool::Told(pool) => pool.try_for_each(visit),
            AnyPool::Other(table) => Ok(table.try_for_each(visit)?),
            AnyPool::Cache(cache) => {
                let mut flow = ControlFlow::Continue(());
                cache.for_each(|key, value| {
                    flow = visit(Field::Bytes(key), Field::Bytes(value));
                    flow.is_continue()
                })?;
                Ok(flow)
            }
        }
    }

    /// Writes a clean copy.
    pub(crate) fn backup(&self, out: &Path, existing: Existing) -> firndex::Result<Copied> {
        match self {
            AnyPool::Told(Pool::Table(table)) => table.backup(out, existing),
            AnyPool::Told(Pool::Store(store)) => store.backup(out, existing),
            AnyPool::Cache(_) => Err(no_copies()),
            AnyPool::Other(table) => table.backup(out, existing),
        }
    }

    /// Writes a copy with other options.
    pub(crate) fn convert(
        &self,
        out: &Path,
        existing: Existing,
        options: &Options,
    ) -> firndex::Result<Copied> {
        match self {
            AnyPool::Told(Pool::Table(table)) => table.convert(out, existing, options),
            AnyPool::Told(Pool::Store(store)) => store.convert(out, existing, options),
            AnyPool::Cache(_) => Err(no_copies()),
            AnyPool::Other(table) => table.convert(out, existing, options),
        }
    }

    /// Writes the pairs into a file no larger than they need, in place of the pool's.
    pub(crate) fn rewrite(self) -> Result<Option<Copied>> {
        Ok(match self {
            AnyPool::Told(Pool::Table(table)) => table.rewrite(),
            AnyPool::Told(Pool::Store(store)) => store.rewrite(),
            AnyPool::Cache(_) => Err(no_copies()),
            AnyPool::Other(table) => table.rewrite(),
        }?)
    }

    /// As [`Pool::close`].
    pub(crate) fn close(self) -> Result<()> {
        match self {
            AnyPool::Told(pool) => pool.close(),
            AnyPool::Other(table) => {
                let _step = progress::waiting("closing");
                Ok(table.close()?)
            }
            AnyPool::Cache(cache) => {
                let _step = progress::waiting("closing");
                Ok(cache.close()?)
            }
        }
    }
}

/// Of a cache there are no copies: what it has may be gone a moment later.
fn no_copies() -> firndex::Error {
    firndex::Error::Open(OpenError::Mismatch {
        field: "kind",
        found: Kind::Cache.to_string(),
        expected: "table or store".into(),
        advice: "copy the file of a closed cache, or write its entries with `firndex dump`",
    })
}

/// What a table with keys and values of other sizes is.
fn of_sizes(path: &Path, key_bytes: u32, value_bytes: u32) -> String {
    format!(
        "{} is a table of keys of {key_bytes} and values of {value_bytes} bytes",
        path.display()
    )
}

/// Refuses a table whose keys or values are too long for [`AnyKey`] and [`AnyValue`], for a command that reads them.
/// The sizes of a store are 0.
pub(crate) fn refuse_long_pairs(path: &Path, key_bytes: u32, value_bytes: u32) -> Result<()> {
    if sizes::are_copied(key_bytes, value_bytes) {
        return Ok(());
    }
    let what = format!(
        "{}, and the command line copies keys and values of at most {} bytes",
        of_sizes(path, key_bytes, value_bytes),
        sizes::COPIED_BYTES_MAX
    );
    Err(Failure::new(what, "copy them in a program, with firndex::Table or firndex::Salvage")
        .into())
}

/// What the pool says about itself, which is restored first where it may be.
fn restored(path: &Path, reading: &Reading) -> Result<PoolInfo> {
    if !reading.read_only {
        reading.log.restore(path)?;
    }
    inspect(path)
}

/// Reads a key or a value of a table pool: ASCII digits and nothing else.
pub(crate) fn decimal(what: &str, bytes: &[u8]) -> Result<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(bytes).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Failure::new(
            format!(
                "the {what} {} is no decimal number from 0 to {}, which a table pool needs",
                quote(bytes),
                u64::MAX
            ),
            "for keys and values of any bytes, use a pool made with: firndex create --kind store",
        )
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn decimals_are_digits_that_fit() {
        assert_eq!(decimal("key", b"0").ok(), Some(0));
        assert_eq!(decimal("key", b"007").ok(), Some(7));
        assert_eq!(decimal("key", b"18446744073709551615").ok(), Some(u64::MAX));
        for wrong in
            [&b""[..], b"+1", b"-1", b" 1", b"1.0", b"0x1", b"\xff", b"18446744073709551616"]
        {
            assert!(decimal("key", wrong).is_err(), "{wrong:?}");
        }
    }
}
