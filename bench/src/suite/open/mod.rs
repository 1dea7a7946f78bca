//! Opening files again, by size: how long until something is answered, and what is written to disks for it.
//!
//! Each opening is in a process of its own, which is this program started once more. It is told to close what it has
//! opened, or killed with SIGKILL. Files are made in the first round and kept for the others, in which contenders take
//! turns. They are in the page cache, but for logs and checkpoints, which are read past it.
//!
//! firndex's contenders are named after the durability of their pools, as in suite `durable`. Tables have keys and
//! values of 8 bytes, and are told how many pairs will come. Stores have keys of 16 bytes and values of 100, and are
//! not. Other authors' stores get the same pairs.
//!
//! | row | `took_s` |
//! |---|---|
//! | `STATE_first_get` | from the beginning of the opening until a get is answered |
//! | `STATE_first_put` | the same of a put; in another opening, except after power loss |
//! | `STATE_put_synced` | ... and until it survives power loss |
//! | `STATE_built` | from the beginning of the opening, of that with a get, until nothing is left to do for it |
//! | `at_rest` | nothing: what the files take once they are closed |
//! | `restarts_closed`, `restarts_killed` | the longest time until the first of an opening's puts is answered; there are a thousand in each |
//! | `read_files` | reading log and checkpoints, past the page cache, before an opening after power loss |
//! | `command_start` | `firndex --version` |
//! | `command_put`, `command_get` | `firndex put` of an absent key and then of a present one, and `firndex get` |
//!
//! | state | how it is made |
//! |---|---|
//! | `clean` | the files were closed |
//! | `killed` | a process has put a thousand pairs and was killed |
//! | `power_loss` | a process has put a quarter of the pairs since a checkpoint, synced and was killed, and the pool's file is gone: as if from an earlier boot, it is restored from checkpoint and log. Only for pools with a log |
//!
//! `written_bytes` is what the kernel charged the process with, from its start to its end, and `device_bytes` what the
//! device wrote until everything was there. The latter includes what anybody else writes meanwhile, the former whole
//! folios where only some blocks were written (see `written.rs`). A bar takes the smaller one.
//!
//! Each opening looks up what was put before it, and a sample of all pairs.

pub mod claims;
mod commands;
mod order;
mod states;
mod subject;

pub(crate) use order::obey;

use crate::byte_store::Reopens;
use crate::choices::{Kind, Logging, Openings, State, chosen};
use crate::contender::Contender;
use crate::kept::Form;
use crate::row::Row;
use crate::setting::Setting;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use subject::Subject;

/// The suite's name.
pub(crate) const NAME: &str = "open";
/// Pairs by default.
pub(crate) const PAIRS: u64 = 500_000;
/// Puts of a process that is killed.
const KILLED_PUTS: u64 = 1000;
/// Puts of each of many openings in a row.
const RESTART_PUTS: u64 = 1000;

/// One round of one contender, at all sizes.
pub(crate) fn round(contender: &dyn Contender, setting: &Setting) -> Result<Vec<Row>> {
    let choices = &setting.openings;
    let mut rows = Vec::new();
    if contender.engine().is_some()
        && let Some(command) = &choices.command
    {
        rows.push(commands::start(command, setting)?);
    }
    for (step, &pairs) in choices.sizes.iter().enumerate() {
        let setting = Setting { pairs, ..setting.clone() };
        for form in forms(contender, choices) {
            let mut kept = setting.kept.files();
            let mut subject = Subject::new(contender, form, step as u32, &setting, &mut kept)?;
            let round = round_of(&mut subject, choices);
            rows.extend(round.with_context(|| format!("{}, {pairs} pairs", subject.name()))?);
        }
    }
    Ok(rows)
}

/// The forms in which a contender is measured. Only firndex's engines have pools with a log and without.
fn forms(contender: &dyn Contender, choices: &Openings) -> Vec<Form> {
    let logging: Vec<Option<Logging>> = match contender.engine() {
        Some(_) => chosen(&choices.logging).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let kinds = chosen(&choices.kinds);
    kinds
        .into_iter()
        .flat_map(|kind| logging.iter().map(move |&logging| Form { kind, logging }))
        .collect()
}

fn round_of(subject: &mut Subject<'_>, choices: &Openings) -> Result<Vec<Row>> {
    let states = chosen(&choices.states);
    let survives_kills = subject.contender().reopens() == Reopens::Killed;
    subject.read_ahead()?;
    let mut rows = vec![subject.at_rest()?];
    if states.contains(&State::Clean) {
        rows.extend(states::clean(subject)?);
        if let (Some(command), Some(_)) = (&choices.command, subject.form().logging) {
            rows.extend(commands::changes(subject, command)?);
        }
        if choices.restarts > 0 {
            rows.push(states::restarts(subject, choices.restarts, State::Clean)?);
        }
    }
    if states.contains(&State::Killed) && survives_kills {
        rows.extend(states::killed(subject)?);
        if choices.restarts > 0 {
            rows.push(states::restarts(subject, choices.restarts, State::Killed)?);
        }
    }
    if states.contains(&State::PowerLoss) && subject.form().logging == Some(Logging::Periodic) {
        rows.extend(states::power_loss(subject)?);
    }
    Ok(rows)
}

/// What a pair of a table or a store takes in a file, at least.
fn pair_bytes(kind: Kind) -> u64 {
    match kind {
        Kind::Table => 20,
        Kind::Store => 140,
    }
}

/// Fails if these choices cannot be measured in this directory.
pub(crate) fn check(choices: &Openings, directory: &Path) -> Result<()> {
    if let Some(command) = &choices.command {
        ensure!(command.is_file(), "--command {} is no program", command.display());
    }
    let pools = choices.pools.as_deref().unwrap_or(directory);
    let least: u64 = chosen(&choices.kinds)
        .into_iter()
        .map(|kind| choices.sizes.iter().sum::<u64>().saturating_mul(pair_bytes(kind)))
        .fold(0, u64::saturating_add);
    for directory in [directory, pools] {
        let system = rustix::fs::statvfs(directory)
            .with_context(|| format!("looking at {}", directory.display()))?;
        let available = system.f_bavail.saturating_mul(system.f_frsize);
        ensure!(
            least <= available,
            "the files of one contender need at least {} MiB, and {} has {} MiB",
            least >> 20,
            directory.display(),
            available >> 20
        );
    }
    Ok(())
}
