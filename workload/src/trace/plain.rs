//! The plain format: an operation, a key, a size.

use super::error::{Fault, Malformed};
use super::request::{Action, Request};

const ANY: &str = "`get KEY`, `put KEY BYTES` or `del KEY`";
const GET: &str = "`get KEY`";
const PUT: &str = "`put KEY BYTES`, the size of the value below 2^32";
const DELETE: &str = "`del KEY`";

/// Reads a line that is not empty.
pub(super) fn parse(line: &[u8]) -> Result<Request, Fault> {
    let mut fields = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|f| !f.is_empty());
    let missing = |field| Malformed::Missing { field };
    let operation = fields.next().ok_or((missing("operation"), ANY))?;
    let expected = match operation {
        b"get" => GET,
        b"put" => PUT,
        b"del" => DELETE,
        _ => return Err((Malformed::UnknownOperation { text: Malformed::shown(operation) }, ANY)),
    };
    let key = fields.next().ok_or((missing("key"), expected))?;
    let action = match operation {
        b"get" => Action::Get,
        b"put" => {
            let size = fields.next().ok_or((missing("size"), expected))?;
            let value_bytes = number(size).ok_or_else(|| {
                (Malformed::NotANumber { field: "size", text: Malformed::shown(size) }, expected)
            })?;
            Action::Put { value_bytes }
        }
        _ => Action::Delete,
    };
    match fields.next() {
        None => Ok(Request { action, key: key.into() }),
        Some(rest) => Err((Malformed::Trailing { text: Malformed::shown(rest) }, expected)),
    }
}

/// A decimal number without a sign, which the standard parser would allow.
pub(super) fn number<N: std::str::FromStr>(field: &[u8]) -> Option<N> {
    if !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}
