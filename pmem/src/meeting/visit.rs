//! A guest's side.

use super::hello::{HELLO_BYTES, Hello};
use super::room::{LANES, Page, Room, RoomLane};
use super::socket::{address, beside, socket};
use crate::file::{Located, Ownership, Withheld};
use crate::view::View;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most groups of a process, in Linux.
const GROUPS_MAX: usize = 65_536;

/// Why a visit did not come about.
#[derive(Debug)]
pub enum VisitError {
    /// Nobody is there to visit: there is no owner, or one that admits no guests.
    Nobody,
    /// This process may not visit.
    Forbidden,
    /// There is somebody who has not said a word in the time given.
    Silent,
    /// Somebody else than the pool's owner is there, or one of another version.
    Stranger {
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The operating system refused.
    Io(io::Error),
}

impl From<io::Error> for VisitError {
    fn from(error: io::Error) -> VisitError {
        VisitError::Io(error)
    }
}

impl From<Errno> for VisitError {
    fn from(error: Errno) -> VisitError {
        VisitError::Io(error.into())
    }
}

/// A visit to a pool's owner. It ends with this value, or with the owner.
#[derive(Debug)]
pub struct Visit {
    /// Dropped before the socket is closed: after that something else may get its number.
    _withheld: Option<Withheld>,
    hello: Hello,
    socket: OwnedFd,
    room: Room,
    page: Page,
    view: Option<Arc<View>>,
}

impl Visit {
    /// Goes to the owner of the pool at `pool`, whose file has this inode, identity and ownership, and waits this long
    /// to be let in.
    pub fn begin(
        pool: &Located,
        inode: u64,
        uuid: u128,
        ownership: Ownership,
        patience: Duration,
    ) -> Result<Visit, VisitError> {
        let began = Instant::now();
        let socket = socket()?;
        let address = address(&beside(pool, inode, uuid))?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTSOCK) => {
                    return Err(VisitError::Nobody);
                }
                Err(Errno::ACCESS | Errno::PERM) => return Err(VisitError::Forbidden),
                // Others wait to be let in.
                Err(Errno::AGAIN) if began.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::AGAIN) => return Err(VisitError::Silent),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let withheld = Withheld::new(socket.as_fd());
        if withheld.is_none() {
            // Children would keep it, and hide the end of this process.
            return Err(VisitError::Io(io::ErrorKind::QuotaExceeded.into()));
        }
        trust(&socket, ownership)?;
        await_word(&socket, patience.saturating_sub(began.elapsed()))?;
        let (hello, descriptors) = hear(&socket)?;
        let ([room, page], view) = match &*descriptors {
            [room, page] => ([room, page], None),
            [room, page, view] => ([room, page], Some(view)),
            found => {
                let found = format!("a greeting with {} descriptors", found.len());
                return Err(VisitError::Stranger { found, expected: "two or three".into() });
            }
        };
        if hello.uuid != uuid {
            let found = format!("the owner of pool {:032x}", hello.uuid);
            return Err(VisitError::Stranger { found, expected: format!("{uuid:032x}") });
        }
        let (room, page) = (Room::enter(room.as_fd())?, Page::enter(page.as_fd())?);
        // Without addresses for it, this guest asks.
        let view = view.and_then(|view| View::enter(view.as_fd()).ok()).map(Arc::new);
        Ok(Visit { hello, socket, room, page, view, _withheld: withheld })
    }

    /// What the owner said first.
    pub fn hello(&self) -> Hello {
        self.hello
    }

    /// A lane, for one thread at a time.
    ///
    /// # Panics
    ///
    /// If `lane` is not below [`LANES`].
    pub fn lane(&self, lane: usize) -> &RoomLane {
        self.room.lane(lane)
    }

    /// Says that a lane is used from now on.
    pub fn use_lane(&self, lane: usize) {
        self.room.use_lane(lane.min(LANES - 1));
    }

    /// Rings for the owner, if it sleeps, or does not look at this guest's lanes. Returns whether it sleeps. To be
    /// called after something was [asked](super::Lane::ask).
    #[inline]
    pub fn ring_if_asleep(&self) -> bool {
        let is_asleep = self.page.doze().is_asleep();
        if is_asleep || self.room.doze().is_asleep() {
            self.ring();
        }
        is_asleep
    }

    #[cold]
    fn ring(&self) {
        // A full queue of rings is as good as one; an owner that is gone is noticed otherwise.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(&self.socket, b"!", flags);
    }

    /// What the owner lets its guests see by themselves, once: mapped for as long as it is kept.
    pub fn take_view(&mut self) -> Option<Arc<View>> {
        self.view.take()
    }

    /// Whether the owner has gone, or has shown this guest out.
    pub fn is_over(&self) -> bool {
        self.is_over_within(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Returns when that is so, or when this guest has hung up.
    pub fn await_end(&self) {
        while !self.is_over_within(None) {}
    }

    fn is_over_within(&self, time: Option<&Timespec>) -> bool {
        let mut asked = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::RDHUP)];
        match poll(&mut asked, time) {
            // It says nothing after its greeting.
            Ok(found) => found > 0,
            Err(error) => error != Errno::INTR,
        }
    }

    /// Hangs up. The visit is over.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// An error if the other side is nobody who would own a pool with this ownership.
fn trust(socket: &OwnedFd, ownership: Ownership) -> Result<(), VisitError> {
    let peer = credentials_of_peer(socket)?;
    let (user, group) = ownership.ids();
    let may_write = [0, user, rustix::process::geteuid().as_raw()].contains(&peer.uid)
        || ownership.mode() & 0o020 != 0
            && (peer.gid == group || groups_of_peer(socket).contains(&group))
        || ownership.mode() & 0o002 != 0;
    if may_write {
        return Ok(());
    }
    let found = format!("a process of user {}", peer.uid);
    let expected = format!("one that may write the pool, which is user {user}'s");
    Err(VisitError::Stranger { found, expected })
}

/// The process at the other side. In another namespace of processes it has number 0 here, which rustix takes for an
/// error.
fn credentials_of_peer(socket: &OwnedFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel stores at most so many bytes.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut bytes,
        )
    };
    if told == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}

/// Further groups of the process at the other side; none where the system does not tell.
fn groups_of_peer(socket: &OwnedFd) -> Vec<u32> {
    let mut groups = vec![0u32; GROUPS_MAX];
    let mut bytes = size_of_val(&*groups) as libc::socklen_t;
    // SAFETY: the kernel stores at most so many bytes, and how many there are.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    groups.truncate(if told == 0 { bytes as usize / size_of::<u32>() } else { 0 });
    groups
}

/// Waits until the other side has said something, or hung up.
fn await_word(socket: &OwnedFd, patience: Duration) -> Result<(), VisitError> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut asked = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut asked, Some(&time)) {
            Ok(0) => return Err(VisitError::Silent),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn hear(socket: &OwnedFd) -> Result<(Hello, Vec<OwnedFd>), VisitError> {
    let mut bytes = [0; HELLO_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let heard = {
        let mut into = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(socket, &mut into, &mut control, flags)
    };
    let length = match heard {
        Ok(heard) => heard.bytes,
        // It closed the door.
        Err(Errno::CONNRESET | Errno::PIPE) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    if length == 0 {
        return Err(VisitError::Nobody);
    }
    let hello = Hello::decode(&bytes[..length])
        .map_err(|found| VisitError::Stranger { found, expected: Hello::expected() })?;
    Ok((hello, descriptors))
}
