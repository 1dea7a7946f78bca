//! What `bench.py --rust` compares the batches of arrays with: the same ones in Rust.
//!
//! ```text
//! cargo run --release --example batch -- DIR
//! ```

use firndex::{Options, Table};
use std::hint::black_box;
use std::time::Instant;

const PAIRS: usize = 1_000_000;
const ROUNDS: usize = 10;

/// Numbers that look random (splitmix64).
fn numbers(mut state: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

fn main() -> firndex::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".into());
    let path = std::path::Path::new(&directory).join(format!("batch-{}", std::process::id()));
    let pairs: Vec<(u64, u64)> = numbers(1).zip(numbers(2)).take(PAIRS).collect();
    let keys: Vec<u64> = pairs.iter().map(|&(key, _)| key).collect();
    let mut best = [("put_many", 0.0), ("get_many", 0.0), ("overwrite", 0.0)];
    for _ in 0..ROUNDS {
        let table: Table = Options::new().capacity(PAIRS as u64).create_table(&path)?;
        let put = || table.put_many(&pairs).map(|replaced| drop(black_box(replaced)));
        let get = || table.get_many(&keys).map(|values| drop(black_box(values)));
        let mut rates = [0.0; 3];
        for (rate, step) in rates.iter_mut().zip(0..) {
            let began = Instant::now();
            if step == 1 {
                get()?
            } else {
                put()?
            }
            *rate = PAIRS as f64 / began.elapsed().as_secs_f64() / 1e6;
        }
        for ((_, best), rate) in best.iter_mut().zip(rates) {
            *best = rate.max(*best);
        }
        table.close()?;
        firndex::remove(&path)?;
    }
    println!("| Rust, the same batch | millions a second |\n|---|---|");
    for (what, rate) in best {
        println!("| `Table::{what}` | {rate:.1} |");
    }
    Ok(())
}
