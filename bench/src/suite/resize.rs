//! What growth costs.
//!
//! A table that was not sized in advance is filled to [`Setting::grow_from`] off the clock; the rest of the pairs is
//! then inserted on the clock. This happens on several tables:
//!
//! * `insert_presized`: one that was sized for all pairs, for comparison. The filling has touched most of its pages
//!   (those of 64 M pairs from 1 M on). The pages of a table that grows can only be touched while it grows.
//! * `insert_growing`: its ceiling is the rate of `insert_presized`.
//! * `insert_growing_latency`: with a clock around every operation, for the percentiles. Its rate includes that clock
//!   and the looks of [`crate::effort`]. The same table gives the series `timeline`: rate and longest latency in each
//!   interval of [`INTERVAL`]. Next to the longest latency is what the threads did themselves ([`crate::effort`]): the
//!   processor time that no insertion exceeded, except those near a page fault, and how often they waited for anything.
//!
//! Row `stall` has the gaps seen by threads that store a word to one cold line after the other, and what they are
//! charged for in such a gap. No table is better than that.

use crate::crew;
use crate::effort::Effort;
use crate::filling::{check, explained, fill};
use crate::keys::{Keys, Writer};
use crate::latencies::{Latencies, Timed, observe};
use crate::map::Map;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Result, ensure};
use quanta::Clock;
use std::time::Duration;

/// Time that one row of the timeline stands for.
pub const INTERVAL: Duration = Duration::from_millis(50);
const INTERVAL_NS: u64 = INTERVAL.as_nanos() as u64;
/// If a table that should grow by this factor or more has not grown, its growth was not measured.
const GROWTH_MIN: u64 = 4;

/// What happened in one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    ops: u64,
    max_ns: u64,
}

/// One round: three maps.
pub fn round<M: Map>(
    name: &str,
    open: impl Fn(&Setting) -> Result<M>,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let keys = Keys::new(setting.seed, setting.pairs);
    let words: Vec<u64> =
        (setting.grow_from..setting.pairs).map(|number| keys.key(number)).collect();
    let growing = Setting { capacity: 0, grows: true, ..setting.clone() };
    let presized = Setting { capacity: setting.pairs, grows: true, ..setting.clone() };
    let on = |setting: &Setting, work: &dyn Fn(&M) -> Result<Vec<Row>>| {
        let map = open(setting)?;
        let done = (|| {
            fill(&map, keys, 0..setting.grow_from, setting.threads)?;
            let before = map.facts();
            let rows = work(&map)?;
            check(&map, keys)?;
            if let Some((before, after)) = before.zip(map.facts()) {
                let (is_growing, has_grown) =
                    (setting.capacity == 0, before.capacity < after.capacity);
                let must_grow = setting.pairs >= GROWTH_MIN * setting.grow_from;
                ensure!(
                    is_growing && (has_grown || !must_grow) || !is_growing && !has_grown,
                    "the table went from a capacity of {} to {}",
                    before.capacity,
                    after.capacity
                );
            }
            Ok(rows)
        })();
        explained(&map, setting, done)
    };

    let mut rows = on(&presized, &|map| {
        Ok(vec![untimed(name, "insert_presized", map, setting, &words, None)?])
    })?;
    let per_thread = rows[0].ops_per_s.map(|rate| rate / setting.threads as f64);
    rows.extend(on(&growing, &|map| {
        Ok(vec![untimed(name, "insert_growing", map, setting, &words, per_thread)?])
    })?);
    rows.extend(on(&growing, &|map| timed(name, map, setting, &words))?);
    rows.extend(setting.ceilings.map(|ceilings| Row {
        p9999_ns: Some(ceilings.stall_p9999_ns),
        max_ns: Some(ceilings.stall_max_ns),
        own_max_ns: Some(ceilings.stall_own_max_ns),
        pairs: None,
        op: "stall".into(),
        ..setting.row("resize", "", "machine")
    }));
    Ok(rows)
}

