//! The two streams: data on stdout, talk on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Result;

use crate::failure::{Failure, hint, one_line};

/// Writes data to stdout. A reader that has gone away, as in `firndex stat POOL | head -1`, has
/// what it wanted: that is no error.
pub(crate) fn data(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("writing to stdout", "is the disk behind it full?")
                .caused_by(error)
                .into())
        }
        _ => Ok(()),
    }
}

/// A stream whose reader may go away before the end, which is no error: what else is written, files say, still is.
pub(crate) struct Unread<W>(pub(crate) W);

impl<W: Write> Write for Unread<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_unread(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_unread(self.0.flush(), ())
    }
}

fn unless_unread<T>(written: io::Result<T>, as_if: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(as_if),
        written => written,
    }
}

/// Writes one JSON value and a newline to stdout.
pub(crate) fn json(value: &serde_json::Value) -> Result<()> {
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
pub(crate) fn complain(line: &str) {
    let style = if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        Style::new().bold().fg_color(Some(AnsiColor::Red.into()))
    } else {
        Style::new()
    };
    talk(format_args!("{style}firndex:{style:#} {line}"));
}

/// Says an error with its causes on one line, and the hint, if any, on the next.
pub(crate) fn error(error: &anyhow::Error) {
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
    fn a_stream_without_a_reader_takes_everything() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut out = Unread(writer);
        out.write_all(&[7; 100_000]).unwrap();
        out.flush().unwrap();
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(unless_unread(Err(full), 7).is_err());
    }
}
