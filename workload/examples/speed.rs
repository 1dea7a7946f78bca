//! How long a key or an operation of each stream takes to make.
//!
//! `cargo run --release -p firndex-workload --example speed [RECORDS]`

use std::hint::black_box;
use std::time::Instant;
use workload::operations::{Caching, Mix, MixStream, Operation, Ycsb};
use workload::ranks::{Distribution, RankStream, Ranks, Zipf};
use workload::{ParameterError, Part, Scatter};

const DRAWN: usize = 1_000_000;
const SEED: u64 = 42;

fn main() -> Result<(), ParameterError> {
    let records = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1 << 27);
    let scatter = Scatter::new(SEED);

    let started = Instant::now();
    black_box(Zipf::new(black_box(records), 0.99)?);
    println!("{:<24} {:>8.1} us", "zipfian set-up", started.elapsed().as_nanos() as f64 / 1e3);

    let mut keys = vec![0; DRAWN];
    for (name, distribution) in [
        ("uniform", Distribution::Uniform),
        ("sequential", Distribution::Sequential),
        ("shuffled", Distribution::Shuffled),
        ("zipfian 0.5", Distribution::Zipfian { theta: 0.5 }),
        ("zipfian 0.99", Distribution::Zipfian { theta: 0.99 }),
        ("latest 0.99", Distribution::Latest { theta: 0.99 }),
    ] {
        let mut ranks = RankStream::new(distribution, records, SEED, Part::WHOLE)?;
        report(name, || ranks.fill_keys(scatter, &mut keys));
    }

    let mut operations: Vec<Operation> = Vec::with_capacity(DRAWN);
    for workload in Ycsb::ALL {
        let mut stream = MixStream::new(&Mix::ycsb(workload), records, scatter, SEED, Part::WHOLE)?;
        report(&format!("YCSB {workload:?}"), || {
            operations.clear();
            operations.extend(stream.by_ref().take(DRAWN));
        });
    }
    let reads = Mix::reads(0.5, Distribution::Uniform)?;
    let mut stream = MixStream::new(&reads, records, scatter, SEED, Part::WHOLE)?;
    report("reads, half misses", || {
        operations.clear();
        operations.extend(stream.by_ref().take(DRAWN));
    });
    for hit_share in [0.95, 0.90] {
        let started = Instant::now();
        let mut cache = Caching::new(records, hit_share, scatter, SEED, Part::WHOLE)?;
        let name = format!("cache {hit_share}");
        println!("{name:<24} {:>8.1} ms set-up", started.elapsed().as_nanos() as f64 / 1e6);
        report(&name, || {
            operations.clear();
            operations.extend(cache.by_ref().take(DRAWN));
        });
    }
    Ok(())
}

/// Prints the time of the best of five runs, after one that touches the memory.
fn report(name: &str, mut run: impl FnMut()) {
    run();
    let mut best_ns = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        run();
        best_ns = best_ns.min(started.elapsed().as_nanos() as f64);
    }
    println!("{name:<24} {:>8.2} ns", best_ns / DRAWN as f64);
}
