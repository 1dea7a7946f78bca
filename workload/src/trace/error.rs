//! Traces that cannot be read.

use std::io;

/// A line of a trace could not be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The line is not a request. The lines after it can be read.
    #[error("line {line}: {found}; expected {expected}")]
    Malformed {
        /// The line's number.
        line: u64,
        /// What is wrong with it.
        found: Malformed,
        /// What a line must be like there.
        expected: &'static str,
    },
    /// Reading failed. The trace ends here.
    #[error("line {line}: the trace cannot be read: {source}")]
    Read {
        /// The line's number.
        line: u64,
        /// The error of the source.
        source: io::Error,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A field is missing.
    #[error("there is no {field}")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field is not a number, or one that is too large.
    #[error("the {field} is {text:?}")]
    NotANumber {
        /// The field.
        field: &'static str,
        /// What it holds.
        text: String,
    },
    /// No such operation is known.
    #[error("the operation is {text:?}")]
    UnknownOperation {
        /// What stands in its place.
        text: String,
    },
    /// Something follows the last field.
    #[error("{text:?} follows the last field")]
    Trailing {
        /// What follows.
        text: String,
    },
    /// The line is longer than any request.
    #[error("the line does not end")]
    TooLong,
}

/// Longest piece of a line that an error shows, in bytes.
const SHOWN_BYTES: usize = 40;

impl Malformed {
    /// A piece of a line for showing: cut short, with replacements for what is not text.
    pub(super) fn shown(bytes: &[u8]) -> String {
        String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned()
    }
}

/// What is wrong and what was expected, before the line's number is known.
pub(super) type Fault = (Malformed, &'static str);
