//! Owner and guest in one process, which is as good as two for what is shared here.

use super::*;
use crate::file::{Located, Ownership};
use std::fs::File;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const INODE: u64 = 5;

struct Pool {
    _directory: tempfile::TempDir,
    located: Located,
    ownership: Ownership,
}

impl Pool {
    fn new() -> Pool {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let file = File::create(&path).unwrap();
        let ownership = Ownership::of(&file).unwrap();
        Pool { _directory: directory, located: Located::new(&path).unwrap(), ownership }
    }

    fn open(&self) -> Door {
        let mut door = Door::open(&self.located, INODE, 7, self.ownership).unwrap();
        door.greet_with(Hello { uuid: 7, incarnation: 3, process: 9 }, None).unwrap();
        door
    }

    fn visit(&self, uuid: u128, patience: Duration) -> Result<Visit, VisitError> {
        Visit::begin(&self.located, INODE, uuid, self.ownership, patience)
    }

    /// A visit to an owner that lets its guest in.
    fn visited(&self, door: &mut Door) -> Visit {
        std::thread::scope(|scope| {
            let (before, counter) = (door.count(), door.counter());
            let visit = scope.spawn(move || {
                let visit = self.visit(7, PATIENCE).unwrap();
                assert_eq!(counter.load(Ordering::Relaxed), before as u64 + 1);
                visit
            });
            while door.count() == before {
                door.attend(Some(PATIENCE), &mut Vec::new()).unwrap();
            }
            visit.join().unwrap()
        })
    }
}

#[test]
fn a_guest_asks_and_the_owner_answers() {
    let pool = Pool::new();
    let mut door = pool.open();
    let visit = pool.visited(&mut door);
    assert_eq!(visit.hello(), Hello { uuid: 7, incarnation: 3, process: 9 });
    let (number, visitor) = door.visitors().next().unwrap();
    assert_eq!(visitor.lanes().count(), 0);
    visit.use_lane(2);
    assert_eq!(visitor.lanes().count(), 3);
    let words: Vec<u64> = (0..LANE_WORDS as u64).collect();
    let first = Part { has_more: true, ..Part::WHOLE };
    visit.lane(2).ask(&words, first);
    assert!(door.is_asked());
    let mut request = Vec::new();
    assert_eq!(visitor.lane(2).take(&mut request), Some(first));
    assert_eq!(request, words);
    visitor.lane(2).answer(&words[..5], Part::WHOLE);
    let mut answer = Vec::new();
    assert_eq!(
        (visit.lane(2).asked(), visit.lane(2).answer_into(&mut answer)),
        (Asked::Answered, Part::WHOLE)
    );
    assert_eq!(answer, words[..5]);
    drop(visit);
    let mut gone = Vec::new();
    door.attend(Some(PATIENCE), &mut gone).unwrap();
    assert_eq!((gone, door.count()), (vec![number], 0));
}

#[test]
fn an_owner_that_sleeps_is_rung_for() {
    let pool = Pool::new();
    let mut door = pool.open();
    let visit = pool.visited(&mut door);
    let mut heard = |asleep: bool| {
        door.set_asleep(asleep);
        visit.ring_if_asleep();
        // A ring is an event; without one nothing comes of this.
        let mut events = [std::mem::MaybeUninit::uninit(); 4];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let (found, _) =
            rustix::event::epoll::wait(door.events(), &mut events, Some(&now)).unwrap();
        let heard = found.len();
        door.attend(Some(Duration::ZERO), &mut Vec::new()).unwrap();
        heard
    };
    assert_eq!((heard(true), heard(false), heard(true)), (1, 0, 1));
    let bell = door.bell();
    std::thread::spawn(move || bell.ring()).join().unwrap();
    door.attend(None, &mut Vec::new()).unwrap();
}

