//! A store of byte strings: sessions that outlive the server process.
//!
//! `cargo run --example store -p firndex`

use firndex::Store;

fn main() -> firndex::Result<()> {
    let path = std::env::temp_dir().join("firndex-example-store.firn");
    let sessions = Store::open_or_create(&path)?;

    let visit = |text: Option<&[u8]>| {
        let count = text.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        Some((count.unwrap_or(0) + 1).to_string().into_bytes())
    };
    sessions.modify("ada", visit)?;

    // The value is read in place; the record keeps it there.
    if let Some(count) = sessions.get("ada")? {
        println!("ada's visits: {}", String::from_utf8_lossy(&count));
    }
    sessions.for_each(|user, visits| {
        println!("{} {}", String::from_utf8_lossy(user), String::from_utf8_lossy(visits));
    })?;
    let report = sessions.check()?;
    println!("checked {} keys, {} faults", report.pairs, report.faults);
    sessions.close()
}
