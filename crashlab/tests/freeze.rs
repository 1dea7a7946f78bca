//! Lock-freedom: one thread is put aside at any access, and the others come to their ends without
//! it. What they are answered must be explained by an order of all calls in which the one put aside
//! is free to have happened or not; a resize must end without that thread. Afterwards it goes on,
//! late as it is: its answer must fit in, too, and the table must be sound.
//!
//! Put aside in a lock of the substrate (a segment or an extent being taken, retired items being
//! collected), it does hold up others who need that one: those moments are counted, not judged.

use crashlab::engines::{stores, tables};
use crashlab::execution::prepare;
use crashlab::history::{Action, Answer, Call, Key, Op};
use crashlab::judge;
use crashlab::machine::{Job, Schedule, Slice, alone, run, silence_panics};
use crashlab::subject::{Setup, StoreSubject, Subject, TableSubject};
use engines::Engine;
use pmem::sync::simulated::{mutexes_held, show};
use std::sync::{Arc, Mutex};

/// What became of the threads.
#[derive(Default)]
struct Ends {
    /// The thread that is put aside holds a lock of the substrate.
    is_in_lock: bool,
    /// Threads in the order of their ends.
    order: Vec<usize>,
    wrong: Vec<String>,
    calls: Vec<Call>,
    /// Beginnings and ends of calls so far.
    time: u32,
}

fn one(key: Key, action: Action) -> Op {
    Op::One(key, action)
}

/// One run of three threads.
struct Run<S> {
    subject: S,
    setup: Setup,
    ends: Mutex<Ends>,
}

impl<S: Subject> Run<S> {
    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.ends.lock().unwrap()
    }

    fn perform(&self, thread: usize, op: &Op) {
        let subject = &self.subject;
        let found = match *op {
            Op::One(key, action) => return self.call(thread, key, action),
            Op::Settle => {
                subject.settle();
                Ok(())
            }
            Op::Shrink => subject.shrink().map_err(|failed| format!("{failed:?}")),
            _ => Err("no operation of these histories".into()),
        };
        if let Err(wrong) = found {
            self.ends().wrong.push(format!("{op}: {wrong}"));
        }
    }

    fn call(&self, thread: usize, key: Key, action: Action) {
        let index = {
            let mut ends = self.ends();
            let call = Call { thread, key, action, began: ends.time, ended: None };
            ends.time += 1;
            ends.calls.push(call);
            ends.calls.len() - 1
        };
        let found = self.subject.call(&self.setup, key, action);
        // Whoever learns that the call has returned sees all that it stored.
        show(thread);
        let mut ends = self.ends();
        let at = ends.time;
        ends.time += 1;
        match found {
            Ok(found) => ends.calls[index].ended = Some((at, Answer::Found(found))),
            Err(failed) => ends.wrong.push(format!("k{key} {action}: {failed:?}")),
        }
    }

    /// What a thread sees that comes when the other one has ended: all keys, and no resize that
    /// does not end.
    fn look_around(&self, thread: usize) {
        (0..self.setup.free_keys as Key).for_each(|key| self.call(thread, key, Action::Get));
        self.subject.settle();
        if self.subject.is_resizing() {
            self.ends().wrong.push("the resize has not ended".into());
        }
        (0..self.setup.free_keys as Key).for_each(|key| self.call(thread, key, Action::Get));
    }

    /// What is wrong with what was answered up to the moment `at`.
    fn judge(&self, ends: &Ends, at: u32, contents: Option<&[Option<u16>]>) -> Option<String> {
        (0..self.setup.free_keys as Key).find_map(|key| {
            let before = self.setup.before_history(key);
            let allowed = judge::allowed(&ends.calls, key, before, at);
            let is_explained = match contents {
                Some(contents) => allowed.contains(&contents[usize::from(key)]),
                None => !allowed.is_empty(),
            };
            let told: Vec<String> = ends.calls.iter().map(Call::to_string).collect();
            (!is_explained).then(|| format!("k{key} at {at}, {allowed:?}: {told:#?}"))
        })
    }
}

