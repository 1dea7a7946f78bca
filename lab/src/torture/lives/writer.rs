//! A thread of a life: it changes and reads its own keys, whose states it therefore knows.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail, ensure};
use firndex::{BatchError, Error, Options};
use workload::{Random, mix};

use super::ballast::Ballast;
use super::contents::Contents;
use super::errors::is_of_space;
use super::model::{Model, State};
use super::plan::{Life, Session, Work};
use super::subject::{self, Bytes, How, Subject};

/// Times that a thread is refused before a session that fills is over, at most.
const REFUSALS_MAX: u64 = 30;
/// Keys of a batch, and what their values have together, at most.
const BATCH_KEYS_MAX: u64 = 20;
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Things done to the whole pool, in a session of a thread.
const RARE: u64 = 5;
/// Of the calls while a file system is filled and freed.
const BALLAST_PERCENT: u64 = 3;
/// Sessions and threads have versions of their own.
const VERSION_BITS: u32 = 24;

/// What all threads of a session share.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) life: &'a Life,
    pub(super) contents: &'a Contents,
    pub(super) model: &'a Model,
    pub(super) subject: &'a dyn Subject,
    pub(super) ballast: Option<&'a Ballast>,
    pub(super) dir: &'a Path,
}

pub(super) struct Writer<'a> {
    world: World<'a>,
    index: u64,
    random: Random,
    version: u64,
    refused: u64,
}

/// The kinds of calls.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Put,
    Insert,
    Update,
    Modify,
    Exchange,
    PutMany,
    Remove,
    RemoveMany,
    Get,
}

