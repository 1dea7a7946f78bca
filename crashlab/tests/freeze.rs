//! Lock-freedom: one thread is put aside at any access, and the others come to their ends without
//! it. Afterwards it goes on, late as it is, and the table must be sound.
//!
//! Put aside in a lock of the substrate (a segment or an extent being taken, retired items being
//! collected), it does hold up others who need that one: those moments are counted, not judged.

use crashlab::execution::prepare;
use crashlab::history::{Action, Op};
use crashlab::machine::{Job, Schedule, Slice, alone, run, silence_panics};
use crashlab::setups;
use crashlab::subject::{ClevelSubject, Setup, Subject};
use pmem::sync::simulated::mutexes_held;
use std::sync::{Arc, Mutex};

/// What became of the threads.
#[derive(Default)]
struct Ends {
    /// The thread that is put aside holds a lock of the substrate.
    is_in_lock: bool,
    /// Threads in the order of their ends.
    order: Vec<usize>,
    wrong: Vec<String>,
}

fn one(key: u16, action: Action) -> Op {
    Op::One(key as _, action)
}

fn perform(subject: &ClevelSubject, setup: &Setup, op: &Op) -> Result<(), String> {
    let done = match op {
        Op::One(key, action) => subject.call(setup, *key, *action).map(drop),
        Op::Many(calls) => subject.call_many(setup, calls).map(drop),
        Op::Settle => {
            subject.settle();
            Ok(())
        }
        Op::Shrink => subject.shrink(),
        Op::Scan => subject.scan(setup).map(drop).map_err(crashlab::subject::Failed::Wrong),
    };
    done.map_err(|failed| format!("{op}: {failed:?}"))
}

/// Runs the programs, the first thread put aside after so many accesses until all others have
/// ended, which change places after `turn` accesses at first. Returns the accesses of the first.
fn freeze(
    setup: &Setup,
    programs: &[Vec<Op>; 3],
    after: u64,
    turn: u64,
    delays: bool,
) -> (u64, Ends) {
    let process = 1;
    let subject = Arc::new(prepare::<ClevelSubject>(setup, process).expect("a table"));
    let ends = Arc::new(Mutex::new(Ends::default()));
    let jobs = programs.iter().enumerate().map(|(thread, ops)| {
        let (subject, setup, ops) = (Arc::clone(&subject), setup.clone(), ops.clone());
        let ends = Arc::clone(&ends);
        let job = move || {
            if thread == 1 {
                ends.lock().unwrap().is_in_lock = mutexes_held(0) > 0;
            }
            for op in &ops {
                if let Err(wrong) = perform(&subject, &setup, op) {
                    ends.lock().unwrap().wrong.push(wrong);
                }
            }
            ends.lock().unwrap().order.push(thread);
        };
        Box::new(job) as Job
    });
    let slice = |thread, accesses| Slice { thread, accesses };
    let others = [(1, turn), (2, u64::MAX), (1, u64::MAX), (2, u64::MAX)];
    let slices = std::iter::once((0, after)).chain(others);
    let slices = slices.map(|(thread, accesses)| slice(thread, accesses)).collect();
    let accesses = run(jobs.collect(), process, &Schedule { slices, delays }, |_| {});
    let mut ends = std::mem::take(&mut *ends.lock().unwrap());
    match accesses {
        Err(stuck) => {
            ends.wrong.push(format!("{stuck:?}"));
            (0, ends)
        }
        Ok(accesses) => {
            let checked = alone(process, None, || subject.check());
            ends.wrong.extend(checked.err());
            (accesses[0], ends)
        }
    }
}

/// Every access of the first thread as the one at which it is put aside. Returns how many were
/// tried, and in how many of them it held a lock.
fn freeze_everywhere(setup: &Setup, programs: &[Vec<Op>; 3]) -> (u64, u64) {
    let (mut tried, mut in_locks) = (0, 0);
    for delays in [false, true] {
        for turn in [u64::MAX, 40, 120] {
            let all = freeze(setup, programs, u64::MAX, turn, delays).0;
            for after in 1..all {
                let (_, ends) = freeze(setup, programs, after, turn, delays);
                tried += 1;
                if ends.is_in_lock {
                    in_locks += 1;
                    continue;
                }
                let others_first = ends.order.last() == Some(&0) && ends.order.len() == 3;
                // With other accesses of the others its own are more or fewer: it may be done.
                let is_done = ends.order.first() == Some(&0) && after + 60 > all;
                assert!(
                    (others_first || is_done) && ends.wrong.is_empty(),
                    "{}, {programs:?}: thread 0 put aside after {after} accesses (turn {turn}, \
                     delays {delays}): ended {:?}, {:?}",
                    setup.name,
                    ends.order,
                    ends.wrong
                );
            }
        }
    }
    (tried, in_locks)
}

fn others() -> [Vec<Op>; 2] {
    let writer = [Action::Insert(4), Action::Update(5), Action::Remove, Action::Insert(6)];
    let second = vec![
        one(0, Action::Get),
        one(1, Action::Upsert(7)),
        Op::Settle,
        one(0, Action::Upsert(8)),
        one(1, Action::Remove),
    ];
    [writer.map(|action| one(0, action)).to_vec(), second]
}

fn look(frozen: &[Vec<Op>], wanted: impl Fn(&Setup) -> bool) {
    silence_panics();
    let (mut tried, mut in_locks) = (0, 0);
    for setup in setups::clevel().into_iter().filter(|setup| !setup.is_tight && wanted(setup)) {
        let setup = Setup { limit_bytes: 64 << 10, ..setup };
        for program in frozen {
            let [first, second] = others();
            let (looked, locked) = freeze_everywhere(&setup, &[program.clone(), first, second]);
            tried += looked;
            in_locks += locked;
        }
    }
    println!("put aside at {tried} accesses, in {in_locks} of them within a lock of the substrate");
    assert!(tried > 1_000, "{tried}");
    assert!(in_locks < tried / 3, "{in_locks} of {tried}");
}

#[test]
fn an_inserting_thread_holds_nobody_up() {
    look(&[vec![one(0, Action::Insert(2))], vec![one(1, Action::Insert(2))]], |_| true);
}

#[test]
fn an_updating_or_removing_thread_holds_nobody_up() {
    let stored = |action| vec![one(0, Action::Upsert(2)), one(0, action)];
    look(&[stored(Action::Update(3)), stored(Action::Remove)], |_| true);
}

#[test]
fn a_rehashing_thread_holds_nobody_up() {
    look(&[vec![Op::Settle]], |setup| setup.name == "a level is being drained");
}

#[test]
fn a_shrinking_thread_holds_nobody_up() {
    look(&[vec![Op::Shrink]], |setup| setup.shrinks);
}