/// Runs the programs, the first thread put aside after so many accesses until all others have
/// ended, which change places after `turn` accesses at first. Returns the accesses of the first.
fn freeze<S: Subject>(
    setup: &Setup,
    programs: &[Vec<Op>; 3],
    after: u64,
    turn: u64,
    delays: bool,
) -> (u64, Ends) {
    let process = 1;
    let subject = prepare::<S>(setup, process).expect("a table");
    let this = Arc::new(Run { subject, setup: setup.clone(), ends: Mutex::default() });
    let jobs = programs.iter().enumerate().map(|(thread, ops)| {
        let (this, ops) = (Arc::clone(&this), ops.clone());
        let job = move || {
            if thread == 1 {
                let is_in_lock = mutexes_held(0) > 0;
                this.ends().is_in_lock = is_in_lock;
            }
            ops.iter().for_each(|op| this.perform(thread, op));
            let is_second = thread != 0 && this.ends().order.iter().any(|&other| other != 0);
            if is_second {
                this.look_around(thread);
            }
            this.ends().order.push(thread);
        };
        Box::new(job) as Job
    });
    let slice = |thread, accesses| Slice { thread, accesses };
    let others = [(1, turn), (2, u64::MAX), (1, u64::MAX), (2, u64::MAX)];
    let slices = std::iter::once((0, after)).chain(others);
    let slices = slices.map(|(thread, accesses)| slice(thread, accesses)).collect();
    let accesses = run(jobs.collect(), process, &Schedule { slices, delays }, |_| {});
    let mut ends = std::mem::take(&mut *this.ends());
    let accesses = match accesses {
        Err(stuck) => {
            ends.wrong.push(format!("{stuck:?}"));
            0
        }
        Ok(accesses) => {
            let (contents, checked) =
                alone(process, None, || (this.subject.contents(&this.setup), this.subject.check()));
            ends.wrong.extend(checked.err());
            match contents {
                Ok(contents) => {
                    let wrong = this.judge(&ends, ends.time, Some(&contents));
                    ends.wrong.extend(wrong);
                }
                Err(wrong) => ends.wrong.push(wrong),
            }
            accesses[0]
        }
    };
    // At the moment before the answers of the thread that was put aside: its call was under way.
    let its_end = ends.calls.iter().filter(|call| call.thread == 0).filter_map(|call| call.ended);
    let others_alone = its_end.map(|(at, _)| at).max().and_then(|at| this.judge(&ends, at, None));
    ends.wrong.extend(others_alone);
    (accesses, ends)
}

/// Every access of the first thread as the one at which it is put aside. Returns how many were
/// tried, and in how many of them it held a lock.
fn freeze_everywhere<S: Subject>(setup: &Setup, programs: &[Vec<Op>; 3]) -> (u64, u64) {
    let (mut tried, mut in_locks) = (0, 0);
    for delays in [false, true] {
        for turn in [u64::MAX, 40, 120] {
            let all = freeze::<S>(setup, programs, u64::MAX, turn, delays).0;
            for after in 1..all {
                let (_, ends) = freeze::<S>(setup, programs, after, turn, delays);
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
                     delays {delays}): ended {:?}, {:#?}",
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

/// Looks at every engine that says it is lock-free.
fn look<S: Subject>(
    setups: fn(Engine) -> Vec<Setup>,
    frozen: &[Vec<Op>],
    wanted: impl Fn(&Setup) -> bool,
) {
    silence_panics();
    let (mut tried, mut in_locks) = (0, 0);
    let engines = Engine::ALL.iter().filter(|engine| engine.description().is_lock_free);
    let setups = engines.flat_map(|&engine| setups(engine));
    for setup in setups.filter(|setup| !setup.is_tight && wanted(setup)) {
        let setup = Setup { limit_bytes: 64 << 10, ..setup };
        for program in frozen {
            let [first, second] = others();
            let (looked, locked) =
                freeze_everywhere::<S>(&setup, &[program.clone(), first, second]);
            tried += looked;
            in_locks += locked;
        }
    }
    println!("put aside at {tried} accesses, in {in_locks} of them within a lock of the substrate");
    assert!(tried > 1_000, "{tried}");
    assert!(in_locks * 5 < tried * 2, "{in_locks} of {tried}");
}

#[test]
fn an_inserting_thread_holds_nobody_up() {
    look::<TableSubject>(
        tables,
        &[vec![one(0, Action::Insert(2))], vec![one(1, Action::Insert(2))]],
        |_| true,
    );
}

#[test]
fn an_updating_or_removing_thread_holds_nobody_up() {
    let stored = |action| vec![one(0, Action::Upsert(2)), one(0, action)];
    look::<TableSubject>(tables, &[stored(Action::Update(3)), stored(Action::Remove)], |_| true);
}

#[test]
fn a_rehashing_thread_holds_nobody_up() {
    look::<TableSubject>(tables, &[vec![Op::Settle]], |setup| {
        let table = prepare::<TableSubject>(setup, 1).expect("a table");
        alone(1, None, || table.is_resizing())
    });
}

#[test]
fn a_shrinking_thread_holds_nobody_up() {
    look::<TableSubject>(tables, &[vec![Op::Shrink]], |setup| setup.shrinks);
}

#[test]
fn a_thread_that_changes_a_store_holds_nobody_up() {
    let stored = |action| vec![one(0, Action::Upsert(2)), one(0, action)];
    let frozen = [vec![one(1, Action::Insert(2))], stored(Action::Update(3))];
    let wanted = |setup: &Setup| setup.before.is_empty() || setup.shrinks;
    look::<StoreSubject>(stores, &frozen, wanted);
}
