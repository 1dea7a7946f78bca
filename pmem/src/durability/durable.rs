//! Who writes log and checkpoints, and who waits for them.

mod steps;

pub use steps::Steps;

use super::checkpoint::{Checkpoint, Draft, Header};
use super::disk::Disk;
use super::error::LogError;
use super::frame::FRAME_HEADER_WORDS;
use super::names::Names;
use super::pages::Pages;
use super::writer::{Segments, Writer};
use super::{Sizes, held};
use crate::line_log::LineLog;
use crate::sync::forks;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the keeper looks for work by itself.
const KEEPER_INTERVAL: Duration = Duration::from_millis(200);
/// How often a log that could not be written is begun anew.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often a waiter looks by itself whether it has to lead.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Empty epochs in a row after which the flusher sleeps until something is appended.
const IDLE_EPOCHS: u32 = 50;
/// How long it sleeps then, if nobody wakes it.
const DOZE: Duration = Duration::from_secs(1);

/// The pool of which checkpoints are made.
pub trait Image: Send + Sync {
    /// Bytes, a multiple of a word.
    fn bytes(&self) -> u64;
    /// Copies words from offset `at` on, each as it is at some moment.
    fn copy(&self, at: u64, words: &mut [u64]);
    /// Returns when every mutation has ended that is in flight now.
    fn wait_for_operations(&self);
}

/// Of which pool, where, and how.
pub struct Config {
    /// Where log and checkpoint are.
    pub disk: Arc<dyn Disk>,
    /// The pool's name, with which theirs begin.
    pub pool: String,
    /// The pool's identity.
    pub uuid: u128,
    /// How long an epoch stays open if nobody waits for it.
    pub interval: Duration,
    /// A checkpoint is made when the log is as large as the pool, and no smaller than this.
    pub checkpoint_bytes_min: u64,
}

/// Figures of a log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogUse {
    /// Everything before this moment survives power loss; `None` before the first checkpoint.
    pub durable_until: Option<SystemTime>,
    /// Bytes that the log has grown by since the last checkpoint.
    pub log_bytes: u64,
    /// Bytes of the pool in the last checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes written to log and checkpoints since the pool was opened.
    pub written_bytes: u64,
    /// Checkpoints made since the pool was opened.
    pub checkpoints: u64,
    /// Why changes are refused, if they are.
    pub failure: Option<LogError>,
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
    interval: Duration,
    checkpoint_bytes_min: u64,
    writing: Mutex<Writing>,
    /// Epochs up to this one survive.
    durable: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Something in `waiting` has changed.
    changed: Condvar,
    /// Whether mutations are refused; why, says `waiting`.
    is_refusing: AtomicBool,
    is_stopping: AtomicBool,
    /// Milliseconds since 1970 before which everything survives; 0: none.
    durable_until_ms: AtomicU64,
    checkpoint_bytes: AtomicU64,
    checkpoint_written_bytes: AtomicU64,
    checkpoints: AtomicU64,
    log_written_bytes: AtomicU64,
    /// `log_written_bytes` when the last checkpoint began.
    log_bytes_at_checkpoint: AtomicU64,
    keeper: OnceLock<Thread>,
    /// One checkpoint at a time.
    checkpointing: Mutex<()>,
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
}

#[derive(Default)]
struct Waiting {
    /// Rounds of the log that have ended.
    rounds: u64,
    /// Whether one of those who wait is writing for all of them.
    is_led: bool,
    state: State,
    /// Why mutations are refused, if they are.
    failure: Option<LogError>,
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

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

fn random_generation() -> u128 {
    let random = || RandomState::new().hash_one(std::process::id());
    u128::from(random()) << 64 | u128::from(random())
}

impl Durable {
    /// Begins a log of a new generation for a pool whose medium appends to `log`. If `waits`, returns when the first
    /// checkpoint of it has its name; else that is made beside operations, and until then an older checkpoint and its
    /// log are what power loss leads back to.
    pub fn start(
        config: Config,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
        waits: bool,
    ) -> Result<Durable, LogError> {
        let shared = Arc::new(Shared::begin(config, Sizes::default(), log, image)?);
        if waits && let Err(error) = shared.checkpoint() {
            shared.abandon(&error);
            return Err(error);
        }
        let mut durable = Durable { shared, threads: Vec::new(), forks_at_start: forks() };
        durable.spawn("firndex-log", |shared| shared.flush_periodically())?;
        durable.spawn("firndex-safe", |shared| shared.keep())?;
        durable.shared.log.wake_when_full(durable.threads[0].thread().clone());
        let _ = durable.shared.keeper.set(durable.threads[1].thread().clone());
        Ok(durable)
    }

