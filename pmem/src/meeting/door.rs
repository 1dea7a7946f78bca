//! The owner's side: a socket where guests come in, and a room for each of them.

use super::hello::Hello;
use super::room::{Page, Room, RoomLane};
use super::socket::{address, beside, socket};
use crate::file::{Located, Ownership, Withheld};
use crate::view::View;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Guests that may wait to be let in.
const BACKLOG: i32 = 128;
/// What an event is about, if not a guest.
const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;
/// Events taken at once.
const EVENTS: usize = 64;
/// Turns for one event: others wait, and the event comes again.
const TURNS_MAX: usize = 16;
/// Most guests; fewer if the process may have fewer descriptors.
const VISITORS_MAX: u64 = 4096;
/// For how long nobody is let in after that has failed for want of something.
const DEAF: Duration = Duration::from_millis(10);

/// So many guests are looked at all the time; of more only those that ask now and then, and the others ring. A look at
/// a guest's lanes takes some cache misses, so with a thousand guests each request would wait for as many.
const WATCHED_ALWAYS: usize = 8;

/// A guest.
#[derive(Debug)]
pub struct Visitor {
    /// Dropped before the socket is closed: after that something else may get its number.
    _withheld: Withheld,
    socket: OwnedFd,
    room: Room,
    is_watched: bool,
    /// Since somebody last asked that.
    has_asked: bool,
}

impl Visitor {
    /// The lanes that the guest has used so far.
    #[inline]
    pub fn lanes(&self) -> impl Iterator<Item = &RoomLane> {
        (0..self.room.lanes_used()).map(|lane| self.room.lane(lane))
    }

    /// One of its lanes.
    ///
    /// # Panics
    ///
    /// If there is no such lane.
    pub fn lane(&self, lane: usize) -> &RoomLane {
        self.room.lane(lane)
    }
}

/// Wakes the owner's serving thread; from any thread.
#[derive(Debug, Clone)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        // If that is too much for the counter, it has been rung.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// Where guests come in. It belongs to the thread that serves them.
#[derive(Debug)]
pub struct Door {
    /// Dropped before these are closed.
    _withheld: [Withheld; 2],
    /// What is said to a guest. Nobody is let in before there is something to say.
    hello: Option<Hello>,
    /// What they see by themselves.
    view: Option<Arc<View>>,
    socket: Located,
    /// The socket's inode: another owner's may have the name when this one's is removed.
    inode: Option<u64>,
    listener: OwnedFd,
    events: OwnedFd,
    bell: Bell,
    page: Page,
    page_memory: OwnedFd,
    /// Guests by their numbers, which are used again.
    visitors: Vec<Option<Visitor>>,
    count: Arc<AtomicU64>,
    visitors_max: usize,
    /// Numbers of guests whose lanes are looked at.
    watched: Vec<usize>,
    /// Closed for a moment when there are no descriptors left: to turn a guest away takes one.
    spare: Option<OwnedFd>,
    /// Until when nobody is let in.
    deaf_until: Option<Instant>,
}

