//! A table of words that survives the program: run it twice.
//!
//! `cargo run --example table -p firndex`

use firndex::Table;

fn main() -> firndex::Result<()> {
    let path = std::env::temp_dir().join("firndex-example-table.firn");
    let table = Table::<u64, u64>::open_or_create(&path)?;
    println!("{} squares from earlier runs in {}", table.len(), path.display());

    let from = table.len();
    let squares: Vec<(u64, u64)> = (from..from + 1000).map(|n| (n, n * n)).collect();
    table.put_many(&squares)?;

    assert_eq!(table.get(12)?, Some(144));
    assert_eq!(table.insert(12, 0)?, Some(144), "insert leaves what is there");
    assert_eq!(table.get(u64::MAX)?, None);
    println!("{} squares now, load factor {:.2}", table.len(), table.stats()?.load_factor);
    table.close()
}