    fn spawn(&mut self, name: &str, work: fn(&Shared)) -> Result<(), LogError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || work(&shared));
        let path = self.shared.segments.disk.path(&self.shared.segments.names.checkpoint());
        self.threads.push(thread.map_err(LogError::io("starting a thread that writes", path))?);
        Ok(())
    }

    /// Whether a mutation may begin: not if the log has failed or has no room. Waits for the flusher if the calling
    /// thread is far ahead of it: better here than where it holds a lock.
    #[inline]
    pub fn admit(&self) -> Result<(), LogError> {
        if self.shared.is_refusing.load(Ordering::Acquire) {
            return self.shared.refusal();
        }
        if self.shared.log.is_crowded() {
            self.shared.flush(self.shared.log.epoch(), false)?;
        }
        Ok(())
    }

    /// The epoch that everything belongs to, or to an earlier one, that the calling thread has done or seen so far.
    pub fn ticket(&self) -> u64 {
        self.shared.log.epoch()
    }

    /// The last epoch that survives power loss.
    pub fn durable_up_to(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Returns when everything up to this epoch survives power loss. Writes it if nobody else does.
    pub fn wait(&self, ticket: u64) -> Result<(), LogError> {
        self.shared.flush(ticket, true)
    }

    /// Makes a checkpoint, beside operations.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.shared.checkpoint()
    }

    /// Figures.
    pub fn usage(&self) -> LogUse {
        let shared = &self.shared;
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let until = of(&shared.durable_until_ms);
        LogUse {
            durable_until: (until > 0).then(|| UNIX_EPOCH + Duration::from_millis(until)),
            log_bytes: of(&shared.log_written_bytes)
                .saturating_sub(of(&shared.log_bytes_at_checkpoint)),
            checkpoint_bytes: of(&shared.checkpoint_bytes),
            written_bytes: of(&shared.log_written_bytes) + of(&shared.checkpoint_written_bytes),
            checkpoints: of(&shared.checkpoints),
            failure: held(&shared.waiting).failure.clone(),
        }
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if forks() != self.forks_at_start {
            // Neither the threads nor whoever held the locks are in this process.
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            return;
        }
        // What could not be written is known to whoever asked for it.
        let _ = self.wait(self.ticket());
        self.shared.is_stopping.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.shared.log.stop();
    }
}

/// The first segment of a log in a new generation, behind all that there are; and those.
fn begin_log(segments: &Arc<Segments>, pool_bytes: u64) -> Result<(Writer, Vec<u64>), LogError> {
    let Segments { disk, names, .. } = &**segments;
    let found = disk.names().map_err(LogError::io("reading", disk.path("")))?;
    let others: Vec<u64> = found.iter().filter_map(|name| names.number_of(name)).collect();
    let number = others.iter().max().map_or(1, |last| last + 1);
    let first = segments.make(number, segments.bytes(pool_bytes))?;
    Ok((Writer::new(Arc::clone(segments), random_generation(), first)?, others))
}

