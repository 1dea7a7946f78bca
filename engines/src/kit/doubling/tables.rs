//! The data tables of a pool, and how far a resize of them has come.

use super::geometry::{Geometry, Published, Resize, SPAN_MAX, table_log2, table_of};
use crate::Settings;
use crate::kit::helper::Signal;
use crate::kit::parallel::{PartOfWork, in_parallel};
use crate::kit::progress::Progress;
use crate::kit::shared::no_sidecar;
use pmem::pool::Draft;
use pmem::sync::{AtomicU64, Mutex, Ordering, PerThread, thread_index};
use pmem::{LINE, Medium, Offset, OpenError, Pool, SpaceError};
use std::ops::Range;
use std::sync::Arc;

/// Owner of the extents of data tables; their index is the table's.
pub(super) const TABLES: u8 = 1;
/// Owner of the extent with the cursor.
const CURSOR: u8 = 2;
/// Owner of the extent with the log.
pub(crate) const LOG: u8 = 3;
/// Bytes of the extent of the cursor.
const CURSOR_BYTES: u64 = LINE;

/// Engine root: log2 of the buckets of all tables.
const ROOT_LOG2: usize = 0;
/// Engine root: what resize is under way.
const ROOT_RESIZE: usize = 1;
/// Engine root: log2 of the buckets among which a key may still be where it was before.
const ROOT_LOWEST: usize = 2;

/// Most data tables that any engine has, and a power of two.
const BASES: usize = 64;
/// No base of a table: those are aligned.
const NO_BASE: u64 = u64::MAX;

/// Words of a thread's counts: items inserted less items deleted; its insertions and removals.
pub(super) const PAIRS: usize = 0;
pub(super) const CHANGES: usize = 1;
/// From here on the words are the engine's.
pub(crate) const ENGINE_COUNTS: usize = 2;

/// What is fixed of an engine's data tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) bucket_bytes: u64,
    /// log2 of the buckets of the first one.
    pub(crate) initial_log2: u32,
    /// Most buckets, as log2.
    pub(crate) log2_max: u32,
}

/// The data tables of a pool.
pub(crate) struct Tables<M: Medium> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) settings: Settings,
    pub(crate) signal: Signal,
    /// Per thread; the first words are counted here.
    pub(crate) counts: PerThread,
    pub(super) form: Form,
    /// Per data table, where the bucket numbered 0 would lie; [`NO_BASE`] if it never was.
    bases: [AtomicU64; BASES],
    pub(super) published: Published,
    pub(super) progress: Progress,
    /// Where the cursor of a resize is.
    cursor: Offset,
    /// Held by the thread that advances it.
    pub(super) advancing: Mutex<()>,
    /// Held while a resize is begun.
    pub(super) beginning: Mutex<()>,
    /// log2 of the buckets for which a helper was last asked to prepare memory.
    pub(super) prepared_log2: AtomicU64,
    /// Buckets that helpers have visited since one could be emptied.
    pub(super) visited_in_vain: AtomicU64,
    /// Items found at open.
    at_open: AtomicU64,
    pub(super) resizes: AtomicU64,
}

