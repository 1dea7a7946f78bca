//! Ctrl-C and `kill` on a run that has a temporary directory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::error::{Error, Result};

/// Set by the signal's handler itself. Ctrl-C also ends the writing process, and a flag set by the
/// thread below could come after the run has noticed that and given up.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Removes the directory if a signal ends this process, and then lets the signal end it, so that
/// whoever sent it sees what they expect. The writing process dies with this one.
pub fn remove_on_signal(directory: PathBuf) -> Result<()> {
    let failed = |error| Error::system("watching for Ctrl-C")(error);
    let mut signals = [SIGINT, SIGTERM]
        .into_iter()
        .try_for_each(|signal| flag::register(signal, Arc::clone(&INTERRUPTED)).map(drop))
        .and_then(|()| Signals::new([SIGINT, SIGTERM]))
        .map_err(failed)?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            // Whether it worked makes no difference to what must follow.
            let _ = std::fs::remove_dir_all(&directory);
            let _ = emulate_default_handler(signal);
            std::process::exit(2);
        }
    };
    thread::Builder::new().spawn(watch).map(drop).map_err(failed)
}

/// Returns at once unless a signal has come, and then never: the pool vanishes under the run, whose
/// complaints about that would only hide why it ends.
pub fn give_way() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}