impl Shared {
    /// Begins a log of a new generation.
    fn begin(
        config: Config,
        sizes: Sizes,
        log: Arc<LineLog>,
        image: Arc<dyn Image>,
    ) -> Result<Shared, LogError> {
        let names = Names::new(&config.pool);
        let segments = Arc::new(Segments { disk: config.disk, names, uuid: config.uuid, sizes });
        let (writer, others) = begin_log(&segments, image.bytes())?;
        let shared = Shared {
            log,
            image,
            segments,
            interval: config.interval,
            checkpoint_bytes_min: config.checkpoint_bytes_min,
            writing: Mutex::new(Writing {
                writer,
                pages: Pages::new(),
                written: 0,
                began_ms: 0,
                obsolete_before: 0,
                others,
            }),
            durable: AtomicU64::new(0),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            is_refusing: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            durable_until_ms: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(0),
            checkpoint_written_bytes: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            log_written_bytes: AtomicU64::new(0),
            log_bytes_at_checkpoint: AtomicU64::new(0),
            keeper: OnceLock::new(),
            checkpointing: Mutex::new(()),
        };
        shared.begin_epochs();
        Ok(shared)
    }

    /// Fences append from now on. What was appended before the last stop is of no use.
    fn begin_epochs(&self) {
        self.log.start();
        let mut writing = held(&self.writing);
        let Writing { pages, written, began_ms, .. } = &mut *writing;
        pages.resize(0);
        *began_ms = now_ms();
        *written = self.log.seal_into(pages);
    }

    #[cold]
    fn refusal(&self) -> Result<(), LogError> {
        held(&self.waiting).failure.clone().map_or(Ok(()), Err)
    }

    /// Returns when everything up to epoch `wanted` is in the log, and, if `is_final`, survives power loss.
    fn flush(&self, wanted: u64, is_final: bool) -> Result<(), LogError> {
        loop {
            if self.durable.load(Ordering::Acquire) >= wanted {
                return Ok(());
            }
            let mut waiting = held(&self.waiting);
            let is_based = waiting.state == State::Based;
            // As long as a checkpoint is there, it takes more than a want of room to end the log.
            if let (false, Some(failure)) = (is_based, &waiting.failure) {
                return Err(failure.clone());
            }
            if self.is_stopping.load(Ordering::Acquire) {
                return Err(LogError::Closed);
            }
            if waiting.is_led {
                // Whoever leads says under this lock that it no longer does, and then tells all.
                drop(self.changed.wait_timeout(waiting, WAIT_MAX));
                continue;
            }
            waiting.is_led = true;
            let rounds = waiting.rounds;
            drop(waiting);
            let written = self.write_up_to(wanted);
            let mut waiting = held(&self.waiting);
            waiting.is_led = false;
            self.changed.notify_all();
            if written.is_err() || !is_final {
                return written;
            }
            if !is_based && waiting.rounds == rounds {
                // Nothing more can be written for it: there has to be a checkpoint first.
                drop(self.changed.wait_timeout(waiting, WAIT_MAX));
            }
        }
    }

    /// Has everything up to epoch `wanted` in the log.
    fn write_up_to(&self, wanted: u64) -> Result<(), LogError> {
        let mut writing = held(&self.writing);
        // Somebody else may have done it since.
        if writing.written < wanted {
            self.write_epoch(&mut writing, false)?;
        }
        Ok(())
    }

    /// Writes what was appended so far, as the epoch that is open. Whether there was anything.
    fn write_epoch(&self, writing: &mut Writing, even_if_empty: bool) -> Result<bool, LogError> {
        let Writing { writer, pages, written, began_ms, .. } = writing;
        let segment = writer.segment();
        pages.resize(0);
        pages.resize(FRAME_HEADER_WORDS);
        let sealed_ms = now_ms();
        let epoch = self.log.seal_into(pages);
        let is_empty = pages.words().len() == FRAME_HEADER_WORDS;
        if (!is_empty || even_if_empty)
            && let Err(error) = writer.write_epoch(epoch, pages)
        {
            self.fail(error.clone());
            return Err(error);
        }
        *written = epoch;
        *began_ms = sealed_ms;
        self.log_written_bytes.store(writer.written_bytes(), Ordering::Relaxed);
        writing.others.extend(segment..writer.segment());
        let needs_keeper = writing.writer.lacks_spare() || self.is_checkpoint_due();
        self.publish(writing);
        if needs_keeper && let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
        Ok(!is_empty)
    }

