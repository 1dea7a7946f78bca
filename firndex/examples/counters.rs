//! A counter service: four threads add to named counters, and confirm a request only when it survives power loss.
//!
//! `cargo run --release --example counters -p firndex`
//!
//! Waiting for the disk after each request would be slow. So a worker handles a group of requests, waits once for all
//! of them, and then confirms the group.

use firndex::{Durability, Options, Result, Store};
use std::thread;

const WORKERS: u64 = 4;
const REQUESTS_PER_WORKER: u64 = 50_000;
/// Requests confirmed together.
const GROUP: u64 = 1000;

const NAMES: [&str; 5] = ["home", "search", "basket", "checkout", "help"];

/// Adds to a counter in one atomic step, whatever the other workers do.
fn add(counters: &Store, name: &str, amount: u64) -> Result<()> {
    counters.modify(name, |count| Some((number(count) + amount).to_le_bytes().to_vec())).map(drop)
}

/// An absent counter stands at 0.
fn number(count: Option<&[u8]>) -> u64 {
    count.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Handles the requests of one worker; returns how many were confirmed.
fn work(counters: &Store, worker: u64) -> Result<u64> {
    let mut confirmed = 0;
    while confirmed < REQUESTS_PER_WORKER {
        for request in 0..GROUP {
            let name = NAMES[((worker + request) % NAMES.len() as u64) as usize];
            add(counters, name, 1)?;
        }
        // The ticket covers what this thread has done so far. Workers that wait at the same time share one write.
        counters.wait_durable(counters.ticket()?)?;
        confirmed += GROUP;
    }
    Ok(confirmed)
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("firndex-example-counters.firn");
    // Tickets need a log, which a pool in /dev/shm has only if it is asked for.
    let counters = Options::new().durability(Durability::Periodic).open_or_create_store(&path)?;
    let total = |counters: &Store| -> Result<u64> {
        NAMES.iter().try_fold(0, |sum, name| Ok(sum + number(counters.get(name)?.as_deref())))
    };
    let before = total(&counters)?;

    let confirmed = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let counters = &counters;
                scope.spawn(move || work(counters, worker))
            })
            .collect();
        workers.into_iter().try_fold(0, |sum, worker| -> Result<u64> {
            match worker.join() {
                Ok(confirmed) => Ok(sum + confirmed?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })?;

    for name in NAMES {
        println!("{name:>8} {}", number(counters.get(name)?.as_deref()));
    }
    assert_eq!(total(&counters)?, before + confirmed, "no request was lost or counted twice");
    println!("{confirmed} requests confirmed; run it again to count on from here");
    counters.close()
}
