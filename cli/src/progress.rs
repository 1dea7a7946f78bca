//! Progress, on stderr: a bar on a terminal; elsewhere a line for each step that took its time.

mod line;

use std::borrow::Cow;
use std::io::IsTerminal;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use rustix::termios::tcgetwinsize;

use crate::output;
use line::{Line, Unit};

/// Often enough to look alive, seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);
/// What takes less is not worth a line.
const WORTH_TELLING: Duration = Duration::from_secs(1);
/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// The only part of a bar's template: [`Line`] knows better what a narrow terminal has room for.
const TEMPLATE: &str = "{line}";

/// A step of a command, over when dropped.
pub struct Step {
    bar: ProgressBar,
    ticker: Option<Ticker>,
    what: Arc<Mutex<Cow<'static, str>>>,
    started: Instant,
}

impl Step {
    /// Says what is being done now.
    pub fn tell(&self, what: String) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
        self.bar.tick();
    }
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
        let what = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = told(&what, self.started.elapsed(), std::io::stderr().is_terminal()) {
            output::talk(format_args!("{line}"));
        }
    }
}

/// What is told of a step that is over, if anything.
fn told(what: &str, took: Duration, is_terminal: bool) -> Option<String> {
    let is_worth_telling = !is_terminal && took >= WORTH_TELLING;
    is_worth_telling.then(|| format!("{what} took {:.1} s", took.as_secs_f64()))
}

/// A bar over a known number of bytes.
pub(crate) fn bytes(what: &'static str, total: u64) -> Step {
    step(ProgressBar::new(total), what, Unit::Bytes)
}

/// A bar over a known number of things of this name.
pub fn count(what: &'static str, things: &'static str, total: u64) -> Step {
    step(ProgressBar::new(total), what, Unit::Things(things))
}

/// A spinner over an unknown number of bytes.
pub(crate) fn unknown_bytes(what: &'static str) -> Step {
    ticking(what, Unit::Bytes)
}

/// A spinner over an unknown number of things of this name.
pub fn unknown(what: &'static str, things: &'static str) -> Step {
    ticking(what, Unit::Things(things))
}

/// A spinner over work that does not say how far it is.
pub fn waiting(what: impl Into<Cow<'static, str>>) -> Step {
    ticking(what, Unit::None)
}

fn ticking(what: impl Into<Cow<'static, str>>, unit: Unit) -> Step {
    step(ProgressBar::no_length(), what, unit).ticking()
}

fn step(bar: ProgressBar, what: impl Into<Cow<'static, str>>, unit: Unit) -> Step {
    let what = Arc::new(Mutex::new(what.into()));
    let shown = Arc::clone(&what);
    let line = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let line = Line {
            what: &shown.lock().unwrap_or_else(PoisonError::into_inner),
            unit,
            position: state.pos(),
            total: state.len(),
            per_second: state.per_sec(),
            left: state.eta(),
            elapsed: state.elapsed(),
        };
        let _ = out.write_str(&line.fitted(columns()));
    };
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.with_key("line", line));
    }
    Step { bar, ticker: None, what, started: Instant::now() }
}

/// Columns of the terminal behind stderr but the last, where some terminals already wrap.
fn columns() -> usize {
    let told = tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    (if told == 0 { COLUMNS } else { told }) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelt template would silently fall back to another look.
    #[test]
    fn the_template_is_well_formed() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }

    #[test]
    fn long_steps_are_told_where_no_bar_is_seen() {
        let (long, short) = (Duration::from_millis(1234), Duration::from_millis(999));
        assert_eq!(told("checking", long, false).as_deref(), Some("checking took 1.2 s"));
        assert_eq!(told("checking", long, true), None);
        assert_eq!(told("checking", short, false), None);
    }
}
