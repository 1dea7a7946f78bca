//! Numbers and times as Redis reads them.

use crate::refusal::{Answer, Refusal};

/// An integer written as Redis writes one: no sign but a minus, no space, no leading zeros.
pub(crate) fn integer(bytes: &[u8]) -> Answer<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = if is_canonical { std::str::from_utf8(bytes).ok() } else { None };
    text.and_then(|text| text.parse().ok()).ok_or(Refusal::NotAnInteger)
}

/// How a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time {
    /// Milliseconds of what is counted.
    pub(crate) unit_ms: i64,
    /// Whether it counts from now, and not from 1970.
    pub(crate) is_relative: bool,
}

/// When a time given as `count` is, in milliseconds since 1970. `None` if it does not fit.
pub(crate) fn ends_ms(count: i64, time: Time, now_ms: u64) -> Option<i64> {
    let since_ms = if time.is_relative { i64::try_from(now_ms).ok()? } else { 0 };
    count.checked_mul(time.unit_ms)?.checked_add(since_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_redis() {
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text.as_bytes()).ok(), Some(number));
        }
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "1a"] {
            assert!(integer(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        let seconds = Time { unit_ms: 1000, is_relative: true };
        assert_eq!(ends_ms(2, seconds, 500), Some(2500));
        assert_eq!(ends_ms(-2, seconds, 500), Some(-1500));
        assert_eq!(ends_ms(i64::MAX / 1000 + 1, seconds, 500), None);
        assert_eq!(ends_ms(i64::MAX / 1000, seconds, 5000), None);
        assert_eq!(ends_ms(7, Time { unit_ms: 1, is_relative: false }, 5), Some(7));
    }
}
