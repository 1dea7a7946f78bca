//! Showing bytes of unknown make in a message.

use std::fmt::Write;

use crate::count::counted;

/// Bytes shown at most; what is longer is cut, since a message is for reading.
const SHOWN_BYTES: usize = 60;

/// The bytes in quotes, as text if they are UTF-8, escaped where they are not printable.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let mut text = String::from("\"");
    for piece in shown.utf8_chunks() {
        let _ = write!(text, "{}", piece.valid().escape_debug());
        let _ = write!(text, "{}", piece.invalid().escape_ascii());
    }
    text.push('"');
    if shown.len() < bytes.len() {
        let more = counted((bytes.len() - shown.len()) as u64, "byte");
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn text_stays_text_and_the_rest_is_escaped() {
        assert_eq!(quote("grün".as_bytes()), "\"grün\"");
        assert_eq!(quote(b"a\xffb\n"), "\"a\\xffb\\n\"");
        assert_eq!(quote(&[b'x'; 61]), format!("\"{}\" and 1 byte more", "x".repeat(60)));
    }
}
