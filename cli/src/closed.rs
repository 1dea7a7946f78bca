//! Streams that were closed when this process began, as by `firndex get POOL KEY >&-`.
//!
//! The runtime of Rust opens /dev/null in their place before `main` begins. What is then written is lost without an
//! error, and what is read is empty. /dev/null does not tell whether somebody meant it. So this looks before the
//! runtime does. Where Python loads this, it looks then.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::{Errno, fcntl_getfd};
use rustix::stdio::{stdin, stdout};

const STDIN: u8 = 1;
const STDOUT: u8 = 2;

static CLOSED: AtomicU8 = AtomicU8::new(0);

// SAFETY: functions in this section are called before `main`, with arguments that this one may ignore. It needs nothing
// that the runtime prepares, and does not panic.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    let is_closed = |looked: Result<_, Errno>| looked == Err(Errno::BADF);
    let stdin = if is_closed(fcntl_getfd(stdin())) { STDIN } else { 0 };
    let stdout = if is_closed(fcntl_getfd(stdout())) { STDOUT } else { 0 };
    CLOSED.store(stdin | stdout, Ordering::Relaxed);
}

/// The stdin of this process, without a buffer: what is in one, no poll sees. The standard library's takes one that is
/// closed, or open for writing only, for an empty one.
pub(crate) fn stdin_file() -> io::Result<File> {
    demand(STDIN)?;
    Ok(stdin().try_clone_to_owned()?.into())
}

/// The error that writing to a closed stdout would be.
pub(crate) fn demand_stdout() -> io::Result<()> {
    demand(STDOUT)
}

fn demand(stream: u8) -> io::Result<()> {
    match CLOSED.load(Ordering::Relaxed) & stream {
        0 => Ok(()),
        _ => Err(Errno::BADF.into()),
    }
}
