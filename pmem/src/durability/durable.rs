//! Who writes log and checkpoints, and who waits for them.

mod attendant;
mod found;
mod keep;
mod merge;
mod rejoin;
mod resume;
mod steps;
mod wait;
mod wakers;
mod write;

pub use attendant::Attendant;
pub use steps::Steps;
pub use wakers::WhenDurable;

use super::checkpoint::{Checkpoint, Places};
use super::disk::{Disk, DiskFile, PAGE_BYTES, recognises};
use super::error::{LogError, RestoreError};
use super::frame::SegmentHeader;
use super::image::Image;
use super::names;
use super::pages::Pages;
use super::segments::Segments;
use super::writer::Writer;
use super::{HoldError, SafeCopy, Sizes, held};
use crate::line_log::{LineLog, Room};
use crate::sync::forks;
use rejoin::Rejoining;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wait::Turnstile;
use wakers::Wakers;

/// Of which pool, where, and how.
#[derive(Clone)]
pub struct Config {
    /// Where log and checkpoint are.
    pub disk: Arc<dyn Disk>,
    /// The pool's identity.
    pub uuid: u128,
    /// How long an epoch stays open if nobody waits for it.
    pub interval: Duration,
    /// A checkpoint is made when the log is as large as the pool, and no smaller than this. `None`: 16 times the pool,
    /// 256 MiB at most.
    pub checkpoint_bytes_min: Option<u64>,
    /// Whether the pool may have another checkpoint than the one it names alone: it names none until one has been made.
    pub is_in_doubt: bool,
    /// What time it is: [`SystemTime::now`], outside of simulations.
    pub clock: fn() -> SystemTime,
}

/// Figures of a log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogUse {
    /// Everything before this moment survives power loss. `None` before the first checkpoint.
    pub durable_until: Option<SystemTime>,
    /// Bytes written to the log since the last checkpoint.
    pub log_bytes: u64,
    /// Bytes of the pool in the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes written to log and checkpoints since the pool was opened.
    pub written_bytes: u64,
    /// Of these, the log's.
    pub logged_bytes: u64,
    /// Checkpoints made since the pool was opened.
    pub checkpoints: u64,
    /// Why changes are being refused, if they are.
    pub failure: Option<LogError>,
}

impl LogUse {
    /// Those of another process, which has told this moment, the figures from `log_bytes` on in their order, and the
    /// failure.
    pub fn of(
        durable_until: Option<SystemTime>,
        figures: [u64; 5],
        failure: Option<LogError>,
    ) -> LogUse {
        let [log_bytes, checkpoint_bytes, written_bytes, logged_bytes, checkpoints] = figures;
        LogUse {
            durable_until,
            log_bytes,
            checkpoint_bytes,
            written_bytes,
            logged_bytes,
            checkpoints,
            failure,
        }
    }
}

/// Writes a pool's log and checkpoints, until it is dropped.
pub struct Durable {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    forks_at_start: u32,
}

impl std::fmt::Debug for Durable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable")
            .field("durable_up_to", &self.durable_up_to())
            .finish_non_exhaustive()
    }
}

struct Shared {
    log: Arc<LineLog>,
    image: Arc<dyn Image>,
    segments: Arc<Segments>,
    places: Arc<Places>,
    interval: Duration,
    checkpoint_bytes_min: Option<u64>,
    clock: fn() -> SystemTime,
    writing: Mutex<Writing>,
    /// Epochs up to this one survive.
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
    turnstile: Turnstile,
    wakers: Arc<Wakers>,
    /// Whether mutations are refused; why, says `waiting`.
    is_refusing: AtomicBool,
    is_stopping: AtomicBool,
    /// Milliseconds since 1970 before which everything survives; 0: none.
    durable_until_ms: AtomicU64,
    checkpoint_bytes: AtomicU64,
    checkpoint_written_bytes: AtomicU64,
    checkpoints: AtomicU64,
    log_written_bytes: AtomicU64,
    /// Bytes of the log since the last checkpoint that earlier processes wrote.
    former_log_bytes: AtomicU64,
    /// `log_written_bytes` when the last checkpoint began.
    log_bytes_at_checkpoint: AtomicU64,
    keeper: OnceLock<Thread>,
    /// One checkpoint at a time.
    checkpointing: Mutex<()>,
    /// See [`Config::is_in_doubt`]; also while a checkpoint gets its name, and after one that did not.
    is_in_doubt: AtomicBool,
}

