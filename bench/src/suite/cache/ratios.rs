//! Hit ratios: every trace, with small and larger caches.

use super::Trial;
use super::pairs::{KEY_BYTES, Pairs};
use crate::cache::{Cache, Room};
use crate::crew::refuse_wrong;
use crate::measured::Measured;
use crate::row::Row;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use workload::trace::{Kind, Request, Scale, Trace};

/// Caches, in percent of the working set.
const CACHES: [u32; 3] = [1, 5, 20];
/// Requests of a trace for each of its keys.
pub(super) const REQUESTS_PER_KEY: usize = 4;
/// This part of the requests only fills the cache.
const WARM_UP_PART: usize = 5;
/// Requests a millisecond where values live by the clock. The slowest cache keeps up.
const REQUESTS_PER_MS: usize = 400;
/// Requests between two looks at the clock.
const REQUESTS_PER_LOOK: usize = 64;
/// A value may be found so long after it has expired: a clock may be coarse.
const LATE_MAX: Duration = Duration::from_millis(100);

impl Trial<'_> {
    /// A row for each trace and size of which the cache can have one.
    pub(super) fn ratios<C: Cache>(
        &self,
        make: &impl Fn(Room) -> Result<C>,
        measured: &Measured,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let keys = u32::try_from(self.setting.pairs).context("so many keys have no trace")?;
        for kind in Kind::ALL {
            for cache_percent in CACHES {
                let requests = keys as usize * REQUESTS_PER_KEY;
                let trace =
                    Trace::new(kind, Scale { keys, requests, cache_percent }, self.setting.seed)?;
                let bytes = trace.set_bytes * u64::from(cache_percent) / 100;
                let pairs = (u64::from(keys) * u64::from(cache_percent) / 100) as usize;
                let room = Room { bytes, pairs };
                let is_paced = kind == Kind::Expiry;
                if room.bytes_with_all() < measured.bytes_min || is_paced && measured.is_slow {
                    continue;
                }
                let cache = make(room)?;
                let told = || format!("trace {}, cache of {cache_percent} %", kind.name());
                let started = Instant::now();
                let hits = replay(&cache, self.pairs, &trace.requests).with_context(told)?;
                let took_s = started.elapsed().as_secs_f64();
                let row = Row {
                    cache_percent: Some(cache_percent),
                    hit_ratio: Some(hits),
                    ..self.row(kind.name())
                };
                // A pace is no rate.
                let rate = requests as f64 / took_s;
                rows.push(if is_paced { row } else { row.with_rate(rate, None) });
            }
        }
        Ok(rows)
    }
}

/// Makes the requests. Returns the part that were hits, once the cache has warmed up.
fn replay(cache: &impl Cache, pairs: &Pairs, requests: &[Request]) -> Result<f64> {
    let warm_from = requests.len() / WARM_UP_PART;
    let mut lives = Lives::new(requests);
    let mut value = Vec::new();
    let (mut hits, mut wrong) = (0u64, 0);
    for (number, request) in requests.iter().enumerate() {
        lives.wait_for(number);
        let (key, bytes) = (pairs.key(request.key), request.bytes as usize - KEY_BYTES);
        let asked = lives.now();
        match cache.get(&key, |found| pairs.is_value(request.key, bytes, found))? {
            Some(is_right) => {
                wrong += u64::from(!is_right);
                hits += u64::from(number >= warm_from);
                lives.found(request, asked)?;
            }
            None => {
                pairs.value(request.key, bytes, &mut value);
                match request.lives_ms {
                    0 => cache.put(&key, &value)?,
                    ms => {
                        cache.put_for(&key, &value, Duration::from_millis(ms.into()))?;
                        lives.was_put(request);
                    }
                }
            }
        }
    }
    refuse_wrong("get", wrong, requests.len() as u64)?;
    Ok(hits as f64 / (requests.len() - warm_from) as f64)
}

/// When values end that live by the clock. Of a trace whose values live without end, it does nothing.
struct Lives {
    /// When the value of a key ends at the latest; empty if values live without end.
    ends: Vec<Option<Instant>>,
    started: Instant,
}

impl Lives {
    fn new(requests: &[Request]) -> Lives {
        let keys =
            requests.iter().filter(|request| request.lives_ms > 0).map(|request| request.key);
        let ends = vec![None; keys.max().map_or(0, |last| last as usize + 1)];
        Lives { ends, started: Instant::now() }
    }

    /// Returns when the request of this number is due.
    #[inline]
    fn wait_for(&self, number: usize) {
        if self.ends.is_empty() || !number.is_multiple_of(REQUESTS_PER_LOOK) {
            return;
        }
        let due = Duration::from_millis((number / REQUESTS_PER_MS) as u64);
        while self.started.elapsed() < due {
            std::hint::spin_loop();
        }
    }

    /// The time of a request, if it matters. A thread that is held up after it has asked finds nothing late.
    #[inline]
    fn now(&self) -> Option<Instant> {
        (!self.ends.is_empty()).then(Instant::now)
    }

    /// The cache has looked at the clock before it returned, however long the thread was held up in between.
    fn was_put(&mut self, request: &Request) {
        let ends = Instant::now() + Duration::from_millis(request.lives_ms.into());
        self.ends[request.key as usize] = Some(ends);
    }

    /// Fails if the value that was found should have been gone when it was asked for.
    #[inline]
    fn found(&self, request: &Request, asked: Option<Instant>) -> Result<()> {
        let ends = self.ends.get(request.key as usize).copied().flatten();
        let late = asked
            .zip(ends)
            .map_or(Duration::ZERO, |(asked, ends)| asked.saturating_duration_since(ends));
        ensure!(late <= LATE_MAX, "a value was found {late:?} after it had expired");
        Ok(())
    }
}
