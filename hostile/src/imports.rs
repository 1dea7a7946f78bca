//! Files to load, as the command reads them and as [`model`](crate::model) does.

use crate::choices::Choices;
use crate::input::{Delimited, JsonLines, Pairs, Unreadable};
use crate::model::{self, Reading};
use crate::words::strike_anywhere;
use std::io::BufReader;

/// Sizes of buffers, whose ends cut through everything. A mark at the beginning needs three bytes.
const BUFFERS: [usize; 3] = [3, 5, 1 << 10];
/// Most rows of a file.
const ROWS_MAX: usize = 6;
/// Most blows that fall on one.
const BLOWS_MAX: usize = 4;

/// The key and the value of a well-formed file, and what separates them.
const PIECES: [&[u8]; 16] = [
    b"a",
    b"key",
    b"\"",
    b"\"\"",
    b",",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"\xef\xbb\xbf",
    b"\"a,b\"",
    b"\"1\n2\"",
    b"\xff\xfe",
    b" ",
    b"",
    "gr\u{fc}n".as_bytes(),
];

/// The same for JSON lines.
const MEMBERS: [&str; 22] = [
    r#""key":"a""#,
    r#""value":"b""#,
    r#""key":17"#,
    r#""value":-1.50e+3"#,
    r#""value":null"#,
    r#""value":{"a":[1,2,{}]}"#,
    r#""key_base64":"YQ==""#,
    r#""value_base64":"//79""#,
    r#""value_base64":"YR==""#,
    r#""other":"c""#,
    r#""key":"\u00fc\n\"""#,
    r#""value":"\ud83d\ude00""#,
    r#""value":"\ud800""#,
    r#""k\u0065y":"d""#,
    r#""value":"""#,
    r#""value":1e999"#,
    r#""value":[[[[[[[[]]]]]]]]"#,
    r#""key":true"#,
    r#""key":"x","value":"y""#,
    "",
    "\t",
    "}{",
];

fn all_pairs(source: &mut dyn Pairs) -> Reading {
    let mut pairs = Vec::new();
    loop {
        match source.next_pair() {
            Ok(Some(pair)) => pairs.push((pair.line, pair.key, pair.value)),
            Ok(None) => return Reading { pairs, fault: None },
            Err(error) => return Reading { pairs, fault: Some(line_of(&error)) },
        }
    }
}

/// The line that an error names, in what it says as well.
fn line_of(error: &Unreadable) -> u64 {
    match error {
        Unreadable::Malformed { line, what } => {
            assert!(!what.is_empty() && error.to_string().starts_with(&format!("line {line}: ")));
            *line
        }
        Unreadable::Io(error) => panic!("memory can be read: {error}"),
    }
}

fn read_delimited(text: &[u8], buffer: usize, delimiter: u8, has_header: bool) -> Reading {
    let input = BufReader::with_capacity(buffer, text);
    let opened = if has_header {
        Delimited::new(input, delimiter, None, None)
    } else {
        Delimited::without_header(input, delimiter)
    };
    match opened {
        Ok(mut source) => all_pairs(&mut source),
        Err(error) => Reading { pairs: Vec::new(), fault: Some(line_of(&error)) },
    }
}

/// The text that bytes choose: they are one, or choose its rows and blows.
fn text(data: &[u8], row: impl Fn(&mut Choices<'_>, &mut Vec<u8>)) -> Vec<u8> {
    let mut choices = Choices::new(data);
    if choices.one_in(8) {
        return choices.rest().to_vec();
    }
    let mut text = Vec::new();
    let blows = choices.below(BLOWS_MAX);
    for _ in 0..=choices.below(ROWS_MAX) {
        row(&mut choices, &mut text);
    }
    for _ in 0..blows {
        strike_anywhere(&mut text, 0, &mut choices);
    }
    text.truncate(1 << 12);
    text
}

fn delimited(data: &[u8], delimiter: u8) -> bool {
    let text = text(data, |choices, text| {
        if choices.one_in(2) {
            // A good row.
            let ends: [&[u8]; 3] = [b"\n", b"\r\n", b"\n\n"];
            for _ in 0..2 {
                let field = choices.of(&[0, 1, 10, 11, 15]).map_or(&b"x"[..], |at| PIECES[at]);
                text.extend_from_slice(field);
                text.push(delimiter);
            }
            text.pop();
            text.extend_from_slice(choices.of(&ends).unwrap_or(b"\n"));
        } else {
            for _ in 0..choices.below(8) {
                text.extend_from_slice(choices.of(&PIECES).unwrap_or_default());
            }
        }
    });
    let has_header = text.len().is_multiple_of(2);
    let expected = model::delimited(&text, delimiter, has_header);
    for buffer in BUFFERS {
        let found = read_delimited(&text, buffer, delimiter, has_header);
        assert_eq!(found, expected, "{:?} by {buffer} bytes", text.escape_ascii().to_string());
    }
    expected.fault.is_none()
}

/// Reads a file with commas. Whether it has no fault.
pub fn csv(data: &[u8]) -> bool {
    delimited(data, b',')
}

/// Reads a file with tabs. Whether it has no fault.
pub fn tsv(data: &[u8]) -> bool {
    delimited(data, b'\t')
}

/// Reads lines of JSON. Whether they have no fault.
pub fn jsonl(data: &[u8]) -> bool {
    let text = text(data, |choices, text| {
        let is_good = !choices.one_in(8);
        let count = if is_good { 2 } else { choices.below(5) };
        text.push(b'{');
        for nth in 0..count {
            if nth > 0 {
                text.push(b',');
            }
            let member = if is_good { nth } else { choices.below(MEMBERS.len()) };
            text.extend_from_slice(MEMBERS[member].as_bytes());
        }
        text.extend_from_slice(if choices.one_in(8) { b"} \r\n\n" } else { b"}\n" });
    });
    let read = |buffer: usize| {
        let input = BufReader::with_capacity(buffer, &text[..]);
        match JsonLines::new(input, "key", "value") {
            Ok(mut source) => all_pairs(&mut source),
            Err(error) => Reading { pairs: Vec::new(), fault: Some(line_of(&error)) },
        }
    };
    let found = read(BUFFERS[0]);
    for buffer in &BUFFERS[1..] {
        assert_eq!(read(*buffer), found);
    }
    if model::is_foreign(&text) {
        assert_eq!(found, Reading { pairs: Vec::new(), fault: Some(1) });
        return false;
    }
    // Each line is a pair, up to the one with the fault: none is left out.
    let lines = model::lines(&text);
    let mut expected = lines.iter().map(|line| line.0);
    for (line, ..) in &found.pairs {
        assert_eq!(Some(*line), expected.next(), "{:?}", text.escape_ascii().to_string());
    }
    assert_eq!(found.fault, expected.next(), "{:?}", text.escape_ascii().to_string());
    for ((_, key, value), (_, line)) in found.pairs.iter().zip(&lines) {
        // What else knows JSON may refuse more: a number that is too large, say.
        let Ok(object) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        for (name, found) in [("key", key), ("value", value)] {
            if let Some(serde_json::Value::String(string)) = object.get(name) {
                assert_eq!(string.as_bytes(), &found[..], "{:?}", line.escape_ascii().to_string());
            }
        }
    }
    found.fault.is_none()
}
