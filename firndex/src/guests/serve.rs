//! The owner's serving thread.
//!
//! It looks at all lanes in turn while guests ask, and sleeps when they do not. It waits for nothing that it can leave
//! to others: where an answer needs the disk, the thread that writes the log rings for it; what takes long runs in
//! threads of its own; changes are put aside while a sync keeps writers out.

use super::execute::{Asked, Outcome};
use super::jobs::Jobs;
use super::rights::Rights;
use super::service::{Scans, Served};
use super::wire::{DONE, write_error, write_unfinished};
use crate::Error;
use crate::background::Background;
use index::Done;
use pmem::durability::WhenDurable;
use pmem::heap::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use pmem::meeting::{Bell, Door, Hello, LANE_WORDS, LANES, Part, RoomLane, wake};
use pmem::sync::forks;
use pmem::view::View;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// How long the thread looks for the next request before it sleeps, if it was asked within that time after it fell
/// asleep last. Otherwise it sleeps as soon as it has answered: who asks now and then waits less if the thread runs
/// where the guest does, and that one sleeps meanwhile.
const LOOKING: Duration = Duration::from_micros(50);
/// How often it looks at lanes alone, before it looks for who comes and goes; and while answers wait for the disk, or
/// guests ring when they ask.
const ROUNDS: u32 = 256;
const ROUNDS_WHILE_HEARING: u32 = 16;
/// How long a guest of many may ask nothing before it has to ring when it asks.
const IDLE: Duration = Duration::from_millis(1);
/// How long it sleeps while changes are put aside.
const ASIDE: Duration = Duration::from_micros(200);
/// Most words of a request: those of the largest exchange, of two values.
const REQUEST_WORDS_MAX: usize = (KEY_BYTES_MAX + 2 * VALUE_BYTES_MAX) / 8 + LANE_WORDS;
/// Most words of all requests of a guest that are not whole yet.
const UNFINISHED_WORDS_MAX: usize = 8 * REQUEST_WORDS_MAX;
/// Words of a lane's memory that are kept for the next request.
const KEPT_WORDS: usize = 4 * LANE_WORDS;
/// After this long a scan that nobody goes on with is given up: it keeps replaced values in place.
const SCAN_IDLE_MAX: Duration = Duration::from_secs(60);
/// How often that is looked for.
const SCANS_LOOKED_AT: Duration = Duration::from_secs(1);
/// How long the thread goes on after it was told to stop, for answers that wait for the disk.
const GOES_ON_MAX: Duration = Duration::from_secs(3);

/// A serving thread, until dropped.
pub(crate) struct Serving {
    bell: Bell,
    thread: Background,
    guests: Arc<AtomicU64>,
    /// What guests see.
    view: Option<Arc<View>>,
    forks_at_start: u32,
}

impl Serving {
    /// Serves guests that come in by this door.
    pub(crate) fn start(
        served: Arc<dyn Served>,
        rights: Rights,
        mut door: Door,
        hello: Hello,
    ) -> io::Result<Serving> {
        let view = served.view();
        door.greet_with(hello, view.clone())?;
        let bell = door.bell();
        let guests = door.counter();
        let work = move |is_stopped: &AtomicBool| {
            let rights = Arc::new(rights);
            Server::new(door, &served, &rights).serve_until(is_stopped);
        };
        let thread = Background::start("firndex-server", work)?;
        Ok(Serving { bell, thread, guests, view, forks_at_start: forks() })
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
            if let Some(view) = &self.view {
                // Of a pool that is rewritten, the next owner changes another file.
                view.close();
            }
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
pub(super) struct Place {
    guest: usize,
    /// The guest's own, while its number is used again.
    serial: u64,
    lane: usize,
}

/// What the owner has of a lane.
#[derive(Default)]
struct Desk {
    request: Vec<u64>,
    answer: Vec<u64>,
    /// Words of the answer that were sent.
    sent: usize,
    /// What was asked last is being done elsewhere. Its guest asks nothing before it is answered.
    is_busy: bool,
}

struct Guest<'a> {
    serial: u64,
    desks: Vec<Desk>,
    scans: Scans<'a>,
}

/// An answer that waits for the disk.
struct Waiting {
    future: WhenDurable,
    place: Place,
    /// The entries that were done, if it answers a batch.
    done: Option<Done>,
}

struct Server<'a> {
    door: Door,
    served: &'a Arc<dyn Served>,
    rights: &'a Arc<Rights>,
    guests: Vec<Option<Guest<'a>>>,
    serials: u64,
    waiting: Vec<Waiting>,
    waker: Waker,
    jobs: Jobs<Place>,
    /// Requests that wait for a sync to end.
    aside: Vec<Place>,
    scans_looked_at: Instant,
    /// When the door last rested from guests that ask nothing.
    rested_at: Instant,
    /// [`upheavals`](pmem::sync::upheavals) that are known not to concern the pool.
    upheavals: u64,
}

