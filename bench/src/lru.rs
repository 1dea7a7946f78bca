//! The baseline of suite `cache`: drops the pair that was used least recently, exactly, behind one lock.

use crate::cache::{Cache, Room};
use crate::caching::Caching;
use crate::contender::Contender;
use anyhow::{Result, anyhow};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The list is a ring. Its head comes before the newest entry and after the oldest.
const HEAD: usize = 0;

struct Entry {
    key: Arc<[u8]>,
    value: Box<[u8]>,
    expires: Option<Instant>,
    newer: usize,
    older: usize,
}

struct Lru {
    capacity_bytes: u64,
    used_bytes: u64,
    places: HashMap<Arc<[u8]>, usize>,
    entries: Vec<Entry>,
    /// Entries that hold nothing.
    free: Vec<usize>,
}

impl Lru {
    fn new(room: Room) -> Lru {
        let head = Entry {
            key: Arc::default(),
            value: Box::default(),
            expires: None,
            newer: HEAD,
            older: HEAD,
        };
        Lru {
            capacity_bytes: room.bytes,
            used_bytes: 0,
            places: HashMap::new(),
            entries: vec![head],
            free: Vec::new(),
        }
    }

    fn unlink(&mut self, place: usize) {
        let Entry { newer, older, .. } = self.entries[place];
        self.entries[newer].older = older;
        self.entries[older].newer = newer;
    }

    fn link_as_newest(&mut self, place: usize) {
        let second = self.entries[HEAD].older;
        (self.entries[place].newer, self.entries[place].older) = (HEAD, second);
        self.entries[second].newer = place;
        self.entries[HEAD].older = place;
    }

    fn remove(&mut self, place: usize) {
        self.unlink(place);
        let entry = &mut self.entries[place];
        let (key, value) = (std::mem::take(&mut entry.key), std::mem::take(&mut entry.value));
        self.used_bytes -= (key.len() + value.len()) as u64;
        self.places.remove(&key);
        self.free.push(place);
    }

    fn get(&mut self, key: &[u8]) -> Option<&[u8]> {
        let place = *self.places.get(key)?;
        if self.entries[place].expires.is_some_and(|expires| expires <= Instant::now()) {
            self.remove(place);
            return None;
        }
        self.unlink(place);
        self.link_as_newest(place);
        Some(&self.entries[place].value)
    }

    fn put(&mut self, key: &[u8], value: &[u8], lives: Option<Duration>) {
        if let Some(&place) = self.places.get(key) {
            self.remove(place);
        }
        let key: Arc<[u8]> = key.into();
        self.used_bytes += (key.len() + value.len()) as u64;
        let entry = Entry {
            key: Arc::clone(&key),
            value: value.into(),
            expires: lives.map(|lives| Instant::now() + lives),
            newer: HEAD,
            older: HEAD,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.link_as_newest(place);
        self.places.insert(key, place);
        while self.used_bytes > self.capacity_bytes {
            self.remove(self.entries[HEAD].newer);
        }
    }
}

struct Locked(Mutex<Lru>);

impl Locked {
    fn lock(&self) -> Result<MutexGuard<'_, Lru>> {
        self.0.lock().map_err(|_| anyhow!("another thread panicked in the cache"))
    }
}

impl Cache for Locked {
    fn get(&self, key: &[u8], is_right: impl FnOnce(&[u8]) -> bool) -> Result<Option<bool>> {
        Ok(self.lock()?.get(key).map(is_right))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.lock()?.put(key, value, None);
        Ok(())
    }

    fn put_for(&self, key: &[u8], value: &[u8], lives: Duration) -> Result<()> {
        self.lock()?.put(key, value, Some(lives));
        Ok(())
    }
}

/// The baseline as a contender.
pub(crate) fn contender() -> Box<dyn Contender> {
    let make = |room: Room| Ok(Locked(Mutex::new(Lru::new(room))));
    Box::new(Caching::new("lru", env!("CARGO_PKG_VERSION"), make))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the keys are there. Asking does not make them newer.
    fn present(lru: &Lru, keys: &str) -> String {
        keys.chars().filter(|key| lru.places.contains_key(key.to_string().as_bytes())).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut lru = Lru::new(Room { bytes: 40, pairs: 4 });
        for key in ["a", "b", "c", "d"] {
            lru.put(key.as_bytes(), &[7; 9], None);
        }
        assert_eq!(lru.get(b"a"), Some(&[7; 9][..]));
        lru.put(b"c", &[8; 9], None);
        lru.put(b"e", &[7; 9], None);
        assert_eq!(present(&lru, "abcde"), "acde");
        lru.put(b"f", &[7; 19], None);
        assert_eq!((present(&lru, "abcdef"), lru.used_bytes), ("cef".to_owned(), 40));
        assert_eq!(lru.get(b"c"), Some(&[8; 9][..]));
        lru.put(b"g", &[7; 40], None);
        assert_eq!((present(&lru, "abcdefg"), lru.used_bytes), (String::new(), 0));
    }

    #[test]
    fn an_expired_value_is_absent() {
        let mut lru = Lru::new(Room { bytes: 40, pairs: 4 });
        lru.put(b"a", b"1", Some(Duration::ZERO));
        lru.put(b"b", b"2", Some(Duration::from_secs(1000)));
        assert_eq!(lru.get(b"a"), None);
        assert_eq!(lru.used_bytes, 2);
        assert_eq!(lru.get(b"b"), Some(&b"2"[..]));
    }
}
