//! Values of any type that serde knows, in stores and caches.

use crate::{Cache, Error, Result, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// With the feature `serde`. The format is [postcard](https://postcard.jamesmunns.com/wire-format) 1: the fields of a
/// type in their order, without their names. So read a value with the type that wrote it. To change a type, use another
/// key, or an enum of its versions.
impl Store {
    /// Stores `value` under `key` in the format postcard, whether or not `key` is present.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// struct Session {
    ///     user: String,
    ///     visits: u32,
    /// }
    ///
    /// let sessions = firndex::Store::in_memory()?;
    /// sessions.put_as("17", &Session { user: "ada".into(), visits: 3 })?;
    /// let found: Option<Session> = sessions.get_as("17")?;
    /// assert_eq!(found.unwrap().visits, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_as<T: Serialize + ?Sized>(&self, key: impl AsRef<[u8]>, value: &T) -> Result<()> {
        self.put(key, written(value)?).map(drop)
    }

    /// The value of `key`, which [`Store::put_as`] has stored. Fails with [`Error::Value`] if its bytes are no `T`.
    pub fn get_as<T: DeserializeOwned>(&self, key: impl AsRef<[u8]>) -> Result<Option<T>> {
        self.get(key)?.map(|bytes| read(&bytes)).transpose()
    }
}

/// With the feature `serde`, in the same format as a store's.
impl Cache {
    /// Stores `value` under `key`, without an end, as [`Cache::put`] does.
    ///
    /// ```
    /// # fn main() -> firndex::Result<()> {
    /// use std::time::Duration;
    ///
    /// let rates = firndex::Cache::in_memory(1 << 20)?;
    /// rates.put_as("EUR", &("euro", 1.08))?;
    /// rates.put_as_for("GBP", &("pound", 1.27), Duration::from_secs(60))?;
    /// assert_eq!(rates.get_as("GBP")?, Some(("pound".to_owned(), 1.27)));
    ///
    /// let computed = rates.get_or_put_as("JPY", || Ok::<_, ()>(("yen".to_owned(), 0.0067)))?;
    /// assert_eq!(computed.unwrap().1, 0.0067);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_as<T: Serialize + ?Sized>(&self, key: impl AsRef<[u8]>, value: &T) -> Result<()> {
        self.put(key, written(value)?)
    }

    /// As [`Cache::put_as`], for a time, as [`Cache::put_for`] does.
    pub fn put_as_for<T: Serialize + ?Sized>(
        &self,
        key: impl AsRef<[u8]>,
        value: &T,
        time: Duration,
    ) -> Result<()> {
        self.put_for(key, written(value)?, time)
    }

    /// The value of `key`. Fails with [`Error::Value`] if its bytes are no `T`.
    pub fn get_as<T: DeserializeOwned>(&self, key: impl AsRef<[u8]>) -> Result<Option<T>> {
        self.get(key)?.map(|bytes| read(&bytes)).transpose()
    }

    /// The value of `key`, or what `compute` returns, which is then put: as [`Cache::get_or_put_with`]. A value that
    /// cannot be written fails with [`Error::Value`].
    pub fn get_or_put_as<T: Serialize + DeserializeOwned, E>(
        &self,
        key: impl AsRef<[u8]>,
        compute: impl FnOnce() -> std::result::Result<T, E>,
    ) -> Result<std::result::Result<T, E>> {
        enum Failed<E> {
            Computing(E),
            Writing(Error),
        }
        let computed = || written(&compute().map_err(Failed::Computing)?).map_err(Failed::Writing);
        match self.get_or_put_with(key, computed)? {
            Ok(bytes) => read(&bytes).map(Ok),
            Err(Failed::Computing(error)) => Ok(Err(error)),
            Err(Failed::Writing(error)) => Err(error),
        }
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|error| not_a::<T>("written", error.to_string()))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let (value, rest) = postcard::take_from_bytes(bytes)
        .map_err(|error| not_a::<T>("read", format!("{error}, in {} bytes", bytes.len())))?;
    if rest.is_empty() {
        return Ok(value);
    }
    let found = format!("{} bytes, of which it takes {}", bytes.len(), bytes.len() - rest.len());
    Err(not_a::<T>("read", found))
}

fn not_a<T: ?Sized>(action: &'static str, found: String) -> Error {
    Error::Value { action, type_name: std::any::type_name::<T>(), found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_such_value_are_refused_with_what_they_are() {
        let store = Store::in_memory().unwrap();
        store.put_as("pair", &(300u32, "text")).unwrap();
        assert_eq!(store.get_as("pair").unwrap(), Some((300u32, "text".to_owned())));
        assert_eq!(store.get_as::<u32>("absent").unwrap(), None);
        let too_many = store.get_as::<u32>("pair").unwrap_err();
        assert!(matches!(too_many, Error::Value { action: "read", .. }), "{too_many:?}");
        assert!(too_many.to_string().contains("7 bytes, of which it takes 2"), "{too_many}");
        store.put("torn", [0x80]).unwrap();
        let too_few = store.get_as::<u32>("torn").unwrap_err().to_string();
        assert!(too_few.contains("u32") && too_few.contains("1 bytes"), "{too_few}");
    }

    #[test]
    fn the_format_is_postcard_1() {
        let store = Store::in_memory().unwrap();
        store.put_as("key", &(300u32, "ab", Some(-1i8), [true, false])).unwrap();
        let bytes = [0xac, 0x02, 2, b'a', b'b', 1, 0xff, 1, 0];
        assert_eq!(store.get("key").unwrap().as_deref(), Some(&bytes[..]));
    }

    #[test]
    fn a_cache_reads_and_computes_values_and_refuses_others() {
        let cache = Cache::in_memory(1 << 20).unwrap();
        cache.put_as("pair", &(300u32, "text")).unwrap();
        assert_eq!(cache.get_as("pair").unwrap(), Some((300u32, "text".to_owned())));
        assert!(matches!(cache.get_as::<u32>("pair"), Err(Error::Value { action: "read", .. })));
        let again = || -> std::result::Result<_, &str> { unreachable!("it is there") };
        let found: (u32, String) = cache.get_or_put_as("pair", again).unwrap().unwrap();
        assert_eq!(found.0, 300);
        assert_eq!(cache.get_or_put_as("other", || Err::<u8, _>("down")).unwrap(), Err("down"));
        assert_eq!(cache.get_as::<u8>("other").unwrap(), None);
        cache.put_as_for("over", &1u8, Duration::ZERO).unwrap();
        assert_eq!(cache.get_as::<u8>("over").unwrap(), None);
    }
}