impl<'a> Server<'a> {
    fn new(door: Door, served: &'a Arc<dyn Served>, rights: &'a Arc<Rights>) -> Self {
        let waker = Waker::from(Arc::new(Ringer(door.bell())));
        Server {
            jobs: Jobs::new(door.bell(), refused),
            door,
            served,
            rights,
            guests: Vec::new(),
            serials: 0,
            waiting: Vec::new(),
            waker,
            aside: Vec::new(),
            scans_looked_at: Instant::now(),
            rested_at: Instant::now(),
            upheavals: u64::MAX,
        }
    }

    fn serve_until(&mut self, is_stopped: &AtomicBool) {
        let mut asked = Vec::new();
        let mut looking = LOOKING;
        let mut busy_until = Instant::now();
        let mut rounds = 0u32;
        while !is_stopped.load(Ordering::Relaxed) {
            if self.serve_once(&mut asked) {
                busy_until = Instant::now() + looking;
            }
            rounds = rounds.wrapping_add(1);
            let may_hear = !self.waiting.is_empty() || self.door.has_resting();
            let every = if may_hear { ROUNDS_WHILE_HEARING } else { ROUNDS };
            if rounds.is_multiple_of(every) {
                self.attend(Some(Duration::ZERO));
            }
            if Instant::now() < busy_until {
                std::hint::spin_loop();
                continue;
            }
            self.door.set_asleep(true);
            let fell_asleep = Instant::now();
            // Who stops it rings as well, so that is not overlooked.
            if !self.door.is_asked() {
                self.attend(self.sleep());
            }
            self.door.set_asleep(false);
            looking = if fell_asleep.elapsed() < LOOKING { LOOKING } else { Duration::ZERO };
            busy_until = Instant::now() + looking;
        }
        self.finish();
    }

    /// How long to sleep at most.
    fn sleep(&self) -> Option<Duration> {
        if !self.aside.is_empty() {
            return Some(ASIDE);
        }
        let has_scans = self.guests.iter().flatten().any(|guest| !guest.scans.is_empty());
        has_scans.then_some(SCANS_LOOKED_AT)
    }

    /// Answers what was begun. Without that its guests would hear that it may have been done or not.
    fn finish(&mut self) {
        let until = Instant::now() + GOES_ON_MAX;
        self.jobs.begin_no_more();
        loop {
            for place in std::mem::take(&mut self.aside) {
                self.serve_again(place);
            }
            self.serve_rests();
            self.attend(Some(Duration::ZERO));
            if Instant::now() >= until || !self.is_amid_anything() {
                break;
            }
            self.attend(Some(ASIDE));
        }
        self.jobs.join();
        self.attend(Some(Duration::ZERO));
    }

