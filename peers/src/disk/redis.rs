//! Redis: a server with everything in memory, and a snapshot (RDB) or a log of commands (AOF) on the disk.
//!
//! The server is started with the store, and ends with its process. It is asked through a socket in the store's
//! directory. `peers/run` looks for the program; without one there are no such contenders.

use super::{Mode, contender, fast};
use crate::servers::redis::{Server, program};
use crate::servers::resp::{Connection, Reply, command};
use anyhow::{Result, bail};
use bench::{ByteStore, Contender, Pair, Reopens, See};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What survives power loss, and so what closing writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// A snapshot of everything, when it is closed.
    Snapshot,
    /// Each command in a log, synced once a second.
    Commands,
}

struct Redis {
    server: Server,
    connection: Mutex<Connection>,
    keeps: Keeps,
}

impl Redis {
    fn open(program: &Path, directory: &Path, keeps: Keeps) -> Result<Redis> {
        let (server, connection) = Server::start(program, directory, keeps == Keeps::Commands)?;
        Ok(Redis { server, connection: Mutex::new(connection), keeps })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        work(&mut self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the server write what it keeps, and end. Returns the bytes that it has written.
    fn end(&mut self) -> Result<u64> {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.server.end(connection, self.keeps == Keeps::Snapshot)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if !self.server.has_ended() {
            // If this fails, the server is killed.
            let _ = self.end();
        }
    }
}

impl ByteStore for Redis {
    fn put(&self, pairs: &[Pair<'_>]) -> Result<()> {
        let words =
            |(key, value): &Pair<'_>, sent: &mut Vec<u8>| command(&[b"SET", key, value], sent);
        self.with(|connection| {
            connection.each(pairs, words, |_, reply| match reply {
                Reply::Text(text) if text == "OK" => Ok(()),
                _ => bail!("the server does not put"),
            })
        })
    }

    fn get(&self, keys: &[&[u8]], see: See<'_>) -> Result<()> {
        self.with(|connection| {
            connection.each(
                keys,
                |key: &&[u8], sent: &mut Vec<u8>| command(&[b"GET", key], sent),
                |place, reply| match reply {
                    Reply::Bytes(found) => {
                        see(place, found.as_deref());
                        Ok(())
                    }
                    _ => bail!("the server does not get"),
                },
            )
        })
    }

    fn remove(&self, keys: &[&[u8]]) -> Result<Option<usize>> {
        let mut removed = 0;
        self.with(|connection| {
            connection.each(
                keys,
                |key: &&[u8], sent: &mut Vec<u8>| command(&[b"DEL", key], sent),
                |_, reply| match reply {
                    Reply::Number(count) => {
                        removed += count as usize;
                        Ok(())
                    }
                    _ => bail!("the server does not remove"),
                },
            )
        })?;
        Ok(Some(removed))
    }

    /// Writes a snapshot, or syncs the log: with a command that waits for that, of a mode of its own.
    fn sync(&self) -> Result<()> {
        let commands: &[&[&str]] = match self.keeps {
            Keeps::Snapshot => &[&["SAVE"]],
            Keeps::Commands => &[
                &["CONFIG", "SET", "appendfsync", "always"],
                &["SET", "synced", "yes"],
                &["CONFIG", "SET", "appendfsync", "everysec"],
            ],
        };
        for command in commands {
            match self.with(|connection| connection.one(command))? {
                Reply::Text(text) if text == "OK" => (),
                _ => bail!("the server does not {command:?}"),
            }
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<u64> {
        self.end()
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let Some((program, version)) = program() else { return Vec::new() };
    let of = |name: &'static str, reopens: Reopens, keeps: Keeps| {
        let program = program.clone();
        let open = move |directory: &Path| Redis::open(&program, directory, keeps);
        contender("redis", &version, Mode { reopens, ..fast(name, None) }, false, open)
    };
    vec![of("rdb", Reopens::Closed, Keeps::Snapshot), of("aof", Reopens::Killed, Keeps::Commands)]
}
