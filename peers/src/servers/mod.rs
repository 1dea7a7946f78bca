//! Servers that run as a process of their own, and are asked through a socket in a directory.
//!
//! A server is started with what it serves, and killed when the thread ends that started it, and so with a process
//! that is killed.

pub(crate) mod redis;
pub(crate) mod resp;

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// How often a server is asked whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// Where a server's socket is. A socket's address has room for some hundred bytes, and a directory's path may be
/// longer: so it goes by the directory's descriptor.
pub(crate) struct Socket {
    path: PathBuf,
    _directory: File,
}

impl Socket {
    /// The socket of this name, without one that a killed server has left.
    pub(crate) fn new(directory: &Path, name: &str) -> Result<Socket> {
        let held = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", held.as_raw_fd()));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error)?,
            _ => Ok(Socket { path, _directory: held }),
        }
    }

    /// A connection, once the server listens.
    pub(crate) fn connect(&self) -> Result<Option<UnixStream>> {
        match UnixStream::connect(&self.path) {
            Ok(stream) => Ok(Some(stream)),
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("asking {}", self.path.display())),
        }
    }
}

/// Starts a server in its directory.
pub(crate) fn start(command: &mut Command, directory: &Path) -> Result<Child> {
    command.current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure makes one system call, and touches no memory.
    unsafe { command.pre_exec(end_with_parent) };
    command.spawn().with_context(|| format!("starting {:?}", command.get_program()))
}

/// Asks until there is something. Fails if the server has ended.
pub(crate) fn wait_for<T>(
    server: &mut Child,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        ensure!(server.try_wait()?.is_none(), "a server has ended at once");
        sleep(ASK_EVERY);
    }
}

fn end_with_parent() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// The program that an environment variable names, or one on the path.
pub(crate) fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|name| !name.is_empty()).map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || {
        let mut all = std::env::split_paths(&paths).map(|path| path.join(name));
        all.find(|path| path.is_file())
    };
    named.or_else(on_path)
}

/// Connections that are free: each thread takes one for each request, and makes one if there is none.
pub(crate) struct Connections<C>(Mutex<Vec<C>>);

impl<C> Connections<C> {
    pub(crate) fn new(first: C) -> Connections<C> {
        Connections(Mutex::new(vec![first]))
    }

    pub(crate) fn with<T>(
        &self,
        connect: impl FnOnce() -> Result<C>,
        work: impl FnOnce(&mut C) -> Result<T>,
    ) -> Result<T> {
        let free = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free().pop();
        let mut connection = found.map_or_else(connect, Ok)?;
        // One that has failed is in the middle of something, and not used again.
        let done = work(&mut connection)?;
        free().push(connection);
        Ok(done)
    }
}
