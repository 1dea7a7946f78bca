//! Contenders that are caches of one type.

use crate::cache::{Cache, Opened, Room};
use crate::choices::{CachePart, Suite};
use crate::contender::Contender;
use crate::map::Map;
use crate::measured::{End, Measured, Rows};
use crate::medium::Medium;
use crate::row::Row;
use crate::setting::Setting;
use crate::suite::cache;
use anyhow::{Context, Result, bail};
use firndex::Engine;
use std::path::Path;

/// Makes an empty cache.
type Make<C> = Box<dyn Fn(Room) -> Result<C> + Sync>;
/// Opens the cache that has its files in a directory, and creates it if there are none.
type OpenIn<C> = Box<dyn Fn(&Path, Room) -> Result<C> + Sync>;

/// Makes caches of one type, and so is a [`Contender`] of suite `cache`.
pub struct Caching<C> {
    name: String,
    version: String,
    make: Make<C>,
    open_in: Option<OpenIn<C>>,
    measured: Measured,
}

impl<C: Cache> Caching<C> {
    /// A cache that keeps nothing when its process ends. `make` makes an empty one.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        make: impl Fn(Room) -> Result<C> + Sync + 'static,
    ) -> Caching<C> {
        Caching {
            name: name.into(),
            version: version.into(),
            make: Box::new(make),
            open_in: None,
            measured: Measured::default(),
        }
    }

    /// It is also opened in a directory, again after each of these ends.
    #[must_use]
    pub fn reopening(
        mut self,
        ends: &'static [End],
        open: impl Fn(&Path, Room) -> Result<C> + Sync + 'static,
    ) -> Caching<C> {
        self.open_in = Some(Box::new(open));
        self.measured.ends = ends;
        self
    }

    /// It has only these rows, and those after a restart.
    #[must_use]
    pub fn only(mut self, rows: Rows) -> Caching<C> {
        self.measured.rows = rows;
        self
    }

    /// It has hit ratios only with at least so many bytes: its bound is not exact below.
    #[must_use]
    pub fn bounded_from(mut self, bytes: u64) -> Caching<C> {
        self.measured.bytes_min = bytes;
        self
    }

    /// It has no row of a trace whose values live by the clock: it cannot keep the trace's pace.
    #[must_use]
    pub fn without_pace(mut self) -> Caching<C> {
        self.measured.is_slow = true;
        self
    }
}

impl<C: Cache + 'static> Contender for Caching<C> {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn threads_max(&self) -> usize {
        usize::MAX
    }

    fn lies_on(&self, medium: Medium, flushes: bool) -> bool {
        medium == Medium::Dram && !flushes
    }

    fn grows(&self) -> bool {
        false
    }

    fn engine(&self) -> Option<Engine> {
        None
    }

    fn is_cache(&self) -> bool {
        true
    }

    fn open_cache(&self, directory: &Path, room: Room) -> Result<Opened> {
        let open = self.open_in.as_ref();
        let open = open.with_context(|| format!("{} keeps nothing in files", self.name))?;
        Ok(Opened::new(open(directory, room)?))
    }

    fn open_map(&self, _setting: &Setting) -> Result<Box<dyn Map>> {
        bail!("{} is no map of words", self.name)
    }

    fn round(&self, suite: Suite, setting: &Setting) -> Result<Vec<Row>> {
        if suite != Suite::Cache {
            return Ok(Vec::new());
        }
        let mut rows = cache::round(&self.name, &self.make, &self.measured, setting)?;
        if setting.threads == 1 && setting.cache_parts.has(CachePart::Restarts) {
            rows.extend(cache::restarts(self, self.measured.ends, setting)?);
        }
        Ok(rows)
    }
}
