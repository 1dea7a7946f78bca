//! The formats that pairs are loaded from and dumped to, and how pairs are written in them.
//!
//! What is written, `input` reads back to the same bytes.
//!
//! | format | a field that is |
//! |---|---|
//! | csv, tsv | in quotes if it has a delimiter, a quote, a line end or a NUL in it; a quote inside quotes is doubled. All other bytes stay as they are, text or not |
//! | jsonl | a string if it is UTF-8 text, named `key` or `value`; otherwise base64, named `key_base64` or `value_base64`. Numbers of tables are numbers |

use std::path::Path;

use clap::ValueEnum;

use crate::base64::{self, BASE64_SUFFIX};
use crate::failure::Failure;
use crate::packed;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Fields between commas
    Csv,
    /// Fields between tabs
    Tsv,
    /// One JSON object on each line
    Jsonl,
}

/// What a file is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Towards {
    Load,
    Dump,
}

/// A key or a value.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// Of a table.
    Number(u64),
    /// Of a store.
    Bytes(&'a [u8]),
}

impl Format {
    /// What the name of a file ends with; csv for `-`.
    pub(crate) fn guess(file: &Path, towards: Towards) -> Result<Format, Failure> {
        if is_stream(file) {
            return Ok(Format::Csv);
        }
        if let Some(format) = Format::of_name(file) {
            return Ok(format);
        }
        let shown = file.display();
        if let Some(packed) = file.extension().and_then(packed::by_extension) {
            let format = file.file_stem().and_then(|stem| Format::of_name(Path::new(stem)));
            let format = format.map_or("FORMAT", Format::name);
            return Err(match towards {
                Towards::Load => Failure::new(
                    format!("{shown} is compressed"),
                    format!("{} {shown} | firndex load POOL - --format {format}", packed.unpack),
                ),
                Towards::Dump => Failure::new(
                    format!("{shown} would be compressed, and dump writes no compressed files"),
                    format!("firndex dump POOL - --format {format} | {} > {shown}", packed.pack),
                ),
            });
        }
        Err(Failure::new(
            format!(
                "the name {shown} ends with none of .csv, .tsv, .jsonl, which would tell its format"
            ),
            "say what it is: --format csv, --format tsv or --format jsonl",
        ))
    }

    fn of_name(file: &Path) -> Option<Format> {
        let extension = file.extension()?.to_ascii_lowercase();
        match extension.to_str()? {
            "csv" => Some(Format::Csv),
            "tsv" | "tab" => Some(Format::Tsv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Jsonl => "jsonl",
        }
    }

    /// Appends what comes before all pairs.
    pub(crate) fn begin(self, out: &mut Vec<u8>) {
        match self {
            Format::Csv => out.extend_from_slice(b"key,value\n"),
            Format::Tsv => out.extend_from_slice(b"key\tvalue\n"),
            Format::Jsonl => {}
        }
    }

    /// Appends a pair.
    pub(crate) fn write(self, key: Field<'_>, value: Field<'_>, out: &mut Vec<u8>) {
        match self {
            Format::Csv => delimited(key, b',', value, out),
            Format::Tsv => delimited(key, b'\t', value, out),
            Format::Jsonl => {
                out.push(b'{');
                member("key", key, out);
                out.push(b',');
                member("value", value, out);
                out.extend_from_slice(b"}\n");
            }
        }
    }
}

/// Whether a file stands for stdin or stdout.
pub(crate) fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn delimited(key: Field<'_>, delimiter: u8, value: Field<'_>, out: &mut Vec<u8>) {
    for (field, end) in [(key, delimiter), (value, b'\n')] {
        match field {
            Field::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Field::Bytes(bytes) => {
                let is_special = |byte: &u8| *byte == delimiter || b"\"\r\n\0".contains(byte);
                if bytes.iter().any(is_special) {
                    quoted(bytes, out);
                } else {
                    out.extend_from_slice(bytes);
                }
            }
        }
        out.push(end);
    }
}

fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for (index, piece) in bytes.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(piece);
    }
    out.push(b'"');
}

/// A member of a JSON object.
fn member(name: &str, field: Field<'_>, out: &mut Vec<u8>) {
    let mut text = |suffix: &str, value: &str| {
        out.extend_from_slice(format!("\"{name}{suffix}\":{value}").as_bytes());
    };
    match field {
        Field::Number(number) => text("", &number.to_string()),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(string) => text("", &serde_json::Value::from(string).to_string()),
            Err(_) => {
                text(BASE64_SUFFIX, "\"");
                base64::encode(bytes, out);
                out.push(b'"');
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Delimited, JsonLines, Pairs};
    use proptest::prelude::*;
    use std::io::BufReader;

    type Written = (Vec<u8>, Vec<u8>);

    /// What `load` reads of what `dump` writes, through a buffer of so many bytes.
    fn read_back(format: Format, pairs: &[Written], buffer_bytes: usize) -> Vec<Written> {
        let mut file = Vec::new();
        format.begin(&mut file);
        for (key, value) in pairs {
            format.write(Field::Bytes(key), Field::Bytes(value), &mut file);
        }
        let input = BufReader::with_capacity(buffer_bytes, &file[..]);
        let mut source: Box<dyn Pairs> = match format {
            Format::Csv => Box::new(Delimited::new(input, b',', None, None).unwrap()),
            Format::Tsv => Box::new(Delimited::new(input, b'\t', None, None).unwrap()),
            Format::Jsonl => Box::new(JsonLines::new(input, "key", "value").unwrap()),
        };
        let mut read = Vec::new();
        while let Some(pair) = source.next_pair().unwrap() {
            read.push((pair.key, pair.value));
        }
        read
    }

    /// Bytes of all kinds, mostly those that mean something in one of the formats.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let special =
            prop::sample::select(b"\"\",\t\r\n\\{}=\0 a\xef\xbb\xbf\xff\xc3\xbc".to_vec());
        let mixed = prop::collection::vec(prop_oneof![special, any::<u8>()], 0..12);
        prop_oneof![mixed, any::<String>().prop_map(String::into_bytes)]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            pairs in prop::collection::vec((bytes(), bytes()), 0..8),
            buffer_bytes in 3usize..40,
        ) {
            for format in [Format::Csv, Format::Tsv, Format::Jsonl] {
                prop_assert_eq!(&read_back(format, &pairs, buffer_bytes), &pairs, "{:?}", format);
            }
        }
    }

    fn written(format: Format, key: Field<'_>, value: Field<'_>) -> String {
        let mut out = Vec::new();
        format.begin(&mut out);
        format.write(key, value, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn fields_are_written_plainly_where_they_can_be() {
        let (plain, quoted) = (Field::Bytes(b"a b"), Field::Bytes(b"1\t2,\"3\""));
        assert_eq!(written(Format::Csv, plain, quoted), "key,value\na b,\"1\t2,\"\"3\"\"\"\n");
        assert_eq!(written(Format::Tsv, quoted, plain), "key\tvalue\n\"1\t2,\"\"3\"\"\"\ta b\n");
        assert_eq!(
            written(Format::Jsonl, Field::Bytes("\u{fc}\n".as_bytes()), Field::Bytes(b"\xff\xfe")),
            "{\"key\":\"\u{fc}\\n\",\"value_base64\":\"//4=\"}\n"
        );
        let (number, most) = (Field::Number(7), Field::Number(u64::MAX));
        assert_eq!(written(Format::Csv, number, most), "key,value\n7,18446744073709551615\n");
        assert_eq!(
            written(Format::Jsonl, number, most),
            "{\"key\":7,\"value\":18446744073709551615}\n"
        );
    }
}
