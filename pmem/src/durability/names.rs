//! The names of files in a pool's [directory](crate::file::SafeDirectory).

/// Two places for checkpoints: one has the last, the other is room for the next.
pub(super) const CHECKPOINTS: [&str; 2] = ["checkpoint.0", "checkpoint.1"];
/// A segment for a disk that has no room left for one.
pub(super) const RESERVE: &str = "log.reserve";
/// Highest number of a segment, so that a next number always exists.
const NUMBER_MAX: u64 = u64::MAX / 2;
/// Highest number with which a log begins, so that it never comes to an end.
pub(super) const FIRST_MAX: u64 = u64::MAX / 4;

/// A segment of the log.
pub(super) fn segment(number: u64) -> String {
    format!("log.{number}")
}

/// The segment's number that a name says, if it is a segment's.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log.")?.parse().ok()?;
    // No other spelling of it is.
    (number <= NUMBER_MAX && name == segment(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_so_is_a_segment() {
        assert_eq!(number_of(&segment(17)), Some(17));
        for name in
            ["log.", "log.+5", "log.05", "log.5.bak", "xlog.5", "log.18446744073709551615", RESERVE]
        {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
