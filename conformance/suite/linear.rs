//! Linearizability of keys that every thread changes.
//!
//! Many short histories on tables that begin with nothing. There a resize comes every few dozen operations, and each
//! one moves blocks that every thread is using.

use crate::harness::{
    Backing, Call, Clock, Engine, Event, History, Random, Setup, THREADS_MAX, Table, within,
};
use index::Index;
use std::sync::Barrier;

/// How one round of threads treats its table.
#[derive(Clone, Copy)]
struct Round {
    setup: Setup,
    seed: u64,
    /// Load factor to which the table is filled first.
    filled_to: f64,
    operations: u32,
    /// Unshared keys that a thread inserts, in per cent of its operations.
    fillers_percent: u64,
    /// Whether fillers are removed now and then, to make room in the lower levels.
    fillers_go: bool,
    batches: bool,
}

/// Keys that every thread changes.
fn contended(engine: &'static Engine, random: &mut Random) -> Vec<u64> {
    let colliding = engine.colliding_keys();
    let at = random.below(colliding.len() as u64 - 3) as usize;
    vec![0, u64::MAX, colliding[at], colliding[at + 1], colliding[at + 2], 77]
}

/// A value that nobody else writes.
struct Unique(u64);

impl Unique {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

fn call(random: &mut Random, unique: &mut Unique, last_seen: Option<u64>) -> Call {
    let expected = if random.percent(80) { last_seen } else { None };
    let new = random.percent(70).then(|| unique.next());
    match random.below(10) {
        0..3 => Call::Get,
        3..5 => Call::Insert(unique.next()),
        5 => Call::Update(unique.next()),
        6 => Call::Upsert(unique.next()),
        7 => Call::Remove,
        _ => Call::Exchange(expected, new),
    }
}

/// Does a call; returns the state that it found.
fn perform(table: &dyn Index<u64, u64>, key: u64, call: Call) -> Option<u64> {
    match call {
        Call::Get => table.get(key),
        Call::Insert(value) => table.insert(key, value).unwrap(),
        Call::Update(value) => table.update(key, value).unwrap(),
        Call::Upsert(value) => table.upsert(key, value).unwrap(),
        Call::Remove => table.remove(key).unwrap(),
        Call::Exchange(expected, new) => {
            match table.compare_exchange(key, expected, new).unwrap() {
                Ok(()) => expected,
                Err(found) => {
                    assert_ne!(
                        found, expected,
                        "an exchange failed though it found what it expected"
                    );
                    found
                }
            }
        }
    }
}

/// Does a batch of one kind; returns the calls and the states that they found.
///
/// Two mutations of one key are two operations of this thread, in order; mutations of different keys need no order.
/// Look-ups in one batch have no order at all, which the search for an order does not know. So a batch of look-ups has
/// each key once.
fn perform_batch(
    table: &dyn Index<u64, u64>,
    keys: &mut Vec<u64>,
    random: &mut Random,
    unique: &mut Unique,
) -> (Vec<Call>, Vec<Option<u64>>) {
    let kind = random.below(5);
    if kind == 0 {
        keys.sort_unstable();
        keys.dedup();
    }
    let mut out = vec![None; keys.len()];
    let mut pairs = || keys.iter().map(|&key| (key, unique.next())).collect::<Vec<_>>();
    let calls = match kind {
        0 => {
            table.get_many(keys, &mut out);
            vec![Call::Get; keys.len()]
        }
        1 => {
            let pairs = pairs();
            table.insert_many(&pairs, &mut out).unwrap();
            pairs.iter().map(|pair| Call::Insert(pair.1)).collect()
        }
        2 => {
            let pairs = pairs();
            table.upsert_many(&pairs, &mut out).unwrap();
            pairs.iter().map(|pair| Call::Upsert(pair.1)).collect()
        }
        3 => {
            table.remove_many(keys, &mut out).unwrap();
            vec![Call::Remove; keys.len()]
        }
        _ => {
            let changes: Vec<_> =
                pairs().iter().map(|&(key, new)| (key, table.get(key), Some(new))).collect();
            table.compare_exchange_many(&changes, &mut out).unwrap();
            changes.iter().map(|&(_, expected, new)| Call::Exchange(expected, new)).collect()
        }
    };
    (calls, out)
}

/// What one thread does in a round.
fn run_thread(
    table: &dyn Index<u64, u64>,
    clock: &Clock,
    thread: usize,
    round: &Round,
    keys: &[u64],
) -> History {
    let mut random = Random::new(round.seed ^ (thread as u64) << 40);
    let mut unique = Unique((thread as u64 + 1) << 32);
    let mut fillers = ((thread as u64 + 1) << 48)..;
    let mut own = Vec::new();
    let mut last_seen = None;
    let mut history = History::default();
    for number in 0..round.operations {
        if random.percent(round.fillers_percent) {
            if round.fillers_go && !own.is_empty() && random.percent(50) {
                let filler = own.swap_remove(random.below(own.len() as u64) as usize);
                assert_eq!(table.remove(filler).unwrap(), Some(!filler));
            } else if let Some(filler) = fillers.next() {
                assert_eq!(table.insert(filler, !filler).unwrap(), None);
                own.push(filler);
            }
        }
        let after = clock.now();
        if round.batches && random.percent(50) {
            let mut batch: Vec<u64> = (0..random.below(12)).map(|_| *random.of(keys)).collect();
            let (calls, found) = perform_batch(table, &mut batch, &mut random, &mut unique);
            for ((key, call), found) in batch.into_iter().zip(calls).zip(found) {
                history.record(key, Event { call, found, number, after });
            }
        } else {
            let key = *random.of(keys);
            let call = call(&mut random, &mut unique, last_seen);
            let found = perform(table, key, call);
            last_seen = found;
            history.record(key, Event { call, found, number, after });
        }
        clock.finish(thread, number);
    }
    for filler in own {
        assert_eq!(table.get(filler), Some(!filler), "a filler is lost");
    }
    history
}

fn run<B: Backing>(round: Round) {
    let table = Table::<B>::new(round.setup);
    let keys = contended(round.setup.engine, &mut Random::new(round.seed));
    for key in 1..(table.occupancy().capacity as f64 * round.filled_to) as u64 {
        table.insert(key << 20, key).unwrap();
    }
    let clock = Clock::default();
    let start = Barrier::new(THREADS_MAX);
    let histories: Vec<History> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS_MAX)
            .map(|thread| {
                let (table, clock, start, round, keys) = (&table, &clock, &start, &round, &keys);
                scope.spawn(move || {
                    start.wait();
                    run_thread(table, clock, thread, round, keys)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    History::assert_linearizable(&histories, |_| None, |key| table.get(key));
    table.assert_sound();
}

pub(crate) fn contended_keys_while_growing_from_nothing<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for seed in 0..B::part(160) {
        run::<B>(Round {
            setup: Setup {
                variant: seed as usize % engine.variants,
                helpers: (seed % 8 / 3) as usize,
                resize_at: if seed % 3 == 0 { 1.0 } else { 0.85 },
                limit_bytes: 256 << 20,
                ..Setup::of(engine)
            },
            seed,
            filled_to: 0.0,
            operations: 600,
            fillers_percent: 60,
            fillers_go: seed % 2 == 0,
            batches: false,
        });
    }
}

pub(crate) fn contended_keys_in_every_level<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for seed in 0..B::part(36) {
        // Without growth, every level is in use; fillers that go make room in the first ones.
        run::<B>(Round {
            setup: Setup {
                variant: seed as usize % engine.variants,
                pairs: [0, 60, 300][seed as usize / engine.variants % 3],
                resize_at: engine.as_late_as_possible,
                limit_bytes: 256 << 20,
                ..Setup::of(engine)
            },
            seed: seed + 1000,
            filled_to: 1.2,
            operations: 2000,
            fillers_percent: 40,
            fillers_go: true,
            batches: false,
        });
    }
}

pub(crate) fn contended_keys_in_batches<B: Backing>(engine: &'static Engine) {
    let _watchdog = within(120);
    for seed in 0..B::part(64) {
        run::<B>(Round {
            setup: Setup {
                variant: seed as usize % engine.variants,
                pairs: [0, 60, 300][seed as usize / 7 % 3],
                helpers: seed as usize % 3,
                resize_at: if seed % 4 < 2 { engine.as_late_as_possible } else { 0.85 },
                limit_bytes: 256 << 20,
                ..Setup::of(engine)
            },
            seed: seed + 2000,
            filled_to: [0.0, 0.8, 1.2][seed as usize % 3],
            operations: 500,
            fillers_percent: 30,
            fillers_go: true,
            batches: true,
        });
    }
}