struct Writing {
    writer: Writer,
    pages: Pages,
    /// Epochs up to this one are in the log.
    written: u64,
    /// Since when what was not sealed was appended, in milliseconds since 1970.
    began_ms: u64,
    /// Segments before this one are needed no more.
    obsolete_before: u64,
    /// Of segments that there are, other than the one being written and its spare.
    others: Vec<u64>,
    rejoining: Rejoining,
    /// What the log adds to this process's numbers of epochs: those of the one before may have been larger.
    epochs_before: u64,
}

impl Writing {
    /// The number that an epoch of this process has in the log.
    fn in_log(&self, epoch: u64) -> u64 {
        self.epochs_before + epoch
    }
}

#[derive(Default)]
struct Waiting {
    /// Whether one of those who wait is writing for all of them.
    is_led: bool,
    state: State,
    /// Why mutations are refused, if they are.
    failure: Option<LogError>,
    /// Whether a checkpoint is being made that will give the log room.
    is_making_room: bool,
}

/// What the log is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// There is no checkpoint yet that it continues.
    #[default]
    Begun,
    /// What is in it survives.
    Based,
    /// Something could not be written. Nothing more is, until a new one has begun, with its checkpoint.
    Broken,
}

fn random_generation() -> u128 {
    let random = || RandomState::new().hash_one(std::process::id());
    u128::from(random()) << 64 | u128::from(random())
}

impl Durable {
    /// Begins the log of a pool whose medium appends to `log`. If `waits`, it is one of a new generation, whose first
    /// checkpoint has its name when this returns. Otherwise the log that there is goes on and catches up with the pool
    /// while operations run, or a checkpoint is made meanwhile; until then power loss leads back to what was durable.
    pub fn start(
        config: Config,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        waits: bool,
    ) -> Result<Durable, LogError> {
        let sizes = Sizes::default();
        let shared = match waits {
            true => None,
            false => Shared::rejoin(config.clone(), sizes, Arc::clone(&log), Arc::clone(&image))?,
        };
        let shared = shared.map_or_else(|| Shared::begin(config, sizes, log, image), Ok)?;
        let shared = Arc::new(shared);
        if waits && let Err(error) = shared.checkpoint() {
            shared.abandon(&error);
            shared.log.grow_alone();
            return Err(error);
        }
        let mut durable = Durable { shared, threads: Vec::new(), forks_at_start: forks() };
        if let Err(error) = durable.start_threads() {
            // Dropped as it is, it would wait for what one of them was to write.
            durable.stop();
            durable.shared.abandon(&error);
            return Err(error);
        }
        Ok(durable)
    }

    fn start_threads(&mut self) -> Result<(), LogError> {
        let flusher = self.spawn("firndex-log", |shared| shared.flush_periodically())?;
        let keeper = self.spawn("firndex-safe", |shared| shared.keep())?;
        self.shared.log.wake_when_full(flusher.clone());
        self.shared.wakers.written_by(flusher);
        let _ = self.shared.keeper.set(keeper);
        Ok(())
    }

    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> Result<Thread, LogError> {
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new().name(name.into()).spawn(move || work(&shared));
        let handle = started.map_err(|source| LogError::NoThread { source: Arc::new(source) })?;
        let thread = handle.thread().clone();
        self.threads.push(handle);
        Ok(thread)
    }

    /// Ends the threads, and waits for them.
    fn end_threads(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.shared.tell_futures();
    }

    /// The same, and then fences do not append any more.
    fn stop(&mut self) {
        self.end_threads();
        // A pool that grew now would lack room for its checkpoint when it is opened again.
        self.shared.log.grow_no_more();
        self.shared.log.stop();
    }

    /// Whether a mutation may begin: not if the log has failed or has no room. Waits for the flusher if the calling
    /// thread is far ahead of it: better here than where it holds a lock.
    #[inline]
    pub fn admit(&self) -> Result<(), LogError> {
        self.shared.admit()
    }

