//! Keys in what a check finds.

use std::fmt;

/// Bytes shown at most: findings are for reading.
const SHOWN_BYTES: usize = 60;

/// A key in quotes, as text if it is UTF-8, escaped where it is not printable.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.0.split_at(self.0.len().min(SHOWN_BYTES));
        f.write_str("\"")?;
        for piece in shown.utf8_chunks() {
            write!(f, "{}{}", piece.valid().escape_debug(), piece.invalid().escape_ascii())?;
        }
        f.write_str("\"")?;
        match rest.len() {
            0 => Ok(()),
            1 => f.write_str(" and 1 byte more"),
            more => write!(f, " and {more} bytes more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    #[test]
    fn keys_are_shown_as_text_and_cut() {
        assert_eq!(Shown("grün".as_bytes()).to_string(), "\"grün\"");
        assert_eq!(Shown(b"\"\xff\n").to_string(), "\"\\\"\\xff\\n\"");
        assert_eq!(Shown(&[b'x'; 60]).to_string(), format!("\"{}\"", "x".repeat(60)));
        assert_eq!(
            Shown(&[b'x'; 61]).to_string(),
            format!("\"{}\" and 1 byte more", "x".repeat(60))
        );
        assert!(Shown(&[b'x'; 62]).to_string().ends_with("\" and 2 bytes more"));
    }
}
