//! The owner's serving thread.
//!
//! It looks at all lanes in turn while guests ask, and sleeps when they do not. It waits for nothing: where an answer
//! needs the disk, the thread that writes the log rings for it, and what takes long runs in a thread of its own.

use super::figures::Figures;
use super::rights::Rights;
use super::service::{Failed, Served, ServedScan};
use super::wire::{DONE, Operation, Reader, write_error, write_log_use};
use crate::background::Background;
use crate::{Error, Result};
use pmem::durability::WhenDurable;
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use pmem::meeting::{Bell, Door, LANE_WORDS, LANES, Part, RoomLane, wake};
use pmem::sync::{forks, upheavals};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long the thread looks for the next request before it sleeps.
const LOOKING: Duration = Duration::from_micros(50);
/// How often it looks at lanes alone, before it looks for who comes and goes.
const ROUNDS: u32 = 256;
/// Most words of a request: those of the largest exchange, of two values.
const REQUEST_WORDS_MAX: usize = (KEY_BYTES_MAX + 2 * VALUE_BYTES_MAX) / 8 + LANE_WORDS;
/// Most scans that a guest can have under way.
const SCANS_MAX: usize = 256;
/// Most long operations under way.
const JOBS_MAX: usize = 64;

/// A serving thread, until dropped.
pub(crate) struct Serving {
    bell: Bell,
    thread: Background,
    guests: Arc<AtomicU64>,
    forks_at_start: u32,
}

impl Serving {
    /// Serves guests that come in by this door.
    pub(crate) fn start(
        served: Arc<dyn Served>,
        rights: Rights,
        door: Door,
    ) -> io::Result<Serving> {
        let bell = door.bell();
        let guests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&guests);
        let work = move |is_stopped: &AtomicBool| {
            let rights = Arc::new(rights);
            let mut server = Server::new(door, &served, &rights, count);
            server.serve_until(is_stopped);
        };
        let thread = Background::start("firndex-server", work)?;
        Ok(Serving { bell, thread, guests, forks_at_start: forks() })
    }

    /// How many guests there are.
    pub(crate) fn guests(&self) -> u64 {
        self.guests.load(Ordering::Relaxed)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A forked child has no such thread, and is not to wake its parent's.
        if forks() == self.forks_at_start {
            self.thread.stop();
            self.bell.ring();
        }
    }
}

/// Rings when something survives power loss that an answer waits for.
struct Ringer(Bell);

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.0.ring();
    }
}

/// A lane of a guest, for who comes back to it later.
#[derive(Debug, Clone, Copy)]
struct Place {
    guest: usize,
    /// The guest's own, while its number is used again.
    serial: u64,
    lane: usize,
}

/// An answer that was found elsewhere.
type Elsewhere = (Place, Vec<u64>);

/// What the owner has of a lane.
#[derive(Default)]
struct Desk {
    request: Vec<u64>,
    answer: Vec<u64>,
    /// Words of the answer that were sent.
    sent: usize,
}

struct Guest<'a> {
    serial: u64,
    desks: Vec<Desk>,
    scans: HashMap<u64, Box<dyn ServedScan + 'a>>,
}

/// What becomes of a request.
enum Outcome {
    Answered,
    /// The answer is ready when this is.
    Waits(WhenDurable),
    /// It is done elsewhere.
    Long(Operation),
}

struct Server<'a> {
    door: Door,
    served: &'a Arc<dyn Served>,
    rights: &'a Arc<Rights>,
    guests: Vec<Option<Guest<'a>>>,
    /// How many there are, for others.
    count: Arc<AtomicU64>,
    serials: u64,
    waiting: Vec<(WhenDurable, Place)>,
    waker: Waker,
    jobs: Vec<JoinHandle<()>>,
    done: (Sender<Elsewhere>, Receiver<Elsewhere>),
    /// [`upheavals`] that are known not to concern the pool.
    upheavals: u64,
}