impl Work {
    /// How often each kind of call is made, in per cent.
    fn deeds(self) -> [(Deed, u64); 9] {
        use Deed::*;
        let percent = match self {
            Work::Fill => [45, 15, 5, 5, 5, 10, 5, 1, 9],
            Work::Change => [20, 10, 12, 10, 10, 8, 15, 5, 10],
            Work::Empty => [6, 1, 1, 5, 2, 1, 60, 18, 6],
        };
        let deeds = [Put, Insert, Update, Modify, Exchange, PutMany, Remove, RemoveMany, Get];
        std::array::from_fn(|index| (deeds[index], percent[index]))
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(world: World<'a>, session: u64, index: u64) -> Writer<'a> {
        let number = session << 8 | index;
        Writer {
            world,
            index,
            random: Random::new(mix(world.life.seed ^ mix(number + 1))),
            version: (number + 1) << VERSION_BITS,
            refused: 0,
        }
    }

    /// The calls of a session.
    pub(super) fn run(&mut self, session: &Session, is_over: &AtomicBool) -> Result<()> {
        let refusals_max = 1 + self.random.below(REFUSALS_MAX);
        for _ in 0..session.calls {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            if session.work == Work::Fill && self.refused >= refusals_max {
                break;
            }
            if self.random.below(session.calls) < RARE {
                self.do_something_rare()?;
            }
            if self.world.ballast.is_some() && self.random.percent(BALLAST_PERCENT) {
                self.move_ballast()?;
            }
            self.call(session.work)?;
            self.world.model.count_call(self.index);
        }
        Ok(())
    }

    fn call(&mut self, work: Work) -> Result<()> {
        let mut chance = self.random.below(100);
        let deed = work.deeds().into_iter().find_map(|(deed, percent)| {
            let is_it = chance < percent;
            chance = chance.saturating_sub(percent);
            is_it.then_some(deed)
        });
        let deed = deed.unwrap_or(Deed::Get);
        let key = self.some_key(work, deed);
        self.perform(deed, key).with_context(|| format!("{deed:?} of key {key}"))
    }

    /// One of its own keys; where much is to be put or removed, rather one of which that is possible.
    fn some_key(&mut self, work: Work, deed: Deed) -> u64 {
        let wanted = match (work, deed) {
            (Work::Fill, Deed::Put | Deed::Insert | Deed::Modify | Deed::Exchange) => Some(false),
            (Work::Empty, Deed::Remove) => Some(true),
            (_, Deed::Update) => Some(true),
            _ => None,
        };
        let tries = if self.random.percent(85) { 8 } else { 1 };
        let mut key = 0;
        for _ in 0..tries {
            key = self.any_key();
            if wanted.is_none_or(|wanted| wanted == self.state(key).is_present()) {
                break;
            }
        }
        key
    }

    fn own_keys(&self) -> impl Iterator<Item = u64> + use<> {
        (self.index..self.world.life.keys).step_by(self.world.life.writers as usize)
    }

    fn any_key(&mut self) -> u64 {
        let Life { keys, writers, .. } = *self.world.life;
        let count = (keys - self.index).div_ceil(writers);
        self.random.below(count) * writers + self.index
    }

    fn state(&self, key: u64) -> State {
        self.world.model.state(key).0
    }

    fn new_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn new_value(&mut self) -> State {
        let size = self.random.index(self.world.life.sizes.len());
        State::present(self.new_version(), size)
    }

    fn perform(&mut self, deed: Deed, key: u64) -> Result<()> {
        let before = self.state(key);
        let present = before.is_present();
        let World { subject, contents, .. } = self.world;
        let bytes = contents.key(key);
        match deed {
            Deed::Put => {
                let after = self.new_value();
                self.change(key, after, |value| subject.put(bytes, value.unwrap_or_default()))
            }
            Deed::Insert => {
                let new = self.new_value();
                let value = contents.value(key, new).unwrap_or_default();
                let after = if present { before } else { new };
                self.change(key, after, |_| subject.insert(bytes, &value))
            }
            Deed::Update => {
                let new = self.new_value();
                let value = contents.value(key, new).unwrap_or_default();
                let after = if present { new } else { before };
                self.change(key, after, |_| subject.update(bytes, &value))
            }
            Deed::Modify => {
                let removes = present && self.random.percent(40);
                let after =
                    if removes { State::absent(self.new_version()) } else { self.new_value() };
                self.change(key, after, |value| subject.modify(bytes, value))
            }
            Deed::Exchange => self.exchange(key, before),
            Deed::Remove => self.remove(key),
            Deed::PutMany => self.put_many(key),
            Deed::RemoveMany => self.remove_many(key),
            Deed::Get => self.demand(key, before, subject.get(bytes)?, "a look-up"),
        }
        .map(drop)
    }

    fn remove(&mut self, key: u64) -> Result<()> {
        let World { subject, contents, .. } = self.world;
        let after = State::absent(self.new_version());
        self.change(key, after, |_| subject.remove(contents.key(key)))
    }

    /// Makes a call that brings the key into the state `after`, and returns the value before.
    fn change(
        &mut self,
        key: u64,
        after: State,
        call: impl FnOnce(Option<&[u8]>) -> firndex::Result<Option<Bytes>>,
    ) -> Result<()> {
        let World { model, contents, .. } = self.world;
        let before = self.state(key);
        let value = contents.value(key, after);
        model.begin(key, after);
        match call(value.as_deref()) {
            Ok(found) => {
                self.demand(key, before, found, "what it replaced")?;
                model.settle(key, after);
                Ok(())
            }
            Err(Error::PoolFull(_)) if after.is_present() => {
                model.settle(key, before);
                self.was_refused(key)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn exchange(&mut self, key: u64, before: State) -> Result<()> {
        let World { subject, contents, model, .. } = self.world;
        let bytes = contents.key(key);
        let removes = before.is_present() && self.random.percent(30);
        let after = if removes { State::absent(self.new_version()) } else { self.new_value() };
        let is_right = self.random.percent(70);
        let expected = match (is_right, self.random.percent(50)) {
            (true, _) => before,
            (false, true) if before.is_present() => State::absent(0),
            (false, _) => self.new_value(),
        };
        // Without a byte, two values are one.
        let is_right = contents.value(key, expected) == contents.value(key, before);
        let after = if is_right { after } else { before };
        let (old, new) = (contents.value(key, expected), contents.value(key, after));
        model.begin(key, after);
        match subject.compare_exchange(bytes, old.as_deref(), new.as_deref()) {
            Ok(Ok(())) if is_right => model.settle(key, after),
            Ok(Err(found)) if !is_right => {
                self.demand(key, before, found, "what was there")?;
                model.settle(key, before);
            }
            Ok(Ok(())) => bail!("it was exchanged, though another value was expected"),
            Ok(Err(_)) => bail!("it was not exchanged, though what was expected was there"),
            Err(Error::PoolFull(_)) if after.is_present() => {
                model.settle(key, before);
                self.was_refused(key)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Some keys of its own, from this one on.
    fn batch(&mut self, key: u64) -> Vec<u64> {
        let Life { keys, writers, ref sizes, .. } = *self.world.life;
        let bytes = sizes.iter().max().map_or(1, |size| *size as u64 + 1);
        let most = (BATCH_BYTES_MAX / bytes).clamp(1, BATCH_KEYS_MAX);
        let count = 1 + self.random.below(most);
        (0..count).map(|next| key + next * writers).take_while(|key| *key < keys).collect()
    }

    fn put_many(&mut self, key: u64) -> Result<()> {
        let World { subject, contents, .. } = self.world;
        let changes: Vec<_> =
            self.batch(key).into_iter().map(|key| (key, self.new_value())).collect();
        let values: Vec<_> = changes
            .iter()
            .map(|(key, after)| contents.value(*key, *after).unwrap_or_default())
            .collect();
        let pairs: Vec<(&[u8], &[u8])> = changes
            .iter()
            .zip(&values)
            .map(|((key, _), value)| (contents.key(*key), &value[..]))
            .collect();
        self.change_many(&changes, || subject.put_many(&pairs))
    }

    fn remove_many(&mut self, key: u64) -> Result<()> {
        let World { subject, contents, .. } = self.world;
        let keys = self.batch(key);
        let changes: Vec<_> =
            keys.into_iter().map(|key| (key, State::absent(self.new_version()))).collect();
        let keys: Vec<&[u8]> = changes.iter().map(|(key, _)| contents.key(*key)).collect();
        self.change_many(&changes, || subject.remove_many(&keys))
    }

    fn change_many(
        &mut self,
        changes: &[(u64, State)],
        call: impl FnOnce() -> std::result::Result<Vec<Option<Bytes>>, BatchError>,
    ) -> Result<()> {
        let World { model, .. } = self.world;
        changes.iter().for_each(|(key, after)| model.begin(*key, *after));
        match call() {
            Ok(replaced) => {
                for ((key, after), found) in changes.iter().zip(replaced) {
                    self.demand(*key, self.state(*key), found, "what it replaced")?;
                    model.settle(*key, *after);
                }
            }
            Err(failed) => {
                let needs_space = changes.iter().any(|(_, after)| after.is_present());
                if !needs_space || !matches!(failed.error(), Error::PoolFull(_)) {
                    return Err(failed.into());
                }
                for (index, (key, after)) in changes.iter().enumerate() {
                    let before = self.state(*key);
                    model.settle(*key, if failed.is_done(index) { *after } else { before });
                }
                for (key, _) in changes {
                    self.demand_present_state(*key, "after a refused batch")?;
                }
                self.was_refused(changes[0].0)?;
            }
        }
        Ok(())
    }

    /// A change of this key was refused: nothing may have changed, and removals must go on.
    fn was_refused(&mut self, key: u64) -> Result<()> {
        self.refused += 1;
        self.world.model.count_refused(self.index);
        self.demand_present_state(key, "after a refused change")?;
        if self.random.percent(30) {
            let key = self.any_key();
            self.remove(key)
                .with_context(|| format!("removing key {key} after a refused change"))?;
        }
        Ok(())
    }

    fn demand_present_state(&self, key: u64, when: &str) -> Result<()> {
        let World { subject, contents, .. } = self.world;
        self.demand(key, self.state(key), subject.get(contents.key(key))?, when)
    }

    fn demand(&self, key: u64, state: State, found: Option<Bytes>, what: &str) -> Result<()> {
        let compared = self.world.contents.compare(key, state, found.as_deref());
        compared.map_err(|differs| anyhow!("{what}: key {key} is not as {state:?}: {differs}"))
    }

    fn do_something_rare(&mut self) -> Result<()> {
        let World { subject, .. } = self.world;
        let may_lack_space = |done: firndex::Result<()>| match done {
            Err(error) if !is_of_space(&error) => Err(error),
            _ => Ok(()),
        };
        match self.random.below(100) {
            0..35 => self.demand_own_pairs(subject).context("a scan beside the writers"),
            35..60 => may_lack_space(subject.compact()).context("compacting"),
            60..80 => may_lack_space(subject.shrink()).context("shrinking"),
            80..90 => subject.sync().context("syncing"),
            _ => self.back_up().context("a backup"),
        }
    }

    fn back_up(&mut self) -> Result<()> {
        let World { life, subject, dir, .. } = self.world;
        let out = dir.join(format!("backup-{}.firn", self.index));
        match subject.backup(&out) {
            Err(error) if self.world.ballast.is_some() && is_of_space(&error) => return Ok(()),
            done => done?,
        }
        let copy = subject::open(life.shape, How::Open, &out, &Options::new().read_only(true))?;
        let report = copy.check()?;
        ensure!(report.is_sound(), "it is not sound: {:?}", report.findings);
        self.demand_own_pairs(&*copy)?;
        drop(copy);
        std::fs::remove_file(&out).context("removing it")
    }

    /// Its own keys are as it knows them, whatever the other threads do.
    fn demand_own_pairs(&self, pool: &dyn Subject) -> Result<()> {
        let World { life, contents, .. } = self.world;
        let mut seen = vec![false; life.keys as usize];
        let mut wrong = None;
        pool.for_each(&mut |key, value| {
            let judged = match contents.index(key) {
                None => Err(anyhow!("a key that nobody put: {key:x?}")),
                Some(key) if key % life.writers != self.index => Ok(()),
                Some(key) if std::mem::replace(&mut seen[key as usize], true) => {
                    Err(anyhow!("key {key} twice"))
                }
                Some(key) => contents
                    .compare(key, self.state(key), Some(value))
                    .map_err(|differs| anyhow!("key {key}: {differs}")),
            };
            if let Err(error) = judged {
                wrong.get_or_insert(error);
            }
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        match self.own_keys().find(|key| self.state(*key).is_present() && !seen[*key as usize]) {
            Some(lost) => bail!("key {lost} is missing"),
            None => Ok(()),
        }
    }

    fn move_ballast(&mut self) -> Result<()> {
        let Some(ballast) = self.world.ballast else { return Ok(()) };
        if self.random.percent(40) {
            return ballast.free();
        }
        let scale = self.random.below(13);
        let left_kib = self.random.below(1 << scale);
        ballast.fill(left_kib << 10)
    }
}
