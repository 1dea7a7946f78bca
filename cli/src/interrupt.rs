//! Ctrl-C, `kill` and a closed terminal, for commands that put something in order before they end.
//!
//! The first signal is noted, and reading and writing fail with [`Interrupted`]. The second ends the process at once.
//! Signals that this process was told to ignore, as `nohup` does, stay ignored.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::failure::Ended;

const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The error of a read or write that a signal ended.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Whether this error says that a signal has come.
pub(crate) fn is_meant_by(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Interrupted>())
}

/// Whether such an error is behind this one.
pub(crate) fn is_behind(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(is_meant_by)
}

/// Watches for signals.
#[derive(Clone)]
pub(crate) struct Interrupts {
    /// The one that came last; 0 if none has.
    came: Arc<AtomicUsize>,
    /// Readable once one has come.
    woken: Arc<UnixStream>,
}

impl Interrupts {
    pub(crate) fn watch() -> io::Result<Interrupts> {
        let (woken, wake) = UnixStream::pair()?;
        let (came, is_second) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let ignored = ignored();
        for signal in SIGNALS.into_iter().filter(|signal| !ignored.contains(signal)) {
            // Actions run in this order, so at the first signal it is not yet the second.
            flag::register_conditional_default(signal, Arc::clone(&is_second))?;
            flag::register(signal, Arc::clone(&is_second))?;
            flag::register_usize(signal, Arc::clone(&came), signal as usize)?;
            low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Interrupts { came, woken: Arc::new(woken) })
    }

    /// Fails once a signal has come.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.came.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(io::Error::other(Interrupted)),
        }
    }

    /// Returns once a signal has come.
    pub(crate) fn wait(&self) -> io::Result<()> {
        while self.check().is_ok() {
            match poll(&mut [PollFd::new(&*self.woken, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What ends the process as the signal would have, after it has said this.
    pub(crate) fn ended(&self, what: impl fmt::Display) -> Ended {
        Ended::by(self.came.load(Ordering::SeqCst) as i32, format!("interrupted: {what}"))
    }

    /// A reader whose reads fail once a signal has come, also while they wait.
    pub(crate) fn reader<R>(&self, source: R) -> Interruptible<R> {
        Interruptible { inner: source, interrupts: self.clone() }
    }

    /// A writer whose writes fail once a signal has come. None of them waits for anybody: it is a file's.
    pub(crate) fn writer<W>(&self, target: W) -> Interruptible<W> {
        Interruptible { inner: target, interrupts: self.clone() }
    }
}

/// The signals that this process inherited as ignored; none where the system does not tell.
fn ignored() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

/// See [`Interrupts::reader`] and [`Interrupts::writer`].
pub(crate) struct Interruptible<T> {
    inner: T,
    interrupts: Interrupts,
}

impl<T> Interruptible<T> {
    pub(crate) fn into_inner(self) -> T {
        self.inner
    }
}

impl<R: Read + AsFd> Read for Interruptible<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let woken = &*self.interrupts.woken;
            let mut both =
                [PollFd::new(&self.inner, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = !both[0].revents().is_empty();
            self.interrupts.check()?;
            if is_ready {
                match self.inner.read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }
}

impl<W: Write> Write for Interruptible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.interrupts.check()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
