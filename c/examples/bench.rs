//! Single calls from Rust, as `bench/bench.c` makes them from C.

use firndex::{Error, Options};
use std::hint::black_box;
use std::time::Instant;

const VALUE_BYTES: usize = 100;

/// Keys in no order: splitmix64, which gives each number another one.
fn key_of(number: u64) -> u64 {
    let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

fn tell(what: &str, calls: u64, began: Instant) {
    println!("{what} {:.0}", calls as f64 / began.elapsed().as_secs_f64());
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(Ok(pairs))) =
        (arguments.next(), arguments.next().map(|pairs| pairs.parse::<u64>()))
    else {
        eprintln!("usage: bench POOL PAIRS");
        std::process::exit(2);
    };
    let (value, mut buffer, mut sum) = ([7; VALUE_BYTES], [0; VALUE_BYTES], 0_u64);
    let options = Options::new().capacity(pairs);
    let store = options.create_store(&path)?;

    let began = Instant::now();
    for number in 0..pairs {
        store.put(key_of(number).to_le_bytes(), value)?;
    }
    tell("store-put", pairs, began);

    let began = Instant::now();
    for number in 0..pairs {
        let found = store.get(key_of(number).to_le_bytes())?.expect("it is there");
        buffer[..found.len()].copy_from_slice(&found);
        sum += u64::from(black_box(&buffer)[number as usize % found.len()]);
    }
    tell("store-get", pairs, began);

    let began = Instant::now();
    for number in 0..pairs {
        let found = store.get(key_of(number).to_le_bytes())?.expect("it is there");
        sum += u64::from(found[number as usize % found.len()]);
    }
    tell("store-get-in-place", pairs, began);

    let began = Instant::now();
    for number in 0..pairs {
        store.put(key_of(number).to_le_bytes(), value)?;
    }
    tell("store-overwrite", pairs, began);
    store.close()?;
    options.remove(&path)?;

    let table = options.create_table(&path)?;
    let began = Instant::now();
    for number in 0..pairs {
        table.put(key_of(number), number)?;
    }
    tell("table-put", pairs, began);
    let began = Instant::now();
    for number in 0..pairs {
        sum += table.get(key_of(number))?.expect("it is there");
    }
    tell("table-get", pairs, began);
    table.close()?;
    options.remove(&path)?;
    eprintln!("sum {sum}");
    Ok(())
}
