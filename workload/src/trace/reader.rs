//! A trace, line by line.

use super::error::{Fault, Malformed, TraceError};
use super::request::Request;
use super::{cache, plain};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line, its end included, in bytes. Without a limit a file that is no trace would be
/// read into memory whole.
pub const LONGEST_LINE_BYTES: u64 = 1 << 16;

const SHORTER_LINE: &str = "a line of less than 64 KiB";

/// How the lines of a trace are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `get KEY`, `put KEY BYTES`, `del KEY`.
    Plain,
    /// `timestamp,key,keysize,valuesize,client,op,ttl`.
    Cache,
}

/// The requests of a trace, in order.
#[derive(Debug)]
pub struct Trace<R> {
    source: R,
    format: Format,
    line_number: u64,
    line: Vec<u8>,
    failed: bool,
}

impl Trace<BufReader<File>> {
    /// The trace in a file.
    pub fn open(path: impl AsRef<Path>, format: Format) -> io::Result<Self> {
        Ok(Trace::new(BufReader::with_capacity(1 << 18, File::open(path)?), format))
    }
}

impl<R: BufRead> Trace<R> {
    /// The trace that `source` holds.
    pub fn new(source: R, format: Format) -> Trace<R> {
        Trace { source, format, line_number: 0, line: Vec::new(), failed: false }
    }

    /// Reads the next line without its end. False behind the last one.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.line_number += 1;
        let line = self.line_number;
        let mut limited = self.source.by_ref().take(LONGEST_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.line);
        match read.map_err(|source| TraceError::Read { line, source })? {
            0 => return Ok(false),
            _ if self.line.ends_with(b"\n") => {
                self.line.pop();
            }
            length if length as u64 == LONGEST_LINE_BYTES => {
                self.source
                    .skip_until(b'\n')
                    .map_err(|source| TraceError::Read { line, source })?;
                return Err(malformed(line, (Malformed::TooLong, SHORTER_LINE)));
            }
            // The last line needs no end.
            _ => {}
        }
        if self.line.ends_with(b"\r") {
            self.line.pop();
        }
        Ok(true)
    }

    fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        while self.read_line()? {
            if self.line.is_empty() {
                continue;
            }
            let request = match self.format {
                Format::Plain => plain::parse(&self.line),
                Format::Cache => cache::parse(&self.line),
            };
            return request.map(Some).map_err(|fault| malformed(self.line_number, fault));
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let request = self.next_request();
        // A source that failed once might fail for ever: a loop over the trace must end.
        self.failed = matches!(request, Err(TraceError::Read { .. }));
        request.transpose()
    }
}

fn malformed(line: u64, (found, expected): Fault) -> TraceError {
    TraceError::Malformed { line, found, expected }
}
