//! Redis: a server with everything in memory, and a snapshot (RDB) or a log of commands (AOF) on the disk.
//!
//! The server is started with the store, and ends with its process. It is asked through a socket in the store's
//! directory. `peers/run` looks for the program; without one there are no such contenders.

use super::{Mode, contender, fast};
use anyhow::{Context, Result, bail, ensure};
use bench::{ByteStore, Contender, Pair, Reopens, See, written_by_ended};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Names the program.
const PROGRAM: &str = "PEERS_REDIS";
/// How often it is asked whether it has loaded everything.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// Name of the socket in the store's directory.
const SOCKET: &str = "redis.sock";
/// A key that nobody stores.
const NOBODYS: &str = "nobody's";
/// Commands that are under way at once.
const PIPELINE: usize = 1000;

/// What survives power loss, and so what closing writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// A snapshot of everything, when it is closed.
    Snapshot,
    /// Each command in a log, synced once a second.
    Commands,
}

struct Redis {
    server: Child,
    connection: Mutex<Connection>,
    keeps: Keeps,
}

struct Connection {
    input: BufReader<UnixStream>,
    output: UnixStream,
}

/// What the server says.
enum Reply {
    Text(String),
    Number(i64),
    Bytes(Option<Vec<u8>>),
}

impl Connection {
    fn new(socket: &Path) -> Result<Option<Connection>> {
        match UnixStream::connect(socket) {
            Ok(output) => {
                let input = BufReader::new(output.try_clone()?);
                Ok(Some(Connection { input, output }))
            }
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("asking {}", socket.display())),
        }
    }

    /// Sends a command for each of the items, many at once, and hands over each reply.
    fn each<T>(
        &mut self,
        items: &[T],
        encode: impl Fn(&T, &mut Vec<u8>),
        mut see: impl FnMut(usize, Reply) -> Result<()>,
    ) -> Result<()> {
        for (part, items) in items.chunks(PIPELINE).enumerate() {
            let mut sent = Vec::new();
            items.iter().for_each(|item| encode(item, &mut sent));
            std::thread::scope(|scope| {
                // Replies are taken while commands are sent, lest both sides wait for room.
                let output = &mut self.output;
                let sending = scope.spawn(move || output.write_all(&sent));
                for place in 0..items.len() {
                    let reply = reply(&mut self.input)?;
                    see(part * PIPELINE + place, reply)?;
                }
                let sent = sending.join();
                sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                anyhow::Ok(())
            })?;
        }
        Ok(())
    }

    fn one(&mut self, words: &[&str]) -> Result<Reply> {
        let mut said = None;
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let encode = |(): &(), sent: &mut Vec<u8>| command(&words, sent);
        self.each(&[()], encode, |_, reply| {
            said = Some(reply);
            Ok(())
        })?;
        said.context("the server said nothing")
    }
}

/// Appends a command of these words.
fn command(words: &[&[u8]], sent: &mut Vec<u8>) {
    sent.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        sent.extend(format!("${}\r\n", word.len()).bytes());
        sent.extend_from_slice(word);
        sent.extend_from_slice(b"\r\n");
    }
}

fn reply(input: &mut impl BufRead) -> Result<Reply> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).context("the server has ended")?;
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Text(line.to_owned()),
        ":" => Reply::Number(rest.parse()?),
        "$" if rest == "-1" => Reply::Bytes(None),
        "$" => {
            let mut bytes = vec![0; rest.parse::<usize>()? + 2];
            input.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Reply::Bytes(Some(bytes))
        }
        _ => bail!("the server says {line:?}"),
    })
}

impl Redis {
    fn open(program: &Path, directory: &Path, keeps: Keeps) -> Result<Redis> {
        // A socket's address has room for some hundred bytes, and a directory's path may be longer.
        let held = File::open(directory)?;
        let socket = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()));
        // One that a killed server has left.
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error)?,
            _ => (),
        }
        let mut command = Command::new(program);
        // The program may be found under another name, and goes by this one.
        command.arg0("redis-server").current_dir(directory);
        command.args(["--port", "0", "--unixsocket", SOCKET, "--daemonize", "no", "--save", ""]);
        let log = if keeps == Keeps::Commands { "yes" } else { "no" };
        command.args(["--appendonly", log, "--appendfsync", "everysec", "--dbfilename", "rdb"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: the closure makes one system call, and touches no memory.
        unsafe { command.pre_exec(end_with_parent) };
        let mut server = command.spawn().with_context(|| format!("starting {program:?}"))?;
        let connection = loop {
            if let Some(mut connection) = Connection::new(&socket)? {
                // It refuses everything until all is loaded.
                match connection.one(&["EXISTS", NOBODYS])? {
                    Reply::Text(text) if text.starts_with("-LOADING") => (),
                    Reply::Number(_) => break connection,
                    _ => bail!("{program:?} is no server"),
                }
            }
            ensure!(server.try_wait()?.is_none(), "{program:?} has ended at once");
            sleep(ASK_EVERY);
        };
        Ok(Redis { server, connection: Mutex::new(connection), keeps })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        work(&mut self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the server write what it keeps, and end. Returns the bytes that it has written.
    fn end(&mut self) -> Result<u64> {
        let save = if self.keeps == Keeps::Snapshot { "SAVE" } else { "NOSAVE" };
        // It ends without a reply.
        let refused = self.with(|connection| connection.one(&["SHUTDOWN", save]));
        if let Ok(Reply::Text(text)) = refused {
            bail!("the server does not end: {text}");
        }
        let bytes = written_by_ended(&self.server)?;
        self.server.wait()?;
        Ok(bytes)
    }
}

/// The server is killed when the thread that has started it ends, and so with a process that is killed.
fn end_with_parent() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

impl Drop for Redis {
    fn drop(&mut self) {
        if matches!(self.server.try_wait(), Ok(None)) && self.end().is_err() {
            // Both fail only if it has already ended.
            let _ = self.server.kill();
            let _ = self.server.wait();
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

/// The version that a program tells.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg0("redis-server").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(version.to_owned())
}

/// The program, as named or on the path.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).filter(|name| !name.is_empty()).map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || {
        let mut all = std::env::split_paths(&paths).map(|path| path.join("redis-server"));
        all.find(|path| path.is_file())
    };
    named.or_else(on_path)
}

pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let found = program().and_then(|program| Some((version(&program)?, program)));
    let Some((version, program)) = found else { return Vec::new() };
    let of = |name: &'static str, reopens: Reopens, keeps: Keeps| {
        let program = program.clone();
        let open = move |directory: &Path| Redis::open(&program, directory, keeps);
        contender("redis", &version, Mode { reopens, ..fast(name, None) }, false, open)
    };
    vec![of("rdb", Reopens::Closed, Keeps::Snapshot), of("aof", Reopens::Killed, Keeps::Commands)]
}
