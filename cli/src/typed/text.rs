//! Keys and values of a recorded shape as text, and back to the same bytes.
//!
//! | shape | its text |
//! |---|---|
//! | number, `bool` | as Rust writes it |
//! | `char` | the character |
//! | `[u8; N]` | `0x` and two digits for each byte |
//! | struct | a JSON object; its fields may be read in any order |
//! | other array, tuple | a JSON array |
//!
//! Inside of JSON a `char` and a `[u8; N]` are strings, and so is a float that is no number. `0x` and two digits for
//! each byte is also the text of a value without a shape, and of bytes that the shape has no text for: a damaged
//! `bool`, an unusual NaN.

use std::fmt::Write;

use firndex::{Shape, Simple};

/// The text of the bytes.
pub(super) fn of_bytes(shape: Option<&Shape>, bytes: &[u8]) -> String {
    let Some(shape) = shape else { return hex(bytes) };
    let mut text = String::new();
    match shape {
        Shape::Simple(simple) => simple_text(*simple, bytes, &mut text),
        _ => json(shape, bytes, &mut text),
    }
    // What it would be read as is other bytes.
    if to_bytes(Some(shape), bytes.len(), &text).as_deref() == Ok(bytes) {
        text
    } else {
        hex(bytes)
    }
}

/// The bytes that the text stands for; or what was expected.
pub(super) fn to_bytes(shape: Option<&Shape>, len: usize, text: &str) -> Result<Vec<u8>, String> {
    let expected = || match shape {
        Some(shape) => shape.to_string(),
        None => format!("0x and {} digits", 2 * len),
    };
    let parsed = match shape {
        Some(Shape::Simple(simple)) => simple_bytes(*simple, text),
        Some(shape) => {
            let mut reader = Reader { rest: text };
            let mut bytes = Vec::with_capacity(len);
            let read = reader.value(shape, &mut bytes);
            (read.is_some() && reader.rest.trim_ascii().is_empty()).then_some(bytes)
        }
        None => None,
    };
    parsed.or_else(|| of_hex(text).filter(|bytes| bytes.len() == len)).ok_or_else(expected)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

/// The bytes as the type's array; they have its size, since the shape has.
macro_rules! number {
    ($type:ty, $bytes:expr) => {
        $bytes.first_chunk().map_or_else(Default::default, |bytes| <$type>::from_le_bytes(*bytes))
    };
}

fn simple_text(simple: Simple, bytes: &[u8], text: &mut String) {
    let _ = match simple {
        Simple::U8 => write!(text, "{}", number!(u8, bytes)),
        Simple::U16 => write!(text, "{}", number!(u16, bytes)),
        Simple::U32 => write!(text, "{}", number!(u32, bytes)),
        Simple::U64 => write!(text, "{}", number!(u64, bytes)),
        Simple::U128 => write!(text, "{}", number!(u128, bytes)),
        Simple::I8 => write!(text, "{}", number!(i8, bytes)),
        Simple::I16 => write!(text, "{}", number!(i16, bytes)),
        Simple::I32 => write!(text, "{}", number!(i32, bytes)),
        Simple::I64 => write!(text, "{}", number!(i64, bytes)),
        Simple::I128 => write!(text, "{}", number!(i128, bytes)),
        Simple::F32 => write!(text, "{:?}", number!(f32, bytes)),
        Simple::F64 => write!(text, "{:?}", number!(f64, bytes)),
        Simple::Bool => write!(text, "{}", bytes.first() != Some(&0)),
        Simple::Char => {
            let sign = char::from_u32(number!(u32, bytes));
            write!(text, "{}", sign.unwrap_or(char::REPLACEMENT_CHARACTER))
        }
    };
}

fn simple_bytes(simple: Simple, text: &str) -> Option<Vec<u8>> {
    macro_rules! parsed {
        ($type:ty) => {
            text.parse::<$type>().ok().map(|number| number.to_le_bytes().to_vec())
        };
    }
    match simple {
        Simple::U8 => parsed!(u8),
        Simple::U16 => parsed!(u16),
        Simple::U32 => parsed!(u32),
        Simple::U64 => parsed!(u64),
        Simple::U128 => parsed!(u128),
        Simple::I8 => parsed!(i8),
        Simple::I16 => parsed!(i16),
        Simple::I32 => parsed!(i32),
        Simple::I64 => parsed!(i64),
        Simple::I128 => parsed!(i128),
        Simple::F32 => parsed!(f32),
        Simple::F64 => parsed!(f64),
        Simple::Bool => text.parse::<bool>().ok().map(|truth| vec![truth.into()]),
        Simple::Char => {
            text.parse::<char>().ok().map(|sign| u32::from(sign).to_le_bytes().to_vec())
        }
    }
}

/// Whether JSON has the type's text only in quotes.
fn is_quoted(simple: Simple, text: &str) -> bool {
    match simple {
        Simple::Char => true,
        Simple::F32 | Simple::F64 => text.ends_with(['f', 'N']),
        _ => false,
    }
}

const BYTE: Shape = Shape::Simple(Simple::U8);

fn json(shape: &Shape, bytes: &[u8], text: &mut String) {
    // It is as long as the table says, and what has no bytes is not spelt out, however often it is there.
    let mut rest = bytes;
    let mut next = |part: &Shape| {
        let (own, behind) = rest.split_at(part.bytes().unwrap_or(0).min(rest.len()));
        rest = behind;
        own
    };
    match shape {
        Shape::Simple(simple) => {
            let mut plain = String::new();
            simple_text(*simple, bytes, &mut plain);
            match is_quoted(*simple, &plain) {
                true => text.push_str(&serde_json::Value::from(plain).to_string()),
                false => text.push_str(&plain),
            }
        }
        Shape::Array(element, _) if **element == BYTE => {
            let _ = write!(text, "\"{}\"", hex(bytes));
        }
        Shape::Array(element, count) => {
            let count = if element.bytes() == Some(0) { 0 } else { *count };
            list(text, ('[', ']'), 0..count, |text, _| json(element, next(element), text));
        }
        Shape::Tuple(parts) => {
            list(text, ('[', ']'), parts.iter(), |text, part| json(part, next(part), text));
        }
        Shape::Struct(fields) => list(text, ('{', '}'), fields.iter(), |text, (name, field)| {
            let _ = write!(text, "{}:", serde_json::Value::from(name.as_str()));
            json(field, next(field), text);
        }),
    }
}

fn list<T>(
    text: &mut String,
    (begin, end): (char, char),
    parts: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    text.push(begin);
    for (index, part) in parts.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, part);
    }
    text.push(end);
}