/// A guest that is not looked at rings, and is looked at again; whoever asked before is not overlooked.
#[test]
fn of_many_guests_those_that_ask_nothing_are_not_looked_at() {
    let pool = Pool::new();
    let mut door = pool.open();
    let visits: Vec<Visit> = (0..12).map(|_| pool.visited(&mut door)).collect();
    visits.iter().for_each(|visit| visit.use_lane(0));
    // That they came counts as a question.
    door.rest_from_idle();
    assert_eq!((door.watched().count(), door.has_resting()), (12, false));
    visits[3].lane(0).ask(&[1], Part::WHOLE);
    door.note_asking(5);
    door.rest_from_idle();
    let watched: Vec<usize> = door.watched().map(|(number, _)| number).collect();
    assert_eq!((watched, door.has_resting(), door.is_asked()), (vec![3, 5], true, true));
    visits[3].lane(0).withdraw();
    assert!(!door.is_asked());
    // The owner is awake.
    visits[7].lane(0).ask(&[1], Part::WHOLE);
    assert!(!visits[7].ring_if_asleep() && !visits[5].ring_if_asleep());
    assert!(!door.is_asked());
    door.attend(Some(PATIENCE), &mut Vec::new()).unwrap();
    assert!(door.is_asked());
    let watched: Vec<usize> = door.watched().map(|(number, _)| number).collect();
    assert_eq!(watched, [3, 5, 7]);
    // So few are looked at all the time.
    door.rest_from_idle();
    assert_eq!(door.watched().count(), 3);
    drop(visits);
    while door.count() > 0 {
        door.attend(Some(PATIENCE), &mut Vec::new()).unwrap();
    }
    assert_eq!(door.watched().count(), 0);
}

#[test]
fn a_guest_sees_the_end_of_its_owner_and_keeps_its_room() {
    let pool = Pool::new();
    let mut door = pool.open();
    let visit = pool.visited(&mut door);
    visit.use_lane(0);
    visit.lane(0).ask(&[1], Part::WHOLE);
    assert!(!visit.is_over());
    drop(door);
    assert!(visit.is_over());
    assert_eq!(visit.lane(0).asked(), Asked::Waiting);
    assert!(matches!(pool.visit(7, PATIENCE), Err(VisitError::Nobody)));
    // Another owner begins anew.
    let mut door = pool.open();
    let other = pool.visited(&mut door);
    assert!(visit.is_over() && !other.is_over());
    let (number, _) = door.visitors().last().unwrap();
    door.dismiss(number);
    assert!(other.is_over());
}

#[test]
fn who_is_not_the_owner_is_not_believed() {
    let pool = Pool::new();
    assert!(matches!(pool.visit(7, PATIENCE), Err(VisitError::Nobody)));
    let door = pool.open();
    // It lets nobody in while it does not attend.
    assert!(matches!(pool.visit(7, Duration::from_millis(1)), Err(VisitError::Silent)));
    let mut other = Door::open(&pool.located, INODE, 8, pool.ownership).unwrap();
    other.greet_with(door.hello(), None).unwrap();
    let mismatched = std::thread::scope(|scope| {
        let visit = scope.spawn(|| pool.visit(8, PATIENCE));
        while !visit.is_finished() {
            other.attend(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
        }
        visit.join().unwrap()
    });
    match mismatched {
        Err(VisitError::Stranger { found, expected }) => {
            assert!(found.ends_with('7') && expected.ends_with('8'), "{found}, {expected}");
        }
        other => panic!("{other:?}"),
    }
    drop(door);
    let named = super::socket::beside(&pool.located, INODE, 7);
    File::create(named.path()).unwrap();
    assert!(matches!(pool.visit(7, PATIENCE), Err(VisitError::Nobody)));
    remove(&pool.located, INODE, 7);
    assert!(!named.exists());
}

/// The name has them from the first moment on, and whatever the process's mask is.
#[test]
fn the_socket_has_the_permissions_of_the_pool() {
    use std::os::unix::fs::PermissionsExt;
    let pool = Pool::new();
    let named = super::socket::beside(&pool.located, INODE, 7);
    for mode in [0o600, 0o660, 0o666] {
        let ownership = pool.ownership.with_mode(mode);
        let door = Door::open(&pool.located, INODE, 7, ownership).unwrap();
        let found = std::fs::metadata(named.path()).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
        drop(door);
        assert!(!named.exists());
    }
}
