//! Figure 16: what a doubling takes, and how other operations fare meanwhile.
//!
//! One thread doubles tables at a load factor of 0.8. First nothing else runs (`double`). Then another thread only
//! reads (`during_reads`), or reads and updates by turns (`during_updates`), with zipfian keys. Those rows are compared
//! with the same thread's rate before the doubling. The figure includes what the doubling thread takes from it by using
//! a processor.

use super::NAME;
use super::entrant::{EIGHTH, Kind, UNCACHED};
use crate::crew;
use crate::keys::Writer;
use crate::paper::lineup::Entrant;
use crate::paper::turns::OPS_PART;
use crate::paper::{Scene, level};
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use workload::Part;
use workload::ranks::{Distribution, RankStream, Ranks};

/// Engines that double when they are told to.
const KINDS: [Kind; 4] = [EIGHTH, UNCACHED, Kind::Other(level::ENGINE), Kind::AsInPaper];
/// Tables that are doubled while operations run hold this part of the pairs.
const BESIDE_PART: u64 = 4;
/// Operations between two checks whether the doubling is over.
const OPS_PER_LOOK: usize = 64;

pub(super) fn rows(scene: &Scene, setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for kind in KINDS {
        rows.push(alone(kind, scene, setting)?);
    }
    let fewer = Setting { pairs: (setting.pairs / BESIDE_PART).max(1), ..setting.clone() };
    for (op, updates) in [("during_reads", false), ("during_updates", true)] {
        for kind in KINDS {
            let measured = beside(op, updates, kind, scene, &fewer);
            rows.push(measured.with_context(|| kind.name())?);
        }
    }
    Ok(rows)
}

/// Fails unless a table has doubled and holds all of its pairs.
fn check(entrant: &Entrant, is_value: impl Fn(u64, u64) -> bool) -> Result<()> {
    let facts = entrant.map.facts().context("a table that does not know its size")?;
    let (found, expected) = ((facts.capacity, facts.pairs), (2 * entrant.capacity, entrant.pairs));
    ensure!(found == expected, "a doubled table of {found:?} slots and pairs, not {expected:?}");
    for key in (0..entrant.pairs).map(|number| entrant.keys.key(number)) {
        let found = entrant.map.get(key);
        let is_sound = found.is_some_and(|value| is_value(key, value));
        ensure!(is_sound, "key {key:#x} holds {found:?} after a doubling");
    }
    Ok(())
}

fn is_first(key: u64, value: u64) -> bool {
    value == Writer::Insert.value(key)
}

fn is_any(key: u64, value: u64) -> bool {
    is_first(key, value) || value == Writer::Update.value(key)
}

fn alone(kind: Kind, scene: &Scene, setting: &Setting) -> Result<Row> {
    let entrant = kind.filled(scene, setting)?;
    let (done, timing) = crew::run(vec![()], |()| entrant.double())?;
    done.into_iter().collect::<Result<()>>()?;
    check(&entrant, is_first)?;
    let row = Row {
        took_s: Some(timing.elapsed_s),
        cpu_share: timing.cpu_share,
        ..entrant.row(NAME, "double", 0, setting)
    };
    Ok(row.with_rate(entrant.pairs as f64 / timing.elapsed_s, None))
}

fn beside(op: &str, updates: bool, kind: Kind, scene: &Scene, setting: &Setting) -> Result<Row> {
    let entrant = kind.filled(scene, setting)?;
    let zipf = Distribution::Zipfian { theta: setting.skew };
    let mut words = vec![0; (setting.ops / OPS_PART).max(OPS_PER_LOOK as u64) as usize];
    RankStream::new(zipf, entrant.pairs, setting.seed, Part::WHOLE)?.fill(&mut words);
    words.iter_mut().for_each(|word| *word = entrant.keys.key(*word));
    let is_value = if updates { is_any } else { is_first };
    let work = |words: &[u64]| -> u64 {
        let is_wrong = |(place, &key): (usize, &u64)| {
            if updates && place % 2 == 1 {
                !entrant.map.update(key, Writer::Update.value(key))
            } else {
                !entrant.map.get(key).is_some_and(|value| is_value(key, value))
            }
        };
        words.iter().enumerate().filter(|&word| is_wrong(word)).count() as u64
    };
    // The first pass fills the cached table.
    crew::check(op, &words, 1, &work)?;
    let before = words.len() as f64 / crew::check(op, &words, 1, &work)?.elapsed_s;

    let (start, is_over) = (Barrier::new(2), AtomicBool::new(false));
    let (doubled, (count, wrong, elapsed_s)) = std::thread::scope(|scope| {
        let double = std::thread::Builder::new().spawn_scoped(scope, || {
            start.wait();
            let doubled = entrant.double();
            is_over.store(true, Ordering::Release);
            doubled
        })?;
        start.wait();
        let started = Instant::now();
        let (mut count, mut wrong) = (0, 0);
        for words in words.chunks(OPS_PER_LOOK).cycle() {
            wrong += work(words);
            count += words.len();
            if is_over.load(Ordering::Acquire) {
                break;
            }
        }
        let meanwhile = (count, wrong, started.elapsed().as_secs_f64());
        io::Result::Ok((double.join(), meanwhile))
    })?;
    doubled.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    crew::refuse_wrong(op, wrong, count as u64)?;
    check(&entrant, is_value)?;
    let row = Row { took_s: Some(elapsed_s), ..entrant.row(NAME, op, 0, setting) };
    Ok(row.with_rate(count as f64 / elapsed_s.max(1e-9), Some(before)))
}
