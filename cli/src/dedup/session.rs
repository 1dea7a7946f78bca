//! A whole run: store, kill, reopen, judge, and at last read everything back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use firndex::{Options, Store};
use indicatif::HumanCount;

use super::outcome::Outcome;
use super::plan::Plan;
use super::random;
use super::supervise::Supervisor;
use super::tempo::Tempo;
use super::verify::{Verdict, judge, reread};
use crate::output;
use crate::progress;

/// A plan that is being carried out on a pool.
pub(crate) struct Session<'a> {
    plan: &'a Plan,
    pool: &'a Path,
    threads: usize,
    /// Found missing or misplaced at any time.
    lost: BTreeSet<usize>,
    sound: bool,
    gets: Tempo,
}

impl<'a> Session<'a> {
    /// The pool is a store, empty and closed.
    pub(crate) fn new(plan: &'a Plan, pool: &'a Path, threads: usize) -> Self {
        Session { plan, pool, threads, lost: BTreeSet::new(), sound: true, gets: Tempo::default() }
    }

    pub(crate) fn run(mut self, kills_wanted: u64, seed: u64) -> Result<Outcome> {
        let plan = self.plan;
        let chunks = plan.chunks.len() as u64;
        let kills = random::distinct_up_to(chunks, kills_wanted, seed);
        if (kills.len() as u64) < kills_wanted {
            output::talk(format_args!(
                "there are only {chunks} chunks: {} kills instead of {kills_wanted}",
                kills.len()
            ));
        }
        let mut supervisor = Supervisor::new(plan, self.pool, self.threads, kills.len());
        let mut reopen_ms = Vec::with_capacity(kills.len());
        let bar = progress::count("writing", chunks);
        for (round, &kill_at) in kills.iter().enumerate() {
            // The next kill's count must still lie ahead when its turn comes.
            let feed_until = kills.get(round + 1).map_or(u64::MAX, |next| next - 1);
            supervisor.run_and_kill(kill_at, feed_until, &bar)?;
            let acknowledged = supervisor.acknowledged();
            let (store, ms) = self.reopen()?;
            let verdict = self.judge(&store, &acknowledged)?;
            store.close().context("closing the pool")?;
            reopen_ms.push(ms);
            bar.suspend(|| {
                output::talk(format_args!(
                    "kill {} of {}: {} chunks acknowledged, reopened in {ms:.1} ms, {} lost",
                    round + 1,
                    kills.len(),
                    HumanCount(acknowledged.len() as u64),
                    HumanCount(verdict.lost().count() as u64),
                ));
            });
        }
        supervisor.run_to_the_end(&bar)?;
        bar.finish_and_clear();

        let (store, _) = self.reopen()?;
        let verdict = self.judge(&store, &supervisor.acknowledged())?;
        let stats = store.stats()?;
        store.close().context("closing the pool")?;
        self.compare_count(stats.pairs, &verdict);
        self.read_back(&verdict);

        let unique_bytes: u64 =
            verdict.firsts.iter().map(|&index| u64::from(plan.chunks[index].length)).sum();
        Ok(Outcome {
            dir: plan.dir.display().to_string(),
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

    /// Opens the pool, which recovers it if need be, and says how many milliseconds that took.
    fn reopen(&self) -> Result<(Store, f64)> {
        let started = Instant::now();
        let store = Options::default().open_store(self.pool).context("opening the pool again")?;
        Ok((store, started.elapsed().as_secs_f64() * 1e3))
    }

    fn judge(&mut self, store: &Store, acknowledged: &[usize]) -> Result<Verdict> {
        let report = store.check().context("checking the pool")?;
        if !report.is_sound() {
            self.sound = false;
            for finding in &report.findings {
                output::complain(&format!("check: {finding}"));
            }
        }
        let bar = progress::count("checking", acknowledged.len() as u64);
        let verdict = judge(store, self.plan, acknowledged, self.threads, &bar)?;
        bar.finish_and_clear();
        self.gets += verdict.gets;
        self.lost.extend(verdict.lost());
        Ok(verdict)
    }

    /// Each place in the pool must be that of just one chunk; a pool with more has kept something
    /// that nobody stored.
    fn compare_count(&mut self, pairs: u64, verdict: &Verdict) {
        let places = verdict.firsts.len() as u64;
        if pairs != places {
            self.sound = false;
            output::complain(&format!(
                "the pool counts {pairs} keys, expected {places}, one for each place it leads to"
            ));
        }
    }

    /// Files may change while the demo runs, which is no fault of the pool's.
    fn read_back(&self, verdict: &Verdict) {
        let lengths = verdict.firsts.iter().map(|&index| self.plan.chunks[index].length);
        let bar = progress::bytes("reading", lengths.map(u64::from).sum());
        let changed = reread(self.plan, &verdict.firsts, self.threads, &bar);
        bar.finish_and_clear();
        if changed.chunks > 0 {
            output::talk(format_args!(
                "{} chunks no longer have their digests: these files changed meanwhile",
                HumanCount(changed.chunks)
            ));
            for path in &changed.files {
                output::talk(format_args!("  changed: {}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;

    use super::*;
    use crate::dedup::walk::Found;

    /// Three files of one chunk each, and a store that holds some of them.
    fn plan_and_store(dir: &Path, stored: &[usize]) -> (Plan, Store) {
        let found = ["a", "b", "c"].map(|name| {
            std::fs::write(dir.join(name), name).unwrap();
            Found { path: name.into(), bytes: 1 }
        });
        let plan = Plan::make(dir, &found, 1, &ProgressBar::hidden());
        let store = Options::default().create_store(dir.join("pool")).unwrap();
        for &index in stored {
            let mut place = Vec::new();
            plan.place(index).encode_into(&mut place);
            store.insert(plan.chunks[index].digest, &place).unwrap();
        }
        (plan, store)
    }

    #[test]
    fn a_pool_that_fails_its_check_is_unsound() {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("pool");
        let (plan, store) = plan_and_store(dir.path(), &[0, 1, 2]);
        let mut session = Session::new(&plan, &pool, 1);
        session.judge(&store, &[0, 1, 2]).unwrap();
        assert!(session.sound);
        store.close().unwrap();

        let mut bytes = std::fs::read(&pool).unwrap();
        let digest = plan.chunks[1].digest;
        let at = bytes.windows(digest.len()).position(|window| window == digest).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&pool, bytes).unwrap();
        let (store, _) = session.reopen().unwrap();
        session.judge(&store, &[0, 1, 2]).unwrap();
        assert!(!session.sound);
        assert_eq!(session.lost, [1].into());
    }

    #[test]
    fn a_loss_counts_once_and_a_surplus_is_unsound() {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("pool");
        let (plan, store) = plan_and_store(dir.path(), &[0, 2]);
        let mut session = Session::new(&plan, &pool, 1);
        session.judge(&store, &[0, 2]).unwrap();
        assert!(session.lost.is_empty());
        session.judge(&store, &[0, 1, 2]).unwrap();
        let verdict = session.judge(&store, &[0, 1, 2]).unwrap();
        assert_eq!(session.lost, [1].into());
        assert_eq!(session.gets.operations, 8);

        session.compare_count(store.len(), &verdict);
        assert!(session.sound);
        store.put(b"nobody stored this", b"").unwrap();
        session.compare_count(store.len(), &verdict);
        assert!(!session.sound);
    }
}
