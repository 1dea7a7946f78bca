//! One run of a program: what was called, what was answered, and what a crash could have left at
//! each moment that matters.
//!
//! The images that a crash can leave become more with each store, fewer with a fence, and what is
//! owed grows with each return. So it is enough to crash just before each fence that makes stores
//! certain, after each return, and, beside other threads, before each call: at every other moment
//! the images are among those of a later moment that owes no more.

use crate::history::{Action, Answer, Call, Key, Op, Program, Value};
use crate::machine::{self, Schedule, Stuck};
use crate::subject::{Failed, Setup, Subject};
use pmem::medium::sim::{Durable, Sim};
use pmem::sync::simulated;
use std::cell::RefCell;
use std::sync::Arc;

/// A moment at which the machine may crash.
#[derive(Debug)]
pub struct CrashPoint {
    /// Position among the beginnings and ends of calls: calls that ended before it have returned.
    pub at: u32,
    /// What a power failure leaves.
    pub durable: Durable,
    /// What the death of the process leaves.
    pub killed: Option<Sim>,
}

#[derive(Default)]
struct Recorder {
    time: u32,
    calls: Vec<Call>,
    points: Vec<CrashPoint>,
    wrong: Option<String>,
    /// Moments before this one are of no interest.
    from: u32,
    takes_kills: bool,
}

thread_local! {
    static RECORDER: RefCell<Recorder> = RefCell::default();
}

fn record(sim: &Sim) {
    RECORDER.with_borrow_mut(|recorder| {
        if recorder.time >= recorder.from {
            let killed = recorder.takes_kills.then(|| sim.killed());
            let point = CrashPoint { at: recorder.time, durable: sim.durable(), killed };
            recorder.points.push(point);
        }
    });
}

/// What a run left behind.
pub struct Execution<S> {
    /// Every call on a key.
    pub calls: Vec<Call>,
    /// Where it may have crashed.
    pub points: Vec<CrashPoint>,
    /// Accesses that each thread made.
    pub accesses: Vec<u64>,
    /// The subject, as it stands at the end.
    pub subject: Arc<S>,
    /// The simulated process that the subject belongs to.
    pub process: u32,
    /// What went wrong without any crash.
    pub wrong: Option<String>,
    /// The moment after everything.
    pub end: u32,
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// Who runs when.
    pub schedule: &'a Schedule,
    /// Crashes before the call of this number are of no interest.
    pub from_op: usize,
    /// Whether to note what the death of the process leaves.
    pub takes_kills: bool,
}

/// Makes a subject, does what comes before the history, and returns it.
pub fn prepare<S: Subject>(setup: &Setup, process: u32) -> Result<S, String> {
    machine::alone(process, None, || {
        let medium = Sim::new(&[], setup.limit_bytes);
        let subject = S::create(medium, setup).map_err(|refusal| format!("{refusal:?}"))?;
        for op in &setup.before {
            let done = match op {
                Op::One(key, action) => subject.call(setup, *key, *action).map(drop),
                Op::Many(calls) => subject.call_many(setup, calls).map(drop),
                Op::Settle => {
                    subject.settle();
                    Ok(())
                }
                Op::Shrink => subject.shrink(),
                Op::Scan => Ok(()),
            };
            done.map_err(|failed| format!("before the history, {op}: {failed:?}"))?;
        }
        Ok(subject)
    })
}

/// Runs a program on a new subject.
pub fn run<S: Subject>(
    setup: &Arc<Setup>,
    program: &Program,
    process: u32,
    manner: Manner<'_>,
) -> Result<Execution<S>, String> {
    let subject = Arc::new(prepare::<S>(setup, process)?);
    RECORDER.set(Recorder {
        from: 2 * manner.from_op as u32,
        takes_kills: manner.takes_kills,
        ..Recorder::default()
    });
    let is_alone = program.len() == 1;
    let jobs = program.iter().enumerate().map(|(thread, ops)| {
        let (subject, setup, ops) = (Arc::clone(&subject), Arc::clone(setup), ops.clone());
        let job = move || {
            for op in &ops {
                if !is_alone {
                    record(subject.medium());
                }
                perform(&*subject, &setup, thread, op);
                record(subject.medium());
            }
        };
        Box::new(job) as machine::Job
    });
    let result = machine::run(jobs.collect(), process, manner.schedule, record);
    let recorder = RECORDER.take();
    let wrong = match &result {
        Err(Stuck::Deadlock) => Some("all threads wait for each other".into()),
        Err(Stuck::Livelock) => Some("an operation does not come to an end".into()),
        Err(Stuck::Panic(text)) => Some(format!("panic: {text}")),
        Ok(_) => recorder.wrong,
    };
    Ok(Execution {
        calls: recorder.calls,
        points: recorder.points,
        accesses: result.unwrap_or_default(),
        subject,
        process,
        wrong,
        end: recorder.time,
    })
}

