//! The command `firndex` on closed pools.

use super::NAME;
use super::subject::Subject;
use crate::choices::Kind;
use crate::row::{Row, median};
use crate::setting::Setting;
use crate::written;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Commands of a kind, whose median counts.
const COMMANDS: usize = 7;

/// What a command said, how long it took, and the bytes that it was charged with.
fn run(command: &mut Command) -> Result<(String, f64, u64)> {
    let started = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.with_context(|| format!("starting {:?}", command.get_program()))?;
    let bytes = written::by_ended(&child)?;
    let took_s = started.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?}: {}", command.get_args(), errors.trim());
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took_s, bytes))
}

/// A process of the command that opens nothing.
pub(super) fn start(command: &Path, setting: &Setting) -> Result<Row> {
    let mut times_s = Vec::new();
    for _ in 0..COMMANDS {
        times_s.push(run(Command::new(command).arg("--version"))?.1);
    }
    let row = setting.row(NAME, "command_start", "machine");
    Ok(Row { pairs: None, took_s: median(&mut times_s), ..row })
}

/// Puts and gets by command, each of which opens the pool and closes it.
pub(super) fn changes(subject: &mut Subject<'_>, command: &Path) -> Result<Vec<Row>> {
    let place = subject.place();
    let of = |verb: &str| {
        let mut command = Command::new(command);
        command.arg(verb).arg(&place.pool);
        if place.pool.parent() != Some(&place.logs) {
            command.arg("--log-dir").arg(&place.logs);
        }
        command
    };
    // A table's are numbers. Neither key is that of a pair.
    let key = if subject.form().kind == Kind::Table { "7" } else { "bench" };
    let value = |number: usize| number.to_string();
    let (mut puts_s, mut gets_s, mut by_gets) = (Vec::new(), Vec::new(), Vec::new());
    let (by_puts, written) = subject.counted(|_| {
        let mut by_puts = Vec::new();
        for number in 0..COMMANDS {
            let (_, took_s, bytes) = run(of("put").args([key, &value(number)]))?;
            puts_s.push(took_s);
            by_puts.push(bytes as f64);
        }
        Ok((by_puts, 0))
    })?;
    for _ in 0..COMMANDS {
        let (said, took_s, bytes) = run(of("get").arg(key))?;
        let expected = value(COMMANDS - 1);
        ensure!(said.trim_end() == expected, "firndex get says {said:?} instead of {expected:?}");
        gets_s.push(took_s);
        by_gets.push(bytes as f64);
    }
    let row = |op: &str, mut times_s: Vec<f64>, mut bytes: Vec<f64>| Row {
        written_bytes: median(&mut bytes),
        ..subject.took(op, median(&mut times_s))
    };
    let put = Row {
        device_bytes: written.by_device.map(|bytes| bytes as f64 / COMMANDS as f64),
        ..row("command_put", puts_s, by_puts)
    };
    Ok(vec![put, row("command_get", gets_s, by_gets)])
}