impl Door {
    /// Opens the door of the pool at `pool`, whose lock the caller has, and whose file has this inode and identity. Who
    /// may write the pool may come; it waits until there is a [hello](Door::greet_with).
    pub fn open(pool: &Located, inode: u64, uuid: u128, ownership: Ownership) -> io::Result<Door> {
        let listener = socket()?;
        let named = beside(pool, inode, uuid);
        match named.unlink() {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // The new name has these permissions from the beginning.
        rustix::fs::fchmod(&listener, Mode::from_bits_truncate(ownership.mode()))?;
        rustix::net::bind(&listener, &address(&named)?)?;
        let opened = Door::opened(&named, listener, ownership);
        if opened.is_err() {
            let _ = named.unlink();
        }
        opened
    }

    fn opened(named: &Located, listener: OwnedFd, ownership: Ownership) -> io::Result<Door> {
        give(named, ownership)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        watch(&events, bell.as_fd(), BELL)?;
        let (page, page_memory) = Page::make()?;
        let withheld = [withhold(listener.as_fd())?, withhold(events.as_fd())?];
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Ok(Door {
            hello: None,
            view: None,
            inode: named.inode(),
            socket: named.clone(),
            listener,
            events,
            bell: Bell(bell),
            page,
            page_memory,
            visitors: Vec::new(),
            count: Arc::default(),
            watched: Vec::new(),
            visitors_max: descriptors.map_or(VISITORS_MAX, |most| VISITORS_MAX.min(most / 2))
                as usize,
            spare: spare(),
            deaf_until: None,
            _withheld: withheld,
        })
    }

    /// Says this to guests, gives them the view, and lets them in, from now on.
    pub fn greet_with(&mut self, hello: Hello, view: Option<Arc<View>>) -> io::Result<()> {
        self.hello = Some(hello);
        self.view = view;
        watch(&self.events, self.listener.as_fd(), LISTENER)
    }

    /// What wakes the serving thread.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    #[cfg(test)]
    pub(super) fn hello(&self) -> Hello {
        self.hello.unwrap()
    }

    #[cfg(test)]
    pub(super) fn events(&self) -> &OwnedFd {
        &self.events
    }

    /// The guests, with their numbers.
    pub fn visitors(&self) -> impl Iterator<Item = (usize, &Visitor)> {
        let numbered = self.visitors.iter().enumerate();
        numbered.filter_map(|(number, visitor)| Some((number, visitor.as_ref()?)))
    }

    /// The guests to look at, with their numbers. The others ring when they ask.
    pub fn watched(&self) -> impl Iterator<Item = (usize, &Visitor)> {
        self.watched.iter().filter_map(|&number| Some((number, self.visitor(number)?)))
    }

    /// Whether some guests ring when they ask, although the owner is awake.
    pub fn has_resting(&self) -> bool {
        self.watched.len() < self.count()
    }

    /// A guest has asked something.
    pub fn note_asking(&mut self, number: usize) {
        if let Some(Some(visitor)) = self.visitors.get_mut(number) {
            visitor.has_asked = true;
        }
    }

    /// Looks no more at guests that have not asked since this was called last, if there are many.
    pub fn rest_from_idle(&mut self) {
        if self.watched.len() <= WATCHED_ALWAYS {
            return;
        }
        let visitors = &mut self.visitors;
        self.watched.retain(|&number| {
            let Some(Some(visitor)) = visitors.get_mut(number) else { return false };
            if std::mem::take(&mut visitor.has_asked) {
                return true;
            }
            visitor.room.doze().set_asleep(true);
            // Who asks from here on rings. Who has asked meanwhile may have overlooked that it was to.
            let is_asked = visitor.lanes().any(RoomLane::is_asked);
            if is_asked {
                visitor.room.doze().set_asleep(false);
            }
            visitor.is_watched = is_asked;
            is_asked
        });
    }

    fn watch_visitor(&mut self, number: usize) {
        if let Some(Some(visitor)) = self.visitors.get_mut(number)
            && !visitor.is_watched
        {
            visitor.is_watched = true;
            visitor.has_asked = true;
            visitor.room.doze().set_asleep(false);
            self.watched.push(number);
        }
    }

    /// The guest with this number.
    pub fn visitor(&self, number: usize) -> Option<&Visitor> {
        self.visitors.get(number)?.as_ref()
    }

    /// How many guests there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// How many guests there are, for other threads. A guest that has been greeted is among them.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.count)
    }

    /// Says whether guests must ring for the serving thread. Look at all lanes after saying so, before you sleep.
    pub fn set_asleep(&self, asleep: bool) {
        self.page.doze().set_asleep(asleep);
    }