impl<M: Medium> Tables<M> {
    /// Opens what a pool has, after `initialize` has taken the engine's own extents if the pool is new.
    #[inline(never)]
    pub(crate) fn open(
        pool: Arc<Pool<M>>,
        settings: Settings,
        form: Form,
        initialize: &dyn Fn(&mut Draft) -> Result<(), SpaceError>,
    ) -> Result<Self, OpenError> {
        let corrupt = |found: String| OpenError::Corrupt { found };
        if pool.extents_of(TABLES).is_empty() {
            if pool.is_read_only() {
                return Err(OpenError::NeedsRecovery);
            }
            let log2 = form.initial_log2;
            pool.extend(|draft| {
                initialize(draft)?;
                draft.take_extent(CURSOR, 0, CURSOR_BYTES)?;
                draft.take_extent(TABLES, 0, form.bucket_bytes << log2)?;
                write_roots(draft, Geometry::new(log2, log2, Resize::No, 1));
                Ok(())
            })?;
        }
        let geometry = read_roots(&pool.superblock().engine_roots, &form).map_err(corrupt)?;
        let bases: [AtomicU64; BASES] = std::array::from_fn(|_| AtomicU64::new(NO_BASE));
        for extent in pool.extents_of(TABLES) {
            let table = usize::from(extent.index);
            let log2 = table_log2(table, form.initial_log2);
            let bucket_bytes = form.bucket_bytes;
            if table >= BASES || log2 >= form.log2_max || extent.bytes != bucket_bytes << log2 {
                return Err(corrupt(format!(
                    "the extent of data table {table} has {} bytes, expected {bucket_bytes} for each of \
                     2^{log2} buckets",
                    extent.bytes
                )));
            }
            if bases[table].swap(form.base_of(table, extent.start), Ordering::Relaxed) != NO_BASE {
                return Err(corrupt(format!("data table {table} has two extents")));
            }
        }
        let used = 1 + (geometry.used_log2() - form.initial_log2) as usize;
        let has_base = |base: &AtomicU64| base.load(Ordering::Relaxed) != NO_BASE;
        let tables = bases.iter().filter(|base| has_base(base)).count();
        // Also of those that are not used now: they are used again.
        if let Some(table) = bases[..used.max(tables)].iter().position(|base| !has_base(base)) {
            return Err(corrupt(format!("data table {table} has no extent")));
        }
        let cursor = only_extent(&pool, CURSOR, CURSOR_BYTES, "cursor")?;
        let counts = PerThread::new().map_err(no_sidecar)?;
        Ok(Tables {
            settings,
            signal: Signal::default(),
            counts,
            form,
            bases,
            published: Published::new(geometry),
            progress: Progress::default(),
            cursor,
            advancing: Mutex::new(()),
            beginning: Mutex::new(()),
            prepared_log2: AtomicU64::new(0),
            visited_in_vain: AtomicU64::new(0),
            at_open: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            pool,
        })
    }

