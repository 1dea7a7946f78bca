//! Reading pairs from files: CSV, TSV, and JSON lines.

mod delimited;
mod jsonl;

use std::error::Error;
use std::fmt;
use std::io::{self, BufRead};

pub(crate) use delimited::Delimited;
pub(crate) use jsonl::JsonLines;

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

fn skip_byte_order_mark(input: &mut impl BufRead) -> io::Result<()> {
    // A pipe may deliver a single byte first; the mark is then taken for data, which the column
    // names or the JSON parser will tell.
    if input.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        input.consume(BYTE_ORDER_MARK.len());
    }
    Ok(())
}
