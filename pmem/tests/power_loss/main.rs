//! Power loss on a simulated disk: see `pmem::durability`. `cargo run --release -p firndex-pmem --example power_loss`
//! explores more of it.

mod amid;
mod crash;
mod damage;
mod directed;
mod disk;
mod faults;
mod futures;
mod history;
mod kept;
mod killed;
mod merged;
mod others;
mod pool;
mod rejoined;
mod resumed;
mod small;

use crash::Random;
use history::{Plan, RESTLESS, STEPS, Step, Verdict, draw, explore_deeply};

/// Every history of `length` steps over `steps`.
fn histories<S: Copy>(steps: &[S], length: usize) -> impl Iterator<Item = Vec<S>> {
    (0..steps.len().pow(length as u32)).map(move |mut index| {
        let mut step = || {
            let step = steps[index % steps.len()];
            index /= steps.len();
            step
        };
        (0..length).map(|_| step()).collect()
    })
}

#[test]
fn every_crash_of_a_short_history_leaves_what_was_durable() {
    let mut verdict = Verdict::default();
    for (seed, steps) in (0..).zip(histories(&STEPS, 3)) {
        for (sector_bytes, segment_bytes, rest) in [(512, 8 << 10, 0), (4096, 16 << 10, RESTLESS)] {
            let steps = [&[Step::Operate, Step::Checkpoint], &steps[..]].concat();
            let plan = Plan {
                steps,
                sector_bytes,
                segment_bytes,
                fault: None,
                capacity: None,
                rest,
                images_per_call: 32,
                seed,
            };
            verdict.add(explore_deeply(&plan, None, 1, 1));
        }
    }
    println!("{} images after {} calls of the disk", verdict.images, verdict.calls);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

#[test]
fn crashes_of_histories_drawn_at_random() {
    let mut random = Random(1);
    let mut verdict = Verdict::default();
    for _ in 0..30 {
        let plan = Plan { images_per_call: 32, ..draw(&mut random) };
        verdict.add(explore_deeply(&plan, None, 3, 2));
    }
    println!("{} images after {} calls of the disk", verdict.images, verdict.calls);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}
