//! Redis as a process.

use super::resp::{Connection, Reply};
use super::{Socket, start, wait_for};
use anyhow::{Context, Result, bail};
use bench::written_by_ended;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Names the program.
const PROGRAM: &str = "PEERS_REDIS";
/// What the program goes by, if it is found under another name.
const NAME: &str = "redis-server";
/// Name of the socket in the directory.
const SOCKET: &str = "redis.sock";
/// A key that nobody stores.
const NOBODYS: &str = "nobody's";

/// A server that listens in a directory, with its files there.
pub(crate) struct Server {
    child: Child,
    socket: Socket,
}

impl Server {
    /// Starts it, with a log of commands or without, and returns when it has loaded all that it has kept.
    pub(crate) fn start(
        program: &Path,
        directory: &Path,
        has_log: bool,
    ) -> Result<(Server, Connection)> {
        let socket = Socket::new(directory, SOCKET)?;
        let mut command = Command::new(program);
        command.arg0(NAME);
        command.args(["--port", "0", "--unixsocket", SOCKET, "--daemonize", "no", "--save", ""]);
        let log = if has_log { "yes" } else { "no" };
        command.args(["--appendonly", log, "--appendfsync", "everysec", "--dbfilename", "rdb"]);
        let mut child = start(&mut command, directory)?;
        let connection = wait_for(&mut child, || {
            let Some(stream) = socket.connect()? else { return Ok(None) };
            let mut connection = Connection::new(stream)?;
            // It refuses everything until all is loaded.
            match connection.one(&["EXISTS", NOBODYS])? {
                Reply::Text(text) if text.starts_with("-LOADING") => Ok(None),
                Reply::Number(_) => Ok(Some(connection)),
                _ => bail!("{program:?} is no server"),
            }
        })?;
        Ok((Server { child, socket }, connection))
    }

    /// One more connection.
    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::new(self.socket.connect()?.context("the server has ended")?)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Has it end, after a snapshot or without one. Returns the bytes that it has written.
    pub(crate) fn end(&mut self, connection: &mut Connection, saves: bool) -> Result<u64> {
        let save = if saves { "SAVE" } else { "NOSAVE" };
        // It ends without a reply.
        let refused = connection.one(&["SHUTDOWN", save]);
        if let Ok(Reply::Text(text)) = refused {
            bail!("the server does not end: {text}");
        }
        let bytes = written_by_ended(&self.child)?;
        self.child.wait()?;
        Ok(bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The version that a program tells.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg0(NAME).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(version.to_owned())
}

/// The program and its version, if it is installed.
pub(crate) fn program() -> Option<(PathBuf, String)> {
    let program = super::program(PROGRAM, NAME)?;
    let version = version(&program)?;
    Some((program, version))
}
