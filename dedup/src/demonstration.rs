//! A whole run: store, kill, reopen, judge, and at last read everything back.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use firndex::{Options, Store};

use crate::audience::{Audience, Note, Stage};
use crate::draws;
use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::supervise::Supervisor;
use crate::tempo::Tempo;
use crate::verify::{Verdict, judge, reread};

/// What a demonstration is made of.
#[derive(Clone, Copy)]
pub struct Demonstration<'a> {
    /// The chunks to store.
    pub plan: &'a Plan,
    /// A store, empty and closed.
    pub pool: &'a Path,
    /// Threads of this process that look up and read.
    pub threads: usize,
    /// Makes the command of the writing process, which is started once more after each kill. It
    /// calls [`store_chunks`](crate::store_chunks) on the pool, with as many threads; its stdin and
    /// stdout are not the command's to set.
    pub writer: &'a dyn Fn() -> Command,
    /// Who follows it.
    pub audience: &'a dyn Audience,
}

impl Demonstration<'_> {
    /// Stores the plan's chunks and kills the writing process this many times meanwhile, after numbers of reports that
    /// `seed` determines.
    pub fn run(&self, kills: u64, seed: u64) -> Result<Outcome> {
        Course::new(self).run(kills, seed)
    }
}

/// A demonstration under way.
struct Course<'a> {
    given: &'a Demonstration<'a>,
    /// Found missing or misplaced at any time.
    lost: BTreeSet<usize>,
    sound: bool,
    gets: Tempo,
}

impl<'a> Course<'a> {
    fn new(given: &'a Demonstration<'a>) -> Self {
        Course { given, lost: BTreeSet::new(), sound: true, gets: Tempo::default() }
    }

    fn run(mut self, kills_wanted: u64, seed: u64) -> Result<Outcome> {
        let Demonstration { plan, threads, writer, audience, .. } = *self.given;
        let chunks = plan.chunks.len() as u64;
        let kills = draws::distinct_up_to(chunks, kills_wanted, seed);
        let kill_count = kills.len() as u64;
        if kill_count < kills_wanted {
            audience.tell(Note::FewerKills { chunks, kills: kill_count, wanted: kills_wanted });
        }
        let mut supervisor = Supervisor::new(plan, writer, threads, kills.len());
        let mut reopen_ms = Vec::with_capacity(kills.len());
        let progress = audience.begin(Stage::Store, Some(chunks));
        for (round, &kill_at) in kills.iter().enumerate() {
            // The next kill's count must still lie ahead when its turn comes.
            let feed_until = kills.get(round + 1).map_or(u64::MAX, |next| next - 1);
            supervisor.run_and_kill(kill_at, feed_until, progress.as_ref())?;
            let acknowledged = supervisor.acknowledged();
            let (store, ms) = self.reopen()?;
            let verdict = self.judge(&store, &acknowledged)?;
            store.close().map_err(Error::pool("closing the pool"))?;
            reopen_ms.push(ms);
            audience.tell(Note::Killed {
                kill: round as u64 + 1,
                kills: kill_count,
                acknowledged: acknowledged.len() as u64,
                reopen_ms: ms,
                lost: verdict.lost().count() as u64,
            });
        }
        supervisor.run_to_the_end(progress.as_ref())?;
        drop(progress);

        let (store, _) = self.reopen()?;
        let verdict = self.judge(&store, &supervisor.acknowledged())?;
        let stats = store.stats().map_err(Error::pool("counting the pool's keys"))?;
        store.close().map_err(Error::pool("closing the pool"))?;
        self.compare_count(stats.pairs, &verdict);
        self.read_back(&verdict);

        let unique_bytes: u64 =
            verdict.firsts.iter().map(|&index| u64::from(plan.chunks[index].length)).sum();
        Ok(Outcome {
            dir: plan.dir.clone(),
            files: plan.files.len() as u64,
            bytes: plan.bytes,
            chunks,
            unique: stats.pairs,
            duplicate_bytes: plan.bytes - unique_bytes,
            kills,
            seed,
            acknowledged: supervisor.acknowledged_count(),
            lost: self.lost.len() as u64,
            sound: self.sound,
            reopen_ms,
            puts_per_s: supervisor.inserts().per_second(),
            gets_per_s: self.gets.per_second(),
            load_factor: stats.load_factor,
            bytes_per_key: stats.bytes_per_pair,
        })
    }

