//! Progress bars: on stderr, and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Often enough to look alive, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

const OF_BYTES: &str =
    "{msg:>10} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const OF_THINGS: &str = "{msg:>10} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
const WITHOUT_END: &str = "{msg:>10} {spinner} {human_pos}";
const WITHOUT_STEPS: &str = "{msg:>10} {spinner} {elapsed}";

/// A bar over a known number of bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> ProgressBar {
    styled(ProgressBar::new(total), what, OF_BYTES)
}

/// A bar over a known number of things.
pub(crate) fn count(what: &'static str, total: u64) -> ProgressBar {
    styled(ProgressBar::new(total), what, OF_THINGS)
}

/// A spinner over an unknown number of things.
pub(crate) fn unknown(what: &'static str) -> ProgressBar {
    let bar = styled(ProgressBar::no_length(), what, WITHOUT_END);
    bar.enable_steady_tick(TICK);
    bar
}

/// A spinner over work that does not say how far it is.
pub(crate) fn waiting(what: &'static str) -> ProgressBar {
    let bar = styled(ProgressBar::no_length(), what, WITHOUT_STEPS);
    bar.enable_steady_tick(TICK);
    bar
}

fn styled(bar: ProgressBar, what: &'static str, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_message(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelt template would silently fall back to another look.
    #[test]
    fn templates_are_well_formed() {
        for template in [OF_BYTES, OF_THINGS, WITHOUT_END, WITHOUT_STEPS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
