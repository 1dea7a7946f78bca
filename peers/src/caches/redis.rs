//! Redis with `maxmemory`: the keys that make room are chosen from samples, by their last use (`allkeys-lru`) or by how
//! often they were used (`allkeys-lfu`).
//!
//! It counts everything that it takes. The bound is what firndex's cache is given, and what an empty server takes. One
//! contender has a log of commands (AOF), and so has everything after it was killed; what the log holds of use is
//! nothing.

use crate::servers::Connections;
use crate::servers::redis::{Server, program};
use crate::servers::resp::{Connection, Reply};
use anyhow::{Context, Result, bail};
use bench::{Cache, Caching, Contender, End, Room, Rows};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Its bound is coarser than less than this.
const BYTES_MIN: u64 = 512 << 10;

struct Redis {
    server: Server,
    connections: Connections<Connection>,
    /// Bytes that the server took when it was empty.
    empty_bytes: u64,
    /// Dropped after the server.
    _directory: Option<TempDir>,
}

/// A figure that the server tells of its memory.
fn memory(connection: &mut Connection, name: &str) -> Result<u64> {
    let Reply::Bytes(Some(text)) = connection.one(&["INFO", "memory"])? else {
        bail!("the server does not tell its memory");
    };
    let text = String::from_utf8(text)?;
    let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(figure.with_context(|| format!("the server does not tell {name}"))?.trim().parse()?)
}

fn expect_ok(reply: Reply) -> Result<()> {
    match reply {
        Reply::Text(text) if text == "OK" => Ok(()),
        Reply::Text(text) => bail!("the server says {text}"),
        _ => bail!("the server says something else"),
    }
}

/// How to start a server.
#[derive(Clone)]
struct How {
    program: PathBuf,
    policy: &'static str,
    has_log: bool,
}

impl How {
    fn open(&self, directory: &Path, room: Room) -> Result<Redis> {
        let (server, mut connection) = Server::start(&self.program, directory, self.has_log)?;
        let empty_bytes = memory(&mut connection, "used_memory_startup")?;
        let bytes = (empty_bytes + room.bytes_with_all()).to_string();
        for (option, value) in [("maxmemory-policy", self.policy), ("maxmemory", &bytes)] {
            expect_ok(connection.one(&["CONFIG", "SET", option, value])?)?;
        }
        let connections = Connections::new(connection);
        Ok(Redis { server, connections, empty_bytes, _directory: None })
    }
}

impl Redis {
    fn ask(&self, words: &[&[u8]]) -> Result<Reply> {
        self.connections.with(|| self.server.connect(), |connection| connection.ask(words))
    }
}

impl Cache for Redis {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        match self.ask(&[b"GET", key])? {
            Reply::Bytes(found) => Ok(found.map(|found| is_right(&found))),
            _ => bail!("the server does not get"),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        expect_ok(self.ask(&[b"SET", key, value])?)
    }

    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        let lives_ms = lives.as_millis().to_string();
        expect_ok(self.ask(&[b"SET", key, value, b"PX", lives_ms.as_bytes()])?)
    }

    fn bytes(&self) -> Result<Option<u64>> {
        let told = |connection: &mut Connection| memory(connection, "used_memory");
        let bytes = self.connections.with(|| self.server.connect(), told)?;
        Ok(Some(bytes.saturating_sub(self.empty_bytes)))
    }

    fn pairs(&self) -> Result<Option<u64>> {
        match self.ask(&[b"DBSIZE"])? {
            Reply::Number(pairs) => Ok(Some(pairs as u64)),
            _ => bail!("the server does not count"),
        }
    }

    fn close(mut self) -> Result<()> {
        let mut connection = self.server.connect()?;
        self.server.end(&mut connection, false)?;
        Ok(())
    }
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let Some((program, version)) = program() else { return Vec::new() };
    let of = |name: &str, policy: &'static str, has_log: bool| {
        let how = How { program: program.clone(), policy, has_log };
        let reopens = how.clone();
        let make = move |room: Room| {
            let directory = tempfile::tempdir()?;
            let redis = how.open(directory.path(), room)?;
            Ok(Redis { _directory: Some(directory), ..redis })
        };
        let cache = Caching::new(name, &*version, make).bounded_from(BYTES_MIN).without_pace();
        if has_log {
            let open = move |directory: &Path, room: Room| reopens.open(directory, room);
            cache.only(Rows::Restarts).reopening(&[End::Killed], open)
        } else {
            cache
        }
    };
    let all = [
        of("redis-lru", "allkeys-lru", false),
        of("redis-lfu", "allkeys-lfu", false),
        of("redis-lru-aof", "allkeys-lru", true),
    ];
    all.into_iter().map(|cache| Box::new(cache) as Box<dyn Contender>).collect()
}