    /// Opens the pool, which recovers it if necessary. Returns how many milliseconds that took.
    fn reopen(&self) -> Result<(Store, f64)> {
        let started = Instant::now();
        let store = Options::default()
            .open_store(self.given.pool)
            .map_err(Error::pool("opening the pool again"))?;
        Ok((store, started.elapsed().as_secs_f64() * 1e3))
    }

    fn judge(&mut self, store: &Store, acknowledged: &[usize]) -> Result<Verdict> {
        let Demonstration { plan, threads, audience, .. } = *self.given;
        let report = store.check().map_err(Error::pool("checking the pool"))?;
        if !report.is_sound() {
            self.sound = false;
            for finding in &report.findings {
                audience.tell(Note::Unsound(finding));
            }
        }
        let verdict = judge(store, plan, acknowledged, threads, audience)?;
        self.gets += verdict.gets;
        self.lost.extend(verdict.lost());
        Ok(verdict)
    }

    /// Each location in the pool must be that of just one chunk; a pool with more has kept
    /// something that nobody stored.
    fn compare_count(&mut self, keys: u64, verdict: &Verdict) {
        let expected = verdict.firsts.len() as u64;
        if keys != expected {
            self.sound = false;
            self.given.audience.tell(Note::Miscounted { keys, expected });
        }
    }

    /// Files may change while the demonstration runs, which is not the pool's fault.
    fn read_back(&self, verdict: &Verdict) {
        let Demonstration { plan, threads, audience, .. } = *self.given;
        let changed = reread(plan, &verdict.firsts, threads, audience);
        if changed.chunks > 0 {
            audience.tell(Note::Changed { chunks: changed.chunks, files: &changed.files });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audience::Nobody;
    use crate::walk::Found;

    /// Three files of one chunk each, and a store that holds some of them.
    fn plan_and_store(dir: &Path, stored: &[usize]) -> (Plan, Store) {
        let found = ["a", "b", "c"].map(|name| {
            std::fs::write(dir.join(name), name).unwrap();
            Found { path: name.into(), bytes: 1 }
        });
        let plan = Plan::make(dir, &found, 1, &Nobody);
        let store = Options::default().create_store(dir.join("pool")).unwrap();
        for &index in stored {
            let mut location = Vec::new();
            plan.location(index).encode_into(&mut location);
            store.insert(plan.chunks[index].digest, &location).unwrap();
        }
        (plan, store)
    }

    fn demonstration<'a>(plan: &'a Plan, pool: &'a Path) -> Demonstration<'a> {
        let writer = &|| unreachable!("nothing is written");
        Demonstration { plan, pool, threads: 1, writer, audience: &Nobody }
    }

    #[test]
    fn a_pool_that_fails_its_check_is_unsound() {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("pool");
        let (plan, store) = plan_and_store(dir.path(), &[0, 1, 2]);
        let given = demonstration(&plan, &pool);
        let mut course = Course::new(&given);
        course.judge(&store, &[0, 1, 2]).unwrap();
        assert!(course.sound);
        store.close().unwrap();

        let mut bytes = std::fs::read(&pool).unwrap();
        let digest = plan.chunks[1].digest;
        let at = bytes.windows(digest.len()).position(|window| window == digest).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&pool, bytes).unwrap();
        let (store, _) = course.reopen().unwrap();
        course.judge(&store, &[0, 1, 2]).unwrap();
        assert!(!course.sound);
        assert_eq!(course.lost, [1].into());
    }

    #[test]
    fn a_loss_counts_once_and_a_surplus_is_unsound() {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("pool");
        let (plan, store) = plan_and_store(dir.path(), &[0, 2]);
        let given = demonstration(&plan, &pool);
        let mut course = Course::new(&given);
        course.judge(&store, &[0, 2]).unwrap();
        assert!(course.lost.is_empty());
        course.judge(&store, &[0, 1, 2]).unwrap();
        let verdict = course.judge(&store, &[0, 1, 2]).unwrap();
        assert_eq!(course.lost, [1].into());
        assert_eq!(course.gets.operations, 8);

        course.compare_count(store.len(), &verdict);
        assert!(course.sound);
        store.put(b"nobody stored this", b"").unwrap();
        course.compare_count(store.len(), &verdict);
        assert!(!course.sound);
    }
}
