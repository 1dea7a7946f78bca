//! What the process may have: length of files, addresses.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;

/// Part of the addresses that a limit leaves which one pool, or one log, takes at most: what else the process needs
/// must find some, too.
pub(crate) const SHARE: u64 = 4;

/// Length that a file of this process may have, if that is limited.
pub(crate) fn file_bytes_max() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// An error if a file may not become `bytes` long. Who just tried it would be sent SIGXFSZ, which ends the process.
pub(crate) fn demand_file_bytes(bytes: u64) -> Result<(), Errno> {
    match file_bytes_max() {
        Some(limit) if bytes > limit => Err(Errno::FBIG),
        _ => Ok(()),
    }
}

/// Whether the system promises no more memory than it has. Of memory that processes share it then refuses a page when
/// that is touched, which ends who touches it.
#[cfg(not(any(feature = "simulated", feature = "loom")))]
pub(crate) fn commits_strictly() -> bool {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    mode.trim() == "2"
}

/// Bytes of addresses that this process may have, if that is limited.
pub(crate) fn address_bytes_max() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Bytes of addresses that a limit leaves. Without /proc nobody can tell what the process has already.
pub(crate) fn address_bytes_left() -> Option<u64> {
    let limit = address_bytes_max()?;
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    let had = pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64);
    Some(limit.saturating_sub(had))
}

/// The error of a call that got no addresses, with the limit that it has met.
pub(crate) fn no_addresses(bytes: u64, refused: Errno) -> io::Error {
    let refused = io::Error::from(refused);
    let Some(limit) = address_bytes_max() else { return refused };
    io::Error::new(
        refused.kind(),
        format!(
            "{bytes} more bytes of addresses were refused ({refused}), and the process may have {limit}: raise that limit \
             (`ulimit -v`)"
        ),
    )
}
