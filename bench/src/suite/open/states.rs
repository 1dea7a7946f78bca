//! Openings of files that were closed, of those that a killed process has left, and of those after power loss.

use super::subject::Subject;
use super::{KILLED_PUTS, RESTART_PUTS};
use crate::choices::State;
use crate::row::Row;
use crate::suite::durable::read_files;
use crate::victim::Task;
use anyhow::{Context, Result, ensure};

const GET: Task = Task::Touch { get: true, put: false };
const PUT: Task = Task::Touch { get: false, put: true };
const GET_AND_PUT: Task = Task::Touch { get: true, put: true };
const PUT_AND_DIE: Task = Task::Put { pairs: KILLED_PUTS, synced: false };

/// A get and a put, each in an opening of its own. `left` leaves the files as they are to be found.
fn openings(
    subject: &mut Subject<'_>,
    state: &str,
    left: impl Fn(&mut Subject<'_>) -> Result<()>,
) -> Result<Vec<Row>> {
    left(subject)?;
    let (got, wrote) = subject.closed(GET)?;
    let mut rows = vec![
        subject.took_and_wrote(&format!("{state}_first_get"), got.get_s, wrote),
        subject.took(&format!("{state}_built"), got.built_s),
    ];
    left(subject)?;
    let (put, wrote) = subject.closed(PUT)?;
    rows.push(subject.took_and_wrote(&format!("{state}_first_put"), put.put_s, wrote));
    rows.push(subject.took(&format!("{state}_put_synced"), put.synced_s));
    Ok(rows)
}

/// Openings of closed files.
pub(super) fn clean(subject: &mut Subject<'_>) -> Result<Vec<Row>> {
    openings(subject, "clean", |_| Ok(()))
}

/// Openings of what a killed process has left.
pub(super) fn killed(subject: &mut Subject<'_>) -> Result<Vec<Row>> {
    openings(subject, "killed", |subject| {
        subject.start(PUT_AND_DIE)?.1.kill()?;
        Ok(())
    })
}

/// Opening after another, each with some puts. All are closed, or all are killed.
pub(super) fn restarts(subject: &mut Subject<'_>, count: u64, state: State) -> Result<Row> {
    let task = Task::Put { pairs: RESTART_PUTS, synced: false };
    let is_closed = state == State::Clean;
    let (longest_s, written) = subject.counted(|subject| {
        let (mut longest_s, mut bytes) = (0.0f64, 0);
        for _ in 0..count {
            let (report, victim) = subject.start(task)?;
            longest_s = longest_s.max(report.put_s.unwrap_or(0.0));
            bytes += if is_closed { victim.close()? } else { victim.kill()? };
        }
        Ok((longest_s, bytes))
    })?;
    // It looks at what they have put, and leaves the files closed.
    subject.closed(GET)?;
    let op = if is_closed { "restarts_closed" } else { "restarts_killed" };
    Ok(subject.took_and_wrote(op, Some(longest_s), written))
}

/// An opening of a pool that has to be restored.
pub(super) fn power_loss(subject: &mut Subject<'_>) -> Result<Vec<Row>> {
    ensure!(subject.has_log(), "a pool without a log is lost");
    let pairs = (subject.setting().pairs / 4).max(1);
    subject.start(Task::Put { pairs, synced: true })?.1.kill()?;
    std::fs::remove_file(subject.place().pool).context("removing the pool's file")?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (bytes, read_s) = read_files(&subject.logs()?, threads)?;
    let (report, written) = subject.closed(GET_AND_PUT)?;
    let read = Row {
        bytes_per_pair: Some(bytes as f64 / subject.setting().pairs as f64),
        ..subject.took("read_files", Some(read_s))
    };
    let first_get = Row {
        ratio: report.get_s.map(|get_s| get_s / read_s),
        ..subject.took_and_wrote("power_loss_first_get", report.get_s, written)
    };
    Ok(vec![
        read,
        first_get,
        subject.took("power_loss_first_put", report.put_s),
        subject.took("power_loss_put_synced", report.synced_s),
        subject.took("power_loss_built", report.built_s),
    ])
}