/// Reads JSON by a shape. Numbers are read from their digits, whatever their size.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn takes(&mut self, mark: char) -> bool {
        match self.rest.trim_ascii_start().strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A string in quotes.
    fn string(&mut self) -> Option<String> {
        let text = self.rest.trim_ascii_start();
        let inner = text.strip_prefix('"')?;
        let mut is_escaped = false;
        let end = inner.find(|c: char| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        })?;
        let (quoted, rest) = text.split_at(end + 2);
        self.rest = rest;
        serde_json::from_str(quoted).ok()
    }

    /// A number or a word.
    fn plain(&mut self) -> &'a str {
        let text = self.rest.trim_ascii_start();
        let is_end = |c: char| c.is_ascii_whitespace() || ",]}".contains(c);
        let (plain, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        self.rest = rest;
        plain
    }

    /// Appends the bytes of a value.
    fn value(&mut self, shape: &Shape, bytes: &mut Vec<u8>) -> Option<()> {
        match shape {
            Shape::Simple(simple) => {
                let is_string = self.rest.trim_ascii_start().starts_with('"');
                let text = if is_string { self.string()? } else { self.plain().to_owned() };
                bytes.extend(simple_bytes(*simple, &text)?);
            }
            Shape::Array(element, count) if **element == BYTE => {
                let is_string = self.rest.trim_ascii_start().starts_with('"');
                let text = if is_string { self.string()? } else { self.plain().to_owned() };
                bytes.extend(of_hex(&text).filter(|found| found.len() == *count)?);
            }
            Shape::Array(element, count) => {
                let count = if element.bytes() == Some(0) { 0 } else { *count };
                self.array((0..count).map(|_| &**element), bytes)?;
            }
            Shape::Tuple(parts) => self.array(parts.iter(), bytes)?,
            Shape::Struct(fields) => self.object(fields, bytes)?,
        }
        Some(())
    }

    fn array<'s>(
        &mut self,
        parts: impl Iterator<Item = &'s Shape>,
        bytes: &mut Vec<u8>,
    ) -> Option<()> {
        self.takes('[').then_some(())?;
        for (index, part) in parts.enumerate() {
            (index == 0 || self.takes(',')).then_some(())?;
            self.value(part, bytes)?;
        }
        self.takes(']').then_some(())
    }

    /// All fields, each once, in any order.
    fn object(&mut self, fields: &[(String, Shape)], bytes: &mut Vec<u8>) -> Option<()> {
        self.takes('{').then_some(())?;
        let mut found: Vec<Option<Vec<u8>>> = vec![None; fields.len()];
        for index in 0..fields.len() {
            (index == 0 || self.takes(',')).then_some(())?;
            let name = self.string()?;
            self.takes(':').then_some(())?;
            let at = fields.iter().position(|(field, _)| *field == name)?;
            let mut of_field = Vec::new();
            self.value(&fields[at].1, &mut of_field)?;
            found[at].replace(of_field).is_none().then_some(())?;
        }
        for field in found {
            bytes.extend(field?);
        }
        self.takes('}').then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let simple = prop::sample::select(Simple::ALL.to_vec()).prop_map(Shape::Simple);
        simple.prop_recursive(3, 12, 4, |inner| {
            let named = |parts: Vec<Shape>| {
                let name = |index: usize| ["a", "b \"", "ß", "d"][index].to_owned();
                Shape::Struct(
                    parts.into_iter().enumerate().map(|(at, of)| (name(at), of)).collect(),
                )
            };
            let parts = prop::collection::vec(inner.clone(), 0..4);
            prop_oneof![
                (inner, 0_usize..4)
                    .prop_map(|(element, count)| Shape::Array(element.into(), count)),
                parts.clone().prop_map(Shape::Tuple),
                parts.prop_map(named),
            ]
        })
    }

    proptest! {
        /// Bytes of all kinds, mostly such as are values.
        #[test]
        fn any_bytes_are_read_back(shape in shapes(), seed: Vec<u8>, is_small: bool) {
            let len = shape.bytes().unwrap();
            let byte = |at: usize| seed.get(at % seed.len().max(1)).copied().unwrap_or(0);
            let bytes: Vec<u8> =
                (0..len).map(|at| if is_small { byte(at) % 2 } else { byte(at) }).collect();
            let text = of_bytes(Some(&shape), &bytes);
            prop_assert_eq!(to_bytes(Some(&shape), len, &text), Ok(bytes.clone()), "{}", text);
            prop_assert_eq!(to_bytes(None, len, &of_bytes(None, &bytes)), Ok(bytes));
        }
    }

    #[test]
    fn values_are_written_as_people_write_them() {
        let visit =
            shape("{ page: u32, time: f64, tag: [u8; 2], marks: [bool; 2], sign: (char, i8) }");
        let bytes = [
            &7_u32.to_le_bytes()[..],
            &1.5_f64.to_le_bytes(),
            &[0xab, 0x01, 1, 0],
            &u32::from('"').to_le_bytes(),
            &[0xff],
        ]
        .concat();
        let text = r#"{"page":7,"time":1.5,"tag":"0xab01","marks":[true,false],"sign":["\"",-1]}"#;
        assert_eq!(of_bytes(Some(&visit), &bytes), text);
        let turned = r#" { "sign" : ["\"", -1], "page": 7, "time":1.50, "tag":"0xAB01", "marks":[true ,false]} "#;
        assert_eq!(to_bytes(Some(&visit), bytes.len(), turned), Ok(bytes.clone()));
        for wrong in [
            &text[1..],
            r#"{"page":7}"#,
            &text.replace("time", "page"),
            &text.replace("1.5", "x"),
            &format!("{text}7"),
        ] {
            assert_eq!(
                to_bytes(Some(&visit), bytes.len(), wrong),
                Err(visit.to_string()),
                "{wrong}"
            );
        }
        assert_eq!(of_bytes(Some(&shape("char")), &u32::from(',').to_le_bytes()), ",");
        assert_eq!(of_bytes(Some(&shape("char")), &0xd800_u32.to_le_bytes()), "0x00d80000");
        assert_eq!(of_bytes(Some(&shape("bool")), &[2]), "0x02");
        assert_eq!(of_bytes(Some(&shape("f64")), &f64::NAN.to_le_bytes()), "NaN");
        let unusual = (f64::NAN.to_bits() | 1).to_le_bytes();
        assert_eq!(of_bytes(Some(&shape("f64")), &unusual), "0x010000000000f87f");
        assert_eq!(of_bytes(Some(&shape("[(); 4000000000]")), &[]), "[]");
    }
}
