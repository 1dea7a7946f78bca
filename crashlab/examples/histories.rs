//! Questions for another checker: histories of a table, each with a state that a crash may have
//! left, and what the lab's judge says to it. One JSON object a line.
//!
//! `cargo run --release -p firndex-crashlab --example histories -- [--count N] [--seed S]`
//!
//! Half of the histories are as they were recorded, the others spoilt, so that there is enough to
//! refuse. A judge is no measure of itself: what a call had come to when the machine crashed is
//! worked out here once more, and never asked of the judge.

use crashlab::execution::{self, Manner};
use crashlab::explore::random_program;
use crashlab::history::{Action, Answer, Call, Key, Op, Program, Value};
use crashlab::judge;
use crashlab::machine::{self, random_schedule};
use crashlab::subject::{Setup, Subject, TableSubject};
use engines::Engine;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use workload::Random;

/// Questions that are asked if the command line does not say.
const COUNT: usize = 20_000;
/// No history stores it.
const NEVER_STORED: Value = 555;
/// About so many accesses an operation makes: decides where threads change places.
const ACCESSES_PER_OP: u64 = 40;
/// Histories in a row that may bring nothing new before it is clear that none will.
const BARREN_MAX: usize = 10_000;

type State = Option<Value>;

fn main() -> Result<(), String> {
    let (count, seed) = arguments(std::env::args().skip(1))?;
    let mut random = Random::new(seed);
    let situations: Vec<Situation> = crashlab::engines::tables(Engine::ALL[0])
        .into_iter()
        .map(Situation::new)
        .collect::<Result<_, _>>()?;
    let mut questions = Questions {
        out: BufWriter::new(io::stdout().lock()),
        count,
        asked: 0,
        met: HashSet::new(),
    };
    let mut barren = 0;
    let mut process = 1;
    for situation in situations.iter().cycle() {
        let before = questions.asked;
        process += 1;
        match ask(situation, process, &mut random, &mut questions) {
            Ok(()) => {}
            Err(Halt::Done) => break,
            Err(Halt::Failed(what)) => return Err(what),
        }
        barren = if questions.asked == before { barren + 1 } else { 0 };
        if barren == BARREN_MAX {
            return Err(format!("there are only {before} questions to ask"));
        }
    }
    questions.out.flush().map_err(|error| error.to_string())
}

/// How many questions, and of which seed.
fn arguments(mut words: impl Iterator<Item = String>) -> Result<(usize, u64), String> {
    let (mut count, mut seed) = (COUNT, 1);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.parse::<u64>().ok());
        match (word.as_str(), number) {
            ("--count", Some(number)) => count = number as usize,
            ("--seed", Some(number)) => seed = number,
            _ => return Err("usage: histories [--count N] [--seed S]".into()),
        }
    }
    Ok((count, seed))
}

/// A setup, and what is stored in it before a history begins.
struct Situation {
    setup: Arc<Setup>,
    initial: Vec<State>,
}

impl Situation {
    fn new(setup: Setup) -> Result<Situation, String> {
        let process = 1;
        let subject = execution::prepare::<TableSubject>(&setup, process)?;
        let initial = machine::alone(process, None, || subject.contents(&setup))?;
        Ok(Situation { setup: Arc::new(setup), initial })
    }

    fn name(&self) -> &'static str {
        self.setup.name
    }
}

/// Why no more is asked.
enum Halt {
    /// There are as many questions as there should be.
    Done,
    /// They cannot be told.
    Failed(String),
}

impl From<String> for Halt {
    fn from(what: String) -> Self {
        Halt::Failed(what)
    }
}

/// Runs one random program and asks about what was recorded, then about as much spoilt.
fn ask<W: Write>(
    situation: &Situation,
    process: u32,
    random: &mut Random,
    questions: &mut Questions<W>,
) -> Result<(), Halt> {
    let (calls, end) = recorded(situation, process, random)?;
    for key in 0..situation.setup.free_keys as Key {
        for at in [end, random.index(end as usize) as u32] {
            questions.put(situation, &calls, key, at, "recorded")?;
        }
        let spoil = *random.of(&Spoil::ALL);
        if let Some(spoilt) = spoil.applied(&calls, key, end, random) {
            for at in [end, random.index(end as usize) as u32] {
                questions.put(situation, &spoilt, key, at, spoil)?;
            }
        }
    }
    Ok(())
}

/// The calls of a random run, and the moment after it.
fn recorded(
    situation: &Situation,
    process: u32,
    random: &mut Random,
) -> Result<(Vec<Call>, u32), String> {
    let setup = &situation.setup;
    let threads = 2 + random.index(2);
    let ops = 2 + random.index(3);
    let mut program = random_program(setup, threads, ops, random);
    add_exchanges(&mut program, random);
    let schedule = random_schedule(threads, (threads * ops) as u64 * ACCESSES_PER_OP, random);
    // Only the calls are of interest, so no image is taken anywhere.
    let manner =
        Manner { schedule: &schedule, from_op: threads * ops, slices_before: 0, is_traced: false };
    let execution = execution::run::<TableSubject>(setup, &program, process, manner)?;
    match execution.wrong {
        None => Ok((execution.calls, execution.end)),
        Some(what) => Err(format!("{}, {program:?}, {schedule:?}: {what}", setup.name)),
    }
}

