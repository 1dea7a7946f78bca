//! The two streams: data on stdout, talk on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::closed;
use crate::failure::{Ended, Failure, hint, one_line};

/// The name that stands before what went wrong.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Says which program this is.
pub(crate) fn set_program(name: &'static str) {
    PROGRAM.get_or_init(|| name);
}

/// The stdout of this process, without a buffer. That of the standard library takes what is written to a closed one for
/// written.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        closed::demand_stdout()?;
        let stdout = io::stdout();
        loop {
            match rustix::io::write(&stdout, bytes) {
                // Whoever shares it may have made it so.
                Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None)),
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes data to stdout.
pub fn data(bytes: &[u8]) -> Result<()> {
    Stdout.write_all(bytes).map_err(unwritten)
}

/// What a failure to write to stdout means.
pub fn unwritten(error: io::Error) -> anyhow::Error {
    let hint = match Errno::from_io_error(&error) {
        Some(Errno::PIPE) => return Ended::unread().into(),
        Some(Errno::BADF) => "it is closed, or open for reading only: > FILE writes to a file",
        _ => "is the disk behind it full?",
    };
    Failure::new("writing to stdout", hint).caused_by(error).into()
}

/// A stream that takes everything, and remembers what went wrong first: what else is written, files say, still is.
pub struct Lenient<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> Lenient<W> {
    /// Around this stream.
    pub fn new(out: W) -> Self {
        Lenient { out, failed: None }
    }

    /// Whether all of it was written.
    pub fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

impl<W: Write> Write for Lenient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_none() {
            self.failed = self.out.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one JSON value and a newline to stdout.
pub fn json(value: &serde_json::Value) -> Result<()> {
    data(format!("{value}\n").as_bytes())
}

/// Whether a person reads stdout.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Says a line on stderr. Nothing can be done about a stderr that cannot be written, and
/// `eprintln!` would panic on it.
pub(crate) fn talk(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Says on stderr what went wrong, after the program's name.
pub fn complain(line: &str) {
    let style = if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        Style::new().bold().fg_color(Some(AnsiColor::Red.into()))
    } else {
        Style::new()
    };
    let program = PROGRAM.get().copied().unwrap_or_default();
    talk(format_args!("{style}{program}:{style:#} {line}"));
}

/// Says an error with its causes on one line, and the hint, if any, on the next.
pub fn error(error: &anyhow::Error) {
    complain(&one_line(error));
    if let Some(hint) = hint(error) {
        talk(format_args!("hint: {hint}"));
    }
}

/// A ratio that may have had nothing below the line; JSON knows no infinity.
pub(crate) fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_a_reader_takes_everything_and_tells_it_in_the_end() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Lenient::new(writer);
        out.write_all(&[7; 100_000]).unwrap();
        out.write_all(&[7; 100_000]).unwrap();
        assert_eq!(out.end().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut written = Lenient::new(Vec::new());
        written.write_all(b"red").unwrap();
        assert_eq!(written.out, b"red");
        written.end().unwrap();
    }
}
