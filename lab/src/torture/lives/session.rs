//! The sessions of a life, in a process of their own.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::ballast::Ballast;
use super::contents::Contents;
use super::errors::is_of_space;
use super::model::{Model, Stage, State};
use super::plan::{self, End, Life, Session};
use super::subject::{self, How, Subject};
use super::writer::{World, Writer};

/// A file's last page counts whole.
const PAGE_BYTES: u64 = 4096;
/// Faults that a check found and that are told.
const TOLD_MAX: usize = 3;

/// A life under way.
pub(super) struct Living<'a> {
    pub(super) life: &'a Life,
    pub(super) dir: &'a Path,
    contents: Contents,
    model: Model,
    ballast: Option<Ballast>,
}

impl<'a> Living<'a> {
    pub(super) fn new(life: &'a Life, dir: &'a Path) -> Result<Living<'a>> {
        Ok(Living {
            life,
            dir,
            contents: Contents::of(life),
            model: Model::open(&plan::model(dir), life.keys)?,
            ballast: life.fill.then(|| Ballast::new(dir)).transpose()?,
        })
    }

    /// All sessions that are left, and a last look.
    pub(super) fn run(&self) -> Result<()> {
        let first = self.model.session();
        for (number, session) in (0..).zip(&self.life.sessions).skip(first as usize) {
            self.model.set_session(number);
            self.session(number, session).with_context(|| format!("session {number}"))?;
        }
        self.free()?;
        if let Some(last) = self.life.sessions.last() {
            let pool = self.open(last).context("opening at the end")?;
            self.judge(&*pool).context("at the end")?;
            self.look_up(&*pool, true).context("at the end")?;
        }
        Ok(())
    }

    fn session(&self, number: u64, session: &Session) -> Result<()> {
        self.model.set_stage(Some(Stage::Opening));
        if session.is_read_first {
            self.read().context("reading only")?;
        }
        let pool = self.open(session).context("opening")?;
        self.judge(&*pool).context("after opening")?;
        self.look_up(&*pool, true).context("after opening")?;
        self.model.set_stage(Some(Stage::Living));
        self.live(number, session, &*pool)?;
        self.judge(&*pool).context("before closing")?;
        self.model.set_stage(Some(Stage::Closing));
        match session.end {
            End::Close => pool.close().context("closing")?,
            End::Drop => drop(pool),
            End::Rewrite => match pool.rewrite() {
                // Two copies may be more than the limit or the file system allows. The pool is closed then.
                Err(error) if !is_of_space(&error) => return Err(error).context("rewriting"),
                _ => {}
            },
        }
        if session.kill.is_some() {
            self.model.set_stage(Some(Stage::Over));
            loop {
                thread::park();
            }
        }
        Ok(())
    }

    fn free(&self) -> Result<()> {
        self.ballast.as_ref().map_or(Ok(()), Ballast::free)
    }

    /// Opens a pool that was closed, and looks at it without changing anything.
    fn read(&self) -> Result<()> {
        let path = plan::pool(self.dir);
        if !firndex::inspect(&path).is_ok_and(|info| info.clean) {
            return Ok(());
        }
        let options = firndex::Options::new().read_only(true);
        let pool = subject::open(self.life.shape, How::Open, &path, &options)?;
        self.judge(&*pool)?;
        self.look_up(&*pool, false)
    }

    /// Opens the pool, with the session's limit if that is possible.
    fn open(&self, session: &Session) -> Result<Box<dyn Subject>> {
        let path = plan::pool(self.dir);
        let is_there = self.model.is_made() || path.exists();
        let how = if is_there { How::Open } else { How::Create };
        let mut limit_bytes = session.limit_bytes;
        let mut is_freed = self.ballast.is_none();
        loop {
            let bytes_before = firndex::inspect(&path).map_or(0, |info| info.bytes);
            let options = self.life.options(session, limit_bytes);
            match subject::open(self.life.shape, how, &path, &options) {
                Ok(pool) => {
                    self.model.set_made();
                    self.model.count_opening();
                    let bytes = pool.stats()?.pool_bytes;
                    let most = limit_bytes.max(bytes_before).next_multiple_of(PAGE_BYTES);
                    ensure!(bytes <= most, "the pool has {bytes} bytes, and its limit is {most}");
                    return Ok(pool);
                }
                Err(error) if !is_of_space(&error) => return Err(error.into()),
                Err(_) if !is_freed => {
                    self.free()?;
                    is_freed = true;
                }
                Err(error) if how == How::Open && limit_bytes > 2 * bytes_before => {
                    return Err(error).context("the limit leaves it much room");
                }
                Err(_) => limit_bytes *= 2,
            }
            self.model.count_refused(0);
        }
    }

    /// The threads make their calls.
    fn live(&self, number: u64, session: &Session, pool: &dyn Subject) -> Result<()> {
        let world = World {
            life: self.life,
            contents: &self.contents,
            model: &self.model,
            subject: pool,
            ballast: self.ballast.as_ref(),
            dir: self.dir,
        };
        let is_over = &AtomicBool::new(false);
        let write = |index| {
            let done = Writer::new(world, number, index).run(session, is_over);
            is_over.fetch_or(done.is_err(), Ordering::Relaxed);
            done.with_context(|| format!("thread {index}"))
        };
        if self.life.writers == 1 {
            return write(0);
        }
        thread::scope(|scope| {
            let start = |index| thread::Builder::new().spawn_scoped(scope, move || write(index));
            let threads: Vec<_> = (0..self.life.writers).map(start).collect();
            is_over.fetch_or(threads.iter().any(Result::is_err), Ordering::Relaxed);
            let ended = threads.into_iter().map(|thread| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))),
                Err(error) => Err(error).context("starting a thread"),
            });
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Checks the pool, and compares all that it holds with what it must hold. Nothing may write meanwhile.
    fn judge(&self, pool: &dyn Subject) -> Result<()> {
        let report = pool.check().context("checking")?;
        if !report.is_sound() {
            let told: Vec<_> = report.findings.iter().take(TOLD_MAX).cloned().collect();
            bail!("a check found {} faults: {}", report.faults, told.join("; "));
        }
        let count = self.scan(pool).context("a scan")?;
        let (len, stats) = (pool.len(), pool.stats()?);
        ensure!(len == count, "{count} pairs were found, and `len` says {len}");
        ensure!(
            report.pairs == count,
            "{count} pairs were found, and `check` says {}",
            report.pairs
        );
        ensure!(stats.pairs == count, "{count} pairs were found, and `stats` says {}", stats.pairs);
        ensure!(
            stats.heap_used_bytes + stats.heap_vacant_bytes <= stats.heap_bytes
                && stats.heap_bytes <= stats.pool_bytes
                && (0.0..=1.0).contains(&stats.load_factor),
            "the figures cannot be: {stats:?}"
        );
        Ok(())
    }

    /// A scan shows each key once, and nothing else; how many.
    fn scan(&self, pool: &dyn Subject) -> Result<u64> {
        let mut seen = HashSet::new();
        let mut wrong = None;
        pool.for_each(&mut |key, value| {
            let judged = match self.contents.index(key) {
                None => Err(anyhow!("a key that nobody put: {key:x?}")),
                Some(key) if !seen.insert(key) => Err(anyhow!("key {key} twice")),
                Some(key) => self.judge_key(key, Some(value)).map(drop),
            };
            if let Err(error) = judged {
                wrong.get_or_insert(error);
            }
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for key in (0..self.life.keys).filter(|key| !seen.contains(key)) {
            self.judge_key(key, None)?;
        }
        Ok(seen.len() as u64)
    }

    /// Every key is looked up, in batches. If the process before was killed and this one `settles` that, what is found
    /// is what the keys have from then on.
    fn look_up(&self, pool: &dyn Subject, settles: bool) -> Result<()> {
        const BATCH: usize = 32;
        let keys: Vec<u64> = (0..self.life.keys).collect();
        for keys in keys.chunks(BATCH) {
            let bytes: Vec<_> = keys.iter().map(|key| self.contents.key(*key)).collect();
            let found = pool.get_many(&bytes)?;
            for (key, found) in keys.iter().zip(found) {
                let state = self.judge_key(*key, found.as_deref()).context("a look-up")?;
                if settles && self.model.state(*key).1.is_some() {
                    self.model.settle(*key, state);
                }
            }
        }
        Ok(())
    }

    /// The state in which the key was found: that of its last call, or of one that was under way in a killed process.
    fn judge_key(&self, key: u64, found: Option<&[u8]>) -> Result<State> {
        let (state, intent) = self.model.state(key);
        let Err(differs) = self.contents.compare(key, state, found) else { return Ok(state) };
        if let Some(intent) = intent
            && self.contents.compare(key, intent, found).is_ok()
        {
            return Ok(intent);
        }
        let or = intent.map(|intent| format!(" or {intent:?}")).unwrap_or_default();
        Err(anyhow!("key {key} is not as {state:?}{or}: {differs}"))
    }
}
