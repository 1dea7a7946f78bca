//! The figures of a demonstration, for a person or for a program.

use std::fmt::{self, Write};

use dedup::Outcome;
use indicatif::{BinaryBytes, HumanCount};
use serde_json::{Value, json};

use crate::output::finite;

pub(super) fn to_json(outcome: &Outcome) -> Value {
    json!({
        "files": outcome.files,
        "bytes": outcome.bytes,
        "chunks": outcome.chunks,
        "unique": outcome.unique,
        "kills": outcome.kills.len(),
        "acknowledged": outcome.acknowledged,
        "lost": outcome.lost,
        "reopen_ms": outcome.reopen_ms,
        "puts_per_s": finite(outcome.puts_per_s),
        "gets_per_s": finite(outcome.gets_per_s),
        "load_factor": finite(outcome.load_factor),
        "bytes_per_key": finite(outcome.bytes_per_key),
    })
}

pub(super) fn to_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: fmt::Arguments<'_>| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    let share = 100.0 * outcome.duplicate_bytes as f64 / outcome.bytes.max(1) as f64;
    row("directory", format_args!("{}", outcome.dir.display()));
    row("files", format_args!("{}", HumanCount(outcome.files)));
    row("bytes", format_args!("{}", BinaryBytes(outcome.bytes)));
    row("chunks", format_args!("{}", HumanCount(outcome.chunks)));
    row("unique chunks", format_args!("{}", HumanCount(outcome.unique)));
    let duplicate = BinaryBytes(outcome.duplicate_bytes);
    row("duplicates", format_args!("{duplicate} ({share:.1} % of the bytes)"));
    row("kills", format_args!("{}", kills(outcome)));
    row("acknowledged", format_args!("{}", HumanCount(outcome.acknowledged)));
    row("lost", format_args!("{}", HumanCount(outcome.lost)));
    for times in outcome.reopen_ms.chunks(8) {
        let times: Vec<String> = times.iter().map(|ms| format!("{ms:.1}")).collect();
        row("reopened in", format_args!("{} ms", times.join(" / ")));
    }
    row("inserts", format_args!("{} per second", HumanCount(outcome.puts_per_s as u64)));
    row("gets", format_args!("{} per second", HumanCount(outcome.gets_per_s as u64)));
    row("load factor", format_args!("{:.1} %", 100.0 * finite(outcome.load_factor)));
    row("bytes per key", format_args!("{:.1}", finite(outcome.bytes_per_key)));
    text
}

/// How often and when the writing process was killed; of many kills the first and the last.
fn kills(outcome: &Outcome) -> String {
    let counts: Vec<String> = outcome.kills.iter().map(|at| HumanCount(*at).to_string()).collect();
    let when = match counts.as_slice() {
        [] => return "0".into(),
        [first, .., last] if counts.len() > 8 => format!("{first} / … / {last}"),
        counts => counts.join(" / "),
    };
    format!("{}, after {when} reports (seed {})", counts.len(), outcome.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_promised_keys_and_numbers_only() {
        let outcome = Outcome {
            kills: vec![5, 9],
            reopen_ms: vec![1.5, 2.0],
            bytes_per_key: f64::NAN,
            ..Outcome::default()
        };
        let json = to_json(&outcome);
        let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut promised: Vec<&str> =
            "files bytes chunks unique kills acknowledged lost reopen_ms \
            puts_per_s gets_per_s load_factor bytes_per_key"
                .split_whitespace()
                .collect();
        promised.sort_unstable();
        assert_eq!(keys, promised);
        assert_eq!(json["kills"], 2);
        assert_eq!(json["reopen_ms"], json!([1.5, 2.0]));
        assert_eq!(json["bytes_per_key"], 0.0);
    }
}