impl<'a> Server<'a> {
    fn new(
        door: Door,
        served: &'a Arc<dyn Served>,
        rights: &'a Arc<Rights>,
        count: Arc<AtomicU64>,
    ) -> Self {
        let waker = Waker::from(Arc::new(Ringer(door.bell())));
        Server {
            door,
            served,
            rights,
            guests: Vec::new(),
            count,
            serials: 0,
            waiting: Vec::new(),
            waker,
            jobs: Vec::new(),
            done: channel(),
            upheavals: u64::MAX,
        }
    }

    fn serve_until(&mut self, is_stopped: &AtomicBool) {
        let mut asked = Vec::new();
        let mut busy_until = Instant::now();
        let mut rounds = 0u32;
        while !is_stopped.load(Ordering::Relaxed) {
            if self.serve_once(&mut asked) {
                busy_until = Instant::now() + LOOKING;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS) {
                self.attend(Some(Duration::ZERO));
            }
            if Instant::now() < busy_until {
                std::hint::spin_loop();
                continue;
            }
            self.door.set_asleep(true);
            // Who stops it rings as well, so that is not overlooked.
            if !self.door.is_asked() {
                self.attend(None);
            }
            self.door.set_asleep(false);
            busy_until = Instant::now() + LOOKING;
        }
        self.jobs.drain(..).for_each(|job| drop(job.join()));
    }

    /// Serves everything that is asked now. Returns whether that was anything.
    fn serve_once(&mut self, asked: &mut Vec<(usize, usize)>) -> bool {
        asked.clear();
        for (guest, visitor) in self.door.visitors() {
            let lanes = visitor.lanes().enumerate();
            asked.extend(lanes.filter(|(_, lane)| lane.is_asked()).map(|(lane, _)| (guest, lane)));
        }
        for &(guest, lane) in &*asked {
            self.serve(guest, lane);
        }
        self.finish_waiting();
        !asked.is_empty()
    }

    /// Lets guests in and out, and sees to what was done elsewhere.
    fn attend(&mut self, wait: Option<Duration>) {
        let mut gone = Vec::new();
        if self.door.attend(wait, &mut gone).is_err() {
            // It would fail at once again.
            std::thread::sleep(LOOKING);
        }
        for guest in gone {
            if let Some(former) = self.guests.get_mut(guest) {
                *former = None;
            }
        }
        self.count.store(self.door.count() as u64, Ordering::Relaxed);
        self.finish_waiting();
        while let Ok((place, answer)) = self.done.1.try_recv() {
            if let Some((desk, lane)) = self.find(place) {
                desk.answer = answer;
                begin_answer(desk, lane);
            }
        }
        self.jobs.retain(|job| !job.is_finished());
    }

