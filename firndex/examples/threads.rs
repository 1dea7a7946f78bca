//! Several threads count words in one table, which grows under them.
//!
//! `cargo run --release --example threads -p firndex`

use firndex::Table;
use std::time::Instant;

const THREADS: u64 = 4;
const COUNTS: u64 = 1_000_000;

fn main() -> firndex::Result<()> {
    let table = Table::<u64, u64>::in_memory()?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let table = &table;
                scope.spawn(move || -> firndex::Result<()> {
                    for n in 0..COUNTS {
                        // Half of the keys are this thread's own, half are everybody's.
                        let key = if n % 2 == 0 { n } else { thread * COUNTS + n };
                        table.modify(key, |count| Some(count.unwrap_or(0) + 1))?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let mut sum = 0;
    table.for_each(|_, count| sum += count)?;
    assert_eq!(sum, THREADS * COUNTS, "no increment was lost");
    println!("{:.1} M increments a second", sum as f64 / seconds / 1e6);
    Ok(())
}
