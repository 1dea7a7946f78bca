//! Progress, on stderr: a bar on a terminal; elsewhere a line for each step that took its time.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Often enough to look alive, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);
/// What takes less is not worth a line.
const WORTH_TELLING: Duration = Duration::from_secs(1);

const OF_BYTES: &str =
    "{msg:>10} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const OF_THINGS: &str = "{msg:>10} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";
const WITHOUT_END: &str = "{msg:>10} {spinner} {human_pos}";
const WITHOUT_STEPS: &str = "{msg:>10} {spinner} {elapsed}";

/// A step of a command, over when dropped.
pub(crate) struct Step {
    bar: ProgressBar,
    ticker: Option<Ticker>,
    what: Cow<'static, str>,
    started: Instant,
}

impl Deref for Step {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.bar
    }
}

impl Step {
    fn ticking(mut self) -> Step {
        self.ticker = Ticker::start(&self.bar);
        self
    }
}

/// A thread that keeps a bar moving, until dropped.
struct Ticker {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ticker {
    /// For a bar that can be seen. Where the system starts no more threads, it stands still.
    fn start(bar: &ProgressBar) -> Option<Ticker> {
        if bar.is_hidden() {
            return None;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (bar, ends) = (bar.clone(), Arc::clone(&is_over));
        let tick = move || {
            while !ends.load(Ordering::Relaxed) {
                bar.tick();
                thread::park_timeout(TICK);
            }
        };
        let thread = thread::Builder::new().name("firndex-bar".into()).spawn(tick).ok()?;
        Some(Ticker { is_over, thread })
    }

    fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // It leaves nothing that anybody needs.
        let _ = self.thread.join();
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(ticker) = self.ticker.take() {
            ticker.stop();
        }
        self.bar.finish_and_clear();
        if let Some(line) =
            line(&self.what, self.started.elapsed(), std::io::stderr().is_terminal())
        {
            output::talk(format_args!("{line}"));
        }
    }
}

/// What is told of a step that is over, if anything.
fn line(what: &str, took: Duration, is_terminal: bool) -> Option<String> {
    let is_worth_telling = !is_terminal && took >= WORTH_TELLING;
    is_worth_telling.then(|| format!("{what} took {:.1} s", took.as_secs_f64()))
}

/// A bar over a known number of bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> Step {
    step(ProgressBar::new(total), what, OF_BYTES)
}

/// A bar over a known number of things.
pub(crate) fn count(what: &'static str, total: u64) -> Step {
    step(ProgressBar::new(total), what, OF_THINGS)
}

/// A spinner over an unknown number of things.
pub(crate) fn unknown(what: &'static str) -> Step {
    step(ProgressBar::no_length(), what, WITHOUT_END).ticking()
}

/// A spinner over work that does not say how far it is.
pub(crate) fn waiting(what: impl Into<Cow<'static, str>>) -> Step {
    step(ProgressBar::no_length(), what, WITHOUT_STEPS).ticking()
}

fn step(bar: ProgressBar, what: impl Into<Cow<'static, str>>, template: &str) -> Step {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let what = what.into();
    Step { bar: bar.with_message(what.clone()), ticker: None, what, started: Instant::now() }
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

    #[test]
    fn long_steps_are_told_where_no_bar_is_seen() {
        let (long, short) = (Duration::from_millis(1234), Duration::from_millis(999));
        assert_eq!(line("checking", long, false).as_deref(), Some("checking took 1.2 s"));
        assert_eq!(line("checking", long, true), None);
        assert_eq!(line("checking", short, false), None);
    }
}