fn row<M: Map>(name: &str, op: &str, map: &M, setting: &Setting) -> Row {
    let load_factor = map.facts().map(|facts| facts.load_factor);
    Row { load_factor, ..setting.row("resize", op, name) }
}

fn untimed<M: Map>(
    name: &str,
    op: &str,
    map: &M,
    setting: &Setting,
    words: &[u64],
    ceiling: Option<f64>,
) -> Result<Row> {
    let timing = crew::check(op, words, setting.threads, &|words| {
        let is_wrong = |key: &&u64| !map.insert(**key, Writer::Insert.value(**key));
        words.iter().filter(is_wrong).count() as u64
    })?;
    let rate = words.len() as f64 / timing.elapsed_s;
    let row = Row { cpu_share: timing.cpu_share, ..row(name, op, map, setting) };
    Ok(row.with_rate(rate, ceiling))
}

fn timed<M: Map>(name: &str, map: &M, setting: &Setting, words: &[u64]) -> Result<Vec<Row>> {
    let op = "insert_growing_latency";
    let clock = Clock::new();
    let inputs = crew::split(words, setting.threads)
        .into_iter()
        .map(|words| Ok((words, Latencies::new()?)))
        .collect::<Result<Vec<_>>>()?;
    let (done, timing) = crew::run(inputs, |(words, mut latencies)| {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut effort = Effort::begin();
        let started = clock.raw();
        let wrong = observe::<1, u64>(
            &clock,
            words,
            |key| map.insert(key, Writer::Insert.value(key)),
            |Timed { ended, ns }| {
                latencies.record(ns);
                if let Ok(watched) = &mut effort
                    && let Err(error) = watched.count(ns)
                {
                    effort = Err(error);
                }
                let index = (clock.delta_as_nanos(started, ended) / INTERVAL_NS) as usize;
                if index >= intervals.len() {
                    intervals.resize(index + 1, Interval::default());
                }
                let interval = &mut intervals[index];
                interval.ops += 1;
                interval.max_ns = interval.max_ns.max(ns);
            },
        );
        (wrong, latencies, intervals, effort.and_then(Effort::end))
    })?;
    let mut all = Latencies::new()?;
    let mut timeline: Vec<Interval> = Vec::new();
    let mut wrong = 0;
    let (mut own_max_ns, mut waits) = (0, 0);
    for (part_wrong, latencies, intervals, effort) in done {
        wrong += part_wrong;
        all.merge(&latencies)?;
        let (part_own_max_ns, part_waits) = effort?;
        own_max_ns = part_own_max_ns.max(own_max_ns);
        waits += part_waits;
        timeline.resize(timeline.len().max(intervals.len()), Interval::default());
        for (sum, part) in timeline.iter_mut().zip(&intervals) {
            sum.ops += part.ops;
            sum.max_ns = sum.max_ns.max(part.max_ns);
        }
    }
    crew::refuse_wrong(op, wrong, words.len() as u64)?;

    let rate = words.len() as f64 / timing.elapsed_s;
    let whole = Row {
        cpu_share: timing.cpu_share,
        own_max_ns: Some(own_max_ns as f64),
        waits: Some(waits as f64),
        ..row(name, op, map, setting)
    };
    let mut rows = vec![all.on(whole.with_rate(rate, None))];
    let mut pairs = setting.grow_from;
    for (step, interval) in (0u32..).zip(&timeline) {
        pairs += interval.ops;
        let at_s = f64::from(step) * INTERVAL.as_secs_f64();
        // The last interval is cut short.
        let lasted_s = (timing.elapsed_s - at_s).clamp(1e-9, INTERVAL.as_secs_f64());
        let row = Row {
            step: Some(step),
            at_s: Some(at_s),
            pairs: Some(pairs),
            max_ns: Some(interval.max_ns as f64),
            ..setting.row("resize", "timeline", name)
        };
        rows.push(row.with_rate(interval.ops as f64 / lasted_s, None));
    }
    Ok(rows)
}