    fn is_amid_anything(&self) -> bool {
        let mut desks = self.guests.iter().flatten().flat_map(|guest| &guest.desks);
        !(self.waiting.is_empty() && self.aside.is_empty() && self.jobs.are_done())
            || desks.any(|desk| desk.sent > 0)
    }

    /// Sends the next parts of answers that are on their way.
    fn serve_rests(&mut self) {
        let mut asked = Vec::new();
        for (number, visitor) in self.door.visitors() {
            let Some(Some(guest)) = self.guests.get(number) else { continue };
            let lanes = guest.desks.iter().zip(visitor.lanes()).enumerate();
            let is_asked = |(lane, (desk, asked)): (usize, (&Desk, &RoomLane))| {
                (desk.sent > 0 && asked.is_asked()).then_some((number, lane))
            };
            asked.extend(lanes.filter_map(is_asked));
        }
        for (guest, lane) in asked {
            self.serve(guest, lane);
        }
    }

    /// Serves everything that is asked now. Returns whether that was anything.
    fn serve_once(&mut self, asked: &mut Vec<(usize, usize)>) -> bool {
        for place in std::mem::take(&mut self.aside) {
            self.serve_again(place);
        }
        asked.clear();
        for (guest, visitor) in self.door.watched() {
            let lanes = visitor.lanes().enumerate();
            asked.extend(lanes.filter(|(_, lane)| lane.is_asked()).map(|(lane, _)| (guest, lane)));
        }
        for &(guest, lane) in &*asked {
            self.door.note_asking(guest);
            self.serve(guest, lane);
        }
        !asked.is_empty()
    }

    /// Lets guests in and out, and sees to what was done elsewhere.
    fn attend(&mut self, wait: Option<Duration>) {
        let mut gone = Vec::new();
        if self.door.attend(wait, &mut gone).is_err() {
            // It would fail at once again.
            std::thread::sleep(ASIDE);
        }
        gone.into_iter().for_each(|guest| self.forget(guest));
        if self.rested_at.elapsed() >= IDLE {
            self.rested_at = Instant::now();
            self.door.rest_from_idle();
        }
        self.finish_waiting();
        for (place, answer) in self.jobs.take_done() {
            if let Some((desk, lane)) = self.find(place) {
                desk.answer = answer;
                begin_answer(desk, lane);
            }
        }
        if self.scans_looked_at.elapsed() >= SCANS_LOOKED_AT {
            self.scans_looked_at = Instant::now();
            for guest in self.guests.iter_mut().flatten() {
                guest.scans.retain(|_, (_, since)| since.elapsed() < SCAN_IDLE_MAX);
            }
        }
    }

    fn forget(&mut self, guest: usize) {
        if let Some(former) = self.guests.get_mut(guest) {
            *former = None;
        }
        self.waiting.retain(|waiting| waiting.place.guest != guest);
        self.aside.retain(|place| place.guest != guest);
    }

    fn dismiss(&mut self, guest: usize) {
        self.forget(guest);
        self.door.dismiss(guest);
    }

