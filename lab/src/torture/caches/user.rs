//! A thread that uses a cache: it changes its own keys, whose states it therefore knows, and reads all.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use firndex::{Cache, Error};
use workload::{Random, mix};

use super::ledger::Ledger;
use super::values::Source;
use super::verdict::{Breach, NEVER};
use super::witness::{Witness, now_ms};

/// Keys of a batch.
const BATCH_KEYS_MAX: u64 = 10;
/// A value of so much of the capacity must never be refused.
const CERTAIN_SHARE: u64 = 8;
/// Clocks are read in whole milliseconds: so much later may an end be than it seems.
const ROUNDING_MS: u64 = 2;
/// Ends that come soon, and those that do not come.
const SOON_MS: u64 = 25;
const LATE_MS: u64 = 3_600_000;

/// What all users of a cache share.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) cache: &'a Cache,
    pub(super) ledger: &'a Ledger,
    pub(super) source: &'a Source,
    pub(super) capacity: u64,
    pub(super) threads: u64,
    /// One call in so many clears the cache.
    pub(super) clear_every: u64,
}

pub(super) struct User<'a> {
    world: World<'a>,
    pub(super) witness: Witness<'a>,
    random: Random,
    buffer: Vec<u8>,
}

/// How long what is put shall be there.
#[derive(Debug, Clone, Copy)]
enum Stay {
    Always,
    For(u64),
    Until(u64),
}

impl<'a> User<'a> {
    pub(super) fn new(world: World<'a>, thread: u64, seed: u64) -> User<'a> {
        User {
            world,
            witness: Witness::new(world.ledger, world.source, thread),
            random: Random::new(mix(seed ^ mix(thread + 1))),
            buffer: Vec::new(),
        }
    }

    /// One call.
    pub(super) fn call(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..40 => self.get_any()?,
            40..57 => self.get_own()?,
            57..74 => self.put(Stay::Always),
            74..80 => {
                let time = self.some_time();
                self.put(Stay::For(time));
            }
            80..85 => {
                // Some are over before they are put.
                let end = now_ms() + self.some_time() - 5;
                self.put(Stay::Until(end));
            }
            85..89 => self.touch()?,
            89..94 => self.remove()?,
            94..97 => self.get_or_put()?,
            97..99 => self.get_or_fail()?,
            _ => self.put_many(),
        }
        if self.random.below(self.world.clear_every) == 0 {
            self.clear()?;
        }
        self.world.ledger.count_call(self.witness.thread);
        Ok(())
    }

    /// Few keys are asked for more often than others.
    fn below(&mut self, end: u64) -> u64 {
        let part = self.random.unit();
        (part * part * end as f64) as u64
    }

    fn any_key(&mut self) -> u64 {
        self.below(self.world.ledger.keys())
    }

    fn own_key(&mut self) -> u64 {
        let threads = self.world.threads;
        self.below(self.world.ledger.keys() / threads) * threads + self.witness.thread
    }

    fn some_time(&mut self) -> u64 {
        if self.random.percent(70) { 5 + self.random.below(SOON_MS) } else { LATE_MS }
    }

    fn get_any(&mut self) -> Result<()> {
        let key = self.any_key();
        self.get(key)
    }

    fn get_own(&mut self) -> Result<()> {
        let key = self.own_key();
        self.get(key)
    }

    fn get(&mut self, key: u64) -> Result<()> {
        let World { cache, source, .. } = self.world;
        let before = self.witness.before(key);
        if let Some(value) = cache.get(source.key(key))? {
            self.witness.judge(before, &value);
        }
        Ok(())
    }

    fn put(&mut self, stay: Stay) {
        let World { cache, ledger, source, .. } = self.world;
        let key = self.own_key();
        let end = match stay {
            Stay::Until(end) => end,
            Stay::Always | Stay::For(_) => NEVER,
        };
        let version = ledger.begin(key, end);
        source.fill(key, version, &mut self.buffer);
        let (bytes, value) = (source.key(key), &self.buffer);
        let put = match stay {
            Stay::Always => cache.put(bytes, value),
            Stay::For(ms) => cache.put_for(bytes, value, Duration::from_millis(ms)),
            Stay::Until(end) => {
                cache.put_until(bytes, value, UNIX_EPOCH + Duration::from_millis(end))
            }
        };
        match (put, stay) {
            (Ok(()), Stay::For(ms)) => ledger.acknowledge(key, version, end_after(ms)),
            (Ok(()), _) => ledger.acknowledge(key, version, end),
            (Err(error), _) => self.refused(key, self.buffer.len(), &error),
        }
    }

