//! A session store with expiry: sessions outlive the server, and end when nobody uses them.
//!
//! `cargo run --release --example sessions -p firndex`

use firndex::{Cache, Result};
use std::time::Duration;

const LIFETIME: Duration = Duration::from_secs(30 * 60);

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("firndex-example-session-cache.firn");
    // Never more than 64 MiB. Should that not do, sessions go that nobody has used for long.
    let sessions = Cache::open_or_create(&path, 64 << 20)?;
    println!("{} sessions are left from the last run", sessions.len());

    for visitor in 0..1000 {
        sessions.put_for(format!("visitor {visitor}"), "an empty basket", LIFETIME)?;
    }
    // A use prolongs a session.
    for visitor in (0..1000).step_by(10) {
        let id = format!("visitor {visitor}");
        assert_eq!(sessions.get(&id)?.as_deref(), Some(&b"an empty basket"[..]));
        assert!(sessions.touch(&id, LIFETIME)?);
    }
    // Who signs out has none any more.
    assert!(sessions.remove("visitor 7")?);
    assert!(sessions.get("visitor 7")?.is_none());
    // Nor has one whose time is over.
    sessions.touch("visitor 8", Duration::ZERO)?;
    assert!(sessions.get("visitor 8")?.is_none());

    let stats = sessions.stats()?;
    println!(
        "{} sessions in {} KiB, {:.0} % hits",
        stats.entries,
        stats.pool_bytes >> 10,
        100.0 * stats.hit_ratio()
    );
    sessions.close()
}
