//! What a run came to, told to a person or to a program.

use std::fmt::{self, Write};

use indicatif::{BinaryBytes, HumanCount};
use serde_json::{Value, json};

use crate::output::finite;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(super) dir: String,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    pub(super) unique: u64,
    /// Bytes in chunks whose like was stored from another place.
    pub(super) duplicate_bytes: u64,
    /// The counts of reports at which the writer was killed.
    pub(super) kills: Vec<u64>,
    pub(super) seed: u64,
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    /// Whether every check found the pool sound.
    pub(super) sound: bool,
    /// One for each kill.
    pub(super) reopen_ms: Vec<f64>,
    pub(super) puts_per_s: f64,
    pub(super) gets_per_s: f64,
    pub(super) load_factor: f64,
    pub(super) bytes_per_key: f64,
}

impl Outcome {
    /// What broke the promise, if anything did.
    pub(crate) fn breach(&self) -> Option<String> {
        if self.lost == 0 && self.sound {
            return None;
        }
        let state = if self.sound { "sound" } else { "not sound" };
        Some(format!(
            "{} of {} acknowledged chunks are lost, and the pool is {state}",
            self.lost, self.acknowledged
        ))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "files": self.files,
            "bytes": self.bytes,
            "chunks": self.chunks,
            "unique": self.unique,
            "kills": self.kills.len(),
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "reopen_ms": self.reopen_ms,
            "puts_per_s": finite(self.puts_per_s),
            "gets_per_s": finite(self.gets_per_s),
            "load_factor": finite(self.load_factor),
            "bytes_per_key": finite(self.bytes_per_key),
        })
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{name:<16}{value}");
        };
        let share = 100.0 * self.duplicate_bytes as f64 / self.bytes.max(1) as f64;
        row("directory", format_args!("{}", self.dir));
        row("files", format_args!("{}", HumanCount(self.files)));
        row("bytes", format_args!("{}", BinaryBytes(self.bytes)));
        row("chunks", format_args!("{}", HumanCount(self.chunks)));
        row("unique chunks", format_args!("{}", HumanCount(self.unique)));
        let duplicate = BinaryBytes(self.duplicate_bytes);
        row("duplicates", format_args!("{duplicate} ({share:.1} % of the bytes)"));
        let counts: Vec<String> = self.kills.iter().map(|at| HumanCount(*at).to_string()).collect();
        match counts.as_slice() {
            [] => row("kills", format_args!("0")),
            _ => row(
                "kills",
                format_args!(
                    "{}, after {} reports (seed {})",
                    counts.len(),
                    Some(counts.join(" / ")).filter(|_| counts.len() <= 8).unwrap_or_else(|| {
                        format!("{} / … / {}", counts[0], counts[counts.len() - 1])
                    }),
                    self.seed
                ),
            ),
        }
        row("acknowledged", format_args!("{}", HumanCount(self.acknowledged)));
        row("lost", format_args!("{}", HumanCount(self.lost)));
        for times in self.reopen_ms.chunks(8) {
            let times: Vec<String> = times.iter().map(|ms| format!("{ms:.1}")).collect();
            row("reopened in", format_args!("{} ms", times.join(" / ")));
        }
        row("inserts", format_args!("{} per second", HumanCount(self.puts_per_s as u64)));
        row("gets", format_args!("{} per second", HumanCount(self.gets_per_s as u64)));
        row("load factor", format_args!("{:.1} %", 100.0 * finite(self.load_factor)));
        row("bytes per key", format_args!("{:.1}", finite(self.bytes_per_key)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_chunk_or_an_unsound_pool_is_a_breach() {
        let good = Outcome { acknowledged: 9, sound: true, ..Outcome::default() };
        assert_eq!(good.breach(), None);
        let lossy = Outcome { lost: 1, ..good.clone() };
        assert!(lossy.breach().is_some_and(|told| told.starts_with("1 of 9 ")));
        let unsound = Outcome { sound: false, ..good };
        assert!(unsound.breach().is_some());
    }

    #[test]
    fn json_has_the_promised_keys_and_numbers_only() {
        let outcome = Outcome {
            kills: vec![5, 9],
            reopen_ms: vec![1.5, 2.0],
            bytes_per_key: f64::NAN,
            ..Outcome::default()
        };
        let json = outcome.to_json();
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