/// Turns some of the changes into exchanges, of which random programs have none.
fn add_exchanges(program: &mut Program, random: &mut Random) {
    let stored = |op: &Op| match op {
        Op::One(_, Action::Insert(value) | Action::Update(value) | Action::Upsert(value)) => {
            Some(*value)
        }
        _ => None,
    };
    let mut expected: Vec<State> = program.iter().flatten().map(stored).collect();
    expected.push(None);
    for op in program.iter_mut().flatten() {
        if let Op::One(_, action) = op
            && random.index(6) == 0
        {
            *action = match *action {
                Action::Insert(value) | Action::Update(value) | Action::Upsert(value) => {
                    Action::Exchange(*random.of(&expected), Some(value))
                }
                Action::Remove => Action::Exchange(*random.of(&expected), None),
                action => action,
            };
        }
    }
}

/// What is done to a recorded history.
#[derive(Debug, Clone, Copy)]
enum Spoil {
    /// A call found something else, or no room, or room after all.
    Answer,
    /// A call returned earlier or later.
    Return,
    /// Two calls found what the other did.
    Swap,
    /// A call was never made.
    Drop,
}

impl fmt::Display for Spoil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spoil::Answer => "an answer changed",
            Spoil::Return => "a return moved",
            Spoil::Swap => "two answers swapped",
            Spoil::Drop => "a call dropped",
        })
    }
}

impl Spoil {
    const ALL: [Spoil; 4] = [Spoil::Answer, Spoil::Return, Spoil::Swap, Spoil::Drop];

    /// The history spoilt on `key`; none if it has nothing to spoil there.
    fn applied(self, calls: &[Call], key: Key, end: u32, random: &mut Random) -> Option<Vec<Call>> {
        let mut calls = calls.to_vec();
        let returned: Vec<(usize, u32, Answer)> = calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.key == key)
            .filter_map(|(index, call)| call.ended.map(|(ended, answer)| (index, ended, answer)))
            .collect();
        if returned.is_empty() {
            return None;
        }
        let &(index, ended, answer) = random.of(&returned);
        match self {
            Spoil::Answer => {
                let mut others: Vec<Answer> =
                    states_of(&calls, key).into_iter().map(Answer::Found).collect();
                others.push(Answer::Full);
                others.retain(|&other| other != answer);
                calls[index].ended = Some((ended, *random.of(&others)));
            }
            Spoil::Return => {
                // Also to the very moment at which another call begins or ends.
                let began = calls[index].began;
                let moved = began + 1 + random.index((end - began) as usize) as u32;
                calls[index].ended = Some((moved, answer));
            }
            Spoil::Swap => {
                let others: Vec<_> =
                    returned.iter().filter(|(_, _, other)| *other != answer).collect();
                let &&(other, other_ended, others_answer) =
                    (!others.is_empty()).then(|| random.of(&others))?;
                calls[index].ended = Some((ended, others_answer));
                calls[other].ended = Some((other_ended, answer));
            }
            Spoil::Drop => {
                calls.remove(index);
            }
        }
        Some(calls)
    }
}

/// Every state of `key` that the calls speak of, absence included, and one that they do not.
fn states_of(calls: &[Call], key: Key) -> BTreeSet<State> {
    let mut states = BTreeSet::from([None, Some(NEVER_STORED)]);
    for call in calls.iter().filter(|call| call.key == key) {
        match call.action {
            Action::Get | Action::Remove | Action::OfCache(_) => {}
            Action::Insert(value) | Action::Update(value) | Action::Upsert(value) => {
                states.insert(Some(value));
            }
            Action::Exchange(expected, new) => states.extend([expected, new]),
        }
        if let Some((_, Answer::Found(found))) = call.ended {
            states.insert(found);
        }
    }
    states
}

/// Writes questions, each once.
struct Questions<W> {
    out: W,
    count: usize,
    asked: usize,
    met: HashSet<String>,
}

impl<W: Write> Questions<W> {
    /// Asks about a crash at the moment `at` and every state that `key` could be found in.
    fn put(
        &mut self,
        situation: &Situation,
        calls: &[Call],
        key: Key,
        at: u32,
        how: impl fmt::Display,
    ) -> Result<(), Halt> {
        let initial = situation.initial[usize::from(key)];
        let known: Vec<Json> = calls
            .iter()
            .filter(|call| call.key == key && call.began < at)
            .map(|call| told(call, at))
            .collect();
        if known.is_empty() || !self.met.insert(format!("{initial:?} {known:?}")) {
            return Ok(());
        }
        let allowed = judge::allowed(calls, key, initial, at);
        let mut finals = states_of(calls, key);
        finals.insert(initial);
        for state in finals {
            if self.asked == self.count {
                return Err(Halt::Done);
            }
            self.asked += 1;
            let line = json!({
                "id": format!("{}: {}, k{key} at {at}, {how}", self.asked, situation.name()),
                "initial": initial,
                "calls": known,
                "final": state,
                "allowed": allowed.contains(&state),
            });
            writeln!(self.out, "{line}").map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// A call as it stood at the moment `at`.
fn told(call: &Call, at: u32) -> Json {
    let (action, expected, value) = match call.action {
        Action::Get => ("get", None, None),
        Action::Insert(value) => ("insert", None, Some(value)),
        Action::Update(value) => ("update", None, Some(value)),
        Action::Upsert(value) => ("upsert", None, Some(value)),
        Action::Remove => ("remove", None, None),
        Action::OfCache(_) => ("of a cache", None, None),
        Action::Exchange(expected, new) => ("exchange", expected, new),
    };
    let ended = call.ended.filter(|&(ended, _)| ended < at);
    let (found, is_full) = match ended {
        Some((_, Answer::Found(found))) => (found, false),
        Some((_, Answer::Full)) => (None, true),
        Some((_, Answer::Lost)) | None => (None, false),
    };
    json!({
        "thread": call.thread,
        "action": action,
        "value": value,
        "expected": expected,
        "call": call.began,
        "return": ended.map(|(ended, _)| ended),
        "found": found,
        "full": is_full,
    })
}
