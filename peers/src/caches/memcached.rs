//! memcached: slabs of pairs that are nearly alike, with a segmented LRU in each.
//!
//! Its bound is in MiB, and each size of slabs has at least one MiB beyond it. With a file for its pairs
//! (`--memory-file`) it has them when it is started again, but only if SIGUSR1 had it write their index before it
//! ended.

use crate::servers::{Connections, Socket, program, start, wait_for};
use anyhow::{Context, Result, bail, ensure};
use bench::{Cache, Caching, Contender, End, Room, Rows};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Names the program.
const PROGRAM: &str = "PEERS_MEMCACHED";
const NAME: &str = "memcached";
/// Names of the socket and of the file in the directory.
const SOCKET: &str = "memcached.sock";
const FILE: &str = "memcached";
/// With a file, it wants room for a page of each size of slabs before it starts.
const MIB_MIN_WARM: u64 = 40;
/// Its clock of whole seconds may be ahead, and a server that starts before the end that was noted keeps nothing.
const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(2);
/// Below this the bound's unit is too coarse for a hit ratio.
const BYTES_MIN: u64 = 8 << 20;

/// A connection with the meta commands of the text protocol.
struct Connection {
    input: BufReader<UnixStream>,
    output: UnixStream,
    /// Kept for their room.
    sent: Vec<u8>,
    line: String,
    value: Vec<u8>,
}

impl Connection {
    fn new(output: UnixStream) -> Result<Connection> {
        let input = BufReader::new(output.try_clone()?);
        let (sent, line, value) = (Vec::new(), String::new(), Vec::new());
        Ok(Connection { input, output, sent, line, value })
    }

    fn hear(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.input.read_line(&mut self.line)? > 0, "the server has ended");
        Ok(self.line.trim_end())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.sent.clear();
        self.sent.extend_from_slice(b"mg ");
        base64(key, &mut self.sent);
        self.sent.extend_from_slice(b" b v\r\n");
        self.output.write_all(&self.sent)?;
        let line = self.hear()?;
        if line.starts_with("EN") {
            return Ok(None);
        }
        let bytes = line.strip_prefix("VA ").and_then(|rest| rest.split(' ').next());
        let bytes: usize = bytes.with_context(|| format!("the server says {line:?}"))?.parse()?;
        // The value, and the end of its line.
        self.value.resize(bytes + 2, 0);
        self.input.read_exact(&mut self.value)?;
        Ok(Some(&self.value[..bytes]))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.sent.clear();
        self.sent.extend_from_slice(b"ms ");
        base64(key, &mut self.sent);
        self.sent.extend(format!(" {} b\r\n", value.len()).bytes());
        self.sent.extend_from_slice(value);
        self.sent.extend_from_slice(b"\r\n");
        self.output.write_all(&self.sent)?;
        let line = self.hear()?;
        ensure!(line.starts_with("HD"), "the server says {line:?}");
        Ok(())
    }

    /// A figure of the server's statistics.
    fn figure(&mut self, command: &str, name: &str) -> Result<u64> {
        self.output.write_all(format!("{command}\r\n").as_bytes())?;
        let mut figure = None;
        loop {
            let line = self.hear()?;
            if line == "END" {
                return figure.with_context(|| format!("the server does not tell {name}"));
            }
            let rest = line.strip_prefix("STAT ").with_context(|| format!("it says {line:?}"))?;
            if let Some(value) = rest.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) {
                figure = Some(value.parse()?);
            }
        }
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the bytes in Base64: so may a key have any of them.
fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place)) as usize % 64];
            out.push(if place <= three.len() { digit } else { b'=' });
        }
    }
}

struct Memcached {
    child: Child,
    socket: Socket,
    connections: Connections<Connection>,
    /// Dropped after the server.
    _directory: Option<TempDir>,
}

impl Memcached {
    fn open(program: &Path, directory: &Path, room: Room, is_warm: bool) -> Result<Memcached> {
        let socket = Socket::new(directory, SOCKET)?;
        let mut command = Command::new(program);
        let mib_min = if is_warm { MIB_MIN_WARM } else { 1 };
        let mib = room.bytes_with_all().div_ceil(1 << 20).max(mib_min).to_string();
        // It wants a name before it runs as root, and does not care for it otherwise.
        command.args(["-u", "root", "-s", SOCKET, "-m", &mib]);
        if is_warm {
            command.arg("-e").arg(std::path::absolute(directory)?.join(FILE));
        }
        let mut child = start(&mut command, directory)?;
        let connect = || socket.connect()?.map(Connection::new).transpose();
        let first = wait_for(&mut child, connect)?;
        Ok(Memcached { child, socket, connections: Connections::new(first), _directory: None })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let connect = || Connection::new(self.socket.connect()?.context("the server has ended")?);
        self.connections.with(connect, work)
    }
}

impl Cache for Memcached {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        self.with(|connection| Ok(connection.get(key)?.map(is_right)))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with(|connection| connection.put(key, value))
    }

    fn put_for(&self, _: &[u8], _: &[u8], _: Duration) -> Result<()> {
        bail!("its values live for whole seconds")
    }

    fn bytes(&self) -> Result<Option<u64>> {
        self.with(|connection| {
            let slabs = connection.figure("stats slabs", "total_malloced")?;
            Ok(Some(slabs + connection.figure("stats", "hash_bytes")?))
        })
    }

    fn pairs(&self) -> Result<Option<u64>> {
        self.with(|connection| Ok(Some(connection.figure("stats", "curr_items")?)))
    }

    fn close(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::USR1)?;
        self.child.wait()?;
        sleep(CLOCK_AHEAD_MAX);
        Ok(())
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program and its version, if it is installed.
fn found() -> Option<(PathBuf, String)> {
    let program = program(PROGRAM, NAME)?;
    let output = Command::new(&program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().last()?.to_owned();
    Some((program, version))
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let Some((program, version)) = found() else { return Vec::new() };
    let of = |name: &str, is_warm: bool| {
        let (makes, opens) = (program.clone(), program.clone());
        let make = move |room: Room| {
            let directory = tempfile::tempdir()?;
            let mut memcached = Memcached::open(&makes, directory.path(), room, is_warm)?;
            memcached._directory = Some(directory);
            Ok(memcached)
        };
        let open =
            move |directory: &Path, room: Room| Memcached::open(&opens, directory, room, is_warm);
        let ends: &[End] = if is_warm { &[End::Closed, End::Killed] } else { &[End::Killed] };
        Caching::new(name, &*version, make)
            .bounded_from(BYTES_MIN)
            .without_pace()
            .reopening(ends, open)
    };
    vec![
        Box::new(of("memcached", false)),
        Box::new(of("memcached-warm", true).only(Rows::Restarts)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_others_read() {
        let text = |bytes: &[u8]| {
            let mut out = Vec::new();
            base64(bytes, &mut out);
            String::from_utf8(out).unwrap()
        };
        let all = ["", "f", "fo", "foo", "foob"].map(|word| text(word.as_bytes()));
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
        assert_eq!(text(&[0xFF; 3]), "////");
    }
}
