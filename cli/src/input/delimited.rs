//! CSV as RFC 4180 has it, and the same with tabs.
//!
//! Written here rather than taken from a crate because the readers at hand take what is not well
//! formed for data: a quote that is never closed then swallows the rest of the file as one field,
//! and the load would report success. This one says at which line the quote was opened.

use std::io::BufRead;

use super::{Begun, Pair, Pairs, RECORD_BYTES_MAX, TO_LINE_FEEDS, TO_UTF_8, Unreadable, begin};
use crate::count::counted;
use crate::quote::quote;

/// Reads rows of fields between delimiters, the first row being the columns' names.
pub(crate) struct Delimited<R> {
    rows: Rows<Begun<R>>,
    /// How many each row has; `None`: as many as the first row, which is still to be read.
    columns: Option<usize>,
    key_column: usize,
    value_column: usize,
}

impl<R: BufRead> Delimited<R> {
    /// Reads the header and finds the two columns in it: by name, or else the first and second.
    pub(crate) fn new(
        input: R,
        delimiter: u8,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<Self, Unreadable> {
        let mut rows = Rows::new(begin(input)?, delimiter);
        let Some(line) = rows.read()? else {
            return Err(Unreadable::at(
                1,
                "found no header row, expected one with the names of the columns",
            ));
        };
        let names: Vec<&[u8]> = rows.fields().collect();
        let find = |wanted: Option<&[u8]>, default: usize| -> Result<usize, Unreadable> {
            let found = match wanted {
                Some(name) => names.iter().position(|column| *column == name),
                None => Some(default).filter(|column| *column < names.len()),
            };
            let column = found.ok_or_else(|| {
                let listed: Vec<String> = names.iter().map(|name| quote(name)).collect();
                let expected = match wanted {
                    Some(name) => format!("no column {}", quote(name)),
                    None => format!("no column {}", default + 1),
                };
                Unreadable::at(
                    line,
                    format!("{expected} in the header; it has {}", listed.join(", ")),
                )
            })?;
            demand_one(&names, column, wanted.is_some())
                .map_err(|what| Unreadable::at(line, what))?;
            Ok(column)
        };
        let key_column = find(key, 0)?;
        let value_column = find(value, 1)?;
        let columns = Some(names.len());
        Ok(Delimited { rows, columns, key_column, value_column })
    }

    /// All rows are pairs, the first one too: the first column is the key, the second the value.
    pub(crate) fn without_header(input: R, delimiter: u8) -> Result<Self, Unreadable> {
        let rows = Rows::new(begin(input)?, delimiter);
        Ok(Delimited { rows, columns: None, key_column: 0, value_column: 1 })
    }
}

/// Refuses a column whose name another one has, too: nobody knows which is meant.
fn demand_one(names: &[&[u8]], column: usize, is_named: bool) -> Result<(), String> {
    let same = |(other, name): (usize, &&[u8])| {
        (other != column && *name == names[column]).then_some(other)
    };
    let Some(other) = names.iter().enumerate().find_map(same) else { return Ok(()) };
    let (first, second) = (column.min(other) + 1, column.max(other) + 1);
    let name = quote(names[column]);
    let or = if is_named { "" } else { "; if the first row is a pair, use --no-header" };
    Err(format!(
        "found the name {name} twice in the header, of columns {first} and {second}: expected another for each{or}"
    ))
}

impl<R: BufRead> Pairs for Delimited<R> {
    fn next_pair(&mut self) -> Result<Option<Pair>, Unreadable> {
        let Some(line) = self.rows.read()? else {
            return Ok(None);
        };
        let found = self.rows.ends.len();
        let columns = match self.columns {
            Some(columns) => columns,
            None if found < 2 => {
                let fields = counted(found as u64, "field");
                let says = format!("found {fields}, expected 2: a key and a value");
                return Err(Unreadable::at(line, says));
            }
            None => *self.columns.insert(found),
        };
        if found != columns {
            return Err(Unreadable::at(
                line,
                format!(
                    "found {}, expected {columns} as in the first row",
                    counted(found as u64, "field")
                ),
            ));
        }
        Ok(Some(Pair {
            line,
            key: self.rows.field(self.key_column).to_vec(),
            value: self.rows.field(self.value_column).to_vec(),
        }))
    }