    fn finish_waiting(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        let mut ready = Vec::new();
        self.waiting.retain_mut(|(future, place)| match Pin::new(future).poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                ready.push((*place, result));
                false
            }
        });
        for (place, result) in ready {
            let Some((desk, lane)) = self.find(place) else { continue };
            if let Err(error) = result {
                desk.answer.clear();
                write_error(&mut desk.answer, &Error::Log(error));
            }
            begin_answer(desk, lane);
        }
    }

    /// What is asked at a place, if its guest is still there.
    fn find(&mut self, place: Place) -> Option<(&mut Desk, &RoomLane)> {
        let visitor = self.door.visitor(place.guest)?;
        let guest = self.guests.get_mut(place.guest)?.as_mut()?;
        let desk = guest.desks.get_mut(place.lane).filter(|_| guest.serial == place.serial)?;
        Some((desk, visitor.lane(place.lane)))
    }

    fn serve(&mut self, number: usize, lane_number: usize) {
        let Some(visitor) = self.door.visitor(number) else { return };
        let lane = visitor.lane(lane_number);
        if self.guests.len() <= number {
            self.guests.resize_with(number + 1, || None);
        }
        let serials = &mut self.serials;
        let guest = self.guests[number].get_or_insert_with(|| {
            *serials += 1;
            Guest { serial: *serials, desks: Vec::new(), scans: HashMap::new() }
        });
        if guest.desks.len() <= lane_number {
            guest.desks.resize_with((lane_number + 1).min(LANES), Desk::default);
        }
        let desk = &mut guest.desks[lane_number];
        let Some(part) = lane.take(&mut desk.request) else { return };
        if desk.request.len() > REQUEST_WORDS_MAX {
            self.guests[number] = None;
            return self.door.dismiss(number);
        }
        if part.has_more {
            return told(lane.answer(&[], Part::WHOLE), lane);
        }
        if !part.is_first && desk.sent < desk.answer.len() {
            // It asks for the rest of the answer.
            return answer_on(desk, lane);
        }
        let place = Place { guest: number, serial: guest.serial, lane: lane_number };
        desk.answer.clear();
        let seen = &mut self.upheavals;
        let request = Asked { served: self.served, rights: self.rights };
        match request.execute(&desk.request, &mut guest.scans, &mut desk.answer, seen) {
            Ok(Outcome::Answered) => begin_answer(desk, lane),
            Ok(Outcome::Waits(future)) => self.waiting.push((future, place)),
            Ok(Outcome::Long(operation)) => self.begin_job(operation, place),
            Err(failed) => {
                desk.answer.clear();
                failed.write(&mut desk.answer);
                begin_answer(desk, lane);
            }
        }
    }

    fn begin_job(&mut self, operation: Operation, place: Place) {
        let (served, rights) = (Arc::clone(self.served), Arc::clone(self.rights));
        let (done, bell) = (self.done.0.clone(), self.door.bell());
        let guests = self.count.load(Ordering::Relaxed);
        let work = move || {
            let mut answer = vec![DONE];
            if let Err(error) = run_long(&*served, &rights, operation, guests, &mut answer) {
                answer.clear();
                write_error(&mut answer, &error);
            }
            if done.send((place, answer)).is_ok() {
                bell.ring();
            }
        };
        self.jobs.retain(|job| !job.is_finished());
        let refusal = match self.jobs.len() {
            JOBS_MAX.. => io::ErrorKind::WouldBlock.into(),
            _ => match Builder::new().name("firndex-job".into()).spawn(work) {
                Ok(job) => return self.jobs.push(job),
                Err(error) => error,
            },
        };
        if let Some((desk, lane)) = self.find(place) {
            let error = Error::Io { action: "starting a thread for it", source: refusal };
            write_error(&mut desk.answer, &error);
            begin_answer(desk, lane);
        }
    }
}

/// Sends the answer, or its first part.
fn begin_answer(desk: &mut Desk, lane: &RoomLane) {
    desk.sent = 0;
    desk.request.clear();
    answer_on(desk, lane);
}

fn answer_on(desk: &mut Desk, lane: &RoomLane) {
    let from = desk.sent;
    desk.sent = desk.answer.len().min(from + LANE_WORDS);
    let part = Part { is_first: from == 0, has_more: desk.sent < desk.answer.len() };
    told(lane.answer(&desk.answer[from..desk.sent], part), lane);
}

fn told(sleeps: bool, lane: &RoomLane) {
    if sleeps {
        wake(lane);
    }
}

/// What a request is carried out with.
struct Asked<'s, 'a> {
    served: &'a Arc<dyn Served>,
    rights: &'s Rights,
}

