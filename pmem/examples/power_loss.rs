//! Explores power loss on a simulated disk until so many disks that a crash may leave have been restored and judged:
//!
//! ```sh
//! cargo run --release -p firndex-pmem --example power_loss -- --images 10000000
//! ```
//!
//! Histories are drawn at random, with faults of the disk in half of them; `--seed N` begins with another one. Fails if
//! one of the disks did not give back a state of the pool that was durable.

#[path = "../tests/power_loss/crash.rs"]
mod crash;
#[expect(dead_code, reason = "some of it only the tests use")]
#[path = "../tests/power_loss/disk.rs"]
mod disk;
#[expect(dead_code, reason = "some of it only the tests use")]
#[path = "../tests/power_loss/history.rs"]
mod history;
#[expect(dead_code, reason = "some of it only the tests use")]
#[path = "../tests/power_loss/pool.rs"]
mod pool;

use crash::Random;
use history::{Verdict, draw, explore_deeply};
use std::process::ExitCode;
use std::time::Instant;

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().map_or(default, |value| value.parse().expect("a number"))
}

fn main() -> ExitCode {
    let images = argument("--images", 1_000_000);
    let mut random = Random(argument("--seed", 1));
    let (started, mut told) = (Instant::now(), 0);
    let mut verdict = Verdict::default();
    let mut histories = 0_u64;
    while verdict.images < images && verdict.violations.is_empty() {
        verdict.add(explore_deeply(&draw(&mut random), None, 3, 2));
        histories += 1;
        if verdict.images / 1_000_000 > told {
            told = verdict.images / 1_000_000;
            println!("{told} million images, {:.0?}", started.elapsed());
        }
    }
    let Verdict { images, calls, violations } = verdict;
    println!(
        "{histories} histories, {calls} calls of the disk, {images} images, {} violations, {:.0?}",
        violations.len(),
        started.elapsed()
    );
    violations.iter().for_each(|violation| println!("{violation}"));
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
