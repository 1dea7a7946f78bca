//! One run of a program: the calls, the answers, and what a crash could have left at each moment that matters.
//!
//! Each store adds possible crash images, each fence removes some, and each return adds an obligation. So it is enough
//! to crash just before each fence that makes stores certain, after each return and, with several threads, before each
//! call. At every other moment the images are among those of a later moment with no further obligations.

use crate::history::{Action, Answer, Call, Key, Op, Program, Value, Way};
use crate::logbook::{Base, Closed, Logbook, Moment};
use crate::machine::{self, Access, Remains, Schedule, Stuck};
use crate::owners::{Owners, roles};
use crate::subject::{Failed, PlantedFault, Setup, Subject};
use pmem::medium::sim::{Durable, Sim};
use pmem::sync::simulated;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// A moment at which the machine may crash.
#[derive(Debug)]
pub struct CrashPoint {
    /// Position among the beginnings and ends of calls: calls that ended before it have returned.
    pub at: u32,
    /// What a power failure leaves, and the death of the process.
    pub durable: Durable,
}

#[derive(Default)]
struct Recorder {
    time: u32,
    calls: Vec<Call>,
    points: Vec<CrashPoint>,
    wrong: Option<String>,
    /// When syncs began, and when they had returned.
    syncs: Vec<(u32, u32)>,
    /// The same for operations that may have written.
    writes: Vec<(u32, Option<u32>)>,
    /// Threads with an operation under way.
    open: Vec<usize>,
    /// Moments before this one are of no interest.
    from: u32,
    /// Nor are moments before this many slices of the schedule have begun.
    slices_before: usize,
    /// Keys that the program changes.
    changed: HashSet<Key>,
    /// The line log, if that is all that survives.
    logbook: Option<Logbook>,
}

thread_local! {
    static RECORDER: RefCell<Recorder> = RefCell::default();
}

/// Closes an epoch of the line log.
fn seal(medium: &Sim) {
    close(medium, None);
}

/// Closes the last epoch of a history. What follows is no part of it.
fn seal_last(medium: &Sim) {
    seal(medium);
    medium.line_log().inspect(|log| log.stop());
}

/// Makes a checkpoint, and closes the epoch that completes it.
fn checkpoint<S: Subject>(subject: &S, setup: &Setup, way: Way) {
    let medium = subject.medium();
    let Some(log) = medium.line_log() else { return };
    let base = Base::copied(medium, log.epoch(), way);
    if setup.fault != Some(PlantedFault::CheckpointAtOnce) {
        subject.wait_for_writers();
    }
    close(medium, Some(base));
}

fn close(medium: &Sim, base: Option<Base>) {
    let Some(log) = medium.line_log() else { return };
    let from = RECORDER.with_borrow(|recorder| recorder.time);
    let before = Moment::now(medium);
    let cut = log.seal();
    let after = Moment::now(medium);
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(logbook) = &mut recorder.logbook {
            logbook.close(base, cut, (from, &before), (recorder.time, &after));
        }
    });
}

