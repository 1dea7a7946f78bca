//! The format of Twitter's cache traces.

use super::error::{Fault, Malformed};
use super::plain::number;
use super::request::{Action, Request};

const COLUMNS: &str = "timestamp,key,keysize,valuesize,client,op,ttl";
const NUMBER: &str =
    "a decimal number (the columns are timestamp,key,keysize,valuesize,client,op,ttl)";
const OPERATIONS: &str = "get, gets, set, add, replace, cas, append, prepend, incr, decr or delete";

/// Reads a line that is not empty. Keys may contain commas: the columns are counted from both
/// ends.
///
/// All that writes is a put of the value size in its line: traces of caches do not say whether an
/// `add` or a `replace` found what it needs.
pub(super) fn parse(line: &[u8]) -> Result<Request, Fault> {
    let missing = |field| move || (Malformed::Missing { field }, COLUMNS);
    let mut rest = line;
    let timestamp = take_first(&mut rest).ok_or_else(missing("key"))?;
    let ttl = take_last(&mut rest).ok_or_else(missing("ttl"))?;
    let operation = take_last(&mut rest).ok_or_else(missing("op"))?;
    let client = take_last(&mut rest).ok_or_else(missing("client"))?;
    let value_size = take_last(&mut rest).ok_or_else(missing("valuesize"))?;
    let key_size = take_last(&mut rest).ok_or_else(missing("keysize"))?;
    let key = rest;
    if key.is_empty() {
        return Err(missing("key")());
    }
    for (field, text) in
        [("timestamp", timestamp), ("keysize", key_size), ("client", client), ("ttl", ttl)]
    {
        column::<u64>(field, text)?;
    }
    let value_bytes = column("valuesize", value_size)?;
    let action = match operation {
        b"get" | b"gets" => Action::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            Action::Put { value_bytes }
        }
        b"delete" => Action::Delete,
        _ => {
            let text = Malformed::shown(operation);
            return Err((Malformed::UnknownOperation { text }, OPERATIONS));
        }
    };
    Ok(Request { action, key: key.into() })
}

fn column<N: std::str::FromStr>(field: &'static str, text: &[u8]) -> Result<N, Fault> {
    number(text)
        .ok_or_else(|| (Malformed::NotANumber { field, text: Malformed::shown(text) }, NUMBER))
}

/// Cuts off the first column and its comma.
fn take_first<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let column = &rest[..comma];
    *rest = &rest[comma + 1..];
    Some(column)
}

/// Cuts off the last column and its comma.
fn take_last<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let comma = rest.iter().rposition(|&byte| byte == b',')?;
    let column = &rest[comma + 1..];
    *rest = &rest[..comma];
    Some(column)
}
