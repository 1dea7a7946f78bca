//! The date of a report.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 24 * 60 * 60;

/// Year, month, day, hour and minute of a moment, in UTC.
pub(crate) fn of(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / DAY_S);
    let minutes = seconds % DAY_S / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// The date so many days after 1 January 1970.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let days_of_year = 365 + u64::from(is_leap(year));
        if days < days_of_year {
            break;
        }
        days -= days_of_year;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days_of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < days_of_month {
            break;
        }
        days -= days_of_month;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_have_their_dates() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (68_256_000, "1972-03-01 00:00 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(of(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
    }
}
