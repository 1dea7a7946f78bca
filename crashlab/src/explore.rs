//! Chooses programs: all short ones, and many long ones.

use crate::cache_calls;
use crate::history::Way;
use crate::history::{Action, Key, Op, Program, Value};
use crate::interleave::random_points;
use crate::lab::{Bounds, Lab};
use crate::machine::{Schedule, random_schedule};
use crate::report::Failure;
use crate::subject::{Setup, Subject};
use workload::Random;

/// Values of exhaustive histories begin here; the operation at position *p* stores this plus *p*.
const FIRST_VALUE: Value = 4;

/// Every operation of an exhaustive history, at a position that decides what it stores.
pub fn alphabet(setup: &Setup, position: usize) -> Vec<Op> {
    if setup.is_cache {
        return cache_calls::alphabet(setup, position);
    }
    let value = FIRST_VALUE + position as Value;
    let keys = 0..setup.free_keys.min(2) as Key;
    let single = keys.clone().flat_map(|key| {
        [Action::Insert(value), Action::Update(value), Action::Upsert(value), Action::Remove]
            .map(|action| Op::One(key, action))
    });
    let batch = |action: Action| Op::Many(keys.clone().map(|key| (key, action)).collect());
    let batches = [Action::Insert(value), Action::Upsert(value), Action::Remove].map(batch);
    let settle = (setup.resize_at < 2.0).then_some(Op::Settle);
    let shrink = setup.shrinks.then_some(Op::Shrink);
    let compact = setup.compacts.then_some(Op::Compact);
    let sync = setup.syncs.then_some(Op::Sync);
    let help = setup.has_helper.then_some(Op::Help);
    let others = [settle, shrink, compact, sync, help];
    single.chain(batches).chain(others.into_iter().flatten()).collect()
}

/// All histories of one thread with up to `length` operations, each crashed in its last one;
/// ends early when `is_over`.
pub fn exhaustive<S: Subject>(
    lab: &mut Lab<S>,
    length: usize,
    is_over: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    if !lab.setup().is_logged {
        lab.creation()?;
    }
    let mut choice = vec![0];
    while !(choice.is_empty() || is_over()) {
        let position = choice.len() - 1;
        let ops = alphabet(lab.setup(), position);
        if choice[position] == ops.len() {
            choice.pop();
            if let Some(last) = choice.last_mut() {
                *last += 1;
            }
            continue;
        }
        let history = choice
            .iter()
            .enumerate()
            .map(|(position, &choice)| alphabet(lab.setup(), position).swap_remove(choice));
        let program = vec![history.collect::<Vec<Op>>()];
        lab.explore(&program, &Schedule::default(), position)?;
        if choice.len() < length {
            choice.push(0);
        } else {
            choice[position] += 1;
        }
    }
    Ok(())
}

/// A random operation, mostly on the free keys; `value` is unique in its program.
fn random_op(setup: &Setup, value: Value, random: &mut Random) -> Op {
    if setup.is_cache {
        return cache_calls::random_op(setup, value, random);
    }
    // Now and then one that is there to fill the table: what moves is mostly one of those.
    let keys = if random.index(6) == 0 { setup.keys.len() } else { setup.free_keys };
    let key = random.index(keys) as Key;
    let action = |random: &mut Random| match random.index(10) {
        0..3 => Action::Insert(value),
        3 => Action::Update(value),
        4 => Action::Upsert(value),
        5 => Action::Exchange(None, Some(value)),
        6 => Action::Exchange(Some(value - 1 - random.index(3) as Value), Some(value)),
        _ => Action::Remove,
    };
    match random.index(20) {
        0..10 => Op::One(key, action(random)),
        10..16 => Op::One(key, Action::Get),
        16 | 17 => {
            let action = match random.index(4) {
                0 => Action::Get,
                1 => Action::Insert(value),
                2 => Action::Upsert(value),
                _ => Action::Remove,
            };
            Op::Many((0..setup.free_keys as Key).map(|key| (key, action)).collect())
        }
        18 => Op::Scan,
        _ if setup.shrinks && random.index(2) == 0 => Op::Shrink,
        _ if setup.compacts && random.index(2) == 0 => Op::Compact,
        _ if setup.has_helper && random.index(3) > 0 => Op::Help,
        _ if setup.syncs => Op::Sync,
        _ => Op::Settle,
    }
}

/// A random program of `threads` threads with `ops` operations each.
pub fn random_program(setup: &Setup, threads: usize, ops: usize, random: &mut Random) -> Program {
    let mut value = FIRST_VALUE;
    let mut thread = || {
        let ops = (0..ops).map(|_| {
            value += 1;
            random_op(setup, value, random)
        });
        ops.collect::<Vec<Op>>()
    };
    (0..threads).map(|_| thread()).collect()
}

/// What a thread does that closes epochs of a line log.
fn flusher(random: &mut Random) -> Vec<Op> {
    let checkpoint = Op::Checkpoint(*random.of(&[Way::Up, Way::Down]));
    random.of(&[vec![Op::Seal], vec![Op::Seal; 2], vec![Op::Seal, checkpoint, Op::Seal]]).clone()
}

/// One random history of several threads.
pub fn sample<S: Subject>(
    lab: &mut Lab<S>,
    threads: usize,
    ops: usize,
    seed: u64,
) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let mut program = random_program(lab.setup(), threads, ops, &mut random);
    if lab.setup().is_logged {
        program.push(flusher(&mut random));
    }
    lab.reseed(seed);
    let schedule = match random.index(2) {
        0 => schedule_for(&program, &mut random),
        _ => random_points(lab, &program, &mut random),
    };
    lab.explore(&program, &schedule, 0).map(drop)
}

/// About how many accesses an operation makes. It only decides where threads switch.
const ACCESSES_PER_OP: u64 = 80;

fn schedule_for(program: &Program, random: &mut Random) -> Schedule {
    let ops: usize = program.iter().map(Vec::len).sum();
    random_schedule(program.len(), ops as u64 * ACCESSES_PER_OP, random)
}

/// Schedules tried for each smaller program before it counts as sound.
const SHRINK_SCHEDULES: u64 = 60;

/// Makes a failing history smaller while it still fails: removes operations, then changes of threads.
pub fn shrink<S: Subject>(setup: &Setup, bounds: Bounds, failure: Failure) -> Failure {
    let mut smallest = failure;
    let fails = |program: &Program, schedule: &Schedule| {
        // A lab of its own: what is remembered of images must not hide anything.
        let mut lab = Lab::<S>::new(setup.clone(), bounds, 0).ok()?;
        lab.explore(program, schedule, 0).err()
    };
    'again: loop {
        for thread in 0..smallest.evidence.program.len() {
            for index in 0..smallest.evidence.program[thread].len() {
                let mut program = smallest.evidence.program.clone();
                program[thread].remove(index);
                let tried = match program.len() {
                    0 | 1 => 0,
                    _ => SHRINK_SCHEDULES,
                };
                let random = (0..tried).map(|seed| schedule_for(&program, &mut Random::new(seed)));
                let found = std::iter::once(smallest.evidence.schedule.clone())
                    .chain(random)
                    .find_map(|schedule| fails(&program, &schedule));
                if let Some(found) = found {
                    smallest = found;
                    continue 'again;
                }
            }
        }
        for index in 0..smallest.evidence.schedule.slices.len() {
            let mut schedule = smallest.evidence.schedule.clone();
            schedule.slices.remove(index);
            if let Some(found) = fails(&smallest.evidence.program, &schedule) {
                smallest = found;
                continue 'again;
            }
        }
        return smallest;
    }
}
