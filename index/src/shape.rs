//! What keys and values consist of.

use std::fmt;
use std::str::FromStr;

/// Deeper ones are not read: no type is, and a damaged pool must not exhaust the stack.
const DEPTH_MAX: u32 = 64;

/// What a key or a value consists of: the types of its parts in order, and the names of a struct's fields.
///
/// A table records the shapes of its keys and values. Types of one shape can read each other's tables. The name of a
/// struct is no part of its shape, and a struct with one field that has no name has the shape of that field.
///
/// A shape is written as Rust writes such a type without its name:
///
/// ```
/// # use index as firndex;
/// use firndex::{Fixed, Shape};
///
/// let shape = <(u32, [bool; 4])>::shape().unwrap();
/// assert_eq!(shape.to_string(), "(u32, [bool; 4])");
/// let place: Shape = "{ file: u32, offset: u64 }".parse().unwrap();
/// assert_eq!(place.bytes(), Some(12));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A number, a truth value, or a character.
    Simple(Simple),
    /// Equal elements, and how many.
    Array(Box<Shape>, usize),
    /// A tuple, or a struct whose fields have no names.
    Tuple(Vec<Shape>),
    /// A struct's fields, with their names.
    Struct(Vec<(String, Shape)>),
}

macro_rules! simple {
    ($($variant:ident: $type:ty;)+) => {
        /// A type without parts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Simple {
            $($variant),+
        }

        impl Simple {
            /// All of them.
            pub const ALL: &'static [Simple] = &[$(Simple::$variant),+];

            /// What Rust calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Simple::$variant => stringify!($type)),+
                }
            }

            /// Its bytes in a table.
            pub const fn bytes(self) -> usize {
                match self {
                    $(Simple::$variant => size_of::<$type>()),+
                }
            }
        }
    };
}
simple! {
    U8: u8;
    U16: u16;
    U32: u32;
    U64: u64;
    U128: u128;
    I8: i8;
    I16: i16;
    I32: i32;
    I64: i64;
    I128: i128;
    F32: f32;
    F64: f64;
    Bool: bool;
    Char: char;
}

impl Shape {
    /// How many bytes such a key or value has; `None` if that is no number.
    pub fn bytes(&self) -> Option<usize> {
        let sum = |mut parts: std::slice::Iter<'_, Shape>| {
            parts.try_fold(0_usize, |sum, part| sum.checked_add(part.bytes()?))
        };
        match self {
            Shape::Simple(simple) => Some(simple.bytes()),
            Shape::Array(element, count) => element.bytes()?.checked_mul(*count),
            Shape::Tuple(parts) => sum(parts.iter()),
            Shape::Struct(fields) => {
                fields.iter().try_fold(0_usize, |sum, (_, field)| sum.checked_add(field.bytes()?))
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Simple(simple) => f.write_str(simple.name()),
            Shape::Array(element, count) => write!(f, "[{element}; {count}]"),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (index, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(if parts.len() == 1 { ",)" } else { ")" })
            }
            Shape::Struct(fields) if fields.is_empty() => f.write_str("{}"),
            Shape::Struct(fields) => {
                f.write_str("{ ")?;
                for (index, (name, field)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {field}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(" }")
            }
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let mut reader = Reader { rest: text };
        match reader.shape(0).filter(|_| reader.rest.trim().is_empty()) {
            Some(shape) => Ok(shape),
            None => Err(format!("{text:?} is no shape of a key or a value")),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Whether this comes next; then it is behind.
    fn takes(&mut self, mark: char) -> bool {
        match self.rest.trim_start().strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A name or a number.
    fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let is_end = |c: char| c.is_whitespace() || "[](){}:;,".contains(c);
        let (word, rest) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    fn shape(&mut self, depth: u32) -> Option<Shape> {
        if depth == DEPTH_MAX {
            return None;
        }
        if self.takes('[') {
            let element = self.shape(depth + 1)?;
            let count = self.takes(';').then(|| self.word())??.parse().ok()?;
            return self.takes(']').then(|| Shape::Array(element.into(), count));
        }
        if self.takes('(') {
            let parts = self.list(')', |reader| reader.shape(depth + 1))?;
            return Some(Shape::Tuple(parts));
        }
        if self.takes('{') {
            let field = |reader: &mut Self| {
                let name = reader.word()?.to_owned();
                Some((name, reader.takes(':').then(|| reader.shape(depth + 1))??))
            };
            return self.list('}', field).map(Shape::Struct);
        }
        let name = self.word()?;
        let simple = Simple::ALL.iter().find(|simple| simple.name() == name)?;
        Some(Shape::Simple(*simple))
    }

    /// Parts between commas, up to `end`.
    fn list<T>(&mut self, end: char, part: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut parts = Vec::new();
        while !self.takes(end) {
            parts.push(part(self)?);
            if !self.takes(',') {
                return self.takes(end).then_some(parts);
            }
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_written() {
        for text in [
            "u64",
            "[u8; 16]",
            "()",
            "(char,)",
            "(f32, [(i8, bool); 0])",
            "{}",
            "{ file: u32, größe: { x: i128 }, tags: [[u16; 2]; 3] }",
        ] {
            let shape: Shape = text.parse().unwrap();
            assert_eq!(shape.to_string(), text);
        }
        for simple in Simple::ALL {
            assert_eq!(simple.name().parse(), Ok(Shape::Simple(*simple)));
        }
        let large: Shape = "[[u8; 18446744073709551615]; 2]".parse().unwrap();
        assert_eq!(large.bytes(), None);
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        let deep = "[".repeat(100_000);
        let wrong = ["", "u63", "u64 u64", "[u8]", "[u8; x]", "(u8", "{u8}", "{a: }", "(,)", &deep];
        for wrong in wrong {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
    }
}