    /// A put has failed. It may if the value is so large that it does not fit for certain.
    fn refused(&mut self, key: u64, bytes: usize, error: &Error) {
        let is_certain = bytes as u64 <= self.world.capacity / CERTAIN_SHARE;
        if is_certain || !matches!(error, Error::TooLarge { .. }) {
            let what = format_args!("a put of {bytes} bytes under key {key}: {error}").to_string();
            self.witness.tell(Breach::Refused, what);
        }
    }

    fn put_many(&mut self) {
        let World { cache, ledger, source, threads, .. } = self.world;
        let first = self.own_key();
        let count = 1 + self.random.below(BATCH_KEYS_MAX);
        let keys = (0..count).map(|place| first + place * threads);
        let keys: Vec<u64> = keys.filter(|key| *key < ledger.keys()).collect();
        let versions: Vec<u64> = keys.iter().map(|key| ledger.begin(*key, NEVER)).collect();
        let pair = |(key, version): (&u64, &u64)| {
            let mut value = Vec::new();
            source.fill(*key, *version, &mut value);
            (source.key(*key), value)
        };
        let pairs: Vec<_> = keys.iter().zip(&versions).map(pair).collect();
        let failed = cache.put_many(&pairs).err();
        let done = failed.as_ref().map_or(keys.len(), |failed| failed.first_undone());
        for (key, version) in keys.iter().zip(&versions).take(done) {
            ledger.acknowledge(*key, *version, NEVER);
        }
        if let Some(failed) = failed {
            self.refused(keys[done], pairs[done].1.len(), failed.error());
        }
    }

    fn touch(&mut self) -> Result<()> {
        let World { cache, ledger, source, .. } = self.world;
        let (key, ms) = (self.own_key(), self.some_time());
        let before = ledger.line(key);
        ledger.set_ends(key, NEVER, NEVER);
        if cache.touch(source.key(key), Duration::from_millis(ms))? {
            let end = end_after(ms);
            ledger.set_ends(key, end, end);
        } else {
            ledger.set_ends(key, before.acked_end, before.begun_end);
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let World { cache, ledger, source, .. } = self.world;
        let key = self.own_key();
        let version = ledger.begin(key, NEVER);
        cache.remove(source.key(key))?;
        ledger.acknowledge(key, version, NEVER);
        Ok(())
    }

    fn get_or_put(&mut self) -> Result<()> {
        let World { cache, ledger, source, capacity, .. } = self.world;
        let key = self.own_key();
        let before = self.witness.before(key);
        let (mut version, buffer) = (None, &mut self.buffer);
        let found = cache.get_or_put_with(source.key(key), || {
            let new = *version.insert(ledger.begin(key, NEVER));
            source.fill(key, new, buffer);
            Ok::<_, ()>(buffer.clone())
        });
        match (version, found) {
            (Some(_), Err(error)) => self.refused(key, self.buffer.len(), &error),
            (None, Err(error)) => return Err(error.into()),
            (Some(version), Ok(Ok(value))) if value[..] == self.buffer[..] => {
                // One that was too large was returned without being put.
                if value.len() as u64 <= capacity / CERTAIN_SHARE {
                    ledger.acknowledge(key, version, NEVER);
                }
            }
            (None, Ok(Ok(value))) => {
                self.witness.judge(before, &value);
            }
            (Some(_), Ok(_)) | (None, Ok(Err(()))) => {
                self.witness.tell(Breach::Wrong, format!("key {key} was computed otherwise"));
            }
        }
        Ok(())
    }

    /// Asks for a value, and cannot compute it: others that wait for it have to.
    fn get_or_fail(&mut self) -> Result<()> {
        let World { cache, source, .. } = self.world;
        let key = self.any_key();
        let before = self.witness.before(key);
        if let Ok(value) = cache.get_or_put_with(source.key(key), || Err(()))? {
            self.witness.judge(before, &value);
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let World { cache, ledger, .. } = self.world;
        let acked: Vec<u64> = (0..ledger.keys()).map(|key| ledger.line(key).acked).collect();
        cache.clear()?;
        (0..).zip(acked).for_each(|(key, version)| ledger.clear(key, version));
        Ok(())
    }
}

/// When something is over at the latest that now has so many milliseconds.
fn end_after(ms: u64) -> u64 {
    now_ms() + ms + ROUNDING_MS
}