/// What a scan says wrongly of a key that was stored before the history, which changes it never.
fn misread(setup: &Setup, pairs: &[(Key, Value)]) -> Option<String> {
    (0..).zip(&setup.keys).skip(setup.free_keys).find_map(|(key, _)| {
        let of_key = |(other, action): (Key, Action)| (other == key).then_some(action);
        let actions = setup.before.iter().flat_map(|op| match op {
            Op::One(key, action) => vec![(*key, *action)],
            Op::Many(calls) => calls.clone(),
            Op::Settle | Op::Shrink | Op::Scan => Vec::new(),
        });
        let stored = actions.filter_map(of_key).fold(None, |state, action| action.apply(state));
        let met = pairs.iter().filter(|(other, _)| *other == key).map(|(_, value)| *value);
        let met: Vec<Value> = met.collect();
        (met != Vec::from_iter(stored))
            .then(|| format!("k{key} has {stored:?} throughout, and is met with {met:?}"))
    })
}

fn perform<S: Subject>(subject: &S, setup: &Setup, thread: usize, op: &Op) {
    let keys = match op {
        Op::One(key, action) => vec![(*key, *action)],
        Op::Many(calls) => calls.clone(),
        Op::Settle | Op::Shrink | Op::Scan => Vec::new(),
    };
    let (first, began) = RECORDER.with_borrow_mut(|recorder| {
        let began = recorder.time;
        let first = recorder.calls.len();
        let call = |&(key, action)| Call { thread, key, action, began, ended: None };
        recorder.calls.extend(keys.iter().map(call));
        recorder.time += 1;
        (first, began)
    });
    let mut scanned = Vec::new();
    let answers = match op {
        Op::One(key, action) => {
            subject.call(setup, *key, *action).map(|found| vec![Answer::Found(found)])
        }
        Op::Many(calls) => subject
            .call_many(setup, calls)
            .map(|found| found.into_iter().map(Answer::Found).collect()),
        Op::Settle => {
            subject.settle();
            Ok(Vec::new())
        }
        Op::Shrink => subject.shrink().map(|()| Vec::new()),
        Op::Scan => subject.scan(setup).map_err(Failed::Wrong).and_then(|pairs| {
            match misread(setup, &pairs).filter(|_| S::SCANS_ARE_EXACT) {
                Some(what) => Err(Failed::Wrong(what)),
                None => {
                    scanned = pairs;
                    Ok(Vec::new())
                }
            }
        }),
    };
    // Whoever learns that the call has returned sees all that it stored.
    simulated::show(thread);
    RECORDER.with_borrow_mut(|recorder| {
        let ended = recorder.time;
        recorder.time += 1;
        let answers = match answers {
            Ok(answers) => answers,
            Err(Failed::Full) if *op == Op::Shrink && setup.is_tight => Vec::new(),
            Err(Failed::Full) if !keys.iter().any(|&(_, action)| setup.may_be_full(action)) => {
                recorder.wrong.get_or_insert(format!("{op}: no room, where there should be"));
                Vec::new()
            }
            // Some of a batch may have been done: those calls stay without an end.
            Err(Failed::Full) if keys.len() == 1 => vec![Answer::Full],
            Err(Failed::Full) => Vec::new(),
            Err(Failed::Wrong(what)) => {
                recorder.wrong.get_or_insert(format!("{op}: {what}"));
                Vec::new()
            }
        };
        for (call, answer) in
            recorder.calls[first..].iter_mut().filter(|call| call.began == began).zip(answers)
        {
            call.ended = Some((ended, answer));
        }
        let seen = scanned.into_iter().filter(|(key, _)| usize::from(*key) < setup.free_keys);
        recorder.calls.extend(seen.map(|(key, value)| Call {
            thread,
            key,
            action: Action::Get,
            began,
            ended: Some((ended, Answer::Found(Some(value)))),
        }));
    });
}
