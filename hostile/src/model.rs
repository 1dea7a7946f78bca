//! What a file to load means, by other readers than the command's: of the whole file at once.

/// The pairs up to the end or to the first fault, and the line of that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Line, key and value.
    pub(crate) pairs: Vec<(u64, Vec<u8>, Vec<u8>)>,
    pub(crate) fault: Option<u64>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is behind the mark that may begin a text.
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// A field, and whether it had quotes.
type Field = (Vec<u8>, bool);
/// The line where a row begins, and its fields.
type Row = (u64, Vec<Vec<u8>>);

/// A text that is read from its beginning.
struct Rest<'a> {
    text: &'a [u8],
    at: usize,
}

impl Rest<'_> {
    fn line_of(&self, at: usize) -> u64 {
        1 + self.text[..at].iter().filter(|&&byte| byte == b'\n').count() as u64
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// The field that begins here, up to the delimiter or the line's end; or the line of what is wrong with it.
    fn field(&mut self, delimiter: u8) -> Result<Field, u64> {
        if self.peek(0) != Some(b'"') {
            let rest = &self.text[self.at..];
            let len = rest.iter().position(|&byte| byte == delimiter || byte == b'\n');
            let mut field = &rest[..len.unwrap_or(rest.len())];
            let line = self.line_of(self.at);
            self.at += field.len();
            if self.peek(0) != Some(delimiter) {
                field = field.strip_suffix(b"\r").unwrap_or(field);
            }
            // Outside quotes neither is text.
            let is_text = !field.iter().any(|byte| [b'\r', 0].contains(byte));
            return if is_text { Ok((field.to_vec(), false)) } else { Err(line) };
        }
        let begin = self.at;
        let mut field = Vec::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(len) = rest.iter().position(|&byte| byte == b'"') else {
                return Err(self.line_of(begin));
            };
            field.extend_from_slice(&rest[..len]);
            self.at += len + 1;
            if self.peek(0) != Some(b'"') {
                break;
            }
            field.push(b'"');
            self.at += 1;
        }
        let is_end = |byte: Option<u8>| byte.is_none_or(|byte| byte == b'\n');
        if self.peek(0) == Some(b'\r') {
            if !is_end(self.peek(1)) {
                return Err(self.line_of(self.at));
            }
            self.at += 1;
        }
        if is_end(self.peek(0)) || self.peek(0) == Some(delimiter) {
            Ok((field, true))
        } else {
            Err(self.line_of(self.at))
        }
    }

    /// The next row that is not blank: its line and its fields.
    fn row(&mut self, delimiter: u8) -> Result<Option<Row>, u64> {
        loop {
            let line = self.line_of(self.at);
            let mut fields = vec![self.field(delimiter)?];
            while self.peek(0) == Some(delimiter) {
                self.at += 1;
                fields.push(self.field(delimiter)?);
            }
            let is_last = self.peek(0).is_none();
            self.at += usize::from(!is_last);
            let is_blank = fields.len() == 1 && fields[0] == (Vec::new(), false);
            if !is_blank {
                return Ok(Some((line, fields.into_iter().map(|field| field.0).collect())));
            }
            if is_last {
                return Ok(None);
            }
        }
    }
}

/// Whether a text is none in UTF-8, by its beginning: UTF-16, UTF-32, or compressed.
pub(crate) fn is_foreign(text: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] = [
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\xfd7zXZ\0",
        b"PK\x03\x04",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\0\0\xfe\xff",
    ];
    let is_bzip2 = text.starts_with(b"BZh")
        && text.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
        && text[4..].starts_with(b"1AY&SY");
    let zeros: Vec<bool> = text.iter().take(4).map(|&byte| byte == 0).collect();
    let alternates = zeros == [false, true, false, true] || zeros == [true, false, true, false];
    STARTS.iter().any(|start| text.starts_with(start)) || is_bzip2 || alternates
}

/// Reads rows of fields: the first row has names, if it is a header, and the first two columns are key and value.
pub(crate) fn delimited(text: &[u8], delimiter: u8, has_header: bool) -> Reading {
    if is_foreign(text) {
        return Reading { pairs: Vec::new(), fault: Some(1) };
    }
    let mut rest = Rest { text: unmarked(text), at: 0 };
    let mut pairs = Vec::new();
    let fault = read_rows(&mut rest, delimiter, has_header, &mut pairs).err();
    Reading { pairs, fault }
}

fn read_rows(
    rest: &mut Rest<'_>,
    delimiter: u8,
    has_header: bool,
    pairs: &mut Vec<(u64, Vec<u8>, Vec<u8>)>,
) -> Result<(), u64> {
    let mut columns = None;
    let mut is_header = has_header;
    while let Some((line, fields)) = rest.row(delimiter)? {
        if fields.len() < 2 || fields.len() != *columns.get_or_insert(fields.len()) {
            return Err(line);
        }
        let is_twice = |name: &Vec<u8>| fields.iter().filter(|other| *other == name).count() > 1;
        if is_header && fields[..2].iter().any(is_twice) {
            // Nobody knows which of the columns is meant.
            return Err(line);
        }
        if !std::mem::take(&mut is_header) {
            pairs.push((line, fields[0].clone(), fields[1].clone()));
        }
    }
    // A file without even a header says so at its beginning.
    if is_header { Err(1) } else { Ok(()) }
}

/// The lines of a text that are not blank, with their numbers.
pub(crate) fn lines(text: &[u8]) -> Vec<(u64, &[u8])> {
    let lines = (1..).zip(unmarked(text).split(|&byte| byte == b'\n'));
    lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace)).collect()
}