    fn finish_waiting(&mut self) {
        let mut context = Context::from_waker(&self.waker);
        let mut ready = Vec::new();
        self.waiting.retain_mut(|waiting| match Pin::new(&mut waiting.future).poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                ready.push((waiting.place, waiting.done, result));
                false
            }
        });
        for (place, done, result) in ready {
            let Some((desk, lane)) = self.find(place) else { continue };
            if let Err(error) = result {
                desk.answer.clear();
                let error = Error::Log(error);
                match done {
                    Some(done) => write_unfinished(&mut desk.answer, &error, None, done),
                    None => write_error(&mut desk.answer, &error),
                }
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
        if desk.is_busy {
            // No guest of ours asks again before it is answered.
            return self.dismiss(number);
        }
        let Some(part) = lane.take(&mut desk.request) else { return };
        if part.asks_for_rest {
            // No words come with it.
            desk.request.clear();
            return answer_on(desk, lane);
        }
        if part.is_first {
            desk.answer.clear();
            desk.sent = 0;
        }
        if part.has_more {
            let is_too_long = desk.request.len() > REQUEST_WORDS_MAX;
            let unfinished = guest.desks.iter().filter(|desk| !desk.is_busy);
            let unfinished: usize = unfinished.map(|desk| desk.request.len()).sum();
            if is_too_long || unfinished > UNFINISHED_WORDS_MAX {
                return self.dismiss(number);
            }
            return told(lane.answer(&[], Part::WHOLE), lane);
        }
        let place = Place { guest: number, serial: guest.serial, lane: lane_number };
        self.carry_out(place);
    }

    /// Once more what was put aside.
    fn serve_again(&mut self, place: Place) {
        if self.find(place).is_some() {
            self.carry_out(place);
        }
    }

    /// Does what is asked at a place, of which all words are there.
    fn carry_out(&mut self, place: Place) {
        let Some(visitor) = self.door.visitor(place.guest) else { return };
        let lane = visitor.lane(place.lane);
        let Some(Some(guest)) = self.guests.get_mut(place.guest) else { return };
        let desk = &mut guest.desks[place.lane];
        desk.answer.clear();
        desk.is_busy = true;
        let asked = Asked { served: self.served, rights: self.rights };
        let seen = &mut self.upheavals;
        let executed = catch_unwind(AssertUnwindSafe(|| {
            asked.execute(&desk.request, &mut guest.scans, &mut desk.answer, seen)
        }));
        match executed {
            // Guests are to go on. What has panicked has said so.
            Err(_) => {
                desk.answer = refused("it has panicked");
                begin_answer(desk, lane);
            }
            Ok(Ok(Outcome::Answered)) => begin_answer(desk, lane),
            Ok(Ok(Outcome::PutAside)) => self.aside.push(place),
            Ok(Ok(Outcome::Waits(future, done))) => {
                self.waiting.push(Waiting { future, place, done });
                self.finish_waiting();
            }
            Ok(Ok(Outcome::Long(operation))) => {
                let (served, rights) = (Arc::clone(self.served), Arc::clone(self.rights));
                let guests = self.door.count() as u64;
                let work = move || {
                    let mut answer = vec![DONE];
                    let ran = Asked { served: &served, rights: &rights }.run_long(
                        operation,
                        guests,
                        &mut answer,
                    );
                    if let Err(error) = ran {
                        answer.clear();
                        write_error(&mut answer, &error);
                    }
                    answer
                };
                self.jobs.begin(place, work);
            }
            Ok(Err(error)) => {
                desk.answer.clear();
                write_error(&mut desk.answer, &error);
                begin_answer(desk, lane);
            }
        }
    }
}

/// The answer where something was not done, for this reason.
fn refused(why: &str) -> Vec<u64> {
    let mut answer = Vec::new();
    write_error(&mut answer, &Error::Owner { found: why.into() });
    answer
}

/// Sends the answer, or its first part.
fn begin_answer(desk: &mut Desk, lane: &RoomLane) {
    desk.sent = 0;
    desk.is_busy = false;
    desk.request.clear();
    desk.request.shrink_to(KEPT_WORDS);
    answer_on(desk, lane);
}

fn answer_on(desk: &mut Desk, lane: &RoomLane) {
    let from = desk.sent;
    desk.sent = desk.answer.len().min(from + LANE_WORDS);
    let has_more = desk.sent < desk.answer.len();
    let part = Part { is_first: from == 0, has_more, ..Part::LAST };
    let sleeps = lane.answer(&desk.answer[from..desk.sent], part);
    if !has_more {
        desk.answer.clear();
        desk.answer.shrink_to(KEPT_WORDS);
        desk.sent = 0;
    }
    told(sleeps, lane);
}

fn told(sleeps: bool, lane: &RoomLane) {
    if sleeps {
        wake(lane);
    }
}
