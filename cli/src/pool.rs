//! Opening a pool of either kind, for reading or for writing.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Error, Result};
use firndex::{CheckReport, Kind, OpenError, Options, PoolInfo, Stats, Store, Table};

use crate::failure::Failure;
use crate::format::Field;
use crate::progress;
use crate::quote::quote;
use crate::reading::Reading;
use crate::safety::{LogPlace, Safety};

/// An open pool; which of the two it is was read from the file.
pub(crate) enum Pool {
    /// Numbers to numbers.
    Table(Table<u64, u64>),
    /// Bytes to bytes.
    Store(Store),
}

impl Pool {
    /// Opens a pool to look at it. One that was closed properly is opened read-only, so that a
    /// file without write permission serves as well; any other must be recovered, which writes, and
    /// is refused if nothing may be written.
    pub(crate) fn open_to_read(path: &Path, reading: &Reading) -> Result<Self> {
        if !reading.read_only {
            reading.log.restore(path)?;
        }
        Self::open_inspected(path, &inspect(path)?, reading)
    }

    /// As [`Pool::open_to_read`], of what `inspect` has told.
    pub(crate) fn open_inspected(path: &Path, info: &PoolInfo, reading: &Reading) -> Result<Self> {
        let options = reading.log.options().read_only(info.clean || reading.read_only);
        Self::open(path, info, options, &reading.log)
    }

    /// Opens a pool to change it.
    pub(crate) fn open_to_write(path: &Path, safety: &Safety) -> Result<Self> {
        safety.log.restore(path)?;
        Self::open(path, &inspect(path)?, safety.options(), &safety.log)
    }

    /// Whether the pool's keys and values can be told on a command line.
    pub(crate) fn can_open(info: &PoolInfo) -> bool {
        info.kind == Kind::Store || (info.key_bytes, info.value_bytes) == (8, 8)
    }

    fn open(path: &Path, info: &PoolInfo, options: Options, log: &LogPlace) -> Result<Self> {
        if !Self::can_open(info) {
            let (keys, values) = (info.key_bytes, info.value_bytes);
            return Err(Failure::new(
                format!(
                    "{} is a table of keys of {keys} and values of {values} bytes, and the command \
                     line opens stores and tables of keys and values of 8 bytes",
                    path.display()
                ),
                "open it in a program, with firndex::Options::open_table_of",
            )
            .into());
        }
        let open = || match info.kind {
            Kind::Table => options.open_table(path).map(Pool::Table),
            Kind::Store => options.open_store(path).map(Pool::Store),
        };
        let _step = progress::waiting("opening");
        log.waiting.until_free(path, open).map_err(|error| explain(path, error))
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Pool::Table(table) => table.len(),
            Pool::Store(store) => store.len(),
        }
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        Ok(match self {
            Pool::Table(table) => table.stats(),
            Pool::Store(store) => store.stats(),
        }?)
    }

    pub(crate) fn check(&self) -> Result<CheckReport> {
        Ok(match self {
            Pool::Table(table) => table.check(),
            Pool::Store(store) => store.check(),
        }?)
    }

    /// Shows `visit` every pair until it breaks off.
    pub(crate) fn try_for_each<B>(
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

    /// Halves the pool's index; whether that was possible.
    pub(crate) fn shrink(&self) -> Result<bool> {
        Ok(match self {
            Pool::Table(table) => table.shrink(),
            Pool::Store(store) => store.shrink(),
        }?)
    }

    /// Closes the pool; what this cannot sync, it says.
    pub(crate) fn close(self) -> Result<()> {
        let _step = progress::waiting("closing");
        Ok(match self {
            Pool::Table(table) => table.close(),
            Pool::Store(store) => store.close(),
        }?)
    }
}

/// What the pool says about itself.
pub(crate) fn inspect(path: &Path) -> Result<PoolInfo> {
    firndex::inspect(path).map_err(|error| explain(path, error))
}

/// Adds what only the command line knows: the command that would have made the pool.
pub(crate) fn explain(path: &Path, error: firndex::Error) -> Error {
    let shown = path.display();
    if let Some(source) = unreadable(path, &error) {
        let hint = "run this as a user who may read it, or change its permissions";
        return Failure::new(format!("{shown} cannot be read ({source})"), hint).into();
    }
    match error {
        firndex::Error::Open(OpenError::Missing { .. }) => {
            return Failure::new(
                format!("there is no pool at {shown}"),
                format!("make one first: firndex create {shown}"),
            )
            .into();
        }
        // Whether to open it read-only is not for the user to say here.
        firndex::Error::Open(OpenError::NotWritable { needs_recovery, source, .. }) => {
            let hint = if needs_recovery {
                "it was not closed cleanly, and must be made writable even to be read: recovery writes"
            } else {
                "make it writable; as it is, firndex get, dump, scan, stat and check can read it"
            };
            return Failure::new(format!("{shown} cannot be written ({source})"), hint).into();
        }
        firndex::Error::Open(error @ OpenError::Busy { .. }) => {
            return Failure::new(error.to_string(), "or wait until it is: --wait SECONDS").into();
        }
        firndex::Error::Open(error @ OpenError::NeedsRecovery) => {
            return Failure::new(error.to_string(), "without --read-only it is recovered").into();
        }
        _ => {}
    }
    Error::new(error).context(format!("opening {}", path.display()))
}

/// Why the file may not even be read, if that is behind the error.
fn unreadable(path: &Path, error: &firndex::Error) -> Option<io::Error> {
    match error {
        firndex::Error::Open(OpenError::NotWritable { .. } | OpenError::Io { .. }) => {
            let refused = File::open(path).err()?;
            (refused.kind() == io::ErrorKind::PermissionDenied).then_some(refused)
        }
        _ => None,
    }
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