    /// Lets in who waits, and takes leave of who has gone, whose numbers are added to `gone`. Sleeps until there is
    /// something to do, for this long at most; for ever if that is `None`.
    pub fn attend(&mut self, wait: Option<Duration>, gone: &mut Vec<usize>) -> io::Result<()> {
        let mut wait = wait;
        if let Some(until) = self.deaf_until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.spare = self.spare.take().or_else(spare);
                let listens = watch(&self.events, self.listener.as_fd(), LISTENER).is_ok();
                self.deaf_until = (!listens).then(|| Instant::now() + DEAF);
            } else {
                wait = Some(wait.map_or(left, |wait| wait.min(left)));
            }
        }
        let timeout = wait.map(|time| rustix::event::Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let found = match epoll::wait(&self.events, &mut events, timeout.as_ref()) {
            Ok((found, _)) => found,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in found {
            match event.data.u64() {
                LISTENER => self.let_in(),
                BELL => drop(rustix::io::read(&*self.bell.0, &mut [0; 8])),
                number => self.hear(number as usize, gone),
            }
        }
        Ok(())
    }

    fn let_in(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..TURNS_MAX {
            match rustix::net::accept_with(&self.listener, flags) {
                // A guest that cannot get a room sees that it is turned away.
                Ok(socket) => drop(self.make_room(socket)),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    if matches!(error, Errno::MFILE | Errno::NFILE) && self.spare.take().is_some() {
                        drop(rustix::net::accept_with(&self.listener, flags));
                        self.spare = spare();
                    }
                    // It would be told of at once again.
                    if epoll::delete(&self.events, &self.listener).is_ok() {
                        self.deaf_until = Some(Instant::now() + DEAF);
                    }
                    return;
                }
            }
        }
    }

    fn make_room(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.count() >= self.visitors_max {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let withheld = withhold(socket.as_fd())?;
        let (room, memory) = Room::make()?;
        let free = self.visitors.iter().position(Option::is_none);
        let number = free.unwrap_or(self.visitors.len());
        // The guest may ask its owner's statistics as soon as it is greeted.
        self.count.fetch_add(1, Ordering::Relaxed);
        let greeted = self.greet(socket.as_fd(), memory.as_fd());
        if let Err(error) =
            greeted.and_then(|()| watch(&self.events, socket.as_fd(), number as u64))
        {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(error);
        }
        let (is_watched, has_asked) = (false, false);
        let visitor = Some(Visitor { socket, room, is_watched, has_asked, _withheld: withheld });
        match free {
            Some(free) => self.visitors[free] = visitor,
            None => self.visitors.push(visitor),
        }
        self.watch_visitor(number);
        Ok(())
    }

    fn greet(&self, socket: BorrowedFd<'_>, room: BorrowedFd<'_>) -> io::Result<()> {
        let mut descriptors = vec![room, self.page_memory.as_fd()];
        descriptors.extend(self.view.as_ref().and_then(|view| view.descriptor()));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let hello = self.hello.ok_or(io::ErrorKind::NotConnected)?.encode();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(socket, &[IoSlice::new(&hello)], &mut control, flags)?;
        Ok(())
    }

    /// A guest has rung, or hung up.
    fn hear(&mut self, number: usize, gone: &mut Vec<usize>) {
        let Some(Some(visitor)) = self.visitors.get(number) else { return };
        for _ in 0..TURNS_MAX {
            match rustix::net::recv(&visitor.socket, &mut [0u8; 16], RecvFlags::DONTWAIT) {
                // A message of no bytes looks as the end does; no guest of ours sends one.
                Ok((_, 0)) => return self.see_off(number, gone),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return self.see_off(number, gone),
            }
        }
        self.watch_visitor(number);
    }

    fn see_off(&mut self, number: usize, gone: &mut Vec<usize>) {
        self.dismiss(number);
        gone.push(number);
    }

    /// Takes leave of a guest.
    pub fn dismiss(&mut self, number: usize) {
        if let Some(visitor) = self.visitors.get_mut(number).and_then(Option::take) {
            // Closing does not suffice where a forked child has a copy of it.
            let _ = epoll::delete(&self.events, &visitor.socket);
            self.watched.retain(|&watched| watched != number);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether anything is asked.
    pub fn is_asked(&self) -> bool {
        self.watched().any(|(_, visitor)| visitor.lanes().any(RoomLane::is_asked))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.socket.inode() == self.inode {
            let _ = self.socket.unlink();
        }
    }
}

/// The name's owner, group and permissions are the pool's. `chmod` once more: the process's mask may have taken some
/// away. Who is only of the pool's group may not give it to the pool's user: then the permissions have to do.
fn give(named: &Located, ownership: Ownership) -> io::Result<()> {
    let stat = named.stat()?;
    let (user, group) = ownership.ids();
    if (stat.st_uid, stat.st_gid) != (user, group) {
        let ids = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let give = |user| rustix::fs::chownat(named.directory(), named.name(), user, ids.1, flags);
        let _ = give(ids.0).or_else(|_| give(None));
    }
    if stat.st_mode & 0o777 != ownership.mode() {
        let mode = Mode::from_bits_truncate(ownership.mode());
        rustix::fs::chmodat(named.directory(), named.name(), mode, AtFlags::empty())?;
    }
    Ok(())
}

/// As [`Withheld::new`]: children that kept a connection would hide the end of this process.
fn withhold(descriptor: BorrowedFd<'_>) -> io::Result<Withheld> {
    Withheld::new(descriptor).ok_or_else(|| io::ErrorKind::QuotaExceeded.into())
}

fn watch(events: &OwnedFd, what: BorrowedFd<'_>, number: u64) -> io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    Ok(epoll::add(events, what, epoll::EventData::new_u64(number), flags)?)
}

fn spare() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