    /// The epoch that everything belongs to, or to an earlier one, that the calling thread has done or seen so far.
    pub fn ticket(&self) -> u64 {
        self.shared.log.epoch()
    }

    /// The last epoch that survives power loss.
    pub fn durable_up_to(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Waits until everything up to this epoch survives power loss. Writes it if no other thread does.
    pub fn wait(&self, ticket: u64) -> Result<(), LogError> {
        self.shared.flush(ticket, true)
    }

    /// Makes a checkpoint while operations run.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.shared.checkpoint()
    }

    /// Lets `read` see the pool at one moment during this call, while operations run. It has everything that had
    /// returned before the call. No checkpoint is made until `read` returns, so the log grows.
    pub fn hold<R>(&self, read: impl FnOnce(SafeCopy) -> R) -> Result<R, HoldError> {
        self.shared.hold(read)
    }

    /// Figures.
    pub fn usage(&self) -> LogUse {
        self.shared.usage()
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if forks() != self.forks_at_start {
            // Neither the threads nor the holders of the locks are in this process.
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            return;
        }
        // Failed writes were reported to the callers that waited for them.
        let _ = self.wait(self.ticket());
        self.stop();
    }
}

/// A log in a new generation, behind all that there are; and those segments that the checkpoint needs. The rest is used
/// again, or removed: else each process that is killed before its first checkpoint would leave some.
fn begin_log(
    places: &Places,
    segments: &Arc<Segments>,
    pool_bytes: u64,
) -> Result<(Writer, Vec<u64>), LogError> {
    // Before anything is removed that another checkpoint would need.
    places.settle()?;
    let Segments { disk, uuid, .. } = &**segments;
    let reading = || LogError::io("reading", disk.path(""));
    let found = disk.names().map_err(reading())?;
    let numbers: Vec<u64> = found.iter().filter_map(|name| names::number_of(name)).collect();
    let number = numbers.iter().max().map_or(1, |last| last + 1);
    if number > names::FIRST_MAX {
        return Err(LogError::InTheWay { path: disk.path(&names::segment(number - 1)) });
    }
    let checkpoint = Checkpoint::open(&**disk);
    let (mut needed, mut useless) = (Vec::new(), Vec::new());
    for number in numbers {
        if recognises(&**disk, &names::segment(number), *uuid).map_err(reading())? == Some(true) {
            let is_needed = needs(&**disk, &checkpoint, number).map_err(reading())?;
            if is_needed { &mut needed } else { &mut useless }.push(number);
        }
    }
    let reserve = segments.provide_reserve(&mut useless);
    let bytes = segments.bytes(pool_bytes);
    let first = segments.first(number, bytes, &mut useless);
    useless.into_iter().for_each(|number| segments.remove(number));
    // With one segment and nothing else the log would come to an end. One that the checkpoint needs becomes the reserve
    // when there is another checkpoint.
    let (first, has_reserve) = match (first, reserve) {
        (Ok(first), Ok(())) => (first, true),
        (Ok(first), Err(_)) if !needed.is_empty() => (first, false),
        (Ok(first), Err(error)) => {
            segments.remove(first.number());
            return Err(error);
        }
        (Err(error @ LogError::Full { .. }), Ok(())) if !needed.is_empty() => {
            (segments.first_of_reserve(number).ok_or(error)?, false)
        }
        (Err(error), _) => return Err(error),
    };
    Ok((Writer::new(Arc::clone(segments), random_generation(), first, has_reserve)?, needed))
}

/// Whether a checkpoint needs the segment of this number.
fn needs(
    disk: &dyn Disk,
    checkpoint: &Result<Option<Checkpoint>, RestoreError>,
    number: u64,
) -> io::Result<bool> {
    let file = disk.open(&names::segment(number))?;
    if file.len()? <= PAGE_BYTES as u64 {
        // A crash has left it so. There is no frame in it.
        return Ok(false);
    }
    Ok(match checkpoint {
        Ok(None) => false,
        Ok(Some(Checkpoint { header, .. })) => {
            // One with another number in it was at hand for later.
            let is_of_log = |found: SegmentHeader| {
                found.generation == header.generation && found.number == number
            };
            number >= header.log.segment && header_of(&*file)?.is_none_or(is_of_log)
        }
        // Perhaps somebody can mend it.
        Err(_) => true,
    })
}

