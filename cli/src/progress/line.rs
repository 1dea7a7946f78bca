//! The line that shows a step, fitted to the width of its terminal.

use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount, HumanDuration};

/// One turn of the spinner.
const SPINNER: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME: Duration = Duration::from_millis(100);
/// A bar of fewer columns says nothing, and one of more no more.
const BAR_COLUMNS: std::ops::RangeInclusive<usize> = 8..=60;
const SPACE: &str = "  ";

/// What a step counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    None,
    Bytes,
    Things(&'static str),
}

/// How far a step is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) what: &'a str,
    pub(super) unit: Unit,
    pub(super) position: u64,
    /// Where it ends, if that is known.
    pub(super) total: Option<u64>,
    pub(super) per_second: f64,
    pub(super) left: Duration,
    pub(super) elapsed: Duration,
}

impl Line<'_> {
    /// The line in at most so many columns. What matters least is left out first: the bar, the time left, the rate.
    pub(super) fn fitted(&self, columns: usize) -> String {
        let mut parts: Vec<String> = vec![printable(self.what)];
        parts.extend(self.amount());
        match self.total {
            // It is not known yet, or there is nothing to do.
            Some(0) => parts.truncate(1),
            Some(_) => {
                parts.push(self.rate());
                parts.push(format!("{:#} left", HumanDuration(self.left)));
            }
            None => {
                let turns = self.elapsed.as_millis() / FRAME.as_millis();
                parts[0].push(' ');
                parts[0].push(SPINNER[turns as usize % SPINNER.len()]);
                if matches!(self.unit, Unit::None) {
                    parts.push(format!("{:#}", HumanDuration(self.elapsed)));
                }
            }
        }
        while parts.len() > 1 && width(&parts.join(SPACE)) > columns {
            parts.pop();
        }
        let taken = width(&parts.join(SPACE)) + SPACE.len();
        let room = columns.saturating_sub(taken).min(*BAR_COLUMNS.end());
        if let Some(total @ 1..) = self.total
            && BAR_COLUMNS.contains(&room)
        {
            parts.insert(1, bar(self.position, total, room));
        }
        cut(&parts.join(SPACE), columns)
    }

    fn amount(&self) -> Option<String> {
        let Line { position, total, unit, .. } = *self;
        match (unit, total) {
            (Unit::None, _) => None,
            (Unit::Bytes, None) => Some(BinaryBytes(position).to_string()),
            (Unit::Bytes, Some(total)) => {
                Some(format!("{} of {}", BinaryBytes(position), BinaryBytes(total)))
            }
            (Unit::Things(things), None) => Some(format!("{} {things}", HumanCount(position))),
            (Unit::Things(things), Some(total)) => {
                Some(format!("{} of {} {things}", HumanCount(position), HumanCount(total)))
            }
        }
    }

    fn rate(&self) -> String {
        // Steps that have just begun have none.
        let per_second = if self.per_second.is_finite() { self.per_second } else { 0.0 };
        match self.unit {
            Unit::Bytes => format!("{}/s", BinaryBytes(per_second as u64)),
            Unit::Things(_) if per_second < 10.0 => format!("{per_second:.1}/s"),
            Unit::None | Unit::Things(_) => format!("{}/s", HumanCount(per_second.round() as u64)),
        }
    }
}

fn bar(position: u64, total: u64, columns: usize) -> String {
    let part = position.min(total) as f64 / total as f64;
    let done = (part * columns as f64) as usize;
    "█".repeat(done) + &"░".repeat(columns - done)
}

/// Columns that a text takes at most: of characters that are no ASCII, some take two.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(character: char) -> usize {
    let is_narrow =
        character.is_ascii() || "█░…".contains(character) || SPINNER.contains(&character);
    if is_narrow { 1 } else { 2 }
}

/// A text of one line: names of files may have line ends in them, and what terminals take for commands.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The text, or its beginning where it is too wide.
fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 1;
    let fits = |character: &char| {
        taken += char_width(*character);
        taken <= columns
    };
    let mut text: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumping() -> Line<'static> {
        Line {
            what: "dumping",
            unit: Unit::Things("records"),
            position: 123_456,
            total: Some(1_234_567),
            per_second: 653.5923,
            left: Duration::from_secs(1700),
            elapsed: Duration::from_secs(189),
        }
    }

    #[test]
    fn a_line_has_units_and_no_digits_that_mean_nothing() {
        let line = dumping().fitted(79);
        assert!(line.starts_with("dumping  █"), "{line}");
        assert!(line.ends_with("░  123,456 of 1,234,567 records  654/s  28m left"), "{line}");
        let slow = Line { per_second: 0.4321, ..dumping() };
        assert!(slow.fitted(79).contains("  0.4/s  "));
        let bytes = Line { unit: Unit::Bytes, ..dumping() };
        assert!(
            bytes.fitted(79).ends_with("120.56 KiB of 1.18 MiB  653 B/s  28m left"),
            "{}",
            bytes.fitted(79)
        );
        let unknown = Line { unit: Unit::Bytes, total: None, ..dumping() };
        assert!(unknown.fitted(79).ends_with("120.56 KiB"), "{}", unknown.fitted(79));
        let waiting =
            Line { what: "waiting for a\nb\u{1b}", unit: Unit::None, total: None, ..dumping() };
        assert!(waiting.fitted(79).starts_with("waiting for a?b? "), "{}", waiting.fitted(79));
        let begun = Line { per_second: f64::NAN, position: 0, ..dumping() };
        assert!(begun.fitted(79).contains("0 of 1,234,567 records  0.0/s"), "{}", begun.fitted(79));
        assert_eq!(Line { total: Some(0), ..dumping() }.fitted(79), "dumping");
    }

    /// What is wider wraps, and is not cleared as a whole.
    #[test]
    fn no_line_is_wider_than_its_terminal() {
        for what in [
            "dumping",
            "waiting for /a/pool/with/a/long/name/that/never/ends",
            "waiting for 水水水水水水水",
        ] {
            for unit in [Unit::None, Unit::Bytes, Unit::Things("records")] {
                for total in [None, Some(u64::MAX)] {
                    for columns in 0..200 {
                        let line = Line { what, unit, total, position: u64::MAX, ..dumping() };
                        let line = line.fitted(columns);
                        assert!(width(&line) <= columns, "{columns}: {line}");
                    }
                }
            }
        }
        let narrow = dumping().fitted(39);
        assert_eq!(narrow, "dumping  123,456 of 1,234,567 records");
        assert_eq!(dumping().fitted(20), "dumping  █░░░░░░░░░░");
        assert_eq!([9, 5, 0].map(|columns| dumping().fitted(columns)), ["dumping", "dump…", ""]);
    }
}
