//! The socket beside a pool.

use crate::file::Located;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// Named after the pool's file and identity, and not after its name: a pool keeps its socket when it is renamed, a name
/// of any length leaves room for it, and copies have sockets of their own. Who may not read the pool does not know the
/// name, and so cannot be the first to have it in a directory where all may make files.
pub(super) fn beside(pool: &Located, inode: u64, uuid: u128) -> Located {
    pool.sibling(OsString::from(format!(".firndex-{uuid:032x}-{inode:x}")))
}

/// Removes the socket that a process has left which was killed. The caller has the lock of the pool, whose file has
/// this inode.
pub fn remove(pool: &Located, inode: u64, uuid: u128) {
    // Most pools have none.
    let _ = beside(pool, inode, uuid).unlink();
}

pub(super) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// An address has room for 107 bytes, so the directory goes by the number of its descriptor.
pub(super) fn address(socket: &Located) -> io::Result<SocketAddrUnix> {
    let directory = PathBuf::from(format!("/proc/self/fd/{}", socket.directory().as_raw_fd()));
    let by_number = directory.join(socket.name());
    // Where there is no /proc, the path may do.
    let path = if directory.exists() { by_number } else { socket.path().into() };
    Ok(SocketAddrUnix::new(path)?)
}
