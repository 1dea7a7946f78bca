//! A client of Redis's protocol, RESP 2.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// Commands that are under way at once.
const PIPELINE: usize = 1000;

/// A connection to a server.
pub(crate) struct Connection {
    input: BufReader<UnixStream>,
    output: UnixStream,
    /// Kept for its room.
    sent: Vec<u8>,
}

/// What the server says.
pub(crate) enum Reply {
    Text(String),
    Number(i64),
    Bytes(Option<Vec<u8>>),
}

impl Connection {
    pub(crate) fn new(output: UnixStream) -> Result<Connection> {
        let input = BufReader::new(output.try_clone()?);
        Ok(Connection { input, output, sent: Vec::new() })
    }

    /// Sends one command, and returns its reply.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Reply> {
        self.sent.clear();
        command(words, &mut self.sent);
        self.output.write_all(&self.sent)?;
        reply(&mut self.input)
    }

    /// Sends a command for each of the items, many at once, and hands over each reply.
    pub(crate) fn each<T>(
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

    /// [`Connection::ask`] in text.
    pub(crate) fn one(&mut self, words: &[&str]) -> Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(&words)
    }
}

/// Appends a command of these words.
pub(crate) fn command(words: &[&[u8]], sent: &mut Vec<u8>) {
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
