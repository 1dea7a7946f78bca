//! Signals that would end a process where a call can as well report an error.

use std::io;

/// From now on a call that would make a file longer than the process may (`ulimit -f`) fails, and the process is not
/// sent SIGXFSZ, which ends it. For a program as a whole to decide: its other files are concerned, too, and so are the
/// programs that it starts.
pub fn ignore_file_limit_signal() -> io::Result<()> {
    // SAFETY: ignoring a signal interrupts nobody.
    match unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