impl<'a> Asked<'_, 'a> {
    fn execute(
        &self,
        request: &[u64],
        scans: &mut HashMap<u64, Box<dyn ServedScan + 'a>>,
        answer: &mut Vec<u64>,
        seen: &mut u64,
    ) -> std::result::Result<Outcome, Failed> {
        let mut request = Reader(request);
        let operation = request.operation()?;
        self.look(seen)?;
        let (served, rights) = (&**self.served, self.rights);
        match operation {
            Operation::Get | Operation::GetMany => served.serve(operation, &mut request, answer)?,
            Operation::Insert
            | Operation::Update
            | Operation::Upsert
            | Operation::Remove
            | Operation::CompareExchange
            | Operation::InsertMany
            | Operation::UpdateMany
            | Operation::UpsertMany
            | Operation::RemoveMany => {
                let write = rights.enter()?;
                served.serve(operation, &mut request, answer)?;
                drop(write);
                if let Some(log) = rights.log.as_ref().filter(|_| rights.commits) {
                    self.look(seen)?;
                    return Ok(Outcome::Waits(log.when_durable(log.ticket())));
                }
            }
            Operation::Scan => {
                let number = request.word()?;
                if scans.len() == SCANS_MAX {
                    let found = format!("this process has {SCANS_MAX} scans under way already");
                    return Err(Error::Owner { found }.into());
                }
                scans.insert(number, served.scan());
                answer.push(DONE);
            }
            Operation::ScanOn => {
                let number = request.word()?;
                let scan = scans.get_mut(&number).ok_or(Error::Interrupted)?;
                answer.push(DONE);
                let goes_on = scan.go_on(answer)?;
                answer.push(goes_on.into());
                if !goes_on {
                    scans.remove(&number);
                }
            }
            Operation::ScanOff => {
                scans.remove(&request.word()?);
                answer.push(DONE);
            }
            Operation::Len if served.body().is_built() => {
                answer.extend([DONE, served.body().pairs()]);
            }
            Operation::Ticket | Operation::DurableUpTo => {
                let log = rights.log()?;
                let of = match operation {
                    Operation::Ticket => log.map(|log| log.ticket()),
                    _ => log.map(|log| log.durable_up_to()),
                };
                answer.extend([DONE, of.unwrap_or(0)]);
            }
            Operation::WaitDurable => {
                let ticket = request.word()?;
                answer.push(DONE);
                if let Some(log) = rights.log()? {
                    return Ok(Outcome::Waits(log.when_durable(ticket)));
                }
            }
            Operation::Sync if rights.log.is_some() => {
                answer.push(DONE);
                if let Some(log) = &rights.log {
                    return Ok(Outcome::Waits(log.when_durable(log.ticket())));
                }
            }
            Operation::LogUse => {
                answer.push(DONE);
                write_log_use(answer, rights.log_use().as_ref());
            }
            // Figures are counted in every block, and what is not built yet would be waited for.
            Operation::Figures
            | Operation::Len
            | Operation::Sync
            | Operation::Shrink
            | Operation::Compact => return Ok(Outcome::Long(operation)),
        }
        self.look(seen)?;
        Ok(Outcome::Answered)
    }

    /// Refuses a pool that has lost a page: what was read may be zeros for it.
    fn look(&self, seen: &mut u64) -> Result<()> {
        let now = upheavals();
        if now != *seen {
            self.rights.look()?;
            *seen = now;
        }
        Ok(())
    }
}

fn run_long(
    served: &dyn Served,
    rights: &Rights,
    operation: Operation,
    guests: u64,
    answer: &mut Vec<u64>,
) -> Result<()> {
    let body = served.body();
    match operation {
        Operation::Len => answer.push(body.pairs()),
        Operation::Figures => Figures::of(body, &rights.of_pool(), guests).write(answer),
        Operation::Shrink => {
            let write = rights.enter()?;
            let halved = body.shrink()? == index::Shrunk::Halved;
            drop(write);
            answer.push(halved.into());
        }
        Operation::Compact => {
            let write = rights.enter()?;
            answer.push(body.compact());
            drop(write);
        }
        _ => {
            body.settle();
            let synced = rights.pool.sync_counted(&|| Some(body.pairs()));
            synced.map_err(|source| Error::Io { action: "syncing the pool", source })?;
        }
    }
    rights.look()
}