    /// Says how far the log has got, if it continues a checkpoint.
    fn publish(&self, writing: &Writing) {
        let mut waiting = held(&self.waiting);
        waiting.rounds += 1;
        if waiting.state == State::Based {
            self.durable.store(writing.written, Ordering::Release);
            self.durable_until_ms.store(writing.began_ms, Ordering::Relaxed);
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Ends the log: a block that could not be written is never written again, since the kernel may have dropped it and
    /// told so once.
    fn fail(&self, error: LogError) {
        self.log.stop();
        let mut waiting = held(&self.waiting);
        waiting.state = State::Broken;
        waiting.rounds += 1;
        waiting.failure = Some(match error {
            LogError::Full { path, source } => LogError::Io { action: "making", path, source },
            error => error,
        });
        self.is_refusing.store(true, Ordering::Release);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Refuses mutations because something is lacking that the log will need, or does so no longer.
    fn refuse(&self, lacking: Option<LogError>) {
        let mut waiting = held(&self.waiting);
        if waiting.state != State::Broken {
            self.is_refusing.store(lacking.is_some(), Ordering::Release);
            waiting.failure = lacking;
            waiting.rounds += 1;
            drop(waiting);
            // Who waits for the first checkpoint waits no longer if that cannot be made.
            self.changed.notify_all();
        }
    }

    fn flush_periodically(&self) {
        let mut empty_epochs = 0;
        while !self.is_stopping.load(Ordering::Acquire) {
            let is_failed = self.is_refusing.load(Ordering::Acquire) && !self.log.is_on();
            let is_dozing = empty_epochs >= IDLE_EPOCHS || is_failed;
            if is_dozing {
                self.log.wake_on_append(true);
            }
            if !is_failed {
                // The failure is kept for who asks.
                let some = self.write_epoch(&mut held(&self.writing), false).unwrap_or(false);
                empty_epochs = if some { 0 } else { empty_epochs.saturating_add(1) };
                if some && is_dozing {
                    self.log.wake_on_append(false);
                    continue;
                }
            }
            std::thread::park_timeout(if is_dozing { DOZE } else { self.interval });
            self.log.wake_on_append(false);
        }
    }

    fn is_checkpoint_due(&self) -> bool {
        let since = self.log_bytes_at_checkpoint.load(Ordering::Relaxed);
        let grown = self.log_written_bytes.load(Ordering::Relaxed).saturating_sub(since);
        let pool = self.checkpoint_bytes.load(Ordering::Relaxed);
        grown >= pool.max(self.checkpoint_bytes_min)
    }

    fn keep(&self) {
        let mut failed: Option<Instant> = None;
        while !self.is_stopping.load(Ordering::Acquire) {
            let may_retry = failed.is_none_or(|failed| failed.elapsed() >= RETRY_INTERVAL);
            if self.keep_once(may_retry).is_err() && may_retry {
                failed = Some(Instant::now());
            }
            std::thread::park_timeout(KEEPER_INTERVAL);
        }
    }

    /// Has segments at hand, makes checkpoints, and begins a broken log anew; what failed before only if it `may_retry`.
    fn keep_once(&self, may_retry: bool) -> Result<(), LogError> {
        let state = held(&self.waiting).state;
        if state == State::Broken {
            return if may_retry { self.begin_anew() } else { Ok(()) };
        }
        let is_due = state == State::Begun || self.is_checkpoint_due();
        let made = if is_due && may_retry { self.checkpoint() } else { Ok(()) };
        let provided = self.provide_spare();
        let lacking = match state {
            // Without the new checkpoint there is the one before.
            State::Based | State::Broken => provided.clone().err(),
            State::Begun => provided.clone().and(made.clone()).err(),
        };
        // What failed before is still lacking if it was not tried again.
        if lacking.is_some() || state == State::Based || may_retry {
            self.refuse(lacking);
        }
        provided.and(made)
    }

    /// Makes the segment that follows the one being written.
    fn provide_spare(&self) -> Result<(), LogError> {
        let (supply, mut obsolete) = {
            let mut writing = held(&self.writing);
            let before = writing.obsolete_before;
            let is_obsolete = |number: &u64| *number < before;
            let obsolete: Vec<u64> = writing.others.iter().copied().filter(is_obsolete).collect();
            writing.others.retain(|number| !is_obsolete(number));
            (Arc::clone(writing.writer.supply()), obsolete)
        };
        let provided = {
            let mut supply = held(&supply);
            if supply.has_spare() {
                Ok(())
            } else {
                let bytes = self.segments.bytes(self.image.bytes());
                supply.provide(&self.segments, bytes, &mut obsolete)
            }
        };
        obsolete.into_iter().for_each(|number| self.segments.remove(number));
        provided
    }

    /// See the [module](super).
    fn checkpoint(&self) -> Result<(), LogError> {
        let _one = held(&self.checkpointing);
        let (log, from_epoch, generation, log_bytes) = {
            let writing = held(&self.writing);
            let writer = &writing.writer;
            (writer.position(), writing.written + 1, writer.generation(), writer.written_bytes())
        };
        // What was in flight when fences began to append may have been fenced, and not appended.
        self.image.wait_for_operations();
        // After the place in the log was noted: what the pool grows by later is in the log.
        let image_bytes = self.image.bytes();
        let Segments { disk, names, uuid, sizes } = &*self.segments;
        let chunk_bytes = sizes.chunk;
        let mut draft = Draft::begin(&**disk, names, image_bytes, chunk_bytes)?;
        let written = draft.copy(&*self.image)?;
        self.image.wait_for_operations();
        let to_epoch = {
            let mut writing = held(&self.writing);
            if writing.writer.generation() != generation {
                return Err(LogError::Closed);
            }
            self.write_epoch(&mut writing, true)?;
            writing.written
        };
        draft.publish(Header {
            uuid: *uuid,
            generation,
            log,
            from_epoch,
            to_epoch,
            chunk_bytes,
            image_bytes,
            sums_crc: 0,
        })?;
        self.checkpoint_bytes.store(image_bytes, Ordering::Relaxed);
        self.checkpoint_written_bytes.fetch_add(written, Ordering::Relaxed);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.log_bytes_at_checkpoint.store(log_bytes, Ordering::Relaxed);
        let mut writing = held(&self.writing);
        writing.obsolete_before = log.segment;
        let mut waiting = held(&self.waiting);
        if writing.writer.generation() == generation && !writing.writer.has_failed() {
            waiting.state = State::Based;
            waiting.failure = None;
            self.is_refusing.store(false, Ordering::Release);
        }
        drop(waiting);
        self.publish(&writing);
        Ok(())
    }

    /// After a failure: a log of a new generation, and a checkpoint that it continues. Until that has its name, nothing of
    /// the new log survives, and the log is said to be broken.
    fn begin_anew(&self) -> Result<(), LogError> {
        let (writer, others) = begin_log(&self.segments, self.image.bytes())?;
        {
            let mut writing = held(&self.writing);
            writing.writer = writer;
            writing.others = others;
        }
        self.begin_epochs();
        self.checkpoint().inspect_err(|error| self.abandon(error))
    }

    /// Gives up a log for which no checkpoint could be made. It is tried again, and must not leave segments each time.
    fn abandon(&self, error: &LogError) {
        self.log.stop();
        let mut writing = held(&self.writing);
        let generation = writing.writer.generation();
        let numbers = writing.writer.end(error.clone());
        let Segments { disk, names, .. } = &*self.segments;
        // The renaming may have been done, and only its durability be in doubt: then the checkpoint needs its log.
        let is_needed = match Checkpoint::open(&**disk, names) {
            Ok(found) => found.is_some_and(|found| found.header.generation == generation),
            Err(_) => true,
        };
        if is_needed {
            writing.others.extend(numbers);
        } else {
            numbers.for_each(|number| self.segments.remove(number));
        }
    }
}