    #[inline(always)]
    pub(crate) fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline(always)]
    pub(crate) fn geometry(&self) -> Geometry {
        self.published.geometry()
    }

    /// Resizes that were begun.
    pub(crate) fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::Relaxed)
    }

    /// How many data tables have an extent.
    pub(crate) fn count_of_tables(&self) -> usize {
        self.pool.extents_of(TABLES).len()
    }

    /// Bytes of all data tables.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.pool.extents_of(TABLES).iter().map(|extent| extent.bytes).sum()
    }

    /// Buckets that there may ever be in a pool of this limit: a power of two.
    pub(crate) fn buckets_max(&self) -> usize {
        let fitting = self.medium().limit() / self.form.bucket_bytes;
        let buckets = fitting.clamp(1, 1 << self.form.log2_max) as usize;
        // A shrink leaves data tables that the size does not need. The table may grow into them whatever the limit is.
        buckets.next_power_of_two().max(1 << self.present_log2())
    }

    /// log2 of the buckets of all data tables that have an extent.
    pub(crate) fn present_log2(&self) -> u32 {
        self.form.initial_log2 + self.count_of_tables() as u32 - 1
    }

    /// Where a bucket of `BUCKET_BYTES` begins.
    #[inline(always)]
    pub(crate) fn at<const BUCKET_BYTES: u64>(&self, bucket: u64) -> Offset {
        let table = table_of(bucket, self.form.initial_log2);
        let base = self.bases[table % self.bases.len()].load(Ordering::Relaxed);
        Offset(base.wrapping_add(bucket.wrapping_mul(BUCKET_BYTES)))
    }

    /// The number of the last data table of a table with this many buckets.
    pub(super) fn last_table(&self, log2: u32) -> usize {
        (log2 - self.form.initial_log2) as usize
    }

    pub(super) fn has_table(&self, table: usize) -> bool {
        self.bases[table].load(Ordering::Acquire) != NO_BASE
    }

    /// Adds a data table.
    pub(super) fn add_table(&self, table: usize, start: Offset) {
        self.bases[table].store(self.form.base_of(table, start), Ordering::Release);
    }

    /// Adds to the calling thread's count of pairs.
    pub(crate) fn count(&self, difference: u64) {
        self.counts.add(thread_index(), PAIRS, difference);
    }

    /// Sets the number of pairs that recovery has found.
    pub(crate) fn set_at_open(&self, pairs: u64) {
        self.at_open.store(pairs, Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> u64 {
        let counted = self.counts.used().map(|line| line.0[PAIRS].load(Ordering::Acquire));
        // During writes a removal may be seen and its insertion not, so the sum may seem negative.
        let sum = counted.fold(self.at_open.load(Ordering::Acquire), u64::wrapping_add);
        sum.cast_signed().max(0).cast_unsigned()
    }

    /// How many of the buckets that a resize empties, from the first one on, are empty of what has to move,
    /// durably: where recovery goes on (the paper's rehash_count).
    pub(crate) fn cursor(&self) -> u64 {
        self.medium().load(self.cursor)
    }

    /// Without a flush: after a crash an earlier value does as well, and only takes longer.
    pub(super) fn set_cursor(&self, cursor: u64) {
        self.medium().store(self.cursor, cursor);
    }

    /// Sets the cursor back, durably, for a resize that is to begin.
    pub(super) fn reset_cursor(&self) {
        if self.cursor() != 0 {
            self.medium().store(self.cursor, 0);
            self.medium().persist(self.cursor);
        }
    }

    /// Recovery has to write something.
    pub(crate) fn unless_read_only(&self) -> Result<(), OpenError> {
        if self.pool.is_read_only() { Err(OpenError::NeedsRecovery) } else { Ok(()) }
    }

    /// Runs `work` over parts of some buckets, and adds up the results. A thread is worth this many buckets.
    pub(crate) fn in_parallel(
        &self,
        buckets: Range<u64>,
        buckets_per_thread: u64,
        work: &PartOfWork<'_>,
    ) -> Result<u64, OpenError> {
        let (start, count) = (buckets.start, buckets.end - buckets.start);
        in_parallel(&self.settings, count, buckets_per_thread, &|range| {
            work(start + range.start..start + range.end)
        })
    }
}

impl Form {
    /// Where the bucket numbered 0 would lie, were it in this table, whose extent begins at `start`.
    fn base_of(&self, table: usize, start: Offset) -> u64 {
        let first = if table == 0 { 0 } else { 1 << table_log2(table, self.initial_log2) };
        start.0.wrapping_sub(self.bucket_bytes * first)
    }
}

/// Where the one extent of an owner begins.
pub(crate) fn only_extent<M: Medium>(
    pool: &Pool<M>,
    owner: u8,
    bytes: u64,
    what: &str,
) -> Result<Offset, OpenError> {
    match pool.extents_of(owner).as_slice() {
        [extent] if extent.bytes == bytes => Ok(extent.start),
        other => {
            let found = format!("extents of the {what}: {other:?}, expected one of {bytes} bytes");
            Err(OpenError::Corrupt { found })
        }
    }
}

/// Writes a geometry down.
pub(super) fn write_roots(draft: &mut Draft, geometry: Geometry) {
    let roots = draft.engine_roots();
    roots[ROOT_LOG2] = geometry.log2().into();
    roots[ROOT_RESIZE] = geometry.resize() as u64;
    roots[ROOT_LOWEST] = geometry.lowest().into();
}

/// The geometry that was written down, or what is wrong with it.
fn read_roots(roots: &[u64], form: &Form) -> Result<Geometry, String> {
    let [log2, resize, lowest] = [ROOT_LOG2, ROOT_RESIZE, ROOT_LOWEST].map(|root| roots[root]);
    let Some(resize) = Resize::of_root(resize) else {
        return Err(format!("resize state {resize}, expected 0 to 2"));
    };
    let (first, most) = (u64::from(form.initial_log2), u64::from(form.log2_max));
    let is_possible = match resize {
        Resize::No => lowest == log2,
        Resize::Extend => lowest >= first && lowest < log2 && log2 - lowest <= SPAN_MAX.into(),
        Resize::Shrink => lowest == log2 && log2 < most,
    };
    if log2 < first || log2 > most || !is_possible {
        return Err(format!(
            "2^{lowest} to 2^{log2} buckets in resize state {}, expected 2^{first} to 2^{most}",
            resize as u64
        ));
    }
    Ok(Geometry::new(log2 as u32, lowest as u32, resize, 1))
}