fn record(sim: &Sim) {
    RECORDER.with_borrow_mut(|recorder| {
        if recorder.logbook.is_some() {
            // What the power takes is judged where an epoch is closed.
            return;
        }
        if recorder.time >= recorder.from && machine::slices_begun() >= recorder.slices_before {
            let point = CrashPoint { at: recorder.time, durable: sim.durable() };
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
    /// What its line log has left, if it has one.
    pub closed: Vec<Closed>,
    /// Accesses that each thread made.
    pub accesses: Vec<u64>,
    /// The subject, as it stands at the end.
    pub subject: Arc<S>,
    /// The simulated process that the subject belongs to.
    pub process: u32,
    /// When syncs began, and when they had returned.
    syncs: Vec<(u32, u32)>,
    /// The same for operations that may have written.
    writes: Vec<(u32, Option<u32>)>,
    /// What went wrong without any crash.
    pub wrong: Option<String>,
    /// The moment after everything.
    pub end: u32,
    /// Every access, if they were asked for.
    pub trace: Vec<Access>,
    _remains: Remains,
}

impl<S> Execution<S> {
    /// Whether a pool on a medium that keeps nothing by itself must be whole at the moment `at`: a
    /// sync has returned, and nothing has written since it began.
    pub fn is_synced(&self, at: u32) -> bool {
        let is_since = |&(began, ended): &(u32, Option<u32>), sync: u32| {
            began < at && ended.is_none_or(|ended| ended > sync)
        };
        let mut returned = self.syncs.iter().filter(|&&(_, ended)| ended < at);
        returned.any(|&(sync, _)| !self.writes.iter().any(|write| is_since(write, sync)))
    }
}

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// Who runs when.
    pub schedule: &'a Schedule,
    /// Crashes before the call of this number are of no interest.
    pub from_op: usize,
    /// Nor are moments before this many slices of the schedule have begun.
    pub slices_before: usize,
    /// Whether every access is kept.
    pub is_traced: bool,
}

/// Makes a subject, does everything before the history, and returns it.
pub fn prepare<S: Subject>(setup: &Setup, process: u32) -> Result<S, String> {
    machine::alone(process, None, || {
        let subject =
            S::create(setup.fresh_medium(), setup).map_err(|refusal| format!("{refusal:?}"))?;
        for op in &setup.before {
            let done = match op {
                Op::One(key, action) => subject.call(setup, *key, *action).map(drop),
                Op::Many(calls) => subject.call_many(setup, calls).map(drop),
                Op::Settle => {
                    subject.settle();
                    Ok(())
                }
                Op::Shrink => subject.shrink(),
                Op::Compact => subject.compact(),
                Op::Sync => subject.sync().map_err(Failed::Wrong),
                Op::Help => {
                    subject.help();
                    Ok(())
                }
                Op::Clear => subject.clear(),
                Op::Pass => subject.pass(),
                Op::Scan | Op::Seal | Op::Succeed | Op::Checkpoint(_) => Ok(()),
            };
            done.map_err(|failed| format!("before the history, {op}: {failed:?}"))?;
        }
        if !setup.is_reopened {
            return Ok(subject);
        }
        subject.settle();
        let medium = if setup.is_closed {
            subject.close()?;
            setup.medium(&subject.medium().durable().words)
        } else {
            setup.killed(&subject.medium().durable())
        };
        S::open(medium, setup, 0).map_err(|refusal| format!("reopened: {refusal:?}"))
    })
}

/// Runs a program on a new subject.
pub fn run<S: Subject>(
    setup: &Arc<Setup>,
    program: &Program,
    process: u32,
    manner: Manner<'_>,
) -> Result<Execution<S>, String> {
    let owners = Owners::new(prepare::<S>(setup, process)?, process, roles(program));
    let owners = Arc::new(owners);
    let subject = owners.first();
    RECORDER.set(Recorder {
        from: 2 * manner.from_op as u32,
        slices_before: manner.slices_before,
        changed: changed(program),
        logbook: machine::alone(process, None, || Logbook::start(subject.medium())),
        ..Recorder::default()
    });
    let is_alone = program.len() == 1;
    let jobs = program.iter().enumerate().map(|(thread, ops)| {
        let (owners, setup, ops) = (Arc::clone(&owners), Arc::clone(setup), ops.clone());
        let job = move || {
            for op in &ops {
                if !is_alone {
                    machine::begin_call();
                    record(owners.first().medium());
                }
                perform(&owners, &setup, thread, op);
                record(owners.first().medium());
            }
        };
        Box::new(job) as machine::Job
    });
    machine::trace(manner.is_traced);
    let result = machine::run(jobs.collect(), process, manner.schedule, record);
    let trace = machine::trace(false);
    if result.is_ok() {
        machine::alone(process, None, || seal_last(subject.medium()));
    }
    let (subject, process) = owners.last();
    let mut recorder = RECORDER.take();
    let (closed, unexplained) = recorder.logbook.take().map(Logbook::end).unwrap_or_default();
    let wrong = match &result {
        Err(Stuck::Deadlock) => Some("all threads wait for each other".into()),
        Err(Stuck::Livelock) => Some("an operation does not come to an end".into()),
        Err(Stuck::Panic(text)) => Some(format!("panic: {text}")),
        Ok(_) => recorder.wrong.or(unexplained),
    };
    Ok(Execution {
        calls: recorder.calls,
        syncs: recorder.syncs,
        writes: recorder.writes,
        points: recorder.points,
        closed,
        accesses: result.unwrap_or_default(),
        subject: Arc::clone(subject),
        process,
        wrong,
        end: recorder.time,
        trace,
        _remains: machine::remains(),
    })
}

/// The keys that a program may change; the others stay as they are.
fn changed(program: &Program) -> HashSet<Key> {
    let calls = program.iter().flatten().flat_map(Op::calls);
    calls.filter(|&(_, action)| action != Action::Get).map(|(key, _)| key).collect()
}

fn perform<S: Subject>(owners: &Owners<S>, setup: &Setup, thread: usize, op: &Op) {
    let (subject, _) = owners.last();
    match op {
        Op::Seal => return seal(subject.medium()),
        Op::Checkpoint(way) => return checkpoint(&**subject, setup, *way),
        _ => {}
    }
    let mut keys = op.calls();
    if let Some(action) = op.on_all() {
        keys.extend((0..).take(setup.keys.len()).map(|key| (key, action)));
    }
    let may_write = match op {
        Op::One(_, action) => *action != Action::Get,
        Op::Many(calls) => calls.iter().any(|(_, action)| *action != Action::Get),
        Op::Settle | Op::Shrink | Op::Compact | Op::Succeed | Op::Clear | Op::Pass => true,
        // A helper writes nothing after a sync, until others do.
        _ => false,
    };
    let (first, began, was_idle) = RECORDER.with_borrow_mut(|recorder| {
        let began = recorder.time;
        let was_idle = recorder.open.is_empty();
        recorder.open.push(thread);
        let first = recorder.calls.len();
        let call = |&(key, action)| Call { thread, key, action, began, ended: None };
        recorder.calls.extend(keys.iter().map(call));
        if may_write {
            recorder.writes.push((began, None));
        }
        recorder.time += 1;
        (first, began, was_idle)
    });
    let mut scanned = None;
    let found = |found| Some(Answer::Found(found));
    let answers = match op {
        Op::One(..) | Op::Many(_) if owners.is_guest(thread) => owners
            .look_up(setup, &keys)
            .map(|all| all.into_iter().map(|seen| seen.map(Answer::Found)).collect()),
        Op::One(key, action) => subject.call(setup, *key, *action).map(|state| vec![found(state)]),
        Op::Many(calls) => {
            subject.call_many(setup, calls).map(|states| states.into_iter().map(found).collect())
        }
        Op::Settle => {
            subject.settle();
            Ok(Vec::new())
        }
        Op::Shrink => subject.shrink().map(|()| Vec::new()),
        Op::Compact => subject.compact().map(|()| Vec::new()),
        Op::Clear => subject.clear().map(|()| vec![Some(Answer::Found(None)); keys.len()]),
        Op::Pass => subject.pass().map(|()| vec![Some(Answer::Found(None)); keys.len()]),
        Op::Sync => subject.sync().map_err(Failed::Wrong).map(|()| Vec::new()),
        Op::Help => {
            subject.help();
            Ok(Vec::new())
        }
        Op::Scan => subject.scan(setup).map_err(Failed::Wrong).map(|pairs| {
            scanned = Some(pairs);
            Vec::new()
        }),
        Op::Succeed => owners.succeed(setup).map(|()| Vec::new()),
        Op::Seal | Op::Checkpoint(_) => Ok(Vec::new()),
    };
    let is_unsettled = *op == Op::Settle && !setup.is_tight && subject.is_resizing();
    // Whoever learns that the call has returned sees all that it stored.
    simulated::show(thread);
    RECORDER.with_borrow_mut(|recorder| {
        let ended = recorder.time;
        recorder.time += 1;
        recorder.open.retain(|&of| of != thread);
        if *op == Op::Succeed {
            recorder.open.retain(|&of| !owners.is_killed(of));
            let calls = recorder.calls.iter_mut().filter(|call| owners.is_killed(call.thread));
            for call in calls.filter(|call| call.ended.is_none()) {
                call.ended = Some((ended, Answer::Lost));
            }
        }
        let was_alone = was_idle && ended == began + 1;
        match op {
            Op::Sync if answers.is_ok() => recorder.syncs.push((began, ended)),
            _ => {
                let writes = recorder.writes.iter_mut().filter(|write| write.0 == began);
                writes.for_each(|write| write.1 = Some(ended));
            }
        }
        if is_unsettled && was_alone {
            recorder.wrong.get_or_insert(format!("{op}: the resize has not ended"));
        }
        let answers = match answers {
            Ok(answers) => answers,
            Err(Failed::Full) if *op == Op::Shrink && setup.is_tight => Vec::new(),
            // Only what somebody else is reading or changing may keep a cache from making room.
            Err(Failed::Full)
                if setup.is_cache && was_alone
                    || !keys.iter().any(|&(_, action)| setup.may_be_full(action)) =>
            {
                recorder.wrong.get_or_insert(format!("{op}: no room, where there should be"));
                Vec::new()
            }
            // Some of a batch may have been done: those calls stay without an end.
            Err(Failed::Full) if keys.len() == 1 => vec![Some(Answer::Full)],
            Err(Failed::Full) => Vec::new(),
            Err(Failed::Wrong(what)) => {
                recorder.wrong.get_or_insert(format!("{op}: {what}"));
                Vec::new()
            }
        };
        for (call, answer) in
            recorder.calls[first..].iter_mut().filter(|call| call.began == began).zip(answers)
        {
            call.ended = answer.map(|answer| (ended, answer));
        }
        if let Some(pairs) = &scanned {
            let is_judged = !setup.is_cache;
            if is_judged
                && let Err(what) = judge_scan::<S>(setup, &recorder.changed, pairs, was_alone)
            {
                recorder.wrong.get_or_insert(format!("{op}: {what}"));
            }
            let states = match is_judged {
                true => states_seen(setup, &recorder.changed, pairs, was_alone),
                false => pairs.iter().map(|&(key, value)| (key, Some(value))).collect(),
            };
            recorder.calls.extend(states.into_iter().map(|(key, found)| Call {
                thread,
                key,
                action: Action::Get,
                began,
                ended: Some((ended, Answer::Found(found))),
            }));
        }
    });
}

/// What a scan says of the keys that the program changes. What it leaves out is absent, if nothing went
/// on beside: else a key may have been passed before it was stored, or have moved behind the scan's back.
fn states_seen(
    setup: &Setup,
    changed: &HashSet<Key>,
    pairs: &[(Key, Value)],
    was_alone: bool,
) -> Vec<(Key, Option<Value>)> {
    let keys = (0..).take(setup.keys.len()).filter(|key| changed.contains(key));
    let seen = pairs.iter().filter(|pair| changed.contains(&pair.0));
    let seen = seen.map(|&(key, value)| (key, Some(value)));
    let missed = |key: &Key| was_alone && pairs.iter().all(|pair| pair.0 != *key);
    seen.chain(keys.filter(missed).map(|key| (key, None))).collect()
}

/// Whether a scan shows the keys that stay as they are, and, if nothing went on beside or it is exact all
/// the same, all of them, and none twice.
fn judge_scan<S: Subject>(
    setup: &Setup,
    changed: &HashSet<Key>,
    pairs: &[(Key, Value)],
    was_alone: bool,
) -> Result<(), String> {
    for key in (0..).take(setup.keys.len()) {
        let is_changed = changed.contains(&key);
        // A key that is changed may have been removed and stored again behind the scan's back.
        let is_exact = was_alone || S::scans_exactly(setup) && !is_changed;
        let mut shown = pairs.iter().filter(|pair| pair.0 == key).map(|pair| pair.1);
        let (first, again) = (shown.next(), shown.next());
        if is_exact && again.is_some() {
            return Err(format!("k{key} is shown twice, though nothing else changed it"));
        }
        let expected = setup.before_history(key);
        let is_missed = first.is_none() && !is_exact;
        if !is_changed && first != expected && !is_missed {
            return Err(format!("k{key} is shown as {first:?}, but it is {expected:?}"));
        }
    }
    Ok(())
}
