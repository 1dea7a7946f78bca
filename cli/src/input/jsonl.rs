//! JSON lines: one object on each line.

use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Begun, Pair, Pairs, RECORD_BYTES_MAX, TO_LINE_FEEDS, Unreadable, begin};
use crate::base64::{self, BASE64_SUFFIX};
use crate::quote::quote;

/// Reads two fields from each line's object. A string is taken for the text it means, any other
/// value for its JSON text just as it stands, so that no number loses a digit. A field with the suffix
/// [`BASE64_SUFFIX`] has bytes.
pub(crate) struct JsonLines<R> {
    input: Begun<R>,
    key: String,
    value: String,
    line: u64,
    text: Vec<u8>,
}

impl<R: BufRead> JsonLines<R> {
    pub(crate) fn new(input: R, key: &str, value: &str) -> Result<Self, Unreadable> {
        Ok(JsonLines {
            input: begin(input)?,
            key: key.to_owned(),
            value: value.to_owned(),
            line: 0,
            text: Vec::new(),
        })
    }

    /// Reads the next line that is not blank into `text`; false at the end.
    fn read_line(&mut self) -> Result<bool, Unreadable> {
        loop {
            self.text.clear();
            let limit = RECORD_BYTES_MAX as u64;
            self.line += 1;
            let read = Read::take(&mut self.input, limit).read_until(b'\n', &mut self.text)?;
            if read == 0 {
                return Ok(false);
            }
            if read == RECORD_BYTES_MAX && self.text.last() != Some(&b'\n') {
                return Err(Unreadable::at(
                    self.line,
                    format!("found a line of more than {} MiB", RECORD_BYTES_MAX >> 20),
                ));
            }
            if !self.text.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Pairs for JsonLines<R> {
    fn next_pair(&mut self) -> Result<Option<Pair>, Unreadable> {
        if !self.read_line()? {
            return Ok(None);
        }
        let line = self.line;
        let text = self.text.trim_ascii();
        // Where something is in the line, as an error tells it.
        let begin = self.text.len() - self.text.trim_ascii_start().len();
        let column_of = |part: &str| begin + (part.as_ptr() as usize - text.as_ptr() as usize);
        if !text.starts_with(b"{") {
            return Err(Unreadable::at(
                line,
                format!("found {}, expected a JSON object", quote(text)),
            ));
        }
        let object: Object<'_> = serde_json::from_slice(text)
            .map_err(|error| Unreadable::at(line, explain(&error, begin) + &line_ends(text)))?;
        let field = |name: &str| -> Result<Vec<u8>, Unreadable> {
            let find = |name: &str| -> Result<Option<&RawValue>, Unreadable> {
                let mut found = object.0.iter().filter(|(field, _)| field == name);
                let first = found.next().map(|(_, value)| *value);
                match found.next() {
                    None => Ok(first),
                    Some((_, again)) => Err(Unreadable::at(
                        line,
                        format!(
                            "found the field {} again, its value at column {}, expected it once in an object",
                            quote(name.as_bytes()),
                            column_of(again.get()) + 1,
                        ),
                    )),
                }
            };
            let raw = match (find(name)?, find(&format!("{name}{BASE64_SUFFIX}"))?) {
                (Some(_), Some(_)) => {
                    return Err(Unreadable::at(
                        line,
                        format!(
                            "found both {0} and {0}{BASE64_SUFFIX}, expected one of them",
                            name.escape_debug()
                        ),
                    ));
                }
                (None, Some(encoded)) => return decoded(line, encoded),
                (raw, None) => raw,
            };
            let Some(raw) = raw else {
                let mut found: Vec<String> =
                    object.0.iter().map(|(key, _)| quote(key.as_bytes())).collect();
                found.sort();
                return Err(Unreadable::at(
                    line,
                    format!(
                        "found no field {}, expected one in each object; this has {}",
                        quote(name.as_bytes()),
                        if found.is_empty() { "none".to_owned() } else { found.join(", ") },
                    ),
                ));
            };
            let text = raw.get();
            if !text.starts_with('"') {
                return Ok(text.as_bytes().to_vec());
            }
            serde_json::from_str::<String>(text)
                .map(String::into_bytes)
                .map_err(|error| Unreadable::at(line, explain(&error, column_of(text))))
        };
        Ok(Some(Pair { line, key: field(&self.key)?, value: field(&self.value)? }))
    }

    fn record_line(&self) -> u64 {
        self.line
    }
}

/// What else may be the matter with a line that is no JSON.
fn line_ends(text: &[u8]) -> String {
    if !text.contains(&b'\r') {
        return String::new();
    }
    format!(
        "; found a carriage return that no line feed follows: if it ends a line, {TO_LINE_FEEDS} makes it a line feed"
    )
}

/// The bytes of a field in base64.
fn decoded(line: u64, raw: &RawValue) -> Result<Vec<u8>, Unreadable> {
    let text: Option<String> = serde_json::from_str(raw.get()).ok();
    text.and_then(|text| base64::decode(&text)).ok_or_else(|| {
        let found = quote(raw.get().as_bytes());
        Unreadable::at(line, format!("found {found}, expected a string in base64, padded with ="))
    })
}

/// The members of an object in their order: a map would keep one of two of the same name.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The parser saw a part of one line, which begins so many bytes behind its beginning: its own position would mislead.
fn explain(error: &serde_json::Error, begin: usize) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&position) {
        Some(what) => format!("malformed JSON at column {}: {what}", begin + error.column()),
        None => format!("malformed JSON: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[u8]) -> Result<Vec<(u64, String, String)>, String> {
        let mut source = JsonLines::new(text, "key", "value").map_err(|e| e.to_string())?;
        let mut pairs = Vec::new();
        while let Some(pair) = source.next_pair().map_err(|error| error.to_string())? {
            let key = String::from_utf8_lossy(&pair.key).into_owned();
            let value = String::from_utf8_lossy(&pair.value).into_owned();
            pairs.push((pair.line, key, value));
        }
        Ok(pairs)
    }

    #[test]
    fn strings_are_unquoted_and_all_else_keeps_its_text() {
        let text = br#"{"key":"a\n\u00fc","value":"1"}

 { "value" : {"x": [1, 2.50]} , "key": 18446744073709551616.10 }
{"key":true,"value":null,"more":0}"#;
        let expected = [
            (1, "a\nü", "1"),
            (3, "18446744073709551616.10", r#"{"x": [1, 2.50]}"#),
            (4, "true", "null"),
        ];
        let expected = expected.map(|(line, key, value)| (line, key.into(), value.into()));
        assert_eq!(pairs(text), Ok(expected.to_vec()));
        assert_eq!(pairs(b""), Ok(Vec::new()));
    }

    #[test]
    fn fields_in_base64_are_bytes() {
        let text = br#"{"key_base64":"YQo=","value":"1"}
{"key":"b","value_base64":""}"#;
        let expected = [(1, "a\n", "1"), (2, "b", "")];
        let expected = expected.map(|(line, key, value)| (line, key.into(), value.into()));
        assert_eq!(pairs(text), Ok(expected.to_vec()));
        let second = |text: &str| format!("{{\"key\":1,\"value\":2}}\n{text}\n");
        for (text, why) in [
            (
                r#"{"key":"a","key_base64":"YQ==","value":1}"#,
                "line 2: found both key and key_base64",
            ),
            (
                r#"{"key_base64":"YQ","value":1}"#,
                "line 2: found \"\\\"YQ\\\"\", expected a string in base64",
            ),
            (r#"{"key":"a","value_base64":7}"#, "line 2: found \"7\", expected a string in base64"),
        ] {
            let message = pairs(second(text).as_bytes()).unwrap_err();
            assert!(message.starts_with(why), "{message}");
        }
    }

    #[test]
    fn a_field_that_comes_twice_is_refused_and_others_may() {
        let message = pairs(br#"{"key":"a","value":1,"key":"b"}"#).unwrap_err();
        let says = "line 1: found the field \"key\" again, its value at column 28, expected it once in an object";
        assert_eq!(message, says);
        let message = pairs(br#"  {"key":"a","value_base64":"","value_base64":""}"#).unwrap_err();
        assert!(message.contains("\"value_base64\" again, its value at column 47"), "{message}");
        let others = br#"{"more":1,"key":"a","more":2,"value":1}"#;
        assert_eq!(pairs(others), Ok(vec![(1, "a".into(), "1".into())]));
    }

    #[test]
    fn columns_are_counted_from_the_beginning_of_the_line() {
        // Each position is that of the byte which cannot be where it is.
        for (text, column) in [
            (&br#"{"key":"a",}"#[..], 12),
            (br#"   {"key":"a",}"#, 15),
            (br#"{"key":"a","value":"\ud800"}"#, 27),
            (br#"  {"key":"a","value":"\ud800"}"#, 29),
        ] {
            let message = pairs(text).unwrap_err();
            let says = format!("line 1: malformed JSON at column {column}:");
            assert!(message.starts_with(&says), "{message}, expected {column}");
        }
    }

    #[test]
    fn malformed_lines_are_named() {
        let message = |text: &[u8]| pairs(text).unwrap_err();
        let good = br#"{"key":"a","value":"1"}"#;
        let after_good = |line: &[u8]| message(&[good, &b"\n"[..], line].concat());
        assert!(
            after_good(br#"{"key":"a","value"#).starts_with("line 2: malformed JSON at column")
        );
        assert!(!after_good(br#"{"key":"a","value"#).contains("line 1"));
        assert!(
            after_good(b"[1,2]").starts_with("line 2: found \"[1,2]\", expected a JSON object")
        );
        assert_eq!(
            after_good(br#"{"keys":"a","value":2}"#),
            "line 2: found no field \"key\", expected one in each object; \
             this has \"keys\", \"value\""
        );
        assert!(after_good(br#"{"key":"a","value":1} x"#).starts_with("line 2: malformed JSON"));
        assert!(
            after_good(b"{\"key\":\"\xff\",\"value\":1}").starts_with("line 2: malformed JSON")
        );
        assert!(after_good(br#"{"key":"\ud800","value":1}"#).starts_with("line 2: malformed JSON"));
    }
}
