//! Reading pairs from files: CSV, TSV, and JSON lines.

mod delimited;
mod jsonl;

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Cursor, Read};

pub(crate) use delimited::Delimited;
pub(crate) use jsonl::JsonLines;

use crate::packed::{self, Packed, START_BYTES};

/// The longest record taken. A value may have 256 MiB, JSON writes a byte in up to six, and
/// whatever is longer is no record but a file without line ends, which memory is not spent on.
const RECORD_BYTES_MAX: usize = 2 << 30;

/// One pair as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Where it starts in the file, counted from 1.
    pub(crate) line: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A source of pairs in file order.
pub(crate) trait Pairs {
    /// The next pair; `None` at the end of the file.
    fn next_pair(&mut self) -> Result<Option<Pair>, Unreadable>;

    /// The line that the pair begins at which was read last, or could not be read; counted from 1.
    fn record_line(&self) -> u64;
}

/// Why the next pair could not be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The file is not what its format says.
    Malformed {
        /// Counted from 1.
        line: u64,
        what: String,
    },
    /// The file cannot be read.
    Io(io::Error),
}

impl Unreadable {
    fn at(line: u64, what: impl Into<String>) -> Self {
        Unreadable::Malformed { line, what: what.into() }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Unreadable::Io(error)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed { line, what } => write!(formatter, "line {line}: {what}"),
            Unreadable::Io(_) => formatter.write_str("the file cannot be read"),
        }
    }
}

impl Error for Unreadable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Unreadable::Malformed { .. } => None,
            Unreadable::Io(error) => Some(error),
        }
    }
}

/// Spreadsheets put this in front of UTF-8; it belongs to no field.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How text in UTF-16 becomes UTF-8, and how line ends become those that there are here.
const TO_UTF_8: &str = "iconv -f UTF-16 -t UTF-8";
const TO_LINE_FEEDS: &str = "tr '\\r' '\\n'";

/// An input whose beginning was looked at.
type Begun<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// Skips a mark at the beginning. Refuses what is no text in UTF-8, as far as its beginning tells.
fn begin<R: BufRead>(mut input: R) -> Result<Begun<R>, Unreadable> {
    let mut start = Vec::with_capacity(START_BYTES);
    // A pipe may deliver it byte by byte.
    Read::take(&mut input, START_BYTES as u64).read_to_end(&mut start)?;
    if let Some(found) = foreign(&start) {
        return Err(Unreadable::at(1, format!("{found} makes it so")));
    }
    if start.starts_with(BYTE_ORDER_MARK) {
        start.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(Cursor::new(start).chain(input))
}

/// What else than text in UTF-8 begins so, and the command that makes it that.
fn foreign(start: &[u8]) -> Option<String> {
    if let Some(packed) = packed::by_start(start) {
        let Packed { name, unpack, .. } = packed;
        return Some(format!("found a file compressed with {name}, expected text: {unpack}"));
    }
    let utf_16 = || format!("found text in UTF-16, expected UTF-8: {TO_UTF_8}");
    match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            Some("found text in UTF-32, expected UTF-8: iconv -f UTF-32 -t UTF-8".into())
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(utf_16()),
        [1..=255, 0, 1..=255, 0, ..] | [0, 1..=255, 0, 1..=255, ..] => Some(utf_16()),
        _ => None,
    }
}
