//! A session store with expiry: sessions outlive the server, and end when nobody uses them.
//!
//! `cargo run --release --example sessions -p firndex`
//!
//! firndex has no expiry of its own. Here each value begins with the second at which it expires. Look-ups treat an
//! expired session as absent, and a sweep removes expired ones from time to time.

use firndex::{Result, Store};
use std::time::{SystemTime, UNIX_EPOCH};

const LIFETIME_S: u64 = 30 * 60;
/// Bytes of a value that hold its expiry; the session's data follow.
const EXPIRY_BYTES: usize = 8;

struct Sessions {
    store: Store,
}

impl Sessions {
    /// Begins a session, or replaces the one with this identifier.
    fn begin(&self, id: &str, data: &[u8], now_s: u64) -> Result<()> {
        self.store.put(id, value_of(now_s + LIFETIME_S, data)).map(drop)
    }

    /// The session's data, if it has not expired. A use prolongs it.
    fn resume(&self, id: &str, now_s: u64) -> Result<Option<Vec<u8>>> {
        // `modify` is atomic: of a use and a sweep at the same moment one comes first, and the other sees its result.
        let before = self.store.modify(id, |value| {
            let (expires_s, data) = parts_of(value?)?;
            // `None` removes the key, so an expired session goes at once.
            (expires_s > now_s).then(|| value_of(now_s + LIFETIME_S, data))
        })?;
        let live = before.as_deref().and_then(parts_of).filter(|(expires_s, _)| *expires_s > now_s);
        Ok(live.map(|(_, data)| data.to_vec()))
    }

    /// Removes expired sessions and says how many. Run it from time to time, beside everything else.
    fn sweep(&self, now_s: u64) -> Result<u64> {
        // A session that is prolonged meanwhile is looked at again, and stays.
        self.store
            .retain(|_, value| parts_of(value).is_some_and(|(expires_s, _)| expires_s > now_s))
    }
}

fn value_of(expires_s: u64, data: &[u8]) -> Vec<u8> {
    [&expires_s.to_le_bytes(), data].concat()
}

fn parts_of(value: &[u8]) -> Option<(u64, &[u8])> {
    let (expires_s, data) = value.split_first_chunk::<EXPIRY_BYTES>()?;
    Some((u64::from_le_bytes(*expires_s), data))
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("firndex-example-sessions.firn");
    let sessions = Sessions { store: Store::open_or_create(&path)? };
    println!("{} sessions are left from the last run", sessions.store.len());

    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for visitor in 0..1000 {
        sessions.begin(&format!("visitor {visitor}"), b"an empty basket", now_s)?;
    }

    // Twenty minutes later every tenth visitor comes back, and again after twenty more: the others have expired by
    // then.
    let (later_s, latest_s) = (now_s + 20 * 60, now_s + 40 * 60);
    for visitor in (0..1000).step_by(10) {
        let data = sessions.resume(&format!("visitor {visitor}"), later_s)?;
        assert_eq!(data.as_deref(), Some(&b"an empty basket"[..]));
    }
    assert_eq!(sessions.resume("visitor 7", latest_s)?, None, "it has expired");
    let removed = sessions.sweep(latest_s)?;
    println!("{removed} sessions have expired, {} are live", sessions.store.len());
    assert_eq!(sessions.store.len(), 100);

    sessions.store.close()
}