    fn record_line(&self) -> u64 {
        self.rows.first_line
    }
}

/// Where the reader stands within a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first byte of a field.
    Start,
    /// In a field without quotes; a quote in it is a byte like others.
    Plain,
    /// Behind an opening quote.
    Quoted,
    /// Behind a quote in a quoted field: either it closes the field, or the next byte is a quote
    /// too and the pair means one.
    Closed,
    /// Behind a carriage return outside quotes: only a line feed may follow. The second is behind a closing quote.
    Return,
    ClosedReturn,
}

/// Splits a file into rows; knows nothing of columns.
struct Rows<R> {
    input: R,
    delimiter: u8,
    /// The line that the next byte belongs to, counted from 1.
    line: u64,
    /// The line that the row begins at which was read last.
    first_line: u64,
    /// The fields of the row last read, end to end.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// What a row may take of memory.
    bytes_max: usize,
}

impl<R: BufRead> Rows<R> {
    fn new(input: R, delimiter: u8) -> Self {
        let (bytes, ends) = (Vec::new(), Vec::new());
        Rows { input, delimiter, line: 1, first_line: 1, bytes, ends, bytes_max: RECORD_BYTES_MAX }
    }

    fn field(&self, column: usize) -> &[u8] {
        let start = if column == 0 { 0 } else { self.ends[column - 1] };
        &self.bytes[start..self.ends[column]]
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|column| self.field(column))
    }

    /// Reads the next row that is not blank and returns the line it starts at; `None` at the end.
    fn read(&mut self) -> Result<Option<u64>, Unreadable> {
        loop {
            self.bytes.clear();
            self.ends.clear();
            self.first_line = self.line;
            let (ended, quoted) = self.read_row()?;
            let blank = self.ends.len() == 1 && self.bytes.is_empty() && !quoted;
            if !blank {
                return Ok(Some(self.first_line));
            }
            if ended {
                return Ok(None);
            }
        }
    }

    /// Reads up to a line end outside quotes. Says whether the file ended, and whether the last
    /// field had quotes.
    fn read_row(&mut self) -> Result<(bool, bool), Unreadable> {
        let mut state = State::Start;
        let mut quote_line = self.line;
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return match state {
                    State::Quoted => Err(Unreadable::at(
                        quote_line,
                        "found the end of the file in a field whose quote was opened here, \
                         expected a closing quote",
                    )),
                    _ => {
                        let quoted = self.end_field(state);
                        Ok((true, quoted))
                    }
                };
            }
            let mut used = 0;
            let mut row_ended = false;
            for &byte in buffer {
                used += 1;
                state = match (state, byte) {
                    (State::Quoted, b'"') => State::Closed,
                    (State::Quoted, _) => {
                        self.line += u64::from(byte == b'\n');
                        self.bytes.push(byte);
                        State::Quoted
                    }
                    (State::Closed, b'"') => {
                        self.bytes.push(b'"');
                        State::Quoted
                    }
                    (State::Start, b'"') => {
                        quote_line = self.line;
                        State::Quoted
                    }
                    (_, b'\n') => {
                        row_ended = true;
                        break;
                    }
                    (State::Closed, b'\r') => State::ClosedReturn,
                    (State::Start | State::Plain, b'\r') => State::Return,
                    (State::Return | State::ClosedReturn, _) => {
                        let what = format!(
                            "found a carriage return that no line feed follows, expected one only within quotes: if it \
                             ends a line, {TO_LINE_FEEDS} makes it a line feed"
                        );
                        return Err(Unreadable::at(self.line, what));
                    }
                    (State::Start | State::Plain, 0) => {
                        let what = format!(
                            "found a NUL byte, expected one only within quotes: is this text? If it is UTF-16, \
                             {TO_UTF_8} makes it UTF-8"
                        );
                        return Err(Unreadable::at(self.line, what));
                    }
                    (State::Start | State::Plain | State::Closed, _) if byte == self.delimiter => {
                        self.ends.push(self.bytes.len());
                        State::Start
                    }
                    (State::Closed, _) => {
                        return Err(Unreadable::at(
                            self.line,
                            format!(
                                "found {} behind a closing quote, expected a delimiter or the end \
                                 of the line; a quote within quotes is written twice",
                                quote(&[byte])
                            ),
                        ));
                    }
                    (State::Start | State::Plain, _) => {
                        self.bytes.push(byte);
                        State::Plain
                    }
                };
            }
            self.input.consume(used);
            if row_ended {
                self.line += 1;
                let quoted = self.end_field(state);
                return Ok((false, quoted));
            }
            // Empty fields have no bytes, but each has an end.
            if self.bytes.len() + size_of_val(&self.ends[..]) > self.bytes_max {
                return Err(Unreadable::at(
                    quote_line,
                    format!(
                        "found a row that takes more than {} MiB; is a quote left open here, or a line end missing?",
                        self.bytes_max >> 20
                    ),
                ));
            }
        }
    }

    /// Ends the last field of a row; whether it had quotes.
    fn end_field(&mut self, state: State) -> bool {
        self.ends.push(self.bytes.len());
        matches!(state, State::Closed | State::ClosedReturn)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn pairs_through(
        buffer_bytes: usize,
        text: &str,
    ) -> Result<Vec<(u64, String, String)>, String> {
        let input = BufReader::with_capacity(buffer_bytes, text.as_bytes());
        let mut source = Delimited::new(input, b',', None, None).map_err(|e| e.to_string())?;
        let mut pairs = Vec::new();
        while let Some(pair) = source.next_pair().map_err(|error| error.to_string())? {
            let key = String::from_utf8_lossy(&pair.key).into_owned();
            let value = String::from_utf8_lossy(&pair.value).into_owned();
            pairs.push((pair.line, key, value));
        }
        Ok(pairs)
    }

    /// Whatever a buffer's end may cut through, the rows are the same.
    fn pairs(text: &str) -> Result<Vec<(u64, String, String)>, String> {
        let whole = pairs_through(1 << 16, text);
        for buffer_bytes in [3, 4, 5, 7] {
            assert_eq!(pairs_through(buffer_bytes, text), whole);
        }
        whole
    }

    fn rows(expected: &[(u64, &str, &str)]) -> Result<Vec<(u64, String, String)>, String> {
        let owned = |&(line, key, value): &(u64, &str, &str)| (line, key.into(), value.into());
        Ok(expected.iter().map(owned).collect())
    }

    #[test]
    fn plain_rows_with_either_line_end_and_with_none_at_the_end() {
        let expected = rows(&[(2, "a", "1"), (3, "b", "2")]);
        assert_eq!(pairs("k,v\na,1\nb,2\n"), expected);
        assert_eq!(pairs("k,v\r\na,1\r\nb,2\r\n"), expected);
        assert_eq!(pairs("k,v\na,1\nb,2"), expected);
        assert_eq!(pairs("\u{feff}\"k\",v\na,1\nb,2"), expected);
    }

    #[test]
    fn quotes_hide_delimiters_line_ends_and_quotes() {
        assert_eq!(
            pairs("k,v\r\n\"a,b\",\"1\r\n2\"\r\n\"say \"\"x\"\"\",\"\"\r\n5\" disk,\"\"\"\"\r\n"),
            rows(&[(2, "a,b", "1\r\n2"), (4, "say \"x\"", ""), (5, "5\" disk", "\"")])
        );
    }

    #[test]
    fn blank_lines_are_skipped_and_empty_fields_are_not() {
        assert_eq!(pairs("\n\r\nk,v\n\n,\n\r\na,\n"), rows(&[(5, "", ""), (7, "a", "")]));
    }

    #[test]
    fn malformed_rows_name_their_line() {
        let message = |text: &str| match pairs(text) {
            Ok(pairs) => panic!("{text:?} was taken for {pairs:?}"),
            Err(message) => message,
        };
        assert!(message("").starts_with("line 1: found no header"));
        assert!(message("k,v\na,1\nb\n").starts_with("line 3: found 1 field,"));
        assert!(message("k,v\na,1,2\n").starts_with("line 2: found 3 fields"));
        assert!(message("k,v\na,1\nb,\"2\nc,3\n").starts_with("line 3: found the end of the file"));
        assert!(message("k,v\n\"a\nb\"c,1\n").starts_with("line 3: found \"c\""));
        for text in ["k,v\n\"a\"\r,1\n", "k,v\na\r,1\n", "k,v\n\r,1\n", "k,v\na,1\r\r\n"] {
            assert!(message(text).starts_with("line 2: found a carriage return"), "{text:?}");
        }
        assert!(message("k,v\na,\0\n").starts_with("line 2: found a NUL"));
        assert!(message("k\na\n").starts_with("line 1: no column 2"));
    }

    /// Memory is for rows, and a file of nothing but delimiters has none.
    #[test]
    fn a_row_without_end_is_refused_whatever_it_consists_of() {
        for byte in [",", "x", "\"\","] {
            let text = byte.repeat(100_000);
            let mut rows = Rows::new(BufReader::with_capacity(100, text.as_bytes()), b',');
            rows.bytes_max = 10_000;
            let refused = rows.read().unwrap_err().to_string();
            assert!(refused.starts_with("line 1: found a row that takes more than"), "{refused}");
            assert!(rows.ends.len() < 2000 && rows.bytes.len() < 20_000);
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "id,name,\"the colour\"\n1,apple,red\n";
        let mut source =
            Delimited::new(text.as_bytes(), b',', Some(b"name"), Some(b"the colour")).unwrap();
        let pair = source.next_pair().unwrap().unwrap();
        assert_eq!((&pair.key[..], &pair.value[..]), (&b"apple"[..], &b"red"[..]));

        let missing = Delimited::new(text.as_bytes(), b',', Some(b"nam"), None).err().unwrap();
        assert_eq!(
            missing.to_string(),
            "line 1: no column \"nam\" in the header; it has \"id\", \"name\", \"the colour\""
        );
    }

    #[test]
    fn without_a_header_the_first_row_is_a_pair() {
        let read = |text: &str| -> Result<Vec<Pair>, String> {
            let mut source = Delimited::without_header(text.as_bytes(), b',').unwrap();
            let mut pairs = Vec::new();
            while let Some(pair) = source.next_pair().map_err(|error| error.to_string())? {
                pairs.push(pair);
            }
            Ok(pairs)
        };
        let pair =
            |line, key: &str, value: &str| Pair { line, key: key.into(), value: value.into() };
        let expected = vec![pair(1, "a", "1"), pair(2, "b", "2")];
        assert_eq!(read("\u{feff}a,1,x\nb,2,y\n"), Ok(expected));
        assert_eq!(read(""), Ok(vec![]));
        let message = read("a\n").unwrap_err();
        assert_eq!(message, "line 1: found 1 field, expected 2: a key and a value");
        let message = read("a,1\nb,2,3\n").unwrap_err();
        assert_eq!(message, "line 2: found 3 fields, expected 2 as in the first row");
    }

    #[test]
    fn tabs_delimit_and_bytes_need_not_be_text() {
        let input = &b"k\tv\n\xff,\xfe\t\"a\tb\"\n"[..];
        let mut source = Delimited::new(input, b'\t', None, None).unwrap();
        let pair = source.next_pair().unwrap().unwrap();
        assert_eq!((&pair.key[..], &pair.value[..]), (&b"\xff,\xfe"[..], &b"a\tb"[..]));
        assert_eq!(source.next_pair().unwrap(), None);
    }
}