/// The header of a segment, unless it is damaged or not written yet.
fn header_of(file: &dyn DiskFile) -> io::Result<Option<SegmentHeader>> {
    let mut page = Pages::zeroed(PAGE_BYTES);
    file.read_at(page.bytes_mut(), 0)?;
    Ok(SegmentHeader::decode(page.words()))
}

impl Shared {
    /// Begins a log of a new generation.
    fn begin(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
    ) -> Result<Shared, LogError> {
        // Before anything is removed that the former state would need.
        let segments = Arc::new(Segments::of(&config, sizes)?);
        let disk = Arc::clone(&segments.disk);
        let places = Arc::new(Places::new(disk, segments.uuid, sizes.chunk));
        // The pool may grow by now, and needs room for that first.
        log.grow_with(Arc::clone(&places) as Arc<dyn Room>);
        let begun = places
            .reserve(image.bytes_at_hand())
            .and_then(|()| begin_log(&places, &segments, image.bytes()));
        let (writer, others) = begun.inspect_err(|_| log.grow_alone())?;
        let shared = Shared::of(config, log, image, segments, places, writer, others);
        shared.log.start();
        shared.begin_epochs();
        Ok(shared)
    }

    #[inline]
    fn admit(&self) -> Result<(), LogError> {
        if self.is_refusing.load(Ordering::Acquire) {
            self.refusal()?;
        }
        if self.log.is_crowded() {
            self.flush(self.log.epoch(), false)?;
        }
        Ok(())
    }

    fn of(
        config: Config,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        segments: Arc<Segments>,
        places: Arc<Places>,
        writer: Writer,
        others: Vec<u64>,
    ) -> Shared {
        Shared {
            log,
            image,
            segments,
            places,
            interval: config.interval,
            checkpoint_bytes_min: config.checkpoint_bytes_min,
            clock: config.clock,
            writing: Mutex::new(Writing {
                writer,
                pages: Pages::new(),
                written: 0,
                began_ms: 0,
                obsolete_before: 0,
                others,
                rejoining: Rejoining::Done,
                epochs_before: 0,
            }),
            durable: AtomicU64::new(0),
            waiting: Mutex::default(),
            turnstile: Turnstile::default(),
            wakers: Arc::default(),
            is_refusing: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            durable_until_ms: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(0),
            checkpoint_written_bytes: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            log_written_bytes: AtomicU64::new(0),
            former_log_bytes: AtomicU64::new(0),
            log_bytes_at_checkpoint: AtomicU64::new(0),
            keeper: OnceLock::new(),
            checkpointing: Mutex::new(()),
            is_in_doubt: AtomicBool::new(config.is_in_doubt),
        }
    }

    /// To be called when fences append. What was appended before the last stop is of no use.
    fn begin_epochs(&self) {
        let mut writing = held(&self.writing);
        let Writing { pages, written, began_ms, .. } = &mut *writing;
        pages.resize(0);
        *began_ms = self.now_ms();
        *written = self.log.seal_into(pages);
    }

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64 {
        let since = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_millis() as u64
    }

    /// Bytes of the log since the last checkpoint.
    fn log_bytes(&self) -> u64 {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let since = of(&self.log_written_bytes).saturating_sub(of(&self.log_bytes_at_checkpoint));
        since + of(&self.former_log_bytes)
    }

    fn usage(&self) -> LogUse {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let until = of(&self.durable_until_ms);
        LogUse {
            durable_until: (until > 0).then(|| UNIX_EPOCH + Duration::from_millis(until)),
            log_bytes: self.log_bytes(),
            checkpoint_bytes: of(&self.checkpoint_bytes),
            written_bytes: of(&self.log_written_bytes) + of(&self.checkpoint_written_bytes),
            logged_bytes: of(&self.log_written_bytes),
            checkpoints: of(&self.checkpoints),
            failure: held(&self.waiting).failure.clone(),
        }
    }
}
