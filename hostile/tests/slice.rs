//! A slice of what the fuzz targets try, the same each time: mutants that a seeded generator draws.
//!
//! `FIRNDEX_MUTANTS` multiplies their number. `FIRNDEX_MUTANT` tries one alone, by the number that a failure names.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use workload::{Random, effort};

/// Addresses that the process may have: what takes memory by what a mutant says comes to this end. Each open pool
/// reserves some.
const ADDRESSES_MAX: u64 = 16 << 30;
/// No mutant needs a thousandth of this, on however slow a machine.
const HANGS_AFTER: Duration = Duration::from_secs(600);
/// Bytes that choose a mutant.
const BYTES: usize = 96;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

fn limit_memory() {
    static LIMIT: Once = Once::new();
    LIMIT.call_once(|| {
        let current = Some(ADDRESSES_MAX);
        let maximum = getrlimit(Resource::As).maximum;
        setrlimit(Resource::As, Rlimit { current, maximum }).expect("less is always granted");
    });
}

fn bytes_of(mutant: u64) -> Vec<u8> {
    let mut random = Random::new(mutant);
    (0..BYTES / 8).flat_map(|_| random.word().to_le_bytes()).collect()
}

/// Tries mutants on a target, in a thread that is given up if one hangs.
fn try_all(name: &str, target: fn(&[u8]) -> bool, mutants: u64) {
    limit_memory();
    let mutants = effort::of(mutants, mutants / 4) * number("FIRNDEX_MUTANTS").unwrap_or(1);
    let tried = match number("FIRNDEX_MUTANT") {
        Some(one) => one..one + 1,
        None => 0..mutants,
    };
    // Each target has mutants of its own.
    let salt = name.bytes().fold(1, |salt: u64, byte| salt.wrapping_mul(257) + u64::from(byte));
    let (done, outcome) = channel();
    let victim = std::thread::spawn(move || {
        let mut accepted = 0;
        for mutant in tried {
            done.send(mutant).expect("somebody waits");
            accepted += u64::from(target(&bytes_of(workload::mix(salt) ^ mutant)));
        }
        accepted
    });
    let mut last = 0;
    loop {
        match outcome.recv_timeout(HANGS_AFTER) {
            Ok(mutant) => last = mutant,
            Err(RecvTimeoutError::Timeout) => panic!("{name}: mutant {last} hangs"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let Ok(accepted) = victim.join() else {
        panic!("{name}: mutant {last} did it (FIRNDEX_MUTANT={last})");
    };
    println!("{name}: {mutants} mutants, {accepted} accepted");
    if number("FIRNDEX_MUTANT").is_none() {
        // Neither all alike, nor hardly any that come far.
        assert!(
            20 * accepted > mutants && 20 * (mutants - accepted) > mutants,
            "{name}: {accepted}"
        );
    }
}

#[test]
fn csv() {
    try_all("csv", hostile::csv, 60_000);
}

#[test]
fn tsv() {
    try_all("tsv", hostile::tsv, 30_000);
}

#[test]
fn jsonl() {
    try_all("jsonl", hostile::jsonl, 60_000);
}

#[test]
fn log() {
    try_all("log", hostile::log, 60_000);
}

#[test]
fn restored() {
    try_all("restored", hostile::restored, 1_000);
}

#[test]
fn open() {
    try_all("open", hostile::open, 12_000);
}

#[test]
fn check() {
    try_all("check", hostile::check, 12_000);
}

#[test]
fn get() {
    try_all("get", hostile::get, 1_500);
}

#[test]
fn salvage() {
    try_all("salvage", hostile::salvage, 1_200);
}
