//! A hanging test is a failing test.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// By how much slower than usual a machine may be that others use too: what takes longer hangs. Nothing
/// else is judged by time.
const PATIENCE: u64 = 10;

/// Ends the process with a message unless dropped in time.
pub(crate) struct Watchdog {
    _until_dropped: Sender<()>,
}

/// Gives the calling test ten times as long as it may take on a machine of its own. An abort and not a panic: the
/// threads that hang hold on to what the test would have to join.
#[must_use]
pub(crate) fn within(seconds: u64) -> Watchdog {
    let seconds = seconds * PATIENCE;
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let (sender, receiver) = channel::<()>();
    std::thread::spawn(move || {
        if receiver.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
            // Straight to the descriptor: what the test harness captures dies with the process.
            let _ = writeln!(std::io::stderr(), "{name} did not end within {seconds} s: it hangs");
            std::process::abort();
        }
    });
    Watchdog { _until_dropped: sender }
}
